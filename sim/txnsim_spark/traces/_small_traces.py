"""Traces as tables without a JVM: small ones are read by this process with DuckDB
(``embedded``).
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.embedded import (
    DDL_FIELD,
    EmbeddedDatabase,
    duckdb_type_of,
    json_structure,
    translate_for_duckdb,
)
from txnsim_spark.traces._files import DATA_PREFIX, SILENT_LINE, run_names
from txnsim_spark.traces._queries import (
    FOREIGN_FILES_QUERY,
    LINE_DDL,
    QUERIES_OVER_EVENTS,
    QUERIES_OVER_LINES,
    RUNS_QUERY,
)
from txnsim_spark.traces._trace_lines import PACKED_SUFFIXES, measure_trace
from txnsim_spark.traces.schemas import TABLES, view_of

SMALL_TRACES_BYTES_MAX: Final = 64 << 20
"""Larger traces are read by Spark."""
_SPARK_SUFFIXES: Final = frozenset(PACKED_SUFFIXES) - {".gz"}
"""What Spark unpacks and DuckDB does not."""
_PATTERN_SIGNS: Final = frozenset("*?[")
_ESCAPED_IN_FOLDERS: Final = frozenset("\"#%'*/:=?\\\x7f{[]^")
_LINE_COLUMNS: Final = ("run", "file", "value", "misfit")


def small_files(paths: Sequence[str], *, are_exported: bool = False) -> tuple[Path, ...] | None:
    """The local files with the traces; None if Spark has to read them: they are not on this
    machine, they are too large, or DuckDB is not installed.

    Args:
        paths: Files, directories or patterns.
        are_exported: They are Parquet files, which have no lines.

    Raises:
        BadInputError: A path is not there, a compressed file can't be unpacked, or a line is too
            long.
    """
    if find_spec("duckdb") is None:
        return None
    local_paths = [path for path in map(local_path_of, paths) if path is not None]
    if len(local_paths) < len(paths):
        return None
    for local_path in local_paths:
        if not local_path.exists() and _PATTERN_SIGNS.isdisjoint(str(local_path)):
            raise BadInputError(f"{local_path}: no such file or directory")
    trace_files = tuple(
        trace_file for local_path in local_paths for trace_file in _files_at(local_path)
    )
    is_readable = all(trace_file.suffix not in _SPARK_SUFFIXES for trace_file in trace_files)
    bytes_left = SMALL_TRACES_BYTES_MAX
    for trace_file in trace_files if is_readable else ():
        stored_bytes = trace_file.stat().st_size
        bytes_left -= (
            stored_bytes
            if are_exported or stored_bytes > bytes_left
            else measure_trace(trace_file, bytes_max=bytes_left)
        )
        if bytes_left < 0:
            return None
    return trace_files if is_readable else None


def local_path_of(uri: str) -> Path | None:
    """The path on this machine that a path or URI names; None if it names another place."""
    path_text = unquote(uri).removeprefix("file://")
    return None if re.match(r"[a-zA-Z][\w+.-]*:/", path_text) else Path(path_text)


def register_export(database: EmbeddedDatabase, directory: Path) -> None:
    """Create views of the tables of an export; ask them inside ``readable_export``."""
    for table_name, table in TABLES.items():
        if any(directory.glob(f"{table_name}/**/*.parquet")):
            parquet_pattern = f"{directory}/{table_name}/**/*.parquet".replace("'", "''")
            source_sql = f"read_parquet('{parquet_pattern}', hive_partitioning = true)"
        else:  # Spark writes no file where there is no row
            null_columns = (f"NULL AS `{column}`" for column in table.names)
            source_sql = f"(SELECT {', '.join(null_columns)} WHERE false)"
        database.create(view_of(table_name), _select_in_schema(table_name, source_sql))


def register_traces(database: EmbeddedDatabase, trace_files: Sequence[Path]) -> str | None:
    """Create the tables of traces; returns the name of a file without a trace, if there is one."""
    run_by_file = run_names([str(trace_file) for trace_file in trace_files])
    text_columns: dict[str, list[str | None]] = {column: [] for column in _LINE_COLUMNS}
    for trace_file, run_name in run_by_file.items():
        lines = list(_lines_of(Path(trace_file)))
        text_columns["run"] += [run_name] * len(lines)
        text_columns["file"] += [trace_file] * len(lines)
        text_columns["value"] += lines
        text_columns["misfit"] += [None if _has_declared_types(line) else line for line in lines]
    database.create_from_columns(
        view_of("files"), {"run": list(run_by_file.values()), "file": list(run_by_file)}
    )
    database.create_from_columns("trace_text", text_columns)
    line_structure = json_structure(LINE_DDL.removesuffix(", misfit string"))
    database.create(
        view_of("lines"),
        "SELECT run, file, value, struct_insert("
        f"CASE WHEN json_valid(value) THEN json_transform(value, '{line_structure}') END,"
        " misfit := misfit"
        ") AS line FROM trace_text",
        is_kept=True,
    )
    foreign_files = database.rows(FOREIGN_FILES_QUERY)
    if foreign_files:
        return str(foreign_files[0]["file"])
    for table_name, query in {
        **QUERIES_OVER_LINES,
        **QUERIES_OVER_EVENTS,
        "runs": RUNS_QUERY,
    }.items():
        database.create(
            view_of(table_name),
            _select_in_schema(table_name, f"({translate_for_duckdb(query)})"),
            is_kept=True,
        )
    return None


def write_export(database: EmbeddedDatabase, trace_files: Sequence[Path], directory: Path) -> None:
    """Write the tables of registered traces as Parquet, in the layout of Spark's export: a folder
    for each table, in it one for each run. The table ``runs`` is written last.

    Raises:
        OSError: A file can't be written.
    """
    run_by_file = run_names([str(trace_file) for trace_file in trace_files])
    for table_name in (*QUERIES_OVER_LINES, *QUERIES_OVER_EVENTS, "runs"):
        table_folder = directory / table_name
        table_folder.mkdir(parents=True, exist_ok=True)
        columns = ", ".join(f"`{name}`" for name in TABLES[table_name].names if name != "run")
        for run_name in run_by_file.values():
            run_literal = run_name.replace("'", "''")
            condition = f"FROM {view_of(table_name)} WHERE run = '{run_literal}'"
            run_folder = table_folder / f"run={_escape_folder_name(run_name)}"
            if run_folder.exists():  # an interrupted export left it
                shutil.rmtree(run_folder)
            if database.rows(f"SELECT 1 {condition} LIMIT 1"):
                run_folder.mkdir()
                database.write_parquet(
                    f"SELECT {columns} {condition}", run_folder / "part-0.parquet"
                )


@contextmanager
def readable_export(directory: Path) -> Iterator[None]:
    """Tell what is wrong with an export that is damaged, or that is another program's.

    Raises:
        BadInputError: A file of it can't be read, or has other columns.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise BadInputError(f"{directory}: no export that can be read: {reason}") from error


def exported_runs(directory: Path) -> set[str]:
    """The runs that an export in a directory has."""
    if not any(directory.glob("runs/**/*.parquet")):
        return set()
    database = EmbeddedDatabase()
    with readable_export(directory):
        register_export(database, directory)
        return {row["run"] for row in database.rows(f"SELECT run FROM {view_of('runs')}")}


def _escape_folder_name(run_name: str) -> str:
    """A run's name as Spark has it in the name of a partition's folder
    (ExternalCatalogUtils.escapePathName).
    """
    return "".join(
        f"%{ord(character):02X}"
        if character in _ESCAPED_IN_FOLDERS or ord(character) < 0x20
        else character
        for character in run_name
    )


def _select_in_schema(table_name: str, source_sql: str) -> str:
    """The columns of the schema, in its order and types."""
    column_casts = ", ".join(
        f"CAST(`{column.name}` AS {duckdb_type_of(column.type)}) AS `{column.name}`"
        for column in TABLES[table_name].columns
    )
    return f"SELECT {column_casts} FROM {source_sql}"


def _has_declared_types(line: str) -> bool:
    """Whether a line is JSON whose values have the types that are declared."""
    try:
        _line_decoder().decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


@cache
def _line_decoder() -> msgspec.json.Decoder[Any]:
    python_types = {"bigint": int, "int": int, "boolean": bool, "array<bigint>": list[int]}
    line_fields = [
        (field_name, python_types.get(sql_type, Any) | None, None)
        for field_name, sql_type in DDL_FIELD.findall(LINE_DDL)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Line", line_fields))


def _files_at(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in sorted(path.iterdir()) if _is_shown(file))
    elif path.exists():
        yield from (path,) if path.is_file() else ()
    else:
        yield from (
            file
            for file in sorted(Path(path.anchor).glob(_path_below_anchor(path)))
            if file.is_file()
        )


def _path_below_anchor(path: Path) -> str:
    return str(path.relative_to(path.anchor)) if path.anchor else str(path)


def _is_shown(file: Path) -> bool:
    """Whether Spark would read the file: it skips hidden files."""
    return file.is_file() and file.name[0] not in "._"


def _lines_of(file: Path) -> Iterator[str]:
    open_text = gzip.open if file.suffix == ".gz" else open
    with open_text(file, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            bare_line = line.rstrip("\n")
            if not re.search(SILENT_LINE, bare_line):
                yield bare_line.removeprefix(DATA_PREFIX)
