"""``txnsim stream`` as a whole: it shows what the connector does not see, and writes every
committed record exactly once, whatever is killed when.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.dataset as ds
import pytest

from tests.spark.pipeline.stream_process import StreamProcess
from tests.spark.pipeline.stream_program import options_for
from tests.support.hanging_transaction import make_hanging
from tests.support.kafka_targets import SETTINGS, KafkaTarget, kafka_target
from tests.support.local_folder import LocalFolder
from tests.support.spark_connector import connector_jars, delta_jars
from tests.support.txnsim_server import TxnsimServer, installed_txnsim
from txnsim.cli.client_properties import property_entries, read_client_properties
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.errors import BadInputError
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim_spark.streaming._alerts import Alert
from txnsim_spark.streaming._checkpoint import Folder
from txnsim_spark.streaming._sink import DONE_NAME
from txnsim_spark.streaming.events import AlertChanged, BatchWritten, StreamEvent
from txnsim_spark.streaming.options import StreamOptions
from txnsim_spark.streaming.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
# What a stream asks of a real broker, test_connector and tests/real ask of one, too; here that is
# one more JVM of Spark and one of Kafka.
KINDS = ["txnsim", pytest.param("apache", marks=[pytest.mark.real, pytest.mark.slow])]


def write(
    target: KafkaTarget, topic: str, record_values: Iterable[str], *, is_commit: bool = True
) -> None:
    """Write a transaction; a value goes to the partition of its last digit modulo 2."""

    async def whole(admin: Admin) -> None:
        async with Producer(admin.cluster, transactional_id="app") as producer:
            await producer.init_transactions()
            producer.begin()
            for record_value in record_values:
                await producer.send(topic, int(record_value[-1]) % 2, record_value.encode())
            await (producer.commit() if is_commit else producer.abort())

    target.ask(whole)


def read(sink_folder: Path, table_name: str = "records") -> list[dict[str, object]]:
    """Rows of the sink's table, by another reader than the writer's."""
    rows: list[dict[str, object]] = (
        ds.dataset(sink_folder / table_name, format="parquet", partitioning="hive")
        .to_table()
        .to_pylist()
    )
    return rows


def values(sink_folder: Path) -> list[str]:
    return sorted(bytes(row["value"]).decode() for row in read(sink_folder))  # type: ignore[call-overload]


# Alerts


def haunt(target: KafkaTarget, partition: TopicPartition) -> ProducerIdAndEpoch:
    """Make a hanging transaction.

    In the simulator a Produce arrives after the abort (Z01); on a real broker the coordinator never
    hears of the transaction.
    """
    if target.simulated is None:

        async def make(admin: Admin) -> ProducerIdAndEpoch:
            return await make_hanging(admin, partition, "ghost")

        return target.ask(make)
    late_rule = target.simulated.faults.arm(
        point="client.request", api="Produce", transactional_id="ghost", action="hold"
    )
    producer_identity = asyncio.run(_gives_up(target.bootstrap, partition))
    late_rule.wait_until_struck()
    target.simulated.transactions.wait_for_state("ghost", "CompleteAbort", "Empty")
    late_rule.release()
    late_rule.disarm()
    return producer_identity


async def _gives_up(bootstrap: str, partition: TopicPartition) -> ProducerIdAndEpoch:
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        producer = Producer(
            cluster, transactional_id="ghost", delivery_timeout_ms=400, request_timeout_ms=300
        )
        producer_identity = await producer.init_transactions()
        producer.begin()
        sent_ms = cluster.clock.now_ms() - HOUR_MS
        with pytest.raises(ClientError):
            await producer.send(partition.topic, partition.partition, b"late", timestamp_ms=sent_ms)
        await producer.abort()
        await producer.close()
    return producer_identity


def stream(target: KafkaTarget, output_path: Path, *arguments: str) -> StreamProcess:
    command = [
        *(str(installed_txnsim()), "stream", "--json", "--master", "local[2]", "--topic", "t"),
        *("--bootstrap-server", target.bootstrap, "--connector-jars", str(connector_jars())),
        *("--sink", str(output_path / "sink"), "--checkpoint", str(output_path / "checkpoint")),
        *("--probe-interval", "1", *arguments),
    ]
    return StreamProcess(command, log=output_path / "stream.log")


def rows_taken(process: StreamProcess) -> int:
    return sum(event["rows"] for event in process.events_named("batch"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_alert_names_who_holds_the_stream_back_while_the_connector_sees_nothing(
    kind: str, tmp_path: Path
) -> None:
    with kafka_target(kind, verifies_partitions=False) as target:
        target.create("t", 2)
        write(target, "t", ["v0", "v1", "v2"])
        file = tmp_path / "alerts.jsonl"
        with stream(target, tmp_path, "--alerts-to", str(file)) as running_stream:
            running_stream.wait_for(lambda _: rows_taken(running_stream) == 3)
            ghost_identity = haunt(target, TopicPartition("t", 1))
            write(target, "t", ["v3", "v4", "v5"])
            running_stream.wait_for(
                lambda _: (
                    rows_taken(running_stream) == 4 and bool(running_stream.events_named("raised"))
                )
            )
            (alert,) = running_stream.events_named("raised")
            # v1 and its marker lie before the ghost, and in the simulator the marker of its abort.
            start = 2 if target.simulated is None else 3
            assert (alert["topic"], alert["partition"], alert["start_offset"]) == ("t", 1, start)
            assert (alert["producer_id"], alert["transactional_id"]) == (
                ghost_identity.producer_id,
                "ghost",
            )
            assert (alert["last_stable_offset"], alert["connector_lag"]) == (start, 0)
            assert alert["lag"] == alert["high_watermark"] - start > 0
            assert values(tmp_path / "sink") == ["v0", "v1", "v2", "v4"]
            program, *repair = shlex.split(alert["command"])
            audit_options = ("--audit-file", str(tmp_path / "audit.jsonl"))
            assert (program, main([*repair, *audit_options])) == ("txnsim", 0)
            running_stream.wait_for(
                lambda _: (
                    rows_taken(running_stream) == 6 and bool(running_stream.events_named("ended"))
                )
            )
            assert running_stream.terminate() == 0, running_stream.log()
        (end_event,) = running_stream.events_named("ended")
        assert (end_event["id"], end_event["since_ms"]) == (alert["id"], alert["since_ms"])
        assert values(tmp_path / "sink") == ["v0", "v1", "v2", "v3", "v4", "v5"]
        documents = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(document_line["event"], document_line["id"]) for document_line in documents] == [
            ("raised", alert["id"]),
            ("ended", alert["id"]),
        ]


def test_a_query_whose_planning_process_comes_too_late_is_started_again(
    spark: SparkSession,
    target: KafkaTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_once_file = tmp_path / "python"
    slow_once_file.write_text(
        f"""#!/bin/sh
case "$*" in *python_streaming_source_runner*) mkdir {tmp_path}/came 2>&- && exec sleep 60;; esac
exec {sys.executable} "$@"
"""
    )
    slow_once_file.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(slow_once_file))
    write(target, "t", ["v0", "v1"])
    options = options_for(target.bootstrap, "t", str(tmp_path), runs_once=True)
    take_the_rest(spark, options)
    assert (tmp_path / "came").is_dir(), "it was slow"
    assert values(tmp_path / "sink") == ["v0", "v1"]


@pytest.mark.nightly
def test_an_alert_stands_over_restarts_and_is_told_once(
    spark: SparkSession, target: KafkaTarget, tmp_path: Path
) -> None:
    async def make(admin: Admin) -> ProducerIdAndEpoch:
        return await make_hanging(admin, TopicPartition("t", 0), "ghost")

    ghost_identity = target.ask(make)
    options = msgspec.structs.replace(
        options_for(target.bootstrap, "t", str(tmp_path), runs_once=True), alerts_topic="alerts"
    )
    (raise_alert,) = alerts_in(take_the_rest(spark, options))
    assert (raise_alert.event, raise_alert.producer_id) == ("raised", ghost_identity.producer_id)
    assert alerts_in(take_the_rest(spark, options)) == []
    assert main(shlex.split(raise_alert.command)[1:]) == 0
    (end_alert,) = alerts_in(take_the_rest(spark, options))
    assert (end_alert.event, end_alert.id, end_alert.since_ms) == (
        "ended",
        raise_alert.id,
        raise_alert.since_ms,
    )
    alerts = sorted(read(tmp_path / "sink", "alerts"), key=lambda row: str(row["at_ms"]))
    assert [(row["event"], row["id"]) for row in alerts] == [
        ("raised", raise_alert.id),
        ("ended", raise_alert.id),
    ]
    assert sent(target, "alerts") == [(raise_alert.id, "raised"), (raise_alert.id, "ended")]


def alerts_in(events: Iterable[StreamEvent]) -> list[Alert]:
    return [event.alert for event in events if isinstance(event, AlertChanged)]


@pytest.mark.nightly
def test_a_secured_cluster_is_reached_by_connector_and_probe_alike(
    spark: SparkSession, tmp_path: Path
) -> None:
    with TxnsimServer(brokers=1, arguments=("--security", "demo")) as server:
        file = Path(server.ready["security"]["directory"]) / "admin.properties"
        settings, bootstrap, _ = read_client_properties(file)
        assert bootstrap is not None
        asyncio.run(_write_one(bootstrap, settings))
        options = msgspec.structs.replace(
            options_for(bootstrap, "t", str(tmp_path), runs_once=True),
            client={
                property_entry.name: property_entry.value
                for property_entry in property_entries(file).values()
            },
        )
        events = take_the_rest(spark, options)
    # A probe that could not log in would say so.
    assert [type(event) for event in events] == [BatchWritten]
    assert values(tmp_path / "sink") == ["v0"]


async def _write_one(bootstrap: str, settings: ClientSettings) -> None:
    async with Cluster(bootstrap, settings=settings) as cluster:
        await Admin(cluster).create_topic("t", partitions=2)
        async with Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("t", 0, b"v0")
            await producer.commit()


def sent(target: KafkaTarget, topic: str) -> list[tuple[str, str]]:
    """Keys and events of the alerts in a topic."""

    async def look(admin: Admin) -> list[tuple[str, str]]:
        await admin.wait_for_topic(topic)
        batches_result = await fetch(admin.cluster, topic, 0, 0)
        return [
            ((record.key or b"").decode(), json.loads(record.value or b"")["event"])
            for record in batches_result.records
        ]

    return target.ask(look)


# Exactly once


@pytest.fixture
def target() -> Iterator[KafkaTarget]:
    with kafka_target("txnsim") as simulated_target:
        simulated_target.create("t", 2)
        yield simulated_target


def fill(target: KafkaTarget, first_number: int, last_number: int) -> list[str]:
    """Write transactions of four records, and abort every second one; returns the committed
    values.
    """
    committed = []
    for id_number in range(first_number, last_number):
        four = [f"txn{id_number:02}-{number_of_four}" for number_of_four in range(4)]
        write(target, "t", four, is_commit=id_number % 2 == 0)
        committed += four if id_number % 2 == 0 else []
    return committed


def take_the_rest(spark: SparkSession, options: StreamOptions) -> list[StreamEvent]:
    """Stream the remaining records in this process; returns the events."""
    events: list[StreamEvent] = []
    running_stream = Stream(spark, options, events.append)
    running_stream.start()
    running_stream.wait(threading.Event())
    return events


def rows_in(events: Iterable[StreamEvent]) -> int:
    return sum(event.row_count for event in events if isinstance(event, BatchWritten))


def stream_until_killed(
    target: KafkaTarget, output_path: Path, point_name: str, nth: int
) -> list[dict[str, object]]:
    """Stream until the n-th commit is at this point, then kill the process; returns its events."""
    command = [
        *(sys.executable, "-m", "tests.spark.pipeline.stream_program", target.bootstrap, "t"),
        *(str(output_path), str(connector_jars()), point_name, str(nth)),
    ]
    with StreamProcess(command, log=output_path / "stream.log") as process:
        process.wait_for(lambda _: bool(process.events_named(point_name)))
        process.kill()
    return process.events


@pytest.mark.nightly
def test_who_is_killed_within_a_commit_writes_that_batch_again(
    spark: SparkSession, target: KafkaTarget, tmp_path: Path
) -> None:
    committed = fill(target, 0, 8)
    alerts = stream_until_killed(target, tmp_path, "half", 2)
    assert [event["event"] for event in alerts] == ["batch", "half"]
    (half_batch_file,) = (tmp_path / "sink" / "records").glob("query=*/batch=1")
    assert list(half_batch_file.glob("part-*"))
    assert not (half_batch_file / DONE_NAME).exists()
    take_the_rest(spark, options_for(target.bootstrap, "t", str(tmp_path), runs_once=True))
    assert values(tmp_path / "sink") == committed


@pytest.mark.nightly
def test_who_is_killed_between_a_commit_and_sparks_own_does_not_write_it_again(
    spark: SparkSession, target: KafkaTarget, tmp_path: Path
) -> None:
    committed = fill(target, 0, 8)
    alerts = stream_until_killed(target, tmp_path, "whole", 2)
    assert [event["event"] for event in alerts] == ["batch", "whole"]
    unheard = values(tmp_path / "sink")
    assert len(unheard) > int(str(alerts[0]["rows"]))
    options = options_for(target.bootstrap, "t", str(tmp_path), runs_once=True)
    assert rows_in(take_the_rest(spark, options)) == len(committed) - len(unheard)
    assert values(tmp_path / "sink") == committed


@pytest.mark.nightly
def test_a_table_of_delta_lake_has_each_record_once(target: KafkaTarget, tmp_path: Path) -> None:
    jar_directory = tmp_path / "jars"
    jar_directory.mkdir()
    for jar_file in (*connector_jars().glob("*.jar"), *delta_jars().glob("*.jar")):
        (jar_directory / jar_file.name).symlink_to(jar_file)
    arguments = ("--once", "--sink-format", "delta", "--connector-jars", str(jar_directory))
    committed: list[str] = []
    for first_number in (0, 4, 8):
        committed += fill(target, first_number, first_number + 4)
        with stream(target, tmp_path, *arguments) as running_stream:
            assert running_stream.end() == 0, running_stream.log()
        assert sum(event["rows"] for event in running_stream.events_named("batch")) == 8
        assert values(tmp_path / "sink") == committed
        if first_number == 0:  # as if killed before Spark had noted it: the batch is given again
            commits_file = tmp_path / "checkpoint" / "records" / "commits"
            newest_version = max(
                int(path.name) for path in commits_file.iterdir() if path.name.isdigit()
            )
            for file_name in (f"{newest_version}", f".{newest_version}.crc"):
                (commits_file / file_name).unlink()
        else:
            shutil.rmtree(tmp_path / "checkpoint")


@pytest.mark.nightly  # Spark takes it half a minute and more
def test_a_lost_checkpoint_repeats_nothing_and_a_lost_sink_is_noticed(
    spark: SparkSession, target: KafkaTarget, tmp_path: Path
) -> None:
    sink_folder = tmp_path / "sink"
    options = options_for(target.bootstrap, "t", str(tmp_path), runs_once=True)
    committed = fill(target, 0, 4)
    assert rows_in(take_the_rest(spark, options)) == 8
    assert rows_in(take_the_rest(spark, options)) == 0
    old_path = (tmp_path / "checkpoint").rename(tmp_path / "old")
    for query in ("records", "alerts"):  # killed while it wrote its first batch down
        (tmp_path / "checkpoint" / query / "offsets").mkdir(parents=True)
        (tmp_path / "checkpoint" / query / "offsets" / ".0.1f6b.tmp").write_text("v1")
    committed += fill(target, 4, 8)
    assert rows_in(take_the_rest(spark, options)) == 8
    assert values(sink_folder) == committed
    assert len({row["query"] for row in read(sink_folder)}) == 2
    assert spark.read.parquet(f"{sink_folder}/records").count() == len(committed)
    newer_checkpoint = (tmp_path / "checkpoint").rename(tmp_path / "newer")
    old_path.rename(tmp_path / "checkpoint")
    with pytest.raises(BadInputError, match="another checkpoint has gone on, at t-0, t-1"):
        take_the_rest(spark, options)
    shutil.rmtree(tmp_path / "checkpoint")
    newer_checkpoint.rename(tmp_path / "checkpoint")
    shutil.rmtree(sink_folder)
    with pytest.raises(BadInputError, match="holds nothing of this checkpoint"):
        take_the_rest(spark, options)


def test_a_folder_of_hadoop_is_one_of_this_machine(spark: SparkSession, tmp_path: Path) -> None:
    local_folder, hadoop_folder = LocalFolder(tmp_path), Folder(f"file://{tmp_path}", spark)
    local_folder.write("a b/x=1/f", b"1\xff")
    local_folder.write("a b/g", b"2")
    for path in ("", "a b", "a b/x=1", "none"):
        assert hadoop_folder.names(path) == local_folder.names(path)
    for path in ("a b/x=1/f", "a b/g", "none"):
        assert hadoop_folder.read(path) == local_folder.read(path)
    for path in ("a b/x=1", "none"):
        hadoop_folder.remove(path)
    assert local_folder.names("a b") == ["g"]
