"""Brokers as processes, with a program in place of ``java``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from txnsim.errors import ConfigError
from txnsim.types import TopicPartition
from txnsim_lab.target.apache import ApacheBrokers, ApacheOptions

FORMATS = """#!/bin/sh
case "$*" in *StorageTool*) {format};; *kafka.Kafka*) {serve};; esac
"""


def options(version: str = "4.3.1") -> ApacheOptions:
    return ApacheOptions(
        version=version,
        libs=Path("/libs"),
        brokers=3,
        transaction_version=2,
        properties={"transaction.max.timeout.ms": "3600000"},
    )


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return tmp_path / "java"


def write(java: Path, *, format: str = "exit 0", serve: str = "exec sleep 600") -> None:
    java.write_text(FORMATS.format(format=format, serve=serve))
    java.chmod(0o755)


def properties(brokers: ApacheBrokers, name: str) -> dict[str, str]:
    text = (brokers.home / name / "server.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


async def test_brokers_reach_each_other_through_doors_and_the_controller_is_apart(
    java: Path, tmp_path: Path
) -> None:
    write(java, format=f'echo "$*" >> {tmp_path}/formatted')
    brokers = ApacheBrokers(options())
    await brokers.start({1: 5001, 2: 5002, 3: 5003})
    try:
        second, controller = properties(brokers, "broker-2"), properties(brokers, "controller")
        assert second["advertised.listeners"].endswith("INTERNAL://127.0.0.1:5002")
        assert f"INTERNAL://127.0.0.1:{brokers.peers[1].port}" in second["listeners"]
        assert (second["process.roles"], controller["process.roles"]) == ("broker", "controller")
        assert second["controller.quorum.voters"] == controller["controller.quorum.voters"]
        assert second["transaction.max.timeout.ms"] == "3600000"
        formatted = (tmp_path / "formatted").read_text().splitlines()
        assert len(formatted) == 4
        assert all("--feature transaction.version=2" in line for line in formatted)
        assert brokers.exited() == ""

        await brokers.kill(2)
        assert brokers.exited().startswith("broker-2 exited with -9")
        with pytest.raises(ConfigError, match="there is no broker 2 that runs"):
            await brokers.shut_down(2)
        await brokers.mend()
        assert brokers.exited() == ""
        await brokers.shut_down(2)
        await brokers.start_again(2)
    finally:
        home = brokers.home
        await brokers.stop()
    assert not home.exists()


async def test_before_4_0_there_is_no_feature_to_format_with(java: Path, tmp_path: Path) -> None:
    write(java, format=f'echo "$*" >> {tmp_path}/formatted')
    brokers = ApacheBrokers(options("3.5.2"))
    try:
        await brokers.start({1: 5001, 2: 5002, 3: 5003})
    finally:
        await brokers.stop()
    assert "--feature" not in (tmp_path / "formatted").read_text()


async def test_storage_that_can_not_be_formatted_is_told(java: Path) -> None:
    write(java, format='echo "no space left"; exit 1')
    brokers = ApacheBrokers(options())
    try:
        with pytest.raises(ConfigError, match="could not be formatted:\nno space left"):
            await brokers.start({1: 5001, 2: 5002, 3: 5003})
    finally:
        await brokers.stop()


async def test_no_process_that_formats_outlives_the_failure_of_another(
    java: Path, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    write(java, format=f'case "$*" in *broker-2*) exit 1;; esac; sleep 0.3; echo >> {ended}')
    brokers = ApacheBrokers(options())
    try:
        with pytest.raises(ConfigError, match="could not be formatted"):
            await brokers.start({1: 5001, 2: 5002, 3: 5003})
        assert ended.read_text() == "\n\n\n", "the controller and two brokers"
    finally:
        await brokers.stop()


def test_segments_and_the_cleaners_place_are_read_from_a_brokers_disk() -> None:
    brokers = ApacheBrokers(options())
    data = brokers.home / "broker-2" / "data"
    replica = data / "t-0"
    replica.mkdir(parents=True)
    place = TopicPartition("t", 0)
    try:
        assert brokers.cleaned_until(2, place) == -1
        for name in ("00000000000000000000.log", "00000000000000000012.log", "leader-epoch"):
            (replica / name).touch()
        (data / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 12\nu 0 5\n")
        assert brokers.segments(2, place) == [0, 12]
        assert brokers.cleaned_until(2, place) == 12
        assert brokers.cleaned_until(2, TopicPartition("t", 1)) == -1
    finally:
        shutil.rmtree(brokers.home)
