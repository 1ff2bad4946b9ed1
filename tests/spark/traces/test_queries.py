"""The queries as text; what they find is judged in tests/spark/pipeline/test_trace.py."""

from __future__ import annotations

import re

import pytest

from txnsim.runtime.trace import RunInfo, TraceLevel, Tracer
from txnsim.runtime.trace_kinds import KINDS
from txnsim_spark.traces._queries import LINE_DDL, OF_EVENTS, OF_LINES, OTHERS, RUNS


def test_a_query_reads_only_what_was_made_before_it() -> None:
    made = {"files", "lines"}
    for name, query in {"others": OTHERS, **OF_LINES, **OF_EVENTS, "runs": RUNS}.items():
        read = set(re.findall(r"\btrace_(\w+)", query))
        assert read <= made, name
        made.add(name)


@pytest.mark.parametrize("name", OF_EVENTS)
def test_a_query_names_only_kinds_that_exist(name: str) -> None:
    named = set(re.findall(r"'((?:txn|log|pid|marker|verify|msg|fault)\.\w+)'", OF_EVENTS[name]))
    assert named <= set(KINDS)


def test_a_line_has_no_key_that_is_not_read() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, run=RunInfo(seed=1))
    tracer.emit("note", "client/app", tx="app/0:0", data={"text": "x"})
    lines: list[bytes] = []
    tracer.export(lines.append)
    keys = set(re.findall(r'"(\w+)":', re.sub(r'"d":\{.*?\}', '"d":0', b"".join(lines).decode())))
    columns = {column.split()[0].strip("`") for column in LINE_DDL.split(", ")}
    assert keys <= columns
