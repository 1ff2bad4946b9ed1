"""``txnsim explore``: every order in which the messages of a small cluster can arrive."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file
from txnsim.cli.progress import Progress
from txnsim.errors import ConfigError
from txnsim.files import write_whole
from txnsim.shell_text import arguments, command_line, option
from txnsim_lab.cli._simulating.simulate import add_cluster_choices, duration_of, switches_of

if TYPE_CHECKING:
    from txnsim_lab.exploration.deepening import AnomalyFound, ExplorationResult
    from txnsim_lab.exploration.model import Exploration

FOUND_STATUS: Final = 3
INCOMPLETE_STATUS: Final = 4
MODES: Final = ("V-", "V+", "TV2", "TV2+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 every way within the bounds is healthy, 3 an anomaly was found, 4 nothing"
        " was found before the time was up or the limit of deviations was reached, 2 a wrong"
        " argument."
    )
    parser.add_argument(
        "story",
        nargs="?",
        metavar="STORY",
        help="an exploration, the story it belongs to, or a file; without one they are listed",
    )
    parser.add_argument("--mode", choices=MODES, help="verification and transaction protocol")
    add_cluster_choices(parser)
    parser.add_argument(
        "--bounds",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="disturbances, losses, delays, delay-ms or within-ms; may be repeated",
    )
    parser.add_argument(
        "--deviations",
        type=int,
        metavar="N",
        help="at most N times something else happens than on a quiet network",
    )
    parser.add_argument("--time", metavar="DURATION", help="stop after that: 10m")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (as many as processors)")
    parser.add_argument("--all", action="store_true", help="search on where an anomaly was found")
    parser.add_argument("--way", metavar="WAY", help="play one way, as explore prints it")
    parser.add_argument(
        "--trace", type=new_file, metavar="FILE", help="with --way: write the run's trace there"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: An argument or a file is wrong, or this machine can't fork processes.
    """
    from txnsim_lab.exploration.catalog import changed, explorations, find
    from txnsim_lab.simulation.play import quieten

    if args.story is None:
        return _list(explorations(), args)
    exploration = changed(
        find(args.story),
        mode=args.mode,
        as_version=args.as_version,
        rules=switches_of(args.rules),
        bounds=_bounds_of(args.bounds),
    )
    quieten()
    if args.way is not None:
        return _play_way(exploration, args)
    if args.trace is not None:
        raise ConfigError("--trace needs --way: a search has many runs")
    if not hasattr(os, "fork"):
        raise ConfigError("explore forks its process at each choice, which this system can't")
    return _search(exploration, args)


def _list(known_explorations: dict[str, Exploration], args: argparse.Namespace) -> int:
    if args.json:
        TERMINAL.json(
            [
                {"name": exploration.name, "title": exploration.title, "of": exploration.of}
                for exploration in known_explorations.values()
            ]
        )
        return 0
    width = max(map(len, known_explorations))
    for name, exploration in known_explorations.items():
        TERMINAL.line(f"{name:{width}}  {exploration.title}")
    return 0


def _bounds_of(texts: list[str]) -> dict[str, int]:
    bounds = {}
    for text in texts:
        name, _, number_text = text.partition("=")
        if not number_text.isdigit():
            raise ConfigError(f"--bounds {text}: expected a bound with a number, such as losses=1")
        bounds[name] = int(number_text)
    return bounds


def _search(exploration: Exploration, args: argparse.Namespace) -> int:
    from txnsim_lab.exploration.deepening import explore

    progress = Progress("states", None)

    def show(limit: int | None, counts: dict[str, int], seconds: float) -> None:
        progress.advance(
            counts["states"],
            tally_text=f"{_limit_text(limit)}, {counts['ends']} ends judged, {seconds:.0f} s",
        )

    exploration_result = explore(
        exploration,
        lane_count=args.jobs or os.cpu_count() or 1,
        seconds_max=None if args.time is None else duration_of("--time", args.time) / 1_000,
        deviations_max=args.deviations,
        goes_on=args.all,
        progress=show,
    )
    progress.end()
    if args.json:
        TERMINAL.json(_as_json(exploration_result))
    else:
        for line in _lines(exploration, exploration_result, args):
            TERMINAL.line(line)
    if exploration_result.anomalies:
        return FOUND_STATUS
    return 0 if exploration_result.is_complete else INCOMPLETE_STATUS


def _play_way(exploration: Exploration, args: argparse.Namespace) -> int:
    from txnsim.runtime.trace import TraceLevel
    from txnsim_lab.exploration.search import replay
    from txnsim_lab.exploration.way import read_way, text_of_way

    level = TraceLevel.OFF if args.trace is None else TraceLevel.FULL
    replayed = replay(exploration, read_way(args.way), trace_level=level)
    if args.trace is not None:
        write_whole(args.trace, replayed.played_run.trace)
    findings = replayed.played_run.findings
    if args.json:
        TERMINAL.json(
            {
                "way": text_of_way(replayed.way),
                "steps": list(replayed.steps),
                "findings": [
                    {"kind": finding.kind, "because": finding.because} for finding in findings
                ],
            }
        )
    else:
        for number, step in enumerate(replayed.steps, 1):
            TERMINAL.line(f"{number:3}  {step}")
        for finding in findings:
            TERMINAL.line(f"{finding.kind}: {finding.because}")
        if not findings:
            TERMINAL.line("Nothing is wrong at its end.")
    return FOUND_STATUS if findings else 0


def _lines(
    exploration: Exploration, result: ExplorationResult, args: argparse.Namespace
) -> Iterator[str]:
    yield f"{exploration.name}: {exploration.title}"
    yield f"  within: {_bounds_text(exploration)}"
    for limit, search in result.searches:
        yield (
            f"  {_limit_text(limit)}: {search.states} states, {search.choices} choices,"
            f" {search.ends} ends judged, in {search.seconds:.1f} s"
            f" ({search.cpu_s:.1f} s of processor time)"
        )
    for anomaly in result.anomalies:
        yield from _anomaly_lines(anomaly, args)
    if result.is_complete:
        verdict = "These are all ways within the bounds."
        yield verdict if result.anomalies else f"{verdict} None leaves an anomaly."
    elif not result.anomalies:
        yield (
            "Nothing was found so far. Not all ways were followed: give it more --time, or more"
            " --deviations."
        )
    if result.largest is not None and result.largest.broken:
        yield f"{result.largest.broken} processes ended without a result: their ways are missing."


def _anomaly_lines(anomaly: AnomalyFound, args: argparse.Namespace) -> Iterator[str]:
    from txnsim_lab.exploration.way import marked_steps, text_of_way

    yield f"{', '.join(anomaly.kinds)}, at {anomaly.ends} ends: {anomaly.because}"
    yield from (f"  {step}" for step in marked_steps(anomaly.steps, anomaly.deviating_steps))
    cluster_options = (("--mode", args.mode), ("--as-version", args.as_version))
    choices = [
        *(
            argument
            for name, value in cluster_options
            if value is not None
            for argument in option(name, value)
        ),
        *(argument for rule in args.rules for argument in option("--rules", rule)),
        *(argument for bound in args.bounds for argument in option("--bounds", bound)),
        *option("--way", text_of_way(anomaly.way)),
    ]
    play_command = command_line("txnsim", "explore", *arguments(args.story), *choices)
    yield f"  play it: {play_command}"


def _limit_text(limit: int | None) -> str:
    if limit is None:
        return "any number of deviations"
    return "no deviation" if limit == 0 else f"up to {limit} deviation{'s' if limit > 1 else ''}"


def _bounds_text(exploration: Exploration) -> str:
    bounds = exploration.bounds
    return (
        f"{bounds.disturbances} of {len(exploration.disturbances)} disturbances, {bounds.losses}"
        f" lost messages, {bounds.delays} delays of {bounds.delay_ms} ms, all in"
        f" {bounds.within_ms} ms"
    )


def _as_json(result: ExplorationResult) -> dict[str, Any]:
    from txnsim_lab.exploration.way import text_of_way

    return {
        "name": result.name,
        "complete": result.is_complete,
        "searches": [
            {
                "deviations": limit,
                "states": search.states,
                "choices": search.choices,
                "ends": search.ends,
                "seconds": round(search.seconds, 2),
                "cpu_s": round(search.cpu_s, 2),
            }
            for limit, search in result.searches
        ],
        "anomalies": [
            {
                "kinds": list(anomaly.kinds),
                "because": anomaly.because,
                "ends": anomaly.ends,
                "way": text_of_way(anomaly.way),
                "steps": list(anomaly.steps),
            }
            for anomaly in result.anomalies
        ],
    }
