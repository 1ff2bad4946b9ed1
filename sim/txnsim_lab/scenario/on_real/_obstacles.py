"""What keeps a story from being played on real brokers: a step that only a simulator can take, or a
world that a release does not have. Asked before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from txnsim.faults.points import PEER
from txnsim.releases.kafka import REFERENCE, RELEASES, since
from txnsim.releases.release import Release, line_of, newer_than
from txnsim.releases.rules import LATEST, Rules, documentation
from txnsim.types import INTERNAL_TOPICS
from txnsim_lab.proxy import meanings
from txnsim_lab.scenario._cluster_options import STRICT_MARKERS, TRANSACTION_VERSION, VERIFICATION
from txnsim_lab.scenario._notation.places import AT, is_internal
from txnsim_lab.scenario.fields import Situation
from txnsim_lab.scenario.model import Run, Scenario
from txnsim_lab.scenario.steps_model import ClusterAct, Step
from txnsim_lab.target.apache import FEATURE_SINCE
from txnsim_lab.target.cluster import Ability
from txnsim_lab.target.generation import Generation
from txnsim_lab.target.log_care import RETAINED_MS
from txnsim_lab.target.real import REALLY_WAITED_MS

OLDEST_HERE: Final = (3, 6)
"""Older releases are compared with this one."""
WAITED_MAX_MS: Final = 120_000
"""A longer advance is more than a transaction's timeout: something else is to expire."""
OF_STRICT_MARKERS: Final = ("repeated_v2_markers_are_written",)
"""Switches that mean something only where a marker must carry a higher epoch."""
INSIDE: Final = {
    "age": "moves an epoch near its end",
    "isolate": "cuts a broker off",
    "heal": "ends the isolation of a broker",
    "grow-topic": "gives a topic more partitions",
}
OF_BROKERS: Final = {act: f"{act} a broker" for act in ("kill", "stop", "start", "restart")}
OF_LOGS: Final = {
    "roll": "end a segment",
    "clean": "wait for the cleaner",
    "delete-old": "wait for retention",
}
"""What needs the settings and the disks of brokers."""


class Counterpart(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated release that a real one is held against."""

    release: Release
    rules: dict[str, bool]
    """Switches in which the two differ."""

    @property
    def effective(self) -> Rules:
        """The rules of the real release, as far as they are known."""
        return msgspec.structs.replace(self.release.rules, **self.rules)


def counterpart_of(version: str) -> Counterpart:
    """Newest simulated release not newer than the real one, without its later rules."""
    line = max(line_of(version), OLDEST_HERE)
    newest = max((name for name in RELEASES if line_of(name) <= line), key=line_of)
    release = RELEASES[newest]
    later = {name: False for name in newer_than(version) if getattr(release.rules, name)}
    return Counterpart(release=release, rules=later)


def why_not_there(scenario: Scenario, run_name: str, version: str) -> str | None:
    """Reason why a release does not fit a run; None if it does."""
    run = scenario.runs[run_name]
    counterpart = counterpart_of(version)
    if run.mode == "V+" and not counterpart.effective.transactions_are_verified:
        return "verification came with 3.6"
    if run.mode in ("TV2", "TV2+"):
        if line_of(version) < FEATURE_SINCE:
            return "transactions v2 came with 4.0"
        strict = counterpart.effective.v2_markers_need_higher_epoch
        if markers_matter(scenario, run_name) and strict is not (run.mode == "TV2+"):
            return "strict markers (KIP-1228) came with 4.2"
    if any(one.as_version is not None for one in scenario.runs.values()):
        own = counterpart.release.name
        worlds = [one.as_version or REFERENCE.name for one in scenario.runs.values()]
        wanted = run.as_version or REFERENCE.name
        is_newer = wanted == max(worlds, key=line_of) and line_of(own) > line_of(wanted)
        if own != wanted and not is_newer:
            return f"it is the world of {wanted}"
    return _differing_rule(scenario, run, counterpart)


def why_not_of(found: Generation, scenario: Scenario, run_name: str) -> str | None:
    """Reason why a cluster that runs already does not fit a run; None if it does.

    A mode of a story is a world: another cluster's verdict on it says nothing, and may wait for a
    minute for what can't come about.
    """
    mode = scenario.runs[run_name].mode
    is_v2 = found.transaction_version >= TRANSACTION_VERSION["TV2"]
    fits = is_v2 == (TRANSACTION_VERSION[mode] >= TRANSACTION_VERSION["TV2"])
    fits &= found.verification <= {VERIFICATION[mode]}
    if is_v2 and markers_matter(scenario, run_name):
        fits &= found.has_strict_markers == (mode == "TV2+")
    return None if fits else f"not this cluster's generation: {found}"


def markers_matter(scenario: Scenario, run_name: str) -> bool:
    """Whether a run says something only of brokers with strict markers, or without."""
    modes = {one.mode for one in scenario.runs.values()}
    rules = scenario.runs[run_name].rules
    return {"TV2", "TV2+"} <= modes or not rules.keys().isdisjoint(OF_STRICT_MARKERS)


def _differing_rule(scenario: Scenario, run: Run, counterpart: Counterpart) -> str | None:
    """A switch that the release has otherwise, of those by which the runs of this mode differ."""
    here = counterpart.effective
    base = LATEST if run.as_version is None else RELEASES[run.as_version].rules
    wanted = msgspec.structs.replace(base, **run.rules)
    told_apart = [
        name for one in scenario.runs.values() if one.mode == run.mode for name in one.rules
    ]
    for name in dict.fromkeys(told_apart):
        is_on = getattr(wanted, name)
        if name == STRICT_MARKERS or getattr(here, name) is is_on:
            continue
        switch = documentation()[name]
        if switch.until or not switch.since:
            return f"{switch.ticket}: {since(switch)} {switch.after}; elsewhere {switch.before}"
        return (
            f"{switch.ticket} came with {since(switch)}: {switch.after if is_on else switch.before}"
        )
    return None


def only_simulated(
    scenario: Scenario, run_name: str, take: str, *, can: frozenset[Ability]
) -> str | None:
    """The first step of a run that real brokers can't take, and why; None if they can all.

    Args:
        scenario: The story.
        run_name: Its run.
        take: ``armed``, ``disarmed`` or ``control``.
        can: What the target is able to do.
    """
    situation = Situation(run=run_name, mode=scenario.runs[run_name].mode, take=take)
    steps = (*scenario.steps_of(situation), *scenario.cure_of(situation))
    timeouts = [
        one.transaction_timeout
        for one in scenario.actors.values()
        if one.plays in ("wire", "application")
    ]
    cleans = any(step.cluster is not None and step.cluster.do == "clean" for step in steps)
    passed_ms = 0
    for step in steps:
        if Ability.LOGS in can and cleans and (step.advance or 0) >= RETAINED_MS:
            continue  # what the cleaner keeps for that long it keeps for some seconds there
        for why in _obstacles(step, timeouts, passed_ms=passed_ms, can=can):
            return f"{_where(step)}: {why}"
        passed_ms += step.advance or 0
    return None


def _where(step: Step) -> str:
    """``step 14``, as its place in the file says, counted from 1."""
    part, _, rest = step.place.rpartition(": ")[2].partition(".")
    number = rest.partition(".")[0]
    what = "step of the cure" if part == "cure" else "step"
    return f"{what} {int(number) + 1}" if number.isdigit() else what


def _obstacles(
    step: Step, timeouts: list[int], *, passed_ms: int, can: frozenset[Ability]
) -> Iterator[str]:
    if step.rule is not None:
        refused = meanings.refusal(step.rule, has_peers=Ability.PEERS in can)
        if refused is not None:
            point = step.rule.point
            yield (
                f"a fault at {point}, between brokers that do not come through the proxy"
                if point in PEER
                else f"a fault at {point}, inside of a broker"
            )
        elif Ability.BROKERS not in can and (
            step.rule.broker is not None or step.rule.source is not None
        ):
            yield "a fault that names a broker by its number"
    if step.cluster is not None:
        yield from _of_cluster(step.cluster, can=can)
    if step.advance is not None:
        yield from _of_time(step.advance, timeouts, passed_ms=passed_ms)
    if step.call is not None:
        if step.call.producer_id is not None:
            yield "it names a producer id, which a real cluster chooses itself"
        elif step.call.do == "update-feature" and Ability.WHOLE_CLUSTER not in can:
            yield "it changes a feature of the whole cluster"
        elif step.call.broker is not None and Ability.BROKERS not in can:
            yield "it asks a broker by its number"


def _of_cluster(act: ClusterAct, *, can: frozenset[Ability]) -> Iterator[str]:
    if act.do in INSIDE:
        yield f"it {INSIDE[act.do]}"
    elif act.lose_unflushed:
        yield "a broker loses what it had not flushed"
    elif act.as_version is not None:
        yield "a broker starts as another release"
    elif act.do in OF_BROKERS and Ability.BROKERS not in can:
        yield f"it has to {OF_BROKERS[act.do]}, and these brokers are yours"
    elif act.do in OF_LOGS and Ability.LOGS not in can:
        yield f"it has to {OF_LOGS[act.do]}, and these brokers are yours"
    elif Ability.WHOLE_CLUSTER in can:
        return
    elif act.topic in INTERNAL_TOPICS:
        yield f"it configures {act.topic}"
    elif act.coordinator_of is not None:
        yield "it moves a leader of __transaction_state"
    elif act.partition is not None and is_internal(act.partition):
        yield f"it moves a leader of {act.partition.topic.partition(AT)[0]}"


def _of_time(ms: int, timeouts: list[int], *, passed_ms: int) -> Iterator[str]:
    """Short spells are waited for. A long one passes where nothing is due in it; else only its
    transactions' timeouts can be waited for.
    """
    if ms <= REALLY_WAITED_MS or (timeouts and passed_ms + ms < min(timeouts)):
        return
    if ms > WAITED_MAX_MS:
        yield f"it moves the clock by {ms // 60_000} minutes"
