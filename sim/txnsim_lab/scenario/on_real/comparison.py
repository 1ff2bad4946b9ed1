"""Plays stories twice: on the simulator, and on real brokers behind a fault proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.faults.points import FaultPoint
from txnsim.faults.rule import FaultRule
from txnsim.metadata import configs
from txnsim.releases import REFERENCE, RELEASES, Release
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import new_token, real_environment
from txnsim.runtime.trace import TraceLevel
from txnsim.settings import Settings
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_lab.proxy import meanings
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.scenario._cluster_options import (
    STRICT_MARKERS,
    TRANSACTION_LOG_PARTITIONS,
    TRANSACTION_VERSION,
    VERIFICATION,
)
from txnsim_lab.scenario._notation.internal_partitions import (
    ID_SEPARATOR,
    PARTITION_BY_ID,
    is_internal,
)
from txnsim_lab.scenario.fields import Model, RunSelection, map_values
from txnsim_lab.scenario.model import Actor, Run, Scenario
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, casts_of, run_in_virtual_time, run_on
from txnsim_lab.scenario.steps_model import ClusterAct, Step, TransactionIs
from txnsim_lab.target.apache import FEATURE_SINCE, ApacheOptions
from txnsim_lab.target.cleaning import Leftover
from txnsim_lab.target.cluster import RUNNING_ABILITIES, STARTED_ABILITIES, Ability
from txnsim_lab.target.generation import Generation
from txnsim_lab.target.jars import fetch
from txnsim_lab.target.log_care import DELETE_RETENTION_MS, SHORT_DELETE_RETENTION_MS
from txnsim_lab.target.real import REAL_WAIT_MAX_MS, Processes, RealTarget, real_target
from txnsim_lab.target.real_clusters import (
    SHORT_SETTINGS,
    RealCluster,
    apache_cluster,
    running_cluster,
)

BROKEN_OFF_REASON: Final = "it was broken off"
TRANSIENT_ERRORS: Final = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    }
)
"""Errors of a broker that is busy or alone, if the story expects something else. They say nothing
about transactions.
"""
TRIES_MAX: Final = 3
"""How often a story is tried while its brokers answer with such an error."""
CLEANER_MEMORY: Final = "log.cleaner.dedupe.buffer.size"
CLEANER_MEMORY_MIN: Final = 2 * 1024 * 1024
"""Bytes of memory that the cleaner gets at least: real brokers need more than 1 MiB."""
DELETE_RETENTION: Final = "log.cleaner.delete.retention.ms"
CLEANER_LOAD: Final = 0.9
"""Default of ``log.cleaner.io.buffer.load.factor``."""


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and its results on both sides."""

    scenario_run: ScenarioRun
    on: str
    """The release of the real brokers, such as ``4.0.2``, or the address of a cluster."""
    simulated: RunResult | None = None
    real: RunResult | None = None
    why_not: str = ""
    """Why the run was not played on real brokers; empty if it was."""
    left: tuple[Leftover, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether both sides reached the same verdicts; True if the run was played on one side
        only.
        """
        if self.simulated is None:
            return True
        if self.real is None:  # it could be played, and the brokers did not let it begin
            return False
        return _verdict_pair(self.simulated) == _verdict_pair(self.real)


def _verdict_pair(result: RunResult) -> tuple[object, object]:
    return result.verdict.observed, None if result.cured is None else result.cured.observed


ReportProgress = Callable[[str], object]
"""Takes a line of progress."""


# Releases that are started


async def run_on_apache(
    version: str,
    plan: Sequence[ScenarioRun],
    casting: Casting,
    *,
    report_progress: ReportProgress,
    on_compared_run: Callable[[ComparedRun], object],
) -> None:
    """Plays stories on the simulator and on brokers of a release, which are started for them.

    Args:
        version: Such as ``4.0.2``.
        plan: The runs to play. Those that the release or real brokers can't play are left out, with
            the reason.
        casting: Who plays applications.
        report_progress: Takes lines of progress.
        on_compared_run: Takes each result when it is there, first those of the runs that are left
            out.

    Raises:
        ConfigError: There is no Java or Maven, or a broker did not come up.
    """
    runs_by_properties: dict[_BrokerProperties, list[ScenarioRun]] = {}
    for scenario_run in plan:
        obstacle = why_not(scenario_run, version)
        if obstacle is not None:
            on_compared_run(ComparedRun(scenario_run=scenario_run, on=version, why_not=obstacle))
        else:
            runs_by_properties.setdefault(_broker_properties_of(scenario_run), []).append(
                scenario_run
            )
    if not runs_by_properties:
        return
    jars_folder = fetch(version, say=report_progress)
    environment = real_environment(trace_level=TraceLevel.BRIEF, trace_ring_bytes=None)
    cluster_number = 0
    for broker_properties, scenario_runs in runs_by_properties.items():
        report_progress(
            f"starting Apache Kafka {version}: {broker_properties.brokers} brokers,"
            f" {scenario_runs[0].mode} …"
        )
        options = ApacheOptions(
            version=version,
            libs=jars_folder,
            brokers=broker_properties.brokers,
            transaction_version=broker_properties.transaction_version,
            properties=dict(broker_properties.properties),
            racks=broker_properties.racks,
        )
        async with apache_cluster(environment, options) as cluster:
            brokers = _RealBrokers(
                runtime=environment,
                cluster=cluster,
                casting=casting,
                on=version,
                say=report_progress,
            )
            for scenario_run in scenario_runs:
                cluster_number += 1
                prefix = f"cell{cluster_number}-"
                on_compared_run(
                    await _compare_run(scenario_run, brokers, prefix=prefix, leftovers=[])
                )


class _BrokerProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers of a run must be like; runs with the same properties share their brokers."""

    brokers: int
    transaction_version: int
    properties: tuple[tuple[str, str], ...]
    racks: tuple[str, ...] = ()


def _broker_properties_of(scenario_run: ScenarioRun) -> _BrokerProperties:
    scenario, run = scenario_run.scenario, scenario_run.scenario.runs[scenario_run.run]
    settings: Mapping[str, object] = {
        "transaction.state.log.num.partitions": TRANSACTION_LOG_PARTITIONS,
        "transaction.partition.verification.enable": VERIFICATION[run.mode],
        **scenario.settings,
        **run.settings,
    }
    properties = {
        property_name: configs.text(property_value)
        for property_name, property_value in settings.items()
    }
    cleaner_memory = int(properties.get(CLEANER_MEMORY, CLEANER_MEMORY_MIN))
    if cleaner_memory < CLEANER_MEMORY_MIN:  # a real cleaner uses so little of its memory instead
        cleaner_load = CLEANER_LOAD * cleaner_memory / CLEANER_MEMORY_MIN
        properties |= {
            CLEANER_MEMORY: str(CLEANER_MEMORY_MIN),
            "log.cleaner.io.buffer.load.factor": f"{cleaner_load:.12f}",
        }
    if any((step.advance or 0) >= DELETE_RETENTION_MS for step in scenario.steps):
        properties = {DELETE_RETENTION: str(SHORT_DELETE_RETENTION_MS), **properties}
    properties = {**SHORT_SETTINGS, **properties}
    return _BrokerProperties(
        brokers=scenario.brokers,
        transaction_version=TRANSACTION_VERSION[run.mode],
        properties=tuple(sorted(properties.items())),
        racks=scenario.racks,
    )


def simulated_counterpart(scenario_run: ScenarioRun, version: str) -> ScenarioRun:
    """The same run, on the simulated release that is compared with a real release."""
    counterpart = counterpart_of(version)
    scenario, run = scenario_run.scenario, scenario_run.scenario.runs[scenario_run.run]
    has_strict_markers = counterpart.effective.v2_markers_need_higher_epoch
    rule_settings = {**counterpart.rules, STRICT_MARKERS: has_strict_markers}
    compared_run = run.model_copy(
        update={"as_version": counterpart.release.name, "rules": rule_settings}
    )
    runs = {**scenario.runs, scenario_run.run: compared_run}
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
    say_progress: ReportProgress,
    on_compared_run: Callable[[ComparedRun], object],
) -> None:
    """Plays stories on a cluster that runs already, with prefixed names.

    Args:
        bootstrap: ``host:port`` of brokers, separated by commas.
        plan: The runs to play. Those that the cluster can't play are left out, with the reason.
        casting: Who plays applications.
        settings: The settings of the clients.
        generation: The transaction protocol of the cluster.
        say_progress: Takes lines of progress.
        on_compared_run: Takes each result when it is there.

    Raises:
        ClientError: No broker answers.
    """
    environment = real_environment(trace_level=TraceLevel.BRIEF, trace_ring_bytes=None)
    prefix_token = "".join(character for character in new_token().lower() if character.isalnum())[
        :6
    ]
    async with running_cluster(environment, bootstrap, settings) as cluster:
        brokers = _RealBrokers(
            runtime=environment,
            cluster=cluster,
            casting=casting,
            on=bootstrap,
            say=say_progress,
        )
        for run_number, scenario_run in enumerate(plan, 1):
            obstacle = why_not(scenario_run, bootstrap, generation)
            if obstacle is not None:
                on_compared_run(
                    ComparedRun(scenario_run=scenario_run, on=bootstrap, why_not=obstacle)
                )
                continue
            prefix = f"txnsim-{prefix_token}-{run_number}-"
            say_progress(f"topics, groups and transactional ids begin with {prefix}")
            leftovers: list[Leftover] = []
            try:
                compared_run = await _compare_run(
                    scenario_run, brokers, prefix=prefix, leftovers=leftovers
                )
            except BaseException:  # mostly Ctrl-C: what is left is told all the same
                on_compared_run(
                    ComparedRun(
                        scenario_run=scenario_run,
                        on=bootstrap,
                        why_not=BROKEN_OFF_REASON,
                        left=tuple(leftovers),
                    )
                )
                raise
            on_compared_run(compared_run)


# Both


class _RealBrokers(msgspec.Struct, frozen=True, kw_only=True):
    """The real cluster and the players that play stories there."""

    runtime: Environment
    cluster: RealCluster
    casting: Casting
    on: str
    say: ReportProgress


async def _compare_run(
    scenario_run: ScenarioRun, brokers: _RealBrokers, *, prefix: str, leftovers: list[Leftover]
) -> ComparedRun:
    """Play a story, and again while its brokers are in trouble. Topics and groups that can't be
    removed are added to ``leftovers``, even if the story is cancelled.
    """
    error_of_brokers = ""
    for try_number in range(1, TRIES_MAX + 1):
        prefix_of_try = prefix if try_number == 1 else f"{prefix}{try_number}-"
        compared_run = await _compare_run_once(
            scenario_run, brokers, prefix=prefix_of_try, leftovers=leftovers
        )
        if brokers.cluster.brokers is not None:
            compared_run = _strip_prefix(prefix_of_try, compared_run)
            await brokers.cluster.brokers.mend()
        error_of_brokers = "" if compared_run.real is None else compared_run.real.answered
        if error_of_brokers not in TRANSIENT_ERRORS:
            return compared_run
        brokers.say(
            f"{scenario_run} on {brokers.on}: no verdict, brokers answer {error_of_brokers}"
        )
    reason = f"no verdict: brokers answer {error_of_brokers}, {TRIES_MAX} times"
    return ComparedRun(
        scenario_run=scenario_run, on=brokers.on, why_not=reason, left=tuple(leftovers)
    )


async def _compare_run_once(
    scenario_run: ScenarioRun, brokers: _RealBrokers, *, prefix: str, leftovers: list[Leftover]
) -> ComparedRun:
    scenario = with_prefixed_names(scenario_run.scenario, prefix)
    environment, cluster, brokers_name = brokers.runtime, brokers.cluster, brokers.on
    real_options = target_of(
        scenario, environment, cluster.proxy, prefix=prefix, processes=cluster.brokers
    )
    prefixed_run = msgspec.structs.replace(scenario_run, scenario=scenario)
    casts = casts_of(prefixed_run, brokers.casting)
    try:
        real_result = await run_on(
            prefixed_run,
            environment,
            casts,
            real_target(real_options, on_leftovers=leftovers.extend),
        )
    except ConfigError as error:
        return ComparedRun(
            scenario_run=scenario_run, on=brokers_name, why_not=str(error), left=tuple(leftovers)
        )
    began_ms = min((story_sentence.at_ms for story_sentence in real_result.story), default=0)
    story_sentences = tuple(
        msgspec.structs.replace(story_sentence, at_ms=story_sentence.at_ms - began_ms)
        for story_sentence in real_result.story
    )
    real_result = msgspec.structs.replace(real_result, story=story_sentences)
    return ComparedRun(
        scenario_run=scenario_run, on=brokers_name, real=real_result, left=tuple(leftovers)
    )


def target_of(
    scenario: Scenario,
    environment: Environment,
    proxy: FaultProxy,
    *,
    prefix: str,
    processes: Processes | None,
) -> RealTarget:
    """The target for one story on real brokers; what the story created is removed at the end."""
    story_steps = (*scenario.steps, *scenario.cure)
    actors = scenario.actors.values()
    group_names = {step.call.group for step in story_steps if step.call is not None}
    transactional_ids = {
        step.call.transactional_id for step in story_steps if step.call is not None
    }
    group_names |= {actor.group for actor in actors}
    transactional_ids |= {actor.transactional_id for actor in actors}
    return RealTarget(
        environment,
        proxy,
        prefix=prefix,
        settings=Settings(),
        processes=processes,
        groups={name for name in group_names if name},
        transactional_ids={name for name in transactional_ids if name},
    )


def simulate_beforehand(
    plan: Sequence[ScenarioRun], brokers_name: str, generation: Generation | None = None
) -> dict[str, RunResult]:
    """The simulator's result for each run that real brokers will play, by the run's name. It uses
    virtual time, so it must be called outside of any event loop.
    """
    return {
        str(scenario_run): run_in_virtual_time(
            simulated_counterpart(scenario_run, brokers_name)
            if generation is None
            else scenario_run
        )
        for scenario_run in plan
        if why_not(scenario_run, brokers_name, generation) is None
    }


def why_not(
    scenario_run: ScenarioRun, brokers_name: str, generation: Generation | None = None
) -> str | None:
    """Why a run can't be played on real brokers; None if it can. A control run is left out with its
    armed run: alone it proves nothing.
    """
    scenario, run = scenario_run.scenario, scenario_run.run
    if generation is None:
        mismatch_reason, abilities = why_not_there(scenario, run, brokers_name), STARTED_ABILITIES
    else:
        mismatch_reason, abilities = why_not_of(generation, scenario, run), RUNNING_ABILITIES
    if mismatch_reason is not None:
        return mismatch_reason
    for required_take in dict.fromkeys(("armed", scenario_run.take)):
        obstacle = only_simulated(scenario, run, required_take, abilities=abilities)
        if obstacle is not None:
            return obstacle
    return None


def _strip_prefix(prefix: str, compared_run: ComparedRun) -> ComparedRun:
    """Remove the prefix from all names in the result of a run."""
    if compared_run.real is None:
        return compared_run

    def plain(text: str) -> str:
        return text.replace(prefix, "")

    real_result = compared_run.real
    verdicts = {
        field_name: None
        if judges_result is None
        else msgspec.structs.replace(
            judges_result, because=tuple(map(plain, judges_result.because))
        )
        for field_name, judges_result in (
            ("verdict", real_result.verdict),
            ("cured", real_result.cured),
        )
    }
    story_sentences = tuple(
        msgspec.structs.replace(
            story_sentence, text=plain(story_sentence.text), who=plain(story_sentence.who)
        )
        for story_sentence in real_result.story
    )
    return msgspec.structs.replace(
        compared_run, real=msgspec.structs.replace(real_result, story=story_sentences, **verdicts)
    )


# A story as it can be played on real brokers: under names of its own, and with short timeouts

NAME_FIELDS: Final = frozenset({"group", "transactional_id", "coordinator_of", "topic", "topics"})
"""Fields of steps and rules that name topics, groups or transactional ids of the cluster."""
ORDINARY_TIMEOUT_MS: Final = 60_000
"""The transaction timeout of actors that do not need a certain timeout."""
SHORT_TIMEOUT_MS: Final = 20_000
"""The transaction timeout on real brokers, whose clocks can't be moved; a story takes some seconds.
"""


def with_prefixed_names(scenario: Scenario, prefix: str) -> Scenario:
    """A copy of a story in which the name of every topic, group and transactional id has a prefix,
    and ordinary timeouts are short.
    """
    advances_ms = [step.advance or 0 for step in (*scenario.steps, *scenario.cure)]
    # A story that lets almost a whole timeout pass means it.
    ordinary_ms = (
        ORDINARY_TIMEOUT_MS
        if any(SHORT_TIMEOUT_MS <= advance_ms < ORDINARY_TIMEOUT_MS for advance_ms in advances_ms)
        else SHORT_TIMEOUT_MS
    )
    actors = {
        actor_name: _prefixed_actor(actor_name, actor, prefix, ordinary_ms)
        for actor_name, actor in scenario.actors.items()
    }
    return scenario.model_copy(
        update={
            "topics": {prefix + actor_name: topic for actor_name, topic in scenario.topics.items()},
            "actors": actors,
            "steps": _prefix_names(scenario.steps, prefix),
            "cure": _prefix_names(scenario.cure, prefix),
        }
    )


def _prefixed_actor(actor_name: str, actor: Actor, prefix: str, ordinary_ms: int) -> Actor:
    if actor.group is not None:
        return actor.model_copy(update={"group": prefix + actor.group})
    if actor.plays not in ("wire", "application"):
        return actor
    timeout_ms = actor.transaction_timeout
    return actor.model_copy(
        update={
            "transactional_id": prefix + (actor.transactional_id or actor_name),
            "client_id": actor.client_id or actor_name,
            "transaction_timeout": ordinary_ms if timeout_ms == ORDINARY_TIMEOUT_MS else timeout_ms,
        }
    )


def _prefix_names(steps: tuple[Step, ...], prefix: str) -> Any:
    def change(model: Model | None, field: str, value: Any) -> Any:
        if isinstance(value, TopicPartition):
            return _prefixed_partition(value, prefix)
        if isinstance(value, FaultRule):
            rule_fields = {
                rule_field: getattr(value, rule_field)
                for rule_field in ("topic", "transactional_id")
            }
            prefixed_fields = {
                rule_field: _prefixed_name(unprefixed_name, prefix)
                for rule_field, unprefixed_name in rule_fields.items()
                if unprefixed_name is not None
            }
            return msgspec.structs.replace(value, **prefixed_fields)
        is_name = field in NAME_FIELDS or (field == "id" and isinstance(model, TransactionIs))
        return _prefixed_name(value, prefix) if is_name and isinstance(value, str) else value

    return map_values(steps, change)


def _prefixed_name(topic_name: str, prefix: str) -> str:
    return topic_name if topic_name in INTERNAL_TOPICS else prefix + topic_name


def _prefixed_partition(partition: TopicPartition, prefix: str) -> TopicPartition:
    if partition.partition == PARTITION_BY_ID:
        topic, _, owner_id = partition.topic.partition(ID_SEPARATOR)
        return TopicPartition(f"{topic}{ID_SEPARATOR}{prefix}{owner_id}", PARTITION_BY_ID)
    return TopicPartition(_prefixed_name(partition.topic, prefix), partition.partition)


# What keeps a story from being played on real brokers: a step that only a simulator can take, or a
# world that a release does not have. Asked before anything is started.

OLDEST_SIMULATED: Final = (3, 6)
"""The oldest release that the simulator has; older real releases are compared with it."""
REAL_ADVANCE_MAX_MS: Final = 120_000
"""A longer advance exceeds a transaction's timeout, so something else must be meant to expire."""
STRICT_MARKER_SWITCHES: Final = ("repeated_v2_markers_are_written",)
"""Switches that matter only with strict markers, which must have a higher epoch (KIP-1228)."""
INSIDE_ACTS: Final = {
    "age": "moves an epoch near its end",
    "isolate": "cuts a broker off",
    "heal": "ends the isolation of a broker",
    "grow-topic": "gives a topic more partitions",
}
BROKER_ACTS: Final = {act: f"{act} a broker" for act in ("kill", "stop", "start", "restart")}
LOG_ACTS: Final = {
    "roll": "end a segment",
    "clean": "wait for the cleaner",
    "delete-old": "wait for retention",
}
"""Acts that need the settings and the disks of brokers."""


class Counterpart(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated release that is compared with a real release."""

    release: Release
    rules: dict[str, bool]
    """Switches in which the real release differs from the simulated one."""

    @property
    def effective(self) -> Rules:
        """The switches of the real release, as far as they are known."""
        return msgspec.structs.replace(self.release.rules, **self.rules)


def counterpart_of(version: str) -> Counterpart:
    """The newest simulated release that is not newer than the real one, without later changes."""
    release_line = max(Release.line_of(version), OLDEST_SIMULATED)
    newest_name = max(
        (
            release_name
            for release_name in RELEASES
            if Release.line_of(release_name) <= release_line
        ),
        key=Release.line_of,
    )
    release = RELEASES[newest_name]
    rules_undone = {
        release_name: False
        for release_name in Release.newer_than(version)
        if getattr(release.rules, release_name)
    }
    return Counterpart(release=release, rules=rules_undone)


def why_not_there(scenario: Scenario, run_name: str, version: str) -> str | None:
    """Why a release can't play a run; None if it can."""
    run = scenario.runs[run_name]
    counterpart = counterpart_of(version)
    if run.mode == "V+" and not counterpart.effective.transactions_are_verified:
        return "verification came with 3.6"
    if run.mode in ("TV2", "TV2+"):
        if Release.line_of(version) < FEATURE_SINCE:
            return "transactions v2 came with 4.0"
        has_strict_markers = counterpart.effective.v2_markers_need_higher_epoch
        if markers_matter(scenario, run_name) and has_strict_markers is not (run.mode == "TV2+"):
            return "strict markers (KIP-1228) came with 4.2"
    if any(other_run.as_version is not None for other_run in scenario.runs.values()):
        counterpart_name = counterpart.release.name
        runs_of_release = [
            other_run.as_version or REFERENCE.name for other_run in scenario.runs.values()
        ]
        release_of_run = run.as_version or REFERENCE.name
        is_newer = release_of_run == max(runs_of_release, key=Release.line_of) and Release.line_of(
            counterpart_name
        ) > Release.line_of(release_of_run)
        if counterpart_name != release_of_run and not is_newer:
            return f"it is the world of {release_of_run}"
    return _differing_rule(scenario, run, counterpart)


def why_not_of(generation: Generation, scenario: Scenario, run_name: str) -> str | None:
    """Why a cluster that runs already can't play a run; None if it can. The cluster must have the
    mode of the run: on another one the verdict would say nothing, and a step might wait for a state
    that can't be reached.
    """
    if scenario.racks:
        return f"its brokers must be in the racks {', '.join(scenario.racks)}"
    mode = scenario.runs[run_name].mode
    is_v2 = generation.transaction_version >= TRANSACTION_VERSION["TV2"]
    is_fit = is_v2 == (TRANSACTION_VERSION[mode] >= TRANSACTION_VERSION["TV2"])
    is_fit &= generation.verification <= {VERIFICATION[mode]}
    if is_v2 and markers_matter(scenario, run_name):
        is_fit &= generation.has_strict_markers == (mode == "TV2+")
    return None if is_fit else f"not this cluster's generation: {generation}"


def markers_matter(scenario: Scenario, run_name: str) -> bool:
    """Whether the result of a run depends on strict markers being on or off."""
    modes = {run.mode for run in scenario.runs.values()}
    rules = scenario.runs[run_name].rules
    return {"TV2", "TV2+"} <= modes or not rules.keys().isdisjoint(STRICT_MARKER_SWITCHES)


def _differing_rule(scenario: Scenario, run: Run, counterpart: Counterpart) -> str | None:
    """A switch that the release sets otherwise, of those in which the runs of this mode differ."""
    effective_rules = counterpart.effective
    release_rules = LATEST_RULES if run.as_version is None else RELEASES[run.as_version].rules
    run_rules = msgspec.structs.replace(release_rules, **run.rules)
    differing_rule_names = [
        rule_name
        for other_run in scenario.runs.values()
        if other_run.mode == run.mode
        for rule_name in other_run.rules
    ]
    for rule_name in dict.fromkeys(differing_rule_names):
        is_set = getattr(run_rules, rule_name)
        if rule_name == STRICT_MARKERS or getattr(effective_rules, rule_name) is is_set:
            continue
        switch_text = Rules.documentation()[rule_name]
        release_text = switch_text.came(REFERENCE.patch_release)
        if switch_text.until or not switch_text.since:
            return (
                f"{switch_text.ticket}: {release_text} {switch_text.behaviour_after}; elsewhere"
                f" {switch_text.behaviour_before}"
            )
        behaviour_sentence = switch_text.behaviour_after if is_set else switch_text.behaviour_before
        return f"{switch_text.ticket} came with {release_text}: {behaviour_sentence}"
    return None


def only_simulated(
    scenario: Scenario, run_name: str, take: str, *, abilities: frozenset[Ability]
) -> str | None:
    """The first step of a run that real brokers can't play, and why; None if they can play all.

    Args:
        scenario: The story.
        run_name: Name of the run.
        take: ``armed``, ``disarmed`` or ``control``.
        abilities: The abilities of the target.
    """
    run_selection = RunSelection(run=run_name, mode=scenario.runs[run_name].mode, take=take)
    steps = (*scenario.steps_of(run_selection), *scenario.cure_of(run_selection))
    timeouts_ms = [
        actor.transaction_timeout
        for actor in scenario.actors.values()
        if actor.plays in ("wire", "application")
    ]
    uses_cleaner = any(step.cluster is not None and step.cluster.do == "clean" for step in steps)
    passed_ms = 0
    for step in steps:
        if (
            Ability.LOGS in abilities
            and uses_cleaner
            and (step.advance or 0) >= DELETE_RETENTION_MS
        ):
            continue  # what the cleaner keeps for that long it keeps for some seconds there
        for obstacle in _find_obstacles(
            step, timeouts_ms, passed_ms=passed_ms, abilities=abilities
        ):
            return f"{_step_number_text(step)}: {obstacle}"
        passed_ms += step.advance or 0
    return None


def _step_number_text(step: Step) -> str:
    """The step's number from its place in the file, counted from 1: ``step 14``."""
    steps_key, _, index_and_field = step.place.rpartition(": ")[2].partition(".")
    step_index = index_and_field.partition(".")[0]
    step_noun = "step of the cure" if steps_key == "cure" else "step"
    return f"{step_noun} {int(step_index) + 1}" if step_index.isdigit() else step_noun


def _find_obstacles(
    step: Step, timeouts_ms: list[int], *, passed_ms: int, abilities: frozenset[Ability]
) -> Iterator[str]:
    if step.rule is not None:
        refusal = meanings.refusal(step.rule, has_peers=Ability.PEERS in abilities)
        if refusal is not None:
            fault_point = step.rule.point
            yield (
                f"a fault at {fault_point}, between brokers that do not come through the proxy"
                if fault_point in FaultPoint.of_peers()
                else f"a fault at {fault_point}, inside of a broker"
            )
        elif Ability.BROKERS not in abilities and (
            step.rule.broker is not None or step.rule.source is not None
        ):
            yield "a fault that names a broker by its number"
    if step.cluster is not None:
        yield from _cluster_obstacles(step.cluster, abilities=abilities)
    if step.advance is not None:
        yield from _time_obstacles(step.advance, timeouts_ms, passed_ms=passed_ms)
    if step.call is not None:
        if step.call.producer_id is not None:
            yield "it names a producer id, which a real cluster chooses itself"
        elif step.call.do == "update-feature" and Ability.WHOLE_CLUSTER not in abilities:
            yield "it changes a feature of the whole cluster"
        elif step.call.broker is not None and Ability.BROKERS not in abilities:
            yield "it asks a broker by its number"


def _cluster_obstacles(cluster_act: ClusterAct, *, abilities: frozenset[Ability]) -> Iterator[str]:
    if cluster_act.do in INSIDE_ACTS:
        yield f"it {INSIDE_ACTS[cluster_act.do]}"
    elif cluster_act.lose_unflushed:
        yield "a broker loses what it had not flushed"
    elif cluster_act.as_version is not None:
        yield "a broker starts as another release"
    elif cluster_act.do in BROKER_ACTS and Ability.BROKERS not in abilities:
        yield f"it has to {BROKER_ACTS[cluster_act.do]}, and these brokers are yours"
    elif cluster_act.do in LOG_ACTS and Ability.LOGS not in abilities:
        yield f"it has to {LOG_ACTS[cluster_act.do]}, and these brokers are yours"
    elif Ability.WHOLE_CLUSTER in abilities:
        return
    elif cluster_act.topic in INTERNAL_TOPICS:
        yield f"it configures {cluster_act.topic}"
    elif cluster_act.coordinator_of is not None:
        yield "it moves a leader of __transaction_state"
    elif cluster_act.partition is not None and is_internal(cluster_act.partition):
        yield f"it moves a leader of {cluster_act.partition.topic.partition(ID_SEPARATOR)[0]}"


def _time_obstacles(ms: int, timeouts_ms: list[int], *, passed_ms: int) -> Iterator[str]:
    """Why real brokers can't advance the clock by this time. Short times are really waited for, and
    so is a long one after which only its transactions time out; a long time in which nothing is due
    is skipped.
    """
    if ms <= REAL_WAIT_MAX_MS or (timeouts_ms and passed_ms + ms < min(timeouts_ms)):
        return
    if ms > REAL_ADVANCE_MAX_MS:
        yield f"it moves the clock by {ms // 60_000} minutes"
