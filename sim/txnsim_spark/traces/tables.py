"""Reads traces as tables: from JSON lines by Spark, with SQL, stored as Parquet. Small traces are
read by this process, and DuckDB runs the same SQL (``embedded``). Workers parse the lines, a piece
of a file per task. The schema is fixed, so the driver reads names of files and none of their
contents. ``schemas`` has the names and meanings of the tables, ``_queries`` the queries that make
them.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Protocol

from txnsim.errors import BadInputError
from txnsim_spark.embedded import EmbeddedDatabase
from txnsim_spark.traces._files import DATA_PREFIX, SILENT_LINE, path_of, run_names
from txnsim_spark.traces._queries import (
    FOREIGN_FILES_QUERY,
    LINE_DDL,
    QUERIES_OVER_EVENTS,
    QUERIES_OVER_LINES,
    RUNS_QUERY,
)
from txnsim_spark.traces._small_traces import (
    exported_runs,
    local_path_of,
    readable_export,
    register_export,
    register_traces,
    small_files,
    write_export,
)
from txnsim_spark.traces._trace_lines import (
    LINE_BYTES_MAX,
    MEASURED_SUFFIXES,
    PACKED_SUFFIXES,
    measure_trace,
)
from txnsim_spark.traces.schemas import TABLES, view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BLANK_BYTES_MAX: Final = 4_096
_LINE_MAX_OPTION: Final = "mapreduce.input.linerecordreader.line.maxlength"
"""Option of Hadoop's LineRecordReader, with which Spark reads text: it skips longer lines, and
keeps no more than so much of them in memory.
"""
_BYTE_ORDER_MARK_BYTES: Final = 3
EXPECTED_TRACE: Final = (
    'no trace: expected JSON lines that begin with {"k":"run",…}, as `scenario run --trace` and GET'
    " /api/v1/trace give them"
)


class AskTraces(Protocol):
    """Function that answers an SQL query over the views of traces. In the query, ``:name`` stands
    for the value of the parameter ``name``.
    """

    def __call__(self, query: str, **parameter_values: int) -> list[dict[str, Any]]: ...


class TraceError(BadInputError):
    """No trace was found; the message says where, and what a trace looks like."""


def export_traces(spark: SparkSession, paths: Sequence[str], directory: str) -> None:
    """Write every table of some traces as Parquet: a directory per table, in it one per run.

    Existing runs are not changed. The table ``runs`` is written last: a run that it does not name
    was interrupted, and the next export overwrites it.

    Args:
        spark: The session.
        paths: Files, directories or patterns, in any place that Spark can read.
        directory: The target, in any file system that all workers can write.

    Raises:
        TraceError: There is no file, a file is no trace, or a run exists already.
        OSError: The disk is full.
    """
    exported_names = _register_lines(spark, paths)
    _refuse_exported_runs(spark, exported_names, directory)
    _refuse_foreign_files(spark)
    for table_name, query in {
        **QUERIES_OVER_LINES,
        **QUERIES_OVER_EVENTS,
        "runs": RUNS_QUERY,
    }.items():
        table_path = f"{directory.rstrip('/')}/{table_name}"
        table_writer = (
            _select_in_schema(table_name, spark.sql(query))
            .write.mode("overwrite")
            .partitionBy("run")
        )
        with _disk_full_as_os_error(table_path):
            table_writer.option("partitionOverwriteMode", "dynamic").parquet(table_path)
        # What follows is made of what was written: nothing is computed twice.
        written_rows = _read_table(spark, table_name, directory)
        written_rows.where(written_rows.run.isin(exported_names)).createOrReplaceTempView(
            view_of(table_name)
        )


def register_views(spark: SparkSession, directory: str) -> None:
    """Create views of the tables of an export in Spark SQL: ``trace_events`` and so on.

    Args:
        spark: The session.
        directory: A directory that ``txnsim trace export`` has written.

    Raises:
        TraceError: The directory has no export, or an interrupted one.
    """
    for table_name in TABLES:
        _read_table(spark, table_name, directory).createOrReplaceTempView(view_of(table_name))


@contextmanager
def traces_as_views(
    spark: SparkSession, paths: Sequence[str], directory: str | None = None
) -> Iterator[None]:
    """Register the tables of traces that were not exported, for as long as the context lasts.

    Args:
        spark: The session.
        paths: Files, directories or patterns.
        directory: A directory for tables meanwhile, which all workers see; this machine's temporary
            directory unless given.

    Raises:
        TraceError: There is no file, or a file is no trace.
    """
    with TemporaryDirectory(prefix="txnsim-trace-", dir=directory) as export_folder:
        export_traces(spark, paths, export_folder)
        register_views(spark, export_folder)
        yield


def spark_queries(spark: SparkSession) -> AskTraces:
    """A function that answers queries by a Spark session, row by row."""

    def ask(query: str, **parameter_values: int) -> list[dict[str, Any]]:
        return [row.asDict() for row in spark.sql(query, args=parameter_values).toLocalIterator()]

    return ask


def embedded_queries(paths: Sequence[str], *, are_exported: bool) -> AskTraces | None:
    """A function that answers the same queries without Spark, over the same views; None if the
    traces are large or not on this machine, or if DuckDB is not installed.

    Raises:
        TraceError: A file is no trace.
    """
    trace_files = (
        small_files([f"{paths[0]}/**/*.parquet"], are_exported=True)
        if are_exported
        else small_files(paths)
    )
    if not trace_files:
        return None  # Spark says what is wrong with the paths
    if not are_exported:
        return _embedded_traces(trace_files).rows
    return _export_rows(Path(paths[0]))


def _export_rows(directory: Path) -> AskTraces:
    """A function that answers queries over an export."""
    database = EmbeddedDatabase()
    with readable_export(directory):
        register_export(database, directory)

    def ask(query: str, **parameter_values: int) -> list[dict[str, Any]]:
        with readable_export(directory):
            return database.rows(query, **parameter_values)

    return ask


def export_small_traces(paths: Sequence[str], directory: str) -> AskTraces | None:
    """Write what ``export_traces`` writes, without Spark; None if the traces are large, if they or
    the directory are not on this machine, or if DuckDB is not installed.

    Returns:
        A function that answers queries over all that the directory has now.

    Raises:
        TraceError: A file is no trace, or a run exists already.
        OSError: A file can't be written.
    """
    trace_files = small_files(paths)
    local_directory = local_path_of(directory)
    if not trace_files or local_directory is None:
        return None
    for run_name in sorted(
        exported_runs(local_directory)
        & set(run_names([str(trace_file) for trace_file in trace_files]).values())
    ):
        raise _exported_already(directory, run_name)
    database = _embedded_traces(trace_files)
    write_export(database, trace_files, local_directory)
    return _export_rows(local_directory)


def _embedded_traces(trace_files: Sequence[Path]) -> EmbeddedDatabase:
    for trace_file in trace_files:
        if _is_blank(trace_file):
            raise TraceError(f"{trace_file}: it is empty; {EXPECTED_TRACE}")
    database = EmbeddedDatabase()
    foreign_file_name = register_traces(database, trace_files)
    if foreign_file_name is not None:
        raise TraceError(f"{foreign_file_name}: {EXPECTED_TRACE}")
    return database


def _is_blank(file: Path) -> bool:
    """Whether a small file has only white space; a larger file is checked by its reader."""
    return file.stat().st_size <= _BLANK_BYTES_MAX and not file.read_bytes().strip()


def is_export(entry_names: Sequence[str]) -> bool:
    """Whether a directory with these entries was written by ``export_traces``."""
    return set(TABLES) <= set(entry_names)


# Parts

_FILE_COLUMNS: Final = ("of_uri", "file", "run")


def _register_lines(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Create views of the files, and of every line with data; returns the names of the runs."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as fn

    try:
        # Hadoop compares with the line and its end.
        line_bytes_limit = LINE_BYTES_MAX + len("\r\n") + 1
        text_frame = spark.read.option(_LINE_MAX_OPTION, line_bytes_limit).text(list(paths))
        line_frame = text_frame.select("value", fn.input_file_name().alias("uri"))
        file_uris = line_frame.inputFiles()
    except AnalysisException as error:
        raise TraceError(f"{', '.join(paths)}: {_first_reason_line(error)}") from error
    if not file_uris:
        raise TraceError(f"{', '.join(paths)}: no files")
    _refuse_long_lines(text_frame, file_uris)
    run_by_uri = run_names(file_uris)
    file_rows = [(uri, path_of(uri), run_name) for uri, run_name in run_by_uri.items()]
    # Not createDataFrame: that would start a Python worker, and nothing else here needs one.
    file_frame = spark.sql(
        "SELECT inline(from_json(:names, 'array<struct<of_uri string, file string, run string>>'))",
        args={
            "names": json.dumps(
                [dict(zip(_FILE_COLUMNS, file_row, strict=True)) for file_row in file_rows]
            )
        },
    )
    file_frame.createOrReplaceTempView(view_of("files"))
    (
        line_frame.where(~fn.col("value").rlike(SILENT_LINE))
        .join(fn.broadcast(file_frame), fn.col("uri") == fn.col("of_uri"))
        .select("run", "file", fn.regexp_replace("value", f"^{DATA_PREFIX}", "").alias("value"))
        .withColumn(
            "line", fn.from_json("value", LINE_DDL, {"columnNameOfCorruptRecord": "misfit"})
        )
        .createOrReplaceTempView(view_of("lines"))
    )
    return list(run_by_uri.values())


def _refuse_long_lines(text_frame: DataFrame, file_uris: Sequence[str]) -> None:
    """Refuse a file with a line that is too long. Files of this machine are read through here;
    elsewhere it is computed by the workers whether the lines that they read are all of the file.
    Of a packed file elsewhere, or of a format that only Hadoop unpacks, long lines are left out.

    Raises:
        BadInputError: A line is too long.
    """
    from pyspark.sql import functions as fn

    files_elsewhere = []
    for uri in file_uris:
        trace_file = local_path_of(uri)
        is_unpackable_here = uri.endswith(MEASURED_SUFFIXES) or not uri.endswith(PACKED_SUFFIXES)
        if trace_file is not None and trace_file.is_file() and is_unpackable_here:
            measure_trace(trace_file)
        elif not uri.endswith(PACKED_SUFFIXES):
            files_elsewhere.append(uri)
    if not files_elsewhere:
        return
    line_end_count_column, line_bytes_column = fn.count("value"), fn.sum(fn.octet_length("value"))
    file_bytes_column = fn.col("file_bytes")
    # A line ends with one byte or two. A line that was skipped is longer than that.
    skipping_file = (
        text_frame.select("value", fn.input_file_name().alias("uri"), "_metadata.file_size")
        .where(fn.col("uri").isin(files_elsewhere))
        .groupBy("uri")
        .agg(
            fn.max("file_size").alias("file_bytes"),
            (line_bytes_column + 2 * line_end_count_column).alias("read"),
        )
        .where(file_bytes_column > fn.col("read") + _BYTE_ORDER_MARK_BYTES)
        .first()
    )
    if skipping_file is not None:
        raise TraceError(
            f"{path_of(skipping_file.uri)}: a line has more than {LINE_BYTES_MAX} bytes: no"
            " line of a trace is that long"
        )


def _refuse_exported_runs(
    spark: SparkSession, new_run_names: Sequence[str], directory: str
) -> None:
    try:
        exported_runs = _read_table(spark, "runs", directory)
    except TraceError:
        return  # nothing was exported there
    exported_run = exported_runs.where(exported_runs.run.isin(*new_run_names)).select("run").first()
    if exported_run is not None:
        raise _exported_already(directory, exported_run.run)


def _exported_already(directory: str, run_name: str) -> TraceError:
    return TraceError(f"{directory}: run {run_name} is there already; name another directory")


def _refuse_foreign_files(spark: SparkSession) -> None:
    foreign_file = spark.sql(FOREIGN_FILES_QUERY).first()
    if foreign_file is not None:
        raise TraceError(f"{foreign_file.file}: {EXPECTED_TRACE}")


@contextmanager
def _disk_full_as_os_error(folder: str) -> Iterator[None]:
    """Raise an OSError if Spark can't write because the disk is full."""
    try:
        yield
    except Exception as error:
        if "No space left on device" not in str(error):
            raise
        place_text = f"{folder}, or a temporary file of Spark's (spark.local.dir)"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place_text) from error


def _read_table(spark: SparkSession, table_name: str, directory: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    table_path, table = f"{directory.rstrip('/')}/{table_name}", TABLES[table_name]
    try:
        # Spark puts what a table is partitioned by last.
        rows = spark.read.schema(table.ddl).parquet(table_path).select(*table.names)
        _ = rows.schema  # Spark Connect looks for the path only now
    except AnalysisException as error:
        raise TraceError(
            f"{table_path}: {_first_reason_line(error)}; expected what `trace export` has written"
        ) from error
    return rows


def _select_in_schema(table_name: str, frame: DataFrame) -> DataFrame:
    """The columns that the schema promises, in its order and types."""
    from pyspark.sql import functions as fn

    return frame.select(
        *(
            fn.col(f"`{column.name}`").cast(column.type).alias(column.name)
            for column in TABLES[table_name].columns
        )
    )


def _first_reason_line(error: Exception) -> str:
    """The reason of Spark's error, in one line."""
    error_text = str(error)
    return (
        "no such file or directory"
        if "PATH_NOT_FOUND" in error_text
        else error_text.splitlines()[0]
    )
