"""What both protocols have in common for a member: its place in the group, and its requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Literal

import msgspec

from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, RetriableError, code_name
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.versions import VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

GroupProtocol = Literal["classic", "consumer", "share", "streams"]
"""group.protocol of a consumer; ``share`` is the protocol of share groups (KIP-932), ``streams``
that of Kafka Streams (KIP-1071).
"""

LANE: Final = "group"
"""A JoinGroup waits for other members, so it needs its own connection."""
COORDINATOR_MOVED_ERRORS: Final = frozenset(
    {ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}
)
"""The group has another coordinator."""


class MemberOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer's settings, by their meaning in Kafka."""

    group_id: str
    protocol: GroupProtocol = "classic"
    """group.protocol."""
    member_id: str = ""
    """Id of the member. The consumer protocol needs one; a classic member gets one from the
    coordinator.
    """
    instance_id: str | None = None
    """group.instance.id: a static member (KIP-345)."""
    session_timeout_ms: int = 45_000
    """session.timeout.ms; in the consumer protocol the broker's setting applies."""
    rebalance_timeout_ms: int = 300_000
    """max.poll.interval.ms."""
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED


class CoordinatorClient(msgspec.Struct, eq=False):
    """Requests to a group's coordinator; follows the coordinator when it moves."""

    _cluster: Cluster
    _group_id: str
    _broker_id: int | None = None

    def forget(self) -> None:
        self._broker_id = None

    async def ask(self, request: VersionedRequest, *, timeout_ms: int | None = None) -> Any:
        """Send a request to the group's coordinator, once. It is not retried, because the member's
        next request depends on its new state.

        Args:
            request: The request.
            timeout_ms: How long the answer may take; ``request_timeout_ms`` unless given.

        Raises:
            RetriableError: The coordinator is loading, has moved, or did not answer.
            ClientError: There is no coordinator for it.
        """
        cluster = self._cluster
        timed_request = (
            request
            if timeout_ms is None
            else msgspec.structs.replace(request, timeout_ms=timeout_ms)
        )
        if self._broker_id is None:
            self._broker_id = await cluster.group_coordinator(self._group_id, cluster.deadline())
        try:
            message = await cluster.ask(self._broker_id, timed_request, lane=LANE)
            error = ErrorCode(message.error_code)
        except LOST_ANSWER_ERRORS as lost:
            error = lost.error or ErrorCode.network_exception
            self.forget()
        else:
            if error in COORDINATOR_MOVED_ERRORS:
                self.forget()
            elif error != ErrorCode.coordinator_load_in_progress:
                return message
        failure = f"{request.api.name} of group {self._group_id!r}: {code_name(error)}"
        raise RetriableError(failure, error=error)


class Subscriber(msgspec.Struct, frozen=True, kw_only=True):
    """The consumer that becomes a member."""

    cluster: Cluster
    """Connections to use."""
    options: MemberOptions
    topics: tuple[str, ...]
    positions: dict[TopicPartition, int]
    """Next offset by assigned partition; revoked partitions are removed."""


class Membership(ABC):
    """A member's place in its group."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._cluster, self._options = subscriber.cluster, subscriber.options
        self._topics, self._positions = subscriber.topics, subscriber.positions
        self.metadata = GroupMetadata(instance_id=self._options.instance_id)
        """The member's identity for commits, as of the last join (``ConsumerGroupMetadata``)."""
        self.assigned: frozenset[TopicPartition] = frozenset()
        self._coordinator = CoordinatorClient(self._cluster, self._options.group_id)
        self._must_join = True

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to these topics, keeping the membership."""
        if topics != self._topics:
            self._topics = topics
            self._must_join = True

    @property
    @abstractmethod
    def takes_part(self) -> bool:
        """Whether the consumer considers itself a member; after an expulsion it joins at its next
        poll.
        """

    @abstractmethod
    async def beat(self) -> None:
        """Send a heartbeat, if it is a member.

        Raises:
            RetriableError: The coordinator did not answer, or has moved.
            ClientError: The member is refused.
        """

    @abstractmethod
    async def settle(self) -> None:
        """Join if necessary, and take over a new assignment.

        Raises:
            RetriableError: The coordinator did not answer, or has moved.
            ClientError: The member is refused.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group, with a request if the protocol has one for this member. The next
        ``settle`` joins again.

        Raises:
            ClientError: Refused, or not answered.
        """

    def _hold(self, assigned_partitions: frozenset[TopicPartition]) -> None:
        """Replace the assigned partitions and forget the positions of revoked ones."""
        self.assigned = assigned_partitions
        for partition in self._positions.keys() - assigned_partitions:
            del self._positions[partition]


def refusal_error(request_name: str, group_id: str, error: ErrorCode) -> ClientError:
    """The error of a member that can't go on."""
    return ClientError(f"{request_name} of group {group_id!r}: {code_name(error)}", error=error)
