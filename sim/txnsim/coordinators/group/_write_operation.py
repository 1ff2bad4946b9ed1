"""The one way in which a group coordinator writes: decide, admit, decide again, append, replicate.

Requests, timers and answers of other coordinators hand a ``WriteOperation`` to ``WriteOperations``.
A decision changes nothing; it takes effect as its records are appended. So it can be made again
where the group may have changed: after a break of a long decision, and after the log has let an
append wait. Between the last decision and its append nothing else runs.

Counterpart in Kafka: scheduleWriteOperation of CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from txnsim.coordinators.group._writer import GroupWriter, encode_records
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.offset_commands import CommittingProducer
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.loop_turns import Pace
from txnsim.wire.codec import run_to_end

DECISIONS_MAX: Final = 3
"""How often a decision is tried in slices before it is made without a break."""


class GroupDecision(Protocol):
    """A decision of a coordinator, with its records."""

    @property
    def records(self) -> Sequence[GroupRecord]: ...


DecisionT = TypeVar("DecisionT", bound=GroupDecision)


class WriteOperation(msgspec.Struct, Generic[DecisionT], frozen=True, kw_only=True):
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


Decided = tuple[DecisionT, Sequence[GroupRecord]]
"""A decision and its records, which may be encoded already."""


class DecisionLines:
    """Serialises decisions about a group that are made in slices. Timers that come due meanwhile
    wait for them, as a real coordinator handles a shard's events one by one (CoordinatorRuntime).
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def line_of(self, partition: int, group_id: str) -> asyncio.Lock:
        """The lock of a group."""
        lock = self._locks.get((partition, group_id))
        if lock is None:
            lock = self._locks[partition, group_id] = asyncio.Lock()
        return lock

    def is_busy(self, partition: int, group_id: str) -> bool:
        """Whether a decision about the group is being made in slices."""
        lock = self._locks.get((partition, group_id))
        return lock is not None and lock.locked()


class WriteOperations(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Carries out the write operations of a broker's group coordinator."""

    writer: GroupWriter
    image: Callable[[], ClusterImage]
    refuse_moved: Callable[[GroupShard], Rejection | None]
    """The rejection if this broker coordinates the groups of a shard no more."""
    lines: DecisionLines

    async def write(
        self, shard: GroupShard, operation: WriteOperation[DecisionT], pace: Pace | None = None
    ) -> DecisionT | Rejection:
        """Write, and wait until it is replicated.

        Args:
            shard: The group's shard.
            operation: What to write.
            pace: Of a large decision, which is made in slices; None for a small one.

        Returns:
            The decision that has taken effect; or why there is none. An error of the replication
            is a rejection, too, although the decision has taken effect.
        """
        appended = await self.append(shard, operation, pace)
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
        self, shard: GroupShard, operation: WriteOperation[DecisionT], pace: Pace | None = None
    ) -> tuple[DecisionT, int | None] | Rejection:
        """Write, for callers that need not know when it is replicated; arguments as for ``write``.

        Returns:
            The decision that has taken effect, with the offset of its last record; or why there is
            none.
        """
        if pace is None:
            decided = _with_records(run_to_end(operation.decide()))
        else:
            decided = await self._decide_in_slices(shard, operation, pace)
        if isinstance(decided, Rejection):
            return decided
        admission = self.writer.admit(shard, operation.producer) if decided[1] else None
        if admission is not None:
            refusal = await admission or self.refuse_moved(shard)
            if refusal is not None:
                return refusal
            decided = _with_records(run_to_end(operation.decide()))
            if isinstance(decided, Rejection):
                return decided
        last_offset = operation.append(*decided)
        return last_offset if isinstance(last_offset, Rejection) else (decided[0], last_offset)

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

    async def _decide_in_slices(
        self, shard: GroupShard, operation: WriteOperation[DecisionT], pace: Pace
    ) -> Decided[DecisionT] | Rejection:
        """Decide, and encode the records if there were breaks, so that the append takes no longer
        than a small one.
        """

        def read_inputs() -> tuple[object, ...]:
            group = shard.groups.get(operation.group_id)
            return shard.end_offset, self.image().offset, group, operation.other_inputs()

        async with self.lines.line_of(shard.partition, operation.group_id):
            for _ in range(DECISIONS_MAX):
                inputs_before, pace.has_rested = read_inputs(), False
                decided = _with_records(await pace.run(operation.decide()))
                if pace.has_rested and not isinstance(decided, Rejection):
                    decision, records = decided
                    await pace.yield_turn()
                    decided = decision, await pace.run(encode_records(records))
                    await pace.yield_turn()
                refusal = self.refuse_moved(shard)
                if refusal is not None:
                    return refusal
                if not pace.has_rested or read_inputs() == inputs_before:
                    return decided
            return _with_records(run_to_end(operation.decide()))


def _with_records(decision: DecisionT | Rejection) -> Decided[DecisionT] | Rejection:
    return decision if isinstance(decision, Rejection) else (decision, decision.records)


def in_one_step(
    decide: Callable[[], DecisionT | Rejection], element_count: int = 0
) -> Callable[[], Generator[int, None, DecisionT | Rejection]]:
    """A decision that is made without a break, followed by a break for that many elements."""

    def steps() -> Generator[int, None, DecisionT | Rejection]:
        decision = decide()
        yield element_count
        return decision

    return steps


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
