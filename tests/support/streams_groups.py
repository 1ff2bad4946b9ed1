"""A streams group without a shell: heartbeats in, answers out, records applied by a shard."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tests.support.consumer_groups import GROUP, NOW, image
from txnsim.errors import Rejection
from txnsim.group.commands import TimerCancelled, TimerKind, TimerSet
from txnsim.group.log_format import decode_record, encode_record
from txnsim.group.shard import GroupShard
from txnsim.group.streams._records import StreamsRecord
from txnsim.group.streams.commands import StreamsHeartbeat, StreamsOutcome, StreamsReply
from txnsim.group.streams.group import StreamsGroup
from txnsim.group.streams.protocol import StreamsProtocol
from txnsim.group.streams.tasks import Task, Tasks
from txnsim.group.streams.topology import Subtopology, TopicInfo, TopologyStatus
from txnsim.metadata.group_configs import GroupIntervals, StreamsConfigs
from txnsim.metadata.image import ClusterImage
from txnsim.wire.codec import run_to_end

COUNTING: Final = (
    Subtopology(
        subtopology_id="0",
        source_topics=("words",),
        repartition_sink_topics=("by-word",),
    ),
    Subtopology(
        subtopology_id="1",
        repartition_source_topics=(TopicInfo(name="by-word"),),
        state_changelog_topics=(
            TopicInfo(name="counts", topic_configs=(("cleanup.policy", "compact"),)),
        ),
    ),
)
"""The topology of a word count: words are repartitioned, then counted in a store."""
READY: Final = {"words": 2, "by_word": 2, "counts": 2}


def counting_image(offset: int = 1, **topics: int) -> ClusterImage:
    """An image with the topics of the word count; ``by_word`` stands for ``by-word``."""
    partition_counts = {
        topic_name.replace("_", "-"): topic_number
        for topic_name, topic_number in (topics or READY).items()
    }
    return image(offset, **partition_counts)


def tasks(*names: str) -> frozenset[Task]:
    """Tasks by name: ``"0_1"`` is the second task of subtopology 0."""
    task_ids = set()
    for name in names:
        subtopology, _, index = name.rpartition("_")
        task_ids.add((subtopology, int(index)))
    return frozenset(task_ids)


def configs(**changes: Any) -> StreamsConfigs:
    """Configs without delays."""
    defaults = StreamsConfigs(
        intervals=GroupIntervals(45_000, 5_000, 0),
        task_offset_interval_ms=60_000,
        acceptable_recovery_lag=10_000,
        warmup_tasks_max=2,
        initial_delay_ms=0,
        assignor=(("num.standby.replicas", "0"),),
    )
    return msgspec.structs.replace(defaults, **changes)


class StreamsDriver:
    """Drives one streams group. The effects of its decisions are kept."""

    def __init__(self, topics: ClusterImage | None = None, *, max_size: int = 100) -> None:
        self.image = counting_image() if topics is None else topics
        self.configs = configs()
        self.protocol = StreamsProtocol(max_size=max_size, configs_of=lambda _: self.configs)
        self.shard = GroupShard(partition=0, coordinator_epoch=0)
        self.now_ms = NOW
        self.effects: list[TimerSet | TimerCancelled] = []
        self.is_delayed = False
        self.records: list[StreamsRecord] = []
        """Records of the last decision."""
        self.log: list[StreamsRecord] = []

    @property
    def group(self) -> StreamsGroup:
        """The group, or a new one if there is none."""
        group = self.shard.groups.get(GROUP) or StreamsGroup(GROUP)
        assert isinstance(group, StreamsGroup)
        return group

    def send(self, member_id: str, epoch: int, **request_fields: Any) -> StreamsReply | Rejection:
        """Send a heartbeat. By default each member is in a process of its own."""
        command = heartbeat(member_id, epoch, **request_fields)
        rejection = self.protocol.check(command)
        if rejection is not None:
            return rejection
        group = self.group
        if epoch < 0:
            return self.take(group, self.protocol.leave(group, command))
        steps = self.protocol.heartbeat(
            group,
            command,
            image=self.image,
            now_ms=self.now_ms,
            is_delayed=self.is_delayed,
            is_known=GROUP in self.shard.groups,
        )
        return self.take(group, run_to_end(steps))

    def send_ok(self, member_id: str, epoch: int, **request_fields: Any) -> StreamsReply:
        """The answer to a heartbeat that must not be refused."""
        reply = self.send(member_id, epoch, **request_fields)
        assert isinstance(reply, StreamsReply), reply
        return reply

    def join(self, member_id: str, **request_fields: Any) -> StreamsReply:
        """Let a member join."""
        return self.send_ok(member_id, 0, **request_fields)

    def settle(self, *member_ids: str) -> None:
        """Let members report their tasks until nothing changes."""
        for _ in range(10):
            log_size = len(self.log)
            for member_id in member_ids:
                member = self.group.members[member_id]
                self.send_ok(member_id, member.member_epoch, owned=member.assigned.tasks)
            if len(self.log) == log_size:
                return
        raise AssertionError("it does not settle")

    def take(
        self, group: StreamsGroup, outcome: StreamsOutcome | Rejection
    ) -> StreamsReply | Rejection:
        """Apply the records and effects of a decision; return the reply."""
        if isinstance(outcome, Rejection):
            self.records = []
            return outcome
        if outcome.memory is not None and self.shard.groups.get(GROUP) is group:
            group.memory = outcome.memory
        self.records = list(outcome.records)
        for record in outcome.records:
            key, record_value = encode_record(record)
            decoded = decode_record(key, record_value)
            assert decoded == record, "what the log has is what was decided"
            self.shard.apply(record, record_offset=len(self.log))
            self.log.append(record)
        self.effects += outcome.effects
        if outcome.refusal is not None:
            return outcome.refusal
        return outcome.reply or StreamsReply(member_id="", member_epoch=-1)

    def fire(self, timer_kind: TimerKind, member_id: str = "") -> None:
        """Fire the last timer of this kind."""
        timers = [
            effect
            for effect in self.effects
            if isinstance(effect, TimerSet)
            and effect.kind is timer_kind
            and effect.member_id == member_id
        ]
        if timer_kind is TimerKind.ASSIGNMENT:
            self.is_delayed = False
            self.take(
                self.group, run_to_end(self.protocol.end_delay(self.group, now_ms=self.now_ms))
            )
        else:
            self.take(self.group, self.protocol.remove_late_member(self.group, timers[-1]))

    def reload_group(self) -> StreamsGroup:
        """The group as a coordinator has it after loading the log."""
        shard = GroupShard(partition=0, coordinator_epoch=1)
        for offset, record in enumerate(self.log):
            decoded = decode_record(*encode_record(record))
            assert decoded is not None
            shard.apply(decoded, record_offset=offset)
        group = shard.groups.get(GROUP) or StreamsGroup(GROUP)
        assert isinstance(group, StreamsGroup)
        return group


def heartbeat(
    member_id: str, epoch: int, *, owned: Tasks | None = None, **request_fields: Any
) -> StreamsHeartbeat:
    """A heartbeat; with epoch 0 it has all fields that joining needs."""
    base: dict[str, Any] = {}
    if epoch == 0:
        owned = owned or Tasks()
        base = {
            "rebalance_timeout_ms": 1_000,
            "topology": (0, COUNTING),
            "process_id": f"p-{member_id}",
            "client_tags": {},
        }
    if owned is not None:
        base |= {
            "active": owned.active,
            "standby": owned.standby,
            "warmup": owned.warmup,
        }
    return StreamsHeartbeat(
        **{
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": epoch,
            "client_id": "c",
            "client_host": "/h",
            **base,
            **request_fields,
        }
    )


def codes(reply: StreamsReply) -> list[TopologyStatus]:
    """The statuses of an answer."""
    return [status for status, _ in reply.statuses]


def have_same_log(group: StreamsGroup, other_group: StreamsGroup) -> bool:
    """Whether two groups have the same state in the log."""

    def stored_fields(group: StreamsGroup) -> dict[str, Any]:
        return {
            attribute_name: attribute_value
            for attribute_name, attribute_value in vars(group).items()
            if attribute_name != "memory"
        }

    return stored_fields(group) == stored_fields(other_group)
