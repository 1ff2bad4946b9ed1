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
from txnsim_lab.trace.brief import payload
from txnsim_lab.trace.cause_chains import by_position

ENDED: Final = frozenset({"CompleteCommit", "CompleteAbort", "Empty", "Dead"})
BOUNDS: Final = {"log.lso": "last stable offset", "log.hw": "high watermark"}

Row = dict[str, Any]


def convert(run: Recording) -> str:
    """The trace as JSON text."""
    rows = [*_names(run), *_messages(run), *_states(run), *_counters(run)]
    return msgspec.json.encode({"traceEvents": rows, "displayTimeUnit": "ms"}).decode()


class _Places:
    """Numbers of processes and threads."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.processes: dict[str, int] = {}
        self.threads: dict[tuple[int, str], int] = {}
        self.nodes = [self.ids_of(_process(node), node) for node in nodes]

    def ids_of(self, process: str, thread: str) -> tuple[int, int]:
        pid = self.processes.setdefault(process, len(self.processes) + 1)
        return pid, self.threads.setdefault((pid, thread), len(self.threads) + 1)


def _process(node: str) -> str:
    return "/".join(node.split("/")[:2])


def _names(run: Recording) -> Iterator[Row]:
    places = _places_of(run)
    for name, pid in places.processes.items():
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    for (pid, name), tid in places.threads.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _places_of(run: Recording) -> _Places:
    places = _Places(run.nodes)
    for event in run.events:
        if event.k == "txn.complete":
            places.ids_of(_process(run.nodes[event.n]), _thread_of(event))
    return places


def _thread_of(event: Event) -> str:
    return f"transactional id {event.tx.rpartition('/')[0]}"


def _messages(run: Recording) -> Iterator[Row]:
    places = _places_of(run)
    events = by_position(run.events)
    for event in run.events:
        pid, tid = places.nodes[event.n]
        base = {"ts": event.t, "pid": pid, "tid": tid, "cat": event.k.partition(".")[0]}
        name = _name(event)
        args = {"event": event.i, "payload": payload(event), "causes": list(event.p)}
        if not event.k.startswith("msg."):
            yield {**base, "ph": "i", "s": "t", "name": name, "args": args}
            continue
        yield {**base, "ph": "X", "dur": 1, "name": name, "args": args}
        cause = events.get(event.p[0]) if event.p else None
        if event.k == "msg.recv" and cause is not None and cause.k == "msg.send":
            sender, lane = places.nodes[cause.n]
            flow = {"cat": base["cat"], "name": "message", "id": event.i}
            yield {**flow, "ph": "s", "ts": cause.t, "pid": sender, "tid": lane}
            yield {**flow, "ph": "f", "bp": "e", "ts": event.t, "pid": pid, "tid": tid}


def _name(event: Event) -> str:
    api = event.d.get("api") if isinstance(event.d, Mapping) else None
    return f"{event.k} {api}" if api else event.k


def _states(run: Recording) -> Iterator[Row]:
    places = _places_of(run)
    since: dict[str, tuple[Event, str]] = {}
    end = run.events[-1].t if run.events else 0
    for event in run.events:
        if event.k != "txn.complete" or not isinstance(event.d, Mapping):
            continue
        thread = _thread_of(event)
        if thread in since:
            yield _slice(run, places, *since.pop(thread), until=event.t)
        if event.d["state"] not in ENDED:
            since[thread] = event, event.d["state"]
    for begun in since.values():
        yield _slice(run, places, *begun, until=end)


def _slice(run: Recording, places: _Places, begun: Event, state: str, *, until: int) -> Row:
    pid, tid = places.ids_of(_process(run.nodes[begun.n]), _thread_of(begun))
    return {
        "ph": "X", "cat": "transaction", "name": state, "ts": begun.t, "dur": until - begun.t,
        "pid": pid, "tid": tid, "args": {"event": begun.i, "tx": begun.tx},
    }  # fmt: skip


def _counters(run: Recording) -> Iterator[Row]:
    places = _places_of(run)
    for event in run.events:
        if event.k in BOUNDS and isinstance(event.d, Mapping):
            pid, _ = places.nodes[event.n]
            yield {
                "ph": "C", "ts": event.t, "pid": pid, "name": f"{BOUNDS[event.k]} {event.d['tp']}",
                "args": {"offset": event.d["to"]},
            }  # fmt: skip
