"""A cluster that is written as log directories and loaded again is the same cluster: whatever
clients can ask of it is answered alike, and it goes on from there.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import tarfile
from pathlib import Path
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed
from typing import Final

import msgspec
import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from tests.support.hanging_transaction import produce_without_adding
from tests.support.log_dirs import write_disk
from tests.support.logs import NOW, LogDriver, plain
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.consumer import Consumer
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import OpenSince, ProducerState, TransactionDescription
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, list_offsets
from txnsim.client.producer import Producer
from txnsim.client.session import SessionState
from txnsim.metadata.image import ClusterImage
from txnsim.releases import Fleet
from txnsim.runtime.trace import TraceLevel
from txnsim.server.disk_loading import load_cluster
from txnsim.server.log_dirs import log_dir_of
from txnsim.server.options import ClusterOptions
from txnsim.settings import Settings
from txnsim.storage.disks import find_disks
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.names import FileName
from txnsim.storage.stored_file import tar_of
from txnsim.trace.trace_file import Recording
from txnsim.types import BrokerId, IsolationLevel, LeaderEpoch, TopicPartition
from txnsim_lab.trace.explain import explain_lso

PARTITIONS: Final = tuple(TopicPartition("orders", partition_index) for partition_index in range(3))
SETTINGS: Final = Settings(
    transaction_state_log_num_partitions=6,
    offsets_topic_num_partitions=3,
    transaction_partition_verification_enable=False,
    auto_leader_rebalance_enable=False,
    segment_bytes=1_048_576,
)
STEPS: Final = 40
TRANSACTIONAL_IDS: Final = ("tx-a", "tx-b", "tx-c")
VALUE: Final = bytes(70_000)
"""Large enough for several segments."""

Read = list[tuple[int, bytes | None, bytes | None]]


class ClientView(msgspec.Struct, frozen=True, kw_only=True):
    """What clients can read of a cluster: offsets, records, producers, transactions."""

    ends: dict[str, dict[TopicPartition, int]]
    records: dict[str, dict[TopicPartition, Read]]
    producers: dict[TopicPartition, tuple[ProducerState, ...]]
    transactions: dict[str, TransactionDescription]
    hanging: tuple[tuple[TopicPartition, int], ...]


async def look(cluster: Cluster) -> ClientView:
    admin = Admin(cluster)
    ends: dict[str, dict[TopicPartition, int]] = {}
    for name, timestamp, isolation in (
        ("start", EARLIEST_TIMESTAMP, IsolationLevel.READ_UNCOMMITTED),
        ("high watermark", LATEST_TIMESTAMP, IsolationLevel.READ_UNCOMMITTED),
        ("last stable", LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED),
    ):
        offsets_found_by_partition = await list_offsets(
            cluster, dict.fromkeys(PARTITIONS, timestamp), isolation=isolation
        )
        ends[name] = {
            partition: offset.offset
            for partition, offset in offsets_found_by_partition.items()
            if not isinstance(offset, ClientError)
        }
    description_by_id = await admin.describe_transactions((*TRANSACTIONAL_IDS, "ghost"))
    producers_by_partition = await admin.describe_producers(PARTITIONS)
    hanging_transactions = await admin.find_hanging(now_ms=cluster.clock.now_ms())
    return ClientView(
        ends=ends,
        records={
            "committed": await read_partitions(
                cluster, IsolationLevel.READ_COMMITTED, ends["last stable"]
            ),
            "all": await read_partitions(
                cluster, IsolationLevel.READ_UNCOMMITTED, ends["high watermark"]
            ),
        },
        producers={
            partition: tuple(sorted(producers_told, key=lambda producer: producer.producer_id))
            for partition, producers_told in producers_by_partition.items()
            if not isinstance(producers_told, ClientError)
        },
        transactions={
            name: msgspec.structs.replace(description, coordinator_id=0)
            for name, description in description_by_id.items()
            if not isinstance(description, ClientError)
        },
        hanging=tuple(
            sorted(
                (open_transaction.partition, open_transaction.producer.txn_start_offset or 0)
                for open_transaction in hanging_transactions
            )
        ),
    )


async def read_partitions(
    cluster: Cluster, isolation: IsolationLevel, upto_by_partition: dict[TopicPartition, int]
) -> dict[TopicPartition, Read]:
    records_by_partition: dict[TopicPartition, Read] = {partition: [] for partition in PARTITIONS}
    async with Consumer(cluster, isolation=isolation) as consumer:
        await consumer.assign(PARTITIONS)
        while any(
            consumer.positions[partition] < upto_by_partition[partition] for partition in PARTITIONS
        ):
            for record in await consumer.poll():
                records_by_partition[record.partition].append(
                    (record.offset, record.key, (record.value or b"")[-20:])
                )
    return records_by_partition


async def live(cluster: VirtualCluster, random: Random) -> ClientView:
    """Play a random history; return what clients see at its end."""
    async with cluster.client() as client:
        producers = {
            transactional_id: Producer(client, transactional_id=transactional_id)
            for transactional_id in TRANSACTIONAL_IDS
        }
        for producer in producers.values():
            await producer.init_transactions()
        plain_producer = Producer(client)
        hung = 0
        for step in range(STEPS):
            partition = random.choice(PARTITIONS)
            match random.randrange(9):
                case 0 | 1:
                    plain_producer.send("orders", partition.partition, b"%d" % step, key=b"plain")
                    await plain_producer.flush()
                case 2 if hung < 2:
                    hung += 1
                    await hang(client, partition)
                case 3:
                    cluster.move(partition)
                case _:
                    await advance(
                        producers[random.choice(TRANSACTIONAL_IDS)], random, partition, step
                    )
        await asyncio.sleep(5)  # markers are written, followers have caught up
        view_before_stop = await look(client)
        for producer in (*producers.values(), plain_producer):
            await producer.close()
    return view_before_stop


async def hang(client: Cluster, partition: TopicPartition) -> None:
    """Open a transaction that no coordinator knows, after a new look-up of the leader."""
    client.forget_leader(partition.topic)
    error, _ = await produce_without_adding(
        Admin(client), partition, "ghost", age_ms=3_600_000, version=11
    )
    assert not error


async def advance(producer: Producer, random: Random, partition: TopicPartition, step: int) -> None:
    """The next step of a transaction: it begins, writes, or ends."""
    if producer.session.state is not SessionState.IN_TRANSACTION:
        producer.begin()
    producer.send("orders", partition.partition, VALUE + b"%d" % step, key=b"txn")
    await producer.flush()
    chance = random.random()
    if chance < 0.3:
        await producer.commit()
    elif chance < 0.5:
        await producer.abort()


def write(cluster: VirtualCluster, directory: Path) -> list[Path]:
    """Write each broker's log directory below a folder; return the paths."""
    paths = []
    for broker_id in cluster.sim.members:
        path = directory / f"broker-{broker_id}"
        archive = b"".join(tar_of(log_dir_of(cluster.sim, broker_id), modified_ms=0))
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(path, filter="data")
        paths.append(path)
    return paths


def options_of_loaded(paths: list[Path], *, now_ms: int) -> ClusterOptions:
    disks = find_disks(paths)
    loaded_cluster = load_cluster(disks, settings=SETTINGS, fleet=Fleet(), now_ms=now_ms)
    assert loaded_cluster.losses == ()
    assert loaded_cluster.left_out == ()
    return ClusterOptions(
        brokers=len(paths),
        port=0,
        settings=msgspec.structs.replace(SETTINGS, cluster_id=disks.cluster_id),
        loaded=loaded_cluster,
    )


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.seeds
@pytest.mark.parametrize("stop", ["in order", "killed", "without metadata"])
def test_what_was_written_and_loaded_is_the_same_cluster(
    seed: int, stop: str, tmp_path: Path
) -> None:
    async def write_disks(cluster: VirtualCluster) -> LeftCluster:
        configure(cluster)
        live_view = await live(cluster, cluster.env.rng.stream("history"))
        return LeftCluster(
            seen=live_view,
            image=cluster.sim.metadata.image,
            paths=write(cluster, tmp_path),
            now_ms=cluster.env.clock.now_ms(),
        )

    options = ClusterOptions(brokers=2, port=0, topics=(("orders", 3),), settings=SETTINGS)
    state_left = run_cluster(write_disks, seed=seed, cluster_options=options)
    for path in state_left.paths:
        if stop == "killed":
            (path / FileName.CLEAN_SHUTDOWN).unlink()
            (path / FileName.RECOVERY_POINTS).unlink()
        if stop == "without metadata":
            shutil.rmtree(path / StoredMetadata.FOLDER)
    assert sum(map(len, state_left.seen.records["all"].values())) > len(state_left.seen.hanging)

    async def second(cluster: VirtualCluster) -> None:
        if stop != "without metadata":
            assert metadata_without_lives(cluster.sim.metadata.image) == metadata_without_lives(
                state_left.image
            )
        async with cluster.client() as client:
            assert await look(client) == state_left.seen
            await go_on(client, state_left.seen)

    run_cluster(
        second,
        seed=seed,
        cluster_options=options_of_loaded(state_left.paths, now_ms=state_left.now_ms),
    )


class LeftCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster at the moment when its directories were written."""

    seen: ClientView
    image: ClusterImage
    paths: list[Path]
    now_ms: int


def configure(cluster: VirtualCluster) -> None:
    """Set some of the configs that an operator may set."""
    image = cluster.sim.metadata.image
    image = image.with_topic_configs("orders", {"max.message.bytes": "2000000"})
    image = image.with_broker_configs("1", {"log.cleaner.threads": "2"})
    image = image.with_group_configs("readers", {"consumer.session.timeout.ms": "50000"})
    image = image.with_feature("group.version", 0)
    cluster.sim.metadata.publish(image)


def metadata_without_lives(image: ClusterImage) -> dict[str, object]:
    """The metadata without the fields that change with each start of a broker."""
    return {
        "brokers": list(image.brokers),
        "features": image.features,
        "configs": (image.broker_configs, image.group_configs),
        "topics": {
            topic_name: msgspec.structs.replace(
                topic,
                partitions=tuple(
                    msgspec.structs.replace(
                        partition,
                        leader_epoch=LeaderEpoch(0),
                        partition_epoch=0,
                        isr=tuple(sorted(partition.isr)),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic_name, topic in image.topics.items()
        },
    }


async def go_on(client: Cluster, view_before: ClientView) -> None:
    """Fence the open transactions and repair the hanging ones; then no reader is held back."""
    admin = Admin(client)
    for transactional_id in TRANSACTIONAL_IDS:
        async with Producer(client, transactional_id=transactional_id) as producer:
            producer_id_and_epoch = await producer.init_transactions()
            assert (
                producer_id_and_epoch.producer_id
                == view_before.transactions[transactional_id].producer_id
            )
            producer.begin()
            for partition in PARTITIONS:
                producer.send("orders", partition.partition, b"new", key=transactional_id.encode())
            await producer.commit()
    for partition, start_offset in view_before.hanging:
        await admin.abort_transaction(OpenSince(partition=partition, start_offset=start_offset))
    await asyncio.sleep(5)
    view_after = await look(client)
    assert view_after.ends["last stable"] == view_after.ends["high watermark"]
    for partition, records in view_after.records["committed"].items():
        assert [key for _, key, value in records if value == b"new"] == [
            name.encode() for name in TRANSACTIONAL_IDS
        ]
        assert (
            records[: len(view_before.records["committed"][partition])]
            == (view_before.records["committed"][partition])
        )
    async with Producer(client, transactional_id="another") as producer:
        producer_id_and_epoch = await producer.init_transactions()
    assert producer_id_and_epoch.producer_id > max(
        transaction.producer_id for transaction in view_before.transactions.values()
    )


def test_a_reset_formats_the_machines_and_leaves_their_numbers(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.append(plain())
    write_disk(tmp_path / "four", {("orders", 0): driver.log}, node_id=4)
    write_disk(tmp_path / "nought", {("orders", 1): driver.log}, node_id=0)

    async def main(cluster: VirtualCluster) -> None:
        sim = cluster.sim
        assert list(sim.brokers) == [0, 4]
        assert [log.log_end_offset for _, log in sim.members[BrokerId(4)].disk.replicas()] == [1]
        await sim.reset(sim.snapshot())
        assert list(sim.brokers) == [0, 4]
        assert sim.metadata.image.cluster_id == "abc"
        assert [log.log_end_offset for _, log in sim.members[BrokerId(4)].disk.replicas()] == [0]
        async with cluster.client() as client, Producer(client) as producer:
            assert (await producer.send("orders", 0, b"first")).offset == 0

    paths = [tmp_path / "four", tmp_path / "nought"]
    run_cluster(main, cluster_options=options_of_loaded(paths, now_ms=NOW))


def test_the_trace_of_a_loaded_cluster_knows_what_its_coordinators_have_loaded(
    tmp_path: Path,
) -> None:
    """The trace must have an event about each live transaction that was loaded."""
    orders_partition = PARTITIONS[0]

    async def write_disks(cluster: VirtualCluster) -> tuple[list[Path], int]:
        async with cluster.client() as client:
            producer = await begin_transaction(client, "report")
            await producer.send("orders", 0, b"alive")
            return write(cluster, tmp_path), cluster.env.clock.now_ms()

    options = ClusterOptions(brokers=2, port=0, topics=(("orders", 3),), settings=SETTINGS)
    paths, now_ms = run_cluster(write_disks, cluster_options=options)

    async def second(cluster: VirtualCluster) -> str:
        recording = Recording.from_lines("it", b"".join(cluster.env.tracer.pieces()).splitlines())
        return explain_lso(recording, str(orders_partition)).cause

    for trace_level in (TraceLevel.BRIEF, TraceLevel.FULL):
        cause = run_cluster(
            second, trace_level=trace_level, cluster_options=options_of_loaded(paths, now_ms=now_ms)
        )
        assert cause == "open transaction"
