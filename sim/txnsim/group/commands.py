"""Commands to a group coordinator about membership, and its answers: in classic groups, and in
groups of the consumer protocol (KIP-848).

Handlers have translated API versions. The shell numbers waiting requests; the answer is an effect
with that number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, InvariantViolation
from txnsim.group.consumer_records import ClassicMetadata, ConsumerRecord, TopicIdPartition
from txnsim.group.records import GroupRecord

NO_MEMBER: Final = ""
"""Member id of a client that has none yet."""

Waiter = int
"""A JoinGroup or SyncGroup that waits for its answer."""


class JoinGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Become, or stay, a member of the next generation."""

    group_id: str
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), the preferred one first."""
    member_id_required: bool = True
    """Whether a new dynamic member has to rejoin with the id that it gets (v4, KIP-394)."""
    may_describe: Callable[[str], bool] | None = None
    """Whether the member may describe a topic; None if every client may."""
    may_skip_assignment: bool = True
    """Whether the answer can tell a returning static leader to skip the assignment (v9,
    KIP-814).
    """


class JoinReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to JoinGroup."""

    error: ErrorCode = ErrorCode.none
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = NO_MEMBER
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """(member id, instance id, metadata) of every member; only for the leader."""


class SyncGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader sends all assignments."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment)."""


class SyncReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to SyncGroup."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A member says that it is alive."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


class LeaveGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Remove these members: (member id, instance id)."""

    group_id: str
    members: tuple[tuple[str, str | None], ...]


class LeaveReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to LeaveGroup: (member id, instance id, error) of each."""

    error: ErrorCode = ErrorCode.none
    members: tuple[tuple[str, str | None, ErrorCode], ...] = ()


# Effects


class AnswerWaiter(msgspec.Struct, frozen=True, kw_only=True):
    """Answer a waiting JoinGroup or SyncGroup."""

    waiter: Waiter
    reply: JoinReply | SyncReply | None
    """None: it will never be answered, because its member has sent another one, or was removed
    while it waited for an assignment. Kafka drops the request likewise.
    """


class TimerKind(Enum):
    """Events that a group waits for. In a group of the consumer protocol each timer belongs to a
    member; JOIN and SYNC exist for its classic members.
    """

    HEARTBEAT = "session"
    """A member's session ends, or the time for a new member to use its id."""
    JOIN = "join"
    """Continue a rebalance without the members that did not join."""
    SYNC = "sync"
    """Remove members that have joined and did not sync."""
    REVOCATION = "revocation"
    """A member has to have revoked partitions, or tasks in a streams group."""
    ASSIGNMENT = "assignment"
    """A streams group has waited for members; make the first assignment."""


class TimerSet(msgspec.Struct, frozen=True, kw_only=True):
    """Arm a timer, or change its time. Each (kind, group, member) has one timer."""

    kind: TimerKind
    group_id: str
    member_id: str = NO_MEMBER
    """In a classic group only for HEARTBEAT."""
    delay_ms: int
    keeps_first: bool = False
    """Whether an armed timer keeps its time."""
    generation: int = -1
    """For SYNC: the generation it was armed for; for REVOCATION: the member's epoch."""
    remaining_ms: int | None = None
    """For JOIN in a group's first rebalance: how long its delay may still be extended."""


def unexpected_timer(timer: TimerSet, group_type: str) -> InvariantViolation:
    """The error about a timer that no group of that type arms."""
    return InvariantViolation(
        f"the {group_type} group {timer.group_id} has no timer {timer.kind.name}"
    )


def session_timer(group_id: str, member_id: str, delay_ms: int) -> TimerSet:
    """Restart a member's session."""
    return TimerSet(
        kind=TimerKind.HEARTBEAT, group_id=group_id, member_id=member_id, delay_ms=delay_ms
    )


class TimerCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """Disarm a timer; does nothing if it is not armed."""

    kind: TimerKind
    group_id: str
    member_id: str = NO_MEMBER


class AssignmentStored(msgspec.Struct, frozen=True, kw_only=True):
    """What to do once the leader's assignment is in the log."""

    group_id: str
    generation: int
    assignments: tuple[tuple[str, bytes], ...]


class StaticMemberStored(msgspec.Struct, frozen=True, kw_only=True):
    """What to do once a static member's new id is in the log; if the append fails, the old id is
    restored.
    """

    group_id: str
    old_member_id: str
    new_member_id: str
    old_leader: str
    old_protocols: tuple[tuple[str, bytes], ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    may_skip_assignment: bool
    waiter: Waiter


class NewGroupStored(msgspec.Struct, frozen=True, kw_only=True):
    """What to do once a new, empty group is in the log; if the append fails, the client gets the
    error, and there is no group.
    """

    group_id: str
    waiter: Waiter


class LeaveStored(msgspec.Struct, frozen=True, kw_only=True):
    """What to do once the log has it that a group's last member has left; the client gets this
    answer, or the error of the append.
    """

    waiter: Waiter
    reply: LeaveReply


AfterWrite = AssignmentStored | StaticMemberStored | NewGroupStored | LeaveStored


class RecordsToAppend(msgspec.Struct, frozen=True, kw_only=True):
    """Append these records, then call ``then``, whether they were written or not. They don't change
    the coordinator's state: that has happened already, or happens in ``then``.
    """

    records: tuple[GroupRecord, ...]
    after_write: AfterWrite | None = None


Effect = AnswerWaiter | TimerSet | TimerCancelled | RecordsToAppend


MayDescribe = Callable[[str], bool] | None
"""Whether a client may describe a topic; None if every client may."""


class ConsumerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Join, stay, change the subscription, report owned partitions, or leave; None means
    unchanged.
    """

    group_id: str
    member_id: str
    member_epoch: int
    """0: join; -1: leave; -2: static member leaves for a while."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: Collection[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned_partitions: frozenset[TopicIdPartition] | None = None
    client_id: str
    client_host: str
    member_id_required: bool = True
    """Whether clients must choose their id themselves (v1)."""
    may_describe: MayDescribe = None
    """Topics that the member may not describe don't match a regular expression."""
    classic: ClassicMetadata | None = None
    """The metadata of a classic member that joins with JoinGroup."""


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a heartbeat."""

    member_id: str
    member_epoch: int
    assignment: tuple[TopicIdPartition, ...] | None = None
    """Sorted; None means unchanged."""
    heartbeat_interval_ms: int = 0


class ResolveRegexes(msgspec.Struct, frozen=True, kw_only=True):
    """Look up the topics of regular expressions, after this heartbeat."""

    regexes: tuple[str, ...]
    may_describe: MayDescribe = None
    """The rights of the member whose heartbeat caused it."""


class RunAssignor(msgspec.Struct, frozen=True, kw_only=True):
    """Compute the targets of a group's members, after this heartbeat."""

    group_epoch: int
    """The epoch that the targets are for; a run for an epoch that is over comes to nothing."""


ConsumerEffect = TimerSet | TimerCancelled | ResolveRegexes | RunAssignor


class ConsumerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a heartbeat, a timer or a lookup."""

    records: tuple[ConsumerRecord, ...] = ()
    reply: HeartbeatReply | None = None
    effects: tuple[ConsumerEffect, ...] = ()
    leaving_before_downgrade: frozenset[str] = frozenset()
    """If these members are removed, only classic ones remain: convert the group to a classic one
    instead of writing records.
    """
