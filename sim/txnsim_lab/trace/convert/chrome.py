"""Chrome's JSON trace format, for Perfetto (ui.perfetto.dev) and ``chrome://tracing``.

A broker or client is a process, a role a thread. A transactional id is a thread of its
coordinator's process with its states as slices, which never overlap. A message is a flow arrow
between slices of 1 µs, because arrows bind to slices; other events are instants. The rules
are those of Perfetto's ``json_trace_parser.cc`` and of Chrome's ``FlowsHandler``, which binds an
arrow to slices of its own category.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.brief import brief_payload
from txnsim_lab.trace.cause_chains import by_position

ENDED_STATES: Final = frozenset({"CompleteCommit", "CompleteAbort", "Empty", "Dead"})
BOUND_NAMES: Final = {"log.lso": "last stable offset", "log.hw": "high watermark"}

Row = dict[str, Any]


def convert(recording: Recording) -> str:
    """The trace as JSON text."""
    rows = [
        *_name_rows(recording),
        *_message_rows(recording),
        *_state_rows(recording),
        *_counter_rows(recording),
    ]
    return msgspec.json.encode({"traceEvents": rows, "displayTimeUnit": "ms"}).decode()


class _ThreadNumbers:
    """Numbers of processes and threads."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.process_number_by_node: dict[str, int] = {}
        self.thread_number_by_name: dict[tuple[int, str], int] = {}
        self.process_and_thread_of_node = [self.ids_of(_process_name(node), node) for node in nodes]

    def ids_of(self, process: str, thread: str) -> tuple[int, int]:
        pid = self.process_number_by_node.setdefault(process, len(self.process_number_by_node) + 1)
        return pid, self.thread_number_by_name.setdefault(
            (pid, thread), len(self.thread_number_by_name) + 1
        )


def _process_name(node: str) -> str:
    return "/".join(node.split("/")[:2])


def _name_rows(recording: Recording) -> Iterator[Row]:
    thread_numbers = _thread_numbers_of(recording)
    for name, pid in thread_numbers.process_number_by_node.items():
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    for (pid, name), tid in thread_numbers.thread_number_by_name.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _thread_numbers_of(recording: Recording) -> _ThreadNumbers:
    thread_numbers = _ThreadNumbers(recording.nodes)
    for event in recording.events:
        if event.k == "txn.complete":
            thread_numbers.ids_of(_process_name(recording.nodes[event.n]), _thread_of(event))
    return thread_numbers


def _thread_of(event: Event) -> str:
    return f"transactional id {event.tx.rpartition('/')[0]}"


def _message_rows(recording: Recording) -> Iterator[Row]:
    thread_numbers = _thread_numbers_of(recording)
    events = by_position(recording.events)
    for event in recording.events:
        pid, tid = thread_numbers.process_and_thread_of_node[event.n]
        common_fields = {"ts": event.t, "pid": pid, "tid": tid, "cat": event.k.partition(".")[0]}
        name = _event_name(event)
        event_args = {"event": event.i, "payload": brief_payload(event), "causes": list(event.p)}
        if not event.k.startswith("msg."):
            yield {**common_fields, "ph": "i", "s": "t", "name": name, "args": event_args}
            continue
        yield {**common_fields, "ph": "X", "dur": 1, "name": name, "args": event_args}
        cause = events.get(event.p[0]) if event.p else None
        if event.k == "msg.recv" and cause is not None and cause.k == "msg.send":
            sender_pid, sender_tid = thread_numbers.process_and_thread_of_node[cause.n]
            arrow_fields = {"cat": common_fields["cat"], "name": "message", "id": event.i}
            yield {**arrow_fields, "ph": "s", "ts": cause.t, "pid": sender_pid, "tid": sender_tid}
            yield {**arrow_fields, "ph": "f", "bp": "e", "ts": event.t, "pid": pid, "tid": tid}


def _event_name(event: Event) -> str:
    api = event.d.get("api") if isinstance(event.d, Mapping) else None
    return f"{event.k} {api}" if api else event.k


def _state_rows(recording: Recording) -> Iterator[Row]:
    thread_numbers = _thread_numbers_of(recording)
    open_state_by_thread: dict[str, tuple[Event, str]] = {}
    end_us = recording.events[-1].t if recording.events else 0
    for event in recording.events:
        if event.k != "txn.complete" or not isinstance(event.d, Mapping):
            continue
        thread = _thread_of(event)
        if thread in open_state_by_thread:
            yield _state_slice(
                recording, thread_numbers, *open_state_by_thread.pop(thread), end_us=event.t
            )
        if event.d["state"] not in ENDED_STATES:
            open_state_by_thread[thread] = event, event.d["state"]
    for opening_event in open_state_by_thread.values():
        yield _state_slice(recording, thread_numbers, *opening_event, end_us=end_us)


def _state_slice(
    recording: Recording,
    thread_numbers: _ThreadNumbers,
    opening_event: Event,
    state: str,
    *,
    end_us: int,
) -> Row:
    pid, tid = thread_numbers.ids_of(
        _process_name(recording.nodes[opening_event.n]), _thread_of(opening_event)
    )
    return {
        "ph": "X", "cat": "transaction", "name": state, "ts": opening_event.t,
        "dur": end_us - opening_event.t,
        "pid": pid, "tid": tid, "args": {"event": opening_event.i, "tx": opening_event.tx},
    }  # fmt: skip


def _counter_rows(recording: Recording) -> Iterator[Row]:
    thread_numbers = _thread_numbers_of(recording)
    for event in recording.events:
        if event.k in BOUND_NAMES and isinstance(event.d, Mapping):
            pid, _ = thread_numbers.process_and_thread_of_node[event.n]
            yield {
                "ph": "C", "ts": event.t, "pid": pid,
                "name": f"{BOUND_NAMES[event.k]} {event.d['tp']}",
                "args": {"offset": event.d["to"]},
            }  # fmt: skip
