"""What happens to a log besides appends, in the trace."""

from __future__ import annotations

from tests.support.logs import NOW, PID, LogDriver
from txnsim.node.log_events import LogEvents
from txnsim.runtime.trace import TraceLevel, Tracer


def test_a_log_that_loses_an_end_says_where_it_ends_and_begins() -> None:
    driver, tracer = LogDriver(), Tracer(lambda: 0, level=TraceLevel.FULL, strict=True)
    events, log = LogEvents(tracer, "broker/1"), driver.log
    driver.txn(0)
    driver.txn(1)
    driver.settle()
    log.delete_records_before(1)
    events.started(log, "DeleteRecords")
    log.restart_at(7, now_ms=NOW)
    events.truncated(log)
    events.expired(log, (PID,))
    start = {"tp": "orders-0", "to": 1, "lso": 1, "open": [PID], "reason": "DeleteRecords"}
    assert [(event.k, event.d) for event in tracer.events()] == [
        ("log.start", start),
        ("log.truncate", {"tp": "orders-0", "epoch": 0, "to": 7}),
        ("pid.expire", {"tp": "orders-0", "pid": PID, "rule": "producer.expires"}),
    ]
    assert {tracer.nodes[event.n] for event in tracer.events()} == {"broker/1/log/orders-0"}


def test_a_timer_is_the_cause_of_what_it_finds() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, strict=True)
    events = LogEvents(tracer, "broker/1")
    before = events.timer("retention", 300_000)
    events.expired(LogDriver().log, (PID,))
    fired, expired = tracer.events()
    assert (fired.k, fired.p, fired.d) == (
        "timer.fire", (), {"timer": "retention", "waited_ms": 300_000}
    )  # fmt: skip
    assert expired.p == (fired.i,)
    assert tracer.caused_by(before) == fired.i
