"""What OffsetCommit and TxnOffsetCommit have in common: topics in, errors by topic out.

A topic or partition that does not exist is answered at once; the rest goes to the group
coordinator. In the answer the refused ones stand first (OffsetCommitResponse.Builder).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import msgspec

from sim.api.request import Request
from sim.cluster.image import ClusterImage, TopicImage
from sim.errors import ErrorCode
from sim.group.offset_commands import NewPosition
from sim.types import TopicPartition


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as the request names it."""

    name: str
    topic_id: uuid.UUID | None


Results = dict[Told, dict[int, ErrorCode]]


def told(topic: Any) -> Told:
    """The topic of a request, by name up to a version, by id from it on."""
    return Told(name=getattr(topic, "name", ""), topic_id=getattr(topic, "topic_id", None))


def split(image: ClusterImage, topics: Iterable[Any]) -> tuple[Results, list[NewPosition]]:
    """(errors of what does not exist, positions to commit)."""
    refused: Results = {}
    positions: list[NewPosition] = []
    for topic in topics:
        named = told(topic)
        found = find_topic(image, named)
        if isinstance(found, ErrorCode):
            refused[named] = {each.partition_index: found for each in topic.partitions}
            continue
        for each in topic.partitions:
            topic_partition = TopicPartition(found.name, each.partition_index)
            if image.partition(topic_partition) is None:
                refused.setdefault(named, {})[each.partition_index] = (
                    ErrorCode.unknown_topic_or_partition
                )
                continue
            positions.append(
                NewPosition(
                    topic_partition=topic_partition,
                    offset=each.committed_offset,
                    leader_epoch=getattr(each, "committed_leader_epoch", -1),
                    metadata=each.committed_metadata,
                    topic_id=found.topic_id,
                )
            )
    return refused, positions


def find_topic(image: ClusterImage, named: Told) -> TopicImage | ErrorCode:
    """The topic; UNKNOWN_TOPIC_ID where it was named by an id that nobody has."""
    if named.topic_id is not None:
        return image.topic_by_id(named.topic_id) or ErrorCode.unknown_topic_id
    if not named.name:
        return ErrorCode.unknown_topic_or_partition
    return image.topics.get(named.name) or ErrorCode.unknown_topic_or_partition


def merged(
    topics: Iterable[Any],
    refused: Results,
    image: ClusterImage,
    errors: Iterable[tuple[TopicPartition, ErrorCode]],
) -> Results:
    """The coordinator's errors behind those of what does not exist, as the request named topics."""
    results: Results = {named: dict(partitions) for named, partitions in refused.items()}
    names: dict[str, Told] = {}
    for topic in topics:
        named = told(topic)
        found = find_topic(image, named)
        if isinstance(found, TopicImage):
            names[found.name] = named
    for topic_partition, error in errors:
        named = names[topic_partition.topic]
        results.setdefault(named, {})[topic_partition.partition] = error
    return results


def everywhere(topics: Iterable[Any], error: ErrorCode) -> Results:
    """The same error for every partition asked for."""
    return {
        told(topic): {each.partition_index: error for each in topic.partitions} for topic in topics
    }


def answered(request: Request, results: Results, *, entity: str) -> Any:
    """The answer.

    Args:
        request: What is answered.
        results: Errors by topic.
        entity: What the schema's classes of a topic and a partition begin with.
    """
    schema = request.schema
    topic_class = getattr(schema, f"{entity}ResponseTopic")
    partition_class = getattr(schema, f"{entity}ResponsePartition")
    by_id = "topic_id" in topic_class.__dataclass_fields__
    return request.answer(
        topics=tuple(
            topic_class(
                **({"topic_id": named.topic_id} if by_id else {"name": named.name}),
                partitions=tuple(
                    partition_class(partition_index=index, error_code=error)
                    for index, error in partitions.items()
                ),
            )
            for named, partitions in results.items()
        )
    )
