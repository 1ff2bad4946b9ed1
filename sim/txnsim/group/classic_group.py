"""A classic group: its members, and queries about them, without decisions.

Membership lives in memory; the log has only the last assigned generation. Members keep the order in
which they joined: the first one in it becomes leader.

Counterpart in Kafka: ClassicGroup, ClassicGroupMember.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.group.commands import JoinGroup, Waiter
from txnsim.group.consumer_records import TopicIdPartition
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.records import ClassicGroupDeleted, ClassicGroupStored, StoredMember
from txnsim.group.state import (
    CONSUMER_PROTOCOL_TYPE,
    VALID_PREVIOUS_STATES,
    ClassicGroupState,
    ExpiryBase,
    GroupType,
    expiry_from_commit,
)
from txnsim.group.subscription import TopicsReader

Protocols = tuple[tuple[str, bytes], ...]

_State = ClassicGroupState
_ACTIVE = (_State.STABLE, _State.PREPARING_REBALANCE, _State.COMPLETING_REBALANCE)


class ClassicMember(msgspec.Struct, kw_only=True, eq=False):
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Waiter | None = None
    awaiting_sync: Waiter | None = None
    is_new: bool = False

    @classmethod
    def from_join(cls, command: JoinGroup, member_id: str) -> ClassicMember:
        return cls(
            member_id=member_id,
            group_instance_id=command.group_instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            session_timeout_ms=command.session_timeout_ms,
            protocol_type=command.protocol_type,
            protocols=command.protocols,
        )

    @property
    def is_alive_by_waiting(self) -> bool:
        """Whether it counts as alive because it waits for an answer, and so can't be expected to
        send heartbeats; a new member must have sent a request before (hasSatisfiedHeartbeat).
        """
        if self.is_new:
            return False
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol: str | None) -> bytes:
        for protocol_name, metadata in self.protocols:
            if protocol_name == protocol:
                return metadata
        raise InvariantViolation(f"{self.member_id} does not support the protocol {protocol}")

    def vote(self, candidates: frozenset[str]) -> str:
        """The protocol that it prefers among those that all members support."""
        for protocol_name, _ in self.protocols:
            if protocol_name in candidates:
                return protocol_name
        raise InvariantViolation(f"{self.member_id} supports none of {sorted(candidates)}")


class ClassicGroup:
    """A group whose leader, a member, assigns partitions."""

    type: Final = GroupType.CLASSIC

    def __init__(
        self, group_id: str, *, state: ClassicGroupState = _State.EMPTY, now_ms: int
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = _State.DEAD
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.state_timestamp_ms: int | None = now_ms
        self.members: dict[str, ClassicMember] = {}
        self.awaiting_join_count = 0
        """Number of members whose JoinGroup waits."""
        self._supporter_counts: Counter[str] = Counter()
        """Protocol -> number of members that support it. A member that names it twice counts
        twice, as in Kafka.
        """
        self._topics = TopicsReader()
        self.not_upgradable: Rejection | None = None
        """Why the group can't change its protocol, as determined for its current members."""
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending_join: dict[str, None] = {}
        """Ids that were handed out but not used yet (KIP-394)."""
        self.pending_sync: dict[str, None] = {}
        self.has_added_member = False
        """Whether a member joined while the first rebalance was delayed."""
        self._subscribed_topics: frozenset[str] | None = None

    @classmethod
    def from_record(cls, record: ClassicGroupStored) -> ClassicGroup:
        """The group as a coordinator loads it from the log; no member waits, no session runs
        yet.
        """
        state = _State.STABLE if record.members else _State.EMPTY
        group = cls(record.group_id, state=state, now_ms=record.state_timestamp_ms)
        if record.state_timestamp_ms == -1:
            group.state_timestamp_ms = None
        group.generation = record.generation
        group.protocol_type = record.protocol_type or None
        group.protocol = record.protocol
        group.leader = record.leader
        for stored_member in record.members:
            group.add(_loaded_member(stored_member, record), waiter=None)
        group._subscribed_topics = group._computed_subscription()
        return group

    # Group

    @property
    def state_name(self) -> str:
        """The state's name on the wire."""
        return self.state.value

    @property
    def protocol_type_or_empty(self) -> str:
        """The protocol type, "" if no member has given one."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members and no rebalance in progress."""
        return self.state is _State.EMPTY

    def check_member(self, member_id: str, group_instance_id: str | None) -> Rejection | None:
        """Check that this is a member; an instance id belongs to one member at a time (KIP-345)."""
        if group_instance_id is not None:
            holding_member_id = self.static_members.get(group_instance_id)
            if holding_member_id is None:
                return self._unknown_member(member_id)
            if holding_member_id != member_id:
                return Rejection(
                    error=ErrorCode.fenced_instance_id,
                    reason=f"instance {group_instance_id} of {self.group_id} is {holding_member_id}"
                    f" now, not {member_id}",
                )
        return None if member_id in self.members else self._unknown_member(member_id)

    def check_offset_commit(self, command: CommitOffsets) -> Rejection | None:
        """The error if this member may not commit offsets (ClassicGroup.validateOffsetCommit)."""
        if self.state is _State.DEAD:
            return self._dead_rejection(ErrorCode.coordinator_not_available)
        generation, instance_id = command.generation, command.group_instance_id
        if generation < 0 and self.state is _State.EMPTY:
            return None
        if generation >= 0 or command.member_id or instance_id is not None:
            refusal = self.check_member(command.member_id, instance_id)
            if refusal is not None:
                return refusal
            if generation != self.generation:
                return self.wrong_generation(generation)
        elif not command.is_transactional:
            return self._unknown_member(command.member_id)
        if not command.is_transactional and self.state is _State.COMPLETING_REBALANCE:
            return Rejection(
                error=ErrorCode.rebalance_in_progress,
                reason=f"{self.group_id} waits for the assignment of generation {self.generation}",
            )
        return None

    def check_position(
        self,
        command: CommitOffsets,  # noqa: ARG002 - a member of the generation may commit all positions
        partition: TopicIdPartition,  # noqa: ARG002 - the same
    ) -> Rejection | None:
        """None: classic groups check a commit as a whole."""
        return None

    def check_offset_fetch(
        self,
        command: FetchOffsets,  # noqa: ARG002 - any client may read a classic group's positions
    ) -> Rejection | None:
        """The error if this member may not fetch offsets (ClassicGroup.validateOffsetFetch)."""
        return (
            self._dead_rejection(ErrorCode.group_id_not_found)
            if self.state is _State.DEAD
            else None
        )

    def check_offset_delete(self) -> Rejection | None:
        """ClassicGroup.validateOffsetDelete: in a group with members allowed only if subscriptions
        are known.
        """
        if self.state is _State.DEAD:
            return self._dead_rejection(ErrorCode.group_id_not_found)
        if self.state in _ACTIVE and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return self._not_empty_rejection()
        return None

    def check_delete(self) -> Rejection | None:
        """The error if the group can't be deleted (ClassicGroup.validateDeleteGroup)."""
        if self.state is _State.DEAD:
            return self._dead_rejection(ErrorCode.group_id_not_found)
        return self._not_empty_rejection() if self.state in _ACTIVE else None

    def tombstones(self) -> tuple[ClassicGroupDeleted, ...]:
        """The one record that deletes the group."""
        return (ClassicGroupDeleted(group_id=self.group_id),)

    def has_subscriber(self, topic: str) -> bool:
        """Whether a member consumes the topic; True for any topic if a consumer's subscription
        can't be read.
        """
        if self._subscribed_topics is not None:
            return topic in self._subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def offsets_expire_from(self) -> ExpiryBase | None:
        """ClassicGroup.offsetExpirationCondition (KIP-211)."""
        if self.protocol_type is None:
            return expiry_from_commit
        if self.state is _State.EMPTY:
            since_ms = self.state_timestamp_ms
            return expiry_from_commit if since_ms is None else lambda _: since_ms
        if (
            self.protocol_type == CONSUMER_PROTOCOL_TYPE
            and self._subscribed_topics is not None
            and self.state is _State.STABLE
        ):
            return expiry_from_commit
        return None

    # Members

    def add(self, member: ClassicMember, *, waiter: Waiter | None) -> None:
        """Add a member; the first sets the protocol type and becomes the leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type or None
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.await_join(member, waiter)
        self.pending_join.pop(member.member_id, None)

    def await_join(self, member: ClassicMember, waiter: Waiter | None) -> None:
        """Let the member's JoinGroup wait for the next generation, or stop waiting."""
        self.awaiting_join_count += (waiter is not None) - (member.awaiting_join is not None)
        member.awaiting_join = waiter

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def assign(self, member: ClassicMember, assignment: bytes) -> None:
        """Set the member's assignment."""
        member.assignment = assignment
        self.not_upgradable = None

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member, or an id that was handed out; the next member becomes leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            self.awaiting_join_count -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        return member

    def replace_static(self, old_id: str, new_id: str) -> tuple[ClassicMember, ClassicMember]:
        """Change a static member's id; returns the member before and after."""
        old_member = self.members.pop(old_id)
        self.awaiting_join_count -= old_member.awaiting_join is not None
        self.not_upgradable = None
        assert old_member.group_instance_id is not None
        new_member = msgspec.structs.replace(
            old_member, member_id=new_id, awaiting_join=None, awaiting_sync=None, is_new=False
        )
        self.members[new_id] = new_member
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[old_member.group_instance_id] = new_id
        return old_member, new_member

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has rejoined, else elect the first member that has; False if none
        has.
        """
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader = member.member_id
                return True
        return False

    @property
    def all_are_joining(self) -> bool:
        """Whether every member waits for the next generation, and no other one is about to join."""
        return not self.pending_join and self.awaiting_join_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols can join."""
        protocol_names = [protocol_name for protocol_name, _ in protocols]
        if self.state is _State.EMPTY:
            return bool(protocol_type) and bool(protocol_names)
        if self.protocol_type != protocol_type:
            return False
        member_count = len(self.members)
        return any(
            self._supporter_counts[protocol_name] == member_count > 0
            for protocol_name in protocol_names
        )

    @property
    def has_common_protocol(self) -> bool:
        """Whether all members support a protocol. A member that names one twice counts twice."""
        return bool(self._common_protocols())

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all support; of equals the first
        in the list.
        """
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda protocol_name: votes[protocol_name])

    def adopt_protocol(self, protocol: str) -> None:
        """Set the protocol of members that come from a group of the consumer protocol."""
        self.protocol = protocol
        self._subscribed_topics = self._computed_subscription()

    # Moves

    @property
    def can_rebalance(self) -> bool:
        """Whether the group may move to PreparingRebalance."""
        return self.state in VALID_PREVIOUS_STATES[_State.PREPARING_REBALANCE]

    def move_to(self, state: ClassicGroupState, *, now_ms: int) -> None:
        """Change the state.

        Raises:
            InvariantViolation: The table does not allow the transition.
        """
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise InvariantViolation(
                f"group {self.group_id}: {self.state.value} -> {state.value} is no move"
            )
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def next_generation(self, *, now_ms: int) -> None:
        """Make the current members a generation; without members the group becomes empty.

        Members without a protocol that all support stay as they are, and wait: one of them has
        named its protocol twice, and a real broker trips over that.
        """
        self.generation += 1
        if self.members and not self.has_common_protocol:
            return
        self.protocol = self.select_protocol() if self.members else None
        self._subscribed_topics = self._computed_subscription()
        self.move_to(_State.COMPLETING_REBALANCE if self.members else _State.EMPTY, now_ms=now_ms)

    def to_record(self, assignment_by_member: dict[str, bytes] | None = None) -> ClassicGroupStored:
        """The record for the log.

        Args:
            assignment_by_member: Assignments by member id; by default the current ones.
        """
        protocol = self.protocol
        return ClassicGroupStored(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.leader,
            state_timestamp_ms=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=tuple(
                StoredMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(protocol),
                    assignment=member.assignment
                    if assignment_by_member is None
                    else assignment_by_member.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    # Refusals

    def wrong_generation(self, generation: int) -> Rejection:
        """The rejection of a request with another generation."""
        return Rejection(
            error=ErrorCode.illegal_generation,
            reason=f"group {self.group_id} is at generation {self.generation}, not {generation}",
        )

    def _unknown_member(self, member_id: str) -> Rejection:
        return Rejection(
            error=ErrorCode.unknown_member_id,
            reason=f"'{member_id}' is no member of group {self.group_id}",
        )

    def _dead_rejection(self, error: ErrorCode) -> Rejection:
        return Rejection(error=error, reason=f"group {self.group_id} is dead")

    def _not_empty_rejection(self) -> Rejection:
        return Rejection(
            error=ErrorCode.non_empty_group,
            reason=f"group {self.group_id} has {len(self.members)} members",
        )

    # Parts

    def _common_protocols(self) -> frozenset[str]:
        """Protocols that all members support."""
        member_count = len(self.members)
        return frozenset(
            protocol_name
            for protocol_name, supporter_count in self._supporter_counts.items()
            if supporter_count == member_count > 0
        )

    def _count_protocols(self, member: ClassicMember, count_change: int) -> None:
        self.not_upgradable = None
        for protocol_name, _ in member.protocols:
            supporter_count = self._supporter_counts[protocol_name] + count_change
            if supporter_count:
                self._supporter_counts[protocol_name] = supporter_count
            else:
                del self._supporter_counts[protocol_name]

    def _computed_subscription(self) -> frozenset[str] | None:
        self.not_upgradable = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return self._topics.topics_of_all(
            member.metadata(self.protocol) for member in self.members.values()
        )


def _loaded_member(stored_member: StoredMember, record: ClassicGroupStored) -> ClassicMember:
    return ClassicMember(
        member_id=stored_member.member_id,
        group_instance_id=stored_member.group_instance_id,
        client_id=stored_member.client_id,
        client_host=stored_member.client_host,
        # Values of before 0.10.1 have no rebalance timeout.
        rebalance_timeout_ms=stored_member.session_timeout_ms
        if stored_member.rebalance_timeout_ms == -1
        else stored_member.rebalance_timeout_ms,
        session_timeout_ms=stored_member.session_timeout_ms,
        protocol_type=record.protocol_type,
        protocols=((record.protocol or "", stored_member.subscription),),
        assignment=stored_member.assignment,
    )
