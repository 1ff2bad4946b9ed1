"""Scenarios through the control port: those that are shipped, and any that is posted as YAML.

Each run plays in virtual time, in a cluster and a process of its own, one after the other; the
brokers serve clients meanwhile. Where the system can't fork, it plays in a thread
(``run_players``). A client waits for a while, or asks again. Files are read in a thread, because
that takes longer than a broker may wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from txnsim.errors import ConfigError
from txnsim.http.operation import PREFIX, Noun, Operation, Query
from txnsim.http.replies import Body, OptionalBody, RefusedError, WithStatus, number_of
from txnsim.http.work_thread import WorkThread
from txnsim.loggers import Logger
from txnsim.runtime.environment import Environment
from txnsim.trace.trace_file import Recording
from txnsim_lab.http._runs.lessons import lesson_of
from txnsim_lab.http._runs.posted_runs import PostedRun, result_of
from txnsim_lab.http._runs.run_players import ReplayedPlayer, RunPlayer
from txnsim_lab.http._runs.run_requests import RunRequest, RunsView, Stop, words_of
from txnsim_lab.scenario.catalog import scenario_of_name, scenarios
from txnsim_lab.scenario.driver_commands import (
    MODULE,
    Back,
    Command,
    Drive,
    Go,
    Input,
    Order,
    RunEnded,
    RunFailed,
    RunStopped,
    encode,
    to_state,
)
from txnsim_lab.scenario.forked_processes import HAS_FORK, ForkServer, ProcessEndedError
from txnsim_lab.trace.findings import Finding, findings
from txnsim_lab.trace.run_difference import RunDifference, run_difference

if TYPE_CHECKING:
    from txnsim_lab.scenario.model import Scenario
    from txnsim_lab.scenario.runner import RunResult, ScenarioRun


_log: Final = Logger("txnsim.http")

WAIT_MS: Final = 10_000
WAIT_MS_MAX: Final = 300_000
SEED_DEFAULT: Final = 1
SEED_MAX: Final = 2**63 - 1
RUNS_KEPT_MAX: Final = 50
"""So many requests to run are remembered; the oldest that has ended is dropped."""
NDJSON: Final = "application/x-ndjson"
YAML: Final = "application/yaml"
POSTED: Final = "posted.yaml"
"""What messages call a scenario that was posted."""
TAKES: Final = ("armed", "disarmed", "control")

_T = TypeVar("_T")


# Driven runs: each in a process of its own. It stops before a step, takes inputs,
# and can go back exactly (``scenario.driven_run``).

DRIVEN_MAX: Final = 8
"""So many driven runs exist at once: each is a process with its checkpoints."""
STEPS_MAX: Final = 1_000


class GoOn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Continue the scenario."""

    steps: int | None = None
    """Number of steps to run; None: to the end."""


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input before the next step."""

    step: Mapping[str, Any]
    """A step, as in the file of a scenario (docs/writing-scenarios.md)."""


class GoBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Return to an earlier stop."""

    stops: int = 1


class DrivenRun(RunRequest):
    """A request for a driven run. ``has_ended`` tells that it waits at a step, or at its end."""

    _player: RunPlayer | None = None
    _state: RunStopped | RunEnded | None = None
    _refusal: str | None = None
    is_cancelled = False

    @property
    def is_over(self) -> bool:
        return self.is_cancelled or self.error is not None

    @property
    def may_obey(self) -> bool:
        """Whether the run takes a command now."""
        return self.has_ended and not self.is_over

    @property
    def state(self) -> str:
        """As ``RunsView.state``."""
        if self.is_cancelled:
            return "cancelled"
        state = super().state
        return "paused" if state == "done" and isinstance(self._state, RunStopped) else state

    @property
    def stop(self) -> Stop | None:
        """As ``RunsView.at``."""
        if self._state is None:
            return None
        return Stop(
            next=self._state.next if isinstance(self._state, RunStopped) else None,
            back=self._state.back,
            inputs=self._state.inputs,
            error=self._refusal or self._state.error,
        )

    def trace_of(self, label: str | None, take: str) -> bytes:
        """The trace up to the present step."""
        if isinstance(self._state, RunStopped):
            (scenario_run,) = self.plan
            if label not in (None, scenario_run.run) or take != scenario_run.take:
                raise RefusedError(422, f"the run is {scenario_run.run} {scenario_run.take}")
            return self._state.trace
        return super().trace_of(label, take)

    async def begin(
        self, start_player: Callable[[], Awaitable[RunPlayer]], run_order: Order
    ) -> None:
        """Start the process of the run."""
        try:
            self._player = await start_player()
        except ProcessEndedError as error:
            self.error = str(error)
            self.end()
            return
        if self.is_cancelled:
            self._player.kill()
            return
        await self.obey(run_order)

    async def obey(self, command: Command | Order) -> None:
        """Send a command, and take over its result."""
        assert self._player is not None
        refusal: str | None = None
        try:
            await self._player.send(encode(command))
            while isinstance(state := to_state(await self._player.hear()), RunFailed):
                # A Failed is followed by where the run stands, unless it has ended.
                refusal = state.error
        except ProcessEndedError as process_ended:
            if not self.is_cancelled:
                self.error = refusal or str(process_ended)
            self.end()
            return
        self._refusal, self._state = refusal, state
        self.results = [] if isinstance(state, RunStopped) else [result_of(state.result)]
        self.end()

    def cancel(self) -> None:
        """End the run in any state."""
        if not self.is_over:
            self.is_cancelled = True
        if self._player is not None:
            self._player.kill()
        self.end()


class ScenarioView(msgspec.Struct, frozen=True, kw_only=True):
    """A shipped scenario in short."""

    name: str
    aliases: tuple[str, ...]
    title: str
    goal: str
    runs: Mapping[str, str]
    """Label of each run -> its declared verdict."""


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
    """The text of the file."""


class RunScenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a scenario: by its name or alias, or as posted."""

    name: str | None = None
    yaml: str | None = None
    """Instead of a name: the text of a scenario (docs/writing-scenarios.md)."""
    runs: tuple[str, ...] = ()
    """Labels of the runs; empty for all runs."""
    takes: tuple[str, ...] = ("armed",)
    """``armed``, ``disarmed`` (no fault strikes), ``control``."""
    seed: int = SEED_DEFAULT
    """The seed: the same seed gives the same run, event by event."""
    paused: bool = False
    """Stop before the first step, so that the run can be driven. Needs one run and one take."""
    inputs: tuple[Input, ...] = ()
    """Inputs of a driven run, to repeat it. Needs one run and one take."""
    lesson: str = ""
    """Id of the lesson for which the run is played: the trace then tells when its goal is reached.
    """


_WAIT_QUERY: Final = Query("wait_ms", "Answer 202 after so long")
_driving_operation: Final = partial(
    Operation, "post", may_take_longer=True, query=(_WAIT_QUERY,), refusals=("404", "409", "422")
)
"""What drives a run, on a path."""
_RUN_QUERIES: Final = (
    Query("run", "Label of the run; the only one unless given", "string"),
    Query("take", "armed unless given", "string"),
)


class ScenarioRoutes(Noun):
    """The routes for scenarios, and the runs that they have started."""

    def __init__(self, environment: Environment, fork_server: ForkServer | None = None) -> None:
        """Args:
        environment: Of the control port: its clock and its tasks.
        fork_server: The helper of driven runs, if it was forked already.
        """
        self._environment = environment
        self._player_thread = WorkThread("scenario")
        self._file_thread = WorkThread("scenario-files")
        self._run_lock = asyncio.Lock()
        self._requests: dict[str, RunRequest] = {}
        self._fork_thread = WorkThread("scenario-helper")
        self._fork_server = fork_server or ForkServer(MODULE)
        self._has_fork_server = fork_server is not None
        self._is_closed = False
        self._run_ids = count(1)

    def close(self) -> None:
        """Stop, as the control port closes. A run that is being played ends by itself."""
        self._is_closed = True
        for run_request in self._requests.values():
            if isinstance(run_request, DrivenRun | PostedRun):
                run_request.cancel()
        if self._has_fork_server:
            self._fork_server.close()
        for work_thread in (self._player_thread, self._file_thread, self._fork_thread):
            work_thread.close()

    @Operation("get", f"{PREFIX}/scenarios")
    async def scenarios(self, _request: Request) -> list[ScenarioView]:
        """List every scenario that is shipped, with the declared verdict of each of its runs."""
        return [
            ScenarioView(
                name=shipped_scenario.name,
                aliases=shipped_scenario.aliases,
                title=shipped_scenario.title,
                goal=shipped_scenario.goal,
                runs=_declared_verdicts(shipped_scenario),
            )
            for shipped_scenario in (await self._read_files(scenarios)).values()
        ]

    @Operation("get", f"{PREFIX}/scenarios/{{name}}", refusals=("404",))
    async def scenario(self, request: Request) -> ScenarioText:
        """Show a scenario: goal, method, sources, and its file."""
        scenario_path, shipped_scenario = await self._read_files(
            partial(_shipped_scenario, str(request.path_params["name"]))
        )
        return ScenarioText(
            name=shipped_scenario.name,
            aliases=shipped_scenario.aliases,
            title=shipped_scenario.title,
            goal=shipped_scenario.goal,
            method=shipped_scenario.method,
            symptoms=shipped_scenario.symptoms,
            sources=shipped_scenario.sources,
            runs=_declared_verdicts(shipped_scenario),
            yaml=scenario_path.read_text("utf-8"),
        )

    @Operation(
        "post",
        f"{PREFIX}/runs",
        may_take_longer=True,
        query=(Query("wait_ms", f"Answer 202 after so long; {WAIT_MS} unless given"),),
        refusals=("404", "409", "422"),
    )
    async def run(self, request: Request, body: Body[RunScenario]) -> WithStatus[RunsView]:
        """Run a scenario in virtual time, in a cluster of its own."""
        wait_ms = number_of(request, "wait_ms", default=WAIT_MS, minimum=0, maximum=WAIT_MS_MAX)
        asked_run = await body.read()
        plan = await self._read_files(partial(_plan_runs, asked_run))
        if not 0 <= asked_run.seed <= SEED_MAX:
            raise RefusedError(422, f"seed is {asked_run.seed}, expected 0 to {SEED_MAX}")
        self._make_room()
        if asked_run.paused or asked_run.inputs:
            return await self._answer_with_view(await self._begin_driven(plan, asked_run), wait_ms)
        posted_run = PostedRun(str(next(self._run_ids)), plan, asked_run.seed)
        self._requests[posted_run.id] = posted_run
        story_yaml = await self._read_files(partial(_yaml_of, asked_run))
        self._environment.tasks.spawn(
            self._carry_out(posted_run, story_yaml), name=f"scenario-run-{posted_run.id}"
        )
        return await self._answer_with_view(posted_run, wait_ms)

    @_driving_operation(f"{PREFIX}/runs/{{id}}/go")
    async def go(self, request: Request, body: OptionalBody[GoOn]) -> WithStatus[RunsView]:
        """Let a driven run go on: by some steps of its story, or to its end."""
        go_request = await body.read()
        if go_request.steps is not None and not 1 <= go_request.steps <= STEPS_MAX:
            raise RefusedError(422, f"steps is {go_request.steps}, expected 1 to {STEPS_MAX}")
        return await self._send_command(request, Go(steps=go_request.steps))

    @_driving_operation(f"{PREFIX}/runs/{{id}}/inputs")
    async def drive(self, request: Request, body: Body[Act]) -> WithStatus[RunsView]:
        """Give a driven run an input before its next step: a fault, a call, an action on a broker,
        time.
        """
        return await self._send_command(request, Drive(step=(await body.read()).step))

    @_driving_operation(f"{PREFIX}/runs/{{id}}/back")
    async def back(self, request: Request, body: OptionalBody[GoBack]) -> WithStatus[RunsView]:
        """Take a driven run back to an earlier stop, exactly. What came after it is forgotten."""
        back_request = await body.read()
        if not 1 <= back_request.stops <= STEPS_MAX:
            raise RefusedError(422, f"stops is {back_request.stops}, expected 1 to {STEPS_MAX}")
        return await self._send_command(request, Back(count=back_request.stops))

    @Operation("delete", f"{PREFIX}/runs/{{id}}", status="204", refusals=("404", "409"))
    async def cancel(self, request: Request) -> Response:
        """End a run, in any state."""
        run_request = self._run_request_of(request)
        if isinstance(run_request, DrivenRun) or (isinstance(run_request, PostedRun) and HAS_FORK):
            run_request.cancel()
            return Response(status_code=204)
        raise RefusedError(409, f"run {run_request.id} is played in a thread, which can't be ended")

    @Operation("get", f"{PREFIX}/runs")
    async def runs(self, _request: Request) -> list[RunsView]:
        """List the latest requests to run scenarios."""
        return [run_request.view() for run_request in self._requests.values()]

    @Operation(
        "get",
        f"{PREFIX}/runs/{{id}}",
        may_take_longer=True,
        query=(Query("wait_ms", "Wait so long for its end; not at all unless given"),),
        refusals=("404", "422"),
    )
    async def result(self, request: Request) -> WithStatus[RunsView]:
        """Show the progress and the results of a request to run scenarios."""
        wait_ms = number_of(request, "wait_ms", default=0, minimum=0, maximum=WAIT_MS_MAX)
        return await self._answer_with_view(self._run_request_of(request), wait_ms)

    @Operation(
        "get",
        f"{PREFIX}/runs/{{id}}/history",
        media_type=NDJSON,
        query=_RUN_QUERIES,
        refusals=("404", "422"),
    )
    async def history(self, request: Request) -> Response:
        """Everything that clients and the onlooker saw in a run, as JSON lines: what the judges
        have judged.
        """
        return Response(
            self._result_of(request, self._run_request_of(request)).history, media_type=NDJSON
        )

    @Operation(
        "get",
        f"{PREFIX}/runs/{{id}}/trace",
        media_type=NDJSON,
        query=_RUN_QUERIES,
        refusals=("404", "422"),
    )
    async def trace(self, request: Request) -> Response:
        """The whole trace of a run, as JSON lines."""
        return Response(self._trace_of(request, self._run_request_of(request)), media_type=NDJSON)

    @Operation(
        "get",
        f"{PREFIX}/runs/{{id}}/findings",
        query=_RUN_QUERIES,
        refusals=("404", "422"),
    )
    async def findings(self, request: Request) -> list[Finding]:
        """What the judges have found in a run, each with the event that shows it."""
        trace = self._trace_of(request, self._run_request_of(request))
        return await self._read_files(lambda: list(findings(_recording_of(trace))))

    @Operation(
        "get",
        f"{PREFIX}/runs/{{id}}/difference",
        query=(
            *_RUN_QUERIES,
            Query("beside", "Id of the request that played the other run", "string"),
            Query("beside_run", "Label of the other run", "string"),
        ),
        refusals=("404", "422"),
    )
    async def difference(self, request: Request) -> RunDifference:
        """Two runs of one story: their steps aligned, and the first one at which they differ."""
        run_request, query = self._run_request_of(request), request.query_params
        trace = self._trace_of(request, run_request)
        other_label, take = query.get("beside_run"), query.get("take", "armed")
        other_request = self._run_request_by_id(query.get("beside", ""))
        other_trace = other_request.trace_of(other_label, take)
        return await self._read_files(
            lambda: run_difference(_recording_of(trace), _recording_of(other_trace))
        )

    @Operation(
        "get",
        f"{PREFIX}/runs/{{id}}/story",
        media_type=YAML,
        query=(
            Query("name", "Of the new story; my-story unless given", "string"),
            Query("verdict", "What the judges will say of it; healthy unless given", "string"),
        ),
        refusals=("404", "409"),
    )
    async def story(self, request: Request) -> Response:
        """A driven run with all its inputs, as the file of a scenario."""
        driven_run = self._driven_run_of(request)
        if driven_run.stop is None:
            raise RefusedError(
                409,
                f"run {driven_run.id} is {driven_run.state}: its story is written only while "
                "it waits at a step, or at its end",
            )
        story_name = request.query_params.get("name", "my-story")
        verdict = request.query_params.get("verdict", "healthy")
        write_story = partial(
            _story_of, driven_run.plan[0], driven_run.stop.inputs, story_name, verdict
        )
        return Response(await self._read_files(write_story), media_type=YAML)

    def trace_of(self, request: Request) -> bytes | None:
        """The trace of the run that the parameters ``of``, ``run`` and ``take`` of a request name;
        None without ``of``.

        Raises:
            RefusedError: There is no such run.
        """
        request_id = request.query_params.get("of")
        if request_id is None:
            return None
        return self._trace_of(request, self._run_request_by_id(request_id))

    def warm_up(self) -> None:
        """Start the helper process of driven runs, so that the first run begins at once."""
        if self._has_fork_server or not HAS_FORK:
            return
        self._has_fork_server = True

        async def start_helper() -> None:
            if self._is_closed:
                return
            with contextlib.suppress(
                asyncio.CancelledError, ProcessEndedError
            ):  # closed before it was ready
                await self._fork_thread.do(self._fork_server.warm_up)

        self._environment.tasks.spawn(start_helper(), name="scenario-helper")

    # Running

    async def _begin_driven(self, plan: Sequence[ScenarioRun], asked_run: RunScenario) -> DrivenRun:
        if len(plan) != 1:
            raise RefusedError(
                422,
                f"a driven run needs one run and one take, but {len(plan)} are selected: name them",
            )
        open_runs = [
            driven_run
            for driven_run in self._requests.values()
            if isinstance(driven_run, DrivenRun) and not driven_run.is_over
        ]
        if len(open_runs) >= DRIVEN_MAX:
            raise RefusedError(
                409,
                f"there are {DRIVEN_MAX} driven runs already: end one with "
                f"DELETE {PREFIX}/runs/{open_runs[0].id}",
            )
        if asked_run.lesson:
            await self._read_files(partial(lesson_of, asked_run.lesson))
        driven_run = DrivenRun(str(next(self._run_ids)), plan, asked_run.seed)
        self._requests[driven_run.id] = driven_run
        run_order = Order(
            yaml=await self._read_files(partial(_yaml_of, asked_run)),
            run=plan[0].run,
            take=plan[0].take,
            seed=asked_run.seed,
            paused=asked_run.paused,
            inputs=asked_run.inputs,
            lesson=asked_run.lesson,
        )
        self._environment.tasks.spawn(
            driven_run.begin(self._player, run_order), name=f"driven-run-{driven_run.id}"
        )
        return driven_run

    async def _player(self) -> RunPlayer:
        """Start a player for the next run: a forked process, or a thread."""
        if not HAS_FORK:
            return ReplayedPlayer(self._player_thread)
        self._has_fork_server = True
        return await self._fork_thread.do(self._fork_server.begin)

    async def _send_command(self, request: Request, command: Command) -> WithStatus[RunsView]:
        wait_ms = number_of(request, "wait_ms", default=WAIT_MS, minimum=0, maximum=WAIT_MS_MAX)
        driven_run = self._driven_run_of(request)
        if not driven_run.may_obey:
            raise RefusedError(
                409,
                f"run {driven_run.id} is {driven_run.state}: it takes commands only while it "
                "waits at a step, or at its end",
            )
        driven_run.has_ended = False
        self._environment.tasks.spawn(driven_run.obey(command), name=f"driven-run-{driven_run.id}")
        return await self._answer_with_view(driven_run, wait_ms)

    async def _read_files(self, read_call: Callable[[], _T]) -> _T:
        """Call ``read_call`` in the thread for files, and return its result."""
        return await self._file_thread.do(read_call)

    async def _carry_out(self, posted_run: PostedRun, story_yaml: str) -> None:
        run_orders = (
            Order(yaml=story_yaml, run=planned_run.run, take=planned_run.take, seed=posted_run.seed)
            for planned_run in posted_run.plan
        )
        try:
            async with self._run_lock:
                await posted_run.carry_out(self._player, run_orders, self._environment.clock)
        except Exception as error:  # noqa: BLE001 - a bug in a story is its caller's answer, and logged
            _log.error("scenario run failed", run=posted_run.id, exc_info=error)
            posted_run.error = f"{type(error).__name__}: {error}"
        finally:
            posted_run.end()

    async def _answer_with_view(
        self, run_request: RunRequest, wait_ms: int
    ) -> WithStatus[RunsView]:
        await run_request.wait(self._environment.clock, wait_ms)
        return WithStatus(run_request.view(), 200 if run_request.has_ended else 202)

    def _make_room(self) -> None:
        if len(self._requests) < RUNS_KEPT_MAX:
            return
        for request_id, run_request in self._requests.items():
            if run_request.is_over:
                del self._requests[request_id]
                return
        raise RefusedError(
            409,
            f"{RUNS_KEPT_MAX} requests are waiting: wait for one of GET {PREFIX}/runs to end",
        )

    # Finding

    def _run_request_of(self, request: Request) -> RunRequest:
        return self._run_request_by_id(str(request.path_params["id"]))

    def _run_request_by_id(self, request_id: str) -> RunRequest:
        run_request = self._requests.get(request_id)
        if run_request is None:
            raise RefusedError(
                404, f"there is no run {request_id!r}; GET {PREFIX}/runs lists the latest"
            )
        return run_request

    def _driven_run_of(self, request: Request) -> DrivenRun:
        run_request = self._run_request_of(request)
        if not isinstance(run_request, DrivenRun):
            raise RefusedError(
                409, f'run {run_request.id} is not driven: start it with {{"paused": true}}'
            )
        return run_request

    def _result_of(self, request: Request, run_request: RunRequest) -> RunResult:
        take = request.query_params.get("take", "armed")
        return run_request.choose_result(request.query_params.get("run"), take)

    def _trace_of(self, request: Request, run_request: RunRequest) -> bytes:
        take = request.query_params.get("take", "armed")
        return run_request.trace_of(request.query_params.get("run"), take)


# Reading, in a thread


def _recording_of(trace: bytes) -> Recording:
    return Recording.from_lines("the run", trace.splitlines())


def _story_of(
    scenario_run: ScenarioRun, inputs: Sequence[Input], story_name: str, verdict: str
) -> str:
    from txnsim_lab.scenario.saved_story import story_with_inputs

    return story_with_inputs(
        scenario_run.scenario,
        scenario_run.run,
        scenario_run.take,
        inputs,
        story_name=story_name,
        verdict=verdict,
    )


def _plan_runs(asked_run: RunScenario) -> list[ScenarioRun]:
    from txnsim_lab.scenario.runner import ScenarioRun

    scenario = _scenario_of(asked_run)
    for run_label in asked_run.runs:
        if run_label not in scenario.runs:
            raise RefusedError(
                422, f"{scenario.name} has no run {run_label!r}, only {', '.join(scenario.runs)}"
            )
    for take in asked_run.takes:
        if take not in TAKES:
            raise RefusedError(422, f"take is {take!r}, expected one of {', '.join(TAKES)}")
    plan = [
        ScenarioRun(scenario=scenario, run=run_label, take=take)
        for run_label in dict.fromkeys(asked_run.runs or scenario.runs)
        for take in dict.fromkeys(asked_run.takes)
        if take in scenario.takes
    ]
    if not plan:
        raise RefusedError(
            422, f"{scenario.name} has no {' or '.join(asked_run.takes) or 'take'} to run"
        )
    return plan


def _scenario_of(asked_run: RunScenario) -> Scenario:
    from txnsim_lab.scenario.scenario_reader import read

    if (asked_run.name is None) == (asked_run.yaml is None):
        raise RefusedError(422, "give either the name or the yaml of a scenario")
    if asked_run.name is not None:
        return _shipped_scenario(asked_run.name)[1]
    assert asked_run.yaml is not None
    try:
        return read(POSTED, asked_run.yaml)
    except ConfigError as error:
        raise RefusedError(422, str(error)) from error


def _yaml_of(asked_run: RunScenario) -> str:
    if asked_run.yaml is not None:
        return asked_run.yaml
    assert asked_run.name is not None
    return _shipped_scenario(asked_run.name)[0].read_text("utf-8")


def _shipped_scenario(scenario_name: str) -> tuple[Path, Scenario]:
    # A path of this machine is for the command line, not for callers of the port.
    file_and_scenario = scenario_of_name(scenario_name)
    if file_and_scenario is None:
        raise RefusedError(
            404, f"there is no scenario {scenario_name!r}; GET {PREFIX}/scenarios lists them"
        )
    return file_and_scenario


# Views


def _declared_verdicts(scenario: Scenario) -> dict[str, str]:
    return {label: words_of(run.verdict) for label, run in scenario.runs.items()}
