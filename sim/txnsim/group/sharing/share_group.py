"""A share group (KIP-932): members, epochs, target assignment, and initialised partitions.

Members share partitions, so none is revoked before another member gets it: a member reaches its
target as soon as it learns it. A partition is assigned once its share state is initialised at the
share coordinator.

All state changes through ``apply`` with records, both in operation and when loading. Counterpart in
Kafka: ShareGroup, ShareGroupMember, GroupMetadataManager.replay.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar, Final, assert_never

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._member_counts import MemberTally
from txnsim.group.consumer_group import LEFT_EPOCH, first_epoch
from txnsim.group.consumer_records import (
    DeletingTopic,
    ShareCurrentAssignmentDeleted,
    ShareCurrentAssignmentStored,
    ShareEpochDeleted,
    ShareEpochStored,
    ShareMemberDeleted,
    ShareMemberStored,
    ShareRecord,
    ShareTargetDeleted,
    ShareTargetEpochDeleted,
    ShareTargetEpochStored,
    ShareTargetStored,
    ShareTopic,
    ShareTopicsDeleted,
    ShareTopicsStored,
    TopicIdPartition,
)
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.state import ExpiryBase, GroupType
from txnsim.releases.rules import LATEST_RULES, Rules


class ShareGroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinator keeps of a member: subscription, epochs, assigned partitions."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: frozenset[TopicIdPartition] = frozenset()

    # What members of other groups are counted by besides.
    topic_regex: ClassVar[None] = None
    server_assignor: ClassVar[None] = None
    classic: ClassVar[None] = None
    is_stable: ClassVar[bool] = False


class ShareGroup:
    """A group whose members share partitions."""

    type: Final = GroupType.SHARE
    protocol_type_or_empty: Final = "share"

    def __init__(self, group_id: str, release_rules: Rules = LATEST_RULES) -> None:
        self.group_id = group_id
        self.rules = release_rules
        self.epoch = first_epoch(release_rules)
        self.metadata_hash = 0
        self.assignment_epoch = self.epoch
        self.assigned_at_ms = 0
        """When the last target assignment was computed; 0 if none counts."""
        self.members: dict[str, ShareGroupMember] = {}
        self.tally = MemberTally()
        self.target: dict[str, frozenset[TopicIdPartition]] = {}
        self.knows_topics = False
        """Whether a record of initialised topics was written, even an empty one."""
        self.initializing: Mapping[uuid.UUID, ShareTopic] = {}
        self.initialized: Mapping[uuid.UUID, ShareTopic] = {}
        self.deleting: Mapping[uuid.UUID, DeletingTopic] = {}
        self.refreshed_version = -1
        """Metadata offset at which subscriptions were last compared with the existing topics; only
        in memory.
        """
        self.topics_stored_at_ms = 0
        """When ``initializing`` was last written or loaded; only in memory."""

    @property
    def state_name(self) -> str:
        """The state's name on the wire."""
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    # Requests of other groups

    def check_offset_commit(
        self,
        command: CommitOffsets,  # noqa: ARG002 - whoever asks
    ) -> Rejection | None:
        """A share group has no positions (ShareGroup.validateOffsetCommit)."""
        return self._not_consumer_group()

    def check_position(
        self,
        command: CommitOffsets,  # noqa: ARG002 - whoever asks
        partition: TopicIdPartition,  # noqa: ARG002 - the same
    ) -> Rejection | None:
        """Refuse: a share group has no positions."""
        return self._not_consumer_group()

    def check_offset_fetch(
        self,
        command: FetchOffsets,  # noqa: ARG002 - whoever asks
    ) -> Rejection | None:
        """Refuse: a share group has no positions."""
        return self._not_consumer_group()

    def check_offset_delete(self) -> Rejection | None:
        """Refuse: a share group has no positions."""
        return self._not_consumer_group()

    def _not_consumer_group(self) -> Rejection:
        return Rejection(
            error=ErrorCode.group_id_not_found,
            reason=f"Group {self.group_id} is not a consumer group.",
        )

    def check_delete(self) -> Rejection | None:
        """The error if the group can't be deleted (ShareGroup.validateDeleteGroup)."""
        if not self.members:
            return None
        return Rejection(error=ErrorCode.non_empty_group, reason="The group is not empty.")

    def has_subscriber(self, topic: str) -> bool:
        """Whether a member consumes the topic."""
        return self.tally.has_subscriber(topic)

    def offsets_expire_from(self) -> ExpiryBase | None:
        """Refuse: a share group has no positions."""
        return None

    def tombstones(self) -> tuple[ShareRecord, ...]:
        """All tombstones in deletion order (ShareGroup.createGroupTombstoneRecords)."""
        group_id = self.group_id
        member_ids = tuple(self.members)
        return (
            *(
                ShareCurrentAssignmentDeleted(group_id=group_id, member_id=member_id)
                for member_id in member_ids
            ),
            *(
                ShareTargetDeleted(group_id=group_id, member_id=member_id)
                for member_id in member_ids
            ),
            ShareTargetEpochDeleted(group_id=group_id),
            *(
                ShareMemberDeleted(group_id=group_id, member_id=member_id)
                for member_id in member_ids
            ),
            ShareTopicsDeleted(group_id=group_id),
            ShareEpochDeleted(group_id=group_id),
        )

    def unknown_member(self, member_id: str) -> Rejection:
        return Rejection(
            error=ErrorCode.unknown_member_id,
            reason=f"Member {member_id} is not a member of group {self.group_id}.",
        )

    # Replay

    def restart_initializing(self, *, now_ms: int) -> None:
        """Restart the wait for initialising partitions, after a load."""
        self.topics_stored_at_ms = now_ms

    def apply(self, record: ShareRecord) -> None:
        """Apply a record that is in the log."""
        match record:
            case ShareMemberStored():
                self._update_member(
                    record.member_id,
                    rack_id=record.rack_id,
                    client_id=record.client_id,
                    client_host=record.client_host,
                    topic_names=self.tally.shared_names(frozenset(record.topic_names)),
                )
            case ShareMemberDeleted():
                member = self.members.pop(record.member_id, None)
                if member is not None:
                    self.tally.recount_member(member, None)
            case ShareEpochStored():
                self.epoch, self.metadata_hash = record.group_epoch, record.metadata_hash
            case ShareTargetEpochStored():
                self.assignment_epoch = record.assignment_epoch
                self.assigned_at_ms = record.timestamp_ms
            case ShareTargetEpochDeleted():
                self.assignment_epoch, self.assigned_at_ms = -1, 0
            case ShareTargetStored():
                self.target[record.member_id] = frozenset(record.partitions)
            case ShareTargetDeleted():
                self.target.pop(record.member_id, None)
            case ShareCurrentAssignmentStored():
                self._update_member(
                    record.member_id,
                    member_epoch=record.member_epoch,
                    previous_member_epoch=record.previous_member_epoch,
                    assigned=frozenset(record.partitions),
                )
            case ShareCurrentAssignmentDeleted():
                if record.member_id in self.members:
                    self._update_member(
                        record.member_id,
                        member_epoch=LEFT_EPOCH,
                        previous_member_epoch=LEFT_EPOCH,
                        assigned=frozenset(),
                    )
            case ShareTopicsStored():
                self.initializing = {topic.topic_id: topic for topic in record.initializing}
                self.initialized = {topic.topic_id: topic for topic in record.initialized}
                self.deleting = {topic.topic_id: topic for topic in record.deleting}
                self.topics_stored_at_ms, self.knows_topics = record.stored_at_ms, True
            case ShareTopicsDeleted():
                self.initializing, self.initialized, self.deleting = {}, {}, {}
                self.knows_topics = False
            case ShareEpochDeleted():
                pass  # the shard lets go of the group
            case _:
                assert_never(record)

    def _update_member(self, member_id: str, **changes: object) -> None:
        old_member = self.members.get(member_id)
        member = old_member or ShareGroupMember(member_id=member_id)
        self.members[member_id] = new_member = msgspec.structs.replace(member, **changes)
        self.tally.recount_member(old_member, new_member)
