from __future__ import annotations

import os
from pathlib import Path

import pytest

import txnsim_lab
from txnsim.errors import ConfigError
from txnsim_lab.scenario import catalog


@pytest.mark.slow
def test_every_scenario_that_comes_along_is_found_by_name_and_by_each_alias() -> None:
    known = catalog.scenarios()
    assert known
    for path, scenario in known.items():
        assert path.stem == scenario.name
        for name in (scenario.name, *scenario.aliases, scenario.name.upper()):
            assert catalog.find(name) == (path, scenario)
        assert catalog.find(str(path)) == (path, scenario)


def test_a_name_has_only_the_files_read_that_mention_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = catalog.load

    def load(path: Path) -> object:
        read.append(path.stem)
        return real(path)

    monkeypatch.setattr(catalog, "load", load)
    catalog._load_once.cache_clear()
    assert catalog.of_name("Z01") is not None
    assert len(read) < len(list(catalog.directory().glob("*.yaml"))) / 2, read
    assert catalog.of_name("no-such-scenario-at-all") is None


def test_a_wheel_carries_them_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "txnsim_lab"
    (package / "scenarios").mkdir(parents=True)
    monkeypatch.setattr(txnsim_lab, "__file__", str(package / "__init__.py"))
    assert catalog.directory() == package / "scenarios"
    assert catalog.scenarios() == {}
    (package / "scenarios").rmdir()
    with pytest.raises(ConfigError, match="the installation is incomplete"):
        catalog.directory()


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        catalog.find("late-produce")
    assert "did you mean late-produce-after-abort?" in str(caught.value)


def test_a_file_that_cant_be_read_is_named(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yml"
    binary.write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match=r"missing\.yaml: can't be read: No such file"):
        catalog.find(str(missing))
    with pytest.raises(ConfigError, match=r"binary\.yml: not UTF-8 at byte 6"):
        catalog.find(str(binary))


def test_a_file_is_read_again_only_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = catalog.find("z01")[0].read_text("utf-8")
    monkeypatch.setattr(catalog, "directory", lambda: tmp_path)
    file = tmp_path / "late-produce-after-abort.yaml"
    file.write_text(source, "utf-8")
    first = catalog.find("late-produce-after-abort")[1]
    assert catalog.find("z01")[1] is first
    file.write_text(source.replace("title: A produce", "title: One produce"), "utf-8")
    os.utime(file, ns=(1, 1))
    assert catalog.find("z01")[1].title.startswith("One produce")


@pytest.mark.slow
def test_heads_say_what_the_models_say() -> None:
    found = {one["name"]: one for one in catalog.heads()}
    known = {one.name: one for one in catalog.scenarios().values()}
    assert list(found) == [one.name for one in known.values()]
    for name, scenario in known.items():
        head = found[name]
        assert tuple(head.get("aliases", ())) == scenario.aliases
        assert head.get("anomaly", "") == scenario.anomaly
        assert head["title"] == scenario.title
        assert list(head["runs"]) == list(scenario.runs)
