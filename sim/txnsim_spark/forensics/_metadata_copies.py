"""Topics, and the replicas, leader and ISR of each partition, by the copies of the metadata log
(``__cluster_metadata-0``) among the directories. The newest copy counts.

Kafka's counterparts: MetadataRecordSerde, PartitionRegistration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, uuid_text
from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._evidence import ReplicaAssignment
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.scan.segments import UNKNOWN_BROKER, broker_of


def complete_coordinators(
    coordinators: Coordinators,
    assignments: Mapping[TopicPartition, ReplicaAssignment],
    brokers_by_partition: Mapping[int, Collection[int]],
) -> Coordinators:
    """Add to the coordinators' logs what the metadata log says of ``__transaction_state``: the
    number of its partitions, and whether an in-sync replica of each was seen.

    Args:
        coordinators: The coordinators' logs as read.
        assignments: Replicas of each partition in the metadata log; empty if there is no copy.
        brokers_by_partition: Partition of ``__transaction_state`` -> brokers whose replica was read
            or could be.
    """
    state_assignments = {
        topic_partition.partition: assignment
        for topic_partition, assignment in assignments.items()
        if topic_partition.topic == TRANSACTION_STATE_TOPIC
    }
    if not state_assignments:
        return coordinators
    partition_count = max({*state_assignments, *brokers_by_partition}) + 1
    return msgspec.structs.replace(
        coordinators,
        partition_count=partition_count,
        missing_partitions=tuple(
            partition
            for partition in range(partition_count)
            if partition not in brokers_by_partition
        ),
        not_in_sync_text_by_partition={
            partition: f"was seen on broker {_broker_list(brokers)} only; in sync are"
            f" {_broker_list(state_assignments[partition].in_sync)}"
            for partition, brokers in brokers_by_partition.items()
            if partition in state_assignments
            and UNKNOWN_BROKER not in brokers
            and not set(state_assignments[partition].in_sync) & set(brokers)
        },
    )


def _broker_list(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"


class KnownTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The topics in the copies of the metadata log."""

    assignments: Mapping[TopicPartition, ReplicaAssignment] = {}
    """The replicas of each partition, by the newest copy."""
    topic_ids: Mapping[str, str] | None = None
    """Name -> id of the existing topics, by the newest copy; None if there is no copy."""
    removed_topic_ids: frozenset[str] = frozenset()
    """Ids of deleted topics, as far back as the newest copy has records."""
    brokers: frozenset[int] = frozenset()
    """Brokers whose copy was read, and is complete."""
    age: tuple[int, int] | None = None
    """(controller epoch, offset) of the newest copy; None without a copy."""


def known_topics_in(log_dirs: Iterable[Path], on_problem: OnProblem) -> KnownTopics:
    """Read the copies of the metadata log.

    Args:
        log_dirs: Log directories that may have a copy.
        on_problem: Called with a copy that can't be read.
    """
    brokers_and_metadata = [
        (broker_of(log_dir), stored_metadata)
        for log_dir, stored_metadata in _stored_copies(log_dirs, on_problem)
    ]
    if not brokers_and_metadata:
        return KnownTopics()
    newest_metadata = max(
        (stored_metadata for _, stored_metadata in brokers_and_metadata),
        key=lambda stored_metadata: stored_metadata.age,
    )
    return KnownTopics(
        age=newest_metadata.age,
        assignments=_assignments_of(newest_metadata),
        topic_ids={
            name: uuid_text(topic.topic_id) for name, topic in newest_metadata.image.topics.items()
        },
        removed_topic_ids=frozenset(map(uuid_text, newest_metadata.removed_topic_ids)),
        brokers=frozenset(
            broker
            for broker, stored_metadata in brokers_and_metadata
            if not stored_metadata.is_torn
        )
        - {UNKNOWN_BROKER},
    )


def _stored_copies(
    log_dirs: Iterable[Path], on_problem: OnProblem
) -> Iterator[tuple[Path, StoredMetadata]]:
    for log_dir in log_dirs:
        try:
            stored_metadata = StoredMetadata.read(log_dir / StoredMetadata.FOLDER, cluster_id="")
        except (CorruptLogRecordError, OSError) as error:
            on_problem(f"{log_dir / StoredMetadata.FOLDER}: {error}; passed by")
            continue
        if stored_metadata is not None:
            yield log_dir, stored_metadata


def _assignments_of(stored_metadata: StoredMetadata) -> Mapping[TopicPartition, ReplicaAssignment]:
    """Partition -> its replicas, by one copy."""
    return {
        TopicPartition(topic_name, partition_number): ReplicaAssignment(
            replicas=tuple(map(int, partition.replicas)),
            # After the last stop the ISR is empty, and the ELR has all that is committed.
            in_sync=tuple(map(int, partition.isr or partition.elr)),
            leader=int(partition.leader),
        )
        for topic_name, topic in stored_metadata.image.topics.items()
        for partition_number, partition in enumerate(topic.partitions)
    }
