"""``txnsim logs growth``: why ``__transaction_state`` grows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, Table
from txnsim_spark.cli.logs._find_hanging import INCOMPLETE
from txnsim_spark.cli.logs._searching import answering, show_progress
from txnsim_spark.cli.logs.spark import add_directories

if TYPE_CHECKING:
    from txnsim_spark.questions.growth import Growth, IdSize, PartitionSize

DESCRIPTION: Final = (
    "Why __transaction_state grows: bytes and records per transactional id, the share that is dead,"
    " tombstones, and how far the log cleaner has come, of each partition. Values are not decoded,"
    " and it needs no Spark. Exit status 0: answered; 4: something could not be read; 2: a misuse."
)
PARTITIONS: Final[Columns[PartitionSize]] = {
    "Partition": lambda one: one.partition,
    "Broker": lambda one: one.broker,
    "Bytes": lambda one: one.bytes,
    "Records": lambda one: one.records,
    "Ids": lambda one: one.ids,
    "Dead(%)": lambda one: _percent(one.dead_share),
    "Tombstones": lambda one: one.tombstones,
    "CleanedTo": lambda one: "-" if one.cleaned_to is None else one.cleaned_to,
    "LogEndOffset": lambda one: one.end_offset,
    "Dirty": lambda one: one.dirty_bytes,
    "Active": lambda one: one.active_bytes,
}
IDS: Final[Columns[IdSize]] = {
    "TransactionalId": lambda one: one.transactional_id,
    "Partition": lambda one: one.partition,
    "Bytes": lambda one: one.bytes,
    "Records": lambda one: one.records,
    "Dead(%)": lambda one: _percent(1 - one.live_bytes / one.bytes),
    "Tombstones": lambda one: one.tombstones,
}
TOP: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs growth`` takes."""
    add_directories(parser, of_topics=False)
    parser.add_argument(
        "--top",
        type=int,
        default=TOP,
        metavar="N",
        help="how many ids are shown (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _status(found: Growth) -> int:
    return INCOMPLETE if found.problems else 0


def _read(args: argparse.Namespace) -> Growth:
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    from txnsim_spark.questions.growth import growth

    return growth(args.directory, top=max(args.top, 0), on_progress=show_progress)


def _print(found: Growth) -> None:
    for problem in found.problems:
        TERMINAL.warn(problem)
    TERMINAL.line(
        f"__transaction_state: {found.bytes} bytes, {found.records} records of {found.ids} ids,"
        f" {_percent(found.dead_share)} % dead, {found.tombstones} tombstones"
    )
    for reason in found.reasons:
        TERMINAL.line(f"  {reason}")
    TERMINAL.text(Table.of(PARTITIONS, (one for one in found.partitions if one.bytes)))
    TERMINAL.text(Table.of(IDS, found.largest))


def _percent(share: float) -> int:
    return round(100 * share)


run = answering(_read, _print, _status)
