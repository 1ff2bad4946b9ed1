"""``txnsim logs export``: tables of log directories as Parquet files."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs._searching import find
from txnsim_spark.cli.logs.spark import add_directories, add_master

if TYPE_CHECKING:
    from txnsim_spark.engine import NewSession, Progress
    from txnsim_spark.export import Export, Written

DESCRIPTION: Final = (
    "Write tables of log directories as Parquet, one folder per table, below it one per topic:"
    " OUT/TABLE/topic=TOPIC/. Any engine that knows Parquet reads them. What is there already is"
    " left alone."
)
TABLES: Final = "fragments,endings,producer_state,aborted,transactions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs export`` takes."""
    add_directories(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="OUT", help="folder to write to")
    parser.add_argument(
        "--table",
        type=_names,
        default=_names(TABLES),
        metavar="TABLE,…",
        help="tables of docs/kafka-log-tables.md, or all (default %(default)s)",
    )
    parser.add_argument(
        "--format", choices=("parquet",), default="parquet", help="of the files (default parquet)"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace tables that are there already"
    )
    add_master(parser)
    parser.add_argument("--json", action="store_true", help="what was written as JSON")


def run(args: argparse.Namespace) -> int:
    """Write them; returns the exit status."""
    from txnsim_spark.export import Export, check

    wanted = Export(
        paths=tuple(args.directory),
        target=args.to,
        tables=args.table,
        topics=frozenset(args.topic),
        overwrite=args.overwrite,
    )
    check(wanted)  # a misuse is refused before Spark is started
    written = find(args.master, partial(_write, args, wanted))
    if args.json:
        TERMINAL.json(written)
    return 0


def _write(
    args: argparse.Namespace, wanted: Export, *, new_session: NewSession, progress: Progress
) -> list[Written]:
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    from txnsim_spark.engine import Engine
    from txnsim_spark.export import export, tables_of

    engine = Engine(new_session, progress, with_spark=args.master is not None)
    tables = tables_of(wanted)
    written = []
    for number, table in enumerate(tables, 1):
        progress(f"writing {table}, {number} of {len(tables)} tables")
        written.append(export(engine, wanted, table))
        if not args.json:
            TERMINAL.line(
                f"{written[-1].directory}: {written[-1].rows} rows, {written[-1].files} files"
            )
    return written


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
