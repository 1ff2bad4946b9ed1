"""Parked work, by key and deadline: delayed fetches and produces.

A parked operation is a check that is run again whenever one of its keys is touched, and a deadline
on the monotonic clock. It is answered once: by a check that says yes, by the deadline, or by
``release_all``. It goes on after the present callback, in the same turn of the loop: the released
work never interrupts the code that touches a key. Kafka's counterpart:
DelayedOperationPurgatory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec

from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.runtime.tasks import Pending, settled

KeyT = TypeVar("KeyT", bound=Hashable)

WIDE: Final = 500
"""Entries with more keys are not indexed by key, as that would block others too long."""
AT_ONCE: Final = 64
"""So many of those who wait for a key are looked at without a break; more of them in slices."""


class Parked(Pending[Any], kw_only=True, eq=False):
    """One parked operation, which is its own answer."""

    keys: Collection[Any]
    timeout_ms: float
    check: Callable[[Any], Any]
    parked_ns: int = 0
    """When it began to wait, by the stopwatch."""
    is_answered: bool = False

    def answer(self, *, done: bool) -> None:
        """It was released (True), or the deadline has passed."""
        self.resolve(done)


class Purgatory(msgspec.Struct, Generic[KeyT], eq=False):
    """Operations waiting for something to happen to one of their keys.

    There is no timer per operation: operations with one timeout are in the order of their
    deadlines, and one timer watches the first.
    """

    _clock: Clock
    tasks: Tasks
    _stopwatch_ns: Callable[[], int] = lambda: 0
    parked: dict[KeyT, dict[Parked, None]] = {}
    _by_timeout: dict[float, dict[Parked, None]] = {}
    wide: dict[Parked, None] = {}
    """Entries with too many keys for the index, checked for each key."""
    _late: dict[KeyT, bool | None] = {}
    """Keys with too many entries for one step, in line: released (True), touched (False), or being
    done (None).
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
        """Wait until ``check(key)`` holds after that one of ``keys`` was touched: it looks at no
        other, since a request may wait for thousands.

        Args:
            keys: What it waits for; whether a key is among many of them has to be found quickly.
            timeout_ms: How long.
            check: Is called with a key that was touched.
            prepare: Is awaited once nothing is missed any more; True where the wait is over then.

        Returns:
            True when the check held or the wait was released; False at the deadline.
        """
        parked = Parked(self.tasks, keys=keys, timeout_ms=timeout_ms, check=check)
        self.park(parked)
        try:
            if prepare is not None and await prepare():
                return True
            return bool(await parked)
        finally:
            # A cancelled waiter (its connection went away, the cluster stops) leaves nothing
            # behind.
            self._finish(parked, None)

    def park(self, parked: Parked) -> None:
        """Like waiting, with a callback; a cancelled entry stays until its answer."""
        timeout_ms = parked.timeout_ms
        parked.parked_ns = self._stopwatch_ns()
        same_timeout = self._by_timeout.get(timeout_ms)
        if same_timeout is None:
            same_timeout = self._by_timeout[timeout_ms] = {}
            self._arm(timeout_ms, timeout_ms)
        same_timeout[parked] = None
        if len(parked.keys) > WIDE:
            self.wide[parked] = None
        else:
            for key in parked.keys:
                self.parked.setdefault(key, {})[parked] = None

    def touch(self, key: KeyT) -> None:
        """Something happened to ``key``: run the checks of those who wait for it."""
        parked_here: Collection[Parked] = self.parked.get(key, ())
        if self.wide:
            parked_here = [
                *(parked_wide for parked_wide in self.wide if key in parked_wide.keys),
                *parked_here,
            ]
        if len(parked_here) > AT_ONCE:
            self._delay(key, is_released=False)
            return
        for parked in list(parked_here):
            outcome = parked.check(key)
            if outcome is not None and outcome is not False:
                self._finish(parked, partial(parked.resolve, outcome))

    def release(self, key: KeyT) -> None:
        """Answer everything that waits for ``key`` (leadership moved, topic deleted)."""
        parked_here = self._waiting_for(key)
        if len(parked_here) > AT_ONCE:
            self._delay(key, is_released=True)
            return
        for parked in parked_here:
            self._finish(parked, partial(parked.answer, done=True))

    def release_all(self) -> None:
        """Answer everything: the broker stops."""
        narrow = dict.fromkeys(
            parked for parked_here in self.parked.values() for parked in parked_here
        )
        for parked in [*self.wide, *narrow]:
            self._finish(parked, partial(parked.answer, done=True))

    def pace(self) -> Pace:
        """For work in slices."""
        return Pace(self.tasks.turns, self._stopwatch_ns)

    def __len__(self) -> int:
        """How many operations are parked."""
        narrow = {parked for parked_here in self.parked.values() for parked in parked_here}
        return len(narrow) + len(self.wide)

    def _finish(self, parked: Parked, answer: Callable[[], object] | None) -> None:
        same_timeout = self._by_timeout.get(parked.timeout_ms)
        if same_timeout is not None:
            same_timeout.pop(parked, None)
        if len(parked.keys) > WIDE:
            self.wide.pop(parked, None)
        else:
            for key in parked.keys:
                parked_here = self.parked.get(key)
                if parked_here is not None:
                    parked_here.pop(parked, None)
                    if not parked_here:
                        del self.parked[key]
        if answer is not None and not parked.is_answered:
            parked.is_answered = True
            self.tasks.soon(answer)

    def _waiting_for(self, key: KeyT) -> list[Parked]:
        return [
            *(parked_wide for parked_wide in self.wide if key in parked_wide.keys),
            *self.parked.get(key, ()),
        ]

    def _delay(self, key: KeyT, *, is_released: bool) -> None:
        """Put a key in line. An entry that begins to wait for a released key meanwhile is answered
        too: it looks again.
        """
        is_first = not self._late
        self._late[key] = is_released or bool(self._late.get(key))
        if is_first:
            self.tasks.drive(self._run_late(self.pace()), settled, name="purgatory.late")

    async def _run_late(self, pace: Pace) -> None:
        try:
            while self._late:
                key = next(iter(self._late))
                is_released, self._late[key] = self._late[key], None
                for parked in self._waiting_for(key):
                    if parked in self._by_timeout.get(parked.timeout_ms, ()):
                        self._late_answer(parked, key, is_released=bool(is_released))
                    if pace.has_done(LOOK_ELEMENTS):
                        await pace.rest()
                check = self._late.pop(key)
                if check is not None:  # touched meanwhile
                    self._late[key] = check
        finally:
            self._late.clear()

    def _late_answer(self, parked: Parked, key: KeyT, *, is_released: bool) -> None:
        if is_released:
            self._finish(parked, partial(parked.answer, done=True))
            return
        outcome = parked.check(key)
        if outcome is not None and outcome is not False:
            self._finish(parked, partial(parked.resolve, outcome))

    def _arm(self, timeout_ms: float, delay_ms: float) -> None:
        self._clock.call_later(delay_ms, lambda: self._expire(timeout_ms))

    def _expire(self, timeout_ms: float) -> None:
        same_timeout = self._by_timeout[timeout_ms]
        now_ms = self._clock.monotonic_ms()
        for parked in list(islice(same_timeout, AT_ONCE)):
            left_ms = self._clock.ms_of(parked.parked_ns) + timeout_ms - now_ms
            if left_ms > 0:
                self._arm(timeout_ms, left_ms)
                return
            self._finish(parked, partial(parked.answer, done=False))
        if same_timeout:
            self._arm(timeout_ms, 0)
        else:
            del self._by_timeout[timeout_ms]
