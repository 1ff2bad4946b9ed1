"""Turns of the loop, shared out among those who have more to do than one turn bears.

All brokers share one loop, so work without a break keeps all others waiting. A connection of
a client notes what its requests took (``spent_ns``); once the turn's share is used up, it waits
here with what is left. In the next turn those go first who have used least and want least: a
client with one small request waits for no more than the work that is being done. All requests that
are a lot of work wait as one (``LargeRequests``): however many there are, a client with small ones
can have as much of the loop as all of them. Those that are still being read wait as one as well
(``LargeReads``). Each request counts with a fixed cost besides its time: in virtual time, where
work takes none, turns end all the same, and always at the same place.

Kafka's counterpart: Processors that poll their selectors between requests, and the scheduler of the
operating system.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Final, Protocol, TypeVar

from txnsim.errors import WorkIsOverError

T = TypeVar("T")

REQUEST_NS: Final = 20_000
"""What a request counts for besides the time that it took."""
LIMIT_NS_DEFAULT: Final = 2_000_000
SLICE_NS: Final = 1_000_000
"""Time limit of a large request's work before it waits for its next turn."""
READ_BYTES: Final = 1 << 18
"""Of large requests, so much is read in one turn: it takes less than a slice."""
ROUND: Final = 32
"""Slices that a large request runs in a row, so that fewer are half done at a time."""
BYTE_NS: Final = 100
"""Assumed cost of a waiting byte: small requests go first."""
SHARES_MAX: Final = 10
"""Into no more pieces a turn is cut for those who wait; more of them wait for more turns."""


LOOK_ELEMENTS: Final = 16
"""Elements of a large request between two looks at the clock."""
LOOKS: Final = 64
"""After so many looks its slice ends, also where no time passes."""


class Worker(Protocol):
    """A user of turns whose work exceeds one turn."""

    used_ns: int
    """What it has been given since it began to wait among others (``busy_period``), counted
    from what they had been given.
    """
    busy_period: int
    """Number of the busy period in which it waited last. One begins when somebody waits, and ends
    when nobody does.
    """

    def go_on(self, limit_ns: int) -> None:
        """Work on until ``Turns.spent_ns`` has reached ``limit_ns``, one piece of work at least;
        wait again if there is more.
        """


class Turns:
    """The turns of one loop."""

    __slots__ = (
        "_busy_period",
        "_context",
        "_is_due",
        "_least_ns",
        "_loop",
        "_number",
        "_waiting",
        "large",
        "limit_ns",
        "reads",
        "spent_ns",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[int, int, Worker]] = []
        self.large: Final = LargeRequests(self)
        self.reads: Final = LargeReads(self)
        self._number = 0
        self._busy_period = 1
        self._least_ns = 0
        self._is_due = False
        # One context for all who wait, as LoopTasks has for all that is due.
        self._context = copy_context()
        self.limit_ns = LIMIT_NS_DEFAULT
        """After so much work the loop looks at its sockets again."""
        self.spent_ns = 0
        """Work of this turn so far."""

    def wait(self, worker: Worker, *, wanted_ns: int) -> None:
        """Give a worker that does not wait yet a later turn; ``wanted_ns`` is its next work."""
        if worker.busy_period != self._busy_period or worker.used_ns < self._least_ns:
            # Newcomers are neither ahead of all others for long nor behind for what was before.
            worker.busy_period, worker.used_ns = self._busy_period, self._least_ns
        self._number += 1
        heappush(self._waiting, (worker.used_ns + wanted_ns, self._number, worker))
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        """Let those who wait go on, as far as one turn bears it."""
        queue = self._waiting
        last_number = self._number
        self.spent_ns = 0
        requeued: list[tuple[int, int, Worker]] = []
        while queue and self.spent_ns < self.limit_ns:
            entry = heappop(queue)
            _, number, worker = entry
            if number > last_number:
                requeued.append(entry)  # it came in this turn: sockets are looked at first
                continue
            self._least_ns = max(self._least_ns, worker.used_ns)
            worker.go_on(self.spent_ns + self.limit_ns // min(len(queue) + 1, SHARES_MAX))
        for entry in requeued:
            heappush(queue, entry)
        self._is_due = bool(queue)
        if queue:
            self._loop.call_soon(self._turn, context=self._context)
        else:
            self._busy_period += 1


class LargeRequests:
    """All requests that are a lot of work, as one ``Worker``.

    They stand in a line. The first one has ``ROUND`` slices, then it goes to the end.
    """

    __slots__ = ("_is_waiting", "_number_last", "_queue", "_turns", "busy_period", "used_ns")

    def __init__(self, turns: Turns) -> None:
        self.used_ns = self.busy_period = 0
        self._turns = turns
        self._queue: list[tuple[int, TimeSlices]] = []
        self._number_last = 0
        self._is_waiting = False

    def next_number(self) -> int:
        """A number at the end of the line."""
        self._number_last += 1
        return self._number_last

    def wait(self, slices: TimeSlices) -> None:
        """Let a request have its next slice in a later turn."""
        heappush(self._queue, (slices.number, slices))
        if not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self, wanted_ns=SLICE_NS)

    def go_on(self, limit_ns: int) -> None:  # noqa: ARG002 - a slice is a slice
        """One slice. It ends the turn of the loop: sockets are looked at next."""
        _, slices = heappop(self._queue)
        self._turns.spent_ns = max(self._turns.spent_ns + SLICE_NS, self._turns.limit_ns)
        self.used_ns += SLICE_NS
        self._is_waiting = bool(self._queue)
        if self._is_waiting:
            self._turns.wait(self, wanted_ns=SLICE_NS)
        slices.grant()


class LargeReads:
    """All sockets from which a large request is being read, as one ``Worker``.

    Taking bytes from a socket is work too, and a loop takes megabytes of one before it looks at the
    next. After ``READ_BYTES`` of all of them they stand in a line, and one goes on in each turn.
    """

    __slots__ = ("_bytes", "_line", "_turns", "busy_period", "used_ns")

    def __init__(self, turns: Turns) -> None:
        self.used_ns = self.busy_period = 0
        self._turns = turns
        self._bytes = 0
        self._line: deque[Callable[[], None]] = deque()

    def have_read(self, count: int) -> bool:
        """Note so many bytes; whether who has read them should stop and ``wait``."""
        self._bytes += count
        return self._bytes >= READ_BYTES

    def wait(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` in a later turn: it reads on, or frees what was read."""
        if not self._line:
            self._turns.wait(self, wanted_ns=SLICE_NS)
        self._line.append(resume)

    def go_on(self, limit_ns: int) -> None:  # noqa: ARG002 - one goes on, however much time there is
        self._bytes = 0
        self._turns.spent_ns += SLICE_NS
        self.used_ns += SLICE_NS
        self._line.popleft()()
        if self._line:
            self._turns.wait(self, wanted_ns=SLICE_NS)


class TimeSlices:
    """The slices of one request that is a lot of work."""

    __slots__ = ("_done", "_granted", "_turns", "number")

    def __init__(self, turns: Turns) -> None:
        self.number = turns.large.next_number()
        self._done = 0
        self._turns = turns
        self._granted: asyncio.Future[None] | None = None

    async def next(self) -> None:
        """Wait for the next slice."""
        self._granted = asyncio.get_running_loop().create_future()
        self._turns.large.wait(self)
        await self._granted

    def grant(self) -> None:
        self._done += 1
        if self._done % ROUND == 0:
            self.number = self._turns.large.next_number()
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)


async def rest_where_due(pace: Pace | None, elements: int) -> None:
    """Count finished elements; rest if the slice is used up."""
    if pace is not None and pace.has_done(elements):
        await pace.rest()


def _always() -> bool:
    return True


class Pace:
    """One request with many elements, done in slices that others can come between."""

    __slots__ = (
        "_begun_ns",
        "_elements",
        "_looks",
        "_slices",
        "_stopwatch_ns",
        "has_rested",
        "is_wanted",
    )

    def __init__(self, turns: Turns, stopwatch_ns: Callable[[], int]) -> None:
        self._slices = TimeSlices(turns)
        self._stopwatch_ns = stopwatch_ns
        self._begun_ns = stopwatch_ns()
        self._elements = self._looks = 0
        self.has_rested = False
        """Whether the work exceeded one slice."""
        self.is_wanted: Callable[[], bool] = _always
        """Asked after each break: work that nobody waits for ends there."""

    def has_done(self, elements: int) -> bool:
        """Note so many elements; whether it is time for ``rest``.

        Where work takes time, a slice ends by it. In virtual time it ends after so many elements:
        always at the same place.
        """
        self._elements += elements
        if self._elements < LOOK_ELEMENTS:
            return False
        self._looks += self._elements // LOOK_ELEMENTS
        self._elements = 0
        return self._looks >= LOOKS or self._stopwatch_ns() - self._begun_ns >= SLICE_NS

    async def rest(self) -> None:
        """Let the others have their turns.

        Raises:
            WorkIsOverError: Who asked for it has gone.
        """
        self.has_rested = True
        await self._slices.next()
        if not self.is_wanted():
            raise WorkIsOverError
        self._begun_ns = self._stopwatch_ns()
        self._looks = 0

    async def run(self, steps: Generator[int, None, T]) -> T:
        """Go through to the end of what breaks after so many elements as it yields."""
        while True:
            try:
                steps_done = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.has_done(steps_done):
                await self.rest()
