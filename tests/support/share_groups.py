"""A share group without a shell: heartbeats in, answers out, records applied by a shard."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tests.support.consumer_groups import GROUP, NOW, image
from txnsim.errors import Rejection
from txnsim.group.commands import HeartbeatReply, TimerCancelled, TimerSet
from txnsim.group.consumer_records import ShareRecord
from txnsim.group.log_format import decode_record, encode_record
from txnsim.group.shard import GroupShard
from txnsim.group.sharing.share import (
    ShareGroupSettings,
    ShareHeartbeat,
    ShareHeartbeatOutcome,
    ShareProtocol,
)
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.sharing.share_topics import records_of_initialized, records_of_refused
from txnsim.interbroker.share_state import InitializeShareState
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.types import uuid_from


class ShareDriver:
    """Drives one share group. The effects of its decisions are kept."""

    def __init__(
        self, topics: ClusterImage | None = None, *, rules: Rules = LATEST_RULES, **settings: int
    ) -> None:
        self.image = image(t=4) if topics is None else topics
        self.intervals = GroupIntervals(45_000, 5_000, 0)
        self.protocol = ShareProtocol(
            settings=ShareGroupSettings(**settings), intervals_of=lambda _: self.intervals
        )
        self.shard = GroupShard(partition=0, coordinator_epoch=0, release_rules=rules)
        self.now_ms = NOW
        self.effects: list[TimerSet | TimerCancelled] = []
        self.initializations: list[InitializeShareState] = []
        self.records: list[ShareRecord] = []
        """Records of the last decision."""
        self.log: list[ShareRecord] = []

    @property
    def group(self) -> ShareGroup:
        """The group, or a new one if there is none."""
        group = self.shard.groups.get(GROUP) or ShareGroup(GROUP, self.shard.release_rules)
        assert isinstance(group, ShareGroup)
        return group

    def beat(
        self,
        member_id: str,
        epoch: int,
        *topics: str,
        rack_id: str | None = None,
        group_id: str = GROUP,
    ) -> HeartbeatReply | Rejection:
        """Send a heartbeat."""
        command = ShareHeartbeat(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack_id,
            topic_names=topics or None,
            client_id="c",
            client_host="/h",
        )
        rejection = self.protocol.check(command)
        if rejection is not None:
            return rejection
        if epoch < 0:
            return self.take(self.protocol.leave(self.group, command, image=self.image))
        return self.take(
            self.protocol.heartbeat(self.group, command, image=self.image, now_ms=self.now_ms)
        )

    def beat_ok(self, member_id: str, epoch: int, *topics: str) -> HeartbeatReply:
        """The answer to a heartbeat that must not be refused."""
        reply = self.beat(member_id, epoch, *topics)
        assert isinstance(reply, HeartbeatReply), reply
        return reply

    def take(self, outcome: ShareHeartbeatOutcome | Rejection) -> HeartbeatReply | Rejection:
        """Apply the records and effects of a decision; return the reply."""
        if isinstance(outcome, Rejection):
            return outcome
        self.effects = [*outcome.effects]
        self.initializations = [*outcome.states_to_initialize]
        self.write(outcome.records)
        return outcome.reply or HeartbeatReply(member_id="", member_epoch=0)

    def write(self, records: Iterable[ShareRecord]) -> None:
        """Append records to the log, and apply them to the group."""
        self.records = [*records]
        for record in self.records:
            self.log.append(record)
            self.shard.apply(record, record_offset=self.shard.end_offset)

    def partitions_to_initialize(self) -> dict[uuid.UUID, frozenset[int]]:
        """The partitions whose share state the last decision asked to initialise."""
        indexes_by_topic: dict[uuid.UUID, set[int]] = {}
        for command in self.initializations:
            indexes_by_topic.setdefault(uuid_from(command.key.topic_id), set()).add(
                command.key.partition
            )
        return {topic_id: frozenset(indexes) for topic_id, indexes in indexes_by_topic.items()}

    def complete_initialization(self) -> None:
        """Apply the records for share coordinators that initialised every partition."""
        self.write(
            records_of_initialized(
                self.group, self.partitions_to_initialize(), image=self.image, now_ms=self.now_ms
            )
        )

    def refuse_initialization(self) -> None:
        """Apply the records that follow a refused initialisation of share states."""
        self.write(
            records_of_refused(self.group, self.partitions_to_initialize(), now_ms=self.now_ms)
        )

    def reload_shard(self) -> GroupShard:
        """A shard that is rebuilt from the bytes of the log alone."""
        shard = GroupShard(partition=0, coordinator_epoch=0, release_rules=self.shard.release_rules)
        for offset, record in enumerate(self.log):
            decoded = decode_record(*encode_record(record))
            assert decoded is not None
            shard.apply(decoded, record_offset=offset)
        return shard


def state_of(group: object) -> dict[str, object]:
    """The state of a share group that comes from its log."""
    assert isinstance(group, ShareGroup)
    memory = {"refreshed_version", "topics_stored_at_ms", "tally"}
    return {
        attribute_name: attribute_value
        for attribute_name, attribute_value in vars(group).items()
        if attribute_name not in memory
    }
