"""A rule in force: how often it has matched and struck, the crossings that it holds, and its
lasting effects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from txnsim.faults.actions import Reorder
from txnsim.faults.interception import Crossing
from txnsim.faults.meanings import DeliveryFate
from txnsim.faults.plan import FaultRule, spent

Undo = Callable[[], Coroutine[Any, Any, None]]
"""Ends a lasting effect; does nothing if it has ended already or the cluster stops. It is called at
most once: after the action's time, on release or on disarming.
"""


Release = tuple[int, DeliveryFate]
"""The trace index of a release, and the fate of the crossings that it lets go."""


class HeldCrossing(msgspec.Struct, frozen=True, kw_only=True):
    """A crossing that waits for a release."""

    crossing: Crossing
    hit_event: int
    """Trace index of the crossing's ``fault.hit``; -1 if the trace was off."""


class LastingEffect:
    """A lasting effect on the cluster, with the function that undoes it."""

    __slots__ = ("cancel_timer", "undo")

    def __init__(self, undo: Undo) -> None:
        self.undo = undo
        self.cancel_timer: Callable[[], object] = lambda: None


class ArmedRule(msgspec.Struct, eq=False):
    """A rule in force, with its counts, held crossings and lasting effects."""

    rule: FaultRule
    matched: int = 0
    """Number of crossings that matched since the rule was armed."""
    begun_count: int = 0
    """Number of strikes that were decided; ``struck`` counts an action on the cluster only when it
    is done.
    """
    struck: int = 0
    """Number of strikes; an action on the cluster counts when it is done."""
    released: int = 0
    """Number of released crossings and ended lasting effects."""
    held_crossings: dict[asyncio.Future[Release], HeldCrossing] = {}
    """The crossings that wait, oldest first."""
    held_by_line: dict[str, dict[asyncio.Future[Release], None]] = {}
    """The same by connection or link: a stall that ends looks at those of its own line only."""
    passed: int = 0
    """Number of crossings that have overtaken the held one (``reorder``)."""
    lasting_effects: list[LastingEffect] = []
    """The lasting effects on the cluster, oldest first."""
    failure: str | None = None
    """Error of the last failed action on the cluster."""
    is_disarmed: bool = False
    """Whether the rule is no longer in force."""
    trace_index: int = -1
    size_bytes: int = 0
    """Size of the rule as JSON: about what it keeps."""
    _struck_waiters: dict[asyncio.Future[None], int] = {}
    _last_occurrence: int = 0
    """Greatest of the rule's ``occurrences``, which each match asks for; 0 if it has none."""

    def __post_init__(self) -> None:
        self._last_occurrence = max(self.rule.occurrences, default=0)
        self.size_bytes = len(msgspec.json.encode(self.rule))

    @property
    def is_spent(self) -> bool:
        """Whether the rule can no longer strike; the crossings that it holds stay held."""
        waits_for_others = isinstance(self.rule.action, Reorder) and bool(self.held_crossings)
        if waits_for_others:
            return False
        if self._last_occurrence:
            return self.matched >= self._last_occurrence
        return spent(self.rule, self.matched, self.begun_count)

    def hold(self, future: asyncio.Future[Release], held_crossing: HeldCrossing) -> None:
        """Note a crossing that waits."""
        self.held_crossings[future] = held_crossing
        self.held_by_line.setdefault(held_crossing.crossing.line, {})[future] = None

    def let_go(self, future: asyncio.Future[Release]) -> None:
        """Forget a crossing that waits no more; nothing if it has been forgotten."""
        held_crossing = self.held_crossings.pop(future, None)
        if held_crossing is None:
            return
        line = held_crossing.crossing.line
        del self.held_by_line[line][future]
        if not self.held_by_line[line]:
            del self.held_by_line[line]

    def until_struck(self, count: int) -> asyncio.Future[None]:
        """A future that is done when the rule has struck ``count`` crossings."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.struck >= count:
            future.set_result(None)
        else:
            self._struck_waiters[future] = count
        return future

    def count_strike(self) -> None:
        """Count a strike and wake the tasks that wait for it."""
        self.struck += 1
        due_futures = [
            future for future, count in self._struck_waiters.items() if count <= self.struck
        ]
        for future in due_futures:
            del self._struck_waiters[future]
            if not future.done():
                future.set_result(None)

    def forget_wait(self, future: asyncio.Future[None]) -> None:
        """Forget a wait for strikes that has ended, as its time was up or it was given up."""
        self._struck_waiters.pop(future, None)

    def give_up(self, reason: str) -> None:
        """Fail every wait for more strikes, because the rule will not strike again."""
        strike_waiters, self._struck_waiters = self._struck_waiters, {}
        for future, count in strike_waiters.items():
            if not future.done():
                future.set_exception(
                    LookupError(
                        f"rule {self.rule.id!r}: {self.struck} of {count} strikes; {reason}"
                    )
                )
