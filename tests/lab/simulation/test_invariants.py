"""Each invariant convicts a cluster in which somebody has forgotten or changed something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.markers import append_marker
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.requests import offset_commit
from txnsim.client.producer import Producer
from txnsim.errors import Rejection
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import ProducerEntry
from txnsim.txn.commands import InitProducerId
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import NO_PRODUCER_EPOCH, TopicPartition, TransactionalId
from txnsim_lab.simulation._invariants import (
    DIFFERENT_REPLICAS,
    FORGETFUL_COORDINATOR,
    FORGETFUL_GROUP,
    FORGETFUL_PRODUCERS,
    FORGOTTEN_EPOCH,
    OLD_MARKER,
    UNSOUND_LOG,
    WRONG_COORDINATOR,
    violations,
)

ORDERS_0 = TopicPartition("orders", 0)


async def use(cluster: VirtualCluster) -> None:
    """Make a position, a committed transaction and an open transaction."""
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        request = offset_commit("g", GroupMetadata(), {ORDERS_0: 3})
        await client.ask_group_coordinator("g", request)
        await producer.init_transactions()
        for _ in range(2):
            producer.begin()
            await producer.send("orders", 0, b"v")
            await producer.commit()
        producer.begin()
        await producer.send("orders", 0, b"open")
    cluster.advance(1_000)


def leader(cluster: VirtualCluster, topic_partition: TopicPartition = ORDERS_0):  # type: ignore[no-untyped-def]
    return cluster.sim.brokers[cluster.leader(topic_partition)]


def forget_a_transaction(cluster: VirtualCluster) -> None:
    home_partition = cluster.home("tx")
    for owned_partition in leader(cluster, home_partition).coordinator._ownership:
        entries = owned_partition.entries
        entries.update(
            {
                name: type(txn)(
                    **{**{f: getattr(txn, f) for f in txn.__struct_fields__}, "producer_epoch": 77}
                )
                for name, txn in entries.items()
            }
        )


def forget_a_position(cluster: VirtualCluster) -> None:
    for broker in cluster.sim.brokers.values():
        for shard in broker.groups.shards():
            shard.offsets._committed.clear()


def forget_an_open_transaction(cluster: VirtualCluster) -> None:
    log = leader(cluster).replicas.led[ORDERS_0]
    log.producers.snapshots.add(log.log_end_offset, ())


def a_producer(cluster: VirtualCluster) -> tuple[PartitionLog, ProducerEntry]:
    log = leader(cluster).replicas.led[ORDERS_0]
    (entry,) = log.producers.state.entries()
    return log, entry


def forget_an_epoch(cluster: VirtualCluster) -> None:
    _, entry = a_producer(cluster)
    entry.producer_epoch -= 1


def forget_a_producer(cluster: VirtualCluster) -> None:
    log, entry = a_producer(cluster)
    log.producers.state.by_id.pop(entry.producer_id)


def leave_a_producer_out_of_a_snapshot(cluster: VirtualCluster) -> None:
    log, entry = a_producer(cluster)
    append_marker(log, now_ms=0, producer_id=entry.producer_id, producer_epoch=9)
    log.producers.snapshots.add(log.log_end_offset, ())


def take_a_marker_of_an_old_coordinator(cluster: VirtualCluster) -> None:
    log, entry = a_producer(cluster)
    for epoch in (5, 4):
        entry.coordinator_epoch = 0
        fields = {"producer_id": entry.producer_id, "producer_epoch": entry.producer_epoch}
        append_marker(log, now_ms=0, coordinator_epoch=epoch, **fields)


def lose_a_record(cluster: VirtualCluster) -> None:
    follower_broker = next(
        broker
        for broker in cluster.sim.brokers.values()
        if ORDERS_0 in broker.replicas.hosted and ORDERS_0 not in broker.replicas.led
    )
    log = follower_broker.replicas.hosted[ORDERS_0]
    segment = log.local.segments.active
    batch = bytearray(segment._batches[0])
    batch[-1] ^= 1
    segment._batches[0] = bytes(batch)


def coordinate_what_another_leads(cluster: VirtualCluster) -> None:
    home_partition = cluster.home("tx")
    other_broker = next(
        broker
        for broker in cluster.sim.brokers.values()
        if home_partition not in broker.replicas.led
    )
    (owned_partition, *_) = leader(cluster, home_partition).coordinator._ownership
    other_broker.coordinator._ownership.owned[owned_partition.partition] = owned_partition


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (coordinate_what_another_leads, WRONG_COORDINATOR),
        (forget_a_transaction, FORGETFUL_COORDINATOR),
        (forget_a_position, FORGETFUL_GROUP),
        (forget_an_open_transaction, FORGETFUL_PRODUCERS),
        (forget_an_epoch, FORGOTTEN_EPOCH),
        (forget_a_producer, FORGOTTEN_EPOCH),
        (leave_a_producer_out_of_a_snapshot, FORGOTTEN_EPOCH),
        (take_a_marker_of_an_old_coordinator, OLD_MARKER),
    ],
)
def test_harm_is_found_and_nothing_before(
    harm: Callable[[VirtualCluster], None], kind: str
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        assert violations(cluster.sim) == []
        harm(cluster)
        assert kind in {kind_found for kind_found, _ in violations(cluster.sim)}

    run_cluster(main)


def test_a_producer_that_may_have_expired_may_be_forgotten() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        log, _ = a_producer(cluster)
        log.config = replace(log.config, producer_id_expiration_ms=60_000)
        log.producers.state._ongoing.clear()
        forget_a_producer(cluster)
        assert FORGOTTEN_EPOCH not in {kind_found for kind_found, _ in violations(cluster.sim)}

    run_cluster(main)


def test_a_move_that_was_not_replicated_in_time_may_stay_in_the_log() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        homes = [*leader(cluster, cluster.home("tx")).coordinator._ownership]
        known_entries = [dict(owned_partition.entries) for owned_partition in homes]
        forget_a_transaction(cluster)
        for owned_partition, entries in zip(homes, known_entries, strict=True):
            owned_partition.withdrawn_transitions.update(entries)
        assert violations(cluster.sim) == []

    run_cluster(main)


async def refuse_the_first_record(cluster: VirtualCluster, transactional_id: str) -> TxnMetadata:
    """Send InitProducerId while the log refuses coordinators' appends."""
    fail = Fail(error="NOT_ENOUGH_REPLICAS")
    cluster.arm(fail, FaultPoint.LOG_APPEND, kind="coordinator", role="leader")
    coordinator = leader(cluster, cluster.home(transactional_id)).coordinator
    await coordinator.ready()
    name = TransactionalId(transactional_id)
    answer = await coordinator.init_producer_id(
        InitProducerId(transactional_id=name, timeout_ms=9_000)
    )
    assert isinstance(answer, Rejection)
    cluster.injector.disarm_all()
    txn_metadata: TxnMetadata | None = coordinator.entry(name)
    assert txn_metadata is not None
    assert (txn_metadata.state, txn_metadata.producer_epoch) == (
        TransactionState.EMPTY,
        NO_PRODUCER_EPOCH,
    )
    return txn_metadata


def test_an_id_whose_first_record_was_refused_has_none_in_the_log() -> None:
    """Seed 5906: Kafka keeps such an id in memory, too."""

    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        await refuse_the_first_record(cluster, "new")
        assert violations(cluster.sim) == []

    run_cluster(main)


@pytest.mark.parametrize(
    ("transactional_id", "changes"),
    [
        ("new", {"producer_epoch": 0}),
        ("new", {"state": TransactionState.COMPLETE_ABORT}),
        ("new", {"partitions": frozenset({ORDERS_0})}),
        ("tx", {}),
    ],
)
def test_an_id_that_was_granted_or_is_in_the_log_is_compared(
    transactional_id: str, changes: dict[str, Any]
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        txn_metadata = await refuse_the_first_record(cluster, "new")
        home_partition = cluster.home(transactional_id)
        (other_owned,) = (
            owned_partition
            for owned_partition in leader(cluster, home_partition).coordinator.owned_partitions()
            if owned_partition.partition == home_partition.partition
        )
        changed_metadata = replace(
            txn_metadata, transactional_id=TransactionalId(transactional_id), **changes
        )
        other_owned.entries[changed_metadata.transactional_id] = changed_metadata
        assert [fault_kind for fault_kind, _ in violations(cluster.sim)] == [FORGETFUL_COORDINATOR]

    run_cluster(main)


def test_a_replica_that_says_something_else_is_found() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        lose_a_record(cluster)
        kinds = {kind_found for kind_found, _ in violations(cluster.sim)}
        assert DIFFERENT_REPLICAS in kinds

    run_cluster(main)


def test_a_log_against_its_bytes() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        log = leader(cluster).replicas.led[ORDERS_0]
        log.high_watermark = log.log_end_offset + 5
        assert UNSOUND_LOG in {kind_found for kind_found, _ in violations(cluster.sim)}

    run_cluster(main)
