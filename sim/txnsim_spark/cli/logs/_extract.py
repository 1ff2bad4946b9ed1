"""``txnsim logs extract``: everything that one transactional id wrote, as Parquet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, Table
from txnsim_spark.cli.logs._searching import answering
from txnsim_spark.cli.logs.spark import add_directories

if TYPE_CHECKING:
    from txnsim_spark.extract import Extracted, Lot

DESCRIPTION: Final = (
    "Write every record of one transactional id as Parquet, with the outcome of its transaction:"
    " committed, aborted or open. Each record is written once, from the leading replica."
    " The table counts records, bytes and keys per transaction and partition:"
    " what an abort has lost, or would lose. It needs no Spark."
)
COLUMNS: Final[Columns[Lot]] = {
    "Topic": lambda one: one.topic,
    "Partition": lambda one: one.partition,
    "ProducerId": lambda one: one.producer_id,
    "Outcome": lambda one: one.outcome,
    "Offsets": lambda one: f"{one.first_offset}-{one.last_offset}",
    "Records": lambda one: one.records,
    "Bytes": lambda one: one.bytes,
    "Keys": lambda one: one.keys,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs extract`` takes."""
    parser.add_argument("--transactional-id", required=True, metavar="ID", help="whose records")
    add_directories(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="OUT", help="folder to make")
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _read(args: argparse.Namespace) -> Extracted:
    from txnsim_spark.extract import Extract, extract
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    return extract(
        Extract(
            paths=tuple(args.directory),
            transactional_id=args.transactional_id,
            target=args.to,
            topics=frozenset(args.topic),
        )
    )


def _print(found: Extracted) -> None:
    TERMINAL.text(Table.of(COLUMNS, found.transactions))
    TERMINAL.line(f"{found.directory}: {found.records} records, {found.files} files")


run = answering(_read, _print)
