"""``txnsim scenario``: list, show and run stories about transactions."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sim.cli.output import format_table, print_json, print_line, warn
from sim.errors import ConfigError
from sim.scenario.catalog import directory, find, scenarios

if TYPE_CHECKING:
    from sim.scenario.model import Scenario
    from sim.scenario.runner import RunResult

HELP: Final = "list, show and run stories about transactions"
WIDTH: Final = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``scenario`` takes."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = commands.add_parser("list", help="the scenarios that come with txnsim")
    listing.add_argument("--json", action="store_true", help="as JSON")
    show = commands.add_parser("show", help="one scenario: goal, method, steps, verdicts")
    _name(show)
    show.add_argument("--json", action="store_true", help="as JSON")
    run_one = commands.add_parser("run", help="tell a story and judge it")
    _name(run_one)
    _run_options(run_one)
    run_one.add_argument(
        "--disarmed", action="store_true", help="only without the fault, to see the difference"
    )
    run_one.add_argument("--armed", action="store_true", help="only with the fault")
    run_one.add_argument(
        "--trace", type=Path, default=None, metavar="DIR", help="write each run's trace there"
    )
    run_one.add_argument("--quiet", action="store_true", help="the table only")
    matrix = commands.add_parser("matrix", help="run every scenario in every mode, table only")
    _run_options(matrix)


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a scenario's name or alias, or a YAML file")


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        action="append",
        default=[],
        metavar="MODE",
        help="only this mode; may be repeated",
    )
    parser.add_argument(
        "--player",
        default=None,
        help="who plays the producer: own, kafka-python (default: by mode)",
    )
    parser.add_argument(
        "--program",
        default=None,
        metavar="COMMAND",
        help="a program that plays the producer: called with bootstrap, transactional id, topic, "
        "partition and timestamp, tells what it sees as JSON lines",
    )
    parser.add_argument("--json", action="store_true", help="facts and verdicts as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status: 0 as declared, 1 another verdict, 2 a wrong argument."""
    try:
        match args.action:
            case "list":
                return _list(args)
            case "show":
                return _show(args)
            case "run":
                return _run((find(args.name),), args)
            case _:
                return _run(scenarios(), args)
    except ConfigError as error:
        warn(str(error))
        return 2


# list, show


def _list(args: argparse.Namespace) -> int:
    known = scenarios()
    if args.json:
        print_json(
            [{"name": one.name, "aliases": one.aliases, "title": one.title} for one in known]
        )
        return 0
    rows = [(one.name, ", ".join(one.aliases), one.title) for one in known]
    print_line(format_table(("Scenario", "Alias", "Title"), rows).rstrip("\n"))
    return 0


def _show(args: argparse.Namespace) -> int:
    scenario = find(args.name)
    if args.json:
        print_json(scenario.model_dump(mode="json", by_alias=True, exclude={"steps"}))
        return 0
    print_line(f"{scenario.name}: {scenario.title}")
    for heading, text in (("Goal", scenario.goal), ("Method", scenario.method)):
        print_line()
        print_line(_wrapped(f"{heading}: {text.strip()}"))
    print_line()
    for number, step in enumerate((step for step in scenario.steps if step.say), 1):
        only = f" [{', '.join(step.modes)}]" if step.modes else ""
        print_line(_wrapped(f"{number:2}. {step.say.strip()}{only}"))
    print_line()
    rows = [(mode, world.title, world.verdict) for mode, world in scenario.modes.items()]
    rows.append(("any", "fault not armed", scenario.disarmed_verdict))
    print_line(format_table(("Mode", "World", "Expected verdict"), rows).rstrip("\n"))
    print_line()
    for source in scenario.sources:
        print_line(f"Source: {source}")
    print_line(f"File: {directory() / scenario.name}.yaml")
    return 0


# run, matrix


def _run(chosen: tuple[Scenario, ...], args: argparse.Namespace) -> int:
    from sim.runtime import real

    results = real.run(_run_all(chosen, args))
    if args.json:
        print_json([_facts(result) for result in results])
    else:
        _print_table(results)
    return 0 if all(result.as_declared for result in results) else 1


async def _run_all(chosen: tuple[Scenario, ...], args: argparse.Namespace) -> list[RunResult]:
    from sim.scenario.runner import run as run_story
    from sim.scenario.stage import Casting

    casting = Casting(player=args.player, program=args.program)
    only_armed = getattr(args, "armed", False)
    only_disarmed = getattr(args, "disarmed", False)
    results = []
    for scenario in chosen:
        unknown = [mode for mode in args.mode if mode not in scenario.modes]
        if unknown:
            raise ConfigError(
                f"{scenario.name} has no mode {unknown[0]}; there are: {', '.join(scenario.modes)}"
            )
        for mode in args.mode or scenario.modes:
            for armed in (True, False):
                if (armed and only_disarmed) or (not armed and only_armed):
                    continue
                result = await run_story(scenario, mode, armed=armed, casting=casting)
                results.append(result)
                _tell(scenario, result, args)
    return results


def _tell(scenario: Scenario, result: RunResult, args: argparse.Namespace) -> None:
    directory = getattr(args, "trace", None)
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        armed = "armed" if result.armed else "disarmed"
        (directory / f"{result.scenario}.{result.mode}.{armed}.jsonl").write_bytes(result.trace)
    if args.json or args.action == "matrix" or args.quiet or not result.armed:
        return
    world = scenario.modes[result.mode]
    print_line(f"── {result.mode}: {world.title}. {result.player} plays the producer.")
    print_line()
    for sentence in result.story:
        if sentence.told:
            print_line(_wrapped(sentence.text.strip()))
        else:
            where = f"{sentence.at_ms:6} ms  {sentence.who}: "
            print_line(_wrapped(where + sentence.text, indent=" " * 13))
    for remark in result.remarks:
        print_line(_wrapped(f"({remark})"))
    print_line()
    print_line(_wrapped(f"{result.verdict.name}: {result.verdict.because}."))
    print_line()


def _print_table(results: list[RunResult]) -> None:
    rows = [
        (
            result.scenario,
            result.mode,
            "armed" if result.armed else "disarmed",
            result.player,
            result.verdict.name,
            "as declared" if result.as_declared else f"expected {result.expected}",
        )
        for result in results
    ]
    headers = ("Scenario", "Mode", "Fault", "Producer", "Verdict", "")
    print_line(format_table(headers, rows).rstrip("\n"))
    for result in results:
        if not result.as_declared:
            print_line(f"{result.mode}: {result.verdict.because}")


def _facts(result: RunResult) -> dict[str, object]:
    return {
        "scenario": result.scenario,
        "mode": result.mode,
        "armed": result.armed,
        "player": result.player,
        "verdict": msgspec.to_builtins(result.verdict),
        "expected": result.expected,
        "as_declared": result.as_declared,
        "facts": msgspec.to_builtins(result.facts),
        "remarks": result.remarks,
    }


def _wrapped(text: str, *, indent: str = "") -> str:
    return "\n".join(
        textwrap.wrap(
            " ".join(text.split()) if not indent else text, WIDTH, subsequent_indent=indent or "   "
        )
    )
