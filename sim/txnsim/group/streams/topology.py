"""The topology of a Kafka Streams application, compared with the existing topics. Pure.

The first member sends it. It determines the tasks, and the topics that the broker has to create:
repartition topics and changelogs, whose numbers of partitions depend on those of other topics.

Counterpart in Kafka: StreamsTopology, InternalTopicManager, RepartitionTopics, ChangelogTopics,
CopartitionedTopicsEnforcer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.streams._java_order import java_order
from txnsim.metadata.image import ClusterImage


class TopologyStatus(IntEnum):
    """Conditions of a group that a heartbeat reports; the value is the code on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


StatusMessage = tuple[TopologyStatus, str]
"""A status and its message."""


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An internal topic. 0 partitions: to be computed; 0 replicas: the broker's default."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Source topics of a subtopology that need equal numbers of partitions, by their indexes."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an application that is divided into tasks."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """All topics that the subtopology reads, including internal ones."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What an application reads and writes."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By id, in Kafka's iteration order."""

    def required_topics(self) -> list[str]:
        """Names of source, repartition, changelog topics, in Kafka's hash order."""
        return java_order(
            topic_name
            for subtopology in self.subtopologies.values()
            for topic_name in (
                *subtopology.sources,
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )

    def reader_of(self, topic: str) -> str | None:
        """The subtopology that reads a topic; the last one if there are several."""
        reader_ids = [
            subtopology_id
            for subtopology_id, subtopology in self.subtopologies.items()
            if topic in subtopology.sources
        ]
        return reader_ids[-1] if reader_ids else None


def subtopology_of(message: Any) -> Subtopology:
    """Convert a subtopology from a heartbeat's message, or a record's."""

    def topics(topic_messages: Any) -> tuple[TopicInfo, ...]:
        return tuple(
            TopicInfo(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                topic_configs=tuple((config.key, config.value) for config in topic.topic_configs),
            )
            for topic in topic_messages
        )

    return Subtopology(
        subtopology_id=message.subtopology_id,
        source_topics=message.source_topics,
        source_topic_regex=message.source_topic_regex,
        state_changelog_topics=topics(message.state_changelog_topics),
        repartition_sink_topics=message.repartition_sink_topics,
        repartition_source_topics=topics(message.repartition_source_topics),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=copartition_group.source_topics,
                source_topic_regex=copartition_group.source_topic_regex,
                repartition_source_topics=copartition_group.repartition_source_topics,
            )
            for copartition_group in message.copartition_groups
        ),
    )


def build_topology(epoch: int, subtopologies: Collection[Subtopology]) -> Topology | Rejection:
    """A topology, or the error if Kafka can't process it."""
    subtopologies_by_id = {subtopology.subtopology_id: subtopology for subtopology in subtopologies}
    if epoch < 0:
        return _server_error("Topology epoch must be non-negative.")
    if len(subtopologies_by_id) < len(subtopologies):
        return _server_error("Duplicate key")
    return Topology(
        epoch=epoch,
        subtopologies={
            subtopology_id: subtopologies_by_id[subtopology_id]
            for subtopology_id in java_order(subtopologies_by_id)
        },
    )


class ConfiguredTopology(msgspec.Struct, frozen=True, kw_only=True):
    """A topology together with the topics of an image."""

    epoch: int
    subtopologies: Mapping[str, Subtopology] | None = None
    """By id, sorted, with the partition counts of internal topics; None if topics are invalid."""
    tasks: Mapping[str, int] = {}
    """Subtopology -> number of its tasks."""
    missing: Mapping[str, TopicInfo] = {}
    """Internal topics to be created."""
    problem: StatusMessage | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist and are valid."""
        return self.problem is None


class _WrongTopicsError(Exception):
    """Topics are invalid; ends ``configure`` with a status or a refusal."""

    def __init__(self, outcome: StatusMessage | Rejection) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def configure(topology: Topology, image: ClusterImage) -> ConfiguredTopology | Rejection:
    """Count tasks, and find missing internal topics.

    Returns:
        The configured topology, with a status if topics are missing or invalid; or why the topology
            is impossible.
    """
    try:
        return _configure_partitions(topology, image)
    except _WrongTopicsError as error:
        if isinstance(error.outcome, Rejection):
            return error.outcome
        return ConfiguredTopology(epoch=topology.epoch, problem=error.outcome)


def _configure_partitions(topology: Topology, image: ClusterImage) -> ConfiguredTopology:
    subtopologies = topology.subtopologies
    copartition_groups = [
        copartition_group
        for subtopology in subtopologies.values()
        for copartition_group in _copartition_groups(subtopology)
    ]
    absent_topics = sorted(
        {
            topic_name
            for subtopology in subtopologies.values()
            for topic_name in subtopology.source_topics
            if topic_name not in image.topics
        }
    )
    if absent_topics:
        raise _WrongTopicsError(
            (
                TopologyStatus.MISSING_SOURCE_TOPICS,
                f"Source topics {_summary(absent_topics)} are missing.",
            )
        )
    partition_counts = _PartitionCounts(image)
    partition_counts.own |= _repartition_counts(subtopologies, partition_counts)
    for copartition_group in copartition_groups:
        partition_counts.own |= _copartition_counts(copartition_group, topology, partition_counts)
    for subtopology in subtopologies.values():
        if not subtopology.sources:
            raise _WrongTopicsError(
                _invalid_topology(
                    f"No source topics found for subtopology {subtopology.subtopology_id}"
                )
            )
        largest_count = max(
            partition_counts.count_of(topic_name) for topic_name in subtopology.sources
        )
        partition_counts.own |= {
            topic.name: largest_count for topic in subtopology.state_changelog_topics
        }
    configured_subtopologies = {
        topic_name: _with_counts(subtopologies[topic_name], partition_counts)
        for topic_name in sorted(subtopologies)
    }
    missing_topics = _missing_topics(configured_subtopologies, topology, image)
    return ConfiguredTopology(
        epoch=topology.epoch,
        subtopologies=configured_subtopologies,
        tasks={
            topic_name: max(map(partition_counts.count_of, subtopology.sources))
            for topic_name, subtopology in configured_subtopologies.items()
        },
        missing=missing_topics,
        problem=(
            TopologyStatus.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {_summary(missing_topics)}",
        )
        if missing_topics
        else None,
    )


class _PartitionCounts:
    """Partition counts: of existing topics, and those decided so far."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self.own: dict[str, int] = {}

    def count_of(self, topic_name: str) -> int:
        """The count of a topic that exists or is decided."""
        topic = self._image.topics.get(topic_name)
        return self.own[topic_name] if topic is None else len(topic.partitions)


# Repartition topics


def _repartition_counts(
    subtopologies: Mapping[str, Subtopology], counts: _PartitionCounts
) -> dict[str, int]:
    """Counts of repartition topics: as the application says, or that of the largest topic that the
    writer reads.
    """
    partition_counts = {
        topic.name: topic.partitions
        for subtopology in subtopologies.values()
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }
    while _next_counts(subtopologies, counts, partition_counts):
        pass
    if any(
        topic_name not in partition_counts
        for subtopology in subtopologies.values()
        for topic_name in subtopology.repartition_sink_topics
    ):
        raise _WrongTopicsError(
            _invalid_topology(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        )
    source_topics = (
        topic
        for subtopology in subtopologies.values()
        for topic in subtopology.repartition_source_topics
    )
    if any(topic.name not in partition_counts for topic in source_topics):
        raise _WrongTopicsError(
            _invalid_topology(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )
        )
    return partition_counts


def _next_counts(
    subtopologies: Mapping[str, Subtopology],
    counts: _PartitionCounts,
    partition_counts: dict[str, int],
) -> bool:
    """One pass over subtopologies; returns whether new counts were found."""
    count_before = len(partition_counts)
    for subtopology in subtopologies.values():
        decided_topics = [
            topic.name
            for topic in subtopology.repartition_source_topics
            if topic.name in partition_counts
        ]
        read_counts = [
            *(partition_counts[topic_name] for topic_name in decided_topics),
            *map(counts.count_of, subtopology.source_topics),
        ]
        if read_counts:
            for topic_name in subtopology.repartition_sink_topics:
                partition_counts.setdefault(topic_name, max(read_counts))
    return len(partition_counts) > count_before


# Copartitioning


def _copartition_groups(subtopology: Subtopology) -> Iterator[frozenset[str]]:
    for copartition_group in subtopology.copartition_groups:
        repartition_topics = tuple(topic.name for topic in subtopology.repartition_source_topics)
        yield frozenset(
            (
                *_names_at(subtopology.source_topics, copartition_group.source_topics),
                *_names_at(repartition_topics, copartition_group.repartition_source_topics),
            )
        )


def _names_at(topic_names: tuple[str, ...], indexes: tuple[int, ...]) -> Iterator[str]:
    for index in indexes:
        if not 0 <= index < len(topic_names):
            raise _WrongTopicsError(
                _server_error(f"Index {index} out of bounds for length {len(topic_names)}")
            )
        yield topic_names[index]


def _copartition_counts(
    topic_names: Collection[str], topology: Topology, counts: _PartitionCounts
) -> dict[str, int]:
    """Counts of a group's repartition topics: those of its other topics, which must agree; else
    those that the application says, which must agree too; else the largest.
    """
    all_repartition_topics = [
        topic
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.repartition_source_topics
    ]
    fixed_topics = {topic.name for topic in all_repartition_topics if topic.partitions}
    flexible_topics = {topic.name for topic in all_repartition_topics if not topic.partitions}
    counts_in_group = {
        topic_name: counts.count_of(topic_name)
        for topic_name in topic_names
        if topic_name in fixed_topics | flexible_topics
    }
    source_counts = {
        topic_name: counts.count_of(topic_name)
        for topic_name in topic_names
        if topic_name not in counts_in_group
    }
    if not topic_names:
        return {}
    if source_counts:
        partition_count = _common_count(source_counts.values(), source_counts)
    elif fixed_topics:
        partition_count = _common_count(
            [counts.count_of(topic_name) for topic_name in fixed_topics], counts_in_group
        )
    else:
        partition_count = max(counts_in_group.values())
    for topic_name, group_count in sorted(counts_in_group.items()):
        if topic_name in fixed_topics and group_count != partition_count:
            raise _WrongTopicsError(
                _wrongly_partitioned(
                    f"Number of partitions [{group_count}] of repartition topic [{topic_name}] "
                    f"doesn't match number of partitions [{partition_count}] of the source topic."
                )
            )
    return dict.fromkeys(counts_in_group, partition_count)


def _common_count(partition_counts: Collection[int], count_by_topic: Mapping[str, int]) -> int:
    """The number of partitions that all topics have.

    Raises:
        _WrongTopicsError: They differ; it names each topic with its number.
    """
    if len(set(partition_counts)) == 1:
        return next(iter(partition_counts))
    listed_counts = ", ".join(
        f"{topic_name}={partition_count}"
        for topic_name, partition_count in sorted(count_by_topic.items())
    )
    raise _WrongTopicsError(
        _wrongly_partitioned(
            f"Following topics do not have the same number of partitions: [{{{listed_counts}}}]"
        )
    )


# Internal topics


def _with_counts(subtopology: Subtopology, counts: _PartitionCounts) -> Subtopology:
    """The subtopology with counts for its internal topics."""

    def with_partition_counts(topics: tuple[TopicInfo, ...]) -> tuple[TopicInfo, ...]:
        numbered_topics = tuple(
            msgspec.structs.replace(topic, partitions=topic.partitions or counts.own[topic.name])
            for topic in topics
        )
        if any(topic.partitions < 1 for topic in numbered_topics):
            raise _WrongTopicsError(_server_error("Number of partitions must be at least 1."))
        return numbered_topics

    return msgspec.structs.replace(
        subtopology,
        state_changelog_topics=with_partition_counts(subtopology.state_changelog_topics),
        repartition_source_topics=with_partition_counts(subtopology.repartition_source_topics),
    )


def _missing_topics(
    subtopologies: Mapping[str, Subtopology], topology: Topology, image: ClusterImage
) -> dict[str, TopicInfo]:
    """Missing internal topics; existing ones must have the right number of partitions."""
    internal_topics = {
        topic.name: topic
        for subtopology in subtopologies.values()
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    }
    for topic_name in topology.required_topics():
        if topic_name in internal_topics and topic_name in image.topics:
            existing_count, expected_count = (
                len(image.topics[topic_name].partitions),
                internal_topics[topic_name].partitions,
            )
            if existing_count != expected_count:
                raise _WrongTopicsError(
                    _wrongly_partitioned(
                        f"Existing topic {topic_name} has different number of partitions: expected "
                        f"{expected_count}, found {existing_count}"
                    )
                )
    # Kafka puts all of them into its map and takes some out, which leaves the order.
    return {
        topic_name: internal_topics[topic_name]
        for topic_name in java_order(internal_topics)
        if topic_name not in image.topics
    }


# Words

_LISTED_NAMES_MAX: Final = 3


def _summary(topic_names: Collection[str]) -> str:
    listed_names = list(topic_names)
    unlisted_count = len(listed_names) - _LISTED_NAMES_MAX
    return ", ".join(listed_names[:_LISTED_NAMES_MAX]) + (
        f" and {unlisted_count} additional topics" if unlisted_count > 0 else ""
    )


def _wrongly_partitioned(message_text: str) -> StatusMessage:
    return TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, message_text


def _invalid_topology(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.streams_invalid_topology, reason=reason)


def _server_error(reason: str) -> Rejection:
    """The error for a case in which a real broker fails unexpectedly."""
    return Rejection(error=ErrorCode.unknown_server_error, reason=reason)


def topics_of(subtopologies: Collection[Subtopology]) -> list[str]:
    """Distinct topic names of subtopologies, including sinks."""
    return list(
        dict.fromkeys(
            topic_name
            for subtopology in subtopologies
            for topic_name in (
                *subtopology.source_topics,
                *subtopology.repartition_sink_topics,
                *(topic.name for topic in subtopology.repartition_source_topics),
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )
    )
