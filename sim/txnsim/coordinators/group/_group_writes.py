"""Writes of a group coordinator: each is a ``WriteOperation`` on a shard of groups, and is answered
once it is replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from txnsim.coordinators._write_operation import DecisionLines, WriteOperation
from txnsim.coordinators.group._writer import GroupWriter, encode_records
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.offset_commands import CommittingProducer
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.loop_turns import Pace


class GroupDecision(Protocol):
    """A decision about groups."""

    @property
    def records(self) -> Sequence[GroupRecord]:
        """What is to be appended, in log order."""


DecisionT = TypeVar("DecisionT", bound=GroupDecision)


class GroupWrite(msgspec.Struct, Generic[DecisionT], frozen=True, kw_only=True):
    """What a coordinator is to write about one group."""

    group_id: str
    decide: Callable[[], Generator[int, None, DecisionT | Rejection]]
    """Makes the decision by the present state of the group; each step yields its number of
    elements. It may run several times, and changes nothing.
    """
    append: Callable[[DecisionT, Sequence[GroupRecord]], int | Rejection | None]
    """Appends the records of the decision and carries out its effects; returns the offset of the
    last record, None if there is none, or the log's error.
    """
    other_inputs: Callable[[], object] = lambda: None
    """What the decision depends on besides the group, its log and the metadata."""
    producer: CommittingProducer | None = None
    """The producer whose transaction the records belong to."""


class GroupWrites(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Carries out the writes of a broker's group coordinator."""

    writer: GroupWriter
    image: Callable[[], ClusterImage]
    refuse_moved: Callable[[GroupShard], Rejection | None]
    """The rejection if this broker coordinates the groups of a shard no more."""
    lines: DecisionLines

    async def write(
        self, shard: GroupShard, write: GroupWrite[DecisionT], pace: Pace | None = None
    ) -> DecisionT | Rejection:
        """Write, and wait until it is replicated.

        Args:
            shard: The group's shard.
            write: What to write.
            pace: Of a large decision, which is made in slices; None for a small one.

        Returns:
            The decision that has taken effect; or why there is none. An error of the replication
            is a rejection, too, although the decision has taken effect.
        """
        appended = await self.append(shard, write, pace)
        if isinstance(appended, Rejection):
            return appended
        decision, last_offset = appended
        if last_offset is None:
            return decision
        error = await self.writer.wait_for_commit(shard, last_offset)
        refusal = self.refuse_moved(shard)
        if refusal is None and error:
            reason = "the records could not be replicated in time"
            refusal = Rejection(error=error, reason=reason)
        return refusal or decision

    async def append(
        self, shard: GroupShard, write: GroupWrite[DecisionT], pace: Pace | None = None
    ) -> tuple[DecisionT, int | None] | Rejection:
        """Write, for callers that need not know when it is replicated; arguments as for ``write``.

        Returns:
            The decision that has taken effect, with the offset of its last record; or why there is
            none.
        """

        def read_inputs() -> tuple[object, ...]:
            group = shard.groups.get(write.group_id)
            return shard.end_offset, self.image().offset, group, write.other_inputs()

        return await WriteOperation(
            decide=write.decide,
            prepare=lambda decision: encode_records(decision.records),
            append=lambda decision, encoded_records: write.append(
                decision, decision.records if encoded_records is None else encoded_records
            ),
            read_inputs=read_inputs,
            admit=lambda: self.writer.admit(shard, write.producer),
            refuse_moved=lambda: self.refuse_moved(shard),
            lock=lambda: self.lines.line_of(shard.partition, write.group_id),
        ).run(pace)

    async def write_applied(self, shard: GroupShard, records: Sequence[GroupRecord]) -> ErrorCode:
        """Write records whose effect memory has already, as for members of classic groups, and wait
        until they are replicated.
        """
        admission = self.writer.admit(shard, None)
        if admission is not None:
            refusal = await admission or self.refuse_moved(shard)
            if refusal is not None:
                return refusal.error
        last_offset = self.writer.append(shard, records, takes_effect=False)
        if isinstance(last_offset, Rejection):
            return last_offset.error
        return await self.writer.wait_for_commit(shard, last_offset)


class Subscribing(Protocol):
    """A heartbeat that may name topics to subscribe to."""

    @property
    def topic_names(self) -> Collection[str] | None: ...


SubscribingT = TypeVar("SubscribingT", bound=Subscribing)


async def with_names(command: SubscribingT, pace: Pace) -> SubscribingT:
    """The heartbeat with its topic names as a set; a very large set is built in a step of its
    own.
    """
    topic_names = command.topic_names
    if topic_names is None:
        return command
    await pace.yield_turn()
    new_command = msgspec.structs.replace(command, topic_names=frozenset(topic_names))  # type: ignore[type-var] # structs
    await pace.yield_turn()
    return new_command
