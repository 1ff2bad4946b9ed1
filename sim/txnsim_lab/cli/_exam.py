"""``txnsim exam``: runs the exam of a client library through its driver."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL, format_json
from txnsim.cli.parsing import MISUSE_STATUS, new_file, new_folder
from txnsim.cli.progress import Progress, stop_sentence
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given, write_all, write_whole
from txnsim.runtime.process_pool import ended_as_by_interrupt
from txnsim.shell_text import ShellText, command_line, option
from txnsim_lab.cli import _exam_compare as exam_compare
from txnsim_lab.cli import _exam_readers as exam_readers

if TYPE_CHECKING:
    from txnsim_lab.exam.results import ExamRun, Result
    from txnsim_lab.exam.situation import Situation

MISSED_STATUS: Final = 1
TRANSACTION_VERSIONS: Final = (0, 1, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(dest="part", metavar="COMMAND", required=True)
    run_parser = subcommands.add_parser(
        "run", description="Have a library sit the exam (docs/exam.md)."
    )
    run_parser.epilog = (
        "Exit status: 0 nothing was missed but what --known has, 1 something was,"
        " 2 a wrong argument, the driver does not speak the contract, or no situation applies."
    )
    run_parser.add_argument(
        "--driver", required=True, metavar="CMD", help="starts the library's driver"
    )
    _add_situation_choice(run_parser)
    cluster_choice = run_parser.add_mutually_exclusive_group()
    cluster_choice.add_argument("--as-version", metavar="RELEASE", help="of Kafka")
    cluster_choice.add_argument("--on", metavar="WHERE",
                       help="real brokers behind a proxy: HOST:PORT or apache-RELEASE")  # fmt: skip
    run_parser.add_argument("--known", type=Path, metavar="FILE",
                            help="misses that don't count, a line each: commit-late@1")  # fmt: skip
    run_parser.add_argument(
        "--report", type=new_file, metavar="FILE", help="write a page of it: FILE.html"
    )
    run_parser.add_argument("--misses", type=new_folder, metavar="DIR",
                            help="a folder for each miss that --known has not: text, story,"
                            " versions, page")  # fmt: skip
    run_parser.add_argument("--driver-source", type=Path, action="append", default=[],
                            metavar="FILE", help="a file of the driver for these folders; those"
                            " that --driver names are there; may be repeated")  # fmt: skip
    run_parser.add_argument("--json", action="store_true", help="results as JSON")
    run_parser.add_argument("--results", type=new_file, metavar="FILE",
                            help="write results as JSON, beside what is printed; txnsim badge"
                            " reads it")  # fmt: skip
    readers_parser = subcommands.add_parser(
        "readers",
        description="Readers without a coordinator: topics and log directories with the answers"
        " expected of them.",
    )
    exam_readers.add_arguments(readers_parser)
    compare_parser = subcommands.add_parser(
        "compare",
        description="Ask two libraries, two versions of one or two levels the same, and tell only"
        " what differs.",
    )
    exam_compare.add_arguments(compare_parser)
    _add_situation_choice(compare_parser)
    list_parser = subcommands.add_parser("list", description="Say which situations there are.")
    _add_situation_choice(list_parser)
    list_parser.add_argument("--json", action="store_true", help="as JSON")


def _add_situation_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="situations or classes that begin so; may be repeated")  # fmt: skip
    parser.add_argument("--transaction-version", type=int, action="append", default=[],
                        choices=TRANSACTION_VERSIONS,
                        help="only this level; may be repeated")  # fmt: skip
    parser.add_argument("--core", action="store_true",
                        help="the most telling situations, each at its newest level")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: The driver can't be started, or an argument is wrong.
    """
    if args.part == "readers":
        return exam_readers.run(args)
    with ended_as_by_interrupt():  # drivers have sessions of their own, and no signal reaches them
        return exam_compare.run(args) if args.part == "compare" else _run(args)


def _run(args: argparse.Namespace) -> int:
    from txnsim_lab.exam.run import choose_situations
    from txnsim_lab.exam.situations import SITUATIONS
    from txnsim_lab.simulation.play import quieten

    situations = choose_situations(SITUATIONS, args.only, is_core_only=args.core)
    levels = sorted(set(args.transaction_version)) or TRANSACTION_VERSIONS
    if args.part == "list":
        _list_situations(situations, args)
        return 0
    quieten()
    known_ids = _read_known_ids(args.known)
    situation_count = sum(level in situation.levels for situation in situations for level in levels)
    progress = Progress("situations", situation_count)
    exam_run = asyncio.run(_run_exam(situations, levels, args, progress))
    progress.end()
    if args.report is not None:
        from txnsim_lab.exam.results import page

        misses_path = "" if args.misses is None else relpath(args.misses, args.report.parent)
        write_whole(args.report, page(exam_run, misses_path=misses_path, known_misses=known_ids))
    if args.misses is not None:
        from txnsim_lab.exam.misses import driver_sources, folders

        driver_files = driver_sources(args.driver, args.driver_source)
        miss_files = folders(
            exam_run,
            command=_repeat_command(args),
            source_by_name=driver_files,
            known_ids=known_ids,
        )
        write_all(args.misses, miss_files)
    if args.results is not None:
        write_whole(args.results, format_json(exam_run.without_recordings()))
    if args.json:
        TERMINAL.json(msgspec.to_builtins(exam_run.without_recordings()))
    else:
        _print_exam_run(exam_run, known_ids, args)
    if exam_run.is_stopped:
        from txnsim.cli.main import INTERRUPTED_STATUS

        TERMINAL.warn(stop_sentence())
        return INTERRUPTED_STATUS
    if exam_run.asked_nothing:
        TERMINAL.complain("no situation applied, so nothing was asked")
        return MISUSE_STATUS
    return MISSED_STATUS if any(exam_run.misses(known_ids)) else 0


async def _run_exam(
    situations: list[Situation],
    levels: Sequence[int],
    args: argparse.Namespace,
    progress: Progress,
) -> ExamRun:
    from txnsim.errors import ClientError
    from txnsim_lab.exam.results import SituationOutcome
    from txnsim_lab.exam.run import run_exam
    from txnsim_lab.exam.targets import SimulatedTargets, Targets

    targets: Targets = SimulatedTargets(args.as_version)
    if args.on is not None:
        from txnsim_lab.exam.real_targets import RealTargets

        try:
            targets = await RealTargets.connect(args.on, report_progress=TERMINAL.warn)
        except ClientError as error:
            raise ConfigError(f"--on {args.on}: {error}") from None
    missed_count = 0

    def report_result(result: Result) -> None:
        nonlocal missed_count
        missed_count += result.outcome is SituationOutcome.MISSED
        progress.advance(
            progress.done_count + 1, f"{result.id}: {result.outcome}", f"{missed_count} missed"
        )

    return await run_exam(
        args.driver,
        situations,
        levels=levels,
        targets=targets,
        report_result=report_result,
        stops=(asyncio.CancelledError,),  # as ``asyncio.run`` tells of Ctrl-C
    )


def _list_situations(situations: list[Situation], args: argparse.Namespace) -> None:
    if args.json:
        situation_rows = [msgspec.structs.asdict(situation) for situation in situations]
        TERMINAL.json(
            [
                {
                    field_name: situation_row[field_name]
                    for field_name in situation_row
                    if field_name != "play"
                }
                for situation_row in situation_rows
            ]
        )
        return
    TERMINAL.table(
        ("Class", "Situation", "Levels", "Question"),
        [
            (situation.kind, situation.name, ",".join(map(str, situation.levels)), situation.asks)
            for situation in situations
        ],
    )


def _read_known_ids(path: Path | None) -> frozenset[str]:
    from txnsim_lab.exam.results import known_misses

    try:
        return frozenset() if path is None else known_misses(read_given(path).decode().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--known {path}: {problem_of(error)}") from None


def _print_exam_run(exam_run: ExamRun, known_ids: frozenset[str], args: argparse.Namespace) -> None:
    from txnsim_lab.exam.results import SituationOutcome, repeated_situation

    TERMINAL.table(
        ("Class", "Situation", "Level", "Outcome", "Seconds"),
        [
            (
                result.kind,
                result.situation,
                str(result.level),
                result.outcome,
                f"{result.seconds:.1f}",
            )
            for result in exam_run.results
        ],
    )
    for result in exam_run.misses():
        TERMINAL.line(f"{result.id}{' (known)' if result.id in known_ids else ''}: {result.asks}")
        for line in (
            *result.because,
            *result.choices,
            *(f"the library: {library_error}" for library_error in result.errors[:6]),
        ):
            TERMINAL.line(f"  {line}")
        TERMINAL.line(f"  again: {repeated_situation(_repeat_command(args), result)}")
    healed_ids = known_ids & {
        result.id for result in exam_run.results if result.outcome is SituationOutcome.PASSED
    }
    for miss_id in sorted(healed_ids):
        TERMINAL.line(f"{miss_id} is known as a miss, and passes")
    counts_text = ", ".join(f"{exam_run.count(outcome)} {outcome}" for outcome in SituationOutcome)
    TERMINAL.line(
        f"{exam_run.library} {exam_run.version} ({exam_run.language}), which speaks version"
        f" {exam_run.speaks} of transactions: {counts_text}"
    )


def _repeat_command(args: argparse.Namespace) -> ShellText:
    options = (("--driver", args.driver), ("--as-version", args.as_version), ("--on", args.on))
    option_arguments = [
        argument for name, value in options if value is not None for argument in option(name, value)
    ]
    return command_line("txnsim", "exam", "run", *option_arguments)
