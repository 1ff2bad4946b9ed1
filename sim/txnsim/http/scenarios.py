"""Scenarios through the control port: those that are shipped, and any that is posted as YAML.

Each run is told in virtual time, in a cluster of its own and in a thread of its own, one after the
other; the brokers that serve clients go on meanwhile. Who asked waits for a while, or asks again.
Files are read in a second thread: that takes longer than a broker may wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.errors import ConfigError
from txnsim.http.operation import PREFIX, Operation, Query
from txnsim.http.replies import RefusedError, as_json, body_of, number_of
from txnsim.runtime.env import Clock
from txnsim.scenario.catalog import scenarios
from txnsim.server.cluster import SimCluster

if TYPE_CHECKING:
    from txnsim.scenario.model import Scenario
    from txnsim.scenario.runner import Finding, RunResult, Telling

_log: Final = structlog.get_logger("txnsim.http")

WAIT_MS: Final = 10_000
WAIT_MS_MAX: Final = 300_000
SEED_DEFAULT: Final = 1
SEED_MAX: Final = 2**63 - 1
TELLINGS_KEPT_MAX: Final = 50
"""Requests to run that are remembered; the oldest that has ended makes room."""
NDJSON: Final = "application/x-ndjson"
POSTED: Final = "posted.yaml"
"""What messages call a scenario without a file."""
TAKES: Final = ("armed", "disarmed", "control")
HEALTHY: Final = "healthy"

_T = TypeVar("_T")


class ScenarioView(msgspec.Struct, frozen=True, kw_only=True):
    """A shipped scenario in short."""

    name: str
    aliases: tuple[str, ...]
    title: str
    runs: Mapping[str, str]
    """Label of each run -> the verdict that is declared for it."""


class ScenarioText(msgspec.Struct, frozen=True, kw_only=True):
    """A shipped scenario in full."""

    name: str
    aliases: tuple[str, ...]
    title: str
    goal: str
    method: str
    symptoms: str
    sources: tuple[str, ...]
    runs: Mapping[str, str]
    yaml: str
    """The file."""


class RunScenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a scenario: by its name or alias, or as posted."""

    name: str | None = None
    yaml: str | None = None
    """Instead of a name: the text of a scenario (docs/writing-scenarios.md)."""
    runs: tuple[str, ...] = ()
    """Labels; all of them unless given."""
    takes: tuple[str, ...] = ("armed",)
    """``armed``, ``disarmed`` (no fault strikes), ``control``."""
    seed: int = SEED_DEFAULT
    """The same seed, the same run, event by event."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    run: str
    mode: str
    take: str
    expected: str
    observed: str
    """``healthy``, or kinds of anomalies by name."""
    verdict: tuple[str, ...]
    """The observed kinds one by one."""
    because: tuple[str, ...]
    """A sentence for each conviction."""
    cured: str | None
    """The verdict after the cure; null where there is none."""
    as_declared: bool
    duration_ms: int
    """Of virtual time."""


class RunsView(msgspec.Struct, frozen=True, kw_only=True):
    """A request to run a scenario and how far it is."""

    id: str
    scenario: str
    state: str
    """``running``, ``done`` or ``failed``."""
    done: int
    of: int
    """So many runs of so many have ended."""
    as_declared: bool | None
    """Whether every run came to what its file says; null before the end."""
    error: str | None
    runs: tuple[RunView, ...]


_WHICH: Final = (
    Query("run", "Label of the run; the only one unless given", "string"),
    Query("take", "armed unless given", "string"),
)

LIST: Final = Operation(
    method="get",
    path=f"{PREFIX}/scenarios",
    summary="Every scenario that is shipped, with the verdict declared for each of its runs",
    answer=ScenarioView,
    is_list=True,
)
SHOW: Final = Operation(
    method="get",
    path=f"{PREFIX}/scenarios/{{name}}",
    summary="One scenario: goal, method, sources, and its file",
    answer=ScenarioText,
    refusals=("404",),
)
RUN: Final = Operation(
    method="post",
    path=f"{PREFIX}/runs",
    summary="Run a scenario in virtual time, in a cluster of its own",
    body=RunScenario,
    answer=RunsView,
    may_take_longer=True,
    query=(Query("wait_ms", f"Answer 202 after so long; {WAIT_MS} unless given"),),
    refusals=("404", "409", "422"),
)
RUNS: Final = Operation(
    method="get",
    path=f"{PREFIX}/runs",
    summary="The latest requests to run scenarios",
    answer=RunsView,
    is_list=True,
)
RESULT: Final = Operation(
    method="get",
    path=f"{PREFIX}/runs/{{id}}",
    summary="How far a request to run a scenario is, and what it came to",
    answer=RunsView,
    may_take_longer=True,
    query=(Query("wait_ms", "Wait so long for its end; not at all unless given"),),
    refusals=("404", "422"),
)
HISTORY: Final = Operation(
    method="get",
    path=f"{PREFIX}/runs/{{id}}/history",
    summary="What everybody saw in one of the runs, as JSON lines: what the judges judged",
    media_type=NDJSON,
    query=_WHICH,
    refusals=("404", "422"),
)
TRACE: Final = Operation(
    method="get",
    path=f"{PREFIX}/runs/{{id}}/trace",
    summary="The whole trace of one of the runs, as JSON lines",
    media_type=NDJSON,
    query=_WHICH,
    refusals=("404", "422"),
)
OPERATIONS: Final = (LIST, SHOW, RUN, RUNS, RESULT, HISTORY, TRACE)


class _Request:
    """A request to run a scenario, while it is carried out and afterwards."""

    def __init__(self, request_id: str, plan: Sequence[Telling], seed: int) -> None:
        self.id = request_id
        self.plan = plan
        self.seed = seed
        self.results: list[RunResult] = []
        self.error: str | None = None
        self.has_ended = False
        self._waiting: list[asyncio.Future[None]] = []

    def end(self) -> None:
        """Tell who waits."""
        self.has_ended = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, clock: Clock, wait_ms: int) -> None:
        """Wait for the end, but not longer."""
        if self.has_ended or wait_ms == 0:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = clock.call_later(
            wait_ms, lambda: None if waiter.done() else waiter.set_result(None)
        )
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.remove(waiter)

    def view(self) -> RunsView:
        """As the control port shows it."""
        ended = self.has_ended
        state = "running" if not ended else "failed" if self.error else "done"
        good = all(one.as_declared for one in self.results)
        return RunsView(
            id=self.id,
            scenario=self.plan[0].scenario.name,
            state=state,
            done=len(self.results),
            of=len(self.plan),
            as_declared=good and self.error is None if ended else None,
            error=self.error,
            runs=tuple(_run(one) for one in self.results),
        )


class ScenarioRoutes:
    """The routes; the runs of one control port."""

    def __init__(self, cluster: SimCluster) -> None:
        self._environment = cluster.environment
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scenario")
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scenario-files")
        self._turn = asyncio.Lock()
        self._requests: dict[str, _Request] = {}
        self._ids = count(1)

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            LIST.route(self.scenarios),
            SHOW.route(self.scenario),
            RUN.route(self.run),
            RUNS.route(self.runs),
            RESULT.route(self.result),
            HISTORY.route(self.history),
            TRACE.route(self.trace),
        ]

    def close(self) -> None:
        """The control port closes: the run that is being told ends by itself."""
        for thread in (self._thread, self._reader):
            thread.shutdown(wait=False, cancel_futures=True)

    async def scenarios(self, _request: Request) -> Response:
        """Every shipped one."""
        return as_json(
            [
                ScenarioView(
                    name=one.name, aliases=one.aliases, title=one.title, runs=_declared(one)
                )
                for one in (await self._read(scenarios)).values()
            ]
        )

    async def scenario(self, request: Request) -> Response:
        """One in full."""
        path, one = await self._read(partial(_shipped, str(request.path_params["name"])))
        return as_json(
            ScenarioText(
                name=one.name,
                aliases=one.aliases,
                title=one.title,
                goal=one.goal,
                method=one.method,
                symptoms=one.symptoms,
                sources=one.sources,
                runs=_declared(one),
                yaml=path.read_text("utf-8"),
            )
        )

    async def run(self, request: Request) -> Response:
        """Begin, and wait a while for the end."""
        wait_ms = number_of(request, "wait_ms", default=WAIT_MS, least=0, most=WAIT_MS_MAX)
        wanted = await body_of(request, RunScenario)
        plan = await self._read(partial(_plan, wanted))
        if not 0 <= wanted.seed <= SEED_MAX:
            raise RefusedError(422, f"seed is {wanted.seed}, expected 0 to {SEED_MAX}")
        self._make_room()
        one = _Request(str(next(self._ids)), plan, wanted.seed)
        self._requests[one.id] = one
        self._environment.tasks.spawn(self._carry_out(one), name=f"scenario-run-{one.id}")
        return await self._answer(one, wait_ms)

    async def runs(self, _request: Request) -> Response:
        """The latest requests."""
        return as_json([one.view() for one in self._requests.values()])

    async def result(self, request: Request) -> Response:
        """How far one is."""
        wait_ms = number_of(request, "wait_ms", default=0, least=0, most=WAIT_MS_MAX)
        return await self._answer(self._known(request), wait_ms)

    async def history(self, request: Request) -> Response:
        """What everybody saw."""
        return Response(self._chosen(request).history, media_type=NDJSON)

    async def trace(self, request: Request) -> Response:
        """What happened."""
        return Response(self._chosen(request).trace, media_type=NDJSON)

    # Running

    async def _read(self, reading: Callable[[], _T]) -> _T:
        """What ``reading`` returns, in the thread for files."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, reading)

    async def _carry_out(self, one: _Request) -> None:
        from txnsim.scenario.runner import tell_virtual

        loop = asyncio.get_running_loop()
        try:
            async with self._turn:
                for telling in one.plan:
                    tell = partial(tell_virtual, telling, seed=one.seed)
                    one.results.append(await loop.run_in_executor(self._thread, tell))
        except Exception as error:  # noqa: BLE001 - a bug in a story is its caller's answer, and logged
            _log.error("scenario run failed", run=one.id, exc_info=error)
            one.error = f"{type(error).__name__}: {error}"
        finally:
            one.end()

    async def _answer(self, one: _Request, wait_ms: int) -> Response:
        await one.wait(self._environment.clock, wait_ms)
        return as_json(one.view(), status=200 if one.has_ended else 202)

    def _make_room(self) -> None:
        if len(self._requests) < TELLINGS_KEPT_MAX:
            return
        for key, one in self._requests.items():
            if one.has_ended:
                del self._requests[key]
                return
        raise RefusedError(409, f"{TELLINGS_KEPT_MAX} runs are waiting: wait for GET {PREFIX}/runs")

    # Finding

    def _known(self, request: Request) -> _Request:
        request_id = str(request.path_params["id"])
        one = self._requests.get(request_id)
        if one is None:
            raise RefusedError(
                404, f"there is no run {request_id!r}; GET {PREFIX}/runs lists the latest"
            )
        return one

    def _chosen(self, request: Request) -> RunResult:
        one = self._known(request)
        label = request.query_params.get("run")
        take = request.query_params.get("take", "armed")
        found = [
            result for result in one.results if label in (None, result.run) and take == result.take
        ]
        if len(found) != 1:
            there = ", ".join(f"{result.run} {result.take}" for result in one.results)
            raise RefusedError(
                422, f"name one run by run and take; ended so far: {there or 'none'}"
            )
        return found[0]


# Reading, in a thread


def _plan(wanted: RunScenario) -> list[Telling]:
    from txnsim.scenario.runner import Telling

    scenario = _wanted(wanted)
    for label in wanted.runs:
        if label not in scenario.runs:
            raise RefusedError(
                422, f"{scenario.name} has no run {label!r}, only {', '.join(scenario.runs)}"
            )
    for take in wanted.takes:
        if take not in TAKES:
            raise RefusedError(422, f"take is {take!r}, expected one of {', '.join(TAKES)}")
    plan = [
        Telling(scenario=scenario, run=label, take=take)
        for label in dict.fromkeys(wanted.runs or scenario.runs)
        for take in dict.fromkeys(wanted.takes)
        if take in scenario.takes
    ]
    if not plan:
        raise RefusedError(
            422, f"{scenario.name} has no {' or '.join(wanted.takes) or 'take'} to run"
        )
    return plan


def _wanted(wanted: RunScenario) -> Scenario:
    from txnsim.scenario.reading import read

    if (wanted.name is None) == (wanted.yaml is None):
        raise RefusedError(422, "give a name or the yaml of a scenario, one of both")
    if wanted.name is not None:
        return _shipped(wanted.name)[1]
    assert wanted.yaml is not None
    try:
        return read(POSTED, wanted.yaml)
    except ConfigError as error:
        raise RefusedError(422, str(error)) from error


def _shipped(name: str) -> tuple[Path, Scenario]:
    # A path of this machine is for the command line, not for whoever reaches the port.
    known = {
        own.lower(): (path, one)
        for path, one in scenarios().items()
        for own in (one.name, *one.aliases)
    }
    found = known.get(name.lower())
    if found is None:
        raise RefusedError(404, f"there is no scenario {name!r}; GET {PREFIX}/scenarios lists them")
    return found


# Views


def _declared(scenario: Scenario) -> dict[str, str]:
    return {label: _words(run.verdict) for label, run in scenario.runs.items()}


def _run(result: RunResult) -> RunView:
    verdict: Finding = result.verdict
    return RunView(
        run=result.run,
        mode=result.mode,
        take=result.take,
        expected=_words(verdict.expected),
        observed=_words(verdict.observed),
        verdict=verdict.observed,
        because=verdict.because,
        cured=None if result.cured is None else _words(result.cured.observed),
        as_declared=result.as_declared,
        duration_ms=result.duration_ms,
    )


def _words(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) or HEALTHY
