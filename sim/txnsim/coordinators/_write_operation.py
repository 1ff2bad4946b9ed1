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
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from txnsim.errors import Rejection
from txnsim.runtime.loop_turns import Pace

DECISIONS_MAX: Final = 3
"""How often a decision is tried in slices before it is made without a break."""


class WriteDecision(Protocol):
    """A decision of a coordinator."""

    @property
    def records(self) -> Sequence[object]:
        """What is to be appended; empty if nothing is."""


DecisionT = TypeVar("DecisionT", bound=WriteDecision)
PreparedT = TypeVar("PreparedT")


class WriteOperation(msgspec.Struct, Generic[DecisionT, PreparedT], frozen=True, kw_only=True):
    """One write to a shard; a coordinator's own class says what of its shard it takes."""

    decide: Callable[[], DecisionT | Rejection]
    """Makes the decision by the present state."""
    append: Callable[[DecisionT, Sequence[Any] | PreparedT], int | Rejection | None]
    """Appends the records of the decision, or what is prepared of a large one, and carries out its
    effects, without a break; returns the offset of the last record, None if there is none, or the
    log's error.
    """
    decide_in_steps: Callable[[], Generator[int, None, DecisionT | Rejection]] | None = None
    """Makes a large decision; each step yields its number of elements. None if that takes one step,
    of ``element_count``.
    """
    element_count: int = 0

    def prepare(self, decision: DecisionT) -> Generator[int, None, PreparedT]:
        """Compute in slices what a large append needs, so that it takes no longer than a small one:
        encoded records, the state after them.
        """
        raise NotImplementedError

    def read_inputs(self) -> object:
        """What the decision depends on. If that changes in a break, it is made again."""
        raise NotImplementedError

    def admit(self) -> Awaitable[Rejection | None] | None:
        """Ask whether a fault holds or refuses the append; None means go on."""
        raise NotImplementedError

    def refuse_moved(self) -> Rejection | None:
        """The rejection if this broker coordinates the shard no more."""
        raise NotImplementedError

    def lock(self) -> asyncio.Lock:
        """Serialises decisions in slices about the same group or share partition."""
        raise NotImplementedError

    async def run(self, pace: Pace | None = None) -> tuple[DecisionT, int | None] | Rejection:
        """Write.

        Args:
            pace: Of a large decision, which is made in slices; None for a small one.

        Returns:
            The decision that has taken effect, with the offset of its last record; or why there is
            none.
        """
        prepared_value: PreparedT | None = None
        if pace is None:
            decision = self.decide()
        else:
            decision, prepared_value = await self._decide_in_slices(pace)
        if isinstance(decision, Rejection):
            return decision
        records = decision.records
        pending_admission = self.admit() if records else None
        if pending_admission is not None:
            refusal = await pending_admission or self.refuse_moved()
            if refusal is not None:
                return refusal
            decision, prepared_value = self.decide(), None
            if isinstance(decision, Rejection):
                return decision
            records = decision.records
        last_offset = self.append(decision, records if prepared_value is None else prepared_value)
        return last_offset if isinstance(last_offset, Rejection) else (decision, last_offset)

    async def _decide_in_slices(self, pace: Pace) -> tuple[DecisionT | Rejection, PreparedT | None]:
        """Decide, and prepare the append if there were breaks."""
        async with self.lock():
            for _ in range(DECISIONS_MAX):
                inputs_before, pace.has_rested = self.read_inputs(), False
                decision = await pace.run(self._steps())
                prepared_value: PreparedT | None = None
                if pace.has_rested and not isinstance(decision, Rejection):
                    await pace.yield_turn()
                    prepared_value = await pace.run(self.prepare(decision))
                    await pace.yield_turn()
                refusal = self.refuse_moved()
                if refusal is not None:
                    return refusal, None
                if not pace.has_rested or self.read_inputs() == inputs_before:
                    return decision, prepared_value
            return self.decide(), None

    def _steps(self) -> Generator[int, None, DecisionT | Rejection]:
        if self.decide_in_steps is not None:
            return (yield from self.decide_in_steps())
        decision = self.decide()
        yield self.element_count
        return decision


class DecisionLocks:
    """Locks for decisions that are made in slices, by partition and group or share partition.
    Timers that come due meanwhile wait for them, as a real coordinator handles a shard's events one
    by one (CoordinatorRuntime).
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def lock_of(self, partition_index: int, key: str) -> asyncio.Lock:
        """The lock of a group or share partition."""
        lock = self._locks.get((partition_index, key))
        if lock is None:
            lock = self._locks[partition_index, key] = asyncio.Lock()
        return lock

    def is_busy(self, partition_index: int, key: str) -> bool:
        """Whether a decision about it is being made in slices."""
        lock = self._locks.get((partition_index, key))
        return lock is not None and lock.locked()
