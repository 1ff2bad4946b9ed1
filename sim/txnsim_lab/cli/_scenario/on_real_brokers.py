"""``--on``: plays stories on real brokers too, and prints a table with both verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Table
from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE
from txnsim_lab.cli._scenario.output import facts_of, kinds, story_of, wrap_text

if TYPE_CHECKING:
    from txnsim.client.connection import ClientSettings
    from txnsim_lab.scenario.on_real.comparison import ComparedRun
    from txnsim_lab.scenario.players.casting import Casting
    from txnsim_lab.scenario.runner import RunResult, ScenarioRun

APACHE: Final = "apache-"
HEADERS: Final = ("Scenario", "Run", "Take", "On", "Simulated", "Real", "")
NOT_TOLD: Final = "–"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for real brokers."""
    group = parser.add_argument_group("on real brokers")
    group.add_argument(
        "--on",
        metavar="WHERE",
        help=f"also on Apache Kafka: apache-{REFERENCE.patch_release} starts brokers of that "
        "release, several separated by commas (needs a JDK 17 and Maven); HOST:PORT "
        "takes a cluster that is there",
    )
    group.add_argument(
        "--yes",
        action="store_true",
        help="with --on HOST:PORT: write to that cluster; topics, groups and transactional ids get "
        "names of their own and are cleaned up",
    )
    group.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="with --on HOST:PORT: client properties, for TLS and SASL",
    )


def run(
    plan: Sequence[ScenarioRun], casting: Casting, args: argparse.Namespace
) -> list[ComparedRun]:
    """Play every story of a plan on both sides, and print the results.

    Raises:
        ConfigError: A target is wrong, brokers can't be started, ``--yes`` is missing, or nothing
            of the plan can be played there.
        ClientError: A cluster does not answer.
    """
    from txnsim.runtime import real_world
    from txnsim_lab.scenario.on_real import comparison
    from txnsim_lab.target.generation import generation_of
    from txnsim_lab.target.jars import version_of

    cells: list[ComparedRun] = []
    places, settings = _places(args), _settings(args)
    if settings.security.protocol.has_sasl and (casting.player != "own" or casting.program):
        raise ConfigError(f"{args.command_config}: only our own client can log in by SASL")
    for target in places:
        is_there = ":" in target
        on = target if is_there else version_of(target)
        generation = real_world.run(generation_of(target, settings)) if is_there else None
        on_cell = _teller(cells, comparison.simulate_beforehand(plan, on, generation), args)
        try:
            if generation is not None:
                real_world.run(
                    comparison.run_on_cluster(
                        target,
                        plan,
                        casting,
                        settings=settings,
                        generation=generation,
                        say_progress=TERMINAL.warn,
                        on_compared_run=on_cell,
                    )
                )
            else:
                real_world.run(
                    comparison.run_on_apache(on, plan, casting, say=TERMINAL.warn, on_cell=on_cell)
                )
        except KeyboardInterrupt:
            if args.json:  # a program learns what was done, and what is left
                TERMINAL.json([facts(cell) for cell in cells])
            raise
    TERMINAL.tell(args, [facts(cell) for cell in cells], lambda _: table(cells))
    if all(cell.simulated is None for cell in cells):
        why = "; ".join(dict.fromkeys(cell.why_not for cell in cells))
        raise ConfigError(
            f"nothing was played on {args.on}: {why}. Name a run of the story that fits with"
            " --mode, or other brokers with --on (docs/on-real-kafka.md has what fits where)"
        )
    return cells


def _places(args: argparse.Namespace) -> list[str]:
    targets = [target for target in args.on.split(",") if target]
    addresses = [target for target in targets if not target.startswith(APACHE)]
    if not addresses:
        return targets
    if any(":" not in target for target in addresses) or len(addresses) != len(targets):
        raise ConfigError(
            f"--on {args.on}: expected releases such as apache-{REFERENCE.patch_release}, or "
            "HOST:PORT of a cluster"
        )
    if not args.yes:
        raise ConfigError(
            f"--on {args.on} writes to that cluster: topics, groups and transactional ids whose "
            "names begin with txnsim-, which are cleaned up afterwards; say --yes"
        )
    return [args.on]


def _settings(args: argparse.Namespace) -> ClientSettings:
    # The client is most of what `txnsim scenario list` would import.
    from txnsim.cli.client_properties import read_client_properties
    from txnsim.client.connection import ClientSettings

    if args.command_config is None:
        return ClientSettings(client_id="txnsim-stage")
    settings, _, without_effect = read_client_properties(args.command_config)
    if without_effect:
        TERMINAL.warn(f"{args.command_config}: no effect here: {', '.join(without_effect)}")
    return settings


def _teller(
    cells: list[ComparedRun], simulated: Mapping[str, RunResult], args: argparse.Namespace
) -> Callable[[ComparedRun], None]:
    """A callback that stores each cell and prints it at once."""
    import msgspec

    from txnsim_lab.scenario.on_real import comparison

    printed_remarks: set[str] = set()

    def on_cell(cell: ComparedRun) -> None:
        cell = msgspec.structs.replace(cell, simulated=simulated.get(str(cell.scenario_run)))
        cells.append(cell)
        if args.json or cell.why_not == comparison.BROKEN_OFF:  # no table will say it
            for line in leftovers(cell):
                TERMINAL.warn(line)
        if cell.real is None:
            return
        if args.quiet or args.json:
            verdict = "agrees" if cell.agrees else "differs"
            TERMINAL.warn(
                f"{cell.scenario_run} on {cell.on}: {verdict} ({cell.real.duration_ms} ms)"
            )
        else:
            world = cell.scenario_run.scenario.runs[cell.scenario_run.run]
            TERMINAL.text(story_of(world, cell.real, said=printed_remarks))

    return on_cell


# What is printed


def table(cells: Sequence[ComparedRun]) -> str:
    """A table with a row for each run on each real release. Below it: differences, runs that were
    not played with the reason, and what the runs left on the brokers.
    """
    rows = [_row(cell) for cell in cells]
    lines = [line.rstrip() for line in Table.format_table(HEADERS, rows).rstrip("\n").splitlines()]
    for cell in cells:
        name = f"{cell.scenario_run} on {cell.on}"
        if cell.real is not None and not cell.agrees:
            for verdict in (cell.real.verdict, cell.real.cured):
                if verdict is not None:
                    lines += [wrap_text(f"{name}: {because}") for because in verdict.because]
        lines += leftovers(cell)
    real_cells = [cell for cell in cells if cell.real is not None]
    if all(cell.simulated is None for cell in cells):
        return "\n".join(lines)
    agree = sum(cell.agrees for cell in real_cells)
    agreement_text = f"{agree} of {len(real_cells)} runs on real brokers agree with the simulator"
    silent = sum(cell.real is None and cell.simulated is not None for cell in cells)
    lines.append(f"{agreement_text}; no verdict on {silent}" if silent else agreement_text)
    return "\n".join(lines)


def leftovers(cell: ComparedRun) -> list[str]:
    """Lines about what could not be removed: its name, the reason, and the command that removes it.
    Names and commands are not wrapped, so that they can be copied.
    """
    name = f"{cell.scenario_run} on {cell.on}"
    lines: list[str] = []
    for leftover in cell.left:
        lines += [f"{name}: could not be cleaned: {leftover}", f"   {leftover.command}"]
    return lines


def _row(cell: ComparedRun) -> tuple[str, ...]:
    scenario_run = cell.scenario_run
    if cell.simulated is None:
        both, note = (NOT_TOLD, NOT_TOLD), cell.why_not
    elif cell.real is None:
        both, note = (verdicts(cell.simulated), NOT_TOLD), cell.why_not
    else:
        both = (verdicts(cell.simulated), verdicts(cell.real))
        note = "agrees" if cell.agrees else "differs"
    return (scenario_run.scenario.name, scenario_run.run, scenario_run.take, cell.on, *both, note)


def verdicts(result: RunResult) -> str:
    """Verdicts of the judges, before and after the cure."""
    observed_kinds = kinds(result.verdict.observed)
    return (
        observed_kinds
        if result.cured is None
        else f"{observed_kinds}; cured: {kinds(result.cured.observed)}"
    )


def facts(cell: ComparedRun) -> dict[str, object]:
    """One cell of the comparison as JSON values."""
    return {
        "scenario": cell.scenario_run.scenario.name,
        "animal": cell.scenario_run.scenario.anomaly,
        "run": cell.scenario_run.run,
        "take": cell.scenario_run.take,
        "on": cell.on,
        "agrees": cell.agrees if cell.real is not None else None,
        "why_not": cell.why_not,
        "simulated": None if cell.simulated is None else facts_of(cell.simulated),
        "real": None if cell.real is None else facts_of(cell.real),
        "left": cell.left,
    }
