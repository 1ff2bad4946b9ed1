"""States of a classic group, the transitions between them, and the requests that all groups
support.

``VALID_PREVIOUS_STATES`` is the table of transitions; tests and diagrams are generated from it.

Counterpart in Kafka: ClassicGroupState, Group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

from txnsim.errors import Rejection
from txnsim.group.consumer_records import TopicIdPartition
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.records import GroupRecord

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""Protocol type of consumers, whose subscriptions a coordinator can parse."""


class GroupType(Enum):
    """The protocol of a group; the value is its name on the wire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class ClassicGroupState(Enum):
    """The state of a classic group; the value is its name on the wire."""

    EMPTY = "Empty"
    """No members, possibly positions. JoinGroup of a new member: PreparingRebalance. SyncGroup,
    Heartbeat: UNKNOWN_MEMBER_ID. OffsetCommit without a member: accepted. Expires with its last
    offset.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to rejoin. JoinGroup: waits. SyncGroup, Heartbeat: REBALANCE_IN_PROGRESS.
    OffsetCommit of the old generation: accepted. Leaves when all have joined, or the rebalance
    timeout has passed: CompletingRebalance, or Empty without members.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is formed, the leader's assignment is awaited. SyncGroup: waits. OffsetCommit:
    REBALANCE_IN_PROGRESS; in a transaction it is accepted. Leaves to Stable with the assignment, to
    PreparingRebalance when a member joins, leaves or fails.
    """

    STABLE = "Stable"
    """SyncGroup: the assignment. Heartbeat: no error. JoinGroup of the leader, of a new member or
    with other protocols, and LeaveGroup: PreparingRebalance.
    """

    DEAD = "Dead"
    """Deleted. Every request: COORDINATOR_NOT_AVAILABLE or GROUP_ID_NOT_FOUND."""


_State = ClassicGroupState

VALID_PREVIOUS_STATES: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    _State.EMPTY: frozenset({_State.PREPARING_REBALANCE}),
    _State.PREPARING_REBALANCE: frozenset(
        {_State.STABLE, _State.COMPLETING_REBALANCE, _State.EMPTY}
    ),
    _State.COMPLETING_REBALANCE: frozenset({_State.PREPARING_REBALANCE}),
    _State.STABLE: frozenset({_State.COMPLETING_REBALANCE}),
    _State.DEAD: frozenset(
        {
            _State.STABLE,
            _State.PREPARING_REBALANCE,
            _State.COMPLETING_REBALANCE,
            _State.EMPTY,
            _State.DEAD,
        }
    ),
}
"""State -> states that may precede it (ClassicGroupState.validPreviousStates)."""


ExpiryBase = Callable[[int], int]
"""Commit timestamp of a position in ms -> the time its retention counts from."""


def expiry_from_commit(commit_timestamp_ms: int) -> int:
    """The time from which a position's retention counts: that of its commit."""
    return commit_timestamp_ms


class Group(Protocol):
    """The queries of requests about offsets, and of administrators, to a group of any protocol."""

    group_id: str

    @property
    def type(self) -> GroupType:
        """The protocol that the group speaks."""

    @property
    def state_name(self) -> str:
        """The name of the group's state in requests and answers."""

    @property
    def protocol_type_or_empty(self) -> str:
        """The protocol type that ListGroups shows."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def check_offset_commit(self, command: CommitOffsets) -> Rejection | None:
        """The error if this member of this generation (or member epoch) may not commit."""

    def check_position(
        self, command: CommitOffsets, partition: TopicIdPartition
    ) -> Rejection | None:
        """The error if that member may not commit this position; it fails the whole commit."""

    def check_offset_fetch(self, command: FetchOffsets) -> Rejection | None:
        """The error if this member may not read positions."""

    def check_offset_delete(self) -> Rejection | None:
        """The error if single positions can't be deleted."""

    def check_delete(self) -> Rejection | None:
        """The error if the group can't be deleted."""

    def tombstones(self) -> tuple[GroupRecord, ...]:
        """The records that delete it from the log; without those of its positions."""

    def has_subscriber(self, topic: str) -> bool:
        """Whether a member consumes the topic, as far as can be known."""

    def offsets_expire_from(self) -> ExpiryBase | None:
        """The time from which the retention of positions counts; None if they don't expire now."""
