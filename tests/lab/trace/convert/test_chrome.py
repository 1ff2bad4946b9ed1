from __future__ import annotations

import json

from tests.support.traces import recording_of_run
from txnsim_lab.trace.convert.chrome import convert


def test_rows_obey_the_rules_of_perfettos_parser() -> None:
    recording = recording_of_run()
    trace_events = json.loads(convert(recording))["traceEvents"]
    named_threads = {
        (row["pid"], row["tid"]) for row in trace_events if row.get("name") == "thread_name"
    }
    assert {
        (row["pid"], row["tid"]) for row in trace_events if row["ph"] in "Xisf"
    } <= named_threads
    starts = {row["id"]: row for row in trace_events if row["ph"] == "s"}
    for row in trace_events:
        if row["ph"] == "f":
            assert row["bp"] == "e"
            assert starts[row["id"]]["ts"] <= row["ts"]
    assert starts
    assert sum(row["ph"] in "Xi" and "payload" in row["args"] for row in trace_events) == len(
        recording.events
    )


def test_states_of_a_transactional_id_are_slices_that_do_not_overlap() -> None:
    trace_events = json.loads(convert(recording_of_run()))["traceEvents"]
    states = [row for row in trace_events if row.get("cat") == "transaction" and row["ph"] == "X"]
    assert {"Ongoing", "PrepareAbort"} <= {row["name"] for row in states}
    by_thread: dict[int, int] = {}
    for row in states:
        assert row["ts"] >= by_thread.get(row["tid"], 0)
        by_thread[row["tid"]] = row["ts"] + row["dur"]


def test_bounds_are_counters() -> None:
    trace_events = json.loads(convert(recording_of_run()))["traceEvents"]
    moves = [
        row["args"]["offset"]
        for row in trace_events
        if row["name"] == "last stable offset payments-0"
    ]
    assert moves[0] == 1
    assert moves == sorted(moves)
