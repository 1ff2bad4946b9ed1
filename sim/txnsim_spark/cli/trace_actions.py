"""``txnsim trace export`` and ``trace analyse``: write the tables of traces as Parquet, and analyse
them. The lab's command offers them next to its own actions (``txnsim_lab.cli._traces.trace``).
Results go to standard output, progress and unreadable lines to standard error.
``txnsim_spark.traces`` does the work.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, FormattedTable
from txnsim.cli.parsing import MISUSE_STATUS, CommandParser, new_folder_or_address
from txnsim_spark.cli.logs.spark import add_master_argument, session

if TYPE_CHECKING:
    from txnsim_spark.traces.tables import AskTraces

ACTIONS: Final = ("export", "analyse")
INCOMPLETE_STATUS: Final = 1
IDS_DEFAULT: Final = 5
FILES_SHOWN_MAX: Final = 5
"""Limit of the unreadable lines that are shown."""
KEY_COLUMNS: Final = ("transaction_version", "transactional_id")

Cell = int | float | str | None
Rows = list[dict[str, Cell]]


def add_arguments(actions: argparse._SubParsersAction[CommandParser]) -> None:
    export_parser = actions.add_parser(
        "export",
        help="the tables of traces as Parquet",
        description="Write the tables of traces as Parquet (docs/trace-tables.md). Runs that"
        " are there already are kept. Exit status: 0, 1 if some lines could not be"
        " read, 2 for a misuse.",
    )
    export_parser.add_argument(
        "trace", nargs="+", metavar="FILE", help="a trace, a directory of traces, or a pattern"
    )
    export_parser.add_argument(
        "--to",
        type=new_folder_or_address,
        required=True,
        metavar="DIR",
        help="where to; made if need be",
    )
    analyse_parser = actions.add_parser(
        "analyse",
        help="time to decide, marker delay, LSO lag, late transactions, verification, epoch bumps",
        description="Analyse traces by transaction version and by transactional id"
        " (docs/trace-tables.md). Exit status: 0, 1 if some lines could not be read, 2 for a"
        " misuse.",
    )
    analyse_parser.add_argument(
        "trace",
        nargs="+",
        metavar="FILE|DIR",
        help="a trace, a directory of traces, a pattern; or one directory that `trace export` has"
        " written",
    )
    analyse_parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this one; may be repeated"
    )
    analyse_parser.add_argument(
        "--ids",
        type=_count_argument,
        default=IDS_DEFAULT,
        metavar="N",
        help="so many transactional ids of each, those that stand out (default %(default)s)",
    )
    analyse_parser.add_argument(
        "--work",
        type=new_folder_or_address,
        metavar="DIR",
        help="where tables of traces are kept meanwhile, a place that all workers of Spark see"
        " (default: this machine's temporary directory)",
    )
    for action_parser in (export_parser, analyse_parser):
        add_master_argument(action_parser)
        action_parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the action that the arguments name; returns the exit status."""
    from txnsim.errors import BadInputError, MissingExtraError
    from txnsim_spark.traces.analyses import ANALYSES

    unknown_analyses = sorted(set(getattr(args, "only", ())) - set(ANALYSES))
    if unknown_analyses:
        TERMINAL.complain(
            f"there is no analysis {unknown_analyses[0]!r}: expected one of {', '.join(ANALYSES)}"
        )
        return MISUSE_STATUS
    try:
        if args.action == "export":
            return _export_traces(args)
        with _query_views(args) as run_query:
            return _analyse_trace(run_query, args)
    except (BadInputError, MissingExtraError, OSError) as error:
        TERMINAL.complain(error)
        return MISUSE_STATUS


def _export_traces(args: argparse.Namespace) -> int:
    """Export in this process if the traces are small and no master is given, else by Spark."""
    from txnsim_spark.traces.schemas import TABLES
    from txnsim_spark.traces.tables import (
        export_small_traces,
        export_traces,
        register_views,
        spark_queries,
    )

    TERMINAL.progress("reading")
    run_query = None if args.master else export_small_traces(args.trace, args.to)
    if run_query is not None:
        summary = _trace_summary(run_query)
    else:
        with session(args.master) as spark:
            export_traces(spark, args.trace, args.to)
            register_views(spark, args.to)
            summary = _trace_summary(spark_queries(spark))
    TERMINAL.tell(
        args,
        {"directory": args.to, "tables": list(TABLES), **summary},
        lambda exported: f"{args.to}: {exported['events']} events of {exported['runs']} runs",
    )
    return _warn_of_unread(summary)


def _analyse_trace(run_query: AskTraces, args: argparse.Namespace) -> int:
    from txnsim_spark.traces.analyses import ANALYSES, LATE_AFTER_MS

    summary = _trace_summary(run_query)
    rows_by_analysis: dict[str, Rows] = {}
    for analysis_name, analysis in ANALYSES.items():
        if args.only and analysis_name not in args.only:
            continue
        TERMINAL.progress(analysis.title)
        rows = run_query(analysis.worst(args.ids), late_after_ms=LATE_AFTER_MS)
        rows_by_analysis[analysis_name] = [
            {column: cell for column, cell in row.items() if column != "place"} for row in rows
        ]
    tables = [
        FormattedTable(f"{ANALYSES[analysis_name].title}\n{_rows_as_table(rows)}")
        for analysis_name, rows in rows_by_analysis.items()
    ]
    TERMINAL.tell(args, {**summary, "analyses": rows_by_analysis}, lambda _: tables)
    return _warn_of_unread(summary)


@contextmanager
def _query_views(args: argparse.Namespace) -> Iterator[AskTraces]:
    """Create the views of an export or of raw traces: in this process if they are small and no
    master is given, else by Spark.
    """
    from txnsim_spark.traces.tables import (
        TraceError,
        embedded_queries,
        is_export,
        register_views,
        spark_queries,
        traces_as_views,
    )

    export_folders = [trace for trace in args.trace if is_export(_names_in_directory(Path(trace)))]
    if export_folders and len(args.trace) > 1:
        raise TraceError(f"{export_folders[0]} is an export: it can only be analysed alone")
    embedded_query = (
        None if args.master else embedded_queries(args.trace, are_exported=bool(export_folders))
    )
    if embedded_query is not None:
        yield embedded_query
        return
    with session(args.master) as spark:
        if export_folders:
            register_views(spark, export_folders[0])
            yield spark_queries(spark)
        else:
            with traces_as_views(spark, args.trace, args.work):
                yield spark_queries(spark)


def _names_in_directory(path: Path) -> list[str]:
    """Names in a directory of this machine; none for a file, a pattern or another place."""
    return [entry.name for entry in path.iterdir()] if path.is_dir() else []


def _trace_summary(run_query: AskTraces) -> dict[str, object]:
    """Number of lines, and of lines of an unknown kind; workers count them."""
    unknown_kinds = run_query(
        "SELECT kind, count(*) AS events FROM trace_events WHERE NOT is_known"
        " GROUP BY kind ORDER BY kind"
    )
    unreadable_lines = run_query(
        "SELECT file, reason, count(*) AS `lines`, min(text) AS text FROM trace_unreadable"
        " GROUP BY file, reason ORDER BY file, reason"
    )
    (runs_row,) = run_query("SELECT count(*) AS many FROM trace_runs")
    (events_row,) = run_query("SELECT count(*) AS many FROM trace_events")
    return {
        "runs": runs_row["many"],
        "events": events_row["many"],
        "unknown_kinds": {row["kind"]: row["events"] for row in unknown_kinds},
        "unreadable": unreadable_lines,
    }


def _warn_of_unread(summary: Mapping[str, object]) -> int:
    """Warn of unreadable lines and unknown kinds; return the exit status."""
    unreadable_lines, unknown_kinds = summary["unreadable"], summary["unknown_kinds"]
    assert isinstance(unreadable_lines, list)
    assert isinstance(unknown_kinds, dict)
    for event_kind, event_count in unknown_kinds.items():
        TERMINAL.complain(
            f"{event_count} events of kind {event_kind!r}, which is not known here, are kept"
        )
    for file_fields in unreadable_lines[:FILES_SHOWN_MAX]:
        TERMINAL.complain(
            f"{file_fields['file']}: {file_fields['lines']} ×"
            f" {file_fields['reason']}: {file_fields['text']}"
        )
    if len(unreadable_lines) > FILES_SHOWN_MAX:
        TERMINAL.complain(f"… and {len(unreadable_lines) - FILES_SHOWN_MAX} more files like that")
    return INCOMPLETE_STATUS if unreadable_lines else 0


def _rows_as_table(rows: Rows) -> str:
    """Rows as a table, without empty columns."""
    if not rows:
        return "nothing of it in this trace\n"
    columns = [column_name for column_name in rows[0] if column_name != "grouped_by"]
    shown_columns = [
        column_name
        for column_name in columns
        if column_name in KEY_COLUMNS or any(row[column_name] is not None for row in rows)
    ]
    lines = [
        ["" if row[column_name] is None else str(row[column_name]) for column_name in shown_columns]
        for row in rows
    ]
    for row, cells in zip(rows, lines, strict=True):
        if row["grouped_by"] == "all":
            cells[0] = "all"
    return FormattedTable.format_table(shown_columns, lines)


def _count_argument(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number: expected 0 or more")
    return int(text)
