"""DescribeShareGroupOffsets (key 90): start offsets of share groups (KIP-932).

Versions: 1 has the lag (KIP-1226). Each request asks the share coordinator for a partition's start
offset, and the partition's leader for its end offset. Kafka's counterpart:
KafkaApis.handleDescribeShareGroupOffsetsRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api._error_texts import text_of
from txnsim.api._fault_subjects import partitions_named
from txnsim.api._groups.share_group_heartbeat import has_share_groups
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.sharing.share_topics import ShareOffset
from txnsim.wire.codec import build

API_KEY: Final = 90

DEVIATIONS: Final = (
    "DescribeShareGroupOffsets asks a leader for the end of a log once; Apache Kafka tries again "
    "where no answer comes.",
)


def subject(request: Request) -> Subject:
    """For fault rules: the partitions that the request names; none for a group that asks for
    all.
    """
    groups = request.message.groups
    return Subject(
        partitions=tuple(
            [partition for group in groups for partition in partitions_named(request, group.topics)]
        )
    )


async def handle(request: Request) -> Reply:
    """Describe each group."""
    groups = request.message.groups
    request.expect(len(groups))
    descriptions = []
    for group in groups:
        descriptions.append(await _describe(request, group))
        await request.note_done(1)
    return request.answer(groups=tuple(descriptions))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    groups = request.message.groups
    return request.answer(
        groups=tuple(
            failed_group(request, group.group_id, error, text_of(error)) for group in groups
        )
    )


def failed_group(request: Request, group_id: str, error: ErrorCode, message: str | None) -> Any:
    """A group of the answer that has only an error."""
    return request.schema.DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=(), error_code=error, error_message=message
    )


def refused_topic(request: Request, topic: Any, error: ErrorCode) -> Any:
    """A topic of the request, with the error on each partition."""
    return request.schema.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=None,
        partitions=tuple(
            _partition_row(request, ShareOffset(partition=partition_index, error=error))
            for partition_index in topic.partitions
        ),
    )


async def _describe(request: Request, group: Any) -> Any:
    if not has_share_groups(request):
        return failed_group(request, group.group_id, ErrorCode.unsupported_version, None)
    requested_topics = None
    if group.topics is not None:
        requested_topics = [(topic.topic_name, topic.partitions) for topic in group.topics]
        request.expect(sum(len(partitions) for _, partitions in requested_topics))
    described_offsets = await request.broker.groups.describe_share_offsets(
        group.group_id, requested_topics
    )
    if isinstance(described_offsets, Rejection):
        return failed_group(
            request, group.group_id, described_offsets.error, text_of(described_offsets.error)
        )
    schema = request.schema
    topics = []
    for topic_name, topic_id, offsets in described_offsets:
        request.announce_answer(1 + len(offsets))
        partitions = await request.map_each(partial(_partition_row, request), offsets)
        topics.append(
            schema.DescribeShareGroupOffsetsResponseTopic(
                topic_name=topic_name, topic_id=topic_id, partitions=tuple(partitions)
            )
        )
    return schema.DescribeShareGroupOffsetsResponseGroup(
        group_id=group.group_id,
        topics=tuple(topics),
        error_code=ErrorCode.none,
        error_message=None,
    )


def _partition_row(request: Request, offset: ShareOffset) -> Any:
    return build(
        request.schema.DescribeShareGroupOffsetsResponsePartition,
        partition_index=offset.partition,
        start_offset=offset.start_offset,
        leader_epoch=offset.leader_epoch,
        lag=offset.lag,
        error_code=offset.error,
        error_message=text_of(offset.error),
    )
