"""The ordered event trace."""

from __future__ import annotations

import gc
import hashlib
import json
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import InvariantViolation
from txnsim.runtime._trace_encodings import TraceRows
from txnsim.runtime.trace import CHUNK_BYTES, KEPT_AT_ONCE, NO_CAUSE, RunInfo, TraceLevel, Tracer


def ticking_clock() -> Callable[[], int]:
    ticks: Iterator[int] = count()
    return lambda: next(ticks)


@pytest.fixture(autouse=True)
def no_cause_left_over() -> Iterator[None]:
    tracer = full_tracer()
    yield
    tracer.set_cause(NO_CAUSE)


def full_tracer(*, ring_bytes: int | None = None, is_strict: bool = False) -> Tracer:
    return Tracer(
        ticking_clock(), level=TraceLevel.FULL, ring_bytes=ring_bytes, is_strict=is_strict
    )


# Writing


def test_off_records_nothing_and_says_so() -> None:
    tracer = Tracer(ticking_clock())
    assert not tracer.on
    assert tracer.emit("note", "a") == NO_CAUSE
    assert len(tracer) == 0


def test_an_event_has_the_fields_of_the_file() -> None:
    tracer = full_tracer()
    first_event = tracer.emit("note", "client/app")
    tracer.emit(
        "log.append", "broker/1/log/t-0", parents=(first_event,), tx="app/7:0", data={"tp": "t-0"}
    )
    lines = [json.loads(line) for line in tracer.lines()]
    assert lines == [
        {"i": 0, "t": 0, "n": 0, "l": 1, "p": [], "k": "note"},
        {
            "i": 1, "t": 1, "n": 1, "l": 2, "p": [0], "k": "log.append", "tx": "app/7:0",
            "d": {"tp": "t-0"},
        },
    ]  # fmt: skip
    assert tracer.nodes == ("client/app", "broker/1/log/t-0")


def test_an_unknown_kind_is_a_bug_even_while_off() -> None:
    with pytest.raises(InvariantViolation, match="unknown kind"):
        Tracer(ticking_clock()).emit("log.apend", "a")


def test_a_strict_trace_refuses_unknown_fields() -> None:
    tracer = full_tracer(is_strict=True)
    tracer.emit("log.lso", "a", data={"tp": "t-0", "to": 1})
    with pytest.raises(InvariantViolation, match="offset"):
        tracer.emit("log.lso", "a", data={"tp": "t-0", "offset": 1})
    assert len(tracer) == 1


def test_payloads_may_be_structs() -> None:
    class Moved(msgspec.Struct):
        tp: str
        to: int

    tracer = full_tracer(is_strict=True)
    tracer.emit("log.lso", "a", data=Moved(tp="t-0", to=3))
    assert [event.d for event in tracer.events()] == [{"tp": "t-0", "to": 3}]


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_payload_and_a_transaction_may_be_given_in_parts(is_strict: bool) -> None:
    tracer = full_tracer(is_strict=is_strict)
    tracer.emit("note", "a", tx=("app", 7, 2), data=(dict, (("text", "hello"),)))
    (event,) = tracer.events()
    assert event.tx == "app/7:2"
    assert event.d == {"text": "hello"}


def test_a_payload_given_in_parts_is_checked_against_the_table_too() -> None:
    with pytest.raises(InvariantViolation, match=r"note with unknown fields \['txet'\]"):
        full_tracer(is_strict=True).emit("note", "a", data=(dict, (("txet", "hello"),)))


def test_a_source_of_nanoseconds_is_reckoned_from_the_start() -> None:
    instants = iter((5_001_999, 5_002_000))
    tracer = Tracer(lambda: next(instants), start_ns=5_000_000, level=TraceLevel.FULL)
    for _ in range(2):
        tracer.emit("note", "a")
    assert [event.t for event in tracer.events()] == [1, 2]


def test_sets_in_payloads_are_written_in_order() -> None:
    tracer = full_tracer()
    tracer.emit("txn.decide", "a", data={"partitions": {"t-2", "t-0", "t-1"}})
    assert [event.d for event in tracer.events()] == [{"partitions": ["t-0", "t-1", "t-2"]}]


def test_brief_leaves_out_what_is_hidden_and_joins_the_chain_through_it() -> None:
    tracer = Tracer(ticking_clock(), level=TraceLevel.BRIEF)
    cause_event_index = tracer.emit("note", "a")
    left_out = tracer.emit("check.pass", "a", parents=(cause_event_index,))
    assert left_out == cause_event_index
    effect = tracer.emit("note", "a", parents=(left_out,))
    assert [event.p for event in tracer.events()] == [(), (0,)]
    assert (cause_event_index, effect) == (0, 1)
    assert Tracer(ticking_clock(), level=TraceLevel.BRIEF).emit("check.pass", "a") == NO_CAUSE


def test_a_single_event_may_be_of_less_importance_than_its_kind() -> None:
    tracer = Tracer(ticking_clock(), level=TraceLevel.BRIEF)
    cause_event_index = tracer.emit("note", "a")
    assert tracer.emit("note", "a", parents=(cause_event_index,), importance=0) == cause_event_index
    tracer.emit("note", "a", importance=2)
    tracer.level = TraceLevel.FULL
    tracer.emit("note", "a", importance=0)
    tracer.emit("note", "a", importance=1)
    assert [json.loads(line).get("w") for line in tracer.lines()] == [None, 2, 0, None]


@pytest.mark.parametrize("parents", [(), (NO_CAUSE,), (NO_CAUSE, 1, 0), (1,), (99,)])
def test_a_site_that_knows_the_level_may_save_itself_the_event(parents: tuple[int, ...]) -> None:
    tracer = Tracer(ticking_clock(), level=TraceLevel.BRIEF)
    cause_event_index = tracer.emit("note", "a")
    tracer.emit("note", "a")
    tracer.set_cause(cause_event_index)
    assert not tracer.full
    if parents != (99,):
        assert tracer.cause_of(parents) == tracer.emit("check.pass", "a", parents=parents)
    else:
        assert tracer.cause_of(parents) == NO_CAUSE


def test_the_level_may_change_while_running() -> None:
    tracer = Tracer(ticking_clock())
    tracer.level = TraceLevel.FULL
    tracer.emit("check.pass", "a")
    tracer.level = TraceLevel.BRIEF
    tracer.emit("check.pass", "a")
    tracer.level = TraceLevel.OFF
    tracer.emit("note", "a")
    assert [event.k for event in tracer.events()] == ["check.pass", "trace.off"]


# Causes


def test_the_current_cause_is_the_parent_unless_parents_are_given() -> None:
    tracer = full_tracer()
    root = tracer.emit("note", "a")
    other_event = tracer.emit("note", "a")
    cause_before = tracer.set_cause(root)
    tracer.emit("note", "b")
    tracer.emit("note", "b", parents=(other_event,))
    assert tracer.cause == root
    assert tracer.set_cause(cause_before) == root
    tracer.emit("note", "b")
    assert [event.p for event in tracer.events(2)] == [(0,), (1,), ()]


def test_missing_and_repeated_parents_are_left_out() -> None:
    tracer = full_tracer()
    root = tracer.emit("note", "a")
    tracer.emit("note", "a", parents=(NO_CAUSE, root, root))
    tracer.emit("note", "a", parents=(NO_CAUSE,))
    assert [event.p for event in tracer.events()] == [(), (0,), ()]


def test_a_cause_of_another_trace_is_no_parent() -> None:
    tracer, other_tracer = full_tracer(), full_tracer()
    other_tracer.set_cause(other_tracer.emit("note", "a"))
    tracer.emit("note", "a")
    tracer.emit("note", "a")
    assert [event.p for event in tracer.events()] == [(), ()]
    assert (tracer.cause, other_tracer.cause) == (NO_CAUSE, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 60), max_size=3)), max_size=60))
def test_lamport_clocks_grow_along_nodes_and_parents(steps: list[tuple[int, set[int]]]) -> None:
    tracer = full_tracer()
    for index, (node_id, parent_indexes) in enumerate(steps):
        tracer.emit(
            "note", f"n{node_id}", parents=tuple(p for p in sorted(parent_indexes) if p < index)
        )
    clocks: dict[int, int] = {}
    events = list(tracer.events())
    for event in events:
        assert event.l > clocks.get(event.n, 0)
        assert all(events[parent_pid].l < event.l for parent_pid in event.p)
        clocks[event.n] = event.l


# Keeping and reading


MANY = 3_000
"""Events of some 60 bytes: several chunks of the ring, and one that is not encoded yet."""


def test_a_ring_keeps_the_newest_events_and_the_hash_covers_what_is_kept() -> None:
    ring_tracer, whole_tracer = full_tracer(ring_bytes=2 * CHUNK_BYTES), full_tracer()
    for index in range(3 * MANY):
        for tracer in (ring_tracer, whole_tracer):
            tracer.emit("note", "a", parents=(index - 1,), data={"text": str(index)})
    assert len(ring_tracer) == len(whole_tracer) == 3 * MANY
    assert ring_tracer.first_index > MANY
    assert ring_tracer.size <= 2 * CHUNK_BYTES < whole_tracer.size
    # A ring's clocks of one node have gaps where a batch begins, or none.
    assert list(ring_tracer.lines()) == list(whole_tracer.lines(ring_tracer.first_index))
    *lines, trailer = b"".join(ring_tracer.pieces()).splitlines(keepends=True)[1:]
    running_hash = hashlib.sha256(b"".join(lines) + b'["a"]')
    assert ring_tracer.hash == json.loads(trailer)["hash"] == "sha256:" + running_hash.hexdigest()
    assert ring_tracer.hash != whole_tracer.hash


def test_a_ring_decodes_nothing_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    first_events: list[int] = []
    make_lines = TraceRows.lines

    def lines_and_count(trace_rows: TraceRows, packed_rows: bytes, first_event: int) -> bytes:
        first_events.append(first_event)
        return make_lines(trace_rows, packed_rows, first_event)

    monkeypatch.setattr(TraceRows, "lines", lines_and_count)
    tracer = full_tracer(ring_bytes=2 * CHUNK_BYTES)
    for _ in range(3 * MANY):
        tracer.emit("note", "a")
    assert not first_events
    first_lines, second_lines = tracer.lines(), tracer.lines()
    assert next(first_lines) == next(second_lines)
    assert len(first_events) == 1, "two readers of a batch share its lines"
    pieces = tracer.pieces()
    next(pieces)
    assert len(first_events) == 1
    next(pieces)
    assert len(first_events) == 2, "a piece is made when it is asked for"
    later_pieces = list(pieces)
    assert len(later_pieces) > 5
    assert max(piece.count(b"\n") for piece in later_pieces) <= KEPT_AT_ONCE, "a millisecond's work"


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("is_open", [False, True])
def test_the_size_of_a_ring_is_the_memory_that_it_takes(is_open: bool) -> None:
    def fill(tracer: Tracer) -> None:
        for order_number in range(4 * MANY):
            tx = (f"app-{order_number % 97 if is_open else 0}", 7, order_number)
            tracer.emit(
                "log.append", f"n{order_number % 9}", parents=(order_number - 1,), tx=tx,
                data=(
                    dict,
                    (("tp", f"orders-{order_number}"), ("base", order_number), ("rule", "a.b")),
                ),
            )  # fmt: skip
            if not is_open:
                tracer.emit("txn.complete", "a", tx=tx, data={"state": "CompleteCommit"})

    fill(full_tracer(ring_bytes=CHUNK_BYTES))
    gc.collect()
    tracemalloc.start()
    try:
        tracer = full_tracer(ring_bytes=8 * CHUNK_BYTES)
        fill(tracer)
        size_bytes = tracer.size
        gc.collect()
        memory_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 6 * CHUNK_BYTES < size_bytes <= 8 * CHUNK_BYTES
    assert 0.9 * size_bytes < memory_bytes < 1.1 * size_bytes


@pytest.mark.parametrize("start", [0, 1, KEPT_AT_ONCE - 1, KEPT_AT_ONCE, MANY - 1])
def test_a_cursor_reads_on_from_where_it_stands(start: int) -> None:
    tracer = full_tracer()
    for _ in range(MANY):
        tracer.emit("note", "a")
    assert [event.i for event in tracer.events(start)] == list(range(start, len(tracer)))


def test_a_reader_sees_events_that_are_added_while_it_reads() -> None:
    tracer = full_tracer()
    tracer.emit("note", "a")
    reader = tracer.events()
    assert next(reader).i == 0
    tracer.emit("note", "a")
    assert [event.i for event in reader] == [1]


def test_a_reader_that_is_overtaken_by_the_ring_goes_on_with_what_is_kept() -> None:
    tracer = full_tracer(ring_bytes=0)
    tracer.emit("note", "a")
    reader = tracer.events()
    assert next(reader).i == 0
    for _ in range(2 * MANY):
        tracer.emit("note", "a")
    assert next(reader).i == tracer.first_index > 1


# Beginning in the middle


class Turns:
    """Keeps what is put off until a test lets it happen."""

    def __init__(self) -> None:
        self.later: list[Callable[[], object]] = []

    def put_off(self, callback: Callable[[], object]) -> None:
        self.later.append(callback)

    def turn(self) -> None:
        due_callbacks, self.later = self.later, []
        for callback in due_callbacks:
            callback()


def three_parts() -> Iterator[dict[str, object]]:
    return ({"part": number} for number in range(3))


def told_parts(tracer: Tracer) -> list[object]:
    return [event.d["part"] for event in tracer.events(tracer.first_index) if event.k == "snapshot"]  # type: ignore[index]


def test_a_recording_that_is_switched_on_late_opens_with_a_snapshot_a_part_per_turn() -> None:
    tracer, turns = Tracer(ticking_clock()), Turns()
    tracer.begin_with(three_parts, turns.put_off)
    assert not turns.later
    tracer.level = TraceLevel.BRIEF
    tracer.emit("note", "a")
    turns.turn()
    tracer.emit("note", "a")
    while turns.later:
        turns.turn()
    kinds = [(event.k, event.p) for event in tracer.events()]
    assert [kind for kind, _ in kinds] == ["snapshot", "note", "snapshot", "note", "snapshot"]
    assert not any(parents for _, parents in kinds)
    tracer.level = TraceLevel.BRIEF
    assert len(tracer) == 5, "nothing more is recorded than before"
    tracer.level = TraceLevel.FULL
    assert len(tracer) == 6


def test_a_snapshot_ends_with_the_recording_and_begins_again_with_it() -> None:
    tracer, turns = Tracer(ticking_clock()), Turns()
    tracer.begin_with(three_parts, turns.put_off)
    tracer.level = TraceLevel.FULL
    tracer.level = TraceLevel.OFF
    turns.turn()
    assert not turns.later
    tracer.level = TraceLevel.FULL
    tracer.level = TraceLevel.OFF
    tracer.level = TraceLevel.FULL
    for _ in range(5):
        turns.turn()
    assert told_parts(tracer) == [0, 0, 0, 1, 2]


def test_a_ring_that_has_dropped_its_head_opens_with_a_snapshot() -> None:
    tracer, turns = full_tracer(ring_bytes=8 * CHUNK_BYTES), Turns()
    tracer.begin_with(three_parts, turns.put_off)
    sizes = []
    for number in range(10 * MANY):
        tracer.emit("note", "a", data={"text": "x" * 50})
        turns.turn()
        if number % 100 == 0:
            sizes.append(tracer.size)
    (opening_event,) = list(tracer.events(tracer.first_index))[:1]
    assert (opening_event.k, opening_event.d) == ("snapshot", {"part": 0})
    assert max(sizes) < 9 * CHUNK_BYTES
    assert sizes[-1] > 6 * CHUNK_BYTES
    assert told_parts(tracer)[:4] == [0, 1, 2, 0]


def test_without_a_ring_no_snapshot_comes_by_itself() -> None:
    tracer, turns = full_tracer(), Turns()
    tracer.begin_with(three_parts, turns.put_off)
    for _ in range(MANY):
        tracer.emit("note", "a")
    assert not turns.later


def test_the_hash_is_that_of_the_lines_and_the_nodes() -> None:
    tracer = full_tracer()
    for _ in range(KEPT_AT_ONCE + 2):
        tracer.emit("note", "a")
    text = b"".join(line + b"\n" for line in tracer.lines()) + b'["a"]'
    assert tracer.hash == "sha256:" + hashlib.sha256(text).hexdigest()


def test_the_hash_tells_names_of_nodes_apart() -> None:
    first_tracer, second_tracer = full_tracer(), full_tracer()
    first_tracer.emit("note", "a")
    second_tracer.emit("note", "b")
    assert first_tracer.hash != second_tracer.hash


def test_an_export_has_header_events_and_trailer() -> None:
    run = RunInfo(
        sim="0.1.0", scenario="z01", seed=7, settings=(("transaction.version", 0),),
        clock="virtual", run="V+/fixed", mode="V+", take="armed",
        rules=(("reads_know_one_high_watermark", False),), releases=("3.9",), brokers=3,
    )  # fmt: skip
    tracer = Tracer(ticking_clock(), level=TraceLevel.FULL, run_info=run)
    tracer.emit("note", "a", data={"text": "one"})
    export_lines: list[bytes] = []
    tracer.export(export_lines.append, verdict="hanging")
    assert all(line.endswith(b"\n") for line in export_lines)
    header, event, trailer = map(json.loads, export_lines)
    assert header == {
        "k": "run", "schema": 2, "sim": "0.1.0", "scenario": "z01", "seed": 7,
        "set": {"transaction.version": 0}, "clock": "virtual", "first": 0, "nodes": ["a"],
        "run": "V+/fixed", "mode": "V+", "take": "armed", "releases": ["3.9"], "brokers": 3,
        "rules": {"reads_know_one_high_watermark": False}, "level": "full",
    }  # fmt: skip
    assert event["d"] == {"text": "one"}
    assert trailer == {"k": "end", "events": 1, "hash": tracer.hash, "verdict": "hanging"}


# Later


def test_a_bound_callback_has_its_cause_wherever_it_is_called() -> None:
    tracer = full_tracer()
    first_event, second_event = tracer.emit("note", "a"), tracer.emit("note", "a")
    tracer.set_cause(first_event)
    causes_seen: list[int] = []
    callback_now = tracer.bind_cause(lambda: causes_seen.append(tracer.cause))
    callback_of_second = tracer.bind_cause(lambda: causes_seen.append(tracer.cause), second_event)
    tracer.set_cause(NO_CAUSE)
    callback_now()
    callback_of_second()
    assert (causes_seen, tracer.cause) == ([first_event, second_event], NO_CAUSE)


def test_a_context_for_later_carries_cause_and_waker() -> None:
    tracer = full_tracer()
    question_event, news = tracer.emit("note", "a"), tracer.emit("note", "a")
    context = tracer.context(question_event, news)
    assert context.run(lambda: (tracer.cause, tracer.waker)) == (question_event, news)
    assert (tracer.cause, tracer.waker) == (NO_CAUSE, NO_CAUSE)
    assert full_tracer().waker == NO_CAUSE
    assert context.run(lambda: full_tracer().waker) == NO_CAUSE, "that is no event of another run"


def test_a_scope_has_a_cause_of_its_own_which_timers_carry_along() -> None:
    tracer = full_tracer()
    question_event, news = tracer.emit("note", "a"), tracer.emit("note", "a")
    tracer.set_cause(question_event)
    assert tracer.timer_context() is None, "the present context has it"
    tracer.scope, tracer.scope_waker = news, question_event
    assert (tracer.cause, tracer.waker, tracer.cause_of(())) == (news, question_event, news)
    context = tracer.timer_context()
    assert context is not None
    assert tracer.set_cause(NO_CAUSE) == news
    assert tracer.cause == NO_CAUSE
    tracer.scope = None
    assert tracer.cause == question_event, "what was set in the scope is gone with it"
    assert context.run(lambda: (tracer.cause, tracer.waker)) == (news, NO_CAUSE)
