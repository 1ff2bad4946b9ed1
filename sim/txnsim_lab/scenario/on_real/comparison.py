"""Stories played twice: on the simulator, and on real brokers behind a fault proxy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.metadata import configs
from txnsim.runtime.env import Environment
from txnsim.runtime.real import new_token, real_environment
from txnsim.runtime.trace import TraceLevel
from txnsim.settings import DEFAULTS
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.scenario._cluster_options import (
    STRICT_MARKERS,
    TRANSACTION_LOG_PARTITIONS,
    TRANSACTION_VERSION,
    VERIFICATION,
)
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.on_real._adapting import adapted
from txnsim_lab.scenario.on_real._obstacles import (
    counterpart_of,
    only_simulated,
    why_not_of,
    why_not_there,
)
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, casts_of, run_in_virtual_time, run_on
from txnsim_lab.target.apache import ApacheOptions
from txnsim_lab.target.cleaning import Left
from txnsim_lab.target.cluster import STARTED, THERE
from txnsim_lab.target.generation import Generation
from txnsim_lab.target.jars import fetch
from txnsim_lab.target.log_care import RETAINED_MS, SHORTLY_RETAINED_MS
from txnsim_lab.target.real import Processes, RealTarget, real_target
from txnsim_lab.target.started import SHORT_SETTINGS, RealCluster, apache_cluster, cluster_there

BROKEN_OFF: Final = "it was broken off"
TROUBLES: Final = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    }
)
"""A broker that answers one of these to a story that expects something else is busy or alone. It
says nothing of transactions.
"""
TRIES: Final = 3
"""As often is a story told whose brokers are in trouble."""
CLEANER_MEMORY: Final = "log.cleaner.dedupe.buffer.size"
CLEANER_MEMORY_MIN: Final = 2 * 1024 * 1024
"""Real brokers want more than 1 MiB."""
DELETE_RETENTION: Final = "log.cleaner.delete.retention.ms"
CLEANER_LOAD: Final = 0.9
"""``log.cleaner.io.buffer.load.factor``, unless set."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and what it came to on both sides."""

    scenario_run: ScenarioRun
    on: str
    """``4.0.2``, or the address of a cluster."""
    simulated: RunResult | None = None
    real: RunResult | None = None
    why_not: str = ""
    """Why it was not played on real brokers."""
    left: tuple[Left, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether both sides reached the same verdicts; True if only one was asked."""
        if self.simulated is None:
            return True
        if self.real is None:  # it could be played, and the brokers did not let it begin
            return False
        return _verdicts(self.simulated) == _verdicts(self.real)


def _verdicts(result: RunResult) -> tuple[object, object]:
    return result.verdict.observed, None if result.cured is None else result.cured.observed


Say = Callable[[str], object]
"""Gets a line of progress."""


# Releases that are started


async def run_on_apache(
    version: str,
    plan: Sequence[ScenarioRun],
    casting: Casting,
    *,
    say: Say,
    on_cell: Callable[[Cell], object],
) -> None:
    """Tell stories on the simulator and on brokers of a release, which are started for them.

    Args:
        version: Such as ``4.0.2``.
        plan: What to tell; what the release or real brokers can't be or do is left out, said why.
        casting: Who plays applications.
        say: Gets lines of progress.
        on_cell: Gets each cell when it is done, those that are left out first.

    Raises:
        ConfigError: There is no Java or Maven, or a broker did not come up.
    """
    worlds: dict[_World, list[ScenarioRun]] = {}
    for scenario_run in plan:
        why = why_not(scenario_run, version)
        if why is not None:
            on_cell(Cell(scenario_run=scenario_run, on=version, why_not=why))
        else:
            worlds.setdefault(_world_of(scenario_run), []).append(scenario_run)
    if not worlds:
        return
    libs = fetch(version, say=say)
    environment = real_environment(trace_level=TraceLevel.BRIEF, trace_ring_bytes=None)
    number = 0
    for world, scenario_runs in worlds.items():
        say(f"starting Apache Kafka {version}: {world.brokers} brokers, {scenario_runs[0].mode} …")
        options = ApacheOptions(
            version=version,
            libs=libs,
            brokers=world.brokers,
            transaction_version=world.transaction_version,
            properties=dict(world.properties),
        )
        async with apache_cluster(environment, options) as cluster:
            there = _There(
                environment=environment, cluster=cluster, casting=casting, on=version, say=say
            )
            for scenario_run in scenario_runs:
                number += 1
                prefix = f"cell{number}-"
                on_cell(await _cell_of(scenario_run, there, prefix=prefix, left=[]))


class _World(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one world share their brokers."""

    brokers: int
    transaction_version: int
    properties: tuple[tuple[str, str], ...]


def _world_of(scenario_run: ScenarioRun) -> _World:
    scenario, run = scenario_run.scenario, scenario_run.scenario.runs[scenario_run.run]
    given: Mapping[str, object] = {
        "transaction.state.log.num.partitions": TRANSACTION_LOG_PARTITIONS,
        "transaction.partition.verification.enable": VERIFICATION[run.mode],
        **scenario.settings,
        **run.settings,
    }
    properties = {name: configs.text(value) for name, value in given.items()}
    memory = int(properties.get(CLEANER_MEMORY, CLEANER_MEMORY_MIN))
    if memory < CLEANER_MEMORY_MIN:  # a real cleaner uses so little of its memory instead
        load = CLEANER_LOAD * memory / CLEANER_MEMORY_MIN
        properties |= {
            CLEANER_MEMORY: str(CLEANER_MEMORY_MIN),
            "log.cleaner.io.buffer.load.factor": f"{load:.12f}",
        }
    if any((step.advance or 0) >= RETAINED_MS for step in scenario.steps):
        properties = {DELETE_RETENTION: str(SHORTLY_RETAINED_MS), **properties}
    properties = {**SHORT_SETTINGS, **properties}
    return _World(
        brokers=scenario.brokers,
        transaction_version=TRANSACTION_VERSION[run.mode],
        properties=tuple(sorted(properties.items())),
    )


def simulated(scenario_run: ScenarioRun, version: str) -> ScenarioRun:
    """The same run in the simulated world that a real release is held against."""
    counterpart = counterpart_of(version)
    scenario, run = scenario_run.scenario, scenario_run.scenario.runs[scenario_run.run]
    strict = counterpart.effective.v2_markers_need_higher_epoch
    rules = {**counterpart.rules, STRICT_MARKERS: strict}
    world = run.model_copy(update={"as_version": counterpart.release.name, "rules": rules})
    runs = {**scenario.runs, scenario_run.run: world}
    return msgspec.structs.replace(
        scenario_run, scenario=scenario.model_copy(update={"runs": runs})
    )


# A cluster that is there


async def run_on_cluster(
    bootstrap: str,
    plan: Sequence[ScenarioRun],
    casting: Casting,
    *,
    settings: ClientSettings,
    generation: Generation,
    say: Say,
    on_cell: Callable[[Cell], object],
) -> None:
    """Tell stories on a cluster that runs already, under names of their own.

    Args:
        bootstrap: ``host:port`` of brokers.
        plan: What to tell; what can't be done there is left out, said why.
        casting: Who plays applications.
        settings: How the cluster is reached.
        generation: What it is.
        say: Gets lines of progress.
        on_cell: Gets each cell when it is done.

    Raises:
        ClientError: No broker answers.
    """
    environment = real_environment(trace_level=TraceLevel.BRIEF, trace_ring_bytes=None)
    token = "".join(one for one in new_token().lower() if one.isalnum())[:6]
    async with cluster_there(environment, bootstrap, settings) as cluster:
        there = _There(
            environment=environment, cluster=cluster, casting=casting, on=bootstrap, say=say
        )
        for number, scenario_run in enumerate(plan, 1):
            why = why_not(scenario_run, bootstrap, generation)
            if why is not None:
                on_cell(Cell(scenario_run=scenario_run, on=bootstrap, why_not=why))
                continue
            prefix = f"txnsim-{token}-{number}-"
            say(f"topics, groups and transactional ids begin with {prefix}")
            left: list[Left] = []
            try:
                cell = await _cell_of(scenario_run, there, prefix=prefix, left=left)
            except BaseException:  # mostly Ctrl-C: what is left is told all the same
                on_cell(
                    Cell(
                        scenario_run=scenario_run,
                        on=bootstrap,
                        why_not=BROKEN_OFF,
                        left=tuple(left),
                    )
                )
                raise
            on_cell(cell)


# Both


class _There(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster and the players that tell stories there."""

    environment: Environment
    cluster: RealCluster
    casting: Casting
    on: str
    say: Say


async def _cell_of(
    scenario_run: ScenarioRun, there: _There, *, prefix: str, left: list[Left]
) -> Cell:
    """Tell a story, and again while its brokers are in trouble; ``left`` gets what could not be
    cleaned, also where it is broken off.
    """
    trouble = ""
    for number in range(1, TRIES + 1):
        own = prefix if number == 1 else f"{prefix}{number}-"
        cell = await _cell_of_one_try(scenario_run, there, prefix=own, left=left)
        if there.cluster.brokers is not None:
            cell = _without(own, cell)
            await there.cluster.brokers.mend()
        trouble = "" if cell.real is None else cell.real.answered
        if trouble not in TROUBLES:
            return cell
        there.say(f"{scenario_run} on {there.on}: no verdict, brokers answer {trouble}")
    why = f"no verdict: brokers answer {trouble}, {TRIES} times"
    return Cell(scenario_run=scenario_run, on=there.on, why_not=why, left=tuple(left))


async def _cell_of_one_try(
    scenario_run: ScenarioRun, there: _There, *, prefix: str, left: list[Left]
) -> Cell:
    scenario = adapted(scenario_run.scenario, prefix)
    environment, cluster, on = there.environment, there.cluster, there.on
    target = target_of(
        scenario, environment, cluster.proxy, prefix=prefix, processes=cluster.brokers
    )
    its_own = msgspec.structs.replace(scenario_run, scenario=scenario)
    casts = casts_of(its_own, there.casting)
    try:
        real = await run_on(its_own, environment, casts, real_target(target, left=left.extend))
    except ConfigError as error:
        return Cell(scenario_run=scenario_run, on=on, why_not=str(error), left=tuple(left))
    began_ms = min((one.at_ms for one in real.story), default=0)
    sentences = tuple(
        msgspec.structs.replace(one, at_ms=one.at_ms - began_ms) for one in real.story
    )
    real = msgspec.structs.replace(real, story=sentences)
    return Cell(scenario_run=scenario_run, on=on, real=real, left=tuple(left))


def target_of(
    scenario: Scenario,
    environment: Environment,
    proxy: FaultProxy,
    *,
    prefix: str,
    processes: Processes | None,
) -> RealTarget:
    """The target of one story on real brokers: what the story may make is taken away afterwards."""
    steps = (*scenario.steps, *scenario.cure)
    actors = scenario.actors.values()
    groups = {step.call.group for step in steps if step.call is not None}
    ids = {step.call.transactional_id for step in steps if step.call is not None}
    groups |= {actor.group for actor in actors}
    ids |= {actor.transactional_id for actor in actors}
    return RealTarget(
        environment,
        proxy,
        prefix=prefix,
        settings=DEFAULTS,
        processes=processes,
        groups={name for name in groups if name},
        transactional_ids={name for name in ids if name},
    )


def beforehand(
    plan: Sequence[ScenarioRun], on: str, generation: Generation | None = None
) -> dict[str, RunResult]:
    """What the simulator comes to for each run that will be played on real brokers, by the
    run's name; in virtual time, so outside of any event loop.
    """
    return {
        str(scenario_run): run_in_virtual_time(
            simulated(scenario_run, on) if generation is None else scenario_run
        )
        for scenario_run in plan
        if why_not(scenario_run, on, generation) is None
    }


def why_not(scenario_run: ScenarioRun, on: str, generation: Generation | None = None) -> str | None:
    """Why a run can't be played on real brokers; None if it can. Where it can't be played
    with its fault, a run without it says nothing.
    """
    scenario, run = scenario_run.scenario, scenario_run.run
    if generation is None:
        not_there, can = why_not_there(scenario, run, on), STARTED
    else:
        not_there, can = why_not_of(generation, scenario, run), THERE
    if not_there is not None:
        return not_there
    for take in dict.fromkeys(("armed", scenario_run.take)):
        why = only_simulated(scenario, run, take, can=can)
        if why is not None:
            return why
    return None


def _without(prefix: str, cell: Cell) -> Cell:
    """The cell under the story's own names."""
    if cell.real is None:
        return cell

    def plain(text: str) -> str:
        return text.replace(prefix, "")

    real = cell.real
    verdicts = {
        name: None
        if found is None
        else msgspec.structs.replace(found, because=tuple(map(plain, found.because)))
        for name, found in (("verdict", real.verdict), ("cured", real.cured))
    }
    sentences = tuple(
        msgspec.structs.replace(one, text=plain(one.text), who=plain(one.who)) for one in real.story
    )
    return msgspec.structs.replace(
        cell, real=msgspec.structs.replace(real, story=sentences, **verdicts)
    )
