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

KEY_COLUMNS: Final = ("topic", "partition")
"""Columns by which a read leaves out replicas."""
_PLANNING_SETTINGS: Final = (
    # These would leave out what tables without rows can't add to.
    "SET disabled_optimizers = 'statistics_propagation,empty_result_pullup'"
)
_EQUALITY_FILTER: Final = re.compile(r"\(?(\w+) = (?:'((?:[^']|'')*)'|(\d+))\)?")
"""Matches a filter of a scan that allows only one value."""


class TableScan(msgspec.Struct, frozen=True, kw_only=True):
    """One scan of a table in a query's plan."""

    table: str
    columns: tuple[str, ...]
    value_by_key: Mapping[str, str]
    """Column of ``KEY_COLUMNS`` -> the only value that the scan wants."""


class TableUse(msgspec.Struct, frozen=True, kw_only=True):
    """What all scans of a query read of a table."""

    columns: frozenset[str]
    scan_count: int
    values_by_key: Mapping[str, frozenset[str]]
    """Column of ``KEY_COLUMNS`` -> the wanted values; a column that is missing has no condition."""


def prepare_planning(connection: DuckDBPyConnection) -> None:
    """Make a connection plan as if its empty tables had rows."""
    connection.execute(_PLANNING_SETTINGS)


def table_uses(connection: DuckDBPyConnection, query: str) -> dict[str, TableUse]:
    """Table -> what a query reads of it.

    Args:
        connection: A connection with all tables, without rows (``prepare_planning``).
        query: One statement.

    Raises:
        duckdb.Error: The statement is wrong, or has no plan.
    """
    scans: dict[str, list[TableScan]] = {}
    for _, plan_json in connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall():
        for plan_node in msgspec.json.decode(plan_json, type=list[dict[str, Any]]):
            for scan in _scans_below(plan_node):
                scans.setdefault(scan.table, []).append(scan)
    return {table: _merge_scans(scans_of_table) for table, scans_of_table in scans.items()}


def scans_of_streams(connection: DuckDBPyConnection, query: str) -> int:
    """Number of scans in a query's plan that read streamed Arrow rows, which can be read only
    once.
    """
    return sum(
        _count_stream_scans(plan_node)
        for _, plan_json in connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
        for plan_node in msgspec.json.decode(plan_json, type=list[dict[str, Any]])
    )


def _count_stream_scans(plan_node: Mapping[str, Any]) -> int:
    return ("ARROW_SCAN" in plan_node.get("name", "")) + sum(
        map(_count_stream_scans, plan_node.get("children", ()))
    )


def _merge_scans(scans: Iterable[TableScan]) -> TableUse:
    scan_list = tuple(scans)
    return TableUse(
        columns=frozenset(column for scan in scan_list for column in scan.columns),
        scan_count=len(scan_list),
        values_by_key={
            key_column: frozenset(scan.value_by_key[key_column] for scan in scan_list)
            for key_column in KEY_COLUMNS
            if all(key_column in scan.value_by_key for scan in scan_list)
        },
    )


def _scans_below(plan_node: Mapping[str, Any]) -> Iterator[TableScan]:
    extra_info = plan_node.get("extra_info", {})
    table = extra_info.get("Table") if isinstance(extra_info, dict) else None
    if isinstance(table, str):
        filter_texts = tuple(_lines_of(extra_info.get("Filters")))
        equality_matches = [
            equality_match
            for filter_text in filter_texts
            if (equality_match := _EQUALITY_FILTER.fullmatch(filter_text.strip()))
        ]
        value_by_column = {
            equality_match[1]: (equality_match[2] or "").replace("''", "'") or equality_match[3]
            for equality_match in equality_matches
        }
        filter_words = {
            filter_word
            for filter_text in filter_texts
            for filter_word in re.findall(r"\w+", filter_text)
        }
        yield TableScan(
            table=table.rpartition(".")[2],
            # Words of filters that are no columns are no columns of the table either.
            columns=tuple(
                dict.fromkeys((*_lines_of(extra_info.get("Projections")), *sorted(filter_words)))
            ),
            value_by_key={
                column: wanted_value
                for column, wanted_value in value_by_column.items()
                if column in KEY_COLUMNS and wanted_value
            },
        )
    for child_node in plan_node.get("children", ()):
        yield from _scans_below(child_node)


def _lines_of(node_text: object) -> Iterator[str]:
    match node_text:
        case str():
            yield from node_text.split("\n")
        case list():
            yield from map(str, node_text)
