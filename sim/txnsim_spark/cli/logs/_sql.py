"""``txnsim logs sql``: runs a query of the user."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from txnsim.cli.output import TERMINAL, FormattedTable
from txnsim_spark.cli.logs._searching import make_run, show_progress
from txnsim_spark.cli.logs.spark import add_directory_arguments, setting

DESCRIPTION: Final = (
    "Answer a query in SQL over log directories of stopped brokers, or copies of them: kafka_NAME"
    " is the table NAME of kafka_log; leader, kafka_outcomes and kafka_partition_transactions are"
    " views over them. DuckDB does it in this process, without Spark, and knows COPY … TO for"
    " Parquet."
    " Exit status 0: answered; 4: something that the query is about could not be read (--option"
    " ignoreCorruptFiles=true or ignoreMissingFiles=true passes over it); 2: a misuse."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="in SQL; - reads it from the input")
    add_directory_arguments(parser, has_topic_option=False)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="an option of kafka_log for the tables that have it, such as topics, producerIds or"
        " startTimestamp; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: a list of rows")


def _query_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    from txnsim_spark.log_database import LogDatabase

    query = sys.stdin.read() if args.query == "-" else args.query
    return LogDatabase(args.directory, dict(args.option), show_progress).rows(query)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    if rows:
        lines = [[_cell_text(cell) for cell in row.values()] for row in rows]
        TERMINAL.text(FormattedTable(FormattedTable.format_table([*rows[0]], lines).rstrip("\n")))


def _cell_text(cell: object) -> str:
    match cell:
        case None:
            return ""
        case bytes():
            return cell.decode(errors="replace")
    return str(cell)


run = make_run(_query_rows, _print_rows)
