"""A group of the consumer protocol without a shell: heartbeats in, answers out, records applied."""

from __future__ import annotations

import uuid
from itertools import count
from typing import Final

from txnsim.errors import Rejection
from txnsim.group.commands import (
    ConsumerEffect,
    ConsumerHeartbeat,
    ConsumerOutcome,
    HeartbeatReply,
    ResolveRegexes,
    RunAssignor,
)
from txnsim.group.consumer import ConsumerProtocol, ConsumerSettings
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.consumer_records import ConsumerRecord, EpochDeleted, TopicIdPartition
from txnsim.group.consumer_regex import matching_topics, resolve
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.metadata.image import ClusterImage, PartitionImage, TopicImage
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.types import BrokerId, LeaderEpoch
from txnsim.wire.codec import run_to_end

GROUP: Final = "g"
NOW: Final = 1_000_000


def topic_id(name: str) -> uuid.UUID:
    """The topic id for a name, the same in all tests."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def image(offset: int = 1, **topics: int) -> ClusterImage:
    """Topics by name with their numbers of partitions."""
    partition = PartitionImage(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        replicas=(BrokerId(1),),
        isr=(BrokerId(1),),
    )
    return ClusterImage(
        cluster_id="c",
        offset=offset,
        topics={
            topic_name: TopicImage(
                name=topic_name, topic_id=topic_id(topic_name), partitions=(partition,) * partitions
            )
            for topic_name, partitions in topics.items()
        },
        topic_names={topic_id(topic_name): topic_name for topic_name in topics},
    )


def parts(name: str, *numbers: int) -> frozenset[TopicIdPartition]:
    return frozenset((topic_id(name), number) for number in numbers)


class ConsumerDriver:
    """Drives one group. The effects of its decisions are kept in ``effects``."""

    def __init__(
        self, topics: ClusterImage | None = None, *, rules: Rules = LATEST_RULES, **settings: object
    ) -> None:
        numbers = count(1)
        self.image = image(t=4) if topics is None else topics
        self.protocol = ConsumerProtocol(
            settings=ConsumerSettings(**settings),  # type: ignore[arg-type]
            release_rules=rules,
            intervals_of=lambda _: self.intervals,
            new_id=lambda: f"id{next(numbers)}",
        )
        self.intervals = GroupIntervals(45_000, 5_000, 0)
        self.group = ConsumerGroup(GROUP, rules)
        self.now_ms = NOW
        self.effects: list[ConsumerEffect] = []
        self.log: list[ConsumerRecord] = []

    def beat(self, member_id: str, epoch: int, **more_fields: object) -> HeartbeatReply | Rejection:
        """Send a heartbeat that stays or leaves."""
        values = {"client_id": "c", "client_host": "/h", **more_fields}
        command = ConsumerHeartbeat(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            **values,  # type: ignore[arg-type]
        )
        rejection = self.protocol.check(command)
        if rejection is not None:
            return rejection
        if epoch < 0:
            return self.take(self.protocol.leave(self.group, command, image=self.image))
        return self.take(
            self.protocol.heartbeat(self.group, command, image=self.image, now_ms=self.now_ms)
        )

    def join(
        self, member_id: str, *topics: str, **more_fields: object
    ) -> HeartbeatReply | Rejection:
        """Send a heartbeat that joins."""
        names = {} if "topic_regex" in more_fields and not topics else {"topic_names": topics}
        values = {
            "rebalance_timeout_ms": 60_000,
            "owned_partitions": frozenset(),
            **names,
            **more_fields,
        }
        return self.beat(member_id, 0, **values)

    def require_reply(self, reply: HeartbeatReply | Rejection) -> HeartbeatReply:
        """The reply, which must not be a rejection."""
        assert isinstance(reply, HeartbeatReply), reply
        return reply

    def take(self, outcome: ConsumerOutcome | Rejection) -> HeartbeatReply | Rejection:
        """Apply the records of a decision, as a shard does."""
        if isinstance(outcome, Rejection):
            return outcome
        self.effects += outcome.effects
        self.write(outcome.records)
        return outcome.reply or HeartbeatReply(member_id="", member_epoch=0)

    def write(self, records: tuple[ConsumerRecord, ...]) -> None:
        """Append records to the log, and apply them to the group."""
        for record in records:
            self.log.append(record)
            if not isinstance(record, EpochDeleted):
                self.group.apply(record)

    def look_up(self) -> None:
        for effect in self.effects:
            if isinstance(effect, ResolveRegexes):
                steps = matching_topics(
                    effect.regexes, image=self.image, may_describe=effect.may_describe
                )
                matches = run_to_end(steps)
                self.write(resolve(self.group, matches, image=self.image, now_ms=self.now_ms))
        self.effects = [effect for effect in self.effects if not isinstance(effect, ResolveRegexes)]

    def run_assignors(self) -> int:
        """Run the assignors that heartbeats have asked for; returns how many came to something."""
        runs = [effect for effect in self.effects if isinstance(effect, RunAssignor)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, RunAssignor)]
        record_count_before = len(self.log)
        written_count = 0
        for run in runs:
            self.take(
                self.protocol.run_assignor(self.group, run, image=self.image, now_ms=self.now_ms)
            )
            written_count += len(self.log) > record_count_before
            record_count_before = len(self.log)
        return written_count

    def replay_log(self) -> ConsumerGroup:
        """A group that is built from the log alone."""
        group = ConsumerGroup(GROUP)
        for record in self.log:
            if not isinstance(record, EpochDeleted):
                group.apply(record)
        return group
