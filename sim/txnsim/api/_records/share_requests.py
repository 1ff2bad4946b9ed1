"""What ShareFetch and ShareAcknowledge share: checks of the request, and acknowledgements.

Kafka's counterparts: handleAcknowledgements and validateAcknowledgementBatches of KafkaApis.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from txnsim.api._leaders import CurrentLeaders
from txnsim.api.request import Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import SHARE_VERSION
from txnsim.runtime.tasks import Pending
from txnsim.security.acls import AclOperation
from txnsim.share.commands import NULL_POINTER_REJECTION, AcknowledgementBatch, AcknowledgeType
from txnsim.share.sessions import SessionKey, SharedPartition
from txnsim.types import TopicPartition, uuid_from, uuid_text

RENEW_FROM: Final = 2
MEMBER_ID_MAX: Final = 36
_NO_ID: Final = uuid.UUID(int=0)
_LEADER_MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
Answers = dict[SharedPartition, Rejection | None]
"""The error of each partition's acknowledgements; None once they are persisted."""


def refusal(request: Request) -> ErrorCode | None:
    """The error of the whole request: share groups are disabled, or a group or member id is
    invalid.
    """
    message = request.message
    if not is_on(request):
        return ErrorCode.unsupported_version
    if message.group_id is None:
        needs_group = request.broker.release.rules.share_requests_need_groups
        return ErrorCode.invalid_request if needs_group else ErrorCode.unknown_server_error
    if not message.member_id or len(message.member_id) > MEMBER_ID_MAX:
        return ErrorCode.invalid_request
    return None


def is_on(request: Request) -> bool:
    """Whether share groups are enabled in the cluster."""
    return bool(request.broker.image.features.get(SHARE_VERSION, 0))


def member_of(request: Request) -> SessionKey:
    return SessionKey(request.message.group_id, request.message.member_id)


def is_renewal(request: Request) -> bool:
    """Whether the request may renew locks (KIP-1222)."""
    return bool(getattr(request.message, "is_renew_ack", False))


def requested_partitions(
    request: Request, topics: Iterable[Any]
) -> dict[SharedPartition, tuple[str | None, Any]]:
    """The partitions that topics with ids list, each with its topic's name (None for an unknown id)
    and its element.
    """
    name_by_topic_id = request.broker.image.topic_names
    parts_by_partition: dict[SharedPartition, tuple[str | None, Any]] = {}
    for topic in topics:
        topic_name = name_by_topic_id.get(topic.topic_id)
        topic_id_text = uuid_text(topic.topic_id or _NO_ID)
        for partition_row in topic.partitions:
            partition_index = (
                partition_row if isinstance(partition_row, int) else partition_row.partition_index
            )
            parts_by_partition[SharedPartition(topic_id_text, partition_index)] = (
                topic_name,
                partition_row,
            )
    return parts_by_partition


def partition_names(
    parts_by_partition: dict[SharedPartition, tuple[str | None, Any]],
) -> tuple[TopicPartition, ...]:
    """The partitions by topic name, for fault plans; the name of an unknown topic is empty."""
    return tuple(
        TopicPartition(topic_name or "", shared_partition.partition)
        for shared_partition, (topic_name, _) in parts_by_partition.items()
    )


def access_error(
    request: Request, topic_name: str | None, partition_index: int
) -> ErrorCode | None:
    """Why the client can't use a partition, whichever broker leads it; None if it can."""
    if topic_name is None:
        return ErrorCode.unknown_topic_id
    access = request.access
    if access is not None and not access.may_topic(AclOperation.READ, topic_name):
        return ErrorCode.topic_authorization_failed
    if request.broker.image.partition(TopicPartition(topic_name, partition_index)) is None:
        return ErrorCode.unknown_topic_or_partition
    return None


class RequestAcknowledgements:
    """The acknowledgements of one request on their way to the share coordinator."""

    def __init__(self) -> None:
        self._rejection_by_partition: Answers = {}
        self._pending_by_partition: dict[SharedPartition, Pending[Rejection | None]] = {}
        self._answer_by_empty_partition: Answers = {}
        self.has_tripped = False
        """True if Kafka would answer the whole request with UNKNOWN_SERVER_ERROR."""

    def begin(
        self,
        request: Request,
        shared_partition: SharedPartition,
        topic_name: str | None,
        batches: Iterable[Any],
    ) -> None:
        """Validate acknowledgement batches of one partition and pass them to its leader."""
        if self.has_tripped:
            return
        acknowledgements = tuple(
            AcknowledgementBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                types=tuple(batch.acknowledge_types),
            )
            for batch in batches
        )
        error = (
            ErrorCode.unknown_topic_id
            if topic_name is None
            else _complaint(request, acknowledgements)
        )
        error = error or access_error(request, topic_name, shared_partition.partition)
        if error is not None:
            self._rejection_by_partition[shared_partition] = Rejection(error=error, reason="")
        elif acknowledgements:
            shares = request.broker.share_fetching
            pending_outcome = shares.acknowledge(
                member_of(request), shared_partition, acknowledgements
            )
            self.has_tripped = (
                pending_outcome.is_done and pending_outcome.result() is NULL_POINTER_REJECTION
            )
            self._pending_by_partition[shared_partition] = pending_outcome
        else:
            self._answer_by_empty_partition[shared_partition] = None

    async def answers(self) -> Answers:
        """Wait until the share coordinator has persisted the acknowledgements. Partitions without
        acknowledgement batches are in the result only if another partition has some.
        """
        if not self._pending_by_partition:
            return self._rejection_by_partition
        rejection_by_partition = {
            shared_partition: await pending_outcome
            for shared_partition, pending_outcome in self._pending_by_partition.items()
        }
        return {
            **rejection_by_partition,
            **self._rejection_by_partition,
            **self._answer_by_empty_partition,
        }


async def begin_acknowledging(request: Request) -> RequestAcknowledgements:
    """Start the acknowledgements of each partition of the request."""
    request_acknowledgements = RequestAcknowledgements()

    def begin(named_part: tuple[SharedPartition, tuple[str | None, Any]]) -> None:
        shared_partition, (topic_name, partition_row) = named_part
        request_acknowledgements.begin(
            request, shared_partition, topic_name, partition_row.acknowledgement_batches
        )

    await request.map_each(
        begin, requested_partitions(request, request.message.topics).items(), weight=4
    )
    return request_acknowledgements


def _complaint(request: Request, batches: Iterable[AcknowledgementBatch]) -> ErrorCode | None:
    """The error of acknowledgement batches: offset ranges must ascend, and each has one type or a
    type for each offset.
    """
    has_renewals = request.api_version >= RENEW_FROM
    highest_type = AcknowledgeType.RENEW if has_renewals else AcknowledgeType.REJECT
    last_offset_before = -1
    for batch in batches:
        batch_types = batch.types
        is_wrong = (
            not last_offset_before <= batch.first_offset <= batch.last_offset
            or not batch_types
            or (
                len(batch_types) > 1
                and len(batch_types) != batch.last_offset - batch.first_offset + 1
            )
            or min(batch_types) < AcknowledgeType.GAP
            or max(batch_types) > highest_type
            or (AcknowledgeType.RENEW in batch_types and not is_renewal(request))
        )
        if is_wrong:
            return ErrorCode.invalid_request
        last_offset_before = batch.last_offset
    return None


async def by_topic(
    request: Request, topic_class: Callable[..., Any], rows_by_topic: Mapping[str, Sequence[Any]]
) -> tuple[Any, ...]:
    """Group the answers of partitions by topic; ``topic_class`` is the class for a topic."""
    topic_rows = await request.map_each(
        lambda topic_and_rows: topic_class(
            topic_id=uuid_from(topic_and_rows[0]), partitions=tuple(topic_and_rows[1])
        ),
        rows_by_topic.items(),
    )
    return tuple(topic_rows)


def current_leader(
    request: Request,
    leaders: CurrentLeaders,
    topic_id: uuid.UUID,
    partition_index: int,
    error: ErrorCode,
) -> Any:
    """The current leader of the partition if this broker does not lead it; else zeroes."""
    if error in _LEADER_MOVED:
        return leaders.leader_of(topic_id, partition_index)
    return request.schema.LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
