"""``txnsim simulate``: plays and judges runs of seeds; shrinks and explains findings."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file, new_folder
from txnsim.cli.progress import Progress, stop_sentence
from txnsim.errors import ConfigError
from txnsim.runtime.wall_clock import wall_ms
from txnsim.shell_text import arguments, command_line, option
from txnsim.text import read_ms

if TYPE_CHECKING:
    from txnsim_lab.simulation.drawing import SimulationOptions
    from txnsim_lab.simulation.reports import FindingReport
    from txnsim_lab.simulation.seed_batch import RowFile, SeedRow, SeedTally

FOUND_STATUS: Final = 1
SEEDS_DEFAULT: Final = "0..200"
ENDLESS_SEEDS: Final = range(2**31)
"""More seeds than can be played in any ``--time``."""
SEED_MAX: Final = 2**63 - 1
"""Where ranges of seeds end: rows of results keep a seed as an int64."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 nothing was found, 1 something was, or --against makes a difference,"
        " 2 a wrong argument, or nothing was exercised."
    )
    seed_choice = parser.add_mutually_exclusive_group()
    seed_choice.add_argument(
        "--seeds",
        metavar="A..B",
        help=f"from A to before B (default {SEEDS_DEFAULT}; with --time, from 0 until it is over)",
    )
    seed_choice.add_argument("--seed", type=int, metavar="N", help="one seed, in full")
    parser.add_argument("--time", metavar="DURATION", help="begin no seed after that: 10m")
    parser.add_argument(
        "--guided",
        action="store_true",
        help="of each eight seeds play the one that does what was done least",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (as many as processors)")
    add_run_choices(parser)
    output_group = parser.add_argument_group("what is written")
    output_group.add_argument("--out", type=new_folder, default=Path("simulated"), metavar="DIR",
                         help="where traces, histories and stories of findings go")  # fmt: skip
    output_group.add_argument("--rows", type=new_file, metavar="FILE",
                         help="keep a row of each seed there; go on where it ends")  # fmt: skip
    output_group.add_argument(
        "--no-shrink", action="store_true", help="only say which seeds find what"
    )
    output_group.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="WHAT",
        help="with --seed: where does the same run part in another cluster? A release, a switch"
        " NAME=on|off, or a setting NAME=VALUE; may be repeated",
    )
    parser.add_argument("--first", action="store_true", help="end with the first finding")


def add_run_choices(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the user's choices about runs."""
    parser.add_argument("--workload", metavar="MODULE:COROUTINE", help="instead of our clients")
    add_cluster_choices(parser)


def add_cluster_choices(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the release and the switches of a cluster."""
    parser.add_argument("--as-version", metavar="RELEASE", help="of Kafka")
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="NAME=on|off",
        help="turn a switch of docs/releases.md; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: A release, a switch, a workload or a range is wrong.
    """
    from txnsim_lab.simulation.guide import CANDIDATES_PER_RUN, guided_seeds
    from txnsim_lab.simulation.play import quieten
    from txnsim_lab.simulation.seed_batch import SeedTally, processors, rows, with_names

    quieten()
    options = options_from(args)
    if args.against:
        return _compare_clusters(args, options)
    seeds = _seeds_of(args)
    process_count = 1 if len(seeds) == 1 else args.jobs or processors()
    end_ms = None if args.time is None else wall_ms() + duration_of("--time", args.time)
    seed_count = -(-len(seeds) // CANDIDATES_PER_RUN) if args.guided else len(seeds)
    tally = SeedTally()
    progress = Progress("seeds", None if seeds is ENDLESS_SEEDS else seed_count)
    is_stopped = False

    def goes_on() -> bool:
        has_first_failure = args.first and tally.failed_rows
        return not has_first_failure and (end_ms is None or wall_ms() < end_ms)

    with _open_row_file(args.rows, options) as row_file:
        known_rows = {} if row_file is None else row_file.rows
        for seed, seed_row in known_rows.items():
            if seed in seeds:
                tally.add(seed_row)
        seed_order = guided_seeds(seeds, options) if args.guided else seeds
        seeds_to_play = (seed for seed in seed_order if seed not in known_rows)
        try:
            for seed_row in rows(
                seeds_to_play, options, process_count=process_count, goes_on=goes_on
            ):
                tally.add(seed_row)
                if row_file is not None:
                    row_file.add(seed_row)
                progress.advance(tally.seed_count, tally_text=_tally_text(tally))
        except KeyboardInterrupt:
            is_stopped = True
    progress.end()
    if is_stopped:
        return _end_stopped_run(tally, args)
    tally.failed_rows = [with_names(seed_row, options) for seed_row in tally.failed_rows]
    reports = list(_make_reports(tally, options, args))
    if args.json:
        TERMINAL.json(_tally_as_json(tally, reports))
    else:
        for line in _tally_lines(tally, reports, args):
            TERMINAL.line(line)
    if tally.idle is not None:
        raise ConfigError(f"this run proves nothing: {tally.idle}")
    return FOUND_STATUS if tally.failed_rows else 0


def _tally_text(tally: SeedTally) -> str:
    return f"{len(tally.cells)} places of the map, {len(tally.failed_rows)} with findings"


def _end_stopped_run(tally: SeedTally, args: argparse.Namespace) -> int:
    """Print what is known after Ctrl-C. No finding is explained or shrunk, as that takes long."""
    from txnsim.cli.main import INTERRUPTED_STATUS

    if args.json:
        TERMINAL.json(_tally_as_json(tally, []))
    else:
        for line in _tally_lines(tally, [], args):
            TERMINAL.line(line)
    repeat_hint = "" if args.rows is None else "; the same command goes on behind these"
    TERMINAL.warn(f"{stop_sentence()}: nothing was shrunk{repeat_hint}")
    return INTERRUPTED_STATUS


def _compare_clusters(args: argparse.Namespace, options: SimulationOptions) -> int:
    """Print where the runs of a seed in two clusters differ; returns the exit status."""
    from txnsim_lab.simulation.differential import difference, other_plan
    from txnsim_lab.simulation.drawing import draw
    from txnsim_lab.simulation.reports import write_files

    if args.seed is None:
        raise ConfigError("--against needs one seed: name it with --seed")
    plan = draw(args.seed, options)
    run_difference = difference(plan, other_plan(plan, args.against))
    trace_names = [f"seed-{args.seed}.{side_name}.trace.jsonl" for side_name in "AB"]
    trace_files = dict(
        zip(
            trace_names,
            (run_difference.left_run.trace, run_difference.right_run.trace),
            strict=True,
        )
    )
    trace_paths = write_files(args.out, trace_files)
    if args.json:
        TERMINAL.json(
            {
                "sentence": run_difference.sentence,
                "inside": run_difference.inside,
                "files": trace_paths,
            }
        )
    else:
        TERMINAL.line(run_difference.sentence)
        if run_difference.inside is not None:
            TERMINAL.line(f"Inside: {run_difference.inside}")
        TERMINAL.line(f"  more: {command_line('txnsim', 'diff', *arguments(*trace_paths))}")
    return 0 if run_difference.is_none else FOUND_STATUS


def _open_row_file(
    path: Path | None, options: SimulationOptions
) -> AbstractContextManager[RowFile | None]:
    from txnsim_lab.simulation.seed_batch import RowFile

    return nullcontext() if path is None else RowFile(path, options)


def options_from(args: argparse.Namespace) -> SimulationOptions:
    """The user's choices from the arguments.

    Raises:
        ConfigError: There is no such release, switch or workload.
    """
    from txnsim.releases import release_named
    from txnsim_lab.simulation.drawing import SimulationOptions
    from txnsim_lab.simulation.guests import workload_named

    if args.as_version is not None:
        release_named(args.as_version)
    if args.workload is not None:
        workload_named(args.workload)
    return SimulationOptions(
        as_version=args.as_version, rules=switches_of(args.rules), workload=args.workload
    )


def switches_of(switch_texts: Iterable[str]) -> dict[str, bool]:
    """The switches that ``--rules`` turns.

    Raises:
        ConfigError: There is no such switch, or the text is none.
    """
    from txnsim.releases.rules import Rules
    from txnsim.text import unknown_word_message

    switch_settings: dict[str, bool] = {}
    for switch_text in switch_texts:
        switch_name, _, on_or_off = switch_text.partition("=")
        if switch_name not in Rules.documentation():
            raise ConfigError(unknown_word_message("switch", switch_name, Rules.documentation()))
        if on_or_off not in ("on", "off"):
            raise ConfigError(
                f"--rules {switch_text}: expected {switch_name}=on or {switch_name}=off"
            )
        switch_settings[switch_name] = on_or_off == "on"
    return switch_settings


def _seeds_of(args: argparse.Namespace) -> range:
    if args.seed is not None:
        return range(args.seed, args.seed + 1)
    if args.seeds is None and args.time is not None:
        return ENDLESS_SEEDS
    return seeds_in(args.seeds or SEEDS_DEFAULT)


def seeds_in(range_text: str) -> range:
    """Parse ``A..B`` into seeds.

    Raises:
        ConfigError: The text has another form, the range is empty, or ends above ``SEED_MAX``.
    """
    first_seed_text, dots_between, end_seed_text = range_text.partition("..")
    if not (
        dots_between
        and first_seed_text.isdigit()
        and end_seed_text.isdigit()
        and int(first_seed_text) < int(end_seed_text)
    ):
        raise ConfigError(f"--seeds {range_text}: expected a range such as 0..200")
    if int(end_seed_text) > SEED_MAX:
        raise ConfigError(f"--seeds {range_text}: seeds end at {SEED_MAX}")
    return range(int(first_seed_text), int(end_seed_text))


def duration_of(option_name: str, duration_text: str) -> int:
    """Parse the duration of an option into milliseconds.

    Raises:
        ConfigError: The text is no duration.
    """
    try:
        return read_ms(duration_text)
    except ValueError as error:
        raise ConfigError(f"{option_name}: {error}") from None


def _make_reports(
    tally: SeedTally, options: SimulationOptions, args: argparse.Namespace
) -> Iterator[FindingReport]:
    """Reports on the first seed of each cause, and of each kind without a cause."""
    from txnsim_lab.simulation.reports import report_on

    for failed_row in _first_failures(tally.failed_rows):
        yield report_on(failed_row.seed, options, folder=args.out, shrinks=not args.no_shrink)


def _first_failures(failed_rows: Iterable[SeedRow]) -> Iterator[SeedRow]:
    cause_groups: set[tuple[str, ...]] = set()
    for first_row in sorted(failed_rows, key=lambda failed_row: failed_row.seed):
        if first_row.group not in cause_groups:
            cause_groups.add(first_row.group)
            yield first_row


def _tally_lines(
    tally: SeedTally, reports: list[FindingReport], args: argparse.Namespace
) -> Iterator[str]:
    cpu_seconds = tally.cpu_ms / 1_000
    yield (
        f"{tally.seed_count} seeds in {cpu_seconds:.0f} s of processor time: "
        f"{tally.act_count} acts, {tally.commit_count} commits, "
        f"{tally.cluster_act_count} disturbances, "
        f"{tally.virtual_ms / 3_600_000:.1f} hours of virtual time, "
        f"{len(tally.cells)} places of state × API × outcome"
    )
    if not tally.failed_rows:
        yield "Nothing was found."
        return
    yield f"{len(tally.failed_rows)} seeds have findings:"
    for first_row in sorted(
        _first_failures(tally.failed_rows), key=lambda failed_row: bool(failed_row.names)
    ):
        alike_rows = [
            failed_row for failed_row in tally.failed_rows if failed_row.group == first_row.group
        ]
        seeds = sorted(alike_row.seed for alike_row in alike_rows)
        seed_list = ", ".join(map(str, seeds[:8])) + (", …" if len(seeds) > 8 else "")
        cause_names = " and ".join(first_row.names or ()) or "without a name"
        kinds_text = ", ".join(
            sorted({kind for alike_row in alike_rows for kind in alike_row.kinds})
        )
        yield f"  {cause_names} ({kinds_text}): seeds {seed_list}"
    for report in reports:
        yield ""
        yield from report.lines(repeat_options=repeat_options(args))


def repeat_options(args: argparse.Namespace) -> tuple[str, ...]:
    """Options to add to the command that repeats a seed."""
    options = [
        *(("--rules", switch_text) for switch_text in args.rules),
        ("--as-version", args.as_version),
        ("--workload", args.workload),
    ]
    return tuple(
        argument for name, value in options if value is not None for argument in option(name, value)
    )


def _tally_as_json(tally: SeedTally, reports: list[FindingReport]) -> dict[str, Any]:
    return {
        "seeds": tally.seed_count,
        "cpu_ms": tally.cpu_ms,
        "virtual_ms": tally.virtual_ms,
        "acts": tally.act_count,
        "committed": tally.commit_count,
        "disturbances": tally.cluster_act_count,
        "places": [
            {
                "state": map_cell.state,
                "asked": map_cell.request,
                "outcome": map_cell.outcome,
                "times": times,
            }
            for map_cell, times in sorted(tally.cells.items())
        ],
        "failed": [
            {
                "seed": failed_row.seed,
                "kinds": failed_row.kinds,
                "names": failed_row.names,
                "because": failed_row.because,
            }
            for failed_row in tally.failed_rows
        ],
        "reports": reports,
    }
