"""Connections and links that stop for a time (``faults.actions.Stall``).

Every message on a line crosses a fault point. So the injector stops a whole line by letting each
crossing on it wait: the struck one first, then later ones, in order. When the stall ends, they go
on in that order, and the other rules judge each as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from txnsim.faults.actions import Pass
from txnsim.faults.crossings import Crossing
from txnsim.injection.armed import ArmedRule
from txnsim.runtime.env import Clock, TimerHandle


class Stall(msgspec.Struct, eq=False):
    """One stalled line."""

    line: str
    by: ArmedRule
    is_ending: bool = False
    timer: TimerHandle | None = None


class Stalls(msgspec.Struct, kw_only=True, eq=False):
    """Every stalled line."""

    clock: Clock
    """Monotonic clock for the duration of stalls."""
    ended: Callable[[], None]
    """Called after each has ended."""
    released: Callable[[ArmedRule, int], int]
    """Called with rule and hit number of each released crossing; returns the cause."""
    _by_line: dict[str, Stall] = {}

    def __bool__(self) -> bool:
        return bool(self._by_line)

    def at(self, crossing: Crossing) -> ArmedRule | None:
        """The rule for which a crossing has to wait because its line is stalled."""
        stall = self._by_line.get(crossing.line)
        return None if stall is None else stall.by

    def again(self, crossing: Crossing) -> ArmedRule | None:
        """The rule that stalls a woken crossing: only a stall begun since then."""
        stall = self._by_line.get(crossing.line)
        return None if stall is None or stall.is_ending else stall.by

    def begin(self, line: str, by: ArmedRule, lasts_ms: int | None) -> None:
        """Stall a line from now on."""
        stall = self._by_line[line] = Stall(line, by)
        if lasts_ms is not None:
            stall.timer = self.clock.call_later(lasts_ms, lambda: self._end(stall))

    def end_all(self, by: ArmedRule) -> None:
        """A rule was released: its lines go on."""
        for stall in list(self._by_line.values()):
            if stall.by is by:
                self._end(stall)

    def _end(self, stall: Stall) -> None:
        if stall.timer is not None:
            stall.timer.cancel()
            stall.timer = None
        if self._by_line.get(stall.line) is not stall:
            return
        stall.is_ending = True
        for future, held in list(stall.by.held.items()):
            if held.crossing.line == stall.line and not future.done():
                stall.by.released += 1
                del stall.by.held[future]
                future.set_result((self.released(stall.by, held.hit), Pass()))
        # Those that were woken go on in this turn of the loop. A crossing that comes before they
        # have waits behind them.
        asyncio.get_running_loop().call_soon(self._finish, stall)

    def _finish(self, stall: Stall) -> None:
        if self._by_line.get(stall.line) is not stall:
            return  # one of them was stalled again
        if any(held.crossing.line == stall.line for held in stall.by.held.values()):
            self._end(stall)
            return
        del self._by_line[stall.line]
        self.ended()
