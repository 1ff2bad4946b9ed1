"""``txnsim logs growth``: why ``__transaction_state`` grows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.logs.answering import answered
from txnsim.cli.logs.find_hanging import INCOMPLETE
from txnsim.cli.logs.searching import show_progress
from txnsim.cli.logs.spark import place
from txnsim.cli.output import format_table, print_line, warn

if TYPE_CHECKING:
    from txnsim.pipeline.questions.growth import Growth

DESCRIPTION: Final = (
    "Why __transaction_state grows: bytes and records per transactional id, the share that is dead,"
    " tombstones, and how far the log cleaner has come, of each partition. Values are not decoded,"
    " and it needs no Spark. Exit status 0: answered; 4: something could not be read; 2: a misuse."
)
PARTITIONS: Final = (
    "Partition",
    "Broker",
    "Bytes",
    "Records",
    "Ids",
    "Dead(%)",
    "Tombstones",
    "CleanedTo",
    "LogEndOffset",
    "Dirty",
    "Active",
)
IDS: Final = ("TransactionalId", "Partition", "Bytes", "Records", "Dead(%)", "Tombstones")
TOP: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs growth`` takes."""
    parser.add_argument(
        "directory",
        type=place,
        nargs="+",
        metavar="DIR",
        help="a broker's log directory, a folder of several, or a replica's folder",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=TOP,
        metavar="N",
        help="how many ids are shown (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: docs/questions.md")


def run(args: argparse.Namespace) -> int:
    """Look; returns the exit status."""
    return answered(args, _read, _print, _status)


def _status(found: Growth) -> int:
    return INCOMPLETE if found.problems else 0


def _read(args: argparse.Namespace) -> Growth:
    from txnsim.pipeline.libraries import require_libraries

    require_libraries()
    from txnsim.pipeline.questions.growth import growth

    return growth(args.directory, top=max(args.top, 0), on_progress=show_progress)


def _print(found: Growth) -> None:
    for problem in found.problems:
        warn(problem)
    print_line(
        f"__transaction_state: {found.bytes} bytes, {found.records} records of {found.ids} ids,"
        f" {_percent(found.dead_share)} % dead, {found.tombstones} tombstones"
    )
    for reason in found.reasons:
        print_line(f"  {reason}")
    rows = [
        tuple(
            str(cell)
            for cell in (
                one.partition,
                one.broker,
                one.bytes,
                one.records,
                one.ids,
                _percent(one.dead_share),
                one.tombstones,
                "-" if one.cleaned_to is None else one.cleaned_to,
                one.end_offset,
                one.dirty_bytes,
                one.active_bytes,
            )
        )
        for one in found.partitions
        if one.bytes
    ]
    print_line(format_table(PARTITIONS, rows).rstrip("\n"))
    ids = [
        tuple(
            str(cell)
            for cell in (
                one.transactional_id,
                one.partition,
                one.bytes,
                one.records,
                _percent(1 - one.live_bytes / one.bytes),
                one.tombstones,
            )
        )
        for one in found.largest
    ]
    print_line(format_table(IDS, ids).rstrip("\n"))


def _percent(share: float) -> int:
    return round(100 * share)
