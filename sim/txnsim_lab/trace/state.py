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
from txnsim.trace.story import transactional_id_of
from txnsim.types import NO_PRODUCER_EPOCH
from txnsim_lab.trace.payload_error import WRONG_FIELD_ERRORS, PayloadError

UNKNOWN: Final = -1
GONE_STATES: Final = frozenset({"Dead"})
"""States of a transaction in which its coordinator has no entry for it."""

Payload = Mapping[str, Any]


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

    unserved_shares: dict[str, dict[str, Any]] = {}
    """Share partitions that no broker serves, as they were known last: their leader is down, or has
    forgotten them.
    """

    streams: dict[str, dict[str, Any]] = {}
    """``group member`` -> a member of a streams group: ``group``, ``member``, ``epoch``, ``state``,
    ``process``, ``active``, ``standby``, ``warmup`` and ``revoked`` (tasks), ``node`` of its
    coordinator, ``i``.
    """

    unserved_streams: dict[str, dict[str, Any]] = {}
    """Members of streams groups whose coordinator is down or has let the group go, as they were
    known last.
    """

    @property
    def now_ms(self) -> int:
        """Wall clock time at the last event, in milliseconds."""
        return self.wall_ms + self.at_us // 1000

    def follow(self, event: Event, nodes: Sequence[str]) -> None:
        """Apply the next event.

        Raises:
            PayloadError: A field of its payload is missing or wrong.
        """
        self.at_us = event.t
        assign = _ASSIGNERS.get(event.k)
        if assign is not None:
            try:
                assign(self, event, nodes[event.n], event.d if isinstance(event.d, Mapping) else {})
            except WRONG_FIELD_ERRORS as error:
                raise PayloadError.of_event(event, error) from error


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


def _on_input(state: TraceState, event: Event, _node: str, payload: Payload) -> None:
    """Take the wall clock time from an input; a user may also have moved the clock."""
    ahead_ms = payload["args"].get("ms", 0) if payload["do"] == "advance" else 0
    state.wall_ms = payload["at"] - event.t // 1000 + ahead_ms


def _broker_up(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    if payload.get("role") == "broker":
        state.brokers[node] = "running"


def _broker_down(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    if payload.get("role") == "broker":
        state.brokers[node] = "down"
        for state_key in [
            state_key for state_key, share in state.shares.items() if share["node"] == node
        ]:
            state.unserved_shares[state_key] = state.shares.pop(state_key)
        for state_key in [
            state_key for state_key, member in state.streams.items() if _is_on_broker(member, node)
        ]:
            state.unserved_streams[state_key] = state.streams.pop(state_key)


def _is_on_broker(member: Mapping[str, Any], broker: str) -> bool:
    return str(member["node"]).startswith(f"{broker}/")


def _role_taken(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    if payload.get("role") == "leader":
        state.logs[payload["tp"]] = _log(int(node.split("/")[1]), payload)
    elif payload.get("role") == "replicas":
        log = _log_of(state, node, payload)
        if log is not None:
            log["replicas"] = payload["replicas"]


def _leader_changed(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    log = state.logs.get(payload["tp"])
    if log is None:  # nobody has led it yet
        state.logs[payload["tp"]] = _log(payload["leader"], {"epoch": payload["epoch"]})
    else:
        log["leader"] = payload["leader"]


def _topic_deleted(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    for index in range(payload["partitions"]):
        name = f"{payload['topic']}-{index}"
        state.logs.pop(name, None)
        for table in (state.shares, state.unserved_shares, state.offsets):
            for key in [key for key in table if key.rpartition(" ")[2] == name]:
                del table[key]


def _cluster_reset(state: TraceState, _event: Event, _node: str, _payload: Payload) -> None:
    _clear_state(state)


def _clear_state(state: TraceState) -> None:
    for table in (state.logs, state.transactions, state.owed, state.faults, state.brokers):
        table.clear()
    state.offsets.clear()
    for served_by_kind in (
        state.shares,
        state.unserved_shares,
        state.streams,
        state.unserved_streams,
    ):
        served_by_kind.clear()


def _log(leader_id: int, payload: Payload) -> dict[str, Any]:
    """A log as its leader's snapshot shows it; omitted offsets are 0."""
    return {
        "leader": leader_id,
        "epoch": payload["epoch"],
        "replicas": payload.get("replicas", 0),
        "start": payload.get("start", 0),
        "end": payload.get("end", 0),
        "hw": payload.get("hw", 0),
        "lso": payload.get("lso", 0),
        "producers": {
            str(producer["pid"]): _producer(producer) for producer in payload.get("producers", ())
        },
    }


def _producer(payload: Payload) -> dict[str, Any]:
    return {
        "epoch": payload["epoch"],
        "seq": payload.get("seq", UNKNOWN),
        "first": payload.get("first", UNKNOWN),
        "coordinator_epoch": payload.get("coordinator_epoch", UNKNOWN),
        "timestamp": payload.get("timestamp", UNKNOWN),
        "i": UNKNOWN,
    }


# Logs


def _log_of(state: TraceState, node: str, payload: Payload) -> dict[str, Any] | None:
    """The log of an event if its node is the leader; None otherwise."""
    log = state.logs.get(payload["tp"])
    return log if log is not None and node.startswith(f"broker/{log['leader']}/") else None


def _on_append(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    log = _log_of(state, node, payload)
    if log is None:
        return
    log["end"] = payload["last"] + 1
    if payload["pid"] >= 0:
        producer = _producer_of(log, payload)
        producer["seq"] = payload["seq"] + payload["last"] - payload["base"]
        producer["timestamp"] = state.now_ms


def _on_marker_written(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    log = _log_of(state, node, payload)
    if log is None:
        return
    log["end"] = payload["offset"] + 1
    producer = _producer_of(log, payload)
    producer["first"] = UNKNOWN
    producer["i"] = UNKNOWN
    producer["coordinator_epoch"] = payload["coordinator_epoch"]


def _producer_of(log: dict[str, Any], payload: Payload) -> dict[str, Any]:
    producers: dict[str, dict[str, Any]] = log["producers"]
    producer = producers.setdefault(str(payload["pid"]), _producer(payload))
    producer["epoch"] = payload["epoch"]
    return producer


def _on_open(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    log = _log_of(state, node, payload)
    if log is None:
        return
    producer = _producer_of(log, payload)
    producer["first"] = payload["first"]
    producer["i"] = event.i
    producer["timestamp"] = payload.get("timestamp", state.now_ms)
    producer["coordinator_epoch"] = payload.get("coordinator_epoch", UNKNOWN)


def _on_producer_forgotten(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    log = _log_of(state, node, payload)
    if log is not None:
        log["producers"].pop(str(payload["pid"]), None)


def _log_start_moved(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    log = _log_of(state, node, payload)
    if log is None:
        return
    log["start"] = payload["to"]
    log["lso"] = payload.get("lso", log["lso"])
    producer_ids_open = payload.get("open")
    if producer_ids_open is not None:
        for producer_id_text, producer in log["producers"].items():
            if int(producer_id_text) not in producer_ids_open:
                producer["first"] = UNKNOWN


def _bound_setter(field_name: str) -> Callable[[TraceState, Event, str, Payload], None]:
    def assign(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
        log = _log_of(state, node, payload)
        if log is not None:
            log[field_name] = payload["to"]

    return assign


# Coordinators


def _on_decision(state: TraceState, event: Event, _node: str, payload: Payload) -> None:
    transaction = state.transactions.get(transactional_id_of(event.tx))
    if transaction is not None and "pending" in payload:
        transaction["pending"] = payload["pending"]


def _on_transition(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    transactional_id = transactional_id_of(event.tx)
    if payload["state"] in GONE_STATES:
        state.transactions.pop(transactional_id, None)
        return
    transaction = state.transactions.setdefault(transactional_id, {})
    transaction.update(payload, node=node, i=event.i)
    transaction.pop("level", None)


def _on_prepare(state: TraceState, event: Event, _node: str, payload: Payload) -> None:
    transaction = state.transactions.get(transactional_id_of(event.tx))
    if transaction is not None:
        transaction["pending"] = payload["pending"]
        transaction["partitions"] = payload["partitions"]


def _append_refused(state: TraceState, event: Event, _node: str, payload: Payload) -> None:
    transaction = state.transactions.get(transactional_id_of(event.tx))
    if transaction is not None and "error" in payload:
        transaction["pending"] = None


def _on_load(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    """After a load, the entries of this partition of the transaction log belong to the new
    coordinator.
    """
    log_partition = node.rpartition("/")[2]
    for transaction in state.transactions.values():
        if transaction["node"].rpartition("/")[2] == log_partition:
            transaction["node"] = node
            transaction["pending"] = None
            transaction["last_epoch"] = NO_PRODUCER_EPOCH  # no field of the log has it
    for entry in payload.get("entries", ()):
        # A recording may have begun while nobody had loaded it.
        state.transactions.setdefault(
            transactional_id_of(entry["tx"]), {**entry["d"], "node": node, "i": event.i}
        )


def _on_unload(state: TraceState, _event: Event, node: str, _payload: Payload) -> None:
    for transaction in state.transactions.values():
        if transaction["node"] == node:
            transaction["node"] = f"/{node.rpartition('/')[2]}"


def owed_by(owed_key: str) -> tuple[str, str]:
    """The transactional id and the partition in a key of ``TraceState.owed``."""
    txn_label, _, partition = owed_key.rpartition(" ")
    return transactional_id_of(txn_label), partition


# Markers, offsets, faults


def _on_marker_event(state: TraceState, event: Event, _node: str, payload: Payload) -> None:
    step = event.k.removeprefix("marker.")
    if "tp" not in payload:  # the coordinator has moved: none of them is owed here any more
        for ended_key in [
            owed_key for owed_key in state.owed if owed_key.rpartition(" ")[0] == event.tx
        ]:
            del state.owed[ended_key]
        return
    owed_key = f"{event.tx} {payload['tp']}"
    if step in ("acked", "cancelled"):
        state.owed.pop(owed_key, None)
        transaction = state.transactions.get(transactional_id_of(event.tx))
        if (
            step == "acked"
            and transaction is not None
            and payload["tp"] in transaction["partitions"]
        ):
            transaction["partitions"] = [
                partition_name
                for partition_name in transaction["partitions"]
                if partition_name != payload["tp"]
            ]
        return
    if step == "owed":
        state.owed[owed_key] = {"committed": payload["committed"], "error": None}
    owed_marker = state.owed.get(owed_key)
    if owed_marker is not None:
        owed_marker.update(how=step, i=event.i, error=payload.get("error"))


def _offset_added(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    state.offsets[f"{payload['group']} {payload['tp']}"] = payload["offset"]


def _offset_ended(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    state.offsets.pop(f"{payload['group']} {payload['tp']}", None)


_SHARE_FIELDS: Final = ("start", "next", "held", "isolation")


def _share_loaded(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    if "next" in payload:  # it could be loaded, and no older txnsim wrote the trace
        state.shares[_share_key(payload)] = _share_of(payload, node, event.i)
        state.unserved_shares.pop(_share_key(payload), None)


def _share_moved(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    old_share = state.shares.get(_share_key(payload))
    if old_share is not None and old_share["node"] == node:  # else another broker leads it now
        state.shares[_share_key(payload)] = _share_of(payload, node, event.i)


def _share_unloaded(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    old_share = state.shares.get(_share_key(payload))
    if old_share is not None and old_share["node"] == node:
        state.unserved_shares[_share_key(payload)] = state.shares.pop(_share_key(payload))


def _share_key(payload: Payload) -> str:
    return f"{payload['group']} {payload['tp']}"


def _share_of(payload: Payload, node: str, position: int) -> dict[str, Any]:
    return {field_name: payload[field_name] for field_name in _SHARE_FIELDS} | {
        "node": node,
        "i": position,
    }


def _member_moved(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    state.streams[_member_key(payload)] = {**payload, "node": node, "i": event.i}
    _group_served(state, payload)


def _member_left(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    state.streams.pop(_member_key(payload), None)
    _group_served(state, payload)


def _group_served(state: TraceState, payload: Payload) -> None:
    """What was known last of a group is over when its coordinator tells of it again."""
    for member_key, member in tuple(state.unserved_streams.items()):
        if member["group"] == payload["group"]:
            del state.unserved_streams[member_key]


def _streams_unloaded(state: TraceState, _event: Event, node: str, payload: Payload) -> None:
    for member_key, member in tuple(state.streams.items()):
        if (member["group"], member["node"]) == (payload["group"], node):
            state.unserved_streams[member_key] = state.streams.pop(member_key)


def _member_key(payload: Payload) -> str:
    return f"{payload['group']} {payload['member']}"


_FAULT_FIELDS: Final = ("point", "action", "matched", "struck", "held")


def _fault_armed(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    state.faults[payload["rule"]] = {"matched": 0, "struck": 0, "held": 0} | {
        field_name: payload[field_name] for field_name in _FAULT_FIELDS if field_name in payload
    }


def _fault_struck(state: TraceState, _event: Event, _node: str, payload: Payload) -> None:
    fault = state.faults.get(payload["rule"])
    if fault is not None:
        fault.update(
            {
                field_name: payload[field_name]
                for field_name in _FAULT_FIELDS
                if field_name in payload
            }
        )


def _fault_released(state: TraceState, event: Event, node: str, payload: Payload) -> None:
    if payload.get("disarmed"):
        state.faults.pop(payload["rule"], None)
    else:
        _fault_struck(state, event, node, payload)


# Beginning in the middle


def _snapshot(state: TraceState, event: Event, _node: str, payload: Payload) -> None:
    if payload["part"] == 0:
        _clear_state(state)
        for broker in payload["brokers"]:
            state.brokers[broker["node"]] = broker["state"]
        for fault in payload["faults"]:
            state.faults[fault["rule"]] = {
                field_name: fault[field_name] for field_name in _FAULT_FIELDS
            }
        state.level = payload["trace"]
    for log in payload["partitions"]:
        state.logs[log["tp"]] = _log(log["leader"], log)
    for transaction in payload["transactions"]:
        last_move = {**transaction["d"], "node": transaction["node"], "i": event.i}
        state.transactions[transactional_id_of(transaction["tx"])] = last_move
    for owed_marker in payload.get("owed", ()):
        state.owed[f"{owed_marker['tx']} {owed_marker['tp']}"] = {
            "committed": owed_marker["committed"],
            "error": None,
            "how": owed_marker["how"],
            "i": event.i,
        }
    for position in payload.get("positions", ()):
        if "pid" in position:  # a transaction has added it
            state.offsets[f"{position['group']} {position['tp']}"] = position["offset"]
    for share in payload.get("shares", ()):
        state.shares[_share_key(share)] = _share_of(share, share["node"], event.i)
    for member in payload.get("streams", ()):
        _member_moved(state, event, member["node"], member)


_ASSIGNERS: Final[Mapping[str, Callable[[TraceState, Event, str, Payload], None]]] = {
    "input": _on_input,
    "node.up": _broker_up,
    "node.down": _broker_down,
    "node.role": _role_taken,
    "leader.changed": _leader_changed,
    "topic.deleted": _topic_deleted,
    "cluster.reset": _cluster_reset,
    "log.append": _on_append,
    "marker.written": _on_marker_written,
    "pid.open": _on_open,
    "pid.expire": _on_producer_forgotten,
    "log.hw": _bound_setter("hw"),
    "log.lso": _bound_setter("lso"),
    "log.start": _log_start_moved,
    "log.truncate": _bound_setter("end"),
    "txn.decide": _on_decision,
    "txn.prepare": _on_prepare,
    "txn.append": _append_refused,
    "txn.complete": _on_transition,
    "txn.load": _on_load,
    "txn.unload": _on_unload,
    "marker.owed": _on_marker_event,
    "marker.sent": _on_marker_event,
    "marker.acked": _on_marker_event,
    "marker.refused": _on_marker_event,
    "marker.abandoned": _on_marker_event,
    "marker.cancelled": _on_marker_event,
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
    "fault.arm": _fault_armed,
    "fault.hit": _fault_struck,
    "fault.release": _fault_released,
    "snapshot": _snapshot,
}
"""Kind of event -> function that assigns its values; other kinds change nothing."""
ASSIGNED_KINDS: Final = frozenset(_ASSIGNERS)
"""Kinds of events that change the state."""
