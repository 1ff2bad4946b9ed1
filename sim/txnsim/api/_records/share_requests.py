"""What ShareFetch and ShareAcknowledge have in common: who may ask, and acknowledgements.

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
from txnsim.share.commands import TRIPPED, AcknowledgementBatch, AcknowledgeType
from txnsim.share.sessions import SessionKey, SharedPartition
from txnsim.types import TopicPartition, uuid_from, uuid_text

RENEW_FROM: Final = 2
MEMBER_ID_MAX: Final = 36
_NO_ID: Final = uuid.UUID(int=0)
_MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
Answers = dict[SharedPartition, Rejection | None]
"""Partition -> error of its acknowledgements, None where they are persisted."""


def refusal(request: Request) -> ErrorCode | None:
    """Error of the whole request: share groups are off, or a group or member id is invalid."""
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
    """Whether the cluster has share groups."""
    return bool(request.broker.image.features.get(SHARE_VERSION, 0))


def member_of(request: Request) -> SessionKey:
    return SessionKey(request.message.group_id, request.message.member_id)


def is_renewal(request: Request) -> bool:
    """It may renew locks (KIP-1222)."""
    return bool(getattr(request.message, "is_renew_ack", False))


def requested_partitions(
    request: Request, topics: Iterable[Any]
) -> dict[SharedPartition, tuple[str | None, Any]]:
    """Partitions below topics with ids, each with its topic's name; None of an unknown id."""
    names = request.broker.image.topic_names
    parts_by_partition: dict[SharedPartition, tuple[str | None, Any]] = {}
    for topic in topics:
        name = names.get(topic.topic_id)
        text = uuid_text(topic.topic_id or _NO_ID)
        for part in topic.partitions:
            index = part if isinstance(part, int) else part.partition_index
            parts_by_partition[SharedPartition(text, index)] = name, part
    return parts_by_partition


def places(
    parts_by_partition: dict[SharedPartition, tuple[str | None, Any]],
) -> tuple[TopicPartition, ...]:
    """The same as a fault plan names them; an unknown topic has an empty name."""
    return tuple(
        TopicPartition(name or "", partition.partition)
        for partition, (name, _) in parts_by_partition.items()
    )


def error_at(request: Request, name: str | None, index: int) -> ErrorCode | None:
    """Why the client gets nothing of a partition, wherever its records are."""
    if name is None:
        return ErrorCode.unknown_topic_id
    access = request.access
    if access is not None and not access.may_topic(AclOperation.READ, name):
        return ErrorCode.topic_authorization_failed
    if request.broker.image.partition(TopicPartition(name, index)) is None:
        return ErrorCode.unknown_topic_or_partition
    return None


class Acknowledging:
    """The acknowledgements of one request, on their way to the share coordinator."""

    def __init__(self) -> None:
        self._refused: Answers = {}
        self._waiting: dict[SharedPartition, Pending[Rejection | None]] = {}
        self._empty: Answers = {}
        self.has_tripped = False
        """Kafka answers none of it: UNKNOWN_SERVER_ERROR."""

    def begin(
        self, request: Request, partition: SharedPartition, name: str | None, batches: Iterable[Any]
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
            ErrorCode.unknown_topic_id if name is None else _complaint(request, acknowledgements)
        )
        error = error or error_at(request, name, partition.partition)
        if error is not None:
            self._refused[partition] = Rejection(error=error, reason="")
        elif acknowledgements:
            shares = request.broker.share_fetching
            outcome = shares.acknowledge(member_of(request), partition, acknowledgements)
            self.has_tripped = outcome.is_done and outcome.result() is TRIPPED
            self._waiting[partition] = outcome
        else:
            self._empty[partition] = None

    async def answers(self) -> Answers:
        """Wait for the share coordinator to persist the acknowledgements. Partitions of which
        nothing was said count as done, but only beside others.
        """
        if not self._waiting:
            return self._refused
        outcomes = {partition: await outcome for partition, outcome in self._waiting.items()}
        return {**outcomes, **self._refused, **self._empty}


async def begin_acknowledging(request: Request) -> Acknowledging:
    """Carry out what the request says of each partition."""
    acknowledging = Acknowledging()

    def begin(named_part: tuple[SharedPartition, tuple[str | None, Any]]) -> None:
        partition, (name, part) = named_part
        acknowledging.begin(request, partition, name, part.acknowledgement_batches)

    await request.map_each(
        begin, requested_partitions(request, request.message.topics).items(), weight=4
    )
    return acknowledging


def _complaint(request: Request, batches: Iterable[AcknowledgementBatch]) -> ErrorCode | None:
    """Offset ranges are ascending, with one acknowledge type, or one for each offset."""
    has_renewals = request.api_version >= RENEW_FROM
    highest = AcknowledgeType.RENEW if has_renewals else AcknowledgeType.REJECT
    last_offset_before = -1
    for batch in batches:
        types = batch.types
        is_wrong = (
            not last_offset_before <= batch.first_offset <= batch.last_offset
            or not types
            or (len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1)
            or min(types) < AcknowledgeType.GAP
            or max(types) > highest
            or (AcknowledgeType.RENEW in types and not is_renewal(request))
        )
        if is_wrong:
            return ErrorCode.invalid_request
        last_offset_before = batch.last_offset
    return None


async def by_topic(
    request: Request, response: Callable[..., Any], topics: Mapping[str, Sequence[Any]]
) -> tuple[Any, ...]:
    """What is answered of partitions, below their topics; ``response`` is the message of one."""
    of_topics = await request.map_each(
        lambda topic_and_rows: response(
            topic_id=uuid_from(topic_and_rows[0]), partitions=tuple(topic_and_rows[1])
        ),
        topics.items(),
    )
    return tuple(of_topics)


def current_leader(
    request: Request, leaders: CurrentLeaders, topic_id: uuid.UUID, index: int, error: ErrorCode
) -> Any:
    """The leader to go to, where this broker is none; zeroes elsewhere."""
    if error in _MOVED:
        return leaders.leader_of(topic_id, index)
    return request.schema.LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
