"""``txnsim campaign``: plays very many seeds, on this machine or on Spark, and writes a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS, new_folder
from txnsim.cli.progress import Progress
from txnsim.errors import BadInputError, ConfigError, MissingExtraError
from txnsim.on_demand_imports import require_libraries
from txnsim_lab.cli._simulating.engines import LOCAL_ENGINE, add_engine_options, engine_starter
from txnsim_lab.cli._simulating.simulate import (
    FOUND_STATUS,
    add_run_choices,
    duration_of,
    options_from,
    repeat_options,
    seeds_in,
)

if TYPE_CHECKING:
    from txnsim_lab.campaigns import CampaignSummary, ExamineSeeds, PlaySeeds
    from txnsim_lab.simulation.drawing import SimulationOptions
    from txnsim_lab.simulation.reports import FindingReport

SEEDS_MAX: Final = 100_000_000
"""More than a cluster plays in a day; the list of their files is kept in memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(dest="part", metavar="COMMAND", required=True)
    run_parser = subcommands.add_parser(
        "run",
        description="Play seeds, and keep a row of each in Parquet files. The same command goes on"
        " where it was stopped (docs/simulate.md).",
    )
    run_parser.epilog = (
        "Exit status: 0 nothing was found, 1 something was, or a run came to no verdict,"
        " 2 a misuse, or nothing was exercised."
    )
    run_parser.add_argument("--seeds", required=True, metavar="A..B", help="from A to before B")
    run_parser.add_argument(
        "--out", type=new_folder, required=True, metavar="DIR", help="the table's folder"
    )
    add_engine_options(run_parser)
    run_parser.add_argument("--jobs", type=int, metavar="N", help="processes of the engine local")
    add_run_choices(run_parser)
    run_parser.add_argument("--seed-limit", default="60s", metavar="DURATION",
                     help="processor time of one run (default 60s)")  # fmt: skip
    run_parser.add_argument("--file-seeds", type=int, default=1_000, metavar="N",
                     help="seeds of one file, played together (default 1000)")  # fmt: skip
    run_parser.add_argument(
        "--no-shrink", action="store_true", help="do not look at findings closely"
    )
    run_parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    try:
        return _run_campaign(args)
    except (BadInputError, ConfigError, MissingExtraError, OSError) as error:
        TERMINAL.complain(error)
        return MISUSE_STATUS


def _run_campaign(args: argparse.Namespace) -> int:
    if args.file_seeds < 1:
        raise ConfigError(f"--file-seeds {args.file_seeds}: expected 1 or more")
    seeds, options = seeds_in(args.seeds), options_from(args)
    if len(seeds) > SEEDS_MAX:
        raise ConfigError(
            f"--seeds {args.seeds}: a campaign plays at most {SEEDS_MAX:,} seeds at once; name a"
            " part of them"
        )
    require_libraries("spark", "pyarrow")
    from txnsim_lab.campaigns import CampaignFolder

    folder = CampaignFolder(args.out, options)
    missing_ranges = folder.missing_ranges(seeds, file_size=args.file_seeds)
    with ExitStack() as exit_stack:
        play_seeds, examine_seed = _play_and_examine(args, options, exit_stack)
        seeds_to_play = seed_count = sum(map(len, missing_ranges))
        progress = Progress("seeds", seed_count, how_to_go_on="the same command goes on there")
        for record_file in folder.write_rows(missing_ranges, play_seeds(missing_ranges)):
            seeds_to_play -= len(record_file)
            progress.advance(seed_count - seeds_to_play)
        summary = folder.summarize()
        first_seeds = (
            () if args.no_shrink else tuple(first_seed.seed for first_seed in summary.firsts)
        )
        reports = folder.examine_seeds(first_seeds, examine_seed)
    TERMINAL.progress("")
    if args.json:
        TERMINAL.json({"folder": str(args.out), "summary": summary, "reports": reports})
    else:
        for line in _summary_lines(summary, reports, repeat_options(args)):
            TERMINAL.line(line)
    if not summary.committed:
        raise ConfigError("this campaign proves nothing: no transaction was committed")
    return FOUND_STATUS if summary.found or summary.failed else 0


def _play_and_examine(
    args: argparse.Namespace, options: SimulationOptions, exit_stack: ExitStack
) -> tuple[PlaySeeds, ExamineSeeds]:
    from txnsim_lab.campaigns import on_engine, on_this_machine
    from txnsim_lab.simulation.seed_batch import processors

    cpu_s = duration_of("--seed-limit", args.seed_limit) / 1_000
    if args.engine != LOCAL_ENGINE and args.jobs is not None:
        raise ConfigError("--jobs needs --engine local; with Spark, --master says how many")
    start_engine = engine_starter(args, exit_stack)
    if start_engine is None:
        return on_this_machine(options, process_count=args.jobs or processors(), cpu_s=cpu_s)
    return on_engine(start_engine(), options, cpu_s=cpu_s)


def _summary_lines(
    summary: CampaignSummary, reports: list[FindingReport], added_options: Sequence[str]
) -> Iterator[str]:
    yield (
        f"{summary.seeds} seeds in {summary.cpu_ms / 1_000:.0f} s of processor time: "
        f"{summary.committed} commits, {summary.virtual_ms / 3_600_000:.1f} hours of virtual time, "
        f"{summary.places} places of state × API × outcome; "
        f"{summary.found} with findings, {summary.failed} without a verdict"
    )
    for first_seed in sorted(summary.firsts, key=lambda first_seed: bool(first_seed.causes)):
        cause_names = " and ".join(first_seed.causes) or "without a name"
        anomalies = ", ".join(first_seed.anomalies)
        yield (
            f"  {cause_names} ({anomalies}): {first_seed.seeds} seeds,"
            f" the first is {first_seed.seed}"
        )
    for report in reports:
        yield ""
        yield from report.lines(repeat_options=added_options)
