"""What is true of a sound cluster at rest, seen from inside: state that lives against state that is
made again from the logs, and replicas against each other.

Judges of histories know what clients saw. Here is looked for what nobody has seen yet: it would
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
from txnsim.placement import partition_for
from txnsim.server.cluster import SimCluster
from txnsim.txn.log_reader import read_log
from txnsim.txn.state import TxnMetadata, TxnTransition
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition
from txnsim.wire.batch import iter_batches

Violation = tuple[str, str]
"""A kind, and a sentence."""

UNSOUND_LOG: Final = "unsound-log"
FORGETFUL_COORDINATOR: Final = "coordinator-differs-from-its-log"
FORGETFUL_GROUP: Final = "positions-differ-from-their-log"
FORGETFUL_PRODUCERS: Final = "producers-differ-from-their-log"
DIFFERENT_REPLICAS: Final = "replicas-differ"
WRONG_COORDINATOR: Final = "coordinator-owns-what-it-does-not-lead"

KINDS: Final = (
    UNSOUND_LOG,
    FORGETFUL_COORDINATOR,
    FORGETFUL_GROUP,
    FORGETFUL_PRODUCERS,
    DIFFERENT_REPLICAS,
    WRONG_COORDINATOR,
)


def violations(cluster: SimCluster) -> list[Violation]:
    """Everything that does not hold now."""
    found: list[Violation] = []
    for broker in cluster.brokers.values():
        for check in (_logs, _coordinator, _groups, _producers):
            found += check(broker)
    return [*found, *_replicas(cluster), *_owned(cluster)]


def _logs(broker: Broker) -> Iterator[Violation]:
    """Each log against its bytes."""
    for log in broker.replicas.hosted.values():
        try:
            log.check_invariants()
        except InvariantViolation as error:
            yield UNSOUND_LOG, f"broker {broker.broker_id}: {error}"


def _coordinator(broker: Broker) -> Iterator[Violation]:
    """Transactional ids against ``__transaction_state``. A move that was not replicated in time is
    withdrawn, and its record stays, as in Kafka.
    """
    withdrawn = broker.coordinator.withdrawn()
    topic = broker.replicas.image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return
    made: dict[int, dict[str, tuple[object, ...]]] = {}
    for txn in broker.coordinator.entries():
        if txn.pending_state is not None:
            continue  # its record is under way
        index = partition_for(txn.transactional_id, len(topic.partitions))
        log = broker.replicas.led.get(TopicPartition(TRANSACTION_STATE_TOPIC, index))
        if log is None:
            continue
        if index not in made:
            read = read_log(log.batches(), rules=log.config.rules).entries
            made[index] = {one.transactional_id: _told(one) for one in read.values()}
        lives, late = _told(txn), withdrawn.get(txn.transactional_id)
        stored = made[index].get(txn.transactional_id)
        if stored != lives and (late is None or stored != _told(late)):
            yield (
                FORGETFUL_COORDINATOR,
                f"{txn.transactional_id} is {_shown(lives)}, its log says {_shown(stored)}",
            )


def _told(txn: TxnMetadata | TxnTransition) -> tuple[object, ...]:
    return txn.state, txn.producer_id, txn.producer_epoch, txn.partitions


def _shown(txn: tuple[object, ...] | None) -> str:
    if txn is None:
        return "nothing"
    state, producer_id, epoch, _ = txn
    return f"{getattr(state, 'wire_name', state)} of producer {producer_id}, epoch {epoch}"


def _groups(broker: Broker) -> Iterator[Violation]:
    """Positions, pending ones as well, against ``__consumer_offsets``."""
    for shard in broker.groups.shards():
        log = broker.replicas.led.get(TopicPartition(CONSUMER_OFFSETS_TOPIC, shard.partition))
        if log is None:
            continue
        again = GroupShard(partition=shard.partition, coordinator_epoch=shard.coordinator_epoch)
        for _ in again.read(log.batches()):
            pass
        for what, tell in (("positions", _committed), ("pending positions", _pending)):
            lives, stored = tell(shard), tell(again)
            if lives != stored:
                yield FORGETFUL_GROUP, f"{what} are {lives}, the log says {stored}"


def _committed(shard: GroupShard) -> dict[str, int]:
    return {
        f"{group} {one.topic_partition}": one.offset
        for group in sorted(shard.offsets.groups())
        for one in shard.offsets.all_committed(group)
    }


def _pending(shard: GroupShard) -> dict[int, tuple[str, ...]]:
    offsets = shard.offsets
    found = {
        producer: tuple(
            sorted(f"{group} {place}: {at}" for group, place, at in offsets.pending_of(producer))
        )
        for producer in sorted(offsets.pending_producers())
    }
    return {producer: pending for producer, pending in found.items() if pending}


def _producers(broker: Broker) -> Iterator[Violation]:
    """Open transactions against what a restart would find: the newest snapshot and the batches
    behind it; and against the batches alone.
    """
    for place, log in broker.replicas.led.items():
        lives = {one.producer_id: one.txn_first_offset for one in log.producers.open()}
        for what, reload in (("snapshot and log", _reloaded), ("log", _replayed)):
            stored = reload(log)
            if lives != stored:
                yield (
                    FORGETFUL_PRODUCERS,
                    (f"{place}: transactions are open since {lives}, by {what} since {stored}"),
                )


def _reloaded(log: PartitionLog) -> dict[int, int]:
    return _made_again(log, _copy_snapshots)


def _replayed(log: PartitionLog) -> dict[int, int]:
    """Without snapshots; what began before the log's start can't be known from it."""
    found = _made_again(log, _without_snapshots)
    early = {
        one.producer_id: one.txn_first_offset
        for one in log.producers.open()
        if one.txn_first_offset < log.log_start_offset
    }
    return {**found, **early}


def _without_snapshots(_log: PartitionLog, _again: ProducerStateManager) -> None:
    """The batches have to say all."""


def _copy_snapshots(log: PartitionLog, again: ProducerStateManager) -> None:
    for offset, entries in log.producers.snapshots.all():
        again.snapshots.take(offset, entries)


def _made_again(
    log: PartitionLog, prepare: Callable[[PartitionLog, ProducerStateManager], None]
) -> dict[int, int]:
    again = ProducerStateManager()
    prepare(log, again)
    again.reload(
        log.local.segments,
        start=log.log_start_offset,
        end=log.log_end_offset,
        now_ms=0,
        expiration_ms=log.config.producer_id_expiration_ms,
    )
    return {one.producer_id: one.txn_first_offset for one in again.open()}


def _replicas(cluster: SimCluster) -> Iterator[Violation]:
    """Below their high watermarks replicas have the same bytes. A cleaned log has holes of its own
    on each broker.
    """
    hosted: defaultdict[TopicPartition, list[tuple[BrokerId, PartitionLog]]] = defaultdict(list)
    for broker_id, broker in cluster.brokers.items():
        for place, log in broker.replicas.hosted.items():
            if not log.config.is_compacted:
                hosted[place].append((broker_id, log))
    for place, logs in hosted.items():
        if len(logs) < 2:
            continue
        start = max(log.log_start_offset for _, log in logs)
        end = min(log.high_watermark for _, log in logs)
        (first_id, first), *others = logs
        known = _between(first, start, end)
        for broker_id, log in others:
            if _between(log, start, end) != known:
                yield (
                    DIFFERENT_REPLICAS,
                    (f"{place}: brokers {first_id} and {broker_id} differ from {start} to {end}"),
                )


def _owned(cluster: SimCluster) -> Iterator[Violation]:
    """A broker coordinates what it leads, and nothing else."""
    for broker_id, broker in cluster.brokers.items():
        owned = {
            TRANSACTION_STATE_TOPIC: {one.partition for one in broker.coordinator.owned()},
            CONSUMER_OFFSETS_TOPIC: {one.partition for one in broker.groups.shards()},
        }
        for name, indexes in owned.items():
            topic = cluster.metadata.image.topics.get(name)
            partitions = () if topic is None else topic.partitions
            led = {index for index, one in enumerate(partitions) if one.leader == broker_id}
            if indexes != led:
                yield (
                    WRONG_COORDINATOR,
                    f"broker {broker_id} leads partitions {sorted(led)} of {name}, and coordinates"
                    f" those of {sorted(indexes)}",
                )


def _between(log: PartitionLog, start: int, end: int) -> list[bytes]:
    return [
        chunk[position : position + header.size]
        for chunk in log.batches(start)
        for position, header in iter_batches(chunk)
        if start <= header.base_offset < end
    ]
