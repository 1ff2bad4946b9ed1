"""What OffsetCommit and TxnOffsetCommit share: read the topics of a request, answer with errors by
topic.

A topic or partition that does not exist is answered at once; the others go to the group
coordinator. In the answer the refused ones come first (OffsetCommitResponse.Builder).
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from txnsim.api.request import Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.offset_commands import NewPosition, PartitionErrors
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.types import TopicPartition


class NamedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as the request names it."""

    name: str
    topic_id: uuid.UUID | None
    """None if the topic is named by name, or by the zero id."""
    is_by_id: bool


Errors = list[tuple[int, ErrorCode]]
"""The partitions of a topic with their errors; a partition that the request repeats is here twice.
"""
Results = list[tuple[NamedTopic, Errors]]
BuiltResults = list[tuple[NamedTopic, tuple[Any, ...]]]
"""The partitions of the answer, by topic."""


class RequestedPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a request, split into unknown ones and positions to commit."""

    refused: dict[NamedTopic, Errors]
    positions: tuple[NewPosition, ...]
    topics: tuple[tuple[NamedTopic, tuple[int, ...]], ...]
    """Each topic of the request, with its partitions in the order of ``positions``."""

    def results(self, errors: Iterable[ErrorCode]) -> Results:
        """The errors of unknown partitions, followed by the errors of the positions.

        A topic that the request names twice appears twice, unless a partition does not exist.
        """
        position_errors = iter(errors)
        topic_errors: Results = [
            (requested_topic, list(partition_errors))
            for requested_topic, partition_errors in self.refused.items()
        ]
        errors_by_topic = dict(topic_errors)
        for requested_topic, partition_indexes in self.topics:
            if self.refused and requested_topic in errors_by_topic:
                index_errors = errors_by_topic[requested_topic]
            else:
                index_errors = errors_by_topic[requested_topic] = []
                topic_errors.append((requested_topic, index_errors))
            index_errors += zip(partition_indexes, position_errors, strict=False)
        return topic_errors


def named_topic(topic: Any) -> NamedTopic:
    """The topic of a request: named by name in older versions, by id in newer ones."""
    return NamedTopic(
        name=getattr(topic, "name", ""),
        topic_id=getattr(topic, "topic_id", None),
        is_by_id=hasattr(topic, "topic_id"),
    )


def split(image: ClusterImage, topics: Iterable[Any]) -> RequestedPartitions:
    """Separate the partitions that don't exist from the positions to commit."""
    errors_by_topic: dict[NamedTopic, Errors] = {}
    positions: list[NewPosition] = []
    known_topics: list[tuple[NamedTopic, tuple[int, ...]]] = []
    for topic in topics:
        requested_topic = named_topic(topic)
        topic_image = find_topic(image, requested_topic)
        if isinstance(topic_image, ErrorCode):
            errors_by_topic.setdefault(requested_topic, []).extend(
                (partition.partition_index, topic_image) for partition in topic.partitions
            )
            continue
        partition_indexes: list[int] = []
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic_image.name, partition.partition_index)
            if image.partition(topic_partition) is None:
                errors_by_topic.setdefault(requested_topic, []).append(
                    (partition.partition_index, ErrorCode.unknown_topic_or_partition)
                )
                continue
            partition_indexes.append(partition.partition_index)
            positions.append(
                NewPosition(
                    topic_partition=topic_partition,
                    offset=partition.committed_offset,
                    leader_epoch=getattr(partition, "committed_leader_epoch", -1),
                    metadata=partition.committed_metadata,
                    topic_id=topic_image.topic_id,
                )
            )
        if partition_indexes:
            known_topics.append((requested_topic, tuple(partition_indexes)))
    return RequestedPartitions(
        refused=errors_by_topic, positions=tuple(positions), topics=tuple(known_topics)
    )


def find_topic(image: ClusterImage, requested_topic: NamedTopic) -> TopicImage | ErrorCode:
    """The topic of that name or id; UNKNOWN_TOPIC_ID for an id that no topic has, such as the zero
    id.
    """
    if requested_topic.is_by_id:
        topic_image = (
            None
            if requested_topic.topic_id is None
            else image.topic_by_id(requested_topic.topic_id)
        )
        return topic_image or ErrorCode.unknown_topic_id
    if not requested_topic.name:
        return ErrorCode.unknown_topic_or_partition
    return image.topics.get(requested_topic.name) or ErrorCode.unknown_topic_or_partition


def errors_of(outcome: PartitionErrors | Rejection) -> Iterable[ErrorCode]:
    """The error of each position; a refusal of the whole commit applies to all of them."""
    if isinstance(outcome, Rejection):
        return itertools.repeat(outcome.error)
    return (error for _, error in outcome)


def same_error_for_all(topics: Iterable[Any], error: ErrorCode) -> Results:
    return [
        (named_topic(topic), [(partition.partition_index, error) for partition in topic.partitions])
        for topic in topics
    ]


def build_answer(
    request: Request, topic_results: Results | BuiltResults, *, entity_prefix: str
) -> Any:
    """Build the answer.

    Args:
        request: The request to answer.
        topic_results: Errors by topic, or the partitions of the answer.
        entity_prefix: Prefix of the schema's classes for a topic and a partition.
    """
    schema = request.schema
    topic_class = getattr(schema, f"{entity_prefix}ResponseTopic")
    partition_class = getattr(schema, f"{entity_prefix}ResponsePartition")
    names_topics_by_id = "topic_id" in topic_class.__dataclass_fields__
    return request.answer(
        topics=tuple(
            topic_class(
                **(
                    {"topic_id": requested_topic.topic_id}
                    if names_topics_by_id
                    else {"name": requested_topic.name}
                ),
                partitions=partitions
                if isinstance(partitions, tuple)
                else tuple(
                    partition_class(partition_index=partition_index, error_code=error)
                    for partition_index, error in partitions
                ),
            )
            for requested_topic, partitions in topic_results
        )
    )


async def build_answer_in_slices(
    request: Request, topic_errors: Results, *, entity_prefix: str
) -> Any:
    """Like ``build_answer``, for a large request: breaks between its partitions."""
    build_partition = partial(
        _partition_row, getattr(request.schema, f"{entity_prefix}ResponsePartition")
    )
    topic_rows = [
        (requested_topic, tuple(await request.map_each(build_partition, partitions)))
        for requested_topic, partitions in topic_errors
    ]
    return build_answer(request, topic_rows, entity_prefix=entity_prefix)


def _partition_row(row_class: type[Any], index_and_error: tuple[int, ErrorCode]) -> Any:
    return row_class(partition_index=index_and_error[0], error_code=index_and_error[1])
