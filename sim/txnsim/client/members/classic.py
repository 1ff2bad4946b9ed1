"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

What it says in JoinGroup, and how the leader of a generation assigns, is pure. Kafka's counterparts
are ``AbstractCoordinator``, ``ConsumerProtocol`` and the eager ``RangeAssignor``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ErrorCode
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import MemberOptions, Membership, refused
from txnsim.client.members.requests import heartbeat, join_group, leave_group, sync_group
from txnsim.group.subscription import read_assignment, read_subscription, write_assignment
from txnsim.types import TopicPartition

JOIN_GRACE_MS: Final = 5_000
"""How much longer than the rebalance a client waits for the answer to a JoinGroup, as Java's."""
_AGAIN: Final = frozenset({ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation})
"""Another rebalance has begun: join again under the same member id."""


class ClassicMembership(Membership):
    """One member; the leader of a generation assigns."""

    def __init__(self, cluster: Cluster, options: MemberOptions, topics: tuple[str, ...]) -> None:
        super().__init__(cluster, options, topics)
        self._member_id = ""

    async def beat(self) -> None:
        """See ``Membership``."""
        if self._must_join:
            return
        answer = await self._coordinator.ask(heartbeat(self._options.group_id, self.metadata))
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.none:
            return
        self._must_join = True
        if error == ErrorCode.unknown_member_id:
            self._member_id = ""
        elif error not in _AGAIN:
            raise refused("Heartbeat", self._options.group_id, error)

    async def settle(self) -> None:
        """See ``Membership``."""
        while self._must_join:
            self.assigned = frozenset()  # an eager member gives up all before it joins again
            joined = await self._join()
            if joined is not None and await self._sync(joined):
                self._must_join = False

    async def _join(self) -> Any:
        """The answer to a JoinGroup that makes it a member of a generation; None: once more."""
        options = self._options
        request = join_group(
            options.group_id,
            GroupMetadata(member_id=self._member_id, instance_id=options.instance_id),
            subscription=write_subscription(self._topics),
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
        )
        timeout_ms = options.rebalance_timeout_ms + JOIN_GRACE_MS
        answer = await self._coordinator.ask(request, timeout_ms=timeout_ms)
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.none:
            return answer
        if error == ErrorCode.member_id_required:
            self._member_id = answer.member_id
        elif error == ErrorCode.unknown_member_id:
            self._member_id = ""
        elif error not in _AGAIN:
            raise refused("JoinGroup", options.group_id, error)
        return None

    async def _sync(self, joined: Any) -> bool:
        """Take the assignment of a generation; False where the next one has begun."""
        options = self._options
        self._member_id = joined.member_id
        member = GroupMetadata(
            generation=joined.generation_id,
            member_id=joined.member_id,
            instance_id=options.instance_id,
        )
        leads = joined.leader == joined.member_id and not getattr(joined, "skip_assignment", False)
        assignments = await self._assign(joined) if leads else {}
        request = sync_group(options.group_id, member, assignments=assignments)
        timeout_ms = options.rebalance_timeout_ms + JOIN_GRACE_MS
        answer = await self._coordinator.ask(request, timeout_ms=timeout_ms)
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.unknown_member_id:
            self._member_id = ""
        elif error not in _AGAIN and error != ErrorCode.none:
            raise refused("SyncGroup", options.group_id, error)
        if error != ErrorCode.none:
            return False
        self.metadata, self.assigned = member, assigned_partitions(answer.assignment)
        return True

    async def _assign(self, joined: Any) -> dict[str, bytes]:
        topics = sorted(subscribed(one.metadata for one in joined.members))
        view = await self._cluster.refresh(topics)
        counts = {
            name: len(found.partitions)
            for name in topics
            if (found := view.topic(name)) is not None
        }
        members = {
            one.member_id: (getattr(one, "group_instance_id", None) or one.member_id, one.metadata)
            for one in joined.members
        }
        return assign_range(members, counts)

    async def leave(self) -> None:
        """See ``Membership``."""
        answer = await self._coordinator.ask(leave_group(self._options.group_id, self.metadata))
        rows = (answer, *getattr(answer, "members", ()))
        error = next((one.error_code for one in rows if one.error_code), ErrorCode.none)
        if error != ErrorCode.none:
            raise refused("LeaveGroup", self._options.group_id, ErrorCode(error))


_VERSION = 0
"""Of both: without owned partitions, as eager assignors need none."""


def write_subscription(topics: Iterable[str]) -> bytes:
    """A consumer's subscription."""
    names = sorted(topics)
    out = [struct.pack("!hi", _VERSION, len(names))]
    for name in names:
        data = name.encode()
        out.append(struct.pack("!h", len(data)) + data)
    out.append(struct.pack("!i", -1))
    return b"".join(out)


def assigned_partitions(data: bytes) -> frozenset[TopicPartition]:
    """What a member was assigned.

    Raises:
        ValueError: The leader of the generation sent something else.
    """
    found = read_assignment(data)
    if found is None:
        raise ValueError(f"the leader of the group sent {data.hex()}, which is no assignment")
    return frozenset(TopicPartition(topic, index) for topic, index in found.partitions)


def assign_range(
    members: Mapping[str, tuple[str, bytes]], partitions: Mapping[str, int]
) -> dict[str, bytes]:
    """Share each topic's partitions among the members that subscribe to it: consecutive ones, and
    one more to the first members where they don't come out even.

    Args:
        members: Member id -> what it is ordered by (its instance id, where it has one), and its
            subscription.
        partitions: Topic -> how many it has.

    Returns:
        Member id -> its assignment.
    """
    shares: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    wanted = {name: read_subscription(data) for name, (_, data) in members.items()}
    ordered = sorted(members, key=lambda name: members[name][0])
    for topic, count in sorted(partitions.items()):
        takers = [
            name for name in ordered if (said := wanted[name]) is not None and topic in said.topics
        ]
        start = 0
        for at, name in enumerate(takers):
            size = count // len(takers) + (at < count % len(takers))
            if size:
                shares[name][topic] = list(range(start, start + size))
            start += size
    return {name: write_assignment(_VERSION, share) for name, share in shares.items()}


def subscribed(members: Iterable[bytes]) -> frozenset[str]:
    """Every topic that one of these subscriptions names."""
    found = (read_subscription(data) for data in members)
    return frozenset(topic for said in found if said is not None for topic in said.topics)
