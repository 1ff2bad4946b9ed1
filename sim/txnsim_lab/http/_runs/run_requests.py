"""A request to run scenarios: its progress, waiting clients and results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.http.replies import RefusedError
from txnsim.runtime.environment import Clock
from txnsim_lab.scenario.driver_commands import Input, PlannedStep

if TYPE_CHECKING:
    from txnsim_lab.scenario.runner import JudgesResult, RunResult, ScenarioRun

HEALTHY: Final = "healthy"


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Where a driven run stands, and the inputs so far."""

    next: PlannedStep | None
    """The step that is taken next; null at the end of the story."""
    back: int
    """The number of earlier stops to which the run can return."""
    inputs: tuple[Input, ...]
    """All inputs so far. Posted with scenario, run, take and seed, they repeat the run."""
    error: str | None
    """Why the last command failed and left the run unchanged; None after a success."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """How a run of a scenario was judged, and what was expected."""

    run: str
    mode: str
    take: str
    expected: str
    observed: str
    """``healthy``, or the names of the anomalies."""
    verdict: tuple[str, ...]
    """The observed kinds one by one."""
    because: tuple[str, ...]
    """A sentence for each conviction."""
    cured: str | None
    """The verdict after the repair; null where there is none."""
    as_declared: bool
    duration_ms: int
    """The duration in virtual time."""


class RunsView(msgspec.Struct, frozen=True, kw_only=True):
    """A request to run a scenario, and its progress."""

    id: str
    scenario: str
    title: str
    state: str
    """``running``, ``paused``, ``done``, ``failed`` or ``cancelled``."""
    done: int
    of: int
    as_declared: bool | None
    """Whether the verdict of every run is the one that the file declares; null before the end."""
    error: str | None
    at: Stop | None = None
    """Where a driven run stands; null for other runs."""
    runs: tuple[RunView, ...]


class RunRequest:
    """A request to run a scenario, while it is carried out and afterwards."""

    def __init__(self, request_id: str, plan: Sequence[ScenarioRun], seed: int) -> None:
        self.id = request_id
        self.plan = plan
        self.seed = seed
        self.results: list[RunResult] = []
        self.error: str | None = None
        self.has_ended = False
        self._waiting_futures: list[asyncio.Future[None]] = []

    @property
    def is_over(self) -> bool:
        return self.has_ended

    def end(self) -> None:
        """Mark the request as ended, and wake those who wait for it."""
        self.has_ended = True
        for waiter in self._waiting_futures:
            if not waiter.done():
                waiter.set_result(None)

    def trace_of(self, label: str | None, take: str) -> bytes:
        """The trace of the run with this label and take.

        Raises:
            RefusedError: It is not there, or several are.
        """
        return self.choose_result(label, take).trace

    def choose_result(self, label: str | None, take: str) -> RunResult:
        """The result of the run with this label and take; the label may be left out if there is one
        run.

        Raises:
            RefusedError: It is not there, or several are.
        """
        matching_results = [
            result for result in self.results if label in (None, result.run) and take == result.take
        ]
        if len(matching_results) != 1:
            ended_runs = ", ".join(f"{result.run} {result.take}" for result in self.results)
            raise RefusedError(
                422, f"name one run by run and take; ended so far: {ended_runs or 'none'}"
            )
        return matching_results[0]

    async def wait(self, clock: Clock, wait_ms: int) -> None:
        """Wait until the request has ended, at most ``wait_ms``."""
        if self.has_ended or wait_ms == 0:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait_timer = clock.call_later(
            wait_ms, lambda: None if waiter.done() else waiter.set_result(None)
        )
        self._waiting_futures.append(waiter)
        try:
            await waiter
        finally:
            wait_timer.cancel()
            self._waiting_futures.remove(waiter)

    @property
    def state(self) -> str:
        """As ``RunsView.state``."""
        return "running" if not self.has_ended else "failed" if self.error else "done"

    @property
    def stop(self) -> Stop | None:
        """As ``RunsView.at``."""
        return None

    def view(self) -> RunsView:
        """The request as the control port shows it."""
        has_ended = self.has_ended
        are_all_as_declared = all(result.as_declared for result in self.results)
        return RunsView(
            id=self.id,
            scenario=self.plan[0].scenario.name,
            title=self.plan[0].scenario.title,
            state=self.state,
            done=len(self.results),
            of=len(self.plan),
            as_declared=are_all_as_declared and self.error is None if has_ended else None,
            error=self.error,
            at=self.stop,
            runs=tuple(_run_view(result) for result in self.results),
        )


def _run_view(result: RunResult) -> RunView:
    judges_result: JudgesResult = result.verdict
    return RunView(
        run=result.run,
        mode=result.mode,
        take=result.take,
        expected=words_of(judges_result.expected),
        observed=words_of(judges_result.observed),
        verdict=judges_result.observed,
        because=judges_result.because,
        cured=None if result.cured is None else words_of(result.cured.observed),
        as_declared=result.as_declared,
        duration_ms=result.duration_ms,
    )


def words_of(verdict_kinds: Sequence[str]) -> str:
    """The kinds of a verdict as one line."""
    return ", ".join(verdict_kinds) or HEALTHY
