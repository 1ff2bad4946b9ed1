"""The topology of a Kafka Streams application, held against the topics that there are. Pure.

The first member brings it. From it follow the tasks, and the topics that the broker has to make:
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
    """Conditions of a group that a heartbeat tells; the value is the code on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


Told = tuple[Status, str]
"""A status and its text."""


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An internal topic. 0 partitions: as many as it takes; 0 replicas: the broker's default."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Source topics of a subtopology that need equal numbers of partitions, by their places."""

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
        """All that it reads, internal topics included."""
        return (*self.source_topics, *(each.name for each in self.repartition_source_topics))


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What an application reads and writes."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By id, as Kafka goes through them."""

    def required_topics(self) -> list[str]:
        """Names of source, repartition, changelog topics, in Kafka's hash order."""
        return java_order(
            name
            for each in self.subtopologies.values()
            for name in (*each.sources, *(topic.name for topic in each.state_changelog_topics))
        )

    def reader_of(self, topic: str) -> str | None:
        """The subtopology that reads a topic; the last one where several do."""
        readers = [name for name, each in self.subtopologies.items() if topic in each.sources]
        return readers[-1] if readers else None


def subtopology_of(message: Any) -> Subtopology:
    """Convert a subtopology from a heartbeat's message, or a record's."""

    def topics(found: Any) -> tuple[TopicInfo, ...]:
        return tuple(
            TopicInfo(
                name=each.name,
                partitions=each.partitions,
                replication_factor=each.replication_factor,
                topic_configs=tuple((config.key, config.value) for config in each.topic_configs),
            )
            for each in found
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
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in message.copartition_groups
        ),
    )


def made_topology(epoch: int, subtopologies: Collection[Subtopology]) -> Topology | Rejection:
    """A topology, or what Kafka can't take in it."""
    by_id = {each.subtopology_id: each for each in subtopologies}
    if epoch < 0:
        return _broken("Topology epoch must be non-negative.")
    if len(by_id) < len(subtopologies):
        return _broken("Duplicate key")
    return Topology(epoch=epoch, subtopologies={name: by_id[name] for name in java_order(by_id)})


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """A topology together with the topics of an image."""

    epoch: int
    subtopologies: Mapping[str, Subtopology] | None = None
    """By id, sorted, with the numbers of internal topics; None where topics are wrong."""
    tasks: Mapping[str, int] = {}
    """Subtopology -> how many tasks it has."""
    missing: Mapping[str, TopicInfo] = {}
    """Internal topics to be made."""
    problem: Told | None = None

    @property
    def is_ready(self) -> bool:
        """Every topic is there and right."""
        return self.problem is None


class _WrongTopicsError(Exception):
    """Topics that don't fit; ends ``configure`` with a status or a refusal."""

    def __init__(self, found: Told | Rejection) -> None:
        super().__init__(found)
        self.found = found


def configure(topology: Topology, image: ClusterImage) -> Configured | Rejection:
    """Count tasks, and find the internal topics that are missing.

    Returns:
        What is known, with a problem where topics are missing or wrong; or why there can be no such
        topology.
    """
    try:
        return _configured(topology, image)
    except _WrongTopicsError as error:
        if isinstance(error.found, Rejection):
            return error.found
        return Configured(epoch=topology.epoch, problem=error.found)


def _configured(topology: Topology, image: ClusterImage) -> Configured:
    parts = topology.subtopologies
    groups = [group for each in parts.values() for group in _copartitioned(each)]
    absent = sorted(
        {name for each in parts.values() for name in each.source_topics if name not in image.topics}
    )
    if absent:
        raise _WrongTopicsError(
            (Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing.")
        )
    decided = _Counts(image)
    decided.own |= _repartition_counts(parts, decided)
    for group in groups:
        decided.own |= _enforced(group, topology, decided)
    for each in parts.values():
        if not each.sources:
            raise _WrongTopicsError(
                _invalid(f"No source topics found for subtopology {each.subtopology_id}")
            )
        most = max(decided.of(name) for name in each.sources)
        decided.own |= {topic.name: most for topic in each.state_changelog_topics}
    ready = {name: _numbered(parts[name], decided) for name in sorted(parts)}
    missing = _missing(ready, topology, image)
    return Configured(
        epoch=topology.epoch,
        subtopologies=ready,
        tasks={name: max(map(decided.of, each.sources)) for name, each in ready.items()},
        missing=missing,
        problem=(
            Status.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {_summary(missing)}",
        )
        if missing
        else None,
    )


class _Counts:
    """Numbers of partitions: of topics that exist, and those decided on."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self.own: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Of a topic that exists or is decided on."""
        topic = self._image.topics.get(name)
        return self.own[name] if topic is None else len(topic.partitions)


# Repartition topics


def _repartition_counts(parts: Mapping[str, Subtopology], counts: _Counts) -> dict[str, int]:
    """As many as the application says, or as the largest topic that the writer reads."""
    found = {
        topic.name: topic.partitions
        for each in parts.values()
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    while _next_counts(parts, counts, found):
        pass
    if any(name not in found for each in parts.values() for name in each.repartition_sink_topics):
        raise _WrongTopicsError(
            _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        )
    sources = (topic for each in parts.values() for topic in each.repartition_source_topics)
    if any(topic.name not in found for topic in sources):
        raise _WrongTopicsError(
            _invalid(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )
        )
    return found


def _next_counts(parts: Mapping[str, Subtopology], counts: _Counts, found: dict[str, int]) -> bool:
    """One pass over subtopologies; True: new partition counts were found."""
    before = len(found)
    for each in parts.values():
        known = [topic.name for topic in each.repartition_source_topics if topic.name in found]
        read = [*(found[name] for name in known), *map(counts.of, each.source_topics)]
        if read:
            for name in each.repartition_sink_topics:
                found.setdefault(name, max(read))
    return len(found) > before


# Copartitioning


def _copartitioned(part: Subtopology) -> Iterator[frozenset[str]]:
    for group in part.copartition_groups:
        repartition = tuple(topic.name for topic in part.repartition_source_topics)
        yield frozenset(
            (
                *_at(part.source_topics, group.source_topics),
                *_at(repartition, group.repartition_source_topics),
            )
        )


def _at(names: tuple[str, ...], places: tuple[int, ...]) -> Iterator[str]:
    for place in places:
        if not 0 <= place < len(names):
            raise _WrongTopicsError(_broken(f"Index {place} out of bounds for length {len(names)}"))
        yield names[place]


def _enforced(group: Collection[str], topology: Topology, counts: _Counts) -> dict[str, int]:
    """The numbers of a group's repartition topics: those of the other topics in it, which have to
    agree; else those that the application says, which have to agree as well; else the largest.
    """
    all_repartition = [
        topic
        for each in topology.subtopologies.values()
        for topic in each.repartition_source_topics
    ]
    fixed = {topic.name for topic in all_repartition if topic.partitions}
    flexible = {topic.name for topic in all_repartition if not topic.partitions}
    ours = {name: counts.of(name) for name in group if name in fixed | flexible}
    others = {name: counts.of(name) for name in group if name not in ours}
    if not group:
        return {}
    if others:
        wanted = _same(others.values(), others)
    elif fixed:
        wanted = _same([counts.of(name) for name in fixed], ours)
    else:
        wanted = max(ours.values())
    for name, number in sorted(ours.items()):
        if name in fixed and number != wanted:
            raise _WrongTopicsError(
                _wrongly(
                    f"Number of partitions [{number}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{wanted}] of the source topic."
                )
            )
    return dict.fromkeys(ours, wanted)


def _same(numbers: Collection[int], shown: Mapping[str, int]) -> int:
    """The number that all agree on."""
    if len(set(numbers)) == 1:
        return next(iter(numbers))
    listed = ", ".join(f"{name}={number}" for name, number in sorted(shown.items()))
    raise _WrongTopicsError(
        _wrongly(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    )


# Internal topics


def _numbered(part: Subtopology, counts: _Counts) -> Subtopology:
    """The subtopology with numbers for its internal topics."""

    def numbered(topics: tuple[TopicInfo, ...]) -> tuple[TopicInfo, ...]:
        found = tuple(
            msgspec.structs.replace(each, partitions=each.partitions or counts.own[each.name])
            for each in topics
        )
        if any(each.partitions < 1 for each in found):
            raise _WrongTopicsError(_broken("Number of partitions must be at least 1."))
        return found

    return msgspec.structs.replace(
        part,
        state_changelog_topics=numbered(part.state_changelog_topics),
        repartition_source_topics=numbered(part.repartition_source_topics),
    )


def _missing(
    parts: Mapping[str, Subtopology], topology: Topology, image: ClusterImage
) -> dict[str, TopicInfo]:
    """Internal topics that don't exist; those that do must have the right number of partitions."""
    internal = {
        topic.name: topic
        for each in parts.values()
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    }
    for name in topology.required_topics():
        if name in internal and name in image.topics:
            number, wanted = len(image.topics[name].partitions), internal[name].partitions
            if number != wanted:
                raise _WrongTopicsError(
                    _wrongly(
                        f"Existing topic {name} has different number of partitions: expected "
                        f"{wanted}, found {number}"
                    )
                )
    # Kafka puts all of them into its map and takes some out, which leaves the order.
    return {name: internal[name] for name in java_order(internal) if name not in image.topics}


# Words

_SHOWN: Final = 3


def _summary(names: Collection[str]) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} additional topics" if more > 0 else "")


def _wrongly(text: str) -> Told:
    return Status.INCORRECTLY_PARTITIONED_TOPICS, text


def _invalid(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.streams_invalid_topology, reason=reason)


def _broken(reason: str) -> Rejection:
    """What a real broker did not think of."""
    return Rejection(error=ErrorCode.unknown_server_error, reason=reason)


def topics_of(subtopologies: Collection[Subtopology]) -> list[str]:
    """Distinct topic names of subtopologies, sinks included."""
    return list(
        dict.fromkeys(
            name
            for each in subtopologies
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )
