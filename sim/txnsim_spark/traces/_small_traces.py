"""Traces as tables without a JVM: small ones are read by this process with DuckDB
(``embedded``).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from txnsim_spark.embedded import DDL_FIELD, EmbeddedDatabase, duckdb_type_of, for_duckdb, structure
from txnsim_spark.traces._files import DATA_PREFIX, SILENT_LINE, run_names
from txnsim_spark.traces._queries import LINE_DDL, OF_EVENTS, OF_LINES, OTHERS, RUNS
from txnsim_spark.traces.schemas import TABLES, view_of

BYTES_MAX: Final = 64 << 20
"""Larger traces are read by Spark."""
_PATTERN: Final = frozenset("*?[")
_LINE: Final = ("run", "file", "value", "misfit")


def small_files(paths: Sequence[str]) -> tuple[Path, ...] | None:
    """The local files with the traces; None if Spark has to read them: they are not on this
    machine, they are too large, or DuckDB is not installed.
    """
    if find_spec("duckdb") is None:
        return None
    local_paths = [unquote(uri).removeprefix("file://") for uri in paths]
    if any(re.match(r"[a-zA-Z][\w+.-]*:/", local_path) for local_path in local_paths):
        return None
    files = tuple(file for local_path in local_paths for file in _files_at(Path(local_path)))
    is_plain = all(file.suffix != ".zst" for file in files)
    is_small = sum(file.stat().st_size for file in files) <= BYTES_MAX
    return files if is_plain and is_small else None


def register_export(database: EmbeddedDatabase, directory: Path) -> None:
    """Create views of the tables of an export."""
    for name, table in TABLES.items():
        if any(directory.glob(f"{name}/**/*.parquet")):
            files = f"{directory}/{name}/**/*.parquet".replace("'", "''")
            source = f"read_parquet('{files}', hive_partitioning = true)"
        else:  # Spark writes no file where there is no row
            columns = (f"NULL AS `{column}`" for column in table.names)
            source = f"(SELECT {', '.join(columns)} WHERE false)"
        database.create(view_of(name), _select_in_schema(name, source))


def register_traces(database: EmbeddedDatabase, files: Sequence[Path]) -> str | None:
    """Create the tables of traces; returns the name of a file without a trace, if there is one."""
    import pyarrow as pa

    runs = run_names([str(file) for file in files])
    lines = [
        {
            "run": run,
            "file": file,
            "value": line,
            "misfit": None if _has_declared_types(line) else line,
        }
        for file, run in runs.items()
        for line in _lines_of(Path(file))
    ]
    named = pa.table({"run": list(runs.values()), "file": list(runs)})
    database.register(view_of("files"), named)
    text = pa.schema((column, pa.string()) for column in _LINE)
    database.register("trace_text", pa.Table.from_pylist(lines, text))
    keys = structure(LINE_DDL.removesuffix(", misfit string"))
    database.create(
        view_of("lines"),
        "SELECT run, file, value, struct_insert("
        f"CASE WHEN json_valid(value) THEN json_transform(value, '{keys}') END, misfit := misfit"
        ") AS line FROM trace_text",
        is_kept=True,
    )
    foreign_files = database.rows(OTHERS)
    if foreign_files:
        return str(foreign_files[0]["file"])
    for name, query in {**OF_LINES, **OF_EVENTS, "runs": RUNS}.items():
        database.create(
            view_of(name), _select_in_schema(name, f"({for_duckdb(query)})"), is_kept=True
        )
    return None


def _select_in_schema(name: str, source: str) -> str:
    """The columns of the schema, in its order and types."""
    columns = ", ".join(
        f"CAST(`{column.name}` AS {duckdb_type_of(column.type)}) AS `{column.name}`"
        for column in TABLES[name].columns
    )
    return f"SELECT {columns} FROM {source}"


def _has_declared_types(line: str) -> bool:
    """Whether a line is JSON whose values have the types that are declared."""
    try:
        _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    kinds = {"bigint": int, "int": int, "boolean": bool, "array<bigint>": list[int]}
    fields = [
        (name, kinds.get(kind, Any) | None, None) for name, kind in DDL_FIELD.findall(LINE_DDL)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Line", fields))


def _files_at(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in sorted(path.iterdir()) if _is_shown(file))
    elif path.exists() or _PATTERN.isdisjoint(str(path)):
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
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.rstrip("\n")
            if not re.search(SILENT_LINE, text):
                yield text.removeprefix(DATA_PREFIX)
