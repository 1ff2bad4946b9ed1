"""Plays a plan in virtual time, and judges the run. Each track acts independently of the others,
and an error does not end the run. When all tracks are done, or the time is up, all faults are
healed, and the cluster gets the time that a healthy one needs to settle. Then it is observed twice
from outside, as at the end of a story.
"""

from __future__ import annotations

import _weakrefset
import asyncio
import contextlib
import hashlib
import logging
import signal
import threading
import traceback
import warnings
import weakref
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from txnsim.client.backoff import Deadline, pause
from txnsim.client.group_requests import GroupMetadata
from txnsim.errors import ClientError, ConfigError, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.loggers import before_first_line
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition
from txnsim_lab.check.history import HistoryError
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import Outcome, PositionsRead, ShareFetched
from txnsim_lab.scenario.actors.base import Surroundings, group_metadata
from txnsim_lab.scenario.call_results import NONE, CallResult, StoryFailedError, failure
from txnsim_lab.scenario.fields import RunSelection
from txnsim_lab.scenario.final_observation import observe_twice
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.recorder import Recorder
from txnsim_lab.scenario.runner import ScenarioRun, casts_of
from txnsim_lab.scenario.stage import LOOKER_NAME, RunningStory, open_story, simulated_target
from txnsim_lab.scenario.steps import act, expected_error, make_call
from txnsim_lab.scenario.steps_model import Call, Step
from txnsim_lab.simulation._broker_promises import BrokenPromise, broken_promises
from txnsim_lab.simulation._client_behaviour import OPERATOR_NAME, READER_NAME
from txnsim_lab.simulation._curious_client import ASK_KEY, Curious
from txnsim_lab.simulation._further_features import EXPIRATION_SETTINGS, MONITOR_ACTOR
from txnsim_lab.simulation._invariants import violations
from txnsim_lab.simulation._running_invariants import MomentChecks
from txnsim_lab.simulation.guests import Guest, count_commit_markers, end_of, workload_named
from txnsim_lab.simulation.plan import RUN_NAME, Act, Plan, StepBody, Track, scenario_of
from txnsim_lab.target.simulated import SimulatedTarget

HORIZON_MS: Final = 240_000
"""Time of the run at which everything is healed, even if actors still act."""
UNFINISHED_CALLS_LIMIT_MS: Final = 420_000
"""Time left to unfinished calls: longer than a rebalance waits for a member that beats and does not
poll (``max.poll.interval.ms``, 300 s), and than any timeout of a client.
"""
HEALING_MS: Final = 60_000
SETTLING_MS: Final = 30_000
"""Pause before the clock jumps, in which replicas catch up and delayed work is retried."""
DRAINING_POLLS_MAX: Final = 500
EMPTY_POLLS: Final = 3
"""This number of empty polls in a row ends the draining of a share group."""
FIRST_UNIT: Final = 0
"""Number of the unit with the acts that an actor needs before all others."""
ATTEMPTS_MAX: Final = 10
ATTEMPT_PAUSE_MS: Final = 2_000
CRASH_KIND: Final = "crash"
"""Kind of a finding: our own code raised an exception."""
UNSETTLED_KIND: Final = "unsettled"
"""Kind of a finding: everything is healed, but the cluster does not answer or settle."""
OVER_LIMIT_KIND: Final = "over-limit"
"""Kind of a finding: the run took more processor time than allowed."""
WORKLOAD_ACTOR: Final = "workload"
_HARMLESS_ERRORS: Final = (ClientError, StoryFailedError, ConfigError)
"""Errors of actors that are no findings."""


class Finding(msgspec.Struct, frozen=True):
    """A violation: its kind, and the reason."""

    kind: str
    because: str


class PlayedAct(msgspec.Struct, frozen=True, omit_defaults=True):
    """An act that was played, with its answer."""

    at_us: int
    """Time when the act began, in microseconds from the start of the run."""
    took_us: int
    who: str
    step: StepBody
    error: str
    leaders: dict[str, int]
    """Leader of each partition when the act begins; 0 if there is none."""
    states: dict[str, str]
    """State of each transactional id at its coordinator when the act begins."""
    answer_digest: str = msgspec.field(default="", name="told")
    """A digest of the answer, for answers that no client reads."""


class CoverageCell(msgspec.Struct, frozen=True, order=True):
    """A cell of the coverage map: state of the transaction, request, and outcome."""

    state: str
    """State of the transaction at its coordinator; "" without a transaction."""
    request: str = msgspec.field(name="asked")
    outcome: str


class PlayedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run from a seed did: findings, acts, the cells it covered, and its history."""

    findings: tuple[Finding, ...]
    acts: tuple[PlayedAct, ...]
    cells: dict[CoverageCell, int]
    virtual_ms: int
    digest: str
    """Digest over every act, its time and answer; equal for equal runs."""
    guest_commit_count: int = 0
    """Number of commit markers in the topics, if a user's workload was played."""
    history: bytes = b""
    trace: bytes = b""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind of finding once, in order."""
        return tuple(sorted({finding.kind for finding in self.findings}))


class Director(Protocol):
    """Decides in which order the messages of a run arrive, and when its faults begin."""

    async def take_over(self, running_story: RunningStory, target: SimulatedTarget) -> None:
        """Called before the first act."""

    async def before_act(self, track: Track, act: Act) -> None:
        """Called before each act of a track, which begins when this returns."""

    async def until_all_arrived(self) -> None:
        """Called when all tracks have ended; returns when nothing is on its way any more."""


def play(
    plan: Plan,
    *,
    trace_level: TraceLevel = TraceLevel.OFF,
    cpu_s: float | None = None,
    director: Director | None = None,
) -> PlayedRun:
    """Play a plan and judge the run.

    Args:
        plan: The plan.
        trace_level: How much the trace records; the run does not depend on it.
        cpu_s: Limit of processor time in seconds; None for no limit.
        director: Decides in which order messages arrive; None for drawn latencies.

    Raises:
        ConfigError: The cluster can't be configured as the plan needs, or the workload can't be
            imported.
    """
    scenario = scenario_of(plan)
    playing_run = _PlayingRun(plan, scenario, director)
    world = plan.world
    limit_findings: list[Finding] = []
    try:
        with processor_limit(cpu_s) as limit:
            run_virtual(
                playing_run.whole,
                seed=plan.seed,
                latency_us=world.latency_us,
                peer_latency_us=world.peer_latency_us if director is None else None,
                trace_level=trace_level,
            )
    except ConfigError:
        raise
    except (Exception, OverLimitError, BaseExceptionGroup) as error:  # noqa: BLE001 - a finding
        limit_findings.append(Finding(CRASH_KIND, _error_text(error)))
    if limit.is_over:
        limit_findings = [
            Finding(OVER_LIMIT_KIND, f"it took more than {cpu_s:g} s of processor time")
        ]
    return playing_run.to_played_run(limit_findings)


def _error_text(error: BaseException) -> str:
    """An error in one line, including the errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_error_text(inner_error) for inner_error in error.exceptions)
    return f"{type(error).__name__}: {error}"


def quieten() -> None:
    """Turn off the log of brokers in this process: the result of a run says enough."""

    def configure() -> None:
        import structlog

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    before_first_line(configure)


class _PlayingRun:
    """The state of one run while it is played."""

    def __init__(self, plan: Plan, scenario: Scenario, director: Director | None) -> None:
        self.plan = plan
        self._director = director
        self._scenario = scenario
        self._steps = {
            id(act): _step_of_act(act)
            for track in plan.tracks
            for act in track.acts
            if ASK_KEY not in act.step
        }
        self._guest = None if plan.workload is None else workload_named(plan.workload)
        self._is_over = False
        self._played_acts: list[PlayedAct] = []
        self._cells: Counter[CoverageCell] = Counter()
        self._findings: list[Finding] = []
        self._shared_findings: list[Finding] = []
        self._deletes_topics = _deletes_topics(plan)
        self._remembered_fields: PartitionsByGeneration = {}
        self._curious: Curious | None = None
        self._moments: MomentChecks | None = None
        self._recorder: Recorder | None = None
        self._environment: VirtualEnvironment | None = None
        self._start_us = 0
        self._virtual_ms = 0
        self._guest_commit_count = 0

    def to_played_run(self, limit_findings: Iterable[Finding]) -> PlayedRun:
        history, trace = b"", b""
        findings = [*limit_findings, *self._findings, *self._shared_findings]
        if self._recorder is not None:
            history = self._recorder.history.to_lines()
            try:
                anomalies = judge(self._recorder.history).anomalies
                findings += [Finding(str(anomaly.kind), anomaly.because) for anomaly in anomalies]
                promises_broken = broken_promises(
                    self._recorder.history,
                    keeps_positions=_keeps_positions(self.plan),
                    watchers=frozenset({MONITOR_ACTOR}),
                )
                findings += [Finding(*broken_promise) for broken_promise in promises_broken]
            except HistoryError as error:
                findings.append(Finding(CRASH_KIND, f"the history can't be judged: {error}"))
        if self._environment is not None and self._environment.tracer.on:
            lines: list[bytes] = []
            verdict_words = ", ".join(sorted({finding.kind for finding in findings})) or "healthy"
            self._environment.tracer.export(lines.append, verdict=verdict_words)
            trace = b"".join(lines)
        return PlayedRun(
            findings=tuple(findings),
            acts=tuple(self._played_acts),
            cells=dict(sorted(self._cells.items())),
            virtual_ms=self._virtual_ms,
            guest_commit_count=self._guest_commit_count,
            digest=self._digest_run(findings),
            history=history,
            trace=trace,
        )

    def _digest_run(self, findings: list[Finding]) -> str:
        encoded_run = msgspec.json.encode((self._played_acts, findings, self._virtual_ms))
        return hashlib.blake2b(encoded_run, digest_size=8).hexdigest()

    async def whole(self, environment: VirtualEnvironment) -> None:
        """Play the whole run, from the start of the cluster to the last observation."""
        self._environment = environment
        self._start_us = environment.clock.monotonic_us()
        recorder = self._recorder = Recorder(environment.clock, environment.tracer)
        scenario_run = ScenarioRun(scenario=self._scenario, run=RUN_NAME)
        run_selection = RunSelection(run=RUN_NAME, mode=self.plan.world.mode, take="armed")
        try:
            async with (
                simulated_target(
                    self._scenario, self._scenario.runs[RUN_NAME], environment
                ) as target,
                open_story(
                    self._scenario,
                    run_selection,
                    casts=casts_of(scenario_run, Casting(player="own")),
                    target=target,
                    recorder=recorder,
                ) as running_story,
            ):
                await self._play_on_cluster(running_story, target)
        finally:
            self._virtual_ms = (environment.clock.monotonic_us() - self._start_us) // 1_000

    async def _play_on_cluster(self, running_story: RunningStory, target: SimulatedTarget) -> None:
        clock, spawn = target.environment.clock, target.environment.tasks.spawn
        if self._director is not None:
            await self._director.take_over(running_story, target)
        tasks = [
            spawn(
                self._play_track(running_story, target.cluster, track), name=f"track {track_number}"
            )
            for track_number, track in enumerate(self.plan.tracks)
        ]
        if self._guest is not None:
            guest = Guest(
                bootstrap=target.bootstrap,
                environment=target.environment,
                recorder=running_story.recorder,
                client=running_story.around.client,
            )
            tasks.append(spawn(self._play_guest(self._guest(guest)), name=WORKLOAD_ACTOR))
        await _until_done(clock, tasks, HORIZON_MS)
        if self._director is not None:
            await self._director.until_all_arrived()
        self._is_over = True
        await heal(target.cluster)
        await _until_done(clock, tasks, UNFINISHED_CALLS_LIMIT_MS)
        unfinished_tasks = [task.get_name() for task in tasks if not task.done()]
        if unfinished_tasks:
            self._findings.append(
                Finding(UNSETTLED_KIND, f"{', '.join(unfinished_tasks)}: no answer came")
            )
        for task in tasks:
            task.cancel()
        if self._curious is not None:
            await self._curious.close()
        await pause(clock, SETTLING_MS)
        running_story.recorder.note_healing(LOOKER_NAME)
        await _drain_share_groups(running_story, self.plan)
        try:
            await observe_twice(running_story)
            await _look_at_positions(running_story, self.plan)
        except _HARMLESS_ERRORS as error:
            self._findings.append(
                Finding(UNSETTLED_KIND, f"the last look was not answered: {error}")
            )
        self._findings += [Finding(*violation) for violation in violations(target.cluster)]
        if self._guest is not None:
            self._guest_commit_count = count_commit_markers(target.cluster)

    async def _play_guest(self, workload: Awaitable[object]) -> None:
        """Run the user's coroutine; the whole of it counts as one act."""
        assert self._environment is not None
        clock = self._environment.clock
        began_us = clock.monotonic_us()
        error = await end_of(workload)
        self._played_acts.append(
            PlayedAct(
                at_us=began_us - self._start_us,
                took_us=clock.monotonic_us() - began_us,
                who=WORKLOAD_ACTOR,
                step={WORKLOAD_ACTOR: self.plan.workload},
                error=error,
                leaders={},
                states={},
            )
        )
        self._cells[CoverageCell("", WORKLOAD_ACTOR, error)] += 1

    # Tracks

    async def _play_track(
        self, running_story: RunningStory, cluster: SimCluster, track: Track
    ) -> None:
        clock, skipped_unit = running_story.environment.clock, -1
        for drawn_act in track.acts:
            if drawn_act.unit == skipped_unit:
                continue
            if drawn_act.after_ms:
                await pause(clock, drawn_act.after_ms)
            if self._is_over:
                return
            if self._director is not None:
                await self._director.before_act(track, drawn_act)
            answer = await self._perform_act(running_story, cluster, track, drawn_act)
            if answer.error == NONE or _is_other_actors_act(drawn_act):
                continue
            if drawn_act.unit == FIRST_UNIT:
                if not await self._begins_after_all(running_story, cluster, track, drawn_act):
                    return  # without an identity nobody can even do wrong
                continue
            if track.on_error == "go-on":
                continue
            if track.on_error == "leave":
                return
            skipped_unit = drawn_act.unit
            is_unknown = _is_unknown_end(drawn_act, answer)
            if track.on_error == "abort" and not is_unknown:
                abort_answer = await self._perform_act(
                    running_story, cluster, track, _track_call(track, "abort")
                )
                is_unknown = abort_answer.outcome is Outcome.UNKNOWN
            # What is not known to be over must not be gone on with.
            if track.actor is None or track.actor["plays"] != "wire":
                if is_unknown:
                    return
            elif is_unknown or track.on_error == "anew":
                new_begin = _track_call(track, "init-producer-id")
                answer = await self._perform_act(running_story, cluster, track, new_begin)
                if answer.outcome is Outcome.UNKNOWN and not await self._begins_after_all(
                    running_story, cluster, track, new_begin
                ):
                    return

    async def _begins_after_all(
        self, running_story: RunningStory, cluster: SimCluster, track: Track, act: Act
    ) -> bool:
        """Retry an act that the track needs before all others; returns whether it succeeded."""
        for _ in range(ATTEMPTS_MAX):
            await pause(running_story.environment.clock, ATTEMPT_PAUSE_MS)
            if self._is_over:
                return False
            if (await self._perform_act(running_story, cluster, track, act)).error == NONE:
                return True
        return False

    async def _perform_act(
        self, running_story: RunningStory, cluster: SimCluster, track: Track, drawn_act: Act
    ) -> CallResult:
        """Perform one act; an error is its answer."""
        step = (
            None
            if ASK_KEY in drawn_act.step
            else self._steps.get(id(drawn_act)) or _step_of_act(drawn_act)
        )
        call = None if step is None else step.call
        clock = running_story.environment.clock
        began_us = clock.monotonic_us()
        leaders, transaction_states = _leader_by_partition(cluster), _state_by_id(cluster)
        transaction_state = self._transaction_state(transaction_states, track)
        self._findings += [Finding(*violation) for violation in self._note_violations(cluster)]
        position_commit = asked_of_group(running_story.around, cluster, call)
        old_generation_reason, fenced_reason = (
            reason_to_refuse(position_commit, cluster),
            reason_to_fence(position_commit),
        )
        try:
            if step is None:
                self._curious = self._curious or Curious(running_story.around)
                answer = await self._curious.ask(drawn_act.step[ASK_KEY])
            else:
                answer = await play_step(running_story, step)
        except ClientError as error:
            answer = failure(error)
        except StoryFailedError as error:
            answer = CallResult(error=error.error_name or "IN_VAIN", because=str(error))
        except ConfigError as error:
            answer = CallResult(error="IMPOSSIBLE", because=str(error))
        self._played_acts.append(
            PlayedAct(
                at_us=began_us - self._start_us,
                took_us=clock.monotonic_us() - began_us,
                who=track.name,
                step=drawn_act.step,
                error=answer.error,
                leaders=leaders,
                states=transaction_states,
                answer_digest=answer.because if step is None else "",
            )
        )
        self._cells[CoverageCell(transaction_state, drawn_act.request_name, answer.error)] += 1
        if old_generation_reason or fenced_reason:
            # A coordinator that has moved meanwhile may not know the later generation.
            position_commit = asked_of_group(running_story.around, cluster, call)
            if (
                old_generation_reason
                and answer.error == NONE
                and reason_to_refuse(position_commit, cluster)
            ):
                self._findings.append(Finding(OLD_GENERATION_KIND, old_generation_reason))
            if (
                fenced_reason
                and answer.error in UNFENCED_ANSWERS
                and reason_to_fence(position_commit)
            ):
                self._findings.append(Finding(NOT_FENCED_KIND, f"{fenced_reason}: {answer.error}"))
        self._findings += [Finding(*violation) for violation in self._note_violations(cluster)]
        if call is not None and call.do == "read-positions" and answer.error == NONE:
            self._findings += [
                Finding(*violation) for violation in self._early_positions(running_story, call.who)
            ]
        if not self._shared_findings:
            self._shared_findings = self._look_at_shared(running_story, cluster)
        return answer

    def _look_at_shared(self, running_story: RunningStory, cluster: SimCluster) -> list[Finding]:
        """Violations in what the members of a group share."""
        violations = (
            *(() if self._deletes_topics else of_two_members(running_story.around, cluster)),
            *changed_assignments(running_story.around, self._remembered_fields),
        )
        return [Finding(*violation) for violation in violations]

    def _note_violations(self, cluster: SimCluster) -> list[BrokenPromise]:
        if self._moments is None:
            self._moments = MomentChecks(cluster)
        return self._moments.look()

    def _early_positions(self, running_story: RunningStory, actor_name: str) -> list[BrokenPromise]:
        """Violations in the positions that an actor just got, if they are not replicated."""
        assert self._moments is not None
        history = running_story.recorder.history
        observations = (
            history[observation_index] for observation_index in range(len(history) - 1, -1, -1)
        )
        read = next(
            observation
            for observation in observations
            if isinstance(observation, PositionsRead) and observation.who == actor_name
        )
        return self._moments.early_positions(read)

    @staticmethod
    def _transaction_state(state_by_id: Mapping[str, str], track: Track) -> str:
        """State of an actor's transaction; "" if the actor makes no transactions."""
        if track.actor is None or track.actor["plays"] not in ("wire", "application"):
            return ""
        return state_by_id.get(track.actor.get("transactional-id", track.name), "absent")


def _deletes_topics(plan: Plan) -> bool:
    return any(act.step.get("cluster", {}).get("do") == "delete-topic" for act in plan.acts)


def _keeps_positions(plan: Plan) -> bool:
    """Whether positions of groups can't disappear: no topic is deleted, and nothing expires
    soon.
    """
    return not _deletes_topics(plan) and plan.world.settings.keys().isdisjoint(EXPIRATION_SETTINGS)


async def _look_at_positions(running_story: RunningStory, plan: Plan) -> None:
    """Read the final positions of each group."""
    partitions = [
        TopicPartition(topic_name, partition_index)
        for topic_name, topic in plan.world.topics.items()
        for partition_index in range(topic["partitions"])
    ]
    for group in plan.groups:
        admin = await running_story.operator.admin()
        positions = await admin.committed_positions(group, partitions)
        running_story.recorder.note_positions(LOOKER_NAME, group, positions)


async def _drain_share_groups(running_story: RunningStory, plan: Plan) -> None:
    """Let one member of each share group poll and accept until polls are empty. The first poll may
    be empty anyway: it loads the share partition, or finds that its log begins later.
    """
    actor_by_group: dict[str, str] = {}
    for track in plan.tracks:
        if track.actor is not None and track.actor["plays"] == "share-member":
            actor_by_group.setdefault(track.actor["group"], track.name)
    for actor_name in actor_by_group.values():
        await _call_leniently(running_story, actor_name, "subscribe", topics=[*plan.world.topics])
        empty_poll_count = 0
        for _ in range(DRAINING_POLLS_MAX):
            history_length_before = len(running_story.recorder.history)
            await _call_leniently(running_story, actor_name, "poll")
            new_observations = (
                running_story.recorder.history[observation_index]
                for observation_index in range(
                    history_length_before, len(running_story.recorder.history)
                )
            )
            if any(
                isinstance(observation, ShareFetched) and observation.records
                for observation in new_observations
            ):
                empty_poll_count = 0
                await _call_leniently(running_story, actor_name, "acknowledge")
            elif (empty_poll_count := empty_poll_count + 1) == EMPTY_POLLS:
                break


async def _call_leniently(
    running_story: RunningStory, actor_name: str, call_name: str, **call_fields: object
) -> None:
    """Make a call whose errors only go into the history."""
    with contextlib.suppress(ClientError, StoryFailedError):
        await play_step(
            running_story,
            _step_of_act(Act({"call": {"who": actor_name, "do": call_name, **call_fields}})),
        )


def _is_other_actors_act(act: Act) -> bool:
    """Whether an act is not the act of its track's program; the program then goes on after an
    error.
    """
    actor_name = act.step.get("call", {}).get("who")
    return "cluster" in act.step or actor_name in (OPERATOR_NAME, READER_NAME)


def _is_unknown_end(act: Act, answer: CallResult) -> bool:
    is_end = act.step.get("call", {}).get("do") in ("commit", "abort")
    return is_end and answer.outcome is Outcome.UNKNOWN


def _step_of_act(act: Act) -> Step:
    return Step.model_validate(act.step)


def _track_call(track: Track, do: str) -> Act:
    return Act({"call": {"who": track.name, "do": do}})


def _leader_by_partition(cluster: SimCluster) -> dict[str, int]:
    return {
        f"{topic_name}-{partition_index}": max(0, partition.leader)
        for topic_name, topic in cluster.metadata.image.topics.items()
        for partition_index, partition in enumerate(topic.partitions)
    }


def _state_by_id(cluster: SimCluster) -> dict[str, str]:
    return {
        txn.transactional_id: txn.state.wire_name
        for broker in cluster.brokers.values()
        for txn in broker.coordinator.entries()
    }


async def play_step(running_story: RunningStory, step: Step) -> CallResult:
    """Make one step of a story, and return the answer to its call.

    Raises:
        ClientError: The call failed.
        StoryFailedError: The step is impossible, or what it waits for does not come.
        ConfigError: The step does not fit the cluster.
    """
    call = step.call
    if call is None or call.background is not None:
        await act(running_story, step)
        return CallResult()
    call_step = running_story.with_numbers(step)
    assert call_step.call is not None
    expected_code = expected_error(call.error, running_story.run_selection)
    return await make_call(
        running_story, running_story.actors[call.who], call_step.call, expected_code=expected_code
    )


async def _until_done(clock: Any, tasks: list[asyncio.Task[Any]], patience_ms: int) -> None:
    """Wait until all tasks have ended, but no longer than the limit."""
    done_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    open_tasks = {task for task in tasks if not task.done()}

    def end(finished_task: asyncio.Task[Any] | None = None) -> None:
        open_tasks.discard(finished_task)
        if (finished_task is None or not open_tasks) and not done_future.done():
            done_future.set_result(None)

    if not open_tasks:
        return
    for task in tuple(open_tasks):
        task.add_done_callback(end)
    patience_timer = clock.call_later(patience_ms, end)
    try:
        await done_future
    finally:
        patience_timer.cancel()


async def heal(cluster: SimCluster) -> None:
    """End everything that was broken on purpose: rules, links, clocks, brokers."""
    cluster.injector.disarm_all()
    clock = cluster.environment.clock
    deadline = Deadline(clock, HEALING_MS)
    while True:
        for broker_id, member in cluster.members.items():
            cluster.heal(broker_id)
            if member.is_down:
                try:
                    await cluster.start_broker(broker_id)
                except ConfigError:
                    continue  # somebody starts it already, or it is on its way down
        are_all_running = all(member.is_running for member in cluster.members.values())
        if are_all_running or deadline.has_passed:
            return
        await pause(clock, 250)


# A limit on a run's processor time; a run without end becomes a finding

SIGNAL_REPEAT_S: Final = 0.001
"""Pause before the signal is raised again if it was swallowed."""
_WEAKREF_FILES: Final = frozenset((_weakrefset.__file__, weakref.__file__))
CLEAN_UP_LIMIT_S: Final = 5.0
"""Seconds allowed for cleaning up."""


class OverLimitError(KeyboardInterrupt):
    """The processor time is used up. It is a KeyboardInterrupt, because an event loop would keep
    any other exception in the task that it hit, and go on.
    """


class Limit:
    """The processor limit of one run."""

    is_over: bool = False
    """Whether the limit was exceeded; the run may then raise any error, as cleaning up was cut
    short.
    """


def _is_in_finalizer(frame: FrameType | None) -> bool:
    """Whether Python would only print an exception that is raised here: in a finalizer, and in the
    callback of a weak reference.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename in _WEAKREF_FILES:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def processor_limit(
    seconds: float | None, *, repeat_s: float = CLEAN_UP_LIMIT_S
) -> Iterator[Limit]:
    """Raise ``OverLimitError`` when this process has used its processor time.

    Only the main thread of a process gets signals. Elsewhere, and on Windows, there is no limit.

    Args:
        seconds: Processor time in seconds; None for no limit.
        repeat_s: Seconds after which it is raised again, since cleaning up may not end either.
    """
    processor_limit = Limit()
    is_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not is_main or not hasattr(signal, "SIGVTALRM"):
        yield processor_limit
        return

    def on_limit(_signal: int, frame: FrameType | None) -> None:
        if _is_in_finalizer(frame):
            signal.setitimer(signal.ITIMER_VIRTUAL, SIGNAL_REPEAT_S, repeat_s)
        else:
            processor_limit.is_over = True
            # It may strike between the making of a coroutine and its first step.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            raise OverLimitError

    handler_before = signal.signal(signal.SIGVTALRM, on_limit)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, repeat_s)
    try:
        with warnings.catch_warnings():
            try:
                yield processor_limit
            except BaseException as error:
                if processor_limit.is_over:
                    traceback.clear_frames(error.__traceback__)  # while nothing warns of them
                raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler_before)


# Promises to members of groups, checked while they act: the assignments of clients are compared
# with the coordinator's present state.

TWO_MEMBERS_KIND: Final = "partition-of-two-members"
OLD_GENERATION_KIND: Final = "granted-to-old-generation"
NOT_FENCED_KIND: Final = "replaced-member-is-not-told"
UNFENCED_ANSWERS: Final = ("NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
"""Answers that do not tell a member that it was replaced."""
SAME_GENERATION_KIND: Final = "two-assignments-of-one-generation"

PartitionsByGeneration = dict[tuple[str, int], frozenset[TopicPartition]]
"""(member id, generation) -> the partitions that the member had."""


def of_two_members(surroundings: Surroundings, cluster: SimCluster) -> Iterator[BrokenPromise]:
    """Partitions that two members of a group have at the same time, although the coordinator knows
    both. Neither protocol assigns a partition before its former owner has given it up, except when
    the owner has not polled for too long, which notices it with its next poll. Partitions go by
    name, so the check does not work if a topic is deleted and created again.
    """
    holder_by_group_partition: dict[tuple[str, TopicPartition], str] = {}
    for actor_name, member in sorted(surroundings.members.items()):
        group_id = member.options.group_id
        group, _ = _newest_group(cluster, group_id)
        if not (member.takes_part and member.polls_in_time) or group is None:
            continue
        if member.metadata.member_id not in group.members:
            continue
        for partition in sorted(member.assigned):
            other_actor = holder_by_group_partition.setdefault((group_id, partition), actor_name)
            if other_actor != actor_name:
                yield (
                    TWO_MEMBERS_KIND,
                    f"{other_actor} and {actor_name} of group {group_id} both have {partition}",
                )


def changed_assignments(
    surroundings: Surroundings, assignments: PartitionsByGeneration
) -> Iterator[BrokenPromise]:
    """Members of classic groups whose partitions changed within one generation.

    Args:
        surroundings: The members as they are now.
        assignments: The partitions that each member had; it is updated.
    """
    for actor_name, member in surroundings.members.items():
        if not member.is_joined or member.options.protocol != "classic" or not member.assigned:
            continue
        metadata = member.metadata
        partitions_before = assignments.setdefault(
            (metadata.member_id, metadata.generation), member.assigned
        )
        if partitions_before != member.assigned:
            yield (
                SAME_GENERATION_KIND,
                f"{actor_name} had {_partition_list(partitions_before)} at generation"
                f" {metadata.generation} of group {member.options.group_id}, and has"
                f" {_partition_list(member.assigned)} at the same",
            )


def _partition_list(partitions: frozenset[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


class PositionCommit(NamedTuple):
    """A commit of positions in the name of a member, and the state of the group."""

    actor_name: str
    member: GroupMetadata
    topic_partitions: tuple[TopicPartition, ...]
    group: ClassicGroup | ConsumerGroup
    rules: Rules
    """The switches of its coordinator."""


def asked_of_group(
    surroundings: Surroundings, cluster: SimCluster, call: Call | None
) -> PositionCommit | None:
    """The commit that a call makes in a member's name; None for other calls."""
    if call is None or call.do != "commit-offsets":
        return None
    member = surroundings.members.get(call.member or call.who)
    if member is None or not member.is_joined:
        return None
    partitions = member.positions if call.offsets is None else call.offsets
    generation_label = call.generation
    if not partitions or (
        isinstance(generation_label, str) and generation_label not in surroundings.generations
    ):
        return None  # without positions nothing is asked for
    metadata = group_metadata(call, member.metadata, surroundings)
    group, rules = _newest_group(cluster, member.options.group_id)
    if metadata is None or group is None:
        return None
    return PositionCommit(call.who, metadata, tuple(partitions), group, rules)


def reason_to_refuse(position_commit: PositionCommit | None, cluster: SimCluster) -> str:
    """Why a commit must be refused; empty if it may be granted. It is refused if it comes from an
    old generation of a classic group; or in the name of an unknown member, with an epoch that the
    member does not have, or for a partition that the member has not had since the epoch of the
    commit.
    """
    if position_commit is None:
        return ""
    actor_name, member, partitions, group, rules = position_commit
    claim_text = f"{actor_name} committed positions of {group.group_id}"
    if isinstance(group, ClassicGroup):
        if not 0 <= member.generation < group.generation:
            return ""
        return (
            f"{claim_text} at generation {member.generation}, after generation {group.generation}"
            " had begun"
        )
    if member.generation < 0:
        return ""
    known_member = group.members.get(member.member_id)
    if known_member is None:
        return f"{claim_text} as {member.member_id}, which is no member"
    may_commit_behind = rules.members_behind_may_commit
    if member.generation > known_member.member_epoch or (
        member.generation < known_member.member_epoch and not may_commit_behind
    ):
        return (
            f"{claim_text} at epoch {member.generation} of a member at epoch"
            f" {known_member.member_epoch}"
        )
    if member.generation == known_member.member_epoch:
        return ""
    topics = cluster.metadata.image.topics
    for partition in partitions:
        topic = topics.get(partition.topic)
        epoch_known_since = (
            None
            if topic is None
            else known_member.assigned.get((topic.topic_id, partition.partition))
        )
        if topic is not None and (
            epoch_known_since is None or epoch_known_since > member.generation
        ):
            return (
                f"{claim_text} on {partition} at epoch {member.generation} of a member at epoch"
                f" {known_member.member_epoch}, which has not had the partition since"
            )
    return ""


def reason_to_fence(position_commit: PositionCommit | None) -> str:
    """Why a commit must get FENCED_INSTANCE_ID; empty if it need not. A program that was replaced
    by another one with its instance id must stop, and not join again.
    """
    if (
        position_commit is None
        or position_commit.member.instance_id is None
        or position_commit.member.generation < 0
    ):
        return ""
    group, member = position_commit.group, position_commit.member
    holder_id = group.static_members.get(member.instance_id or "")
    if not isinstance(group, ClassicGroup) or holder_id in (None, member.member_id):
        return ""
    return (
        f"{position_commit.actor_name} committed positions of {group.group_id} as"
        f" {member.member_id}, though instance {member.instance_id} had come to {holder_id}"
    )


def _newest_group(
    cluster: SimCluster, group_id: str
) -> tuple[ClassicGroup | ConsumerGroup | None, Rules]:
    """The group and the switches of its newest coordinator; None if no broker has loaded the group,
    or it is of another type.
    """
    newest_epoch, group, rules = -1, None, LATEST_RULES
    for broker in cluster.brokers.values():
        for shard in broker.groups.shards():
            found_group = shard.find(group_id)
            if shard.coordinator_epoch > newest_epoch and not isinstance(found_group, Rejection):
                newest_epoch, rules = shard.coordinator_epoch, broker.release.rules
                group = (
                    found_group if isinstance(found_group, ClassicGroup | ConsumerGroup) else None
                )
    return group, rules
