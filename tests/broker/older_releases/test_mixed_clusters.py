"""Clusters in which brokers run different releases: rolling upgrades, downgrades, and what an old
peer can't do.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    run_cluster,
    until_state,
    values,
)
from tests.support.within_environment import within
from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionedRequest, VersionRange
from txnsim.errors import ConfigError, ErrorCode
from txnsim.releases import REFERENCE
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch import Record, build_batch

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
ORDERS_0: Final = TopicPartition("orders", 0)
EVERYWHERE: Final = tuple(TopicPartition("orders", partition_index) for partition_index in range(3))
UPGRADE, SAFE_DOWNGRADE = 1, 2


async def write(cluster: Cluster, transactional_id: str, *, committed: bool = True) -> None:
    """Run a transaction over all partitions, in a new session of the transactional id."""
    async with Producer(cluster, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        await one_transaction(producer, transactional_id, committed=committed)


async def one_transaction(producer: Producer, record_value: str, *, committed: bool = True) -> None:
    producer.begin()
    await send(producer, record_value)
    await (producer.commit() if committed else producer.abort())


async def send(producer: Producer, record_value: str) -> None:
    for partition in EVERYWHERE:
        await producer.send(partition.topic, partition.partition, record_value.encode())


async def set_level(cluster: Cluster, transaction_version: int) -> None:
    """Set the level of ``transaction.version`` by an upgrade, else by a safe downgrade."""
    admin = Admin(cluster)
    try:
        await admin.update_features(
            {"transaction.version": transaction_version}, upgrade_type=UPGRADE
        )
    except ClientError:
        await admin.update_features(
            {"transaction.version": transaction_version}, upgrade_type=SAFE_DOWNGRADE
        )


async def until_read(client: Cluster, expected: dict[str, int]) -> None:
    """Wait until exactly this is committed: value -> how often.

    A client that knows an old leader reads from what is a follower now, which hears of markers and
    high watermarks a little later (KIP-392 lets it answer).
    """
    deadline = client.deadline(10_000)
    while True:
        texts = [
            record_value.decode()
            for record_value in await values(client, "orders")
            if record_value is not None
        ]
        count_by_text = {text: texts.count(text) for text in sorted(set(texts))}
        if count_by_text == expected:
            return
        assert not deadline.has_passed, count_by_text
        await asyncio.sleep(0.01)


async def give_leadership(
    cluster: VirtualCluster, partition: TopicPartition, broker: BrokerId
) -> None:
    """Make a broker that was down the leader, once its replica has caught up."""
    deadline = cluster.env.clock.now_ms() + 60_000
    metadata = cluster.sim.metadata
    while broker not in metadata.image.topics[partition.topic].partitions[partition.partition].isr:
        assert cluster.env.clock.now_ms() < deadline
        await asyncio.sleep(0.01)
    give(cluster, partition, broker)


def give(cluster: VirtualCluster, partition: TopicPartition, broker: BrokerId) -> None:
    """Make a broker the leader of a partition."""
    if cluster.leader(partition) != broker:
        cluster.sim.move_leader(partition, broker)


# What a release is


@pytest.mark.parametrize(
    ("as_version", "transaction_version", "end_txn"),
    [("2.8", 0, 3), ("3.6", 0, 3), ("3.9", 0, 4), ("4.0", 2, 5), ("4.1", 2, 5), ("4.3", 2, 5)],
)
def test_transactions_at_every_release(
    as_version: str, transaction_version: int, end_txn: int
) -> None:
    async def story(cluster: VirtualCluster) -> None:
        assert cluster.sim.brokers[B1].transaction_version() == transaction_version
        async with cluster.client() as client:
            await write(client, "a")
            await write(client, "b", committed=False)
            await write(client, "c")
            connection = await client.any_connection()
            assert connection.versions[26].highest == end_txn
            await until_read(client, {"a": 3, "c": 3})

    run_cluster(story, as_version=(as_version,))


@within(run_cluster, as_version=("3.9",))
async def test_records_of_before_4_0_are_not_flexible(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        await write(client, "a")
        home_partition = cluster.home("a")
    log = cluster.sim.brokers[cluster.leader(home_partition)].replicas.led[home_partition]
    assert {_value_version(batch) for batch in log.batches()} == {0}


def _value_version(batch: bytes) -> int:
    from txnsim.wire.batch import read_records

    (record,) = read_records(batch, 0)
    assert record.value is not None
    return int.from_bytes(record.value[:2], "big")


# Rolling


def test_a_rolling_upgrade_from_3_9_to_4_3_under_load() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            steady_producer = Producer(client, transactional_id="steady")
            await steady_producer.init_transactions()
            count = 0
            for broker in (B1, B2, B3):
                steady_producer.begin()
                await send(steady_producer, "steady")
                await cluster.sim.stop_broker(broker)
                await cluster.sim.start_broker(broker, as_version="4.3")
                await steady_producer.commit()
                count += 1
                await write(client, f"after-{broker}")
            assert {broker.release.name for broker in cluster.sim.brokers.values()} == {"4.3"}
            # The new binaries run the old protocol until somebody raises the level.
            assert cluster.sim.brokers[B1].transaction_version() == TransactionVersion.TV_0
            await raise_in_mid_transaction(client, steady_producer)
            await steady_producer.close()
            await until_state(client, "steady", "CompleteCommit")
            await until_read(
                client,
                {
                    **{f"after-{broker}": 3 for broker in (B1, B2, B3)},
                    "level-1": 3,
                    "level-2": 3,
                    "new": 3,
                    "steady": 3 * count,
                },
            )

    async def raise_in_mid_transaction(client: Cluster, producer: Producer) -> None:
        await Admin(client).update_features({"metadata.version": 30})
        for transaction_version in (1, 2):
            producer.begin()
            await send(producer, f"level-{transaction_version}")
            await set_level(client, transaction_version)
            await client.refresh_features()
            await producer.commit()
        await one_transaction(producer, "new")
        assert producer.protocol.name == "V2"

    run_cluster(story, as_version=("3.9",))


@within(run_cluster)
async def test_the_level_is_lowered_in_mid_transaction_and_brokers_go_back(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        producer = await begin_transaction(client, "a")
        await send(producer, "under-2")
        await set_level(client, 1)
        await client.refresh_features()
        await producer.commit()
        await one_transaction(producer, "under-1")
        assert producer.protocol.name == "V1"
        # A record of version 2 is left nowhere now, so level 0 locks nobody out.
        await set_level(client, 0)
        await client.refresh_features()
        await one_transaction(producer, "under-0")
        await producer.close()
        await until_state(client, "a", "CompleteCommit")
        await until_read(
            client,
            {
                "under-0": 3,
                "under-1": 3,
                "under-2": 3,
            },
        )
        with pytest.raises(ConfigError, match="does not support finalized version"):
            await restart(cluster, B1, "3.9")
        await restart(cluster, B1, REFERENCE.name)


async def restart(cluster: VirtualCluster, broker: BrokerId, as_version: str) -> None:
    if broker in cluster.sim.brokers:
        await cluster.sim.stop_broker(broker)
    await cluster.sim.start_broker(broker, as_version=as_version)


@within(run_cluster, as_version=("3.6",))
async def test_a_rolling_downgrade_of_binaries_while_the_levels_are_old(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        for broker in (B1, B2, B3):
            await restart(cluster, broker, "4.3")
        producer = Producer(client, transactional_id="a")
        await producer.init_transactions()
        for broker in (B3, B2, B1):
            producer.begin()
            await send(producer, "down")
            await restart(cluster, broker, "3.6")
            await producer.commit()
        await producer.close()
        await until_state(client, "a", "CompleteCommit")
        await until_read(client, {"down": 9})


@within(run_cluster, as_version=("4.3,1=3.6",))
async def test_a_coordinator_that_moves_to_an_older_broker_in_mid_transaction(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        producer = Producer(client, transactional_id="a")
        await producer.init_transactions()
        for home_broker_id in (B1, B2, B1):
            producer.begin()
            await send(producer, "moved")
            give(cluster, cluster.home("a"), home_broker_id)
            await producer.commit()
        await producer.close()
        await until_state(client, "a", "CompleteCommit")
        await until_read(client, {"moved": 9})


# What an old peer can't do


@within(run_cluster, as_version=("4.3,2=3.9",))
async def test_a_level_that_one_broker_does_not_know_is_refused(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        with pytest.raises(ClientError, match="Broker 2 does not support this feature"):
            await Admin(client).update_features({"transaction.version": 2})
        await restart(cluster, B2, "4.0")
        await Admin(client).update_features({"transaction.version": 2})
        assert cluster.sim.brokers[B2].transaction_version() == TransactionVersion.TV_2
        with pytest.raises(ConfigError, match=r"version 2 of transaction\.version"):
            await restart(cluster, B2, "3.9")


def produce(producer_id: int, epoch: int, *, version: int) -> VersionedRequest:
    """A Produce request with a transactional batch whose partition was never added."""
    batch = build_batch(
        [Record(key=b"k", value=b"v")],
        timestamp_ms=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    return requests.produce(
        {ORDERS_0: batch},
        id_by_topic={},
        transactional_id="a",
        accepted_versions=VersionRange(version, version),
    )


async def ghost(cluster: VirtualCluster, client: Cluster) -> tuple[ErrorCode, bool]:
    """The answer to an unverified Produce, and whether a transaction hangs now."""
    producer = Producer(client, transactional_id="a")
    producer_identity = await producer.init_transactions()
    answer: Any = await client.ask(
        cluster.leader(ORDERS_0),
        produce(producer_identity.producer_id, producer_identity.producer_epoch, version=9),
    )
    log = cluster.sim.brokers[cluster.leader(ORDERS_0)].replicas.led[ORDERS_0]
    is_hanging = log.producers.open_transaction_of(producer_identity.producer_id) >= 0
    return ErrorCode(answer.responses[0].partition_responses[0].error_code), is_hanging


@pytest.mark.parametrize(
    ("as_version", "expected"),
    [
        ("4.3", (ErrorCode.invalid_txn_state, False)),
        ("3.6", (ErrorCode.invalid_txn_state, False)),
        ("2.8", (ErrorCode.none, True)),
        ("3.5", (ErrorCode.none, True)),
        # The coordinator on broker 1 has no AddPartitionsToTxn v4: everything counts as verified.
        ("4.3,1=2.8", (ErrorCode.none, True)),
        # A leader of 3.6 does not find out: it asks in version 4, and loses its connection.
        ("3.6,1=2.8", (ErrorCode.network_exception, False)),
        ("3.6,1=3.5", (ErrorCode.network_exception, False)),
        ("4.4,1=3.5", (ErrorCode.none, True)),
        ("3.9,1=2.8", (ErrorCode.none, True)),
        # It knows verification, but not the error that came later.
        ("4.3,1=3.6", (ErrorCode.invalid_txn_state, False)),
        # The other way round the leader does not know the error that it is answered.
        ("3.6,1=4.3", (ErrorCode.unknown_server_error, False)),
        ("3.9,1=4.3", (ErrorCode.invalid_txn_state, False)),
        # The leader on broker 2 is too old to ask.
        ("4.3,2=2.8", (ErrorCode.none, True)),
    ],
)
def test_a_batch_without_its_partition_in_the_transaction(
    as_version: str, expected: tuple[ErrorCode, bool]
) -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            await client.coordinator("a")
            give(cluster, cluster.home("a"), B1)
            give(cluster, ORDERS_0, B2)
            assert await ghost(cluster, client) == expected

    run_cluster(story, as_version=(as_version,), level=0)


@within(run_cluster, as_version=("2.8",), level=0)
async def test_a_rolling_upgrade_to_3_6_stands_still_until_coordinators_are_upgraded(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        await client.coordinator("a")
        give(cluster, cluster.home("a"), B1)
        await restart(cluster, B2, "3.6")
        await give_leadership(cluster, ORDERS_0, B2)
        producer = await begin_transaction(client, "a", delivery_timeout_ms=6_000)
        with pytest.raises(ClientError, match="NETWORK_EXCEPTION"):
            await producer.send(ORDERS_0.topic, ORDERS_0.partition, b"refused")
        assert await values(client, "orders") == []
        await producer.abort()
        for broker_id in (B1, B3):
            await restart(cluster, broker_id, "3.6")
        producer.begin()
        await producer.send(ORDERS_0.topic, ORDERS_0.partition, b"taken")
        await producer.commit()
        await producer.close()
        await until_read(client, {"taken": 1})


@within(run_cluster, as_version=("4.3,2=4.1",))
async def test_markers_of_version_2_reach_an_old_leader_without_it(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        await client.coordinator("a")
        give(cluster, cluster.home("a"), B1)
        give(cluster, ORDERS_0, B2)
        await write(client, "a")
        await until_state(client, "a", "CompleteCommit")
        await until_read(client, {"a": 3})


# The level is lowered to 0 under a live transaction of version 2


@within(run_cluster)
async def test_lowering_the_level_from_2_to_0_locks_live_transactions_of_version_2(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        producer = Producer(client, transactional_id="a")
        producer_identity = await producer.init_transactions()
        producer.begin()
        await send(producer, "locked")
        await set_level(client, 0)
        end_request = TxnRequests(
            "a",
            producer_id=producer_identity.producer_id,
            producer_epoch=producer_identity.producer_epoch,
        ).end(committed=True, accepted_versions=VersionRange(5, 5))
        errors = []
        for _ in range(2):
            home_partition = await client.coordinator("a")
            errors.append(ErrorCode((await client.ask(home_partition, end_request)).error_code))
        assert errors == [ErrorCode.unsupported_version, ErrorCode.concurrent_transactions]
        # A coordinator that moves forgets what was pending, and the level can be raised again.
        await set_level(client, 2)
        client.forget_coordinator("a")
        cluster.move(cluster.home("a"))
        await producer.commit()
        await producer.close()
        await until_state(client, "a", "CompleteCommit")
        await until_read(client, {"locked": 3})


@within(run_cluster)
async def test_the_home_of_a_transactional_id_is_where_the_tests_think(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        coordinator = await client.coordinator(TransactionalId("a"))
        assert cluster.home("a").topic == TRANSACTION_STATE_TOPIC
        assert coordinator == cluster.leader(cluster.home("a"))
