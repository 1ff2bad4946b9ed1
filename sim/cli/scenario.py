"""``txnsim scenario``: list, show and run stories about transactions."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.cli.output import format_table, log_to_stderr, print_json, print_line, warn
from sim.cli.scenario_output import facts_of, progress_of, story_of, table_of, wrapped
from sim.errors import ConfigError, MissingExtraError
from sim.scenario.catalog import find, scenarios
from sim.scenario.suggestions import unknown

if TYPE_CHECKING:
    from sim.scenario.model import Scenario
    from sim.scenario.runner import RunResult

HELP: Final = "list, show and run stories about transactions"
DIFFERENT_STATUS: Final = 1
MISUSE_STATUS: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``scenario`` takes."""
    parser.epilog = (
        "Exit status: 0 every verdict is the declared one, 1 one differs, 2 a wrong argument or "
        "scenario file."
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = commands.add_parser("list", help="the scenarios that come with txnsim")
    listing.add_argument("--json", action="store_true", help="as JSON")
    show = commands.add_parser("show", help="one scenario: goal, method, steps, verdicts")
    _name(show)
    show.add_argument("--json", action="store_true", help="as JSON")
    run_one = commands.add_parser("run", help="tell a story and judge it")
    _name(run_one)
    _run_options(run_one)
    which = run_one.add_mutually_exclusive_group()
    which.add_argument("--armed", action="store_true", help="only with the fault")
    which.add_argument(
        "--disarmed", action="store_true", help="only without the fault, to see the difference"
    )
    run_one.add_argument("--quiet", action="store_true", help="the table only")
    matrix = commands.add_parser("matrix", help="run every scenario in every mode, table only")
    _run_options(matrix)
    matrix.set_defaults(armed=False, disarmed=False, quiet=True)


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
    player = parser.add_mutually_exclusive_group()
    player.add_argument(
        "--player",
        default=None,
        help="who plays the producer: own, kafka-python (default: by mode)",
    )
    player.add_argument(
        "--program",
        default=None,
        metavar="COMMAND",
        help="a program that plays the producer: called with bootstrap, transactional id, topic, "
        "partition and timestamp, tells what it sees as JSON lines",
    )
    parser.add_argument(
        "--trace", type=Path, default=None, metavar="DIR", help="write each run's trace there"
    )
    parser.add_argument("--json", action="store_true", help="facts and verdicts as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    log_to_stderr()
    try:
        match args.action:
            case "list":
                return _list(args)
            case "show":
                return _show(args)
            case "run":
                return _run((find(args.name)[1],), args)
            case _:
                return _run(tuple(scenarios().values()), args)
    except (ConfigError, MissingExtraError) as error:
        warn(f"txnsim: {error}")
        return MISUSE_STATUS


# list, show


def _list(args: argparse.Namespace) -> int:
    known = scenarios().values()
    if args.json:
        print_json(
            [
                {
                    "name": one.name,
                    "aliases": one.aliases,
                    "title": one.title,
                    "modes": list(one.modes),
                }
                for one in known
            ]
        )
        return 0
    rows = [(one.name, ", ".join(one.aliases), one.title) for one in known]
    print_line(format_table(("Scenario", "Alias", "Title"), rows).rstrip("\n"))
    return 0


def _show(args: argparse.Namespace) -> int:
    path, scenario = find(args.name)
    if args.json:
        shown = scenario.model_dump(by_alias=True, exclude={"steps"})
        steps = [step.model_dump(by_alias=True, exclude_defaults=True) for step in scenario.steps]
        print_json({**shown, "steps": steps})
        return 0
    aliases = f" ({', '.join(scenario.aliases)})" if scenario.aliases else ""
    print_line(f"{scenario.name}{aliases}: {scenario.title}")
    for heading, text in (("Goal", scenario.goal), ("Method", scenario.method)):
        print_line()
        print_line(wrapped(f"{heading}: {text}"))
    print_line()
    for number, step in enumerate((step for step in scenario.steps if step.say), 1):
        only = f" [{', '.join(step.modes)}]" if step.modes else ""
        print_line(wrapped(f"{number}. {step.say.strip()}{only}"))
    print_line()
    rows = [
        (mode, world.title, ", ".join(world.players), world.verdict)
        for mode, world in scenario.modes.items()
    ]
    rows.append(("any", "fault not armed", "", scenario.disarmed_verdict))
    headers = ("Mode", "World", "Producer", "Expected verdict")
    print_line(format_table(headers, rows).rstrip("\n"))
    print_line()
    for source in scenario.sources:
        print_line(f"Source: {source}")
    print_line(f"File: {path}")
    return 0


# run, matrix


def _run(chosen: tuple[Scenario, ...], args: argparse.Namespace) -> int:
    from sim.runtime import real

    plan = [
        (scenario, mode, armed)
        for scenario in chosen
        for mode in _modes(scenario, args, alone=len(chosen) == 1)
        for armed in (True, False)
        if not (args.disarmed if armed else args.armed)
    ]
    if not plan:
        raise ConfigError(f"no scenario has a mode {' or '.join(args.mode)}")
    if args.trace is not None:
        try:
            args.trace.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--trace {args.trace}: {error.strerror}") from None
    results = real.run(_run_all(plan, args))
    if args.json:
        print_json([facts_of(result) for result in results])
    else:
        print_line(table_of(results))
    return 0 if all(result.as_declared for result in results) else DIFFERENT_STATUS


def _modes(scenario: Scenario, args: argparse.Namespace, *, alone: bool) -> Iterator[str]:
    """The modes to run; those that the player who is asked for can't play are left out aloud."""
    for mode in args.mode:
        if mode in scenario.modes:
            yield mode
        elif alone:
            raise ConfigError(f"{scenario.name}: {unknown('mode', mode, scenario.modes)}")
    if args.mode:
        return
    playable = [name for name, mode in scenario.modes.items() if args.player in mode.players]
    for mode in scenario.modes:
        if args.player is None or mode in playable or not playable:
            yield mode
        else:
            warn(f"{scenario.name} {mode}: left out, {args.player} can't play there")


async def _run_all(
    plan: list[tuple[Scenario, str, bool]], args: argparse.Namespace
) -> list[RunResult]:
    from sim.scenario.players.casting import Casting, cast
    from sim.scenario.runner import run as run_story

    casting = Casting(player=args.player, program=args.program)
    for scenario, mode, _ in plan:
        cast(scenario, mode, casting)  # a wish that can't be granted is refused before any run
    results = []
    said: set[str] = set()
    for number, (scenario, mode, armed) in enumerate(plan, 1):
        result = await run_story(scenario, mode, armed=armed, casting=casting)
        results.append(result)
        if args.trace is not None:
            await asyncio.to_thread(_write_trace, args.trace, result)
        if args.quiet or args.json:
            warn(progress_of(result, number=number, of=len(plan)))
        elif armed or args.disarmed:
            print_line(story_of(scenario.modes[mode], result, said=said))
    return results


def _write_trace(directory: Path, result: RunResult) -> None:
    armed = "armed" if result.armed else "disarmed"
    path = directory / f"{result.scenario}.{result.mode}.{armed}.jsonl"
    try:
        path.write_bytes(result.trace)
    except OSError as error:
        raise ConfigError(f"--trace {path}: {error.strerror}") from None
