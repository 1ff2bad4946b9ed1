"""Runs a query of Spark over log directories and reads only what it needs: its filters on topics,
partitions, offsets and times become options of ``kafka_log``, and only its columns are made.

Spark asks a source in Python for whole rows, and up to 4.3 keeps filters that such a source takes
for the next query (docs/contributing/spark-pushed-filters.md). So the query is planned once over
whole tables, which reads nothing; what the optimized plan wants of each table is taken together
over all of its scans; and the query is planned anew over tables that are narrowed so. Filters stay
in the query, so a bound that leaves out too little changes nothing. A plan that is not understood
is not narrowed. ``query_plan`` does the same in DuckDB.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim_spark.options import (
    END_TIMESTAMP,
    ENDING_OFFSETS,
    FORMAT,
    START_TIMESTAMP,
    STARTING_OFFSETS,
    tables_with,
)
from txnsim_spark.scan.segments import replicas_in
from txnsim_spark.schemas import OFFSET_COLUMNS, TABLES, TIME_COLUMNS
from txnsim_spark.stores.uris import is_in_object_store
from txnsim_spark.views import TABLE_PREFIX, VIEWS, create_views, log_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
PARTITIONS_MAX: Final = 1_000
"""More partitions than these get no bounds of offsets."""
_LOWER: Final = {"GreaterThan", "GreaterThanOrEqual"}
_UPPER: Final = {"LessThan", "LessThanOrEqual"}
_MIRRORED: Final = {
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}


class RowBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a scan wants of a table's rows; None for no bound."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_min: int | None = None
    offset_max: int | None = None
    time_min_ms: int | None = None
    time_max_ms: int | None = None

    def intersection(self, other_bounds: RowBounds) -> RowBounds:
        """The bounds of rows that are within both."""
        return RowBounds(
            topics=_common_values(self.topics, other_bounds.topics),
            partitions=_common_values(self.partitions, other_bounds.partitions),
            offset_min=_largest_bound(self.offset_min, other_bounds.offset_min),
            offset_max=_smallest_bound(self.offset_max, other_bounds.offset_max),
            time_min_ms=_largest_bound(self.time_min_ms, other_bounds.time_min_ms),
            time_max_ms=_smallest_bound(self.time_max_ms, other_bounds.time_max_ms),
        )

    def union(self, other_bounds: RowBounds) -> RowBounds:
        """The bounds of rows that are within one of them, or both."""
        return RowBounds(
            topics=_united_values(self.topics, other_bounds.topics),
            partitions=_united_values(self.partitions, other_bounds.partitions),
            offset_min=_if_both(min, self.offset_min, other_bounds.offset_min),
            offset_max=_if_both(max, self.offset_max, other_bounds.offset_max),
            time_min_ms=_if_both(min, self.time_min_ms, other_bounds.time_min_ms),
            time_max_ms=_if_both(max, self.time_max_ms, other_bounds.time_max_ms),
        )


class TableNeed(msgspec.Struct, frozen=True, kw_only=True):
    """What all scans of a query want of a table."""

    columns: frozenset[str] | None
    """None for all of them."""
    bounds: RowBounds

    def union(self, other_need: TableNeed) -> TableNeed:
        return TableNeed(
            columns=_united_values(self.columns, other_need.columns),
            bounds=self.bounds.union(other_need.bounds),
        )


def query_logs(
    spark: SparkSession,
    query: str,
    *paths: str,
    on_narrowing: Callable[[str], object] = _log.info,
    **options: str,
) -> DataFrame:
    """Run a query over log directories, and read only what it needs.

    The tables and views that the query names are created, whole, as ``register_log_views`` does.

    Args:
        spark: The session. One of Spark Connect shows no plan, so it reads whole tables.
        query: One statement, over ``kafka_NAME`` and the views.
        paths: Log directories, folders of them, or replicas' folders.
        on_narrowing: Called with a line about each table that is not read whole; unless given, it
            is logged at INFO.
        options: Options of the data source; each applies to the tables that have it.

    Returns:
        The rows, as ``spark.sql`` gives them over whole tables.
    """
    table_names, view_names = _names_in(query)
    query_by_view = {name: VIEWS[name] for name in VIEWS if name in view_names}
    whole_tables = {table: log_table(spark, table, paths, options) for table in table_names}
    create_views(whole_tables, spark, query_by_view)
    query_frame = spark.sql(query)
    narrowed_tables = {}
    for table, table_need in _table_needs(query_frame).items():
        bounding_options = _options_of(table, table_need.bounds, paths, options)
        if bounding_options or table_need.columns is not None:
            on_narrowing(_narrowing_text(table, table_need, bounding_options))
            narrowed_tables[table] = log_table(
                spark, table, paths, {**options, **bounding_options}, table_need.columns
            )
    if not narrowed_tables:
        return query_frame
    create_views(narrowed_tables, spark, query_by_view)
    query_frame = spark.sql(query)
    create_views(whole_tables, spark, query_by_view)  # later queries find whole tables
    return query_frame


def _names_in(query: str) -> tuple[list[str], set[str]]:
    """The tables and the views that a query names, or that views do which it names."""
    found_names: set[str] = set()
    view_queries = [query]
    while view_queries:
        query_words = set(re.findall(r"\w+", view_queries.pop().lower()))
        new_views = (query_words & VIEWS.keys()) - found_names
        found_names |= query_words
        view_queries += [VIEWS[name] for name in new_views]
    return [
        table for table in TABLES if f"{TABLE_PREFIX}{table}" in found_names
    ], found_names & VIEWS.keys()


def _narrowing_text(table: str, table_need: TableNeed, options: Mapping[str, str]) -> str:
    columns = (
        "all columns"
        if table_need.columns is None
        else ", ".join(sorted(table_need.columns)) or "counts"
    )
    options_text = "".join(f"; {name}={value}" for name, value in options.items())
    return f"{TABLE_PREFIX}{table}: reads {columns}{options_text}"


# Plans


def _table_needs(rows: DataFrame) -> dict[str, TableNeed]:
    """Table -> what the optimized plan wants of it; empty where the plan can't be seen."""
    java_rows = getattr(rows, "_jdf", None)
    if java_rows is None:
        return {}
    need_by_table: dict[str, TableNeed] = {}
    for table, table_need in _scans_below(java_rows.queryExecution().optimizedPlan(), ()):
        need_by_table[table] = (
            table_need if table not in need_by_table else need_by_table[table].union(table_need)
        )
    return need_by_table


def _scans_below(node: Any, nodes_above: Sequence[Any]) -> Iterator[tuple[str, TableNeed]]:
    """The scans of ``kafka_log`` in a plan, and in the plans of its subqueries.

    Args:
        node: A node of the plan.
        nodes_above: The nodes above it, up to and with the first one that is no filter.
    """
    kind = _kind_of(node)
    if kind == "DataSourceV2ScanRelation":
        relation = node.relation()
        if relation.table().name() == FORMAT:
            table = relation.options().get("table") or "batches"
            yield table, _need_of_scan(table, nodes_above)
    for subquery in _items_of(node.subqueries()):
        yield from _scans_below(subquery, ())
    above_children = (*nodes_above, node) if kind == "Filter" else (node,)
    for child in _items_of(node.children()):
        yield from _scans_below(child, above_children)


def _need_of_scan(table: str, nodes_above: Sequence[Any]) -> TableNeed:
    """What a scan is wanted for, by the filters above it and the node above these."""
    bounds = RowBounds()
    for node in nodes_above:
        if _kind_of(node) == "Filter":
            bounds = bounds.intersection(_bounds_of(table, node.condition()))
    columns: frozenset[str] | None = None
    if nodes_above and _kind_of(nodes_above[0]) in ("Project", "Aggregate"):
        needed_columns = {
            attribute.name()
            for node in nodes_above
            for attribute in _items_of(node.references().toSeq())
        }
        columns = frozenset(needed_columns) & {column.name for column in TABLES[table].columns}
    return TableNeed(columns=columns, bounds=bounds)


def _bounds_of(table: str, condition: Any) -> RowBounds:
    """The bounds that a condition implies."""
    kind = _kind_of(condition)
    if kind == "And":
        return _bounds_of(table, condition.left()).intersection(
            _bounds_of(table, condition.right())
        )
    if kind == "In":
        literal_values = [_literal_value(item) for item in _items_of(condition.list())]
        column_name = _column_name(condition.value())
        return (
            _bounds_of_values(column_name, literal_values)
            if None not in literal_values
            else RowBounds()
        )
    if kind == "InSet":
        literal_values = [_plain_value(item) for item in _items_of(condition.hset().toSeq())]
        return _bounds_of_values(_column_name(condition.child()), literal_values)
    if kind not in ("EqualTo", *_MIRRORED):
        return RowBounds()
    column_name, value = _column_name(condition.left()), _literal_value(condition.right())
    if column_name is None:
        column_name, value = _column_name(condition.right()), _literal_value(condition.left())
        kind = _MIRRORED.get(kind, kind)
    if value is None:
        return RowBounds()
    if kind == "EqualTo":
        return _bounds_of_values(column_name, [value]).intersection(
            _bounds_of_number(table, column_name, kind, value)
        )
    return _bounds_of_number(table, column_name, kind, value)


def _bounds_of_values(name: str | None, values: Sequence[object]) -> RowBounds:
    match name:
        case "topic":
            return RowBounds(topics=frozenset(map(str, values)))
        case "partition":
            return RowBounds(partitions=frozenset(int(str(value)) for value in values))
    return RowBounds()


def _bounds_of_number(table: str, name: str | None, kind: str, value: object) -> RowBounds:
    """The bounds of a comparison with a number; a time is in milliseconds or microseconds."""
    if not isinstance(value, int):
        return RowBounds()
    is_lower_bound, is_upper_bound = kind in {*_LOWER, "EqualTo"}, kind in {*_UPPER, "EqualTo"}
    if name in OFFSET_COLUMNS.get(table, ()):
        return RowBounds(
            offset_min=value if is_lower_bound else None,
            offset_max=value if is_upper_bound else None,
        )
    time_column = TIME_COLUMNS.get(table)
    if time_column is None or name not in (time_column, time_column.removesuffix("_ms")):
        return RowBounds()
    time_ms = value if name == time_column else value // 1_000
    return RowBounds(
        time_min_ms=time_ms if is_lower_bound else None,
        time_max_ms=time_ms if is_upper_bound else None,
    )


def _kind_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items_of(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _column_name(expression: Any) -> str | None:
    return str(expression.name()) if _kind_of(expression) == "AttributeReference" else None


def _literal_value(expression: Any) -> object | None:
    """The value of a literal; None for other expressions, and for null."""
    return _plain_value(expression.value()) if _kind_of(expression) == "Literal" else None


def _plain_value(value: Any) -> object | None:
    return (
        value if value is None or isinstance(value, (int, float, bool)) else str(value.toString())
    )


# Options


def _options_of(
    table: str, bounds: RowBounds, paths: Iterable[str], given_options: Mapping[str, str]
) -> dict[str, str]:
    """The options that leave out what no scan wants. Names that no directory has are left to the
    filters: as an option they would be refused.
    """
    options: dict[str, str] = {}
    if bounds.time_min_ms is not None:
        options[START_TIMESTAMP] = str(bounds.time_min_ms)
    if bounds.time_max_ms is not None:
        options[END_TIMESTAMP] = str(bounds.time_max_ms + 1)
    local_paths = [Path(path) for path in paths]
    if not any(is_in_object_store(path) for path in paths):
        options |= _options_of_places(bounds, local_paths)
    given_option_names = {name.replace("_", "").lower() for name in given_options}
    return {
        name: value
        for name, value in options.items()
        if table in tables_with(name) and name.lower() not in given_option_names
    }


def _options_of_places(bounds: RowBounds, paths: Sequence[Path]) -> dict[str, str]:
    has_names = bounds.topics is not None or bounds.partitions is not None
    has_offsets = bounds.offset_min is not None or bounds.offset_max is not None
    if not has_names and not has_offsets:
        return {}
    topic_partitions = {
        (replica.topic, replica.partition)
        for replica in replicas_in(paths)
        if (bounds.topics is None or replica.topic in bounds.topics)
        and (bounds.partitions is None or replica.partition in bounds.partitions)
    }
    if not topic_partitions:
        return {}
    options: dict[str, str] = {}
    if bounds.topics is not None:
        options["topics"] = ",".join(sorted({topic for topic, _ in topic_partitions}))
    if bounds.partitions is not None:
        options["partitions"] = ",".join(
            str(number) for number in sorted({number for _, number in topic_partitions})
        )
    if len(topic_partitions) > PARTITIONS_MAX:
        return options
    for name, offset in (
        (STARTING_OFFSETS, bounds.offset_min),
        (ENDING_OFFSETS, None if bounds.offset_max is None else bounds.offset_max + 1),
    ):
        if offset is not None and offset >= 0:
            offset_by_topic_partition: defaultdict[str, dict[str, int]] = defaultdict(dict)
            for topic, number in sorted(topic_partitions):
                offset_by_topic_partition[topic][str(number)] = offset
            options[name] = json.dumps(offset_by_topic_partition)
    return options


def _common_values(
    left_values: frozenset[Any] | None, right_values: frozenset[Any] | None
) -> frozenset[Any] | None:
    if left_values is None or right_values is None:
        return right_values if left_values is None else left_values
    return left_values & right_values


def _united_values(
    left_values: frozenset[Any] | None, right_values: frozenset[Any] | None
) -> frozenset[Any] | None:
    return None if left_values is None or right_values is None else left_values | right_values


def _largest_bound(left_bound: int | None, right_bound: int | None) -> int | None:
    return max((bound for bound in (left_bound, right_bound) if bound is not None), default=None)


def _smallest_bound(left_bound: int | None, right_bound: int | None) -> int | None:
    return min((bound for bound in (left_bound, right_bound) if bound is not None), default=None)


def _if_both(
    choose_bound: Callable[[int, int], int], left_bound: int | None, right_bound: int | None
) -> int | None:
    return (
        None if left_bound is None or right_bound is None else choose_bound(left_bound, right_bound)
    )
