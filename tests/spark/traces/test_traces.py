"""Traces as tables, without Spark."""

from __future__ import annotations

import re

import pytest

from txnsim.runtime.trace import RunInfo, TraceLevel, Tracer
from txnsim.runtime.trace_kinds import KINDS
from txnsim_spark.traces._files import SILENT_LINE, path_of, run_names
from txnsim_spark.traces._queries import (
    FOREIGN_FILES_QUERY,
    LINE_DDL,
    QUERIES_OVER_EVENTS,
    QUERIES_OVER_LINES,
    RUNS_QUERY,
)
from txnsim_spark.traces.analyses import ANALYSES
from txnsim_spark.traces.schemas import TABLES, view_of
from txnsim_spark.traces.tables import is_export

# What runs are called by their files, and which lines have something to say.


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        ([], []),
        (["x.jsonl"], ["x"]),
        (["/tmp/a/x.jsonl"], ["x"]),
        (["/tmp/a/x.jsonl", "/tmp/a/y.jsonl.gz"], ["x", "y"]),
        (["/tmp/a/x.jsonl", "/tmp/b/x.jsonl"], ["a/x", "b/x"]),
        (["/tmp/a/x.json", "/tmp/a/x.jsonl"], ["x.json", "x.jsonl"]),
        (["/a/x.jsonl", "/b/x.jsonl"], ["a/x", "b/x"]),
        (["file:///tmp/a%20b/TV2+.armed.jsonl"], ["TV2+.armed"]),
        (["s3a://bucket/one/x.jsonl", "s3a://bucket/two/x.jsonl"], ["one/x", "two/x"]),
        (["/tmp/a/.jsonl"], [".jsonl"]),
    ],
)
def test_a_run_is_called_what_tells_its_file_from_others(files: list[str], runs: list[str]) -> None:
    assert run_names(files) == dict(zip(files, runs, strict=True))


def test_a_file_is_named_as_people_write_it() -> None:
    assert path_of("file:///tmp/a%20b/%C3%A4.jsonl") == "/tmp/a b/ä.jsonl"
    assert path_of("s3a://bucket/x.jsonl") == "s3a://bucket/x.jsonl"


@pytest.mark.parametrize(
    ("line", "is_silent"),
    [
        ("", True),
        ("   ", True),
        (": connected", True),
        ("id: 7", True),
        ("event: log.lso", True),
        ("retry: 10", True),
        ('data: {"i":7}', False),
        ('{"i":7}', False),
        ('{"i":7,"t"', False),
        ("id", False),
    ],
)
def test_what_an_event_stream_says_between_events_is_no_damage(line: str, is_silent: bool) -> None:
    assert bool(re.search(SILENT_LINE, line)) is is_silent


# The queries as text; what they find is judged in tests/spark/pipeline/test_trace.py.


def test_a_query_reads_only_what_was_made_before_it() -> None:
    queries_made = {"files", "lines"}
    for name, query in {
        "others": FOREIGN_FILES_QUERY,
        **QUERIES_OVER_LINES,
        **QUERIES_OVER_EVENTS,
        "runs": RUNS_QUERY,
    }.items():
        read = set(re.findall(r"\btrace_(\w+)", query))
        assert read <= queries_made, name
        queries_made.add(name)


@pytest.mark.parametrize("query_name", QUERIES_OVER_EVENTS)
def test_a_query_names_only_kinds_that_exist(query_name: str) -> None:
    named_kinds = set(
        re.findall(
            r"'((?:txn|log|pid|marker|verify|msg|fault)\.\w+)'", QUERIES_OVER_EVENTS[query_name]
        )
    )
    assert named_kinds <= set(KINDS)


def test_a_line_has_no_key_that_is_not_read() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, run_info=RunInfo(seed=1))
    tracer.emit("note", "client/app", tx="app/0:0", data={"text": "x"})
    lines: list[bytes] = []
    tracer.export(lines.append)
    keys = set(re.findall(r'"(\w+)":', re.sub(r'"d":\{.*?\}', '"d":0', b"".join(lines).decode())))
    columns = {column.split()[0].strip("`") for column in LINE_DDL.split(", ")}
    assert keys <= columns


# The analyses as text; what they find is judged in tests/spark/pipeline/test_trace.py.


QUERIES = {analysis_name: analysis.sql for analysis_name, analysis in ANALYSES.items()}


@pytest.mark.parametrize("query_name", ANALYSES)
def test_an_analysis_is_plain_sql_over_one_table_of_an_export(query_name: str) -> None:
    (view,) = set(re.findall(r"FROM (trace_\w+)", QUERIES[query_name]))
    assert view in {view_of(table) for table in TABLES}
    assert (
        "GROUPING SETS ((), (transaction_version), (transaction_version, transactional_id))"
        in (QUERIES[query_name])
    )


@pytest.mark.parametrize("analysis_name", ANALYSES)
def test_ids_are_ranked_by_a_column_that_is_there(analysis_name: str) -> None:
    assert f" AS {ANALYSES[analysis_name].worst_by}" in QUERIES[analysis_name]


@pytest.mark.parametrize("query_name", ANALYSES)
def test_an_analysis_has_percentiles(query_name: str) -> None:
    assert {"p50", "p99", "max"} <= set(re.findall(r"_ms_(p50|p99|max)\b", QUERIES[query_name]))


# The tables of a trace, as they are documented.


@pytest.mark.parametrize("name", TABLES)
def test_every_column_has_a_name_of_its_own_and_a_meaning(name: str) -> None:
    table = TABLES[name]
    assert len(set(table.names)) == len(table.columns)
    for column in table.columns:
        assert column.meaning.endswith("."), column.name
        assert not column.meaning[0].islower(), column.name


def test_every_table_has_a_query() -> None:
    assert set(TABLES) == {"runs", *QUERIES_OVER_LINES, *QUERIES_OVER_EVENTS}


def test_every_table_begins_with_the_run() -> None:
    assert {table.names[0] for table in TABLES.values()} == {"run"}


def test_views_have_names_of_their_own() -> None:
    assert view_of("transactions") == "trace_transactions"


# What of traces as tables needs no Spark; the rest is judged in tests/spark/pipeline/test_trace.py.


def test_an_export_is_known_by_its_tables() -> None:
    assert is_export([*TABLES, ".crc"])
    assert not is_export(["events"])
    assert not is_export(["level-0.jsonl"])
