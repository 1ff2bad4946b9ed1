"""Turns of the loop: the policy by which brokers, clients and large requests share them.

**The policy.** All brokers share one loop. It works in turns, and each turn has this order:

1. Answers that are ready go out, if the turn before was cut short.
2. What brokers owe: exchanges between them, markers, replication, and answers that others wait for
   (``LoopTasks.soon``). It may take ``tasks.OWED_PER_TURN`` times as long as new requests; what is
   left waits for the next turn. The answers that it makes ready go out.
3. Sockets are looked at, and new requests of clients are handled, for ``limit_ns``.
4. Large requests get a slice.

So a broker ends what it has begun before it takes on more: a marker or a replica's fetch waits for
one turn of new requests at most, however many clients there are. The bound of 2 is there for work
that never ends, such as a chain of callbacks of which each adds another. In Kafka, replication and
markers have threads of their own.

**Clients.** Work without a break keeps all others waiting. A connection of a
client notes how long its requests took (``spent_ns``); once the turn's share is used up, it waits
here with its remaining requests. In the next turn the users go first who have used least and want
least: a client with one small request waits only for the work that is being done.

All large requests wait as one user (``LargeRequests``): however many there are, a client with small
requests gets as much of the loop as all of them. Large requests that are still being read wait as
one user too (``LargeReads``). Each request counts with a fixed cost besides its time: in virtual
time, where work takes none, turns end all the same, and always at the same place.

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
"""Fixed cost of a request, in addition to the time that it took."""
LIMIT_NS_DEFAULT: Final = 2_000_000
SLICE_NS: Final = 1_000_000
"""Time limit of a large request's work before it waits for its next turn."""
READ_BYTES: Final = 1 << 18
"""Bytes of large requests that are read in one turn: reading them takes less than a slice."""
ROUND: Final = 32
"""Slices that a large request gets in a row, so that fewer are half done at a time."""
BYTE_NS: Final = 100
"""Assumed cost of a waiting byte: small requests go first."""
SHARES_MAX: Final = 10
"""Greatest number of shares of one turn; if more users wait, some wait for later turns."""


LOOK_ELEMENTS: Final = 16
"""Elements of a large request between two looks at the clock."""
LOOKS: Final = 64
"""Number of looks at the clock after which a slice ends, also if no time passes."""


class TurnWorker(Protocol):
    """A user of turns whose work exceeds one turn."""

    used_ns: int
    """Time that it has used in the current ``busy_period``. It starts with the value of the users
    that waited already, so that a newcomer has no advantage.
    """
    busy_period: int
    """Number of the busy period in which it waited last. A busy period begins when somebody waits,
    and ends when nobody does.
    """

    def work_until(self, limit_ns: int) -> None:
        """Work until ``Turns.spent_ns`` has reached ``limit_ns``, but do at least one piece; wait
        again if there is more.
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
        "_waiting_workers",
        "large",
        "limit_ns",
        "reads",
        "spent_ns",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting_workers: list[tuple[int, int, TurnWorker]] = []
        self.large: Final = LargeRequests(self)
        self.reads: Final = LargeReads(self)
        self._number = 0
        self._busy_period = 1
        self._least_ns = 0
        self._is_due = False
        # One context for all waiting workers, as LoopTasks has one for all due callbacks.
        self._context = copy_context()
        self.limit_ns = LIMIT_NS_DEFAULT
        """Time of work after which the loop looks at its sockets again."""
        self.spent_ns = 0
        """Time of work in this turn so far."""

    def wait(self, worker: TurnWorker, *, wanted_ns: int) -> None:
        """Let a worker that is not waiting yet go on in a later turn; ``wanted_ns`` is the time
        that its next work will take.
        """
        if worker.busy_period != self._busy_period or worker.used_ns < self._least_ns:
            # Newcomers get neither an advantage for long nor a disadvantage for earlier work.
            worker.busy_period, worker.used_ns = self._busy_period, self._least_ns
        self._number += 1
        heappush(self._waiting_workers, (worker.used_ns + wanted_ns, self._number, worker))
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run_turn, context=self._context)

    def _run_turn(self) -> None:
        """Let waiting workers go on, until the time of one turn is used up."""
        queue = self._waiting_workers
        last_number = self._number
        self.spent_ns = 0
        requeued_workers: list[tuple[int, int, TurnWorker]] = []
        while queue and self.spent_ns < self.limit_ns:
            waiting_entry = heappop(queue)
            _, queue_number, worker = waiting_entry
            if queue_number > last_number:
                requeued_workers.append(
                    waiting_entry
                )  # it came in this turn: sockets are looked at first
                continue
            self._least_ns = max(self._least_ns, worker.used_ns)
            worker.work_until(self.spent_ns + self.limit_ns // min(len(queue) + 1, SHARES_MAX))
        for waiting_entry in requeued_workers:
            heappush(queue, waiting_entry)
        self._is_due = bool(queue)
        if queue:
            self._loop.call_soon(self._run_turn, context=self._context)
        else:
            self._busy_period += 1


class LargeRequests:
    """All large requests, as one ``TurnWorker``.

    They wait in a queue. The first request gets ``ROUND`` slices, then it goes to the end.
    """

    __slots__ = (
        "_is_waiting",
        "_number_last",
        "_turns",
        "_waiting_slices",
        "busy_period",
        "used_ns",
    )

    def __init__(self, turns: Turns) -> None:
        self.used_ns = self.busy_period = 0
        self._turns = turns
        self._waiting_slices: list[tuple[int, TimeSlices]] = []
        self._number_last = 0
        self._is_waiting = False

    def next_number(self) -> int:
        """A number at the end of the queue."""
        self._number_last += 1
        return self._number_last

    def wait(self, slices: TimeSlices) -> None:
        """Let a request get its next slice in a later turn."""
        heappush(self._waiting_slices, (slices.number, slices))
        if not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self, wanted_ns=SLICE_NS)

    def work_until(self, limit_ns: int) -> None:  # noqa: ARG002 - a slice is a slice
        """Grant one slice. It ends the turn of the loop: sockets are looked at next."""
        _, slices = heappop(self._waiting_slices)
        self._turns.spent_ns = max(self._turns.spent_ns + SLICE_NS, self._turns.limit_ns)
        self.used_ns += SLICE_NS
        self._is_waiting = bool(self._waiting_slices)
        if self._is_waiting:
            self._turns.wait(self, wanted_ns=SLICE_NS)
        slices.grant()


class LargeReads:
    """All sockets from which a large request is being read, as one ``TurnWorker``.

    Taking bytes from a socket is work too, and a loop takes megabytes from one before it looks at
    the next. After ``READ_BYTES`` of all sockets together their readers wait in a queue, and one
    goes on in each turn.
    """

    __slots__ = ("_bytes", "_line", "_turns", "busy_period", "used_ns")

    def __init__(self, turns: Turns) -> None:
        self.used_ns = self.busy_period = 0
        self._turns = turns
        self._bytes = 0
        self._line: deque[Callable[[], None]] = deque()

    def have_read(self, byte_count: int) -> bool:
        """Count the bytes read; returns whether the reader should stop and ``wait``."""
        self._bytes += byte_count
        return self._bytes >= READ_BYTES

    def wait(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` in a later turn; it reads on, or frees what was read."""
        if not self._line:
            self._turns.wait(self, wanted_ns=SLICE_NS)
        self._line.append(resume)

    def work_until(self, limit_ns: int) -> None:  # noqa: ARG002 - one goes on, however much time there is
        self._bytes = 0
        self._turns.spent_ns += SLICE_NS
        self.used_ns += SLICE_NS
        self._line.popleft()()
        if self._line:
            self._turns.wait(self, wanted_ns=SLICE_NS)


class TimeSlices:
    """The slices of one large request."""

    __slots__ = ("_granted", "_slice_count", "_turns", "number")

    def __init__(self, turns: Turns) -> None:
        self.number = turns.large.next_number()
        self._slice_count = 0
        self._turns = turns
        self._granted: asyncio.Future[None] | None = None

    async def next(self) -> None:
        """Wait for the next slice."""
        self._granted = asyncio.get_running_loop().create_future()
        self._turns.large.wait(self)
        await self._granted

    def grant(self) -> None:
        self._slice_count += 1
        if self._slice_count % ROUND == 0:
            self.number = self._turns.large.next_number()
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)


async def rest_where_due(pace: Pace | None, element_count: int) -> None:
    """Count finished elements; rest if the slice is used up."""
    if pace is not None and pace.has_done(element_count):
        await pace.yield_turn()


def _always_wanted() -> bool:
    return True


class Pace:
    """Work on one request with many elements, in slices, so that other work has its turns."""

    __slots__ = (
        "_begun_ns",
        "_elements",
        "_look_count",
        "_slices",
        "_stopwatch_ns",
        "has_rested",
        "is_wanted",
    )

    def __init__(self, turns: Turns, read_stopwatch_ns: Callable[[], int]) -> None:
        self._slices = TimeSlices(turns)
        self._stopwatch_ns = read_stopwatch_ns
        self._begun_ns = read_stopwatch_ns()
        self._elements = self._look_count = 0
        self.has_rested = False
        """Whether the work exceeded one slice."""
        self.is_wanted: Callable[[], bool] = _always_wanted
        """Called after each break: the work ends if nobody waits for it any more."""

    def has_done(self, element_count: int) -> bool:
        """Count finished elements; returns whether it is time for a break.

        A slice ends after some time. In virtual time, where work takes none, it ends after a number
        of elements: always at the same place.
        """
        self._elements += element_count
        if self._elements < LOOK_ELEMENTS:
            return False
        self._look_count += self._elements // LOOK_ELEMENTS
        self._elements = 0
        return self._look_count >= LOOKS or self._stopwatch_ns() - self._begun_ns >= SLICE_NS

    async def yield_turn(self) -> None:
        """Let other work have its turns.

        Raises:
            WorkIsOverError: Nobody waits for the result any more.
        """
        self.has_rested = True
        await self._slices.next()
        if not self.is_wanted():
            raise WorkIsOverError
        self._begun_ns = self._stopwatch_ns()
        self._look_count = 0

    async def run(self, steps: Generator[int, None, T]) -> T:
        """Run the steps to their end, in slices; each step yields the number of elements that it
        finished.
        """
        while True:
            try:
                steps_done = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.has_done(steps_done):
                await self.yield_turn()
