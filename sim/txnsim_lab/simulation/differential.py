"""Plays the same seed in two clusters, and finds where the runs differ. Both runs have the same
plan: actors, acts, pauses and links. The second cluster has another release, switch or setting.
Answers to clients are compared first. A client that gets another answer acts differently from then
on, so only the first such answer is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from txnsim.errors import ConfigError
from txnsim.releases import release_named
from txnsim.releases.rules import Rules
from txnsim.runtime.trace import TraceLevel
from txnsim.text import unknown_word_message
from txnsim.trace.trace_file import Recording
from txnsim_lab.simulation._sentences import sentence_of
from txnsim_lab.simulation.drawing import modes_of
from txnsim_lab.simulation.plan import Plan, StepBody
from txnsim_lab.simulation.play import PlayedAct, PlayedRun, play
from txnsim_lab.trace.diff import diff


class BrokerRunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two runs."""

    sentence: str
    """The first client answer that differs, or the statement that none does."""
    inside: str | None
    """The first difference inside the clusters; None if there is none."""
    left_run: PlayedRun
    right_run: PlayedRun

    @property
    def is_none(self) -> bool:
        """Whether clients and judges see no difference."""
        are_alike = _first_difference(self.left_run, self.right_run) is None
        return are_alike and self.left_run.kinds == self.right_run.kinds


class _ActDifference(NamedTuple):
    """The first acts of one actor with different answers: None on a side where the act did not
    happen.
    """

    at_us: int
    actor: str
    ours: PlayedAct | None
    theirs: PlayedAct | None


class _Comparable(NamedTuple):
    """The parts of an act that must be equal in both runs."""

    request: StepBody
    error: str
    answer_digest: str


def other_plan(plan: Plan, changed_settings: Sequence[str]) -> Plan:
    """The plan for the other cluster.

    Args:
        plan: The plan of the seed.
        changed_settings: The differences: a release (``4.2``), a switch (``NAME=on``), a setting
            of brokers (``NAME=VALUE``).

    Raises:
        ConfigError: There is no such release or switch.
    """
    world = plan.world
    for setting_text in changed_settings:
        setting_name, equals_sign, setting_value = setting_text.partition("=")
        if not equals_sign:
            release_named(setting_text)  # or there is none
            own_modes, other_modes = modes_of(world.as_version), modes_of(setting_text)
            mode_index = own_modes.index(world.mode) if world.mode in own_modes else 0
            mode = other_modes[min(mode_index, len(other_modes) - 1)]
            world = msgspec.structs.replace(world, as_version=setting_text, mode=mode, rules={})
        elif setting_name in Rules.documentation():
            if setting_value not in ("on", "off"):
                raise ConfigError(
                    f"--against {setting_text}: expected {setting_name}=on or {setting_name}=off"
                )
            world = msgspec.structs.replace(
                world, rules={**world.rules, setting_name: setting_value == "on"}
            )
        elif "." in setting_name:
            world = msgspec.structs.replace(
                world, settings={**world.settings, setting_name: _parse_value(setting_value)}
            )
        else:
            raise ConfigError(unknown_word_message("switch", setting_name, Rules.documentation()))
    return msgspec.structs.replace(plan, world=world)


def _parse_value(value_text: str) -> object:
    """Parse a number or a boolean, as in a scenario file; other text stays text."""
    try:
        return msgspec.json.decode(value_text)
    except (msgspec.DecodeError, RecursionError):
        return value_text


def difference(plan: Plan, other_side: Plan) -> BrokerRunDifference:
    """Play both plans, and compare the runs.

    Raises:
        ConfigError: A cluster can't be configured as its plan needs.
    """
    left_run, right_run = (
        play(side_plan, trace_level=TraceLevel.BRIEF) for side_plan in (plan, other_side)
    )
    runs = [
        Recording.from_lines(side_name, played_run.trace.splitlines())
        for side_name, played_run in (("A", left_run), ("B", right_run))
    ]
    divergence = diff(*runs)
    return BrokerRunDifference(
        sentence=_difference_sentence(left_run, right_run),
        inside=None if divergence is None else divergence.sentence,
        left_run=left_run,
        right_run=right_run,
    )


def _difference_sentence(left_run: PlayedRun, right_run: PlayedRun) -> str:
    act_difference = _first_difference(left_run, right_run)
    if act_difference is not None:
        left_act, right_act = act_difference.ours, act_difference.theirs
        parted_act = left_act or right_act
        assert parted_act is not None
        subject_phrase = (
            f"They part at {parted_act.at_us / 1e6:.3f} s, when {sentence_of(parted_act.step)}"
        )
        if left_act is not None and right_act is not None and left_act.error == right_act.error:
            return f"{subject_phrase}: both answer {left_act.error}, and do not say the same."
        return f"{subject_phrase}: A {_answer_text(left_act)}, B {_answer_text(right_act)}."
    if left_run.kinds != right_run.kinds:
        return (
            f"All clients are answered alike; A has {_kinds_text(left_run)}, B has"
            f" {_kinds_text(right_run)}."
        )
    return "All clients are answered alike, and the judges say the same."


def _first_difference(left_run: PlayedRun, right_run: PlayedRun) -> _ActDifference | None:
    """The earliest act with different answers; None if there is none."""
    left_acts_by_actor, right_acts_by_actor = (
        _acts_by_actor(left_run.acts),
        _acts_by_actor(right_run.acts),
    )
    act_differences: list[_ActDifference] = []
    for actor in dict.fromkeys((*left_acts_by_actor, *right_acts_by_actor)):
        for left_act, right_act in zip_longest(
            left_acts_by_actor[actor], right_acts_by_actor[actor]
        ):
            if (
                left_act is None
                or right_act is None
                or _comparable_part(left_act) != _comparable_part(right_act)
            ):
                at_us = min(act.at_us for act in (left_act, right_act) if act is not None)
                act_differences.append(_ActDifference(at_us, actor, left_act, right_act))
                break
    return min(
        act_differences,
        key=lambda act_difference: (act_difference.at_us, act_difference.actor),
        default=None,
    )


def _comparable_part(act: PlayedAct) -> _Comparable:
    return _Comparable(request=act.step, error=act.error, answer_digest=act.answer_digest)


def _acts_by_actor(acts: Sequence[PlayedAct]) -> defaultdict[str, list[PlayedAct]]:
    acts_by_actor: defaultdict[str, list[PlayedAct]] = defaultdict(list)
    for act in sorted(acts, key=lambda act: act.at_us):
        acts_by_actor[act.who].append(act)
    return acts_by_actor


def _answer_text(act: PlayedAct | None) -> str:
    if act is None:
        return "does not get there"
    return f"answers {act.error} after {act.took_us / 1_000:.0f} ms"


def _kinds_text(played_run: PlayedRun) -> str:
    return ", ".join(played_run.kinds) or "no finding"
