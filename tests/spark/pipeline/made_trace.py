"""Traces made by hand: cases that a recorded run does not have, event by event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from txnsim.runtime.trace import RunInfo, TraceLevel, Tracer

COORDINATOR: Final = "broker/1/txn/0"
LOG: Final = "broker/2/log/t-0"


class MadeTrace:
    """A trace of events at chosen times."""

    def __init__(self, trace_level: TraceLevel = TraceLevel.FULL) -> None:
        self.now_us = 0
        self.tracer = Tracer(
            lambda: self.now_us,
            level=trace_level,
            run_info=RunInfo(
                scenario="made",
                seed=3,
                run="late",
                mode="V+",
                take="armed",
                settings=(("transaction.version", 1),),
                rules=(("rack_is_told", True),),
                releases=("3.9",),
                brokers=2,
                clock="virtual",
            ),
            is_strict=True,
        )

    def add_event(self, at_us: int, kind: str, node_name: str, tx: str = "", **data: object) -> int:
        """Add one event; return its index."""
        self.now_us = at_us
        cause = data.pop("cause", None)
        assert cause is None or isinstance(cause, int)
        return self.tracer.emit(
            kind, node_name, parents=() if cause is None else (cause,), tx=tx, data=data
        )

    def add_move(self, at_us: int, tx: str, state: str, **more_fields: object) -> None:
        """A move of the coordinator took effect."""
        epoch = int(tx.rpartition(":")[2])
        fields = {"version": 0, "level": 1, "timeout_ms": 10, "partitions": ["t-0"], **more_fields}
        producer_id = int(tx.rpartition("/")[2].partition(":")[0])
        self.add_event(
            at_us,
            "txn.complete",
            COORDINATOR,
            tx,
            state=state,
            pid=producer_id,
            epoch=epoch,
            **fields,
        )

    def text(self) -> str:
        """The trace in its file format."""
        lines: list[bytes] = []
        self.tracer.export(lines.append)
        return b"".join(lines).decode()


def odd_lives() -> str:
    """A trace with unusual transactions.

    It has one that is met in its middle, one ended by timeout, one without an end, a stray marker,
    a request without an answer, and an id whose epochs are used up.
    """
    trace = MadeTrace()
    trace.add_move(10, "a/b/7:3", "CompleteCommit", partitions=[])
    trace.add_move(20, "a/b/7:3", "Ongoing")
    trace.add_event(
        30, "log.append", LOG, tp="t-0", pid=7, epoch=3, seq=0, base=5, last=6, opened=True
    )
    trace.add_event(30, "pid.open", LOG, tp="t-0", pid=7, epoch=3, first=5)
    trace.add_event(40, "log.hw", LOG, tp="t-0", to=7)
    trace.add_event(
        50, "txn.decide", COORDINATOR, "a/b/7:3", command="EndTxn", error="not_coordinator"
    )
    trace.add_event(60, "txn.decide", COORDINATOR, "a/b/7:3", command="timeout")
    # A marker of an earlier transaction arrives before the one that is owed.
    _marker(trace, 65, "marker.written", epoch=3, offset=7)
    trace.add_move(70, "a/b/7:4", "PrepareAbort")
    _marker(trace, 70, "marker.owed", COORDINATOR, epoch=4, tx="a/b/7:4")
    _marker(trace, 80, "marker.sent", COORDINATOR, epoch=4, tx="a/b/7:4")
    _marker(trace, 85, "marker.refused", epoch=4)
    _marker(trace, 86, "marker.sent", COORDINATOR, epoch=4, tx="a/b/7:4")
    _marker(trace, 90, "marker.written", epoch=4, offset=8)
    trace.add_event(
        90, "pid.close", LOG, tp="t-0", pid=7, epoch=4, first=5, last=8, committed=False
    )
    trace.add_event(90, "log.hw", LOG, tp="t-0", to=9)
    trace.add_event(95, "log.lso", LOG, tp="t-0", to=9)
    trace.add_move(99, "a/b/7:4", "CompleteAbort", partitions=[])
    trace.add_event(100, "txn.decide", COORDINATOR, "a/b/7:4", command="InitProducerId")
    trace.add_move(110, "a/b/8:0", "Empty", partitions=[])
    trace.add_move(120, "a/b/8:0", "Ongoing")
    trace.add_event(130, "verify.ask", "broker/2", "a/b/8:0", tp="t-0", pid=8, epoch=0, add=False)
    trace.add_event(200, "note", "client/a", text="the end")
    return trace.text()


def brief_lives() -> str:
    """A brief trace of markers and verifications: a marker written at the first attempt, one at the
    third, and two answers of a coordinator.
    """
    trace = MadeTrace(TraceLevel.BRIEF)
    trace.add_move(20, "a/7:3", "Ongoing", partitions=["t-0", "t-1"])
    trace.add_event(30, "verify.answer", "broker/2", "a/7:3", tp="t-0", pid=7, epoch=3, waited_us=7)
    trace.add_event(
        40, "verify.answer", "broker/2", "a/7:3", tp="t-1", pid=7, epoch=3, waited_us=9, add=True,
        error="INVALID_TXN_STATE",
    )  # fmt: skip
    trace.add_move(70, "a/7:3", "PrepareCommit", partitions=["t-0", "t-1"])
    for partition_name in ("t-0", "t-1"):
        _marker(trace, 70, "marker.owed", COORDINATOR, epoch=3, tx="a/7:3", tp=partition_name)
    _marker(trace, 80, "marker.acked", COORDINATOR, epoch=3, tx="a/7:3")
    for at_us, attempt in ((90, 2), (100, 3)):
        _marker(
            trace, at_us, "marker.sent", COORDINATOR, epoch=3, tx="a/7:3", tp="t-1", attempt=attempt
        )
    return trace.text()


def _marker(
    trace: MadeTrace, at_us: int, kind: str, node_name: str = LOG, tx: str = "", **data: object
) -> None:
    fields: Mapping[str, object] = {"tp": "t-0", "pid": 7, "committed": False, **data}
    trace.add_event(at_us, kind, node_name, tx, **fields)


STREAM: Final = """\
: connected

id: 40
event: pid.open
data: {"i":40,"t":5,"node":"broker/3/log/s-0","k":"pid.open","p":[],"d":{"tp":"s-0","pid":1}}

event: lost
data: {"lost":17,"next":60}

id: 60
event: note
data: {"i":60,"t":9,"node":"client/x","k":"note","p":[],"d":{"text":"on"}}
"""
"""Text that curl keeps of an event stream whose events came too fast for it."""
