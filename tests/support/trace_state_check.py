"""Compares the state that a reader derives from a trace with the cluster's objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import msgspec

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.server._trace_snapshot import snapshot_parts
from txnsim.server.cluster import SimCluster
from txnsim.types import INTERNAL_TOPICS
from txnsim_lab.scenario import final_observation, runner
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.target.simulated import SimulatedTarget
from txnsim_lab.trace.state import TraceState, state_at

OWN: Final = frozenset({"i", "timestamp"})
"""Fields that a reader adds: the event and time at which it learnt something."""
INTERNAL: Final = tuple(f"{topic}-" for topic in INTERNAL_TOPICS)


def live(cluster: SimCluster) -> TraceState:
    """The state of the running cluster, in the form that a trace gives."""
    state = TraceState()
    tracer = cluster.environment.tracer
    for payload in snapshot_parts(cluster):
        data = msgspec.json.decode(msgspec.json.encode(payload))
        state.follow(msgspec.structs.replace(_EVENT, d=data, i=len(tracer)), ["cluster"])
    return state


def differences(
    traced_state: TraceState, actual: TraceState, *, trace_level: TraceLevel
) -> list[str]:
    """Differences between the traced and the actual state, one line each."""
    lines = list(_list_differences("brokers", traced_state.brokers, actual.brokers))
    entries = (_entries(state.transactions, trace_level) for state in (traced_state, actual))
    lines += _list_differences("transactions", *entries)
    lines += _list_differences("faults", traced_state.faults, actual.faults)
    shares = [
        {k: _drop_fields(share) for k, share in state.shares.items()}
        for state in (traced_state, actual)
    ]
    lines += _list_differences("shares", *shares)
    streams = [
        {k: _drop_fields(stream) for k, stream in state.streams.items()}
        for state in (traced_state, actual)
    ]
    lines += _list_differences("streams", *streams)
    logs = _logs(traced_state, trace_level, is_told=True), _logs(actual, trace_level, is_told=False)
    lines += _list_differences("logs", *logs)
    return lines


@contextmanager
def compare_states(trace_level: TraceLevel) -> Iterator[list[str]]:
    """While stories are played, compare states before and after each cure. The list receives the
    differences.
    """
    found_differences: list[str] = []

    async def look(running_story: RunningStory) -> None:
        await final_observation.observe_twice(running_story)
        tracer = running_story.environment.tracer
        traced_state = state_at(tracer.events(0), tracer.nodes, level=trace_level)
        traced_state = msgspec.json.decode(msgspec.json.encode(traced_state), type=TraceState)
        assert isinstance(running_story.target, SimulatedTarget)
        found_differences.extend(
            differences(traced_state, live(running_story.target.cluster), trace_level=trace_level)
        )

    with patch.object(runner, "observe_twice", look):
        yield found_differences


def _entries(transactions: dict[str, dict[str, Any]], trace_level: TraceLevel) -> dict[str, Any]:
    """At brief no event tells that the coordinator's own next move is pending (``txn.prepare``)."""
    left_out = OWN | {"pending"} if trace_level is TraceLevel.BRIEF else OWN
    return {
        transactional_id: _drop_fields(transaction_entry, left_out)
        for transactional_id, transaction_entry in transactions.items()
    }


def _logs(state: TraceState, trace_level: TraceLevel, *, is_told: bool) -> dict[str, Any]:
    logs = {}
    for partition_name, log in state.logs.items():
        if partition_name.startswith(INTERNAL):
            continue
        comparable: dict[str, Any] = dict(log)
        if trace_level is TraceLevel.BRIEF:
            # As the page has it: no event tells that it has moved.
            is_known = log["replicas"] == 1 or log["lso"] >= log["end"]
            comparable["hw"] = (log["end"] if is_told else log["hw"]) if is_known else None
        comparable["producers"] = {
            pid: _drop_fields(producer)
            for pid, producer in log["producers"].items()
            if producer["first"] >= 0
        }
        logs[partition_name] = comparable
    return logs


def _drop_fields(entry: dict[str, Any], left_out: frozenset[str] = OWN) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in left_out}


def _list_differences(path: str, traced_state: object, actual: object) -> Iterator[str]:
    if isinstance(traced_state, dict) and isinstance(actual, dict):
        for name in sorted(traced_state.keys() | actual.keys()):
            yield from _list_differences(
                f"{path}[{name}]", traced_state.get(name), actual.get(name)
            )
    elif traced_state != actual:
        yield f"{path}: the trace tells {traced_state!r}, it is {actual!r}"


_EVENT: Final = Event(0, 0, 0, 0, (), "snapshot")
