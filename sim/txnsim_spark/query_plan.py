"""Finds what a DuckDB query reads of the tables: which columns, how often, of which topics and
partitions. DuckDB plans the query over tables without rows, so nothing is read for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KEYS: Final = ("topic", "partition")
"""Columns by which a read leaves out replicas."""
_SETTINGS: Final = (
    # These would leave out what tables without rows can't add to.
    "SET disabled_optimizers = 'statistics_propagation,empty_result_pullup'"
)
_EQUAL: Final = re.compile(r"\(?(\w+) = (?:'((?:[^']|'')*)'|(\d+))\)?")
"""Matches a filter of a scan that allows only one value."""


class TableScan(msgspec.Struct, frozen=True, kw_only=True):
    """One scan of a table in a query's plan."""

    table: str
    columns: tuple[str, ...]
    keys: Mapping[str, str]
    """Column of ``KEYS`` -> the only value that the scan wants."""


class TableUse(msgspec.Struct, frozen=True, kw_only=True):
    """What all scans of a query read of a table."""

    columns: frozenset[str]
    scans: int
    keys: Mapping[str, frozenset[str]]
    """Column of ``KEYS`` -> the wanted values; a column that is missing has no condition."""


def prepare_planning(connection: DuckDBPyConnection) -> None:
    """Make a connection plan as if its empty tables had rows."""
    connection.execute(_SETTINGS)


def uses_of(connection: DuckDBPyConnection, query: str) -> dict[str, TableUse]:
    """Table -> what a query reads of it.

    Args:
        connection: A connection with all tables, without rows (``prepare_planning``).
        query: One statement.

    Raises:
        duckdb.Error: The statement is wrong, or has no plan.
    """
    scans: dict[str, list[TableScan]] = {}
    for _, plan in connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall():
        for node in msgspec.json.decode(plan, type=list[dict[str, Any]]):
            for scan in _scans(node):
                scans.setdefault(scan.table, []).append(scan)
    return {table: _together(several) for table, several in scans.items()}


def scans_of_streams(connection: DuckDBPyConnection, query: str) -> int:
    """Number of scans in a query's plan that read streamed Arrow rows, which can be read only
    once.
    """
    return sum(
        _streams(node)
        for _, plan in connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
        for node in msgspec.json.decode(plan, type=list[dict[str, Any]])
    )


def _streams(node: Mapping[str, Any]) -> int:
    return ("ARROW_SCAN" in node.get("name", "")) + sum(map(_streams, node.get("children", ())))


def _together(scans: Iterable[TableScan]) -> TableUse:
    several = tuple(scans)
    return TableUse(
        columns=frozenset(column for scan in several for column in scan.columns),
        scans=len(several),
        keys={
            key: frozenset(scan.keys[key] for scan in several)
            for key in KEYS
            if all(key in scan.keys for scan in several)
        },
    )


def _scans(node: Mapping[str, Any]) -> Iterator[TableScan]:
    extra_info = node.get("extra_info", {})
    table = extra_info.get("Table") if isinstance(extra_info, dict) else None
    if isinstance(table, str):
        filters = tuple(_texts(extra_info.get("Filters")))
        equal = [match for text in filters if (match := _EQUAL.fullmatch(text.strip()))]
        values = {match[1]: (match[2] or "").replace("''", "'") or match[3] for match in equal}
        words = {word for text in filters for word in re.findall(r"\w+", text)}
        yield TableScan(
            table=table.rpartition(".")[2],
            # Words of filters that are no columns are no columns of the table either.
            columns=tuple(dict.fromkeys((*_texts(extra_info.get("Projections")), *sorted(words)))),
            keys={key: value for key, value in values.items() if key in KEYS and value},
        )
    for below in node.get("children", ()):
        yield from _scans(below)


def _texts(node_text: object) -> Iterator[str]:
    match node_text:
        case str():
            yield from node_text.split("\n")
        case list():
            yield from map(str, node_text)
