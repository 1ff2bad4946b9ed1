"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

What it says in JoinGroup, and how the leader of a generation assigns, is pure. Kafka's counterparts
are ``AbstractCoordinator``, ``ConsumerProtocol`` and the eager ``RangeAssignor``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from txnsim.client.errors import ErrorCode
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import Membership, Subscriber, refused
from txnsim.client.members.requests import heartbeat, join_group, leave_group, sync_group
from txnsim.group.subscription import read_assignment, read_subscription, write_assignment
from txnsim.types import TopicPartition

JOIN_GRACE_MS: Final = 5_000
"""How much longer than the rebalance a client waits for the answer to a JoinGroup, as Java's."""
METADATA_MAX_AGE_MS: Final = 300_000
"""metadata.max.age.ms: so old may be what a leader knows of the topics that it has assigned."""

Place = Literal["out", "joining", "in"]
"""Java's ``MemberState``: UNJOINED; PREPARING_REBALANCE or COMPLETING_REBALANCE; STABLE."""

_ALIVE: Final = frozenset({ErrorCode.none, ErrorCode.rebalance_in_progress})
"""The coordinator knows the member."""
_OUT: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
    }
)
"""Errors after which the member must rejoin: unknown, or of another generation."""


class ClassicMembership(Membership):
    """One member; the leader of a generation assigns."""

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(subscriber)
        self._member_id = ""
        self._place: Place = "out"
        self._heard_ms = 0.0
        """When its coordinator last took it for a member."""
        self._led: Mapping[str, int] | None = None
        """Topic -> how many partitions it has assigned of it, as the leader of a generation."""
        self._known_ms = 0.0
        """Time of the last look at the numbers of partitions."""

    @property
    def takes_part(self) -> bool:
        """See ``Membership``."""
        return self._place != "out"

    async def beat(self) -> None:
        """See ``Membership``. It goes on while a rebalance waits for the member's next poll: so the
        rebalance can wait for the whole ``rebalance_timeout_ms``.
        """
        if self._place != "in":
            return
        options, clock = self._options, self._cluster.clock
        if clock.monotonic_ms() - self._heard_ms >= options.session_timeout_ms:
            self._coordinator.forget()
            self._heard_ms = clock.monotonic_ms()
        answer = await self._coordinator.ask(
            heartbeat(options.group_id, self.metadata), timeout_ms=options.session_timeout_ms
        )
        error = ErrorCode(answer.error_code)
        if error in _ALIVE:
            self._heard_ms = clock.monotonic_ms()
            self._must_join |= error == ErrorCode.rebalance_in_progress
        elif error in _OUT:
            self._fall_out(keeps_id=error == ErrorCode.illegal_generation)
            if error == ErrorCode.fenced_instance_id:
                raise refused("Heartbeat", options.group_id, error)
        # Whatever else it is answered, it asks again, as Java's heartbeat thread does.

    def _fall_out(self, *, keeps_id: bool = False) -> None:
        """It is no member now (``resetStateAndGeneration``)."""
        self._place, self._must_join = "out", True
        if not keeps_id:
            self._member_id = ""

    async def settle(self) -> None:
        """See ``Membership``."""
        await self._look_at_topics()
        while self._must_join:
            self._hold(frozenset())  # an eager member gives up all before it joins again
            self._place = "joining"
            joined = await self._join()
            if joined is not None and await self._sync(joined):
                self._must_join = False

    async def _look_at_topics(self) -> None:
        """A leader has its group join again where a topic that it has assigned has grown."""
        if self._led is None or self._must_join:
            return
        if self._cluster.clock.monotonic_ms() - self._known_ms >= METADATA_MAX_AGE_MS:
            await self._learn(self._led)
        self._must_join = self._counts(self._led) != self._led

    async def _learn(self, topics: Iterable[str]) -> None:
        await self._cluster.refresh(sorted(topics))
        self._known_ms = self._cluster.clock.monotonic_ms()

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        found = {name: self._cluster.view.topic(name) for name in topics}
        return {name: 0 if one is None else len(one.partitions) for name, one in found.items()}

    async def _join(self) -> Any:
        """The JoinGroup answer of a new generation; None to try again."""
        options = self._options
        request = join_group(
            options.group_id,
            GroupMetadata(member_id=self._member_id, instance_id=options.instance_id),
            subscription=write_subscription(self._topics),
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
        )
        timeout_ms = max(
            self._cluster.settings.request_timeout_ms, options.rebalance_timeout_ms + JOIN_GRACE_MS
        )
        answer = await self._coordinator.ask(request, timeout_ms=timeout_ms)
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.none:
            return answer
        if error == ErrorCode.member_id_required:
            self._member_id = answer.member_id
        elif error == ErrorCode.unknown_member_id:
            self._fall_out()
        elif error != ErrorCode.rebalance_in_progress:
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
        self._led = None
        leads = joined.leader == joined.member_id and not getattr(joined, "skip_assignment", False)
        assignments = await self._assign(joined) if leads else {}
        request = sync_group(options.group_id, member, assignments=assignments)
        answer = await self._coordinator.ask(request)
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self._fall_out(keeps_id=error == ErrorCode.illegal_generation)
        elif error not in _ALIVE:
            raise refused("SyncGroup", options.group_id, error)
        if error != ErrorCode.none:
            return False
        self.metadata, self._place = member, "in"
        self._heard_ms = self._cluster.clock.monotonic_ms()
        self._hold(assigned_partitions(answer.assignment))
        return True

    async def _assign(self, joined: Any) -> dict[str, bytes]:
        topics = subscribed(one.metadata for one in joined.members)
        await self._learn(topics)
        self._led = self._counts(topics)
        members = {
            one.member_id: (getattr(one, "group_instance_id", None), one.metadata)
            for one in joined.members
        }
        return assign_range(members, self._led)

    async def leave(self) -> None:
        """See ``Membership``. A static member says nothing: its session ends, unless it is back."""
        options, member_id, place = self._options, self._member_id, self._place
        self._fall_out()
        if options.instance_id is not None or not member_id or place == "out":
            return
        leaver = GroupMetadata(member_id=member_id)
        answer = await self._coordinator.ask(leave_group(options.group_id, leaver))
        rows = (answer, *getattr(answer, "members", ()))
        error = next((one.error_code for one in rows if one.error_code), ErrorCode.none)
        if error != ErrorCode.none:
            raise refused("LeaveGroup", options.group_id, ErrorCode(error))


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
    members: Mapping[str, tuple[str | None, bytes]], partitions: Mapping[str, int]
) -> dict[str, bytes]:
    """Share each topic's partitions among the members that subscribe to it: consecutive ones, and
    one more to the first members where they don't come out even.

    Args:
        members: Member id -> its instance id, where it has one, and its subscription. Static
            members come first, by their instance ids.
        partitions: Topic -> how many it has.

    Returns:
        Member id -> its assignment.
    """
    shares: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    wanted = {name: read_subscription(data) for name, (_, data) in members.items()}
    ordered = sorted(members, key=lambda name: (members[name][0] is None, members[name][0], name))
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
