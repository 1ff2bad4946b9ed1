from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import ConfigError
from txnsim_lab.target import jars

MAVEN = """#!/bin/sh
for word in "$@"; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done
%s
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on its path but what a test puts there."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return programs


def maven(programs: Path, does: str) -> None:
    (programs / "mvn").write_text(MAVEN % does)
    (programs / "mvn").chmod(0o755)


def test_jars_are_fetched_once(machine: Path) -> None:
    maven(machine, 'mkdir -p "$to"; touch "$to/kafka.jar"')
    said: list[str] = []
    libs = jars.fetch("4.3.1", say=said.append)
    assert [one.name for one in libs.iterdir()] == ["kafka.jar"]
    assert libs == jars.directory_of("4.3.1")
    maven(machine, "exit 1")
    assert jars.fetch("4.3.1", say=said.append) == libs
    assert len(said) == 1


def test_what_maven_complains_of_is_told_and_nothing_half_is_kept(machine: Path) -> None:
    maven(machine, 'mkdir -p "$to"; echo "no such artifact"; exit 1')
    with pytest.raises(ConfigError, match=r"can't fetch Apache Kafka 9\.9\.9:\nno such artifact"):
        jars.fetch("9.9.9", say=lambda _: None)
    assert not jars.directory_of("9.9.9").exists()


def test_without_maven_or_java_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match=r"mvn: not found; .* JDK 17 and Maven"):
        jars.fetch("4.3.1", say=lambda _: None)
    with pytest.raises(ConfigError, match="java: not found"):
        jars.java()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("4.3.1", "such as apache-4.4.0"), ("apache-4", "such as"), ("apache-2.7.2", "too old")],
)
def test_only_releases_with_kraft_can_be_named(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        jars.version_of(name)


def test_a_release_is_named_by_its_version() -> None:
    assert jars.version_of("apache-3.5.2") == "3.5.2"
