"""The two forms of a trace's events: what a ring packs is what a whole trace tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.runtime._trace_forms import Lines, Row, Rows, name_of, rows_of
from txnsim.runtime.trace import TraceLevel, Tracer

ROWS: list[Row] = [
    (7, 0, (), "note", "", {"text": "a"}, None),
    (9, 1, (0,), "note", ("app", 7, 2), {"text": "b", "at": [1, 2]}, 0),
]


def ticking() -> Callable[[], int]:
    ticks: Iterator[int] = count()
    return lambda: next(ticks)


def full(*, ring_bytes: int | None = None) -> Tracer:
    return Tracer(ticking(), level=TraceLevel.FULL, ring_bytes=ring_bytes)


def test_both_forms_make_the_same_lines_of_the_first_events() -> None:
    lines, rows = Lines(None), Rows(None)
    text = lines.kept(ROWS, 0)
    assert lines.lines(text, 0) == text == rows.lines(rows.kept(ROWS, 0), 0)
    assert text.splitlines()[1] == (
        b'{"i":1,"t":9,"n":1,"l":2,"p":[0],"k":"note","tx":"app/7:2","d":{"at":[1,2],"text":"b"}'
        b',"w":0}'
    )


def test_a_batch_of_rows_is_read_without_those_before() -> None:
    rows = Rows(None)
    (_, second) = rows.lines(rows.kept(ROWS, 100), 100).splitlines()
    assert json.loads(second)["l"] == 101, "its cause is of an older batch"
    assert json.loads(second)["i"] == 101


def test_times_count_from_the_start() -> None:
    form = Rows(5_000)
    (line,) = form.lines(form.kept([(7_999, *ROWS[0][1:])], 0), 0).splitlines()
    assert json.loads(line)["t"] == 2


def test_rows_are_smaller_than_lines() -> None:
    rows = ROWS * 100
    assert len(Rows(None).kept(rows, 0)) < 0.6 * len(Lines(None).kept(rows, 0))


def test_a_payload_that_is_put_off_is_made_for_its_row() -> None:
    assert rows_of([(7, 0, (), "note", "", (dict, (("text", "a"),)), None)]) == ROWS[:1]


def test_the_name_of_a_transaction() -> None:
    assert name_of(["a/b", 7, -1]) == "a/b/7:-1"


PAYLOADS = st.dictionaries(
    st.sampled_from(("text", "tp", "error")),
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats()
    | st.lists(st.booleans()) | st.dictionaries(st.text(), st.integers(0, 9)),
)  # fmt: skip
NOTED = st.tuples(
    st.integers(0, 3),
    st.sets(st.integers(0, 60), max_size=3),
    st.just("") | st.text() | st.tuples(st.text(), st.integers(-1, 9), st.integers(-1, 9)),
    PAYLOADS | PAYLOADS.map(lambda data: (dict, tuple(data.items()))),
    st.sampled_from((None, 0, 2)),
    st.booleans(),
)


@pytest.mark.slow
@given(st.lists(NOTED, max_size=40))
def test_what_a_ring_tells_is_what_a_whole_trace_tells_but_for_the_clocks(noted: Any) -> None:
    ring, whole = full(ring_bytes=1 << 20), full()
    for index, (node, wanted, tx, data, importance, is_read) in enumerate(noted):
        for tracer in (ring, whole):
            tracer.emit(
                "note", f"n{node}", parents=tuple(p for p in sorted(wanted) if p < index),
                tx=tx, data=data, importance=importance,
            )  # fmt: skip
        if is_read:
            assert ring.size, "a batch ends here"
    told, read = ([json.loads(line) for line in tracer.lines()] for tracer in (ring, whole))
    clocks: dict[int, int] = {}
    for event in told:
        assert clocks.get(event["n"], 0) < event["l"] <= event["i"] + 1
        assert all(told[parent]["l"] < event["l"] for parent in event["p"])
        clocks[event["n"]] = event["l"]
    assert str([{**event, "l": 0} for event in told]) == str([{**event, "l": 0} for event in read])


def test_a_payload_is_the_one_that_was_noted() -> None:
    """A ring keeps no object that may change before somebody reads."""
    tracer = full(ring_bytes=1 << 20)
    open_ones = ["t-0"]
    tracer.emit("txn.decide", "a", data={"partitions": open_ones})
    assert tracer.size
    open_ones.append("t-1")
    assert [event.d for event in tracer.events()] == [{"partitions": ["t-0"]}]
