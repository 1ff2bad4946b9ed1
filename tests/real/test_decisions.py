"""``logs decisions`` and ``txns decisions`` on a real Apache Kafka: a thousand transactions of both
flows give no alarm, also while producers write. KAFKA-20734 as a stock client plays it is
convicted, and so is each marker that was changed on the disks.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real import leaderless
from tests.real.decision_load import PARTITIONS, TOPIC, write_load
from tests.support.apache_kafka import ApacheKafka
from tests.support.changed_segments import markers_in, remove_marker, repeat_marker, turn_marker
from tests.support.foreign_clients import java_program
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster

pytest.importorskip("duckdb", reason="the extra spark is not installed")
pytestmark = pytest.mark.real

TRANSACTIONS: Final = 1_000
BROKERS: Final = (1, 2)
Report = dict[str, Any]
AskDecisions = Callable[..., tuple[int, Report]]


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> AskDecisions:
    """Runs a command; returns its exit status and its JSON."""

    def ask(*arguments: str) -> tuple[int, Report]:
        capsys.readouterr()
        status = main([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(
        brokers=len(BROKERS),
        properties=leaderless._ALONE,
        directory=tmp_path_factory.mktemp("kafka"),
        jvm_options=("-Xmx512m", "-XX:TieredStopAtLevel=1"),
    ) as running_kafka:
        asyncio.run(create_topic(running_kafka.bootstrap))
        yield running_kafka


async def create_topic(bootstrap: str) -> None:
    async with Cluster(bootstrap) as cluster:
        await Admin(cluster).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)


def data_of(kafka: ApacheKafka) -> list[str]:
    return [str(home / "data") for home in kafka.homes]


def play_commit_without_leader(kafka: ApacheKafka) -> str:
    """A stock client commits while a partition has no leader; returns that partition's topic."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [*java_program("CommitWithoutALeader"), kafka.bootstrap]
    topics: list[str] = []
    with subprocess.Popen(command, text=True, **pipes) as client:  # type: ignore[call-overload]
        for printed_line in client.stdout:
            match json.loads(printed_line).get("do"):
                case "kill-2":
                    kafka.kill(2)
                case "start-2":
                    kafka.start_again(2)
                case _:
                    continue
            os.write(client.stdin.fileno(), b"done\n")
    assert client.returncode == 0
    topics = [path.name for home in kafka.homes for path in (home / "data").glob("*-java-t-0")]
    (topic,) = {name.removesuffix("-0") for name in topics}
    return topic


def test_a_defect_is_convicted_and_nothing_else(
    kafka: ApacheKafka, asked: AskDecisions, tmp_path: Path
) -> None:
    decisions_arguments = ("txns", "--bootstrap-server", kafka.bootstrap, "decisions")

    ended_event = threading.Event()
    answers: list[tuple[int, Report]] = []

    async def write() -> None:
        await write_load(kafka.bootstrap, TRANSACTIONS)
        ended_event.set()

    def ask_meanwhile() -> None:
        while not ended_event.is_set():
            answers.append(asked(*decisions_arguments))

    async def write_and_ask() -> None:
        await asyncio.gather(write(), asyncio.to_thread(ask_meanwhile))

    asyncio.run(write_and_ask())
    assert len(answers) > 1
    assert {(status, len(report["findings"])) for status, report in answers} == {(0, 0)}
    status, healthy = asked(*decisions_arguments)
    assert (status, healthy["unknown"], healthy["owed"]) == (0, 0, 0)
    assert healthy["agrees"] == healthy["decisions"] > 2 * TRANSACTIONS

    topic = play_commit_without_leader(kafka)
    status, live_report = asked(*decisions_arguments)
    assert status == 3
    for broker in reversed(BROKERS):
        kafka.stop_broker(broker)
    status, on_disk = asked("logs", "decisions", *data_of(kafka))
    assert status == 3
    for report in (live_report, on_disk):
        (finding,) = report["findings"]
        assert (finding["state"], finding["topic"]) == ("no-marker", topic)
        assert finding["explained_by"] == "KAFKA-20734"
        assert finding["decision"]["outcome"] == "commit"
        assert finding["records"] == 1
        assert report["agrees"] == report["decisions"] - 1 == healthy["decisions"] + 1

    for change, state in (
        (remove_marker, "no-marker"),
        (turn_marker, "contradicts"),
        (repeat_marker, "twice"),
    ):
        for number in (0, -2):
            disks_directory = tmp_path / f"{state}{number}"
            shutil.copytree(kafka.directory, disks_directory)
            replicas = sorted(disks_directory.rglob(f"{TOPIC}-1"))
            marker = markers_in(replicas[0])[number]
            for replica in replicas:
                change(replica, marker.offset)
            directories = [str(replica.parent) for replica in replicas]
            status, changed_report = asked("logs", "decisions", *directories, "--topic", TOPIC)
            assert status == 3
            (finding,) = changed_report["findings"]
            assert (finding["state"], finding["producer_id"]) == (state, marker.producer_id)
