"""A member of the consumer protocol: one request says and asks for everything (KIP-848).

Kafka's counterpart is ``ConsumerMembershipManager``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from txnsim.client.errors import ClientError, ErrorCode
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import Membership, Subscriber, refused
from txnsim.client.members.requests import consumer_group_heartbeat
from txnsim.client.versions import Request
from txnsim.types import TopicPartition

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2
"""Epochs that mean what the member does; a static one keeps its partitions for its return."""
_EXPELLED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class ConsumerMembership(Membership):
    """One member; the coordinator assigns.

    It joins in a poll, and takes over an assignment in a poll. Where it was expelled, its
    heartbeats join again.
    """

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(subscriber)
        self.metadata = GroupMetadata(
            generation=JOIN,
            member_id=subscriber.options.member_id,
            instance_id=subscriber.options.instance_id,
        )
        self._now = self.metadata
        """The current identity; ``metadata`` keeps the old one until the member has rejoined."""
        self._target: frozenset[TopicPartition] = frozenset()
        self._confirmed: frozenset[TopicPartition] = frozenset()
        """Partitions of the member that the coordinator knows of."""
        self._is_out = True
        """Not joined yet, or left; the next poll joins."""
        self._says_topics = False
        """Whether the next heartbeat carries the subscription."""
        self._refused: ClientError | None = None
        """The fatal error (``MemberState.FATAL``), after which the member sends nothing."""

    @property
    def takes_part(self) -> bool:
        """See ``Membership``."""
        return not self._is_out

    async def beat(self) -> None:
        """See ``Membership``."""
        if self._refused is not None:
            raise self._refused
        if self._is_out:
            return
        if self._must_join or self._says_topics:
            await self._join()
        else:
            await self._say(self._request())

    async def settle(self) -> None:
        """See ``Membership``."""
        self._is_out = False
        while self._must_join or self._says_topics or self._target != self._confirmed:
            if self._must_join or self._says_topics:
                await self._join()
                continue
            target = self._target
            self._hold(target)
            if await self._say(self._request(owned=self._by_id(target))):
                self._confirmed = target

    async def _join(self) -> None:
        """Send the first heartbeat of a member, with all fields."""
        if self._must_join:
            self._lose_all()
        joining = (self._topics, self._options.rebalance_timeout_ms)
        owned = self._by_id(self.assigned)
        if await self._say(self._request(joining=joining, owned=owned)):
            self._says_topics = False

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """See ``Membership``. A heartbeat says so, and the member keeps what it has. One that was
        refused begins anew.
        """
        self._must_join |= self._refused is not None
        self._refused = None
        self._says_topics |= topics != self._topics
        self._topics = topics

    def _lose_all(self) -> None:
        self._hold(frozenset())
        self._target = self._confirmed = frozenset()
        self._now = msgspec.structs.replace(self._now, generation=JOIN)

    def _request(
        self,
        *,
        joining: tuple[Collection[str], int] | None = None,
        owned: Mapping[UUID, Collection[int]] | None = None,
    ) -> Request:
        return consumer_group_heartbeat(
            self._options.group_id, self._now, joining=joining, owned=owned
        )

    async def _say(self, request: Request) -> bool:
        answer = await self._coordinator.ask(request)
        error = ErrorCode(answer.error_code)
        if error in _EXPELLED:
            self._must_join = True
            return False
        if error != ErrorCode.none:
            self._refused = refused("ConsumerGroupHeartbeat", self._options.group_id, error)
            raise self._refused
        self._must_join = False
        self._now = self.metadata = msgspec.structs.replace(
            self._now,
            generation=answer.member_epoch,
            member_id=answer.member_id or self._now.member_id,
        )
        if answer.assignment is not None:
            self._target = await self._by_name(answer.assignment.topic_partitions)
        return True

    def _ids(self) -> dict[str, UUID]:
        found = {name: self._cluster.view.topic(name) for name in self._topics}
        return {
            name: one.topic_id
            for name, one in found.items()
            if one is not None and one.topic_id is not None
        }

    async def _by_name(self, rows: Sequence[Any]) -> frozenset[TopicPartition]:
        """Partitions of topics by id; one that metadata does not name yet can't be read."""
        if not {row.topic_id for row in rows} <= set(self._ids().values()):
            await self._cluster.refresh(self._topics)
        names = {topic_id: name for name, topic_id in self._ids().items()}
        return frozenset(
            TopicPartition(names[row.topic_id], index)
            for row in rows
            if row.topic_id in names
            for index in row.partitions
        )

    def _by_id(self, partitions: Iterable[TopicPartition]) -> dict[UUID, list[int]]:
        """Partitions by the ids of their topics; of a topic that is gone nothing is owned."""
        ids = self._ids()
        found: dict[UUID, list[int]] = {}
        for place in sorted(place for place in partitions if place.topic in ids):
            found.setdefault(ids[place.topic], []).append(place.partition)
        return found

    async def leave(self) -> None:
        """See ``Membership``. A static member may come back."""
        epoch = LEAVE if self._options.instance_id is None else LEAVE_FOR_A_WHILE
        going = msgspec.structs.replace(self._now, generation=epoch)
        was_out = self._is_out or self._must_join or self._refused is not None
        self._lose_all()
        self._is_out = self._must_join = True
        if was_out:
            return
        answer = await self._coordinator.ask(
            consumer_group_heartbeat(self._options.group_id, going)
        )
        error = ErrorCode(answer.error_code)
        if error != ErrorCode.none:
            raise refused("ConsumerGroupHeartbeat", self._options.group_id, error)
