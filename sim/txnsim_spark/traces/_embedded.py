"""Traces as tables without a JVM: the same queries, in DuckDB, for what one process reads at once.

A query is written for Spark (``_queries``, ``analyses``). ``for_duckdb`` says the few things that
DuckDB says otherwise; functions that have another name there are macros.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from txnsim_spark.traces._files import DATA_PREFIX, SILENT_LINE, run_names
from txnsim_spark.traces._queries import LINE_DDL, OF_EVENTS, OF_LINES, OTHERS, RUNS
from txnsim_spark.traces.schemas import TABLES, view_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BYTES_MAX: Final = 64 << 20
"""More is Spark's."""
_MACROS: Final = """
CREATE MACRO get(many, place) AS many[place + 1];
CREATE MACRO size(many) AS len(many);
CREATE MACRO startswith(text, start) AS starts_with(text, start);
CREATE MACRO regexp_like(text, pattern) AS regexp_matches(text, pattern);
CREATE MACRO percentile_approx(value, share, accuracy) AS quantile_disc(value, share);
CREATE MACRO collect_set(value) AS list(DISTINCT value) FILTER (value IS NOT NULL);
CREATE MACRO array_join(many, between) AS coalesce(array_to_string(many, between), '');
SET default_null_order = 'nulls_first_on_asc_last_on_desc';
SET TimeZone = 'UTC';
"""
_DDL: Final = re.compile(r"'struct<(.*?)>'", re.DOTALL)
_FIELD: Final = re.compile(r"`?(\w+)`? ((?:array|map)<[\w,]+>|\w+)")
_NOT_NULL: Final = re.compile(r"\b(first|last)\(((?:[^()]|\([^()]*\))*)\) IGNORE NULLS")
_PATTERN: Final = frozenset("*?[")


def for_duckdb(query: str) -> str:
    """A query of Spark's as DuckDB takes it."""
    query = _DDL.sub(lambda found: f"'{_structure(found[1])}'", query)
    query = re.sub(r"\b(max|min)_by\(", r"arg_\1_null(", query)  # FILTER is not for macros
    return _NOT_NULL.sub(r"\1_value(\2 IGNORE NULLS)", query).replace("`", '"')


def small_files(paths: Sequence[str]) -> tuple[Path, ...] | None:
    """The files of this machine that traces are in; None where Spark has to read them: they are
    elsewhere, they are many, or DuckDB is not installed.
    """
    if find_spec("duckdb") is None:
        return None
    places = [unquote(one).removeprefix("file://") for one in paths]
    if any(re.match(r"[a-zA-Z][\w+.-]*:/", one) for one in places):
        return None
    files = tuple(file for place in places for file in _files_at(Path(place)))
    is_plain = all(file.suffix in ("", ".gz") or file.suffix != ".zst" for file in files)
    is_small = sum(file.stat().st_size for file in files) <= BYTES_MAX
    return files if is_plain and is_small else None


class Embedded:
    """A database in this process, with the views of traces."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    @classmethod
    def started(cls) -> Embedded:
        """An empty one."""
        import duckdb

        connection = duckdb.connect()
        connection.execute(_MACROS)
        return cls(connection)

    def rows(self, query: str, **values: int) -> list[dict[str, Any]]:
        """What a query of Spark's finds; a value stands for ``:name``."""
        for name, value in values.items():
            query = query.replace(f":{name}", str(value))
        found = self._connection.execute(for_duckdb(query))
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def register_export(self, directory: Path) -> None:
        """The tables of an export, as views."""
        for name, table in TABLES.items():
            if any(directory.glob(f"{name}/**/*.parquet")):
                files = f"{directory}/{name}/**/*.parquet".replace("'", "''")
                source = f"read_parquet('{files}', hive_partitioning = true)"
            else:  # Spark writes no file where there is no row
                columns = (f'NULL AS "{column}"' for column in table.names)
                source = f"(SELECT {', '.join(columns)} WHERE false)"
            self._make("VIEW", name, source)

    def register_traces(self, files: Sequence[Path]) -> str | None:
        """The tables of traces, made now; the name of a file that holds none, where one is."""
        import pyarrow as pa

        runs = run_names([str(file) for file in files])
        names = pa.table({"run": list(runs.values()), "file": list(runs)})
        lines = [
            {"run": run, "file": file, "value": line, "misfit": None if _fits(line) else line}
            for file, run in runs.items()
            for line in _lines_of(Path(file))
        ]
        text = pa.Table.from_pylist(lines, pa.schema((one, pa.string()) for one in _LINE))
        self._connection.register(view_of("files"), names)
        self._connection.register("trace_text", text)
        structure = _structure(LINE_DDL.removesuffix(", misfit string"))
        self._connection.execute(
            f"CREATE TABLE {view_of('lines')} AS SELECT run, file, value, struct_insert("
            f" CASE WHEN json_valid(value) THEN json_transform(value, '{structure}') END,"
            " misfit := misfit) AS line FROM trace_text"
        )
        others = self.rows(OTHERS)
        if others:
            return str(others[0]["file"])
        for name, query in {**OF_LINES, **OF_EVENTS, "runs": RUNS}.items():
            self._make("TABLE", name, f"({for_duckdb(query)})")
        return None

    def _make(self, kind: str, name: str, source: str) -> None:
        columns = ", ".join(
            f'CAST("{column.name}" AS {_type(column.type)}) AS "{column.name}"'
            for column in TABLES[name].columns
        )
        self._connection.execute(f"CREATE {kind} {view_of(name)} AS SELECT {columns} FROM {source}")


_LINE: Final = ("run", "file", "value", "misfit")


def _fits(line: str) -> bool:
    """Whether a line is JSON whose values have the types that are declared."""
    try:
        _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    kinds = {"bigint": int, "int": int, "boolean": bool, "array<bigint>": list[int]}
    fields = [(name, kinds.get(kind, Any) | None, None) for name, kind in _FIELD.findall(LINE_DDL)]
    return msgspec.json.Decoder(msgspec.defstruct("Line", fields))


def _files_at(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from (one for one in sorted(place.iterdir()) if _is_shown(one))
    elif place.exists() or _PATTERN.isdisjoint(str(place)):
        yield from (place,) if place.is_file() else ()
    else:
        yield from (one for one in sorted(Path(place.anchor).glob(_below(place))) if one.is_file())


def _below(place: Path) -> str:
    return str(place.relative_to(place.anchor)) if place.anchor else str(place)


def _is_shown(file: Path) -> bool:
    """Whether Spark would read it, too."""
    return file.is_file() and file.name[0] not in "._"


def _lines_of(file: Path) -> Iterator[str]:
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.rstrip("\n")
            if not re.search(SILENT_LINE, text):
                yield text.removeprefix(DATA_PREFIX)


def _structure(ddl: str) -> str:
    """Columns as Spark declares them, as DuckDB's functions of JSON take them."""
    fields = (f'"{name}": {_json_type(kind)}' for name, kind in _FIELD.findall(ddl))
    return "{" + ", ".join(fields) + "}"


def _json_type(kind: str) -> str:
    is_array = kind.startswith("array<")
    return f'["{_type(kind[6:-1])}"]' if is_array else f'"{_type(kind)}"'


def _type(kind: str) -> str:
    if kind.startswith("array<"):
        return f"{_type(kind[6:-1])}[]"
    if kind.startswith("map<"):
        return f"MAP({', '.join(map(_type, kind[4:-1].split(',')))})"
    return {"string": "VARCHAR"}.get(kind, kind.upper())
