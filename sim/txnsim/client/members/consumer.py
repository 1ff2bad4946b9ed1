"""A member of the consumer protocol: one request says and asks for everything (KIP-848).

Kafka's counterpart is ``ConsumerMembershipManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ErrorCode
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import MemberOptions, Membership, refused
from txnsim.client.members.requests import consumer_group_heartbeat
from txnsim.types import TopicPartition

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2
"""Epochs that mean what the member does; a static one keeps its partitions for its return."""
_EXPELLED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class ConsumerMembership(Membership):
    """One member; the coordinator assigns."""

    def __init__(self, cluster: Cluster, options: MemberOptions, topics: tuple[str, ...]) -> None:
        super().__init__(cluster, options, topics)
        self.metadata = GroupMetadata(
            generation=JOIN, member_id=options.member_id, instance_id=options.instance_id
        )
        self._target: frozenset[TopicPartition] = frozenset()

    async def beat(self) -> None:
        """See ``Membership``."""
        if not self._must_join:
            await self._say(consumer_group_heartbeat(self._options.group_id, self.metadata))

    async def settle(self) -> None:
        """See ``Membership``."""
        options = self._options
        if self._must_join:
            self.assigned = self._target = frozenset()
            self.metadata = msgspec.structs.replace(self.metadata, generation=JOIN)
            joining = (self._topics, options.rebalance_timeout_ms)
            await self._say(
                consumer_group_heartbeat(options.group_id, self.metadata, joining=joining, owned={})
            )
        while self._target != self.assigned and not self._must_join:
            self.assigned = self._target
            owned = self._by_id(self.assigned)
            await self._say(consumer_group_heartbeat(options.group_id, self.metadata, owned=owned))

    async def _say(self, request: Any) -> None:
        answer = await self._coordinator.ask(request)
        error = ErrorCode(answer.error_code)
        if error in _EXPELLED:
            self._must_join = True
            return
        if error != ErrorCode.none:
            raise refused("ConsumerGroupHeartbeat", self._options.group_id, error)
        self._must_join = False
        self.metadata = msgspec.structs.replace(
            self.metadata,
            generation=answer.member_epoch,
            member_id=answer.member_id or self.metadata.member_id,
        )
        if answer.assignment is not None:
            self._target = await self._by_name(answer.assignment.topic_partitions)

    def _ids(self) -> dict[str, UUID]:
        """The ids of the topics that it subscribes to, as far as they are known."""
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
        """See ``Membership``."""
        epoch = LEAVE if self._options.instance_id is None else LEAVE_FOR_A_WHILE
        going = msgspec.structs.replace(self.metadata, generation=epoch)
        answer = await self._coordinator.ask(
            consumer_group_heartbeat(self._options.group_id, going)
        )
        error = ErrorCode(answer.error_code)
        if error != ErrorCode.none:
            raise refused("ConsumerGroupHeartbeat", self._options.group_id, error)
