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


class Status(IntEnum):
    """Conditions of a group that a heartbeat reports; the value is the code on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


Told = tuple[Status, str]
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
        """All topics that it reads, including internal ones."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What an application reads and writes."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By id, in Kafka's iteration order."""

    def required_topics(self) -> list[str]:
        """Names of source, repartition, changelog topics, in Kafka's hash order."""
        return java_order(
            name
            for subtopology in self.subtopologies.values()
            for name in (
                *subtopology.sources,
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )

    def reader_of(self, topic: str) -> str | None:
        """The subtopology that reads a topic; the last one if there are several."""
        readers = [
            name for name, subtopology in self.subtopologies.items() if topic in subtopology.sources
        ]
        return readers[-1] if readers else None


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
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in message.copartition_groups
        ),
    )


def made_topology(epoch: int, subtopologies: Collection[Subtopology]) -> Topology | Rejection:
    """A topology, or the error if Kafka can't process it."""
    by_id = {subtopology.subtopology_id: subtopology for subtopology in subtopologies}
    if epoch < 0:
        return _server_error("Topology epoch must be non-negative.")
    if len(by_id) < len(subtopologies):
        return _server_error("Duplicate key")
    return Topology(epoch=epoch, subtopologies={name: by_id[name] for name in java_order(by_id)})


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """A topology together with the topics of an image."""

    epoch: int
    subtopologies: Mapping[str, Subtopology] | None = None
    """By id, sorted, with the partition counts of internal topics; None if topics are invalid."""
    tasks: Mapping[str, int] = {}
    """Subtopology -> number of its tasks."""
    missing: Mapping[str, TopicInfo] = {}
    """Internal topics to be created."""
    problem: Told | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist and are valid."""
        return self.problem is None


class _WrongTopicsError(Exception):
    """Topics are invalid; ends ``configure`` with a status or a refusal."""

    def __init__(self, outcome: Told | Rejection) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def configure(topology: Topology, image: ClusterImage) -> Configured | Rejection:
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
        return Configured(epoch=topology.epoch, problem=error.outcome)


def _configure_partitions(topology: Topology, image: ClusterImage) -> Configured:
    parts = topology.subtopologies
    groups = [group for subtopology in parts.values() for group in _copartition_groups(subtopology)]
    absent = sorted(
        {
            name
            for subtopology in parts.values()
            for name in subtopology.source_topics
            if name not in image.topics
        }
    )
    if absent:
        raise _WrongTopicsError(
            (Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing.")
        )
    decided = _Counts(image)
    decided.own |= _repartition_counts(parts, decided)
    for group in groups:
        decided.own |= _copartition_counts(group, topology, decided)
    for subtopology in parts.values():
        if not subtopology.sources:
            raise _WrongTopicsError(
                _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
            )
        most = max(decided.count_of(name) for name in subtopology.sources)
        decided.own |= {topic.name: most for topic in subtopology.state_changelog_topics}
    ready = {name: _with_counts(parts[name], decided) for name in sorted(parts)}
    missing = _missing(ready, topology, image)
    return Configured(
        epoch=topology.epoch,
        subtopologies=ready,
        tasks={
            name: max(map(decided.count_of, subtopology.sources))
            for name, subtopology in ready.items()
        },
        missing=missing,
        problem=(
            Status.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {_summary(missing)}",
        )
        if missing
        else None,
    )


class _Counts:
    """Partition counts: of existing topics, and those decided so far."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self.own: dict[str, int] = {}

    def count_of(self, name: str) -> int:
        """The count of a topic that exists or is decided."""
        topic = self._image.topics.get(name)
        return self.own[name] if topic is None else len(topic.partitions)


# Repartition topics


def _repartition_counts(parts: Mapping[str, Subtopology], counts: _Counts) -> dict[str, int]:
    """Counts of repartition topics: as the application says, or that of the largest topic that the
    writer reads.
    """
    partition_counts = {
        topic.name: topic.partitions
        for subtopology in parts.values()
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }
    while _next_counts(parts, counts, partition_counts):
        pass
    if any(
        name not in partition_counts
        for subtopology in parts.values()
        for name in subtopology.repartition_sink_topics
    ):
        raise _WrongTopicsError(
            _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        )
    sources = (
        topic for subtopology in parts.values() for topic in subtopology.repartition_source_topics
    )
    if any(topic.name not in partition_counts for topic in sources):
        raise _WrongTopicsError(
            _invalid(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )
        )
    return partition_counts


def _next_counts(
    parts: Mapping[str, Subtopology], counts: _Counts, partition_counts: dict[str, int]
) -> bool:
    """One pass over subtopologies; returns whether new counts were found."""
    count_before = len(partition_counts)
    for subtopology in parts.values():
        decided_topics = [
            topic.name
            for topic in subtopology.repartition_source_topics
            if topic.name in partition_counts
        ]
        read = [
            *(partition_counts[name] for name in decided_topics),
            *map(counts.count_of, subtopology.source_topics),
        ]
        if read:
            for name in subtopology.repartition_sink_topics:
                partition_counts.setdefault(name, max(read))
    return len(partition_counts) > count_before


# Copartitioning


def _copartition_groups(part: Subtopology) -> Iterator[frozenset[str]]:
    for group in part.copartition_groups:
        repartition = tuple(topic.name for topic in part.repartition_source_topics)
        yield frozenset(
            (
                *_names_at(part.source_topics, group.source_topics),
                *_names_at(repartition, group.repartition_source_topics),
            )
        )


def _names_at(names: tuple[str, ...], indexes: tuple[int, ...]) -> Iterator[str]:
    for index in indexes:
        if not 0 <= index < len(names):
            raise _WrongTopicsError(
                _server_error(f"Index {index} out of bounds for length {len(names)}")
            )
        yield names[index]


def _copartition_counts(
    group: Collection[str], topology: Topology, counts: _Counts
) -> dict[str, int]:
    """Counts of a group's repartition topics: those of its other topics, which must agree; else
    those that the application says, which must agree too; else the largest.
    """
    all_repartition = [
        topic
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.repartition_source_topics
    ]
    fixed = {topic.name for topic in all_repartition if topic.partitions}
    flexible = {topic.name for topic in all_repartition if not topic.partitions}
    counts_in_group = {name: counts.count_of(name) for name in group if name in fixed | flexible}
    source_counts = {name: counts.count_of(name) for name in group if name not in counts_in_group}
    if not group:
        return {}
    if source_counts:
        partition_count = _common_count(source_counts.values(), source_counts)
    elif fixed:
        partition_count = _common_count([counts.count_of(name) for name in fixed], counts_in_group)
    else:
        partition_count = max(counts_in_group.values())
    for name, number in sorted(counts_in_group.items()):
        if name in fixed and number != partition_count:
            raise _WrongTopicsError(
                _wrongly(
                    f"Number of partitions [{number}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{partition_count}] of the source topic."
                )
            )
    return dict.fromkeys(counts_in_group, partition_count)


def _common_count(numbers: Collection[int], count_by_topic: Mapping[str, int]) -> int:
    """The count that all topics agree on."""
    if len(set(numbers)) == 1:
        return next(iter(numbers))
    listed = ", ".join(f"{name}={number}" for name, number in sorted(count_by_topic.items()))
    raise _WrongTopicsError(
        _wrongly(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    )


# Internal topics


def _with_counts(part: Subtopology, counts: _Counts) -> Subtopology:
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
        part,
        state_changelog_topics=with_partition_counts(part.state_changelog_topics),
        repartition_source_topics=with_partition_counts(part.repartition_source_topics),
    )


def _missing(
    parts: Mapping[str, Subtopology], topology: Topology, image: ClusterImage
) -> dict[str, TopicInfo]:
    """Missing internal topics; existing ones must have the right number of partitions."""
    internal = {
        topic.name: topic
        for subtopology in parts.values()
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    }
    for name in topology.required_topics():
        if name in internal and name in image.topics:
            number, partition_count = len(image.topics[name].partitions), internal[name].partitions
            if number != partition_count:
                raise _WrongTopicsError(
                    _wrongly(
                        f"Existing topic {name} has different number of partitions: expected "
                        f"{partition_count}, found {number}"
                    )
                )
    # Kafka puts all of them into its map and takes some out, which leaves the order.
    return {name: internal[name] for name in java_order(internal) if name not in image.topics}


# Words

_SHOWN: Final = 3


def _summary(names: Collection[str]) -> str:
    listed = list(names)
    unlisted_count = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (
        f" and {unlisted_count} additional topics" if unlisted_count > 0 else ""
    )


def _wrongly(text: str) -> Told:
    return Status.INCORRECTLY_PARTITIONED_TOPICS, text


def _invalid(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.streams_invalid_topology, reason=reason)


def _server_error(reason: str) -> Rejection:
    """The error for a case in which a real broker fails unexpectedly."""
    return Rejection(error=ErrorCode.unknown_server_error, reason=reason)


def topics_of(subtopologies: Collection[Subtopology]) -> list[str]:
    """Distinct topic names of subtopologies, including sinks."""
    return list(
        dict.fromkeys(
            name
            for subtopology in subtopologies
            for name in (
                *subtopology.source_topics,
                *subtopology.repartition_sink_topics,
                *(topic.name for topic in subtopology.repartition_source_topics),
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )
    )
