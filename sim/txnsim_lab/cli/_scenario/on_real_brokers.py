"""``--on``: plays stories on real brokers too, and prints a table with both verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, FormattedTable
from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE
from txnsim_lab.cli._scenario.output import facts_of, kinds_text, story_of, wrap_text

if TYPE_CHECKING:
    from txnsim.client.connection import ClientSettings
    from txnsim_lab.scenario.on_real.comparison import ComparedRun
    from txnsim_lab.scenario.players.casting import Casting
    from txnsim_lab.scenario.runner import RunResult, ScenarioRun

APACHE: Final = "apache-"
HEADERS: Final = ("Scenario", "Run", "Take", "On", "Simulated", "Real", "")
NO_VERDICT: Final = "–"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for real brokers."""
    argument_group = parser.add_argument_group("on real brokers")
    argument_group.add_argument(
        "--on",
        metavar="WHERE",
        help=f"also on Apache Kafka: apache-{REFERENCE.patch_release} starts brokers of that "
        "release, several separated by commas (needs a JDK 17 and Maven); HOST:PORT "
        "takes a cluster that is there",
    )
    argument_group.add_argument(
        "--yes",
        action="store_true",
        help="with --on HOST:PORT: write to that cluster; topics, groups and transactional ids get "
        "names of their own and are cleaned up",
    )
    argument_group.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="with --on HOST:PORT: client properties, for TLS and SASL",
    )


def run(
    planned_runs: Sequence[ScenarioRun], casting: Casting, args: argparse.Namespace
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

    compared_runs: list[ComparedRun] = []
    target_names, settings = _read_targets(args), _client_settings(args)
    if settings.security.protocol.has_sasl and (casting.player != "own" or casting.program):
        raise ConfigError(f"{args.command_config}: only our own client can log in by SASL")
    for target_name in target_names:
        is_address = ":" in target_name
        release_or_address = target_name if is_address else version_of(target_name)
        generation = real_world.run(generation_of(target_name, settings)) if is_address else None
        report_compared_run = _make_reporter(
            compared_runs,
            comparison.simulate_beforehand(planned_runs, release_or_address, generation),
            args,
        )
        try:
            if generation is not None:
                real_world.run(
                    comparison.run_on_cluster(
                        target_name,
                        planned_runs,
                        casting,
                        settings=settings,
                        generation=generation,
                        say_progress=TERMINAL.warn,
                        on_compared_run=report_compared_run,
                    )
                )
            else:
                real_world.run(
                    comparison.run_on_apache(
                        release_or_address,
                        planned_runs,
                        casting,
                        report_progress=TERMINAL.warn,
                        on_compared_run=report_compared_run,
                    )
                )
        except KeyboardInterrupt:
            if args.json:  # a program learns what was done, and what is left
                TERMINAL.json([facts(compared_run) for compared_run in compared_runs])
            raise
    TERMINAL.tell(
        args,
        [facts(compared_run) for compared_run in compared_runs],
        lambda _: table(compared_runs),
    )
    if all(compared_run.simulated is None for compared_run in compared_runs):
        reasons_text = "; ".join(
            dict.fromkeys(compared_run.why_not for compared_run in compared_runs)
        )
        raise ConfigError(
            f"nothing was played on {args.on}: {reasons_text}. Name a run of the story that fits"
            " with --mode, or other brokers with --on (docs/on-real-kafka.md has what fits where)"
        )
    return compared_runs


def _read_targets(args: argparse.Namespace) -> list[str]:
    target_names = [target_name for target_name in args.on.split(",") if target_name]
    addresses_given = [
        target_name for target_name in target_names if not target_name.startswith(APACHE)
    ]
    if not addresses_given:
        return target_names
    if any(":" not in target_name for target_name in addresses_given) or len(
        addresses_given
    ) != len(target_names):
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


def _client_settings(args: argparse.Namespace) -> ClientSettings:
    # The client is most of what `txnsim scenario list` would import.
    from txnsim.cli.client_properties import read_client_properties
    from txnsim.client.connection import ClientSettings

    if args.command_config is None:
        return ClientSettings(client_id="txnsim-stage")
    settings, _, without_effect = read_client_properties(args.command_config)
    if without_effect:
        TERMINAL.warn(f"{args.command_config}: no effect here: {', '.join(without_effect)}")
    return settings


def _make_reporter(
    compared_runs: list[ComparedRun],
    simulated_by_run: Mapping[str, RunResult],
    args: argparse.Namespace,
) -> Callable[[ComparedRun], None]:
    """A callback that stores each cell and prints it at once."""
    import msgspec

    from txnsim_lab.scenario.on_real import comparison

    printed_remarks: set[str] = set()

    def report_compared_run(compared_run: ComparedRun) -> None:
        compared_run = msgspec.structs.replace(
            compared_run, simulated=simulated_by_run.get(str(compared_run.scenario_run))
        )
        compared_runs.append(compared_run)
        if (
            args.json or compared_run.why_not == comparison.BROKEN_OFF_REASON
        ):  # no table will say it
            for line in leftovers(compared_run):
                TERMINAL.warn(line)
        if compared_run.real is None:
            return
        if args.quiet or args.json:
            agreement = "agrees" if compared_run.agrees else "differs"
            TERMINAL.warn(
                f"{compared_run.scenario_run} on {compared_run.on}: {agreement}"
                f" ({compared_run.real.duration_ms} ms)"
            )
        else:
            declared_run = compared_run.scenario_run.scenario.runs[compared_run.scenario_run.run]
            TERMINAL.text(
                story_of(declared_run, compared_run.real, printed_remarks=printed_remarks)
            )

    return report_compared_run


# What is printed


def table(compared_runs: Sequence[ComparedRun]) -> str:
    """A table with a row for each run on each real release. Below it: differences, runs that were
    not played with the reason, and what the runs left on the brokers.
    """
    rows = [_table_row(compared_run) for compared_run in compared_runs]
    lines = [
        line.rstrip()
        for line in FormattedTable.format_table(HEADERS, rows).rstrip("\n").splitlines()
    ]
    for compared_run in compared_runs:
        run_on_place = f"{compared_run.scenario_run} on {compared_run.on}"
        if compared_run.real is not None and not compared_run.agrees:
            for judges_result in (compared_run.real.verdict, compared_run.real.cured):
                if judges_result is not None:
                    lines += [
                        wrap_text(f"{run_on_place}: {reason}") for reason in judges_result.because
                    ]
        lines += leftovers(compared_run)
    really_played = [
        compared_run for compared_run in compared_runs if compared_run.real is not None
    ]
    if all(compared_run.simulated is None for compared_run in compared_runs):
        return "\n".join(lines)
    agree_count = sum(compared_run.agrees for compared_run in really_played)
    agreement_text = (
        f"{agree_count} of {len(really_played)} runs on real brokers agree with the simulator"
    )
    silent_count = sum(
        compared_run.real is None and compared_run.simulated is not None
        for compared_run in compared_runs
    )
    lines.append(
        f"{agreement_text}; no verdict on {silent_count}" if silent_count else agreement_text
    )
    return "\n".join(lines)


def leftovers(compared_run: ComparedRun) -> list[str]:
    """Lines about what could not be removed: its name, the reason, and the command that removes it.
    Names and commands are not wrapped, so that they can be copied.
    """
    run_on_place = f"{compared_run.scenario_run} on {compared_run.on}"
    lines: list[str] = []
    for leftover in compared_run.left:
        lines += [f"{run_on_place}: could not be cleaned: {leftover}", f"   {leftover.command}"]
    return lines


def _table_row(compared_run: ComparedRun) -> tuple[str, ...]:
    scenario_run = compared_run.scenario_run
    if compared_run.simulated is None:
        verdict_pair, note = (NO_VERDICT, NO_VERDICT), compared_run.why_not
    elif compared_run.real is None:
        verdict_pair, note = (verdicts(compared_run.simulated), NO_VERDICT), compared_run.why_not
    else:
        verdict_pair = (verdicts(compared_run.simulated), verdicts(compared_run.real))
        note = "agrees" if compared_run.agrees else "differs"
    return (
        scenario_run.scenario.name,
        scenario_run.run,
        scenario_run.take,
        compared_run.on,
        *verdict_pair,
        note,
    )


def verdicts(result: RunResult) -> str:
    """Verdicts of the judges, before and after the cure."""
    observed_kinds = kinds_text(result.verdict.observed)
    return (
        observed_kinds
        if result.cured is None
        else f"{observed_kinds}; cured: {kinds_text(result.cured.observed)}"
    )


def facts(compared_run: ComparedRun) -> dict[str, object]:
    """One cell of the comparison as JSON values."""
    return {
        "scenario": compared_run.scenario_run.scenario.name,
        "animal": compared_run.scenario_run.scenario.anomaly,
        "run": compared_run.scenario_run.run,
        "take": compared_run.scenario_run.take,
        "on": compared_run.on,
        "agrees": compared_run.agrees if compared_run.real is not None else None,
        "why_not": compared_run.why_not,
        "simulated": None if compared_run.simulated is None else facts_of(compared_run.simulated),
        "real": None if compared_run.real is None else facts_of(compared_run.real),
        "left": compared_run.left,
    }
