"""Queries of Spark's in DuckDB; that both engines find the same is judged in
tests/spark/pipeline/test_trace.py.
"""

from __future__ import annotations

import pytest

from txnsim_spark.embedded import translate_for_duckdb

pytest.importorskip("duckdb", reason="the extra spark is not installed")


def test_what_duckdb_says_otherwise_is_said_so() -> None:
    query = "SELECT last(CASE WHEN x = get(y, 0) THEN z END) IGNORE NULLS OVER w, max_by(`a`, b)"
    assert translate_for_duckdb(query) == (
        "SELECT last_value(CASE WHEN x = get(y, 0) THEN z END IGNORE NULLS) OVER w,"
        ' arg_max_null("a", b)'
    )
    duckdb_sql = translate_for_duckdb(
        "from_json(d, 'struct<`to` bigint, many array<string>, is boolean>')"
    )
    assert (
        duckdb_sql == """from_json(d, '{"to": "BIGINT", "many": ["VARCHAR"], "is": "BOOLEAN"}')"""
    )
