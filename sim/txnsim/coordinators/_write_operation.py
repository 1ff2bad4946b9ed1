"""The one way in which a coordinator of groups or share state writes: decide, admit, decide again,
append.

A decision changes nothing; it takes effect as its records are appended. So it can be made again
where the state may have changed: after a break of a long decision, and after the log has let an
append wait. Between the last decision and its append nothing else runs.

Counterpart in Kafka: CoordinatorWriteEvent of CoordinatorRuntime, to which scheduleWriteOperation
hands a lambda. (The coordinator of transactions has a writer of its own, as in Kafka.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from txnsim.errors import Rejection
from txnsim.runtime.loop_turns import Pace
from txnsim.wire.codec import run_to_end

DECISIONS_MAX: Final = 3
"""How often a decision is tried in slices before it is made without a break."""


class Decision(Protocol):
    """A decision of a coordinator."""

    @property
    def records(self) -> Sequence[object]:
        """What is to be appended; empty if nothing is."""


DecisionT = TypeVar("DecisionT", bound=Decision)
PreparedT = TypeVar("PreparedT")


class WriteOperation(msgspec.Struct, Generic[DecisionT, PreparedT], frozen=True, kw_only=True):
    """One write to a shard."""

    decide: Callable[[], Generator[int, None, DecisionT | Rejection]]
    """Makes the decision by the present state; each step yields its number of elements."""
    prepare: Callable[[DecisionT], Generator[int, None, PreparedT]]
    """Computes in slices what a large append needs, so that it takes no longer than a small one:
    encoded records, the state after them.
    """
    append: Callable[[DecisionT, PreparedT | None], int | Rejection | None]
    """Appends the records and carries out the decision's effects, without a break; returns the
    offset of the last record, None if there is none, or the log's error. What is prepared is None
    for a small decision.
    """
    read_inputs: Callable[[], object]
    """What the decision depends on. If that changes in a break, it is made again."""
    admit: Callable[[], Awaitable[Rejection | None] | None]
    """Asks whether a fault holds or refuses the append; None means go on."""
    refuse_moved: Callable[[], Rejection | None]
    """The rejection if this broker coordinates the shard no more."""
    lock: Callable[[], asyncio.Lock]
    """Serialises decisions in slices about the same group or share partition."""

    async def run(self, pace: Pace | None = None) -> tuple[DecisionT, int | None] | Rejection:
        """Write.

        Args:
            pace: Of a large decision, which is made in slices; None for a small one.

        Returns:
            The decision that has taken effect, with the offset of its last record; or why there is
            none.
        """
        prepared: PreparedT | None = None
        if pace is None:
            decision = run_to_end(self.decide())
        else:
            decision, prepared = await self._decide_in_slices(pace)
        if isinstance(decision, Rejection):
            return decision
        admission = self.admit() if decision.records else None
        if admission is not None:
            refusal = await admission or self.refuse_moved()
            if refusal is not None:
                return refusal
            decision, prepared = run_to_end(self.decide()), None
            if isinstance(decision, Rejection):
                return decision
        last_offset = self.append(decision, prepared)
        return last_offset if isinstance(last_offset, Rejection) else (decision, last_offset)

    async def _decide_in_slices(self, pace: Pace) -> tuple[DecisionT | Rejection, PreparedT | None]:
        """Decide, and prepare the append if there were breaks."""
        async with self.lock():
            for _ in range(DECISIONS_MAX):
                inputs_before, pace.has_rested = self.read_inputs(), False
                decision = await pace.run(self.decide())
                prepared: PreparedT | None = None
                if pace.has_rested and not isinstance(decision, Rejection):
                    await pace.yield_turn()
                    prepared = await pace.run(self.prepare(decision))
                    await pace.yield_turn()
                refusal = self.refuse_moved()
                if refusal is not None:
                    return refusal, None
                if not pace.has_rested or self.read_inputs() == inputs_before:
                    return decision, prepared
            return run_to_end(self.decide()), None


class DecisionLines:
    """Locks for decisions that are made in slices, by partition and group or share partition.
    Timers that come due meanwhile wait for them, as a real coordinator handles a shard's events one
    by one (CoordinatorRuntime).
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def line_of(self, partition: int, key: str) -> asyncio.Lock:
        """The lock of a group or share partition."""
        lock = self._locks.get((partition, key))
        if lock is None:
            lock = self._locks[partition, key] = asyncio.Lock()
        return lock

    def is_busy(self, partition: int, key: str) -> bool:
        """Whether a decision about it is being made in slices."""
        lock = self._locks.get((partition, key))
        return lock is not None and lock.locked()


def in_one_step(
    decide: Callable[[], DecisionT | Rejection], element_count: int = 0
) -> Callable[[], Generator[int, None, DecisionT | Rejection]]:
    """A decision that is made without a break, followed by a break for that many elements."""

    def steps() -> Generator[int, None, DecisionT | Rejection]:
        decision = decide()
        yield element_count
        return decision

    return steps
