"""What many handlers do with topics: group partitions by topic, in order of appearance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from txnsim.types import TopicPartition

ValueT = TypeVar("ValueT")


def by_topic(
    pairs: Iterable[tuple[TopicPartition, ValueT]],
) -> dict[str, list[tuple[int, ValueT]]]:
    """(partition, value) pairs by topic name, in order of appearance."""
    topics: dict[str, list[tuple[int, ValueT]]] = {}
    for topic_partition, value in pairs:
        topics.setdefault(topic_partition.topic, []).append((topic_partition.partition, value))
    return topics
