"""``txnsim logs lost``: what aborted and open transactions wrote, and no reader gets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, Table
from txnsim_spark.cli.logs._searching import add_as_of, answering, find, search_of
from txnsim_spark.cli.logs.spark import add_directories, add_master

if TYPE_CHECKING:
    from txnsim_spark.questions.lost import Losses, LostLot

DESCRIPTION: Final = (
    "What was lost: per transaction that was aborted or has no end, and per partition, how many"
    " records, bytes and keys it wrote. With --to each record is written as Parquet, once. Markers"
    " and records are those that the logs still have: retention and the cleaner may have taken"
    " some. Exit status 0: answered; 2: a misuse."
)
COLUMNS: Final[Columns[LostLot]] = {
    "Topic": lambda one: one.topic,
    "Partition": lambda one: one.partition,
    "TransactionalId": lambda one: one.transactional_id or "unknown",
    "ProducerId": lambda one: one.producer_id,
    "Outcome": lambda one: one.outcome,
    "Verdict": lambda one: one.verdict or "",
    "Offsets": lambda one: f"{one.first_offset}-{one.last_offset}",
    "Records": lambda one: one.records,
    "Bytes": lambda one: one.bytes,
    "Keys": lambda one: one.keys,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs lost`` takes."""
    add_directories(parser)
    parser.add_argument("--to", type=Path, metavar="OUT", help="folder to make, for the records")
    add_as_of(parser)
    add_master(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _read(args: argparse.Namespace) -> Losses:
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    from txnsim_spark.questions.lost import lost

    return find(args.master, lost, search_of(args), args.to)


def _print(found: Losses) -> None:
    TERMINAL.text(Table.of(COLUMNS, found.transactions))
    where = "" if found.directory is None else f"; {found.directory}: {found.files} files"
    TERMINAL.line(f"{found.records} records, {found.bytes} bytes{where}")


run = answering(_read, _print)
