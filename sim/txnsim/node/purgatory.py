"""Parked operations, by key and deadline: delayed fetches and produces.

A parked operation has a check, which runs whenever one of its keys is touched, and a deadline on
the monotonic clock. It is answered once: when its check succeeds, at its deadline, or by
``release_all``. It goes on after the present callback, in the same turn of the event loop: it never
interrupts the code that touches a key. Kafka's counterpart: DelayedOperationPurgatory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec

from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.runtime.tasks import Pending, ignore_end

KeyT = TypeVar("KeyT", bound=Hashable)

WIDE: Final = 500
"""An operation with more keys is not indexed by key: indexing it would block the loop too long."""
AT_ONCE: Final = 64
"""Number of operations waiting for one key that are checked without a break; more are checked in
slices.
"""


class ParkedOperation(Pending[Any], kw_only=True, eq=False):
    """One parked operation, and the future of its answer."""

    keys: Collection[Any]
    timeout_ms: float
    check: Callable[[Any], Any]
    parked_ns: int = 0
    """Time at which it began to wait, in nanoseconds of the stopwatch."""
    is_answered: bool = False

    def answer(self, *, is_done: bool) -> None:
        """Answer the operation: ``is_done`` is True if it was released, False at its deadline."""
        self.resolve(is_done)


class Purgatory(msgspec.Struct, Generic[KeyT], eq=False):
    """Operations that wait until something happens to one of their keys.

    There is no timer per operation: operations with the same timeout are in the order of their
    deadlines, and one timer watches the first.
    """

    _clock: Clock
    tasks: Tasks
    _stopwatch_ns: Callable[[], int] = lambda: 0
    parked: dict[KeyT, dict[ParkedOperation, None]] = {}
    _by_timeout: dict[float, dict[ParkedOperation, None]] = {}
    wide_operations: dict[ParkedOperation, None] = {}
    """Operations with too many keys for the index; they are looked at for every key."""
    _late_keys: dict[KeyT, bool | None] = {}
    """Keys with too many operations for one step, in line -> True if released, False if touched,
    None while they are being checked.
    """

    def __post_init__(self) -> None:
        self._stopwatch_ns = self._clock.stopwatch_ns

    async def wait(
        self,
        keys: Collection[KeyT],
        *,
        timeout_ms: float,
        check: Callable[[KeyT], bool],
        prepare: Callable[[], Awaitable[bool]] | None = None,
    ) -> bool:
        """Wait until one of ``keys`` was touched and ``check`` succeeds for it.

        Only touched keys are checked, because a request may wait for thousands.

        Args:
            keys: The keys; testing whether a key is among them has to be fast.
            timeout_ms: Longest wait, in milliseconds.
            check: Called with a key that was touched; True ends the wait.
            prepare: Awaited after the keys are registered; True ends the wait.

        Returns:
            True if the check succeeded or the wait was released; False at the deadline.
        """
        operation = ParkedOperation(self.tasks, keys=keys, timeout_ms=timeout_ms, check=check)
        self.park(operation)
        try:
            if prepare is not None and await prepare():
                return True
            return bool(await operation)
        finally:
            # A cancelled waiter (its connection went away, the cluster stops) leaves nothing
            # behind.
            self._finish_operation(operation, None)

    def park(self, operation: ParkedOperation) -> None:
        """Park an operation, whose future gets the answer. A cancelled operation
        stays until then.
        """
        timeout_ms = operation.timeout_ms
        operation.parked_ns = self._stopwatch_ns()
        operations_of_timeout = self._by_timeout.get(timeout_ms)
        if operations_of_timeout is None:
            operations_of_timeout = self._by_timeout[timeout_ms] = {}
            self._arm_timer(timeout_ms, timeout_ms)
        operations_of_timeout[operation] = None
        if len(operation.keys) > WIDE:
            self.wide_operations[operation] = None
        else:
            for key in operation.keys:
                self.parked.setdefault(key, {})[operation] = None

    def touch(self, key: KeyT) -> None:
        """Run the checks of the operations that wait for ``key``, because something has happened to
        it.
        """
        operations: Collection[ParkedOperation] = self.parked.get(key, ())
        if self.wide_operations:
            operations = [
                *(
                    wide_operation
                    for wide_operation in self.wide_operations
                    if key in wide_operation.keys
                ),
                *operations,
            ]
        if len(operations) > AT_ONCE:
            self._check_later(key, is_released=False)
            return
        for operation in list(operations):
            check_result = operation.check(key)
            if check_result is not None and check_result is not False:
                self._finish_operation(operation, partial(operation.resolve, check_result))

    def release(self, key: KeyT) -> None:
        """Answer all operations that wait for ``key`` (its leader has changed, its topic was
        deleted).
        """
        operations = self._waiting_for(key)
        if len(operations) > AT_ONCE:
            self._check_later(key, is_released=True)
            return
        for operation in operations:
            self._finish_operation(operation, partial(operation.answer, is_done=True))

    def release_all(self) -> None:
        """Answer all operations, because the broker stops."""
        indexed_operations = dict.fromkeys(
            operation for operations in self.parked.values() for operation in operations
        )
        for operation in [*self.wide_operations, *indexed_operations]:
            self._finish_operation(operation, partial(operation.answer, is_done=True))

    def pace(self) -> Pace:
        """A new pace for work in slices."""
        return Pace(self.tasks.turns, self._stopwatch_ns)

    def __len__(self) -> int:
        """Number of parked operations."""
        indexed_operations = {
            operation for operations in self.parked.values() for operation in operations
        }
        return len(indexed_operations) + len(self.wide_operations)

    def _finish_operation(
        self, operation: ParkedOperation, give_answer: Callable[[], object] | None
    ) -> None:
        operations_of_timeout = self._by_timeout.get(operation.timeout_ms)
        if operations_of_timeout is not None:
            operations_of_timeout.pop(operation, None)
        if len(operation.keys) > WIDE:
            self.wide_operations.pop(operation, None)
        else:
            for key in operation.keys:
                operations = self.parked.get(key)
                if operations is not None:
                    operations.pop(operation, None)
                    if not operations:
                        del self.parked[key]
        if give_answer is not None and not operation.is_answered:
            operation.is_answered = True
            self.tasks.run_soon(give_answer)

    def _waiting_for(self, key: KeyT) -> list[ParkedOperation]:
        return [
            *(
                wide_operation
                for wide_operation in self.wide_operations
                if key in wide_operation.keys
            ),
            *self.parked.get(key, ()),
        ]

    def _check_later(self, key: KeyT, *, is_released: bool) -> None:
        """Put a key in line. An operation that is parked for a released key meanwhile is answered,
        too: its caller looks again.
        """
        is_first = not self._late_keys
        self._late_keys[key] = is_released or bool(self._late_keys.get(key))
        if is_first:
            self.tasks.drive(self._run_late(self.pace()), ignore_end, name="purgatory.late")

    async def _run_late(self, pace: Pace) -> None:
        try:
            while self._late_keys:
                key = next(iter(self._late_keys))
                is_released, self._late_keys[key] = self._late_keys[key], None
                for operation in self._waiting_for(key):
                    if operation in self._by_timeout.get(operation.timeout_ms, ()):
                        self._late_answer(operation, key, is_released=bool(is_released))
                    if pace.has_done(LOOK_ELEMENTS):
                        await pace.yield_turn()
                was_touched = self._late_keys.pop(key)
                if was_touched is not None:  # touched meanwhile
                    self._late_keys[key] = was_touched
        finally:
            self._late_keys.clear()

    def _late_answer(self, operation: ParkedOperation, key: KeyT, *, is_released: bool) -> None:
        if is_released:
            self._finish_operation(operation, partial(operation.answer, is_done=True))
            return
        check_result = operation.check(key)
        if check_result is not None and check_result is not False:
            self._finish_operation(operation, partial(operation.resolve, check_result))

    def _arm_timer(self, timeout_ms: float, delay_ms: float) -> None:
        self._clock.call_later(delay_ms, lambda: self._expire_operations(timeout_ms))

    def _expire_operations(self, timeout_ms: float) -> None:
        operations_of_timeout = self._by_timeout[timeout_ms]
        now_ms = self._clock.monotonic_ms()
        for operation in list(islice(operations_of_timeout, AT_ONCE)):
            left_ms = self._clock.ms_of(operation.parked_ns) + timeout_ms - now_ms
            if left_ms > 0:
                self._arm_timer(timeout_ms, left_ms)
                return
            self._finish_operation(operation, partial(operation.answer, is_done=False))
        if operations_of_timeout:
            self._arm_timer(timeout_ms, 0)
        else:
            del self._by_timeout[timeout_ms]
