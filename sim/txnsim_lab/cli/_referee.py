"""``txnsim referee``: two designs of a change, played against each other."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file
from txnsim.cli.progress import Progress
from txnsim.errors import ConfigError
from txnsim.files import write_whole
from txnsim.releases import REFERENCE
from txnsim_lab.cli._simulating.engines import add_engine_options, engine_starter
from txnsim_lab.cli._simulating.simulate import duration_of, seeds_in

if TYPE_CHECKING:
    from txnsim.runtime.trace import TraceLevel
    from txnsim_lab.referee.pairs import Designs
    from txnsim_lab.referee.verdict import Pair, Side, Verdict
    from txnsim_lab.simulation.play import Finding

DIFFERENT_STATUS: Final = 3
INCOMPLETE_STATUS: Final = 4
SEEDS_DEFAULT: Final = "0..100"
EXPLORATIONS_DEFAULT: Final = (
    "broker-dies,coordinator-moves,late-produce,two-producers,stale-coordinator,unaware-coordinator"
)
ALL: Final = "all"
NONE: Final = "none"
SIDES: Final = ("A", "B")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 no run has an anomaly under one design alone, 3 one has, 4 none was found"
        " and not all was played, or a plug-in failed, 2 a wrong argument."
    )
    for side, meaning in zip(SIDES, ("what there is", "what is proposed"), strict=True):
        parser.add_argument(
            side.lower(),
            metavar=side,
            help=f"{meaning}: a release, switches NAME=on|off, settings NAME=VALUE, a plug-in's"
            " file, with commas between them: 4.4,late_commit_is_fenced=off,fix.py",
        )
    played_group = parser.add_argument_group("what is played on both")
    played_group.add_argument(
        "--explore",
        default=EXPLORATIONS_DEFAULT,
        metavar="NAME,…",
        help=f"explorations, all or none (default {EXPLORATIONS_DEFAULT})",
    )
    played_group.add_argument(
        "--deviations",
        type=int,
        choices=range(4),
        default=2,
        metavar="N",
        help="of an exploration from a quiet network, at most: 0 to 3 (default 2)",
    )
    played_group.add_argument(
        "--stories", default=ALL, metavar="NAME,…", help="stories, all or none (default all)"
    )
    seeds_group = played_group.add_mutually_exclusive_group()
    seeds_group.add_argument(
        "--seeds",
        default=SEEDS_DEFAULT,
        metavar="A..B",
        help=f"from A to before B, or none (default {SEEDS_DEFAULT})",
    )
    seeds_group.add_argument("--seed", type=int, metavar="N", help="one seed")
    played_group.add_argument("--time", metavar="DURATION", help="begin nothing after that: 10m")
    played_group.add_argument(
        "--jobs", type=int, metavar="N", help="processes (as many as processors)"
    )
    add_engine_options(played_group, what=" seeds are played")
    played_group.add_argument(
        "--real",
        metavar="RELEASE,…",
        help=f"real brokers that play stories of what was found: apache-{REFERENCE.patch_release},"
        " several with commas (needs a JDK 17 and Maven)",
    )
    output_group = parser.add_argument_group("what is written")
    output_group.add_argument("--json", action="store_true", help="as JSON")
    output_group.add_argument("--html", type=new_file, metavar="FILE", help="a page, too")
    output_group.add_argument(
        "--markdown", type=new_file, metavar="FILE", help="a comment to paste, too"
    )
    single_run_group = parser.add_argument_group("one run, played again")
    single_run_group.add_argument(
        "--on",
        choices=SIDES,
        help="the one run that --seed, --stories with --run, or --explore with --way names, on that"
        " design alone",
    )
    single_run_group.add_argument(
        "--way", metavar="WAY", help="with --on: the way of an exploration"
    )
    single_run_group.add_argument("--run", metavar="RUN", help="with --on: the run of a story")
    single_run_group.add_argument(
        "--trace", type=new_file, metavar="FILE", help="with --on: write the run's trace there"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: A design, an argument or a file is wrong, or this machine can't fork processes.
    """
    from txnsim_lab.referee.design import read_design
    from txnsim_lab.referee.pairs import Designs
    from txnsim_lab.simulation.play import quieten

    designs = Designs(read_design(args.a), read_design(args.b))
    quieten()
    if args.on is not None:
        return _play_alone(designs, args)
    for name in ("way", "run", "trace"):
        if getattr(args, name) is not None:
            raise ConfigError(f"--{name} needs --on: a match has many runs")
    return _judge_designs(designs, args)


def _judge_designs(designs: Designs, args: argparse.Namespace) -> int:
    from txnsim_lab.referee.matches import Match, play_match, story_runs
    from txnsim_lab.referee.writing import as_json, html_of, lines_of, markdown_of
    from txnsim_lab.target.jars import version_of

    versions = [] if args.real is None else [version_of(word) for word in args.real.split(",")]
    match = Match(
        designs=designs,
        explorations=_parse_explorations(args.explore),
        stories=_parse_stories(args.stories),
        seeds=_chosen_seeds(args),
        deviations_max=args.deviations,
        seconds_max=None if args.time is None else duration_of("--time", args.time) / 1_000,
        process_count=args.jobs or os.cpu_count() or 1,
    )
    if match.explorations and not hasattr(os, "fork"):
        raise ConfigError(
            "explorations fork their process, which this system can't: --explore none"
        )
    total_count = (
        len(match.explorations) + len(story_runs(match.stories, designs)) + len(match.seeds)
    )
    if not total_count:
        raise ConfigError("nothing is played: name seeds, stories or explorations")
    progress = Progress("pairs", total_count)
    played_count, different_count = 0, 0

    def show(pair: Pair) -> None:
        nonlocal played_count, different_count
        played_count += 1
        different_count += pair.a.sightings.keys() != pair.b.sightings.keys()
        progress.advance(
            played_count, tally_text=f"{different_count} with a difference, {pair.label}"
        )

    with ExitStack() as exit_stack:
        start_engine = engine_starter(args, exit_stack)
        verdict = play_match(match, on_pair=show, start_engine=start_engine)
    progress.end()
    if versions:
        verdict = _ask_real_releases(verdict, versions)
    if args.html is not None:
        write_whole(args.html, html_of(verdict))
    if args.markdown is not None:
        write_whole(args.markdown, markdown_of(verdict))
    if args.json:
        TERMINAL.json(as_json(verdict))
    else:
        for line in lines_of(verdict):
            TERMINAL.line(line)
    if verdict.failures:
        return INCOMPLETE_STATUS
    if verdict.differs:
        return DIFFERENT_STATUS
    return 0 if verdict.is_complete else INCOMPLETE_STATUS


def _ask_real_releases(verdict: Verdict, versions: Sequence[str]) -> Verdict:
    """The verdict with what real brokers did in its stories."""
    from txnsim.runtime import real_world
    from txnsim_lab.referee.real_releases import ask_release

    real_answers = [
        answer
        for version in versions
        for answer in real_world.run(ask_release(version, verdict, report_progress=TERMINAL.warn))
    ]
    return msgspec.structs.replace(verdict, real_answers=tuple(real_answers))


def _names(text: str) -> list[str]:
    return [] if text == NONE else [name for name in text.split(",") if name]


def _parse_explorations(text: str) -> tuple[str, ...]:
    from txnsim_lab.exploration.catalog import explorations, find

    if text == ALL:
        return tuple(explorations())
    exploration_names = tuple(_names(text))
    for name in exploration_names:
        find(name)  # or there is none
    return exploration_names


def _parse_stories(text: str) -> tuple[str, ...]:
    from txnsim_lab.scenario.catalog import find, scenarios

    if text == ALL:
        return tuple(scenario.name for scenario in scenarios().values())
    story_names = tuple(_names(text))
    for name in story_names:
        find(name)  # or there is none
    return story_names


def _chosen_seeds(args: argparse.Namespace) -> range:
    if args.seed is not None:
        return range(args.seed, args.seed + 1)
    return range(0) if args.seeds == NONE else seeds_in(args.seeds)


# One run


def _play_alone(designs: Designs, args: argparse.Namespace) -> int:
    """Play one run on one design; returns the exit status."""
    from txnsim.runtime.trace import TraceLevel
    from txnsim_lab.referee.matches import in_child
    from txnsim_lab.referee.verdict import Side

    side = Side(args.on)
    level = TraceLevel.OFF if args.trace is None else TraceLevel.FULL
    if args.seed is not None:
        play_run = _seed_alone
    elif args.way is not None:
        play_run = _way_alone
    elif args.run is not None:
        play_run = _story_alone
    else:
        raise ConfigError("--on needs --seed, --explore with --way, or --stories with --run")
    outcome_lines, findings, failures, trace = in_child(
        partial(play_run, designs, side, args, level), designs, work_name="the run"
    )
    if args.trace is not None:
        write_whole(args.trace, trace)
    if args.json:
        TERMINAL.json({"steps": outcome_lines, "findings": findings, "failures": failures})
    else:
        for line in outcome_lines:
            TERMINAL.line(line)
        for finding in findings:
            TERMINAL.line(f"{finding['kind']}: {finding['because']}")
        if not findings and not failures:
            TERMINAL.line("Nothing is wrong at its end.")
        for failure in failures:
            TERMINAL.line(f"! {failure}")
    if failures:
        return INCOMPLETE_STATUS
    return DIFFERENT_STATUS if findings else 0


AloneResult = tuple[list[str], list[dict[str, str]], list[str], bytes]
"""Steps, findings, what plug-ins have raised, the trace."""


def _seed_alone(
    designs: Designs, side: Side, args: argparse.Namespace, level: TraceLevel
) -> AloneResult:
    from txnsim_lab.referee.pairs import play_seed
    from txnsim_lab.simulation.reports import numbered_sentences

    played_run, failures = play_seed(args.seed, designs, side, trace_level=level)
    return (
        list(numbered_sentences(played_run.acts)),
        list(_as_json(played_run.findings)),
        list(failures),
        played_run.trace,
    )


def _way_alone(
    designs: Designs, side: Side, args: argparse.Namespace, level: TraceLevel
) -> AloneResult:
    from txnsim_lab.exploration.way import marked_steps, read_way
    from txnsim_lab.referee.pairs import play_way

    explorations = _parse_explorations(args.explore)
    if len(explorations) != 1:
        raise ConfigError("--way needs --explore with the name of one exploration")
    way = read_way(args.way)
    replayed, failures = play_way(explorations[0], way, designs, side, trace_level=level)
    return (
        list(marked_steps(replayed.steps, replayed.deviating_steps)),
        list(_as_json(replayed.played_run.findings)),
        list(failures),
        replayed.played_run.trace,
    )


def _story_alone(
    designs: Designs, side: Side, args: argparse.Namespace, level: TraceLevel
) -> AloneResult:
    from txnsim.runtime.trace import TraceLevel
    from txnsim.text import unknown_word_message
    from txnsim_lab.referee.pairs import play_story
    from txnsim_lab.scenario.catalog import find

    stories = _parse_stories(args.stories)
    if len(stories) != 1:
        raise ConfigError("--run needs --stories with the name of one story")
    run_names = find(stories[0])[1].runs
    if args.run not in run_names:
        raise ConfigError(unknown_word_message("run", args.run, run_names))
    trace_level = TraceLevel.BRIEF if level is TraceLevel.OFF else level  # which tells the story
    run_result, failures = play_story(
        stories[0], args.run, designs, side, goes_on=True, trace_level=trace_level
    )
    findings = [
        {"kind": kind, "because": because}
        for kind, _, because in (reason.partition(": ") for reason in run_result.verdict.because)
    ]
    steps = [
        f"{step_number:3}  {step.text}" for step_number, step in enumerate(run_result.story, 1)
    ]
    steps += [
        f"Otherwise than the story expects: {mismatch_sentence}"
        for mismatch_sentence in run_result.mismatches
    ]
    return steps, findings, list(failures), run_result.trace


def _as_json(findings: tuple[Finding, ...]) -> Iterator[dict[str, str]]:
    return ({"kind": finding.kind, "because": finding.because} for finding in findings)
