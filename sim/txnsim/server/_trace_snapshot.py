"""The current state of a cluster as events of the trace, for readers that lack earlier events.

A recording that begins in the middle opens with these events: one that is switched on late, and one
whose older events were dropped. A cluster may be large, so the state comes in parts, one per turn
of the loop. Each part is true at its place among the events, and a reader that assigns in order is
right from the last part on. Names and values are those of the events that tell of changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final, Protocol

import msgspec

from txnsim.broker.broker import Broker
from txnsim.coordinators.txn.tracing import fields, tx_of
from txnsim.injection.armed_rule import ArmedRule
from txnsim.injection.injector import Injector
from txnsim.log.partition_log import PartitionLog
from txnsim.node.metadata_publisher import Metadata
from txnsim.runtime.environment import Environment
from txnsim.runtime.trace import name_of
from txnsim.server.member import ClusterMember
from txnsim.txn.state import PREPARED_STATES, TransactionState
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition

ITEMS_PER_PART: Final = 250
"""Partitions, transactions and other items in one part: a millisecond or two of work."""
ALWAYS_WRITTEN_LISTS: Final = frozenset({"partitions", "transactions"})
"""Lists that are written even if they are empty."""


class TracedCluster(Protocol):
    """The part of a cluster that a snapshot reads (``server.cluster.SimCluster``)."""

    environment: Environment
    members: dict[BrokerId, ClusterMember]
    injector: Injector

    @property
    def metadata(self) -> Metadata:
        """The metadata of the cluster, which publishes new images to the brokers."""

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        """The running brokers by their ids."""


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a broker."""

    node: str
    state: str
    """``running``, ``down``, or a state between them."""


class ProducerNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a producer with an open transaction, as a partition's leader has it."""

    pid: int
    epoch: int
    first: int
    """First offset of its open transaction."""
    seq: int
    coordinator_epoch: int
    timestamp: int
    """Time of its last write, ms of the wall clock."""
    since: int | None
    """Timestamp of the first batch of its open transaction; None if that is deleted."""


class PartitionNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a partition, as its leader has it; offsets that are 0 or unknown are omitted."""

    tp: str
    leader: int
    epoch: int
    """Leader epoch."""
    isr: tuple[int, ...]
    replicas: int
    """Number of replicas."""
    led: bool = False
    """Whether the leader runs and has taken the leadership."""
    start: int = 0
    end: int = 0
    hw: int = 0
    lso: int = 0
    producers: tuple[ProducerNow, ...] = ()


class TransactionNow(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction, as its coordinator has it; ``d`` has the fields of ``txn.complete``."""

    node: str
    coordinator_epoch: int
    tx: str
    d: dict[str, object]
    is_fence_lost: bool = False
    """Whether a fence has raised the epoch, and its record was lost."""


class FaultNow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault rule in force."""

    rule: str
    point: str
    action: str
    matched: int
    struck: int
    held: int


def open_with_snapshot(cluster: TracedCluster) -> None:
    """Let recordings of this cluster that begin in the middle open with its state."""
    environment = cluster.environment
    environment.tracer.begin_with(
        partial(snapshot_parts, cluster), partial(environment.clock.call_later, 0)
    )


def snapshot_parts(cluster: TracedCluster) -> Iterator[dict[str, object]]:
    """The payloads of a snapshot's events, in order; none if the cluster has not started.

    Each payload is made when it is needed. Objects that are created meanwhile have events of their
    own.
    """
    if not cluster.members:
        return
    first_part_fields: dict[str, object] = {
        "trace": cluster.environment.tracer.level.value,
        "features": dict(sorted(cluster.metadata.image.features.items())),
        "brokers": [
            NodeNow(node=f"broker/{broker_id}", state=member.state.name.lower())
            for broker_id, member in cluster.members.items()
        ],
        "faults": [_fault_state(rule) for rule in cluster.injector.rules()],
        "coordinators": _coordinators(cluster),
    }
    items_by_list: dict[str, Iterator[object]] = {
        "partitions": _partition_states(cluster),
        "transactions": _transactions(cluster),
        "owed": _owed_markers(cluster),
        "positions": (
            group_position
            for broker in cluster.brokers.values()
            for group_position in broker.groups.trace.positions()
        ),
        "shares": _share_partitions(cluster),
        "streams": _streams_members(cluster),
    }
    part_number = 0
    is_last = False
    while not is_last:
        items_of_part: dict[str, list[object]] = {}
        items_left = ITEMS_PER_PART
        for list_name, unwritten_items in items_by_list.items():
            items_of_part[list_name] = list(islice(unwritten_items, items_left))
            items_left -= len(items_of_part[list_name])
        is_last = items_left > 0
        yield {
            **(first_part_fields if part_number == 0 else {}),
            "part": part_number,
            "last": is_last,
            **{
                list_name: list_items
                for list_name, list_items in items_of_part.items()
                if list_items or list_name in ALWAYS_WRITTEN_LISTS
            },
        }
        part_number += 1


def _partition_states(cluster: TracedCluster) -> Iterator[PartitionNow]:
    image = cluster.metadata.image
    for topic_partition in [
        TopicPartition(topic.name, index)
        for topic in image.topics.values()
        for index in range(len(topic.partitions))
    ]:
        partition_image = cluster.metadata.image.partition(topic_partition)
        if partition_image is None:
            continue
        member = cluster.members.get(partition_image.leader)
        broker = None if member is None else member.broker
        log = None if broker is None else broker.replicas.led.get(topic_partition)
        partition_state = PartitionNow(
            tp=str(topic_partition),
            leader=partition_image.leader,
            epoch=partition_image.leader_epoch,
            isr=partition_image.isr,
            replicas=len(partition_image.replicas),
        )
        yield partition_state if log is None else _with_log_state(partition_state, log)


def _with_log_state(partition_state: PartitionNow, log: PartitionLog) -> PartitionNow:
    return msgspec.structs.replace(
        partition_state,
        led=True,
        start=log.log_start_offset,
        end=log.log_end_offset,
        hw=log.high_watermark,
        lso=log.last_stable_offset,
        producers=tuple(
            ProducerNow(
                pid=producer.producer_id,
                epoch=producer.producer_epoch,
                first=producer.txn_first_offset,
                seq=producer.last_sequence,
                coordinator_epoch=producer.coordinator_epoch,
                timestamp=producer.last_timestamp,
                since=log.batch_timestamp_at(producer.txn_first_offset),
            )
            for producer in log.producers.open_producers()
        ),
    )


def _transactions(cluster: TracedCluster) -> Iterator[TransactionNow]:
    for broker in cluster.brokers.values():
        for owned_partition in broker.coordinator.owned_partitions():
            for transactional_id in list(owned_partition.entries):
                txn = owned_partition.entries.get(transactional_id)
                if txn is not None:
                    yield TransactionNow(
                        node=owned_partition.node,
                        coordinator_epoch=owned_partition.coordinator_epoch,
                        tx=name_of(tx_of(txn)),
                        d=fields(txn),
                        is_fence_lost=txn.has_failed_epoch_fence,
                    )


def _coordinators(cluster: TracedCluster) -> list[str]:
    """Each partition of the transaction log, as the node of the coordinator that serves it, or as
    ``/N`` if none does.
    """
    topic = cluster.metadata.image.topics.get(TRANSACTION_STATE_TOPIC)
    nodes = {} if topic is None else {index: f"/{index}" for index in range(len(topic.partitions))}
    for broker in cluster.brokers.values():
        for owned_partition in broker.coordinator.owned_partitions():
            nodes[owned_partition.partition] = owned_partition.node
    return list(nodes.values())


def _owed_markers(cluster: TracedCluster) -> Iterator[dict[str, object]]:
    """Markers that prepared transactions still owe."""
    for broker in cluster.brokers.values():
        sendings = broker.coordinator.sendings()
        for owned_partition in broker.coordinator.owned_partitions():
            for txn in tuple(owned_partition.entries.values()):
                if txn.state not in PREPARED_STATES:
                    continue
                sending_by_partition = sendings.get(txn.transactional_id, {})
                for partition in sorted(txn.partitions):
                    is_abandoned = partition not in sending_by_partition
                    yield {
                        "tx": name_of(tx_of(txn)),
                        "tp": str(partition),
                        "committed": txn.state is TransactionState.PREPARE_COMMIT,
                        "how": "abandoned" if is_abandoned else "owed",
                    }


def _share_partitions(cluster: TracedCluster) -> Iterator[dict[str, object]]:
    for broker in cluster.brokers.values():
        if broker.made_share_fetching is not None:
            yield from broker.made_share_fetching.shares.snapshots()


def _streams_members(cluster: TracedCluster) -> Iterator[dict[str, object]]:
    for broker in cluster.brokers.values():
        yield from broker.groups.streams.trace.members()


def _fault_state(rule: ArmedRule) -> FaultNow:
    return FaultNow(
        rule=rule.rule.id,
        point=rule.rule.point,
        action=str(rule.rule.action),
        matched=rule.matched,
        struck=rule.struck,
        held=len(rule.held_crossings),
    )
