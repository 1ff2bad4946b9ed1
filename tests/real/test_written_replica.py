"""Records of the simulator in the log directory of a real broker: the broker accepts them as its
own, serves them, knows the open transactions, and goes on from there.
"""

from __future__ import annotations

import asyncio
import json
import re
import time  # noqa: TID251 - waits for processes on the real machine
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.real.conftest import SETTINGS
from tests.support.apache_kafka import ApacheKafka, run_kafka_tool
from tests.support.clusters import begin_transaction
from tests.support.hanging_transaction import PATIENCE_MS, make_hanging
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline, pause
from txnsim.client.cluster import Cluster
from txnsim.client.consumer import Consumer
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import OpenSince, ProducerState
from txnsim.client.offsets import LATEST_TIMESTAMP, list_offsets
from txnsim.client.producer import Producer
from txnsim.client.versions import ANY
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch

pytestmark = pytest.mark.real

ORDERS: Final = (TopicPartition("orders", 0), TopicPartition("orders", 1))
HANGING, IDEMPOTENT = ORDERS
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED

Read = list[tuple[int, bytes | None, bytes | None]]
Producers = dict[TopicPartition, tuple[ProducerState, ...]]


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The records, ends and producers that clients find in a cluster."""

    records: dict[str, dict[TopicPartition, Read]]
    """By isolation level: offset, key and value."""
    ends: dict[str, dict[TopicPartition, int]]
    producers: Producers


class WrittenReplica(msgspec.Struct, kw_only=True):
    """A simulator, and the brokers that got its records."""

    simulated: str
    real: str
    url: str
    data: tuple[Path, ...]
    """The real brokers' log directories."""
    written: Path
    """The simulator's replica, written into a directory."""
    idempotent: ProducerIdAndEpoch
    """The producer that has sent twelve batches of one record to its partition."""
    views: tuple[ClusterView, ClusterView]
    """The views of the real cluster and the simulator, before clients go on."""


@pytest.fixture(scope="module")
def written_replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenReplica]:
    """Write records in the simulator, and put them into a broker's directory while it is
    stopped.
    """
    directory = tmp_path_factory.mktemp("written")
    with (
        TxnsimServer(brokers=1, arguments=("--http", "0", "--topic", "orders:2")) as server,
        ApacheKafka(brokers=2, directory=directory / "kafka", jvm_options=("-Xmx400m",)) as kafka,
    ):
        assert server.http is not None
        idempotent_identity = asyncio.run(fill(server.bootstrap))
        asyncio.run(create_orders(kafka.bootstrap))
        data = tuple(home / "data" for home in kafka.homes)
        await_folders(data)
        # One ends in order, one is killed: that one goes through what it finds, batch by batch.
        kafka.kill(2)
        kafka.stop_broker(1)
        into = [option for path in data for option in ("--into", str(path))]
        assert main(["logs", "write", *into, "--topic", "orders", "--http", server.http]) == 0
        assert main(["logs", "write", str(directory / "own"), "--http", server.http]) == 0
        kafka.start_again(1, 2)
        yield WrittenReplica(
            simulated=server.bootstrap,
            real=kafka.bootstrap,
            url=server.http,
            data=data,
            written=directory / "own" / "broker-1",
            idempotent=idempotent_identity,
            views=(asyncio.run(look(kafka.bootstrap)), asyncio.run(look(server.bootstrap))),
        )


def await_folders(directories: tuple[Path, ...]) -> None:
    """Wait until the topic's folders exist, which may be after the topic exists."""
    deadline_s = time.monotonic() + PATIENCE_MS / 1_000
    metadata_files = [
        path / str(topic_partition) / "partition.metadata"
        for path in directories
        for topic_partition in ORDERS
    ]
    while not all(path.exists() for path in metadata_files):
        assert time.monotonic() < deadline_s, metadata_files
        time.sleep(0.02)


async def create_orders(bootstrap: str) -> None:
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        await Admin(cluster).create_topic("orders", partitions=2, replication_factor=2)


async def fill(bootstrap: str) -> ProducerIdAndEpoch:
    """Committed, aborted, open and hanging transactions, and an idempotent producer."""
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        async with Producer(cluster) as producer:
            for record_number in range(12):
                await producer.send(
                    *topic_and_partition(IDEMPOTENT), b"plain", key=b"%d" % record_number
                )
            idempotent_identity = producer.identity
        async with Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
            for record_number in range(6):
                producer.begin()
                for partition in ORDERS:
                    producer.send(*topic_and_partition(partition), b"v%d" % record_number, key=b"k")
                await producer.flush()
                await (producer.abort() if record_number % 3 == 1 else producer.commit())
        await make_hanging(admin, HANGING, "ghost")
        async with await begin_transaction(cluster, "behind") as producer:
            producer.send(*topic_and_partition(HANGING), b"behind")
            await producer.commit()
    return idempotent_identity


def topic_and_partition(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


async def look(bootstrap: str) -> ClusterView:
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        records: dict[str, dict[TopicPartition, Read]] = {}
        ends: dict[str, dict[TopicPartition, int]] = {}
        for isolation in (COMMITTED, UNCOMMITTED):
            offset_by_partition = await list_offsets(
                cluster, dict.fromkeys(ORDERS, LATEST_TIMESTAMP), isolation=isolation
            )
            upto_by_partition = {
                partition: outcome.offset
                for partition, outcome in offset_by_partition.items()
                if not isinstance(outcome, ClientError)
            }
            ends[isolation.name] = upto_by_partition
            records[isolation.name] = await read_partitions(cluster, isolation, upto_by_partition)
        producers_by_partition = await Admin(cluster).describe_producers(ORDERS)
        return ClusterView(
            records=records,
            ends=ends,
            producers=healthy_producers(producers_by_partition),
        )


async def read_partitions(
    cluster: Cluster, isolation: IsolationLevel, upto_by_partition: dict[TopicPartition, int]
) -> dict[TopicPartition, Read]:
    reads_by_partition: dict[TopicPartition, Read] = {partition: [] for partition in ORDERS}
    async with Consumer(cluster, isolation=isolation) as consumer:
        await consumer.assign(ORDERS)
        while any(
            consumer.positions[partition] < upto_by_partition[partition] for partition in ORDERS
        ):
            for record in await consumer.poll():
                reads_by_partition[record.partition].append(
                    (record.offset, record.key, record.value)
                )
    return reads_by_partition


def test_clients_find_the_same_in_both(written_replica: WrittenReplica) -> None:
    real_view, simulated_view = written_replica.views
    assert real_view == simulated_view
    assert real_view.ends["READ_COMMITTED"][HANGING] < real_view.ends["READ_UNCOMMITTED"][HANGING]
    assert any(producer.txn_start_offset is not None for producer in real_view.producers[HANGING])
    hidden_count = len(real_view.records["READ_UNCOMMITTED"][IDEMPOTENT]) - len(
        real_view.records["READ_COMMITTED"][IDEMPOTENT]
    )
    assert hidden_count == 2, "what was aborted"


def test_replicas_agree_and_get_in_sync(written_replica: WrittenReplica) -> None:
    async def ask() -> tuple[list[int], list[Producers]]:
        async with Cluster(written_replica.real, settings=SETTINGS) as cluster:
            admin = Admin(cluster)
            deadline = Deadline(cluster.clock, PATIENCE_MS)
            while True:
                (topic,) = await admin.describe_topics(["orders"])
                in_sync = [len(partition.isr) for partition in topic.partitions]
                producers = [
                    healthy_producers(await admin.describe_producers(ORDERS, broker_id=broker_id))
                    for broker_id in (1, 2)
                ]
                if deadline.has_passed or (in_sync == [2, 2] and producers[0] == producers[1]):
                    return in_sync, producers
                await pause(cluster.clock, 50)

    in_sync, (first_producers_by_partition, second_producers_by_partition) = asyncio.run(ask())
    assert in_sync == [2, 2]
    assert first_producers_by_partition == second_producers_by_partition
    assert first_producers_by_partition.keys() == set(ORDERS)


def healthy_producers(
    outcomes_by_partition: Mapping[TopicPartition, tuple[ProducerState, ...] | ClientError],
) -> Producers:
    return {
        partition: tuple(sorted(states, key=lambda row: row.producer_id))
        for partition, states in outcomes_by_partition.items()
        if not isinstance(states, ClientError)
    }


def test_the_folder_is_still_that_of_the_brokers_topic(written_replica: WrittenReplica) -> None:
    texts = {
        (data / str(partition) / "partition.metadata").read_text()
        for data in written_replica.data
        for partition in ORDERS
    }
    (text,) = texts
    assert re.search(r"^topic_id: .{22}$", text, re.MULTILINE)
    with urllib.request.urlopen(f"{written_replica.url}/api/v1/topics/orders") as answer:
        ours = json.load(answer)["id"]
    assert ours not in text


def test_the_idempotent_producer_goes_on_with_its_sequence(written_replica: WrittenReplica) -> None:
    async def ask(bootstrap: str) -> list[ErrorCode]:
        async with Cluster(bootstrap, settings=SETTINGS) as cluster:
            return [
                await send(cluster, written_replica.idempotent, sequence)
                for sequence in (13, 12, 12)
            ]

    out_of_order_error, no_error = ErrorCode.out_of_order_sequence_number, ErrorCode.none
    assert asyncio.run(ask(written_replica.real)) == [out_of_order_error, no_error, no_error]
    assert asyncio.run(ask(written_replica.simulated)) == [out_of_order_error, no_error, no_error]


async def send(cluster: Cluster, producer_identity: ProducerIdAndEpoch, sequence: int) -> ErrorCode:
    batch = build_batch(
        [Record(key=b"next", value=b"plain")],
        timestamp_ms=cluster.clock.now_ms(),
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
        base_sequence=sequence,
    )
    leader = await cluster.leader(IDEMPOTENT)
    topic_ids = {"orders": (await Admin(cluster).describe_topics(["orders"]))[0].topic_id}
    request = requests.produce(
        {IDEMPOTENT: batch}, id_by_topic=topic_ids, transactional_id=None, accepted_versions=ANY
    )
    answer = await cluster.ask(leader.leader_id, request)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_the_hanging_transaction_can_be_aborted_there(written_replica: WrittenReplica) -> None:
    async def repair() -> list[bytes | None]:
        async with Cluster(written_replica.real, settings=SETTINGS) as cluster:
            admin = Admin(cluster)
            (producers,) = (await admin.describe_producers([HANGING])).values()
            assert not isinstance(producers, ClientError)
            (start,) = [
                producer.txn_start_offset
                for producer in producers
                if producer.txn_start_offset is not None
            ]
            await admin.abort_transaction(OpenSince(partition=HANGING, start_offset=start))
            end_by_partition = await list_offsets(
                cluster, {HANGING: LATEST_TIMESTAMP}, isolation=COMMITTED
            )
            (end,) = end_by_partition.values()
            assert not isinstance(end, ClientError)
            values: list[bytes | None] = []
            async with Consumer(cluster, isolation=COMMITTED) as consumer:
                await consumer.assign({HANGING: start})
                while consumer.positions[HANGING] < end.offset:
                    values += [record.value for record in await consumer.poll()]
            return values

    assert asyncio.run(repair()) == [b"behind"]


def test_kafka_reads_the_metadata_that_lies_beside_the_replicas(
    written_replica: WrittenReplica,
) -> None:
    (snapshot_file,) = written_replica.written.glob("__cluster_metadata-0/*.checkpoint")
    dump = ("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder")
    result = run_kafka_tool(*dump, "--files", str(snapshot_file))
    assert (result.code, result.stderr) == (0, "")
    assert "Could not" not in result.stdout
    for kind in ("FEATURE_LEVEL", "REGISTER_BROKER", "TOPIC", "PARTITION", "PRODUCER_IDS"):
        assert f'"type":"{kind}_RECORD"' in result.stdout


def test_kafka_dump_log_reads_every_file_without_complaint(written_replica: WrittenReplica) -> None:
    files = [
        path
        for path in sorted(written_replica.written.glob("*-*/*"))
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    ]
    names = ",".join(map(str, files))
    for options in (("--deep-iteration",), ("--index-sanity-check",)):
        result = run_kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments", *options, "--files", names
        )
        assert result.code == 0, result.stderr
        assert result.stderr == ""
        assert "Mismatches in" not in result.stdout
        assert "isvalid: false" not in result.stdout
        assert all(str(path) in result.stdout for path in files)
