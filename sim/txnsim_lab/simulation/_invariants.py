"""Invariants of a healthy cluster at rest, checked from inside. State in memory must equal the
state that is rebuilt from the logs, and replicas must equal each other. The judges of histories
know only what clients saw; these checks find damage that no client has seen yet, and that would
show at the next failover.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from txnsim.broker.broker import Broker
from txnsim.errors import InvariantViolation
from txnsim.group.shard import GroupShard
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state_manager import ProducerStateManager
from txnsim.server.cluster import SimCluster
from txnsim.txn.log_reader import read_log
from txnsim.txn.state import TransactionState, TxnMetadata, TxnTransition
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    NO_PRODUCER_EPOCH,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    partition_for,
)
from txnsim.wire.batch import iter_batches, read_control_record

DAY_MS: Final = 86_400_000
"""Default of ``producer.id.expiration.ms``; every run is shorter."""
Violation = tuple[str, str]
"""The kind of the violation, and a sentence."""

UNSOUND_LOG: Final = "unsound-log"
FORGETFUL_COORDINATOR: Final = "coordinator-differs-from-its-log"
FORGETFUL_GROUP: Final = "positions-differ-from-their-log"
FORGETFUL_PRODUCERS: Final = "producers-differ-from-their-log"
FORGOTTEN_EPOCH: Final = "producer-epoch-differs-from-its-log"
OLD_MARKER: Final = "marker-of-an-older-coordinator"
DIFFERENT_REPLICAS: Final = "replicas-differ"
WRONG_COORDINATOR: Final = "coordinator-owns-what-it-does-not-lead"

VIOLATION_KINDS: Final = (
    UNSOUND_LOG,
    FORGETFUL_COORDINATOR,
    FORGETFUL_GROUP,
    FORGETFUL_PRODUCERS,
    FORGOTTEN_EPOCH,
    OLD_MARKER,
    DIFFERENT_REPLICAS,
    WRONG_COORDINATOR,
)


def violations(cluster: SimCluster) -> list[Violation]:
    broken_invariants: list[Violation] = []
    for broker in cluster.brokers.values():
        for find_violations in (
            _log_violations,
            _coordinator_violations,
            _group_violations,
            _producer_violations,
        ):
            broken_invariants += find_violations(broker)
    return [*broken_invariants, *_replica_violations(cluster), *_coordinated_partitions(cluster)]


def _log_violations(broker: Broker) -> Iterator[Violation]:
    """Compare the state of each log with its bytes."""
    for log in broker.replicas.hosted.values():
        try:
            log.check_invariants()
        except InvariantViolation as error:
            yield UNSOUND_LOG, f"broker {broker.broker_id}: {error}"


def _coordinator_violations(broker: Broker) -> Iterator[Violation]:
    """Compare transactional ids in memory with ``__transaction_state``. A transition that was not
    replicated in time is withdrawn, and its record stays, as in Kafka. An id whose first record was
    refused stays in memory without an epoch
    (``TransactionStateManager.putTransactionStateIfNotExists``).
    """
    transition_by_id = broker.coordinator.withdrawn_transitions()
    topic = broker.replicas.image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return
    stored_by_partition: dict[int, dict[str, tuple[object, ...]]] = {}
    for txn in broker.coordinator.entries():
        if txn.pending_state is not None:
            continue  # its record is under way
        partition_index = partition_for(txn.transactional_id, len(topic.partitions))
        log = broker.replicas.led.get(TopicPartition(TRANSACTION_STATE_TOPIC, partition_index))
        if log is None:
            continue
        if partition_index not in stored_by_partition:
            txn_by_id = read_log(log.batches(), release_rules=log.config.rules).entries
            stored_by_partition[partition_index] = {
                stored_txn.transactional_id: _comparable_state(stored_txn)
                for stored_txn in txn_by_id.values()
            }
        live_fields, withdrawn_txn = (
            _comparable_state(txn),
            transition_by_id.get(txn.transactional_id),
        )
        stored_fields = stored_by_partition[partition_index].get(txn.transactional_id)
        if stored_fields is None and _has_no_record(txn):
            continue
        if stored_fields != live_fields and (
            withdrawn_txn is None or stored_fields != _comparable_state(withdrawn_txn)
        ):
            yield (
                FORGETFUL_COORDINATOR,
                f"{txn.transactional_id} is {_describe_state(live_fields)}, its log says"
                f" {_describe_state(stored_fields)}",
            )


def _comparable_state(txn: TxnMetadata | TxnTransition) -> tuple[object, ...]:
    return txn.state, txn.producer_id, txn.producer_epoch, txn.partitions


def _has_no_record(txn: TxnMetadata) -> bool:
    """Whether no record of an id has taken effect yet."""
    is_new = txn.state is TransactionState.EMPTY and txn.producer_epoch == NO_PRODUCER_EPOCH
    return is_new and not txn.partitions


def _describe_state(txn: tuple[object, ...] | None) -> str:
    if txn is None:
        return "nothing"
    state, producer_id, epoch, _ = txn
    return f"{getattr(state, 'wire_name', state)} of producer {producer_id}, epoch {epoch}"


def _group_violations(broker: Broker) -> Iterator[Violation]:
    """Compare positions, including pending ones, with ``__consumer_offsets``."""
    for shard in broker.groups.shards():
        log = broker.replicas.led.get(TopicPartition(CONSUMER_OFFSETS_TOPIC, shard.partition))
        if log is None:
            continue
        reread_shard = GroupShard(
            partition=shard.partition, coordinator_epoch=shard.coordinator_epoch
        )
        for _ in reread_shard.read(log.batches()):
            pass
        for contents_noun, describe_contents in (
            ("positions", _committed_positions),
            ("pending positions", _pending_positions),
        ):
            live_contents, stored_contents = (
                describe_contents(shard),
                describe_contents(reread_shard),
            )
            if live_contents != stored_contents:
                yield (
                    FORGETFUL_GROUP,
                    f"{contents_noun} are {live_contents}, the log says {stored_contents}",
                )


def _committed_positions(shard: GroupShard) -> dict[str, int]:
    return {
        f"{group} {committed_offset.topic_partition}": committed_offset.position
        for group in sorted(shard.offsets.group_ids())
        for committed_offset in shard.offsets.committed_offsets(group)
    }


def _pending_positions(shard: GroupShard) -> dict[int, tuple[str, ...]]:
    offsets = shard.offsets
    pending_by_producer = {
        producer: tuple(
            sorted(
                f"{group} {partition}: {position}"
                for group, partition, position in offsets.pending_positions_of(producer)
            )
        )
        for producer in sorted(offsets.pending_producers())
    }
    return {producer: pending for producer, pending in pending_by_producer.items() if pending}


def _producer_violations(broker: Broker) -> Iterator[Violation]:
    """Compare open transactions and epochs with the state that a restart would load from the newest
    snapshot and the batches after it; and with the state from the batches alone.
    """
    for partition, log in broker.replicas.led.items():
        reloaded_producers, replayed_producers = (
            _reload_producers(log, add_snapshots)
            for add_snapshots in (_copy_snapshots, _without_snapshots)
        )
        live_starts, early_starts = (
            _open_transactions(log.producers),
            _transactions_before_log(log),
        )
        for source_noun, stored_starts in (
            ("snapshot and log", _open_transactions(reloaded_producers)),
            ("log", {**_open_transactions(replayed_producers), **early_starts}),
        ):
            if live_starts != stored_starts:
                yield (
                    FORGETFUL_PRODUCERS,
                    (
                        f"{partition}: transactions are open since {live_starts},"
                        f" by {source_noun} since {stored_starts}"
                    ),
                )
        yield from _epoch_violations(partition, log, reloaded_producers)


def _epoch_violations(
    partition: TopicPartition, log: PartitionLog, reloaded_producers: ProducerStateManager
) -> Iterator[Violation]:
    """Check the epochs that fence zombies: each producer has the epoch of its newest batch or
    marker, also after a restart. And those that fence old coordinators: the coordinator epochs in
    the markers of a producer never decrease.
    """
    epoch_by_producer: dict[int, int] = {}
    coordinator_epoch_by_producer: dict[int, int] = {}
    for batches_of_chunk in log.batches(log.log_start_offset):
        for position, header in iter_batches(batches_of_chunk):
            producer_id = header.producer_id
            if producer_id < 0:
                continue  # of no producer
            epoch_by_producer[producer_id] = header.producer_epoch
            if not header.is_control:
                continue
            control = read_control_record(batches_of_chunk, position)
            if control is None or not control.is_marker:
                continue
            last_coordinator_epoch = coordinator_epoch_by_producer.get(producer_id, -1)
            coordinator_epoch_by_producer[producer_id] = control.coordinator_epoch
            if control.coordinator_epoch < last_coordinator_epoch:
                yield (
                    OLD_MARKER,
                    f"{partition}: the marker at {header.base_offset} is one of coordinator epoch"
                    f" {control.coordinator_epoch}, and producer"
                    f" {producer_id} has one of {last_coordinator_epoch} before it",
                )
    for producer_id, epoch in epoch_by_producer.items():
        entries_to_compare = (
            log.producers.state.find(producer_id),
            reloaded_producers.state.find(producer_id),
        )
        # An entry without an epoch is what an emptied marker leaves of a producer.
        live_epoch, reloaded_epoch = (
            None
            if producer_entry is None or producer_entry.producer_epoch == NO_PRODUCER_EPOCH
            else producer_entry.producer_epoch
            for producer_entry in entries_to_compare
        )
        may_expire = log.config.producer_id_expiration_ms < DAY_MS
        if (live_epoch, reloaded_epoch) != (epoch, epoch) and not (
            may_expire and None in (live_epoch, reloaded_epoch)
        ):
            yield (
                FORGOTTEN_EPOCH,
                f"{partition}: the newest batch of producer {producer_id} has epoch {epoch}; it"
                " is at"
                f" {_epoch_text(live_epoch)}, by snapshot and log at {_epoch_text(reloaded_epoch)}",
            )


def _epoch_text(epoch: int | None) -> str:
    return "none" if epoch is None else str(epoch)


def _open_transactions(producers: ProducerStateManager) -> dict[int, int]:
    return {
        producer.producer_id: producer.txn_first_offset for producer in producers.open_producers()
    }


def _transactions_before_log(log: PartitionLog) -> dict[int, int]:
    """Open transactions that began before the start of the log; batches can't show them."""
    start_offset = log.log_start_offset
    return {
        producer: first_offset
        for producer, first_offset in _open_transactions(log.producers).items()
        if first_offset < start_offset
    }


def _without_snapshots(_log: PartitionLog, _reloaded_producers: ProducerStateManager) -> None:
    """Replay without snapshots: the batches alone must give the same state."""


def _copy_snapshots(log: PartitionLog, reloaded_producers: ProducerStateManager) -> None:
    reloaded_producers.snapshots = log.producers.snapshots.copy()


def _reload_producers(
    log: PartitionLog, add_snapshots: Callable[[PartitionLog, ProducerStateManager], None]
) -> ProducerStateManager:
    reloaded = ProducerStateManager()
    add_snapshots(log, reloaded)
    reloaded.reload(
        log.local.segments,
        start_offset=log.log_start_offset,
        end_offset=log.log_end_offset,
        now_ms=0,
        expiration_ms=log.config.producer_id_expiration_ms,
    )
    reloaded.finish_reload()
    return reloaded


def _replica_violations(cluster: SimCluster) -> Iterator[Violation]:
    """Replicas must have the same bytes below their high watermarks. Compacted logs are left out,
    since each broker removes other records.
    """
    logs_by_partition: defaultdict[TopicPartition, list[tuple[BrokerId, PartitionLog]]] = (
        defaultdict(list)
    )
    for broker_id, broker in cluster.brokers.items():
        for partition, log in broker.replicas.hosted.items():
            if not log.config.is_compacted:
                logs_by_partition[partition].append((broker_id, log))
    for partition, logs in logs_by_partition.items():
        if len(logs) < 2:
            continue
        common_start_offset = max(log.log_start_offset for _, log in logs)
        common_end_offset = min(log.high_watermark for _, log in logs)
        (first_id, first_log), *other_logs = logs
        first_bytes = _batches_between(first_log, common_start_offset, common_end_offset)
        for broker_id, log in other_logs:
            if _batches_between(log, common_start_offset, common_end_offset) != first_bytes:
                yield (
                    DIFFERENT_REPLICAS,
                    (
                        f"{partition}: brokers {first_id} and {broker_id} differ"
                        f" from {common_start_offset} to {common_end_offset}"
                    ),
                )


def _coordinated_partitions(cluster: SimCluster) -> Iterator[Violation]:
    """A broker must coordinate exactly the partitions that it leads."""
    for broker_id, broker in cluster.brokers.items():
        owned_by_topic = {
            TRANSACTION_STATE_TOPIC: {
                shard.partition for shard in broker.coordinator.owned_partitions()
            },
            CONSUMER_OFFSETS_TOPIC: {shard.partition for shard in broker.groups.shards()},
        }
        for topic_name, indexes in owned_by_topic.items():
            topic = cluster.metadata.image.topics.get(topic_name)
            partitions = () if topic is None else topic.partitions
            led_partitions = {
                partition_index
                for partition_index, partition in enumerate(partitions)
                if partition.leader == broker_id
            }
            if indexes != led_partitions:
                yield (
                    WRONG_COORDINATOR,
                    f"broker {broker_id} leads partitions {sorted(led_partitions)} of {topic_name},"
                    f" and coordinates those of {sorted(indexes)}",
                )


def _batches_between(log: PartitionLog, start_offset: int, end_offset: int) -> list[bytes]:
    return [
        batches_of_chunk[position : position + header.size]
        for batches_of_chunk in log.batches(start_offset)
        for position, header in iter_batches(batches_of_chunk)
        if start_offset <= header.base_offset < end_offset
    ]
