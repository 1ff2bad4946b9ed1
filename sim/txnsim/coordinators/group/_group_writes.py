"""Writes of a group coordinator: each is a ``WriteOperation`` on a shard of groups, and is answered
once it is replicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from typing import Protocol, TypeVar

import msgspec

from txnsim.coordinators._write_operation import DecisionLocks, WriteOperation
from txnsim.coordinators.group._writer import GroupWriter, coordinator_error, encode_records
from txnsim.errors import Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.log_format import EncodedRecords
from txnsim.group.offset_commands import CommittingProducer
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.loop_turns import Pace
from txnsim.types import TopicPartition


class GroupDecision(Protocol):
    """A decision about groups."""

    @property
    def records(self) -> Sequence[GroupRecord]:
        """What is to be appended, in log order."""


DecisionT = TypeVar("DecisionT", bound=GroupDecision)


class GroupWrites(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the writes of a broker's group coordinator need."""

    writer: GroupWriter
    image: Callable[[], ClusterImage]
    refuse_moved: Callable[[GroupShard], Rejection | None]
    """The rejection if this broker coordinates the groups of a shard no more."""
    lines: DecisionLocks


def _no_other_inputs() -> None:
    return None


class AppliedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records whose effect memory has already, as for members of classic groups."""

    records: Sequence[GroupRecord]


class GroupWrite(WriteOperation[DecisionT, EncodedRecords], frozen=True, kw_only=True):
    """One write about a group. What is prepared are the records, encoded."""

    writes: GroupWrites
    shard: GroupShard
    group_id: str
    """Empty for several groups."""
    read_other_inputs: Callable[[], object] = _no_other_inputs
    """What the decision depends on besides the group, its log and the metadata."""
    producer: CommittingProducer | None = None
    """The producer whose transaction the records belong to."""

    async def run_and_wait(self, pace: Pace | None = None) -> DecisionT | Rejection:
        """Write, and wait until it is replicated; ``pace`` as for ``run``.

        Returns:
            The decision that has taken effect; or why there is none. An error of the replication
            is a rejection, too, although the decision has taken effect.
        """
        append_outcome = await self.run(pace)
        if isinstance(append_outcome, Rejection):
            return append_outcome
        decision, last_offset = append_outcome
        if last_offset is None:
            return decision
        error = await self.writes.writer.wait_for_commit(self.shard, last_offset)
        if error:
            return Rejection(error=error, reason="the records could not be replicated in time")
        return self.writes.refuse_moved(self.shard) or decision

    def prepare(self, decision: DecisionT) -> Generator[int, None, EncodedRecords]:
        return encode_records(decision.records)

    def read_inputs(self) -> object:
        shard = self.shard
        image_offset = self.writes.image().offset
        group = shard.groups.get(self.group_id)
        return shard.end_offset, image_offset, group, self.read_other_inputs()

    def admit(self) -> Awaitable[Rejection | None] | None:
        pending_admission = self.writes.writer.log.admit(
            self.shard.partition,
            lambda topic_partition: _subject(self.producer, topic_partition),
        )
        return None if pending_admission is None else _as_coordinator_error(pending_admission)

    def refuse_moved(self) -> Rejection | None:
        return self.writes.refuse_moved(self.shard)

    def lock(self) -> asyncio.Lock:
        return self.writes.lines.lock_of(self.shard.partition, self.group_id)


def _subject(producer: CommittingProducer | None, topic_partition: TopicPartition) -> Subject:
    if producer is None:
        return Subject(partitions=(topic_partition,))
    return Subject(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        partitions=(topic_partition,),
    )


async def _as_coordinator_error(pending_admission: Awaitable[Rejection | None]) -> Rejection | None:
    refusal = await pending_admission
    if refusal is None:
        return None
    return Rejection(error=coordinator_error(refusal.error), reason=refusal.reason)


class Subscribing(Protocol):
    """A heartbeat that may name topics to subscribe to."""

    @property
    def topic_names(self) -> Collection[str] | None: ...


SubscribingT = TypeVar("SubscribingT", bound=Subscribing)


async def with_names(command: SubscribingT, pace: Pace) -> SubscribingT:
    """The heartbeat with its topic names as a set; a very large set is built in a step of its
    own.
    """
    await pace.yield_turn()
    new_command = msgspec.structs.replace(command, topic_names=frozenset(command.topic_names or ()))  # type: ignore[type-var] # structs
    await pace.yield_turn()
    return new_command
