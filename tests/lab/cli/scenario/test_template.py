from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim_lab.cli._scenario.template import write


@pytest.mark.slow
def test_a_new_story_is_sound_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["scenario", "new", "my-story"]) == 0
    printed = capsys.readouterr().out.splitlines()
    for command in printed[1:]:
        assert main([*command.split()[1:], "--json"]) == 0
    checked, ran = capsys.readouterr().out.split("\n[", 1)
    assert json.loads(checked)[0]["problems"] == []
    assert {one["take"] for one in json.loads("[" + ran)} == {"armed", "disarmed"}


@pytest.mark.parametrize("name", ["My Story", "a_b", "", "-a", "a/b"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a name in lower case"):
        write(name, tmp_path)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    first = write("a.yaml", tmp_path)
    assert first == tmp_path / "a.yaml"
    first.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        write("a", tmp_path)
    assert first.read_text() == "mine"
    with pytest.raises(ConfigError, match="No such file or directory"):
        write("a", tmp_path / "none")
