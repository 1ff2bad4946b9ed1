"""The analyses as text; what they find is judged in tests/spark/pipeline/test_trace.py."""

from __future__ import annotations

import re

import pytest

from txnsim_spark.traces.analyses import ANALYSES
from txnsim_spark.traces.schemas import TABLES, view_of

QUERIES = {name: analysis.sql for name, analysis in ANALYSES.items()}


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_is_plain_sql_over_one_table_of_an_export(name: str) -> None:
    (view,) = set(re.findall(r"FROM (trace_\w+)", QUERIES[name]))
    assert view in {view_of(table) for table in TABLES}
    assert (
        "GROUPING SETS ((), (transaction_version), (transaction_version, transactional_id))"
        in (QUERIES[name])
    )


@pytest.mark.parametrize("name", ANALYSES)
def test_ids_are_ranked_by_a_column_that_is_there(name: str) -> None:
    assert f" AS {ANALYSES[name].worst_by}" in QUERIES[name]


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_has_percentiles(name: str) -> None:
    assert {"p50", "p99", "max"} <= set(re.findall(r"_ms_(p50|p99|max)\b", QUERIES[name]))
