"""Computes the state of a cluster after any event, from the trace alone. Events have the new
values, so this module knows no rule of Kafka: each kind of event assigns values. The page's
``reducer.js`` does the same, line by line, and a test compares the two.

The state of a log is the leader's. Events of former leaders and followers about their own logs are
ignored.

A recording may begin in the middle of a run. Its snapshot is then the first state. The level
``brief`` leaves events out, and the state lacks them too. A high watermark, for example, stays
where it was when the leader began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.trace.story import id_of
from txnsim.types import NO_PRODUCER_EPOCH

UNKNOWN: Final = -1
GONE: Final = frozenset({"Dead"})
"""States of a transaction in which its coordinator has no entry for it."""

Data = Mapping[str, Any]


class TraceState(msgspec.Struct, kw_only=True):
    """The state after the events up to one of them, in plain JSON values."""

    at_us: int = 0
    """Trace time of the last event, in microseconds."""
    wall_ms: int = 0
    """Wall clock time when the trace began, in milliseconds, as far as inputs show it."""
    level: str = "full"
    """Level of the trace: that of the header, until a snapshot has another one."""
    brokers: dict[str, str] = {}
    """Node -> ``running``, ``down``, or the controller's state for the broker."""
    logs: dict[str, dict[str, Any]] = {}
    """Partition -> ``leader`` (a broker's id), ``epoch`` of the leader, ``replicas`` (how many; 0
    where the trace does not tell), ``start``, ``end``, ``hw``, ``lso``, and ``producers``: producer
    id -> ``epoch``, ``seq`` (last sequence), ``first`` (offset of its open transaction, -1 for
    none), ``coordinator_epoch`` of its last marker, ``timestamp`` of its last write (ms of the wall
    clock), ``i`` (the event that opened the transaction).
    """
    transactions: dict[str, dict[str, Any]] = {}
    """Transactional id -> ``node`` and ``i`` of its last move, the fields of ``txn.complete``."""
    owed: dict[str, dict[str, Any]] = {}
    """``transactional id/producer id:epoch partition`` -> the marker that a coordinator still has
    to write: ``committed``, ``how`` (the kind of the last event without ``marker.``), ``error``,
    ``i``.
    """
    faults: dict[str, dict[str, Any]] = {}
    """Id of each armed rule -> ``point``, ``action``, ``matched``, ``struck``, ``held``."""
    offsets: dict[str, int] = {}
    """``group partition`` -> the offset that an open transaction has added."""

    shares: dict[str, dict[str, Any]] = {}
    """``group partition`` -> a share partition as its leader has it: ``node``, ``start``, ``next``
    (where the next fetch reads), ``held`` (``first-last:member``), ``isolation``, ``i``.
    """

    streams: dict[str, dict[str, Any]] = {}
    """``group member`` -> a member of a streams group: ``group``, ``member``, ``epoch``, ``state``,
    ``process``, ``active``, ``standby``, ``warmup`` and ``revoked`` (tasks), ``node`` of its
    coordinator, ``i``.
    """

    @property
    def now_ms(self) -> int:
        """Wall clock time at the last event, in milliseconds."""
        return self.wall_ms + self.at_us // 1000

    def follow(self, event: Event, nodes: Sequence[str]) -> None:
        """Apply the next event."""
        self.at_us = event.t
        assign = _ASSIGN.get(event.k)
        if assign is not None:
            assign(self, event, nodes[event.n], event.d if isinstance(event.d, Mapping) else {})


def state_at(
    events: Iterable[Event],
    nodes: Sequence[str],
    last_position: int | None = None,
    *,
    level: str = TraceLevel.FULL,
) -> TraceState:
    """The state after an event."""
    state = TraceState(level=level)
    for event in events:
        if last_position is not None and event.i > last_position:
            break
        state.follow(event, nodes)
    return state


# The clock, brokers and leaders


def _input(state: TraceState, event: Event, _node: str, data: Data) -> None:
    """Take the wall clock time from an input; a user may also have moved the clock."""
    ahead_ms = data["args"].get("ms", 0) if data["do"] == "advance" else 0
    state.wall_ms = data["at"] - event.t // 1000 + ahead_ms


def _up(state: TraceState, _event: Event, node: str, data: Data) -> None:
    if data.get("role") == "broker":
        state.brokers[node] = "running"


def _down(state: TraceState, _event: Event, node: str, data: Data) -> None:
    if data.get("role") == "broker":
        state.brokers[node] = "down"
        for name in [name for name, share in state.shares.items() if share["node"] == node]:
            del state.shares[name]
        for name in [name for name, member in state.streams.items() if _is_on_broker(member, node)]:
            del state.streams[name]


def _is_on_broker(member: Mapping[str, Any], broker: str) -> bool:
    return str(member["node"]).startswith(f"{broker}/")


def _role(state: TraceState, _event: Event, node: str, data: Data) -> None:
    if data.get("role") == "leader":
        state.logs[data["tp"]] = _log(int(node.split("/")[1]), data)
    elif data.get("role") == "replicas":
        log = _log_of(state, node, data)
        if log is not None:
            log["replicas"] = data["replicas"]


def _log(leader: int, data: Data) -> dict[str, Any]:
    """A log as its leader's snapshot shows it; omitted offsets are 0."""
    return {
        "leader": leader,
        "epoch": data["epoch"],
        "replicas": data.get("replicas", 0),
        "start": data.get("start", 0),
        "end": data.get("end", 0),
        "hw": data.get("hw", 0),
        "lso": data.get("lso", 0),
        "producers": {
            str(producer["pid"]): _producer(producer) for producer in data.get("producers", ())
        },
    }


def _producer(data: Data) -> dict[str, Any]:
    return {
        "epoch": data["epoch"],
        "seq": data.get("seq", UNKNOWN),
        "first": data.get("first", UNKNOWN),
        "coordinator_epoch": data.get("coordinator_epoch", UNKNOWN),
        "timestamp": data.get("timestamp", UNKNOWN),
        "i": UNKNOWN,
    }


# Logs


def _log_of(state: TraceState, node: str, data: Data) -> dict[str, Any] | None:
    """The log of an event if its node is the leader; None otherwise."""
    log = state.logs.get(data["tp"])
    return log if log is not None and node.startswith(f"broker/{log['leader']}/") else None


def _on_append(state: TraceState, _event: Event, node: str, data: Data) -> None:
    log = _log_of(state, node, data)
    if log is None:
        return
    log["end"] = data["last"] + 1
    if data["pid"] >= 0:
        producer = _producer_of(log, data)
        producer["seq"] = data["seq"] + data["last"] - data["base"]
        producer["timestamp"] = state.now_ms


def _on_marker_written(state: TraceState, _event: Event, node: str, data: Data) -> None:
    log = _log_of(state, node, data)
    if log is None:
        return
    log["end"] = data["offset"] + 1
    producer = _producer_of(log, data)
    producer["first"] = UNKNOWN
    producer["i"] = UNKNOWN
    producer["coordinator_epoch"] = data["coordinator_epoch"]


def _producer_of(log: dict[str, Any], data: Data) -> dict[str, Any]:
    producers: dict[str, dict[str, Any]] = log["producers"]
    producer = producers.setdefault(str(data["pid"]), _producer(data))
    producer["epoch"] = data["epoch"]
    return producer


def _on_open(state: TraceState, event: Event, node: str, data: Data) -> None:
    log = _log_of(state, node, data)
    if log is None:
        return
    producer = _producer_of(log, data)
    producer["first"] = data["first"]
    producer["i"] = event.i
    producer["timestamp"] = data.get("timestamp", state.now_ms)
    producer["coordinator_epoch"] = data.get("coordinator_epoch", UNKNOWN)


def _on_producer_forgotten(state: TraceState, _event: Event, node: str, data: Data) -> None:
    log = _log_of(state, node, data)
    if log is not None:
        log["producers"].pop(str(data["pid"]), None)


def _began_later(state: TraceState, _event: Event, node: str, data: Data) -> None:
    log = _log_of(state, node, data)
    if log is None:
        return
    log["start"] = data["to"]
    log["lso"] = data.get("lso", log["lso"])
    still_open = data.get("open")
    if still_open is not None:
        for pid, producer in log["producers"].items():
            if int(pid) not in still_open:
                producer["first"] = UNKNOWN


def _bound(name: str) -> Callable[[TraceState, Event, str, Data], None]:
    def assign(state: TraceState, _event: Event, node: str, data: Data) -> None:
        log = _log_of(state, node, data)
        if log is not None:
            log[name] = data["to"]

    return assign


# Coordinators


def _on_decision(state: TraceState, event: Event, _node: str, data: Data) -> None:
    entry = state.transactions.get(id_of(event.tx))
    if entry is not None and "pending" in data:
        entry["pending"] = data["pending"]


def _on_move(state: TraceState, event: Event, node: str, data: Data) -> None:
    transactional_id = id_of(event.tx)
    if data["state"] in GONE:
        state.transactions.pop(transactional_id, None)
        return
    entry = state.transactions.setdefault(transactional_id, {})
    entry.update(data, node=node, i=event.i)
    entry.pop("level", None)


def _on_prepare(state: TraceState, event: Event, _node: str, data: Data) -> None:
    entry = state.transactions.get(id_of(event.tx))
    if entry is not None:
        entry["pending"] = data["pending"]
        entry["partitions"] = data["partitions"]


def _append_refused(state: TraceState, event: Event, _node: str, data: Data) -> None:
    entry = state.transactions.get(id_of(event.tx))
    if entry is not None and "error" in data:
        entry["pending"] = None


def _on_load(state: TraceState, _event: Event, node: str, _data: Data) -> None:
    """After a load, the entries of this partition of the transaction log belong to the new
    coordinator.
    """
    part = node.rpartition("/")[2]
    for entry in state.transactions.values():
        if entry["node"].rpartition("/")[2] == part:
            entry["node"] = node
            entry["pending"] = None
            entry["last_epoch"] = NO_PRODUCER_EPOCH  # no field of the log has it


def _on_unload(state: TraceState, _event: Event, node: str, _data: Data) -> None:
    for entry in state.transactions.values():
        if entry["node"] == node:
            entry["node"] = f"/{node.rpartition('/')[2]}"


def owed_by(key: str) -> tuple[str, str]:
    """The transactional id and the partition in a key of ``TraceState.owed``."""
    tx, _, partition = key.rpartition(" ")
    return id_of(tx), partition


# Markers, offsets, faults


def _marker(state: TraceState, event: Event, _node: str, data: Data) -> None:
    how = event.k.removeprefix("marker.")
    if "tp" not in data:  # the coordinator has moved: none of them is owed here any more
        for owed in [
            owed_key for owed_key in state.owed if owed_key.rpartition(" ")[0] == event.tx
        ]:
            del state.owed[owed]
        return
    key = f"{event.tx} {data['tp']}"
    if how in ("acked", "cancelled"):
        state.owed.pop(key, None)
        entry = state.transactions.get(id_of(event.tx))
        if how == "acked" and entry is not None and data["tp"] in entry["partitions"]:
            entry["partitions"] = [tp for tp in entry["partitions"] if tp != data["tp"]]
        return
    if how == "owed":
        state.owed[key] = {"committed": data["committed"], "error": None}
    entry = state.owed.get(key)
    if entry is not None:
        entry.update(how=how, i=event.i, error=data.get("error"))


def _offset_added(state: TraceState, _event: Event, _node: str, data: Data) -> None:
    state.offsets[f"{data['group']} {data['tp']}"] = data["offset"]


def _offset_ended(state: TraceState, _event: Event, _node: str, data: Data) -> None:
    state.offsets.pop(f"{data['group']} {data['tp']}", None)


_SHARE: Final = ("start", "next", "held", "isolation")


def _share_loaded(state: TraceState, event: Event, node: str, data: Data) -> None:
    if "next" in data:  # it could be loaded, and no older txnsim wrote the trace
        state.shares[_share(data)] = _share_of(data, node, event.i)


def _share_moved(state: TraceState, event: Event, node: str, data: Data) -> None:
    old_share = state.shares.get(_share(data))
    if old_share is not None and old_share["node"] == node:  # else another broker leads it now
        state.shares[_share(data)] = _share_of(data, node, event.i)


def _share_unloaded(state: TraceState, _event: Event, node: str, data: Data) -> None:
    old_share = state.shares.get(_share(data))
    if old_share is not None and old_share["node"] == node:
        del state.shares[_share(data)]


def _share(data: Data) -> str:
    return f"{data['group']} {data['tp']}"


def _share_of(data: Data, node: str, i: int) -> dict[str, Any]:
    return {name: data[name] for name in _SHARE} | {"node": node, "i": i}


def _member_moved(state: TraceState, event: Event, node: str, data: Data) -> None:
    state.streams[_member(data)] = {**data, "node": node, "i": event.i}


def _member_left(state: TraceState, _event: Event, _node: str, data: Data) -> None:
    state.streams.pop(_member(data), None)


def _streams_unloaded(state: TraceState, _event: Event, node: str, data: Data) -> None:
    for name, member in tuple(state.streams.items()):
        if (member["group"], member["node"]) == (data["group"], node):
            del state.streams[name]


def _member(data: Data) -> str:
    return f"{data['group']} {data['member']}"


_FAULT: Final = ("point", "action", "matched", "struck", "held")


def _on_arm(state: TraceState, _event: Event, _node: str, data: Data) -> None:
    state.faults[data["rule"]] = {"matched": 0, "struck": 0, "held": 0} | {
        name: data[name] for name in _FAULT if name in data
    }


def _struck(state: TraceState, _event: Event, _node: str, data: Data) -> None:
    fault = state.faults.get(data["rule"])
    if fault is not None:
        fault.update({name: data[name] for name in _FAULT if name in data})


def _on_release(state: TraceState, event: Event, node: str, data: Data) -> None:
    if data.get("disarmed"):
        state.faults.pop(data["rule"], None)
    else:
        _struck(state, event, node, data)


# Beginning in the middle


def _snapshot(state: TraceState, event: Event, _node: str, data: Data) -> None:
    if data["part"] == 0:
        for transaction in (
            state.logs,
            state.transactions,
            state.owed,
            state.faults,
            state.brokers,
        ):
            transaction.clear()
        state.offsets.clear()
        state.shares.clear()
        state.streams.clear()
        for broker in data["brokers"]:
            state.brokers[broker["node"]] = broker["state"]
        for fault in data["faults"]:
            state.faults[fault["rule"]] = {name: fault[name] for name in _FAULT}
        state.level = data["trace"]
    for log in data["partitions"]:
        state.logs[log["tp"]] = _log(log["leader"], log)
    for transaction in data["transactions"]:
        entry = {**transaction["d"], "node": transaction["node"], "i": event.i}
        state.transactions[id_of(transaction["tx"])] = entry
    for position in data.get("positions", ()):
        if "pid" in position:  # a transaction has added it
            state.offsets[f"{position['group']} {position['tp']}"] = position["offset"]
    for share in data.get("shares", ()):
        state.shares[_share(share)] = _share_of(share, share["node"], event.i)
    for member in data.get("streams", ()):
        _member_moved(state, event, member["node"], member)


_ASSIGN: Final[Mapping[str, Callable[[TraceState, Event, str, Data], None]]] = {
    "input": _input,
    "node.up": _up,
    "node.down": _down,
    "node.role": _role,
    "log.append": _on_append,
    "marker.written": _on_marker_written,
    "pid.open": _on_open,
    "pid.expire": _on_producer_forgotten,
    "log.hw": _bound("hw"),
    "log.lso": _bound("lso"),
    "log.start": _began_later,
    "log.truncate": _bound("end"),
    "txn.decide": _on_decision,
    "txn.prepare": _on_prepare,
    "txn.append": _append_refused,
    "txn.complete": _on_move,
    "txn.load": _on_load,
    "txn.unload": _on_unload,
    "marker.owed": _marker,
    "marker.sent": _marker,
    "marker.acked": _marker,
    "marker.refused": _marker,
    "marker.cancelled": _marker,
    "group.offset_pending": _offset_added,
    "group.offset_commit": _offset_ended,
    "group.offset_abort": _offset_ended,
    "share.load": _share_loaded,
    "share.acquire": _share_moved,
    "share.release": _share_moved,
    "share.persist": _share_moved,
    "share.start": _share_moved,
    "share.unload": _share_unloaded,
    "streams.member": _member_moved,
    "streams.left": _member_left,
    "streams.unload": _streams_unloaded,
    "fault.arm": _on_arm,
    "fault.hit": _struck,
    "fault.release": _on_release,
    "snapshot": _snapshot,
}
"""Kind of event -> function that assigns its values; other kinds change nothing."""
ASSIGNED: Final = frozenset(_ASSIGN)
"""Kinds of events that change the state."""
