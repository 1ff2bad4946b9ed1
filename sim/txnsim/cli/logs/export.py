"""``txnsim logs export``: tables of log directories as Parquet files."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.logs.spark import add_directories, add_master, session
from txnsim.cli.output import print_json, print_line, progress

if TYPE_CHECKING:
    from txnsim.pipeline.export import Export, Written

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
        help="tables of docs/kafka-log.md, or all (default %(default)s)",
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
    from txnsim.pipeline.export import Export, check, tables_of

    wanted = Export(
        paths=tuple(args.directory),
        target=args.to,
        tables=args.table,
        topics=frozenset(args.topic),
        overwrite=args.overwrite,
    )
    tables = tables_of(wanted)
    written = []
    check(wanted)  # a misuse is refused before Spark is started
    with ExitStack() as stack:
        write = _writer(args, wanted, stack)
        for number, table in enumerate(tables, 1):
            progress(f"writing {table}, {number} of {len(tables)} tables")
            one = write(table)
            written.append(one)
            if not args.json:
                print_line(f"{one.directory}: {one.rows} rows, {one.files} files")
    if args.json:
        print_json(written)
    return 0


def _writer(args: argparse.Namespace, wanted: Export, stack: ExitStack) -> Callable[[str], Written]:
    """Writes a table: here where it is little, on Spark where it is much.

    Raises:
        MissingExtraError: A library, PySpark or Java is missing.
    """
    from txnsim.pipeline import export
    from txnsim.pipeline.libraries import require_libraries

    require_libraries()
    from txnsim.pipeline.tables.read_here import is_little

    if args.master is None and is_little(export.tables_of(wanted), wanted.paths, wanted.topics):
        return lambda table: export.export_here(wanted, table)
    spark = stack.enter_context(session(args.master))
    return lambda table: export.export(spark, wanted, table)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
