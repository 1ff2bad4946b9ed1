"""Finds the cause of a finding, and whether it is known. The run is repeated without one of its
possible causes: with a switch of a release turned, then without the acts of one habit that is known
to do harm. The change that makes the run healthy is the cause. Its name is the scenario with the
same switch or habit. A long run may have several causes, each for some of the findings. If no
change helps, the findings are unknown. A switch that only changes the time of an event is no cause:
if the acts are moved a little in time, the findings appear with the switch and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from txnsim.releases import release_named
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim_lab.check.anomaly import Kind
from txnsim_lab.check.judge import HEALTHY
from txnsim_lab.scenario import catalog
from txnsim_lab.simulation._further_features import EXPIRATION_SETTINGS, SHORT_EXPIRATIONS_FEATURE
from txnsim_lab.simulation._shrinking import (
    EARLY_MARKERS_HABIT,
    HABIT_TESTS,
    ONE_REPLICA_HABIT,
    start_later,
    with_care,
    with_more_locks,
    with_own_keys,
    with_switch,
    without_habit,
)
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import PlayedRun, play

HARMFUL_HABITS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "other-identity": ("a program uses an identity that is another's", ("z30",)),
    "operator-errs": ("an operator aborts what does not hang", ("z25-trap",)),
    "operator-aborts": ("an operator aborts what does not hang", ("z25-trap",)),
    "unknown-end": ("a program goes on after an end of unknown outcome", ("z24", "z05", "z06")),
    "gives-up": ("a program goes on without the answer to its Produce", ("z02", "z02a", "z03")),
    "no-adds": ("a program adds no partition", ("z04",)),
    "bumps": ("a producer that was replaced asks for its next epoch, rule init.open-stale", ()),
    "delete-records": ("an operator deletes records", ("z08",)),
    "remake-topic": ("a topic is made again for a group that has positions of the old one", ()),
    "feature-levels": ("a feature level changes under an open transaction", ()),
    "clock-jumps": ("a broker's clock is set ahead, so timeouts come early", ()),
    EARLY_MARKERS_HABIT: (
        "an operator writes a marker with an epoch that its producer has not had",
        (),
    ),
    ONE_REPLICA_HABIT: (
        "a partition is reassigned to one broker, and those that had it stay eligible to lead it",
        (),
    ),
    SHORT_EXPIRATIONS_FEATURE: ("a broker forgets what a client still counts on", ("z09",)),
}
"""Habit -> a description of what no release of Kafka can cope with, and the scenarios that show
it.
"""

SCENARIO_BY_SWITCH: Final[Mapping[str, str]] = {"loads_wait_for_replication": "z34"}
"""Switch -> scenario, for switches of which no run of the scenario has the other position."""

FEW_LOCKS: Final = "an aborted transaction has no fewer records than a share group may lock"
SHARED_KEYS: Final = "programs write the same keys at once, and Kafka isolates no writers"


class FindingCause(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes the run healthy."""

    switch: str = ""
    """A switch of the releases."""
    healthy: bool = False
    """Position of the switch in which the run is healthy."""
    habit: str = ""
    """If no switch: the habit without whose acts the run is healthy."""
    ticket: str
    """Ticket of the switch; for a habit, a description."""
    anomalies: tuple[str, ...] = msgspec.field(name="animals")
    """Short names of the scenarios that show it: ``z27``."""

    def __str__(self) -> str:
        names = " or ".join(self.anomalies) or "known, without a scenario"
        position = "on" if self.healthy else "off"
        condition = f"with {self.switch} {position}" if self.switch else f"without {self.habit}"
        return f"{names} ({self.ticket}): healthy {condition}"

    @property
    def name(self) -> str:
        return " or ".join(self.anomalies) or self.switch or self.habit


CAUSES_MAX: Final = 4
"""Maximum number of causes of one run."""
FREQUENT_SWITCHES: Final = ("leaderless_partitions_keep_markers", "late_commit_is_fenced")
"""Switches that explain most findings of the reference release; they are tried first."""

SHIFT_MS: Final = 40
"""One track is moved by this time to test whether a cure depends on time alone."""

_Cure = tuple[Plan, Callable[[], FindingCause]]
"""A changed plan, and the cause that the change removes."""


def causes_of(plan: Plan) -> tuple[FindingCause, ...]:
    """The causes that together explain all findings of a plan's run; empty if known causes
    don't.
    """
    causes: list[FindingCause] = []
    played_run = play(plan)
    while played_run.kinds and len(causes) < CAUSES_MAX:
        best_cure: tuple[PlayedRun, _Cure] | None = None
        for plan_and_cause in _find_cures(plan, played_run.kinds):
            cured_run = play(plan_and_cause[0])
            # Where one thing is healed the run goes on, and may meet another.
            has_other_kinds = set(cured_run.kinds).isdisjoint(played_run.kinds)
            is_improvement = has_other_kinds or _finding_count(cured_run) < _finding_count(
                played_run
            )
            if not is_improvement or (
                best_cure is not None and _finding_count(cured_run) >= _finding_count(best_cure[0])
            ):
                continue
            if not cured_run.kinds and _is_chance(plan, plan_and_cause, played_run.kinds):
                continue
            best_cure = cured_run, plan_and_cause
            if not cured_run.kinds:
                break
        if best_cure is None:
            return ()
        played_run, (plan, describe_cause) = best_cure
        causes.append(describe_cause())
    return () if played_run.kinds else tuple(causes)


def _is_chance(plan: Plan, plan_and_cause: _Cure, kinds: Collection[str]) -> bool:
    """Whether a switch makes the run healthy only because it changes the time of events."""
    cured_plan, cause = plan_and_cause
    if cause().switch in ("", *FREQUENT_SWITCHES):
        return False
    for track_index in range(len(plan.tracks)):
        cured_kinds = {*play(start_later(cured_plan, track_index, SHIFT_MS)).kinds}
        if not cured_kinds.isdisjoint(kinds) and cured_kinds <= {
            *play(start_later(plan, track_index, SHIFT_MS)).kinds
        }:
            return True
    return False


def _finding_count(played_run: PlayedRun) -> int:
    return len(played_run.findings)


def _find_cures(plan: Plan, kinds: tuple[str, ...]) -> Iterator[_Cure]:
    # Other keys are cleaned otherwise, and could heal what the cleaner has done.
    if kinds == (Kind.DIRTY_WRITE,) and (changed_plan := with_own_keys(plan)) != plan:
        cause = FindingCause(habit="shared keys", ticket=SHARED_KEYS, anomalies=())
        yield changed_plan, partial(_known_cause, cause)
    if Kind.STARVING_READER in kinds and (changed_plan := with_more_locks(plan)) != plan:
        cause = FindingCause(habit="few record locks", ticket=FEW_LOCKS, anomalies=("z36",))
        yield changed_plan, partial(_known_cause, cause)
    for switch_name, is_on in sorted(
        _switches_off(plan), key=lambda switch: switch[0] not in FREQUENT_SWITCHES
    ):
        yield (
            with_switch(plan, switch_name, not is_on),
            partial(_cause_of_switch, switch_name, healthy_setting=not is_on),
        )
    present_habits = {planned_act.habit for planned_act in plan.acts}
    if not plan.world.settings.keys().isdisjoint(EXPIRATION_SETTINGS):
        present_habits.add(SHORT_EXPIRATIONS_FEATURE)
    present_habits |= {
        habit for habit, has_habit in HABIT_TESTS.items() if any(map(has_habit, plan.acts))
    }
    for habit, (ticket, anomalies) in HARMFUL_HABITS.items():
        if habit in present_habits:
            cause = FindingCause(habit=habit, ticket=ticket, anomalies=anomalies)
            yield without_habit(plan, habit), partial(_known_cause, cause)
    if (careful_plan := with_care(plan)) != plan:
        ticket, anomalies = HARMFUL_HABITS["unknown-end"]
        cause = FindingCause(habit="going on after errors", ticket=ticket, anomalies=anomalies)
        yield careful_plan, partial(_known_cause, cause)


def _known_cause(cause: FindingCause) -> FindingCause:
    return cause


def _cause_of_switch(switch_name: str, *, healthy_setting: bool) -> FindingCause:
    return FindingCause(
        switch=switch_name,
        healthy=healthy_setting,
        ticket=Rules.documentation()[switch_name].ticket,
        anomalies=tuple(_anomalies_of_switch(switch_name, healthy_setting=healthy_setting)),
    )


def _switches_off(plan: Plan) -> Iterator[tuple[str, bool]]:
    """Switches that are off in a release of the run, so that the bug which they fix is present."""
    world = plan.world
    upgrades = {
        planned_act.step.get("cluster", {}).get("as-version") for planned_act in plan.acts
    } - {None}
    rules_of_releases = (
        [LATEST_RULES] if world.as_version is None else [release_named(world.as_version).rules]
    )
    rules_of_releases += [release_named(switch_name).rules for switch_name in sorted(upgrades)]
    for switch_name in Rules.documentation():
        is_on = world.rules.get(
            switch_name, all(getattr(rules, switch_name) for rules in rules_of_releases)
        )
        if not is_on:
            yield switch_name, is_on


def _anomalies_of_switch(switch_name: str, *, healthy_setting: bool) -> Iterator[str]:
    """Scenarios whose runs differ by this switch, and are healthy in one position only."""
    if switch_name in SCENARIO_BY_SWITCH:
        yield SCENARIO_BY_SWITCH[switch_name]
    for scenario_head in catalog.heads():
        scenario_runs = scenario_head["runs"].values()
        heals_some_run = any(
            scenario_run.get("rules") == {switch_name: healthy_setting}
            and _ends_healthy(scenario_run)
            for scenario_run in scenario_runs
        )
        harms_some_run = any(
            scenario_run.get("rules") == {switch_name: not healthy_setting}
            and not _ends_healthy(scenario_run)
            for scenario_run in scenario_runs
        )
        unswitched_runs = [
            scenario_run
            for scenario_run in scenario_runs
            if switch_name not in scenario_run.get("rules", {})
        ]
        differs_alone = (
            any(not _ends_healthy(scenario_run) for scenario_run in unswitched_runs)
            if heals_some_run
            else any(map(_ends_healthy, unswitched_runs))
        )
        if (heals_some_run or harms_some_run) and differs_alone:
            scenario_aliases = scenario_head.get("aliases", ())
            yield scenario_aliases[0] if scenario_aliases else scenario_head["name"]


def _ends_healthy(scenario_run: Mapping[str, Any]) -> bool:
    return bool(scenario_run["verdict"] == HEALTHY)
