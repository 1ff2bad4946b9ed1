"""Turns of the loop, shared out among those who have more to do than one turn bears.

All brokers share one loop, so whoever works on without a break keeps all others waiting. Whoever
serves a client notes what its requests took (``spent_ns``); once the turn's share is used up, it
waits here with what is left. In the next turn those go first who have used least and want least: a
client with one small request waits for no more than the work that is being done. Each request
counts with a fixed cost besides its time: in virtual time, where work takes none, turns end all the
same, and always at the same place.

Kafka's counterpart: Processors that poll their selectors between requests, and the scheduler of the
operating system.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Final, Protocol

REQUEST_NS: Final = 20_000
"""What a request counts for besides the time that it took."""
LIMIT_NS_DEFAULT: Final = 10_000_000
BYTE_NS: Final = 100
"""What a byte that waits is taken to cost: who wants little goes first."""
SHARES_MAX: Final = 10
"""Into no more pieces a turn is cut for those who wait; more of them wait for more turns."""


class Worker(Protocol):
    """Somebody with more to do than one turn bears."""

    used_ns: int
    """What it has been given since it began to wait among others (``contest``), counted from what
    they had been given.
    """
    contest: int
    """When it waited last."""

    def go_on(self, limit_ns: int) -> None:
        """Work on until ``Turns.spent_ns`` has reached ``limit_ns``, one piece of work at least;
        wait again if there is more.
        """


class Turns:
    """The turns of one loop."""

    __slots__ = (
        "_contest",
        "_context",
        "_is_due",
        "_least_ns",
        "_loop",
        "_number",
        "_waiting",
        "limit_ns",
        "spent_ns",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[int, int, Worker]] = []
        self._number = 0
        self._contest = 1
        self._least_ns = 0
        self._is_due = False
        # One context for all who wait, as LoopTasks has for all that is due.
        self._context = copy_context()
        self.limit_ns = LIMIT_NS_DEFAULT
        """After so much work the loop looks at its sockets again."""
        self.spent_ns = 0
        """Work of this turn so far."""

    def wait(self, worker: Worker, *, size: int = 0) -> None:
        """Let ``worker``, who does not wait yet, go on in a later turn; ``size`` bytes of requests
        wait with it.
        """
        if worker.contest != self._contest or worker.used_ns < self._least_ns:
            # Newcomers are neither ahead of all others for long nor behind for what was before.
            worker.contest, worker.used_ns = self._contest, self._least_ns
        self._number += 1
        heappush(self._waiting, (worker.used_ns + size * BYTE_NS, self._number, worker))
        self._see_to_turn()

    def _see_to_turn(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        """Let those who wait go on, as far as one turn bears it."""
        waiting = self._waiting
        last = self._number
        self.spent_ns = 0
        again: list[tuple[int, int, Worker]] = []
        while waiting and self.spent_ns < self.limit_ns:
            entry = heappop(waiting)
            _, number, worker = entry
            if number > last:
                again.append(entry)  # it came in this turn: sockets are looked at first
                continue
            self._least_ns = max(self._least_ns, worker.used_ns)
            worker.go_on(self.spent_ns + self.limit_ns // min(len(waiting) + 1, SHARES_MAX))
        for entry in again:
            heappush(waiting, entry)
        self._is_due = False
        if waiting:
            self._see_to_turn()
        else:
            self._contest += 1
