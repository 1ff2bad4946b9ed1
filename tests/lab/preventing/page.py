"""docs/which-rule-prevents-what.md: rules and switches against anomalies, from the verdicts that
stories declare (tests play each) and from kept ways of explorations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tests.lab.preventing.ways import WAYS, WayResult, kept_results
from txnsim.releases.rules import Rules
from txnsim.shell_text import ShellText, arguments, command_line, option
from txnsim_lab.scenario.catalog import scenarios
from txnsim_lab.scenario.model import HEALTHY, MODES, Run, Scenario

Row = tuple[str, ...]

INTRODUCTION: Final = """\
Kafka has become safe for transactions rule by rule. Each rule is here against the anomalies that it
prevents: without it the anomaly is there, with it the same run is healthy. The names of anomalies
are those of [checkers.md](checkers.md), the switches those of [releases.md](releases.md#rules).
Stories are in [scenarios.md](scenarios.md). First: [install](install.md)."""

KIP_890: Final = """\
The modes are one cluster with more and more of KIP-890, and KIP-1228 behind it: **V-** has none of
it, **V+** verifies partitions, **TV2** adds transactions v2 (the epoch rises with each end), and
**TV2+** strict markers. A story that is in no row is the same in all modes, or has one mode.
`txnsim scenario run NAME --armed` tells a story in all of its modes."""

SWITCHES: Final = """\
Each story is played with a switch and without it, in the modes under *In*: with it the story is
healthy there. In the modes under *Needless in* it is healthy without the switch, too: there another
rule suffices. In all other modes the stories do not ask."""

EXPLORATIONS: Final = """\
Each line is one order of messages of an exploration ([explore.md](explore.md)), played without the
switch and with it. The command shows it without; `--on B` plays the other side. A commit that gets
no answer is no anomaly: with `empty_commits_are_ended` a coordinator that does not know of its move
gives none until it knows."""


class SwitchedStory(msgspec.Struct, frozen=True, kw_only=True):
    """A story that is played without some switches."""

    switches: tuple[str, ...]
    story: Scenario
    anomalies: dict[str, tuple[str, ...]]
    """Label of a run without the switches -> what is wrong there, and is not with them."""
    healthy_modes: tuple[str, ...]
    """Modes in which it is healthy without them, too."""


def kip_890() -> tuple[Row, list[Row]]:
    """The table of stories that a rule of KIP-890 makes healthy: its head and its rows."""
    rows: list[Row] = []
    for story in _stories():
        verdicts = {
            mode: story.runs[mode].verdict
            for mode in MODES
            if mode in story.runs and not story.runs[mode].rules
        }
        if len(verdicts) < 2 or len(set(verdicts.values())) == 1:
            continue
        cells = [_verdict_text(verdicts[mode]) if mode in verdicts else "" for mode in MODES]
        rows.append((f"{_name(story)}: {story.title}", *cells))
    return ("Story", *MODES), rows


def switches() -> tuple[Row, list[Row]]:
    """The table of switches without which a story has an anomaly: its head and its rows."""
    documentation = Rules.documentation()
    rows: list[Row] = [
        (
            " and ".join(
                f"`{switch}` ({documentation[switch].ticket})" for switch in switched.switches
            ),
            _name(switched.story),
            _verdict_text(kinds),
            ", ".join(switched.story.runs[label].mode for label in labels),
            ", ".join(switched.healthy_modes),
            f"`{_story_command(switched.story, labels[0])}`",
        )
        for switched in switched_stories()
        for kinds, labels in _labels_by_kinds(switched.anomalies).items()
    ]
    head = ("Switch", "Story", "Without it", "In", "Needless in", "To see it")
    return head, sorted(rows)


def _labels_by_kinds(
    anomalies: Mapping[str, tuple[str, ...]],
) -> dict[tuple[str, ...], list[str]]:
    by_kinds: dict[tuple[str, ...], list[str]] = {}
    for label, kinds in anomalies.items():
        by_kinds.setdefault(kinds, []).append(label)
    return by_kinds


def explorations() -> tuple[Row, list[Row]]:
    """The table of ways of explorations, without a switch and with it: its head and its rows."""
    rows: list[Row] = []
    for way_switch, result in zip(WAYS, kept_results(), strict=True):
        rows.append(
            (
                f"`{result.exploration}`: {way_switch.meaning}",
                f"`{result.switch}`",
                _verdict_text(result.off),
                _verdict_text(result.on),
                f"`{_way_command(result)}`",
            )
        )
    return ("Exploration", "Switch", "Without it", "With it", "To see it"), rows


def switched_stories() -> Iterator[SwitchedStory]:
    """The stories of the catalogue that are played with some switches turned off."""
    for story in _stories():
        anomalies: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
        healthy_modes: dict[tuple[str, ...], list[str]] = {}
        for label, run in story.runs.items():
            if not run.rules or len(set(run.rules.values())) > 1:
                continue
            switches = tuple(sorted(run.rules))
            is_on = all(run.rules.values())
            counterpart_label, counterpart_run = _counterpart(story, run)
            if not is_on and not run.verdict:
                healthy_modes.setdefault(switches, []).append(run.mode)
            elif counterpart_run is not None and run.verdict != counterpart_run.verdict:
                without = (counterpart_label, counterpart_run) if is_on else (label, run)
                anomalies.setdefault(switches, {})[without[0]] = without[1].verdict
        for switches, by_label in anomalies.items():
            yield SwitchedStory(
                switches=switches,
                story=story,
                anomalies=by_label,
                healthy_modes=tuple(healthy_modes.get(switches, ())),
            )


def _counterpart(story: Scenario, run: Run) -> tuple[str, Run | None]:
    """The run that differs from this one by its switches alone, if the story has it."""
    for label, other_run in story.runs.items():
        is_like = (other_run.mode, other_run.as_version, other_run.settings) == (
            run.mode,
            run.as_version,
            run.settings,
        )
        if is_like and not other_run.rules:
            return label, other_run
    return "", None


def _stories() -> Sequence[Scenario]:
    return sorted(scenarios().values(), key=lambda story: (story.anomaly, story.aliases))


def _name(story: Scenario) -> str:
    return f"`{story.aliases[0] if story.aliases else story.name}`"


def _verdict_text(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) or HEALTHY


def _story_command(story: Scenario, label: str) -> ShellText:
    name = story.aliases[0] if story.aliases else story.name
    options = [*option("--mode", label), "--armed"]
    return command_line("txnsim", "scenario", "run", *arguments(name, options=options))


def _way_command(result: WayResult) -> ShellText:
    designs = [f"{result.base},{result.switch}={position}" for position in ("off", "on")]
    options = [
        *option("--on", "A"),
        *option("--explore", result.exploration),
        *option("--way", result.way),
    ]
    return command_line("txnsim", "referee", *arguments(*designs, options=options))
