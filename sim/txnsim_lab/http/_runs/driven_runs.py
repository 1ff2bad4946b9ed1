"""Runs that somebody drives: each in a process of its own, where it stops before a step, takes
inputs and goes back exactly (``scenario.driven``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from txnsim.http.replies import RefusedError
from txnsim.runtime.forked_processes import EndedError
from txnsim_lab.http._runs.players import Player
from txnsim_lab.http._runs.posted_runs import result_of
from txnsim_lab.http._runs.run_requests import RunRequest, Stop
from txnsim_lab.scenario.commands import Command, Failed, Order, RunEnded, Stopped, encode, to_state

DRIVEN_MAX: Final = 8
"""So many driven runs wait at once: each is a process with its checkpoints."""
STEPS_MAX: Final = 1_000


class GoOn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Continue the scenario."""

    steps: int | None = None
    """Number of steps to run; None: to the end."""


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An intervention before the next step."""

    step: Mapping[str, Any]
    """A step, as a scenario's file has it (docs/writing-scenarios.md)."""


class GoBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Return to an earlier stop."""

    stops: int = 1


class DrivenRun(RunRequest):
    """One of them. ``has_ended`` says that it stands still, at a step or at its end."""

    _child: Player | None = None
    _state: Stopped | RunEnded | None = None
    _refusal: str | None = None
    is_cancelled = False

    @property
    def is_over(self) -> bool:
        return self.is_cancelled or self.error is not None

    @property
    def may_obey(self) -> bool:
        """Whether it takes a command now."""
        return self.has_ended and not self.is_over

    @property
    def state(self) -> str:
        """As ``RunsView.state``."""
        if self.is_cancelled:
            return "cancelled"
        state = super().state
        return "paused" if state == "done" and isinstance(self._state, Stopped) else state

    @property
    def stop(self) -> Stop | None:
        """As ``RunsView.at``."""
        if self._state is None:
            return None
        return Stop(
            next=self._state.next if isinstance(self._state, Stopped) else None,
            back=self._state.back,
            inputs=self._state.inputs,
            error=self._refusal or self._state.error,
        )

    def trace_of(self, label: str | None, take: str) -> bytes:
        """The trace up to the present step."""
        if isinstance(self._state, Stopped):
            (scenario_run,) = self.plan
            if label not in (None, scenario_run.run) or take != scenario_run.take:
                raise RefusedError(422, f"the run is {scenario_run.run} {scenario_run.take}")
            return self._state.trace
        return super().trace_of(label, take)

    async def begin(self, make: Callable[[], Awaitable[Player]], order: Order) -> None:
        """Start its process."""
        try:
            self._child = await make()
        except EndedError as error:
            self.error = str(error)
            self.end()
            return
        if self.is_cancelled:
            self._child.kill()
            return
        await self.obey(order)

    async def obey(self, command: Command | Order) -> None:
        """Send a command and take in what it comes to."""
        assert self._child is not None
        refusal: str | None = None
        try:
            await self._child.send(encode(command))
            while isinstance(state := to_state(await self._child.hear()), Failed):
                refusal = state.error  # where it stands comes behind it, if it stands at all
        except EndedError as ended:
            if not self.is_cancelled:
                self.error = refusal or str(ended)
            self.end()
            return
        self._refusal, self._state = refusal, state
        self.results = [] if isinstance(state, Stopped) else [result_of(state.result)]
        self.end()

    def cancel(self) -> None:
        """End it, whatever it does."""
        if not self.is_over:
            self.is_cancelled = True
        if self._child is not None:
            self._child.kill()
        self.end()
