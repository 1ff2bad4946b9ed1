"""What happens to a log, told to the trace: which events, with which causes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.logs import NOW, PARTITION, PID, LogDriver, batch, config_of
from tests.support.markers import marker_of
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.answers import Appended
from txnsim.log.leader_append import (
    append_client,
    append_coordinator,
    append_marker,
    start_verification,
)
from txnsim.log.partition_log import PartitionLog
from txnsim.replication.append_events import TRANSACTIONAL_IDS_MAX, AppendEvents
from txnsim.runtime.trace import NO_CAUSE, Event, TraceLevel, Tracer
from txnsim.types import CONSUMER_OFFSETS_TOPIC, LeaderEpoch, TopicPartition
from txnsim.wire.batch import read_batch_header


class TracedLog:
    """A log whose changes are traced."""

    def __init__(self) -> None:
        self.driver = LogDriver()
        self.tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
        self.trace = AppendEvents(self.tracer, "broker/1")

    def append(self, sequence: int, *, is_transactional: bool = False) -> None:
        batch_data = batch(sequence, is_transactional=is_transactional)
        guard = self.driver.guard(sequence) if is_transactional else 0
        result = append_client(self.driver.log, batch_data, guard=guard, now_ms=NOW)
        transactional_id, header = (
            "app" if is_transactional else None,
            read_batch_header(batch_data),
        )
        if isinstance(result, Appended):
            self.settle(self.trace.trace_append(self.driver.log, header, result, transactional_id))
        else:
            self.trace.trace_refusal(PARTITION, header, result, transactional_id)

    def mark(self, *, committed: bool, coordinator_epoch: int = 0) -> None:
        marker = marker_of(
            producer_id=PID, committed=committed, coordinator_epoch=coordinator_epoch
        )
        append_result = append_marker(self.driver.log, marker, now_ms=NOW)
        if isinstance(append_result, Rejection):
            self.trace.trace_marker_refusal(PARTITION, marker, append_result)
        else:
            self.settle(self.trace.trace_marker(self.driver.log, marker, append_result))

    def settle(self, cause_event_index: int | None = None) -> int:
        """All is replicated; the event that causes what follows, and the cause of before is the
        current one.
        """
        log, last_event = self.driver.log, NO_CAUSE
        if log.advance_high_watermark(log.log_end_offset):
            last_event = self.trace.trace_watermarks(log)
        if cause_event_index is not None:
            self.tracer.set_cause(cause_event_index)
        return last_event

    def events(self) -> list[Event]:
        return list(self.tracer.events())

    def kinds(self) -> list[str]:
        return [event.k for event in self.events()]


def data(event: Event) -> dict[str, Any]:
    return cast(dict[str, Any], event.d)


def test_the_first_batch_opens_a_transaction_and_the_next_does_not() -> None:
    traced_log = TracedLog()
    traced_log.append(0, is_transactional=True)
    assert traced_log.kinds() == ["log.append", "pid.open", "log.hw"]
    append_event, open_event, _ = traced_log.events()
    assert data(append_event) == {
        "tp": "orders-0",
        "pid": PID,
        "epoch": 0,
        "seq": 0,
        "txn": True,
        "base": 0,
        "last": 0,
        "opened": True,
        "rule": "producer.txn-opens-at-first-batch",
        "bytes": len(batch(0, is_transactional=True)),
    }
    assert data(open_event)["first"] == 0
    assert open_event.p[0] == append_event.i, "the append is its cause"
    traced_log.append(1, is_transactional=True)
    assert traced_log.kinds()[3:] == ["log.append", "log.hw"]
    assert data(traced_log.events()[3])["rule"] == "producer.gate-open"


def test_a_plain_batch_moves_both_bounds() -> None:
    traced_log = TracedLog()
    traced_log.append(0)
    assert traced_log.kinds() == ["log.append", "log.hw", "log.lso"]
    assert [data(event)["to"] for event in traced_log.events()[1:]] == [1, 1]


def test_a_duplicate_moves_nothing() -> None:
    traced_log = TracedLog()
    traced_log.append(0)
    traced_log.append(0)
    assert traced_log.kinds()[3:] == ["log.duplicate"]
    assert data(traced_log.events()[3])["base"] == 0
    assert data(traced_log.events()[3])["rule"] == "producer.duplicate"
    assert data(traced_log.events()[3])["bytes"] == len(batch(0))


def test_a_refused_batch_is_traced_with_its_reason() -> None:
    traced_log = TracedLog()
    traced_log.append(0)
    traced_log.append(9)
    (*_, reject_event) = traced_log.events()
    assert reject_event.k == "log.reject"
    assert data(reject_event)["error"] == ErrorCode.out_of_order_sequence_number.name.upper()
    assert data(reject_event)["reason"]
    assert data(reject_event)["rule"] == "producer.next-sequence"
    assert data(reject_event)["bytes"] == len(batch(9))


def test_brief_leaves_the_size_of_a_batch_out() -> None:
    traced_log = TracedLog()
    traced_log.tracer.level = TraceLevel.BRIEF
    traced_log.append(0)
    assert "bytes" not in data(traced_log.events()[0])


def test_a_marker_closes_the_transaction_and_frees_the_bound() -> None:
    traced_log = TracedLog()
    traced_log.append(0, is_transactional=True)
    traced_log.mark(committed=False)
    assert traced_log.kinds()[3:] == [
        "marker.written", "pid.close", "log.aborted", "log.hw", "log.lso"
    ]  # fmt: skip
    assert data(traced_log.events()[3])["rule"] == "marker.v1-same-epoch"
    close_data = data(traced_log.events()[4])
    assert (close_data["first"], close_data["last"], close_data["committed"]) == (0, 1, False)
    assert data(traced_log.events()[7])["to"] == 2
    assert data(traced_log.events()[5]) == {
        "tp": "orders-0", "pid": PID, "first": 0, "last": 1, "lso": 0
    }  # fmt: skip


def test_a_marker_without_a_transaction_closes_none() -> None:
    traced_log = TracedLog()
    traced_log.mark(committed=True)
    assert traced_log.kinds() == ["marker.written", "log.hw", "log.lso"]
    assert data(traced_log.events()[0])["rule"] == "marker.unknown-producer"


def test_a_refused_marker_says_who_sent_it() -> None:
    traced_log = TracedLog()
    traced_log.mark(committed=True, coordinator_epoch=5)
    traced_log.mark(committed=True, coordinator_epoch=4)
    refusal_event = traced_log.events()[-1]
    assert refusal_event.k == "marker.refused"
    assert data(refusal_event)["error"] == "TRANSACTION_COORDINATOR_FENCED"
    assert data(refusal_event)["coordinator_epoch"] == 4
    assert data(refusal_event)["rule"] == "marker.coordinator-fenced"


def test_events_belong_to_the_log_of_the_broker() -> None:
    traced_log = TracedLog()
    traced_log.append(0)
    assert {traced_log.tracer.nodes[event.n] for event in traced_log.events()} == {
        "broker/1/log/orders-0"
    }


def test_a_producer_with_a_higher_epoch_is_traced() -> None:
    traced_log = TracedLog()
    traced_log.append(0)
    data_of_next = batch(0, epoch=1)
    header = read_batch_header(data_of_next)
    result = append_client(traced_log.driver.log, data_of_next, guard=0, now_ms=NOW)
    assert isinstance(result, Appended)
    assert (result.epoch_before, result.open_txn_before) == (0, -1)
    traced_log.trace.trace_append(traced_log.driver.log, header, result, None)
    (bumped_event,) = [event for event in traced_log.events() if event.k == "pid.bump"]
    assert (bumped_event.k, data(bumped_event)) == (
        "pid.bump",
        {"tp": "orders-0", "pid": PID, "epoch": 1},
    )
    assert traced_log.events()[bumped_event.p[0]].k == "log.append"


def test_brief_leaves_the_epoch_of_a_transactional_id_to_its_batches() -> None:
    for transactional_id, kinds in ((None, ["log.append", "pid.bump"]), ("app", ["log.append"])):
        traced_log = TracedLog()
        traced_log.append(0)
        event_count_before = len(traced_log.tracer)
        traced_log.tracer.level = TraceLevel.BRIEF
        next_one = batch(0, epoch=1)
        result = append_client(traced_log.driver.log, next_one, guard=0, now_ms=NOW)
        assert isinstance(result, Appended)
        header = read_batch_header(next_one)
        traced_log.trace.trace_append(traced_log.driver.log, header, result, transactional_id)
        assert [event.k for event in traced_log.events()[event_count_before:]] == kinds


# Causes of a bound that moves


def test_a_bound_is_moved_by_what_it_passes_not_by_who_moves_it() -> None:
    traced_log = TracedLog()
    traced_log.append(0, is_transactional=True)
    traced_log.mark(committed=False)
    events = traced_log.events()
    append_event, marker = (
        next(e for e in events if e.k == k) for k in ("log.append", "marker.written")
    )
    bound_events = [event for event in events if event.k in ("log.hw", "log.lso")]
    assert [(event.k, event.p[0], event.tx) for event in bound_events] == [
        ("log.hw", append_event.i, f"app/{PID}:0"),
        ("log.hw", marker.i, f"app/{PID}:0"),
        ("log.lso", marker.i, f"app/{PID}:0"),
    ]


def test_one_step_of_the_high_watermark_has_the_last_of_what_it_passes() -> None:
    """Followers fetch later than producers send: the fetch is a cause, but not the main one."""
    traced_log = TracedLog()
    log = traced_log.driver.log
    for sequence in (0, 1):
        header = read_batch_header(batch(sequence))
        result = append_client(log, batch(sequence), guard=0, now_ms=NOW)
        assert isinstance(result, Appended)
        traced_log.tracer.set_cause(traced_log.trace.trace_append(log, header, result, None))
    fetch = traced_log.tracer.emit("msg.recv", "broker/1")
    traced_log.tracer.set_cause(fetch)
    last_event = traced_log.settle()
    bound_events = traced_log.events()[-2:]
    assert [(event.k, event.p) for event in bound_events] == [
        ("log.hw", (1, fetch)),
        ("log.lso", (1, bound_events[0].i, fetch)),
    ]
    assert last_event == bound_events[1].i, "readers are due to it"


def test_the_last_stable_offset_waits_for_the_marker_that_held_it_back() -> None:
    """A plain batch behind the marker is passed as well, and it is not what freed the readers."""
    traced_log = TracedLog()
    traced_log.append(0, is_transactional=True)
    log = traced_log.driver.log
    marker = marker_of(producer_id=PID, committed=True)
    append_result = append_marker(log, marker, now_ms=NOW)
    assert isinstance(append_result, Appended)
    traced_log.tracer.set_cause(traced_log.trace.trace_marker(log, marker, append_result))
    later_event = traced_log.tracer.emit("log.append", "broker/1", data={"tp": str(PARTITION)})
    traced_log.tracer.set_cause(later_event)
    traced_log.trace.note_end_cause(log)
    traced_log.settle()
    events = traced_log.events()
    (stable_event,) = [event for event in events if event.k == "log.lso"]
    assert events[stable_event.p[0]].k == "marker.written"


def test_what_was_cut_off_is_no_cause() -> None:
    traced_log = TracedLog()
    log = traced_log.driver.log
    for _ in range(2):
        second_event = traced_log.tracer.emit("note", "x")
        traced_log.tracer.set_cause(second_event)
        traced_log.trace.note_end_cause(log)  # the log ends where it did: the other one is gone
    result = append_client(log, batch(0), guard=0, now_ms=NOW)
    assert isinstance(result, Appended)
    traced_log.settle()
    assert traced_log.events()[-2].p[0] == second_event


def test_of_many_producers_the_newest_names_are_known() -> None:
    traced_log = TracedLog()
    for producer_id in range(TRANSACTIONAL_IDS_MAX + 1):
        traced_log.trace._remember_transactional_id(producer_id, f"app-{producer_id}")
    assert traced_log.trace._transaction_of(0, 0) == ""
    assert traced_log.trace._transaction_of(TRANSACTIONAL_IDS_MAX, 3) == (
        f"app-{TRANSACTIONAL_IDS_MAX}",
        TRANSACTIONAL_IDS_MAX,
        3,
    )


def test_a_log_that_is_led_from_now_on_is_traced_as_it_is_found() -> None:
    traced_log = TracedLog()
    log = traced_log.driver.log
    traced_log.trace.trace_leadership(log, LeaderEpoch(2), 1)
    assert data(traced_log.events()[-1]) == {
        "tp": "orders-0",
        "role": "leader",
        "epoch": 2,
        "replicas": 1,
    }
    traced_log.append(0, is_transactional=True)
    traced_log.trace.trace_leadership(log, LeaderEpoch(3), 1)
    event_fields = data(traced_log.events()[-1])
    assert (event_fields["epoch"], event_fields["end"]) == (3, 1)
    assert "lso" not in event_fields
    (producer,) = event_fields["producers"]
    assert (producer["pid"], producer["first"], producer["coordinator_epoch"]) == (PID, 0, -1)


def test_followers_that_come_later_are_told_once() -> None:
    traced_log = TracedLog()
    log = traced_log.driver.log
    traced_log.trace.trace_leadership(log, LeaderEpoch(2), 1)
    for replicas in (1, 3, 3):
        traced_log.trace.trace_replicas(log, replicas)
    event_fields = [data(event) for event in traced_log.events()[1:]]
    assert event_fields == [{"tp": "orders-0", "role": "replicas", "replicas": 3}]


@pytest.mark.parametrize("is_led", [True, False])
def test_a_bound_that_the_reader_knows_is_not_repeated(*, is_led: bool) -> None:
    """It is in the event of the new leader, and in that of a new start of the log."""
    traced_log = TracedLog()
    log = traced_log.driver.log
    for sequence in (0, 1):
        append_client(log, batch(sequence), guard=0, now_ms=NOW)
    traced_log.driver.settle()
    if is_led:
        traced_log.trace.trace_leadership(log, LeaderEpoch(2), 1)
    else:
        traced_log.trace.trace_start(log, "DeleteRecords")
    traced_log.append(2, is_transactional=True)
    assert traced_log.kinds()[1:] == ["log.append", "pid.open", "log.hw"]


def test_a_coordinators_log_tells_what_has_moved_under_its_leader() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    events = AppendEvents(tracer, "broker/1")
    topic_partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, 3)
    log = PartitionLog(topic_partition=topic_partition, config=config_of(), leader_epoch=0)
    for epoch in (2, 4):
        events.trace_leadership(log, LeaderEpoch(epoch), 1)
        append_client(log, batch(0), guard=0, now_ms=NOW)
        log.advance_high_watermark(1)
        events.trace_watermarks(log)
        if epoch == 2:
            log.truncate_to(0, now_ms=NOW)
    events.trace_leadership(log, LeaderEpoch(5), 1)
    append_coordinator(log, batch(-1, is_transactional=True), now_ms=NOW, guard=open_guard(log))
    log.advance_high_watermark(2)
    events.trace_watermarks(log)
    assert [(event.k, data(event)["to"]) for event in tracer.events()] == [
        ("log.hw", 1), ("log.lso", 1), ("log.hw", 1), ("log.lso", 1), ("log.hw", 2)
    ]  # fmt: skip


def open_guard(log: PartitionLog) -> int:
    guard = start_verification(
        log,
        producer_id=PID,
        producer_epoch=0,
        base_sequence=-1,
        supports_epoch_bump=False,
        now_ms=NOW,
    )
    assert isinstance(guard, int)
    return guard


def test_a_transaction_that_opens_behind_a_marker_tells_the_coordinators_epoch() -> None:
    traced_log = TracedLog()
    traced_log.append(0, is_transactional=True)
    assert "coordinator_epoch" not in data(last_open_event(traced_log))
    traced_log.mark(committed=False, coordinator_epoch=4)
    traced_log.append(1, is_transactional=True)
    assert data(last_open_event(traced_log))["coordinator_epoch"] == 4


def last_open_event(traced_log: TracedLog) -> Event:
    return [event for event in traced_log.events() if event.k == "pid.open"][-1]
