"""Events of a trace in their forms, kinds and rings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.runtime._trace_encodings import Row, TraceLines, TraceRows, name_of, rows_of
from txnsim.runtime.trace import (
    BATCH_OVERHEAD,
    CARRIED_SHARE,
    CHUNK_BYTES,
    OVERDUE_SHARE,
    TraceLevel,
    Tracer,
    TraceRing,
    lives_of,
)
from txnsim.runtime.trace_kinds import KINDS, PEER_POLLS, PEER_ROUTINE
from txnsim.wire.apis import APIS

# What is kept of a trace when there is too much of it.


_FILLER = "x" * 1_000
"""Makes a line of some kilobyte: 64 of them fill a chunk."""


class Writer:
    """Writes lines into a ring, one at a time."""

    def __init__(self, bytes_max: int | None) -> None:
        self.ring = TraceRing(bytes_max, TraceLines(None))

    def write(
        self, kind: str = "note", *, tx: str = "", is_opening: bool = False, **data: str
    ) -> int:
        index = self.ring.next
        event = {"i": index, "t": 0, "n": 0, "l": 1, "p": [], "k": kind}
        if tx:
            event["tx"] = tx
        event["d"] = {**data, "text": _FILLER}
        row: Row = (0, 0, (), kind, tx, event["d"], None)
        text = msgspec.json.encode(event) + b"\n"
        self.ring.add(text, 1, lives_of([row]), is_opening=is_opening)
        return index

    def fill(self, event_count: int) -> None:
        for _ in range(event_count):
            self.write()

    def kept(self, from_index: int = 0) -> list[int]:
        return [json.loads(line)["i"] for line in self.ring.lines(from_index)]


def test_without_a_bound_everything_is_kept() -> None:
    writer = Writer(None)
    writer.fill(300)
    assert writer.kept() == list(range(300))
    assert writer.kept(299) == [299]
    assert writer.kept(300) == []
    assert b"".join(writer.ring.texts()).count(b"\n") == 300
    assert len(list(writer.ring.texts())) > 1


def test_the_bound_is_of_bytes() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    writer.fill(1_000)
    assert 3 * CHUNK_BYTES < writer.ring.size <= 4 * CHUNK_BYTES
    text = b"".join(writer.ring.texts())
    without_sets = len(text) + text.count(b"\n") * BATCH_OVERHEAD
    assert 0.98 * writer.ring.size < without_sets < writer.ring.size
    assert writer.kept() == list(range(writer.ring.first, 1_000))


def test_events_of_a_transaction_that_has_not_ended_are_carried_along() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    ended_events = [
        writer.write("verify.ask", tx="done/1:0"),
        writer.write("txn.complete", tx="done/1:0", state="CompleteCommit"),
    ]
    open_ones = [
        writer.write("txn.complete", tx="open/2:0", state="Empty"),
        writer.write("verify.ask", tx="open/2:0"),
        writer.write("txn.complete", tx="open/2:0", state="Ongoing"),
        writer.write("txn.complete", tx="open/2:1", state="PrepareCommit"),
    ][1:]
    writer.fill(1_000)
    assert writer.ring.first > max(open_ones)
    assert set(ended_events).isdisjoint(writer.kept())
    assert writer.kept() == [*open_ones, *range(writer.ring.first, writer.ring.next)]
    assert writer.kept(open_ones[1])[:2] == open_ones[1:]
    assert next(writer.ring.texts()).count(b"\n") == len(open_ones)
    writer.write("txn.complete", tx="open/2:1", state="CompleteCommit")
    writer.fill(1_000)
    assert writer.kept()[0] == writer.ring.first


def test_names_in_payloads_and_names_with_slashes_differ() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    first_line = writer.write("verify.ask", tx="a/b/1:0", reason='as "tx":"z/9:9" said')
    second_number = writer.write("verify.ask", tx="a/c/2:0")
    quoted = writer.write("verify.ask", tx='"quoted"/3:0')
    event = {"i": writer.ring.next, "k": "snapshot", "d": {"transactions": [{"tx": "a/b/1:0"}]}}
    writer.ring.add(msgspec.json.encode(event) + b"\n", 1)
    writer.write("txn.complete", tx="a/c/2:0", state="CompleteAbort")
    writer.fill(1_000)
    assert writer.kept()[:3] == [first_line, quoted, writer.ring.first]
    assert second_number < quoted


def test_what_is_carried_along_is_bounded_too_and_the_oldest_goes() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    for id_number in range(200):
        writer.write("log.append", tx=f"app-{id_number}/1:0")
    writer.fill(1_000)
    carried = writer.kept()[: -len(writer.kept(writer.ring.first))]
    assert carried[-1] == 199
    assert carried == list(range(carried[0], 200)), "the newest of them"
    assert len(next(writer.ring.texts())) * CARRIED_SHARE <= 4 * CHUNK_BYTES < writer.ring.size * 2


def test_what_is_left_begins_with_a_snapshot() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    snapshots = []
    for _ in range(20):
        snapshots.append(writer.write("snapshot", is_opening=True))
        writer.fill(50)
    assert writer.ring.first in snapshots[1:]
    assert writer.ring.size <= 4 * CHUNK_BYTES


@pytest.mark.parametrize("is_opening", [True, False])
def test_a_snapshot_that_does_not_come_is_not_waited_for_without_end(is_opening: bool) -> None:
    writer = Writer(4 * CHUNK_BYTES)
    most_bytes = 0
    writer.write("snapshot", is_opening=is_opening)
    for _ in range(1_000):
        writer.write()
        most_bytes = max(most_bytes, writer.ring.size)
    overdue = 4 * CHUNK_BYTES + 4 * CHUNK_BYTES // OVERDUE_SHARE
    assert most_bytes < overdue + 2_000
    assert (most_bytes > 4 * CHUNK_BYTES + 2_000) == is_opening


# The two forms of a trace's events: what a ring packs is what a whole trace tells.


ROWS: list[Row] = [
    (7, 0, (), "note", "", {"text": "a"}, None),
    (9, 1, (0,), "note", ("app", 7, 2), {"text": "b", "at": [1, 2]}, 0),
]


def ticking_clock() -> Callable[[], int]:
    ticks: Iterator[int] = count()
    return lambda: next(ticks)


def full_tracer(*, ring_bytes: int | None = None) -> Tracer:
    return Tracer(ticking_clock(), level=TraceLevel.FULL, ring_bytes=ring_bytes)


def test_both_forms_make_the_same_lines_of_the_first_events() -> None:
    lines, rows = TraceLines(None), TraceRows(None)
    text = lines.kept(ROWS, 0)
    assert lines.lines(text, 0) == text == rows.lines(rows.kept(ROWS, 0), 0)
    assert text.splitlines()[1] == (
        b'{"i":1,"t":9,"n":1,"l":2,"p":[0],"k":"note","tx":"app/7:2","d":{"at":[1,2],"text":"b"}'
        b',"w":0}'
    )


def test_a_batch_of_rows_is_read_without_those_before() -> None:
    rows = TraceRows(None)
    (_, second_line) = rows.lines(rows.kept(ROWS, 100), 100).splitlines()
    assert json.loads(second_line)["l"] == 101, "its cause is of an older batch"
    assert json.loads(second_line)["i"] == 101


def test_times_count_from_the_start() -> None:
    trace_rows = TraceRows(5_000)
    (line,) = trace_rows.lines(trace_rows.kept([(7_999, *ROWS[0][1:])], 0), 0).splitlines()
    assert json.loads(line)["t"] == 2


def test_rows_are_smaller_than_lines() -> None:
    rows = ROWS * 100
    assert len(TraceRows(None).kept(rows, 0)) < 0.6 * len(TraceLines(None).kept(rows, 0))


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
def test_what_a_ring_tells_is_what_a_whole_trace_tells_but_for_the_clocks(
    noted_events: Any,
) -> None:
    ring_tracer, whole_tracer = full_tracer(ring_bytes=1 << 20), full_tracer()
    for index, (node, parent_indexes, tx, data, importance, is_read) in enumerate(noted_events):
        for tracer in (ring_tracer, whole_tracer):
            tracer.emit(
                "note", f"n{node}", parents=tuple(p for p in sorted(parent_indexes) if p < index),
                tx=tx, data=data, importance=importance,
            )  # fmt: skip
        if is_read:
            assert ring_tracer.size, "a batch ends here"
    ring_events, read = (
        [json.loads(line) for line in tracer.lines()] for tracer in (ring_tracer, whole_tracer)
    )
    clocks: dict[int, int] = {}
    for event in ring_events:
        assert clocks.get(event["n"], 0) < event["l"] <= event["i"] + 1
        assert all(ring_events[parent]["l"] < event["l"] for parent in event["p"])
        clocks[event["n"]] = event["l"]
    assert str([{**event, "l": 0} for event in ring_events]) == str(
        [{**event, "l": 0} for event in read]
    )


def test_a_payload_is_the_one_that_was_noted() -> None:
    """A ring keeps no object that may change before the trace is read."""
    tracer = full_tracer(ring_bytes=1 << 20)
    open_ones = ["t-0"]
    tracer.emit("txn.decide", "a", data={"partitions": open_ones})
    assert tracer.size
    open_ones.append("t-1")
    assert [event.d for event in tracer.events()] == [{"partitions": ["t-0"]}]


# The table of event kinds.


def test_kinds_are_two_part_names_listed_once() -> None:
    from txnsim.runtime import trace_kinds

    assert len(trace_kinds._TABLE) == len(KINDS), "a kind is listed twice"
    single = {"input", "note", "goal", "snapshot"}
    assert {name for name in KINDS if not re.fullmatch(r"[a-z]+\.[a-z_]+", name)} == single


def test_every_kind_says_what_happened_and_what_it_carries() -> None:
    for event_kind in KINDS.values():
        assert event_kind.importance in (0, 1, 2), event_kind.name
        assert event_kind.meaning, event_kind.name
        assert event_kind.fields, event_kind.name
        assert all(re.fullmatch(r"[a-z][a-z_]*", field_name) for field_name in event_kind.fields), (
            event_kind.name
        )


def test_what_goes_without_saying_is_hidden_at_first() -> None:
    hidden_kinds = {name for name, event_kind in KINDS.items() if event_kind.importance == 0}
    assert hidden_kinds == {
        "check.pass", "conn.close", "conn.open", "log.hw", "txn.prepare", "verify.ask",
    }  # fmt: skip


def test_kinds_of_which_some_events_are_hidden_say_which() -> None:
    kinds_with_lower = {name for name, event_kind in KINDS.items() if event_kind.lower}
    assert kinds_with_lower == {
        "msg.send",
        "msg.recv",
        "txn.append",
        "log.lso",
        "marker.sent",
        "pid.bump",
    }
    assert all(KINDS[name].importance for name in kinds_with_lower)


def test_exchanges_between_brokers_that_are_hidden_are_named() -> None:
    names = {APIS[key][0] for key in PEER_ROUTINE}
    assert names == {"Fetch", "BrokerHeartbeat", "AddPartitionsToTxn", "WriteTxnMarkers"}
    assert all(name in KINDS["msg.send"].lower for name in names)
    assert {APIS[key][0] for key in PEER_POLLS} == {"Fetch", "BrokerHeartbeat"}
