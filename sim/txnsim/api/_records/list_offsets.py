"""ListOffsets (key 2): the offset of a timestamp, of the start, of the end.

Versions: 2 isolation level, 4 leader epochs, 7 the greatest timestamp, 8 the local start, 9 the
tiered end, 10 a timeout, 11 the pending upload. Kafka's counterparts:
KafkaApis.handleListOffsetRequest, ReplicaManager.fetchOffset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics
from txnsim.api.request import Reply, Request
from txnsim.broker.look_ahead import LookAhead
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.partition_log import PartitionLog
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.codec import build

API_KEY: Final = 2

subject = subject_of_topics

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_SINCE: Final = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""First version that knows each special timestamp."""

_BEFORE_ALL: Final = EARLIEST_PENDING_UPLOAD - 1
"""No special timestamp, and before each record's."""

CONSUMER: Final = -1
_ISOLATIONS: Final = frozenset(IsolationLevel)
"""Any other level has no name in Kafka: a real broker fails the whole request."""
OFFSET_NOT_AVAILABLE_FROM: Final = 5


class ListedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one partition; -1 where no offset matches."""

    error: ErrorCode = ErrorCode.none
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


async def handle(request: Request) -> Reply:
    """Answer each partition by itself."""
    if getattr(request.message, "isolation_level", 0) not in _ISOLATIONS:
        return refuse(request, ErrorCode.unknown_server_error)
    times_named = Counter(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.message.topics
        for partition in topic.partitions
    )
    repeated_partitions = {
        partition for partition, name_count in times_named.items() if name_count > 1
    }

    topics = request.message.topics
    request.expect(len(topics) + times_named.total())
    look_ahead = LookAhead(request.broker.environment.tasks)
    topic_rows: list[tuple[Any, list[Any]]] = []
    for topic in topics:
        topic_rows.append((topic, []))
        for partition in _to_be_answered(request, topic):
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            found_offset = ListedOffset(error=ErrorCode.invalid_request)
            if topic_partition not in repeated_partitions:
                found_offset = await _find_offset(request, look_ahead, topic_partition, partition)
            topic_rows[-1][1].append(_partition_answer(request, partition, found_offset))
            await request.note_done(1)
    return _answer(request, topic_rows)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    failed_offset = ListedOffset(error=error)
    return _answer(
        request,
        [
            (
                topic,
                [
                    _partition_answer(request, partition, failed_offset)
                    for partition in topic.partitions
                ],
            )
            for topic in request.message.topics
        ],
    )


def _to_be_answered(request: Request, topic: Any) -> Iterable[Any]:
    """The partitions to answer: one that the request repeats is answered once; before 4.0 each
    time.
    """
    partitions: tuple[Any, ...] = topic.partitions
    if request.broker.release.rules.repeated_partitions_are_answered_once:
        return {partition.partition_index: partition for partition in partitions}.values()
    return partitions


def _answer(request: Request, topic_rows: list[tuple[Any, list[Any]]]) -> Reply:
    return request.answer(
        topics=answered_topics(request.schema.ListOffsetsTopicResponse, topic_rows)
    )


def _partition_answer(request: Request, partition: Any, found_offset: ListedOffset) -> Any:
    return build(
        request.schema.ListOffsetsPartitionResponse,
        partition_index=partition.partition_index,
        error_code=found_offset.error,
        timestamp=found_offset.timestamp_ms,
        offset=found_offset.offset,
        leader_epoch=found_offset.leader_epoch,
    )


async def _find_offset(
    request: Request, look_ahead: LookAhead, topic_partition: TopicPartition, partition: Any
) -> ListedOffset:
    target_timestamp = partition.timestamp
    if target_timestamp < 0 and request.api_version < _SINCE.get(target_timestamp, 1 << 15):
        if request.broker.release.rules.special_times_need_their_version:
            return ListedOffset(error=ErrorCode.unsupported_version)
        if target_timestamp < EARLIEST_LOCAL:
            target_timestamp = _BEFORE_ALL
    message = request.message
    replicas = request.broker.replicas
    epoch = getattr(partition, "current_leader_epoch", -1)
    # Replica -2 is the debugging consumer: any replica will do.
    log = (
        replicas.replica_log(topic_partition, current_leader_epoch=epoch)
        if message.replica_id == -2
        else replicas.leader_log(topic_partition, current_leader_epoch=epoch)
    )
    if isinstance(log, Rejection):
        return ListedOffset(error=log.error)
    isolation = IsolationLevel(getattr(message, "isolation_level", 0))
    is_consumer = message.replica_id == CONSUMER
    found_offset = await _look_up(
        look_ahead, log, target_timestamp, isolation, is_consumer=is_consumer
    )
    if (
        is_consumer
        and log.leader_epoch_start_offset > log.high_watermark
        and target_timestamp != EARLIEST_TIMESTAMP
    ):
        return _without_high_watermark(request, target_timestamp, found_offset)
    return found_offset


def _without_high_watermark(
    request: Request, target_timestamp: int, found_offset: ListedOffset
) -> ListedOffset:
    """The answer of a leader without a high watermark. A new leader that has not heard from its
    followers could answer an offset below one that the previous leader answered (KIP-207,
    Partition.fetchOffsetForTimestamp).
    """
    if target_timestamp == EARLIEST_LOCAL or (
        target_timestamp != LATEST_TIMESTAMP and found_offset.offset >= 0
    ):
        return found_offset
    if request.api_version >= OFFSET_NOT_AVAILABLE_FROM:
        return ListedOffset(error=ErrorCode.offset_not_available)
    return ListedOffset(error=ErrorCode.leader_not_available)


async def _look_up(
    look_ahead: LookAhead,
    log: PartitionLog,
    target_timestamp: int,
    isolation: IsolationLevel,
    *,
    is_consumer: bool,
) -> ListedOffset:
    reads_to_end = not is_consumer
    if target_timestamp == LATEST_TIMESTAMP:
        return ListedOffset(
            offset=log.latest_offset(isolation, reads_to_log_end=reads_to_end),
            leader_epoch=log.leader_epoch,
        )
    if target_timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL):
        earliest_offset = log.log_start_offset
        return ListedOffset(
            offset=earliest_offset, leader_epoch=log.epochs.epoch_of(earliest_offset)
        )
    if target_timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        # Nothing is tiered here, so there is no such offset.
        return ListedOffset()
    search_steps = (
        log.offset_of_max_timestamp(isolation, reads_to_log_end=reads_to_end)
        if target_timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(target_timestamp, isolation, reads_to_log_end=reads_to_end)
    )
    try:
        found_record = await look_ahead.run_steps(search_steps)
    finally:
        look_ahead.leave()
    if found_record is None:
        return ListedOffset()
    return ListedOffset(
        timestamp_ms=found_record.timestamp_ms,
        offset=found_record.offset,
        leader_epoch=found_record.leader_epoch,
    )
