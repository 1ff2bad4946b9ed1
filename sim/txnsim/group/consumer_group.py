"""A group of the consumer protocol (KIP-848): members, epochs, target assignment.

The coordinator assigns. A change of subscriptions or topics raises the *group epoch*; a *target
assignment* is computed for it; each member moves to its target step by step, and revokes partitions
before others get them; its *member epoch* is the target's once it has done so.

All state changes through ``apply`` with records, both in operation and when loading. Counterpart in
Kafka: ConsumerGroup, ConsumerGroupMember, GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from enum import IntEnum
from typing import Final, assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._member_counts import MemberTally
from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    CurrentAssignmentDeleted,
    CurrentAssignmentStored,
    EpochDeleted,
    EpochStored,
    RegexDeleted,
    RegexStored,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochStored,
    TargetStored,
    TopicIdPartition,
    TopicsDeleted,
)
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.state import ExpiryBase, GroupType, expiry_from_commit
from txnsim.releases.rules import LATEST_RULES, Rules

NEVER_MS: Final = -(2**62)
LEFT_EPOCH: Final = -1
"""Member epoch of a member that leaves."""
LEFT_FOR_A_WHILE_EPOCH: Final = -2
"""Member epoch of a static member that will return."""

OFFSET_COMMIT_WITH_EPOCHS: Final = 9
"""First version of OffsetCommit for members of this protocol."""

NO_MEMBER_WITH_EPOCH: Final = Rejection(
    error=ErrorCode.unknown_server_error, reason="OffsetFetch has an epoch and no member."
)
"""A real broker looks up the member null, and fails."""


class MemberState(IntEnum):
    """A member's progress towards its target; the value is the number in the log."""

    STABLE = 0
    """The member owns all partitions of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has not confirmed a requested revocation yet."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not released yet."""
    UNKNOWN = 127
    """A state of a later release."""


class ConsumerMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the group. ``assigned`` and ``pending_revocation`` are never changed in place."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    assigned: Mapping[TopicIdPartition, int] = {}
    """Partition -> epoch at which it was assigned."""
    pending_revocation: Mapping[TopicIdPartition, int] = {}

    @property
    def is_stable(self) -> bool:
        """Whether the member owns all partitions of its epoch."""
        return self.state is MemberState.STABLE

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member speaks the classic protocol within the group."""
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has reached its target of the epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


class ResolvedRegex(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that matched a regular expression when it was looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def first_epoch(release_rules: Rules) -> int:
    """The epoch of a group (of members or of shares) that nobody has joined."""
    return 1 if release_rules.consumer_groups_begin_at_one else 0


class ConsumerGroup:
    """A group whose coordinator assigns partitions."""

    type: Final = GroupType.CONSUMER

    def __init__(self, group_id: str, release_rules: Rules = LATEST_RULES) -> None:
        self.group_id = group_id
        self._rules = release_rules
        self.first_epoch: Final = first_epoch(release_rules)
        self.epoch = self.first_epoch
        """No member has this epoch before the first target assignment (ModernGroup)."""
        self.metadata_hash = 0
        self.assignment_epoch = self.epoch
        """A new group needs no target: the first one is computed once the topics of a member are
        known (TargetAssignmentMetadata.INITIAL).
        """
        self.assigned_at_ms = 0
        """When the last target assignment was computed; 0 if none counts."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, frozenset[TopicIdPartition]] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.tally = MemberTally()
        self._recounts_members = True
        self._last_lookup: tuple[int, int] | None = None
        self._owner_by_partition: dict[TopicIdPartition, str] = {}
        """Partition -> the member that owns it or has not released it yet."""
        self.refreshed_version = -1
        """Metadata offset at which subscriptions were last compared with the existing topics; only
        in memory.
        """

    # Group

    @property
    def state_name(self) -> str:
        """The state's name on the wire, derived from the epochs."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled_count = self.tally.settled_count(self.assignment_epoch)
        return "Stable" if settled_count == len(self.members) else "Reconciling"

    @property
    def protocol_type_or_empty(self) -> str:
        """Always ``consumer``."""
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_offset_commit(self, command: CommitOffsets) -> Rejection | None:
        """ConsumerGroup.validateOffsetCommit, without the check of partitions of an older epoch
        (KIP-1251).
        """
        generation, member_id = command.generation, command.member_id
        if generation < 0 and not self.members:
            return None
        has_no_member = generation == -1 and not member_id and command.group_instance_id is None
        if command.is_transactional and has_no_member:
            return None
        member = self.members.get(member_id)
        if member is None:
            return self.unknown_member(member_id)
        needs_epochs = not command.is_transactional and not member.uses_classic_protocol
        if needs_epochs and command.api_version < OFFSET_COMMIT_WITH_EPOCHS:
            return Rejection(
                error=ErrorCode.unsupported_version,
                reason="OffsetCommit version 9 or above must be used by members using the "
                "consumer group protocol",
            )
        is_behind = generation < member.member_epoch and self._rules.members_behind_may_commit
        if is_behind or generation == member.member_epoch:
            return None
        return self._stale_epoch(member, generation)

    def check_position(
        self, command: CommitOffsets, partition: TopicIdPartition
    ) -> Rejection | None:
        """Whether a member may commit this position. A member at an older epoch may commit only for
        partitions that it has owned since then, which distinguishes a slow member from a zombie
        (KIP-1251).
        """
        member = self.members.get(command.member_id)
        if member is None or command.generation == member.member_epoch:
            return None
        since_epoch = member.assigned.get(partition)
        if since_epoch is not None and since_epoch <= command.generation:
            return None
        return self._stale_epoch(member, command.generation)

    def check_offset_fetch(self, command: FetchOffsets) -> Rejection | None:
        """The error if this member may not fetch offsets (ConsumerGroup.validateOffsetFetch)."""
        member_id, member_epoch = command.member_id, command.member_epoch
        if member_id is None:
            return None if member_epoch < 0 else NO_MEMBER_WITH_EPOCH
        member = self.members.get(member_id)
        if member is None:
            return self.unknown_member(member_id)
        return (
            None if member.member_epoch == member_epoch else self._stale_epoch(member, member_epoch)
        )

    def check_offset_delete(self) -> Rejection | None:
        """None: subscriptions are known, so that is decided topic by topic."""
        return None

    def check_delete(self) -> Rejection | None:
        """The error if the group can't be deleted (ConsumerGroup.validateDeleteGroup)."""
        if not self.members:
            return None
        return Rejection(
            error=ErrorCode.non_empty_group,
            reason=f"group {self.group_id} has {len(self.members)} members",
        )

    def tombstones(self) -> tuple[ConsumerRecord, ...]:
        """All tombstones in deletion order (ConsumerGroup.createGroupTombstoneRecords)."""
        group_id = self.group_id
        records: list[ConsumerRecord] = []
        for member_id in self.members:
            records.append(CurrentAssignmentDeleted(group_id=group_id, member_id=member_id))
        for member_id in self.members:
            records.append(TargetDeleted(group_id=group_id, member_id=member_id))
        records.append(TargetEpochDeleted(group_id=group_id))
        for member_id in self.members:
            records.append(SubscriptionDeleted(group_id=group_id, member_id=member_id))
        for regex in self.resolved:
            records.append(RegexDeleted(group_id=group_id, regex=regex))
        records.append(TopicsDeleted(group_id=group_id))
        records.append(EpochDeleted(group_id=group_id))
        return tuple(records)

    def has_subscriber(self, topic: str) -> bool:
        """Whether a member consumes the topic, by name or by regular expression."""
        return self.tally.has_subscriber(topic)

    def offsets_expire_from(self) -> ExpiryBase | None:
        """Positions of topics that no member consumes expire, counted from their commit."""
        return expiry_from_commit

    # Members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id or "")
        return None if member_id is None else self.members.get(member_id)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of topics that a member subscribes to."""
        resolved_regex = self.resolved.get(member.topic_regex or "")
        return (
            member.topic_names
            if resolved_regex is None
            else member.topic_names | resolved_regex.topics
        )

    def owner_of(self, partition: TopicIdPartition) -> str | None:
        """The member that owns the partition, or has not released it yet."""
        return self._owner_by_partition.get(partition)

    def regex_user_count(self, regex: str) -> int:
        """Number of members that subscribe by this regular expression."""
        return self.tally.regexes.get(regex, 0)

    def last_lookup(self) -> tuple[int, int]:
        """Newest timestamp and metadata offset of the resolved regular expressions."""
        if self._last_lookup is None:
            resolved_regexes = self.resolved.values()
            self._last_lookup = (
                max(
                    (resolved_regex.timestamp_ms for resolved_regex in resolved_regexes),
                    default=NEVER_MS,
                ),
                max((resolved_regex.version for resolved_regex in resolved_regexes), default=-1),
            )
        return self._last_lookup

    def preferred_assignor(self, *, updated_member: ConsumerMember | None = None) -> str | None:
        """The assignor with the most votes, with ``updated_member`` instead of its old state; of
        equals the choice of the member that joined first.
        """
        votes = self.tally.assignors
        if updated_member is not None:
            old_member = self.members.get(updated_member.member_id)
            old_assignor = None if old_member is None else old_member.server_assignor
            if old_assignor != updated_member.server_assignor:
                votes = Counter(votes)
                votes.subtract(assignor for assignor in (old_assignor,) if assignor is not None)
                votes.update(
                    assignor
                    for assignor in (updated_member.server_assignor,)
                    if assignor is not None
                )
        most_votes = max(votes.values(), default=0)
        favourite_assignors = [
            assignor for assignor, count in votes.items() if count == most_votes > 0
        ]
        if len(favourite_assignors) <= 1:
            return favourite_assignors[0] if favourite_assignors else None
        return next(
            member.server_assignor
            for member in self.members_with(updated_member)
            if member.server_assignor in favourite_assignors
        )

    def members_with(self, updated_member: ConsumerMember | None) -> Iterator[ConsumerMember]:
        """Members in order of joining, with ``updated_member`` instead of its old state."""
        if updated_member is None:
            yield from self.members.values()
            return
        if updated_member.member_id not in self.members:
            yield from self.members.values()
            yield updated_member
            return
        for member in self.members.values():
            yield updated_member if member.member_id == updated_member.member_id else member

    def with_records(
        self, records: Iterable[ConsumerRecord], *, recounts: bool = True
    ) -> ConsumerGroup:
        """A copy of the group with the records applied; ``recounts`` is False if they leave the
        counts unchanged, such as those of a member whose id changes.
        """
        changed_group = copy(self)
        changed_group.members = dict(self.members)
        changed_group.static_members = dict(self.static_members)
        changed_group.target = dict(self.target)
        changed_group.resolved = dict(self.resolved)
        changed_group._owner_by_partition = dict(self._owner_by_partition)
        changed_group._recounts_members = recounts
        if recounts:
            changed_group.tally = self.tally.copy()
        for record in records:
            changed_group.apply(record)
        return changed_group

    # Replay

    def apply(self, record: ConsumerRecord) -> None:
        """Apply a record that is in the log."""
        match record:
            case SubscriptionStored():
                self._update_member(
                    _with_subscription(self._member_or_new(record.member_id), record)
                )
            case SubscriptionDeleted():
                self._remove_member(record.member_id)
            case EpochStored():
                self.epoch, self.metadata_hash = record.group_epoch, record.metadata_hash
            case TargetEpochStored():
                self.assignment_epoch, self.assigned_at_ms = (
                    record.assignment_epoch,
                    record.timestamp_ms,
                )
            case TargetEpochDeleted():
                self.assignment_epoch, self.assigned_at_ms = -1, 0
            case TargetStored():
                self.target[record.member_id] = frozenset(record.partitions)
            case TargetDeleted():
                self.target.pop(record.member_id, None)
            case CurrentAssignmentStored():
                self._update_member(_with_assignment(self._member_or_new(record.member_id), record))
            case CurrentAssignmentDeleted():
                if record.member_id in self.members:
                    self._update_member(_without_assignment(self.members[record.member_id]))
            case RegexStored():
                resolved_regex = self.resolved[record.regex] = ResolvedRegex(
                    topics=frozenset(record.topics),
                    version=record.version,
                    timestamp_ms=record.timestamp_ms,
                )
                self.tally.count_resolved(record.regex, resolved_regex.topics)
                self._last_lookup = None
            case RegexDeleted():
                self.resolved.pop(record.regex, None)
                self.tally.count_resolved(record.regex, frozenset())
                self._last_lookup = None
            case EpochDeleted() | TopicsDeleted():
                pass  # the shard lets go of the group
            case _:
                assert_never(record)

    def _member_or_new(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id=member_id)

    def _update_member(self, member: ConsumerMember) -> None:
        old_member = self.members.get(member.member_id)
        if old_member is not None:
            self._release_partitions(old_member)
        topic_names = self.tally.shared_names(member.topic_names)
        if topic_names is not member.topic_names:
            member = msgspec.structs.replace(member, topic_names=topic_names)
        if self._recounts_members:
            self.tally.recount_member(old_member, member)
        self.members[member.member_id] = member
        for partition in (*member.assigned, *member.pending_revocation):
            self._owner_by_partition[partition] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if self._recounts_members:
            self.tally.recount_member(member, None)
        self._release_partitions(member)
        if self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]

    def _release_partitions(self, member: ConsumerMember) -> None:
        for partition in (*member.assigned, *member.pending_revocation):
            if self._owner_by_partition.get(partition) == member.member_id:
                del self._owner_by_partition[partition]

    # Refusals

    def unknown_member(self, member_id: str) -> Rejection:
        return Rejection(
            error=ErrorCode.unknown_member_id,
            reason=f"Member {member_id} is not a member of group {self.group_id}.",
        )

    def _stale_epoch(self, member: ConsumerMember, named_epoch: int) -> Rejection:
        error = ErrorCode.stale_member_epoch
        if member.uses_classic_protocol:
            error = ErrorCode.illegal_generation
        return Rejection(
            error=error,
            reason=f"member {member.member_id} is at epoch {member.member_epoch}, not"
            f" {named_epoch}",
        )


def _with_subscription(member: ConsumerMember, record: SubscriptionStored) -> ConsumerMember:
    return msgspec.structs.replace(
        member,
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        topic_names=frozenset(record.topic_names),
        topic_regex=record.topic_regex,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.server_assignor,
        classic=record.classic,
    )


def _with_assignment(member: ConsumerMember, record: CurrentAssignmentStored) -> ConsumerMember:
    is_known_state = record.state in MemberState.__members__.values()
    return msgspec.structs.replace(
        member,
        member_epoch=record.member_epoch,
        previous_member_epoch=record.previous_member_epoch,
        state=MemberState(record.state) if is_known_state else MemberState.UNKNOWN,
        assigned={(topic, index): epoch for topic, index, epoch in record.assigned},
        pending_revocation={
            (topic, index): epoch for topic, index, epoch in record.pending_revocation
        },
    )


def _without_assignment(member: ConsumerMember) -> ConsumerMember:
    """The member after the tombstones of its assignment, before its own tombstone."""
    return msgspec.structs.replace(
        member,
        member_epoch=LEFT_EPOCH,
        previous_member_epoch=LEFT_EPOCH,
        assigned={},
        pending_revocation={},
    )
