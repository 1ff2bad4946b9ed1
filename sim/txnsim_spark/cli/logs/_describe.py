"""``txnsim logs describe``: what lies in log directories, read without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, Table
from txnsim_spark.cli.logs.spark import add_directories

if TYPE_CHECKING:
    from txnsim_spark.describe import Described

DESCRIPTION: Final = (
    "Read every replica in log directories of stopped brokers, or in copies of them, and say its"
    " offsets, how far read_committed consumers come, the transactions without an end, and where a"
    " segment stops making sense; of each directory, whether its broker stopped in order. An open"
    " transaction is not a hanging one yet: its coordinator may know it. Exit status 4: something"
    " could not be read and was passed by; 2: a misuse."
)
INCOMPLETE: Final = 4
"""Something could not be read; as that of ``logs find-hanging``."""
COLUMNS: Final[Columns[Described]] = {
    "Replica": lambda one: one.directory,
    "Segments": lambda one: one.segments,
    "Batches": lambda one: one.batches,
    "Bytes": lambda one: one.bytes,
    "Offsets": lambda one: f"{one.log_start_offset}-{one.end_offset}",
    "HighWatermark": lambda one: "" if one.high_watermark is None else one.high_watermark,
    "LastStable": lambda one: one.last_stable_offset,
    "OpenTransactions": lambda one: ", ".join(
        f"{txn.producer_id}@{txn.first_offset}" for txn in one.open_transactions
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs describe`` takes."""
    add_directories(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Directory by directory, every replica that is there, one line each; what is torn below."""
    from txnsim_spark.describe import described

    problems: list[str] = []
    found = list(
        described(
            args.directory,
            frozenset(args.topic),
            progress=TERMINAL.progress,
            on_problem=problems.append,
        )
    )
    for problem in problems:
        TERMINAL.warn(problem)
    status = INCOMPLETE if problems else 0
    if args.json:
        TERMINAL.json(found)
        return status
    for line in _log_dirs(found):
        TERMINAL.line(line)
    TERMINAL.text(Table.of(COLUMNS, found))
    for one in found:
        if one.is_stale:
            TERMINAL.line(f"{one.directory} on broker {one.broker} is stale: its topic was deleted")
        if one.torn is not None:
            TERMINAL.line(
                f"{one.directory}/{one.torn_file}, byte {one.torn.position}: {one.torn.reason}; "
                f"a broker would cut off {one.torn.size} bytes"
            )
    return status


def _log_dirs(found: Iterable[Described]) -> Iterator[str]:
    """A line per log directory."""
    seen: dict[str, list[Described]] = {}
    for one in found:
        seen.setdefault(one.log_dir, []).append(one)
    for log_dir, replicas in seen.items():
        first = replicas[0]
        whose = f"broker {first.broker}" if first.broker >= 0 else "of an unknown broker"
        stop = "stopped in order" if first.is_clean else "not stopped in order"
        withheld = sum(one.withheld > 0 for one in replicas)
        held = f", {withheld} held back by open transactions" if withheld else ""
        count = f"{len(replicas)} replica{'' if len(replicas) == 1 else 's'}"
        yield f"{log_dir}: {whose}, {stop}; {count}{held}"
