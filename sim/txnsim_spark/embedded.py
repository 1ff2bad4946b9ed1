"""DuckDB in this process instead of Spark, for small data.

Queries are written for Spark; ``translate_for_duckdb`` translates what DuckDB writes differently,
and macros stand for functions that have another name there.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from txnsim_spark.libraries import require_libraries

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

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
_DDL_LITERAL: Final = re.compile(r"'struct<(.*?)>'", re.DOTALL)
DDL_FIELD: Final = re.compile(r"`?(\w+)`? ((?:array|map)<[\w,]+>|\w+)")
"""Matches a column and its type in a schema of Spark's DDL."""
_EXPLODE: Final = re.compile(r"\bexplode\(")
_INTERRUPTED: Final = "Query interrupted"
_NOT_NULL: Final = re.compile(r"\b(first|last)\(((?:[^()]|\([^()]*\))*)\) IGNORE NULLS")


def translate_for_duckdb(query: str) -> str:
    """A query of Spark's, translated for DuckDB."""
    query = _DDL_LITERAL.sub(lambda match: f"'{json_structure(match[1])}'", query)
    query = re.sub(r"\b(max|min)_by\(", r"arg_\1_null(", query)  # FILTER is not for macros
    query = _EXPLODE.sub("unnest(", query)
    return _NOT_NULL.sub(r"\1_value(\2 IGNORE NULLS)", query).replace("`", '"')


class EmbeddedDatabase:
    """A database in this process.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """

    def __init__(self) -> None:
        require_libraries("duckdb")
        import duckdb

        self.connection: DuckDBPyConnection = duckdb.connect()
        self.connection.execute(_MACROS)

    def rows(self, query: str, **values: int) -> list[dict[str, Any]]:
        """The rows of a query written for Spark; ``:name`` stands for a value that is given."""
        for parameter, argument in values.items():
            query = query.replace(f":{parameter}", str(argument))
        cursor = self._carry_out(translate_for_duckdb(query))
        column_names = [column[0] for column in cursor.description or ()]
        with _interruptible():
            return [dict(zip(column_names, row, strict=True)) for row in cursor.fetchall()]

    def _carry_out(self, statement: str) -> DuckDBPyConnection:
        with _interruptible():
            return self.connection.execute(statement)

    def create(self, name: str, query: str, *, is_kept: bool = False) -> None:
        """Create a view of a query written for Spark, or a table, which keeps its rows."""
        relation_kind = "TABLE" if is_kept else "VIEW"
        self._carry_out(f"CREATE {relation_kind} {name} AS {translate_for_duckdb(query)}")

    def create_from_columns(
        self, table_name: str, columns: Mapping[str, Sequence[str | None]]
    ) -> None:
        """Create a table of text columns of the same length. Arrow would import pandas to convert
        Python's strings, which takes longer than to read a small trace.
        """
        selected = ", ".join(
            f"CAST(unnest(${column}) AS VARCHAR) AS {column}" for column in columns
        )
        with _interruptible():
            self.connection.execute(
                f"CREATE TABLE {table_name} AS SELECT {selected}",
                {column: list(texts) for column, texts in columns.items()},
            )

    def write_parquet(self, query: str, path: Path) -> None:
        """Write the rows of a query to a new file.

        Raises:
            OSError: The file can't be written.
        """
        import duckdb

        quoted_path = str(path).replace("'", "''")
        try:
            self._carry_out(
                f"COPY ({translate_for_duckdb(query)}) TO '{quoted_path}' (FORMAT parquet)"
            )
        except duckdb.IOException as error:
            is_full = "No space left on device" in str(error)
            error_number = errno.ENOSPC if is_full else errno.EIO
            raise OSError(error_number, os.strerror(error_number), str(path)) from error

    def keep(self, table_name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Create a table of Arrow rows."""
        import pyarrow as pa

        rows = pa.RecordBatchReader.from_batches(schema, iter(batches))
        self.connection.register("_incoming", rows)
        self._carry_out(f"CREATE TABLE {table_name} AS SELECT * FROM _incoming")
        self.connection.unregister("_incoming")

    def stream(self, table_name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Give a name to Arrow rows that one query reads, once."""
        import pyarrow as pa

        self.connection.register(
            table_name, pa.RecordBatchReader.from_batches(schema, iter(batches))
        )

    def register(self, table_name: str, rows: pa.Table) -> None:
        """Give a name to Arrow rows that queries may read."""
        self.connection.register(table_name, rows)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn Ctrl-C during a query into KeyboardInterrupt: DuckDB raises an error of its own."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise


def json_structure(ddl: str) -> str:
    """Columns in Spark's DDL, as the structure that DuckDB's JSON functions take."""
    field_structures = (
        f'"{column_name}": {_json_type(spark_type)}'
        for column_name, spark_type in DDL_FIELD.findall(ddl)
    )
    return "{" + ", ".join(field_structures) + "}"


def _json_type(spark_type: str) -> str:
    is_array = spark_type.startswith("array<")
    return (
        f'["{duckdb_type_of(spark_type[6:-1])}"]' if is_array else f'"{duckdb_type_of(spark_type)}"'
    )


def duckdb_type_of(spark_type: str) -> str:
    """DuckDB's name for a type of Spark."""
    if spark_type.startswith("array<"):
        return f"{duckdb_type_of(spark_type[6:-1])}[]"
    if spark_type.startswith("map<"):
        return f"MAP({', '.join(map(duckdb_type_of, spark_type[4:-1].split(',')))})"
    return {"string": "VARCHAR"}.get(spark_type, spark_type.upper())
