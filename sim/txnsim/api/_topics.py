"""Helpers of handlers that answer topic by topic: a row for each partition, grouped by topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from txnsim.api.request import Request
from txnsim.metadata.configs import TopicLookup
from txnsim.types import TopicPartition

ValueT = TypeVar("ValueT")
RowT = TypeVar("RowT")


def topic_lookup(request: Request, topic_configs: Mapping[str, str]) -> TopicLookup:
    """A lookup of the topic's effective configs, for those that the topic sets itself."""
    broker = request.broker
    return TopicLookup(
        topic=topic_configs,
        image=broker.image,
        settings=broker.metadata.settings,
        broker_id=broker.broker_id,
        rules=broker.release.rules,
    )


def rows_by_topic(rows: Iterable[tuple[TopicPartition, RowT]]) -> dict[str, list[RowT]]:
    """Rows grouped by topic name, in order of first appearance."""
    topic_rows: dict[str, list[RowT]] = {}
    for topic_partition, row in rows:
        topic_rows.setdefault(topic_partition.topic, []).append(row)
    return topic_rows


def by_topic(
    partition_values: Iterable[tuple[TopicPartition, ValueT]],
) -> dict[str, list[tuple[int, ValueT]]]:
    """(partition, value) pairs grouped by topic name, in order of first appearance."""
    return rows_by_topic(
        (topic_partition, (topic_partition.partition, value))
        for topic_partition, value in partition_values
    )


def partitions_below(topic: Any) -> Collection[Any]:
    has_indexes = hasattr(topic, "partition_indexes")
    partitions: Collection[Any] = topic.partition_indexes if has_indexes else topic.partitions
    return partitions


async def each_partition(
    request: Request, build_row: Callable[[Any, Any], RowT], *, weight: int = 1
) -> list[tuple[Any, list[RowT]]]:
    """The topics of a request, with a row for each partition; breaks between many."""
    topics = request.message.topics
    request.expect(len(topics) * weight)
    return [
        (
            topic,
            await request.map_each(
                partial(build_row, topic), partitions_below(topic), weight=weight
            ),
        )
        for topic in topics
    ]


async def each_heavy_partition(
    request: Request, build_row: Callable[[tuple[str, int]], Awaitable[RowT]]
) -> list[tuple[Any, list[RowT]]]:
    """Like ``each_partition``, for large rows; a repeated partition shares its row."""
    topics = request.message.topics
    names_and_indexes = [
        (topic.name, index) for topic in topics for index in partitions_below(topic)
    ]
    rows = iter(await request.each_heavy(build_row, names_and_indexes))
    return [(topic, list(islice(rows, len(partitions_below(topic))))) for topic in topics]


def same_row_for_all(
    topics: Iterable[Any], build_row: Callable[[Any], RowT]
) -> list[tuple[Any, list[RowT]]]:
    """The topics of a request, with the same row for each partition."""
    return [
        (topic, [build_row(partition) for partition in partitions_below(topic)]) for topic in topics
    ]


def answered_topics(
    topic_class: Callable[..., Any],
    topic_rows: Iterable[tuple[Any, Iterable[Any]]],
    *,
    name_field: str = "name",
    partitions_field: str = "partitions",
) -> tuple[Any, ...]:
    """Build the topics of an answer."""
    return tuple(
        [
            topic_class(
                **{
                    name_field: topic if isinstance(topic, str) else getattr(topic, name_field),
                    partitions_field: tuple(partitions),
                }
            )
            for topic, partitions in topic_rows
        ]
    )
