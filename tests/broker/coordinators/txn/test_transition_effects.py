"""Moves and their markers: one request per broker and turn, repeats, refusals, completions."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.support.at_once import load_whole
from tests.support.coordinator import (
    BROKER,
    FOO_0,
    FOO_1,
    HOME,
    TID,
    CoordinatorBench,
    error_of,
    marker_reply,
    prepared_transactions,
)
from tests.support.txn_entries import NOW_MS, entry
from txnsim.coordinators.txn._transition_effects import (
    FOLLOWED_AT_ONCE,
    PATIENCE,
    RECONNECT_PAUSE_MS,
    RETRY_PAUSE_MS,
    subject_of,
)
from txnsim.errors import ErrorCode, PeerDisconnectedError, PeerTimeoutError
from txnsim.faults.subjects import Subject
from txnsim.interbroker.transactions import WriteTxnMarkersReply
from txnsim.runtime.loop_turns import LOOKS
from txnsim.runtime.tasks import ignore_end
from txnsim.runtime.trace import NO_CAUSE, Event, TraceLevel
from txnsim.txn.markers import MarkerSending, NoLeader
from txnsim.txn.state import Tombstone, TransactionState
from txnsim.txn.transitions import to_complete
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

B2 = BrokerId(2)


async def bench_after_end(
    *partitions: TopicPartition, committed: bool = True, is_traced: bool = False
) -> tuple[CoordinatorBench, ProducerIdAndEpoch]:
    """Return a bench whose transaction has just ended and whose markers were sent."""
    coordinator_bench = CoordinatorBench(is_traced=is_traced)
    coordinator_bench.answers_markers = False
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, *partitions)
    await coordinator_bench.end(session, committed=committed)
    return coordinator_bench, session


def sent_partitions(coordinator_bench: CoordinatorBench) -> list[tuple[int, list[str]]]:
    return [
        (
            sent_markers.broker_id,
            [" ".join(map(str, marker.partitions)) for marker in sent_markers.command.markers],
        )
        for sent_markers in coordinator_bench.sent
    ]


async def test_the_answer_comes_before_the_markers() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    assert coordinator_bench.sent == []
    await coordinator_bench.settle()
    assert sent_partitions(coordinator_bench) == [(1, ["foo-0"])]


async def test_each_leader_gets_its_own_request() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, FOO_1)
    coordinator_bench.leaders[FOO_1] = B2
    await coordinator_bench.settle()
    assert sorted(sent_partitions(coordinator_bench)) == [(1, ["foo-0"]), (2, ["foo-1"])]
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().pending_state is TransactionState.COMPLETE_COMMIT
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [3, 6, 19, 20, 7, 56])
async def test_a_passing_refusal_is_tried_again_at_the_present_leader(error: int) -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, FOO_1)
    await coordinator_bench.settle()
    coordinator_bench.leaders[FOO_1] = B2
    coordinator_bench.sent[0].reply(ErrorCode.none, ErrorCode(error))
    await coordinator_bench.settle()
    assert coordinator_bench.entry().partitions == {FOO_1}
    assert len(coordinator_bench.sent) == 1
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert sent_partitions(coordinator_bench)[1:] == [(2, ["foo-1"])]
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT


async def test_brief_tells_only_of_markers_that_are_sent_again() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, FOO_1, is_traced=True)
    coordinator_bench.tracer.level = TraceLevel.BRIEF
    event_count_before = len(coordinator_bench.tracer)
    await coordinator_bench.settle()
    for error in (ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out, ErrorCode.none):
        coordinator_bench.sent[-1].reply(
            *[ErrorCode.none] * (len(coordinator_bench.sent) == 1), error
        )
        await coordinator_bench.settle()
        coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
        await coordinator_bench.settle()
    event_fields = [
        cast(dict[str, object], event.d)
        for event in coordinator_bench.tracer.events(event_count_before)
        if event.k == "marker.sent"
    ]
    assert [(event_fields["tp"], event_fields["attempt"]) for event_fields in event_fields] == [
        ("foo-1", 2),
        ("foo-1", 3),
    ]
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT
    session = ProducerIdAndEpoch(
        producer_id=coordinator_bench.entry().producer_id,
        producer_epoch=coordinator_bench.entry().producer_epoch,
    )
    coordinator_bench.tracer.level = TraceLevel.FULL
    event_count_before = len(coordinator_bench.tracer)
    await coordinator_bench.add(session, FOO_1)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    (sent_event,) = [
        event
        for event in coordinator_bench.tracer.events(event_count_before)
        if event.k == "marker.sent"
    ]
    assert "attempt" not in cast(dict[str, object], sent_event.d), "a new debt is counted anew"
    assert sent_event.w == 0


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("error", [47, 52])
async def test_a_fenced_marker_leaves_the_transaction_prepared_until_a_move(
    error: int, *, is_traced: bool
) -> None:
    coordinator_bench, session = await bench_after_end(FOO_0, FOO_1, is_traced=is_traced)
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply(ErrorCode.none, ErrorCode(error))
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(1_000)
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1
    assert coordinator_bench.entry().state is TransactionState.PREPARE_COMMIT
    assert coordinator_bench.entry().partitions == {FOO_1}
    assert error_of(await coordinator_bench.end(session)) is ErrorCode.concurrent_transactions
    snapshot = coordinator_bench.service.snapshot()
    assert (snapshot.markers_refused_total, snapshot.pending_marker_count) == (1, 0)
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    await coordinator_bench.settle()
    assert sent_partitions(coordinator_bench)[1:] == [(1, ["foo-0 foo-1"])]


async def test_two_refusals_of_one_transaction_count_once() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, FOO_1)
    coordinator_bench.leaders[FOO_1] = B2
    await coordinator_bench.settle()
    for sent_markers in coordinator_bench.sent:
        sent_markers.reply(ErrorCode.invalid_producer_epoch)
    await coordinator_bench.settle()
    assert coordinator_bench.service.snapshot().markers_refused_total == 1


@pytest.mark.parametrize("failure", [PeerDisconnectedError("cut"), PeerTimeoutError("late")])
@pytest.mark.parametrize("as_coroutine", [False, True])
async def test_without_an_answer_everything_is_sent_again(
    failure: Exception, *, as_coroutine: bool
) -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    coordinator_bench.markers_as_coroutine = as_coroutine
    await coordinator_bench.settle()
    coordinator_bench.sent[0].answer.fail(failure)
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1
    coordinator_bench.clock.pass_ms(RECONNECT_PAUSE_MS)
    await coordinator_bench.settle()
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT


async def test_a_topic_deleted_meanwhile_needs_no_marker() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=True)
    await coordinator_bench.settle()
    coordinator_bench.leaders[FOO_0] = NoLeader.NO_SUCH_PARTITION
    coordinator_bench.sent[0].reply(ErrorCode.unknown_topic_or_partition)
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT
    assert len(coordinator_bench.sent) == 1
    # The trace went on saying that it was owed: tests/lab/trace/test_state.py.
    (cancelled_event,) = [
        event for event in coordinator_bench.tracer.events() if event.k == "marker.cancelled"
    ]
    assert cast(dict[str, object], cancelled_event.d)["tp"] == "foo-0"


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_partition_without_a_leader_waits_for_one(*, is_told: bool) -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    coordinator_bench.leaders[FOO_0] = NoLeader.UNKNOWN
    await coordinator_bench.settle()
    assert coordinator_bench.service.snapshot().unknown_destination_count == 1
    coordinator_bench.leaders[FOO_0] = B2
    if is_told:
        coordinator_bench.service.leaders_changed()
    else:
        coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert sent_partitions(coordinator_bench) == [(2, ["foo-0"])]
    coordinator_bench.service.leaders_changed()
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1


async def test_markers_that_are_sent_again_are_told_apart_from_others() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, FOO_1)
    sendings = coordinator_bench.service.sendings
    await coordinator_bench.settle()
    under_way = MarkerSending.UNDER_WAY, BROKER
    assert sendings() == {TID: {FOO_0: under_way, FOO_1: under_way}}
    coordinator_bench.leaders[FOO_1] = NoLeader.UNKNOWN
    coordinator_bench.sent[0].reply(ErrorCode.none, ErrorCode.not_leader_or_follower)
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert sendings() == {TID: {FOO_1: (MarkerSending.LEADERLESS, None)}}
    coordinator_bench.leaders[FOO_1] = B2
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert sendings() == {TID: {FOO_1: (MarkerSending.RETRIED, B2)}}
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert sendings() == {}


def load_prepared(
    coordinator_bench: CoordinatorBench, names: Sequence[str], partition: int = HOME
) -> None:
    """Load a partition with prepared transactions of these ids."""
    load_whole(
        coordinator_bench.service,
        partition,
        CoordinatorEpoch(0),
        prepared_transactions(names),
    )


def count_in(coordinator_bench: CoordinatorBench, state: TransactionState) -> int:
    return sum(txn.state is state for txn in coordinator_bench.service.entries())


async def bench_with_many(count: int, *, is_traced: bool = False) -> CoordinatorBench:
    """A bench that has sent the markers of ``count`` transactions in one request."""
    coordinator_bench = CoordinatorBench(is_loaded=False, is_traced=is_traced)
    coordinator_bench.answers_markers = False
    load_prepared(coordinator_bench, [f"id-{number}" for number in range(count)])
    await coordinator_bench.settle()
    assert [len(sent_markers.command.markers) for sent_markers in coordinator_bench.sent] == [count]
    return coordinator_bench


async def test_an_answer_about_very_many_transactions_is_followed_in_slices() -> None:
    many_count = LOOKS + FOLLOWED_AT_ONCE
    coordinator_bench = await bench_with_many(many_count, is_traced=True)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1, "one request at a time"
    coordinator_bench.sent[0].reply()
    assert count_in(coordinator_bench, TransactionState.COMPLETE_COMMIT) == LOOKS
    await coordinator_bench.settle()
    assert count_in(coordinator_bench, TransactionState.COMPLETE_COMMIT) == many_count
    assert len(coordinator_bench.sent) == 2, "what was owed meanwhile"
    sent_events = events_of(coordinator_bench, "marker.sent")[:many_count]
    acked_events = events_of(coordinator_bench, "marker.acked")
    assert [event.p[0] for event in acked_events] == [event.i for event in sent_events]


async def test_who_stops_between_the_slices_of_an_answer_follows_no_more() -> None:
    coordinator_bench = await bench_with_many(LOOKS + FOLLOWED_AT_ONCE)
    coordinator_bench.sent[0].reply()
    coordinator_bench.service.stop()
    await coordinator_bench.settle()
    assert count_in(coordinator_bench, TransactionState.PREPARE_COMMIT) == FOLLOWED_AT_ONCE


@pytest.mark.parametrize("count", [3, FOLLOWED_AT_ONCE + 3])
async def test_markers_that_an_answer_does_not_tell_of_are_abandoned(count: int) -> None:
    coordinator_bench = await bench_with_many(count, is_traced=True)
    whole_reply = marker_reply(coordinator_bench.sent[0].command)
    cause_event_index = note_cause(coordinator_bench)
    coordinator_bench.sent[0].answer.resolve(WriteTxnMarkersReply(results=whole_reply.results[:-2]))
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(1_000)
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1
    assert count_in(coordinator_bench, TransactionState.PREPARE_COMMIT) == 2
    abandoned_events = events_of(coordinator_bench, "marker.abandoned")
    sent_events = events_of(coordinator_bench, "marker.sent")[-2:]
    assert [list(event.p) for event in abandoned_events] == [
        [event.i, cause_event_index] for event in sent_events
    ]
    assert [payload(event)["rule"] for event in abandoned_events] == ["result.unexpected"] * 2


async def test_what_is_owed_meanwhile_goes_out_in_the_next_request() -> None:
    coordinator_bench, session = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    bumped = await coordinator_bench.end(session)
    assert isinstance(bumped, ProducerIdAndEpoch)
    await coordinator_bench.add(bumped, FOO_0)
    await coordinator_bench.end(bumped)
    await coordinator_bench.settle()
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().producer_epoch == 2


# An answer that comes too late


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_an_answer_to_a_coordinator_that_moved_is_forgotten(
    *, is_lost: bool, is_traced: bool
) -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=is_traced)
    await coordinator_bench.settle()
    coordinator_bench.service.unload(HOME, 1)
    if is_lost:
        coordinator_bench.sent[0].answer.fail(PeerDisconnectedError("cut"))
    else:
        coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(1_000)
    await coordinator_bench.settle()
    assert (
        len(coordinator_bench.sent),
        coordinator_bench.service.snapshot().pending_marker_count,
    ) == (
        1,
        0,
    )


async def test_an_answer_to_the_former_epoch_does_not_pay_the_debt_of_the_present_one() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1  # one request at a time to a broker
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().partitions == {FOO_0}
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT


async def test_moving_before_the_turn_ends_sends_nothing() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    coordinator_bench.service.unload(HOME, 1)
    await coordinator_bench.settle()
    assert coordinator_bench.sent == []


# Causes in the trace


def events_of(coordinator_bench: CoordinatorBench, *kinds: str) -> list[Event]:
    return [event for event in coordinator_bench.tracer.events() if event.k in kinds]


def payload(event: Event) -> dict[str, object]:
    return cast(dict[str, object], event.d)


def preparation_of(coordinator_bench: CoordinatorBench, state: str) -> Event:
    """The last event of a transition to ``state`` that became pending."""
    return [
        event
        for event in events_of(coordinator_bench, "txn.prepare")
        if payload(event)["pending"] == state
    ][-1]


def note_cause(coordinator_bench: CoordinatorBench) -> int:
    """Trace an event that becomes the cause of the following events."""
    cause_event_index = coordinator_bench.tracer.emit("note", "cluster", data={"text": "it comes"})
    coordinator_bench.tracer.set_cause(cause_event_index)
    return cause_event_index


async def test_an_answer_is_caused_by_the_end_and_not_by_the_markers_that_are_owed_then() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=True)
    end_event = events_of(coordinator_bench, "txn.complete")[-1]
    assert payload(end_event)["state"] == "PrepareCommit"
    assert coordinator_bench.tracer.cause == end_event.i
    preparation_event = preparation_of(coordinator_bench, "CompleteCommit")
    (owed_event,) = events_of(coordinator_bench, "marker.owed")
    assert (list(preparation_event.p), list(owed_event.p)) == ([end_event.i], [preparation_event.i])


async def test_the_answer_about_one_transaction_is_the_cause_of_its_end() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=True)
    await coordinator_bench.settle()
    cause_event_index = note_cause(coordinator_bench)
    coordinator_bench.sent[0].reply()
    (acked_event,) = events_of(coordinator_bench, "marker.acked")
    assert list(acked_event.p) == [cause_event_index]
    assert list(events_of(coordinator_bench, "txn.append")[-1].p) == [acked_event.i]
    assert coordinator_bench.tracer.cause == cause_event_index


async def test_a_completion_that_is_tried_again_is_caused_by_what_made_it_due() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=True)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    coordinator_bench.tracer.set_cause(NO_CAUSE)
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    completed_append_event = events_of(coordinator_bench, "txn.append")[-1]
    assert payload(completed_append_event)["state"] == "CompleteCommit"
    preparation_event = preparation_of(coordinator_bench, "CompleteCommit")
    assert list(completed_append_event.p) == [preparation_event.i]


async def test_what_a_deleted_partition_needs_no_more_is_caused_by_what_made_it_due() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=True)
    coordinator_bench.leaders[FOO_0] = NoLeader.NO_SUCH_PARTITION
    coordinator_bench.tracer.set_cause(NO_CAUSE)
    await coordinator_bench.settle()
    preparation_event = preparation_of(coordinator_bench, "CompleteCommit")
    (cancelled_event,) = events_of(coordinator_bench, "marker.cancelled")
    completed_append_event = events_of(coordinator_bench, "txn.append")[-1]
    assert (list(cancelled_event.p), list(completed_append_event.p)) == (
        [preparation_event.i],
        [preparation_event.i],
    )


async def test_brief_tells_only_of_appends_that_fail() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    coordinator_bench.tracer.level = TraceLevel.BRIEF
    session = await coordinator_bench.ready()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.add(session, FOO_0)
    (failed_append_event,) = events_of(coordinator_bench, "txn.append")
    assert payload(failed_append_event)["error"] == "NOT_ENOUGH_REPLICAS"


async def test_a_move_cancels_the_markers_that_are_owed() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0, is_traced=True)
    await coordinator_bench.settle()
    cause_event_index = note_cause(coordinator_bench)
    coordinator_bench.service.unload(HOME, 1)
    (cancelled_event,) = events_of(coordinator_bench, "marker.cancelled")
    assert list(cancelled_event.p) == [
        cause_event_index,
        preparation_of(coordinator_bench, "CompleteCommit").i,
    ]
    assert cancelled_event.tx == "txn-1/0:1"
    assert payload(cancelled_event) == {
        "pid": 0,
        "epoch": 1,
        "rule": "sent.resent-after-move",
        "reason": "the coordinator moved",
    }


# Completion


async def test_a_completion_that_the_log_can_not_take_is_tried_without_end() -> None:
    coordinator_bench, session = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.extend([ErrorCode.not_enough_replicas] * 3)
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    for _ in range(3):
        assert coordinator_bench.entry().pending_state is TransactionState.COMPLETE_COMMIT
        assert coordinator_bench.service.snapshot().completions_waiting == 1
        assert error_of(await coordinator_bench.end(session)) is ErrorCode.concurrent_transactions
        coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
        await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT


async def test_a_completion_refused_for_good_is_left_to_the_next_coordinator() -> None:
    """The transaction stays prepared without a pending transition."""
    coordinator_bench, session = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.append(ErrorCode.not_leader_or_follower)
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    txn = coordinator_bench.entry()
    assert (txn.state, txn.pending_state) == (TransactionState.PREPARE_COMMIT, None)
    assert error_of(await coordinator_bench.end(session)) is ErrorCode.concurrent_transactions
    aborted = await coordinator_bench.end(session, committed=False)
    assert error_of(aborted) is ErrorCode.invalid_txn_state


async def test_a_completion_that_waits_is_dropped_with_its_partition() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    length_before = len(coordinator_bench.log[HOME])
    coordinator_bench.service.unload(HOME, 1)
    coordinator_bench.clock.pass_ms(1_000)
    await coordinator_bench.settle()
    assert len(coordinator_bench.log[HOME]) == length_before


async def test_completions_of_other_partitions_go_on_waiting() -> None:
    coordinator_bench = CoordinatorBench(is_loaded=False)
    coordinator_bench.answers_markers = False
    load_prepared(coordinator_bench, ["a"])
    load_prepared(coordinator_bench, ["b"], partition=HOME + 1)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.extend([ErrorCode.not_enough_replicas] * 2)
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    markers = coordinator_bench.service._markers
    assert (markers.completions_waiting, set(markers._uncompleted.tried)) == (2, {"a", "b"})
    coordinator_bench.service.unload(HOME + 1, 1)
    assert (markers.completions_waiting, set(markers._uncompleted.tried)) == (1, {"a"})
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert count_in(coordinator_bench, TransactionState.COMPLETE_COMMIT) == 1
    assert not markers._uncompleted.tried


async def test_a_completion_that_commits_after_a_move_changes_nothing() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.held_appends = []
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    coordinator_bench.service.unload(HOME, 1)
    coordinator_bench.held_appends[0].set_result(ErrorCode.none)
    await coordinator_bench.settle()
    assert coordinator_bench.service.entries() == ()


async def test_version_2_completed_under_level_0_stays_prepared() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    coordinator_bench.level = TransactionVersion.TV_0
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.PREPARE_COMMIT


# Answers that no leader gives, and the end


async def test_a_broken_answer_leaves_its_transactions_prepared() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.sent[0].answer.resolve(WriteTxnMarkersReply())
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(1_000)
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.PREPARE_COMMIT
    assert len(coordinator_bench.sent) == 1


async def test_a_bug_of_the_sender_is_not_taken_for_a_lost_answer() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    with pytest.raises(ValueError, match="a bug"):
        coordinator_bench.sent[0].answer.fail(ValueError("a bug"))
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1


@pytest.mark.parametrize("as_coroutine", [False, True])
async def test_the_answer_of_a_cancelled_request_is_ignored(*, as_coroutine: bool) -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    coordinator_bench.markers_as_coroutine = as_coroutine
    await coordinator_bench.settle()
    coordinator_bench.sent[0].answer.fail(asyncio.CancelledError())
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.PREPARE_COMMIT


async def test_after_stop_nothing_is_sent_again() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply(ErrorCode.not_leader_or_follower)
    await coordinator_bench.settle()
    coordinator_bench.service.stop()
    coordinator_bench.clock.pass_ms(1_000)
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == 1
    assert coordinator_bench.clock.armed_timers == 0


async def test_an_answer_after_stop_arms_nothing() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.service.stop()
    coordinator_bench.sent[0].answer.fail(PeerDisconnectedError("cut"))
    await coordinator_bench.settle()
    assert coordinator_bench.clock.armed_timers == 0


# What is tried without end is told once


def log_rows(lines: list[MutableMapping[str, Any]]) -> list[tuple[str, str, str]]:
    """The event, transactional id and error of each log line."""
    return [(line["event"], line["transactional_id"], line["error"]) for line in lines]


@pytest.mark.usefixtures("all_levels")
async def test_of_several_partitions_that_are_refused_the_first_is_named() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_1, FOO_0)
    await coordinator_bench.settle()
    with capture_logs() as lines:
        for _ in range(PATIENCE + 100):
            coordinator_bench.sent[-1].reply(ErrorCode.not_enough_replicas)
            await coordinator_bench.settle()
            coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
            await coordinator_bench.settle()
    assert [line["reason"] for line in lines if "reason" in line] == [
        "broker 1 has not taken that of foo-0"
    ]


@pytest.mark.usefixtures("all_levels")
async def test_a_marker_that_is_refused_without_end_is_told_once() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    with capture_logs() as lines:
        for _ in range(PATIENCE + 100):
            coordinator_bench.sent[-1].reply(ErrorCode.not_enough_replicas)
            await coordinator_bench.settle()
            coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
            await coordinator_bench.settle()
        assert log_rows(lines) == [("txn.markers.waiting", TID, "NOT_ENOUGH_REPLICAS")]
        assert "foo-0" in lines[0]["reason"]
        coordinator_bench.sent[-1].reply()
        await coordinator_bench.settle()
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT
    assert not coordinator_bench.service._markers._unsent.tried


@pytest.mark.usefixtures("all_levels")
async def test_a_marker_without_a_leader_is_told_once() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    coordinator_bench.leaders[FOO_0] = NoLeader.UNKNOWN
    with capture_logs() as lines:
        for _ in range(PATIENCE + 100):
            await coordinator_bench.settle()
            coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    assert log_rows(lines) == [("txn.markers.waiting", TID, "NO_LEADER")]


@pytest.mark.usefixtures("all_levels")
async def test_a_completion_that_the_log_never_takes_is_told_once() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.extend([ErrorCode.not_enough_replicas] * (PATIENCE + 100))
    coordinator_bench.sent[-1].reply()
    with capture_logs() as lines:
        while coordinator_bench.append_errors:
            await coordinator_bench.settle()
            coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
        await coordinator_bench.settle()
    assert log_rows(lines) == [("txn.completion.waiting", TID, "COORDINATOR_NOT_AVAILABLE")]
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_COMMIT
    assert not coordinator_bench.service._markers._uncompleted.tried


async def test_a_completion_that_has_moved_away_is_not_counted_any_more() -> None:
    coordinator_bench, _ = await bench_after_end(FOO_0)
    await coordinator_bench.settle()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    coordinator_bench.sent[-1].reply()
    await coordinator_bench.settle()
    markers = coordinator_bench.service._markers
    assert markers._uncompleted.tried.keys() == {TID}
    markers.drop(HOME)
    assert not markers._uncompleted.tried


# Written, applied, withdrawn


def test_records_name_their_subjects_to_fault_rules() -> None:
    topic_partition = TopicPartition(TRANSACTION_STATE_TOPIC, 3)
    aborted_transition = to_complete(entry(TransactionState.PREPARE_ABORT), now_ms=NOW_MS)
    deleted_id = TransactionalId("gone")
    subject = subject_of(
        (aborted_transition, Tombstone(transactional_id=deleted_id)), topic_partition
    )
    assert subject.partitions == (topic_partition,)
    assert subject.other_subjects == (
        Subject(
            transactional_id=aborted_transition.transactional_id,
            producer_id=aborted_transition.producer_id,
            partitions=(topic_partition,),
            committed=False,
        ),
        Subject(transactional_id=deleted_id, partitions=(topic_partition,)),
    )


def test_an_end_and_a_cancellation_are_ignored() -> None:
    ignore_end(None, None)
    ignore_end(None, asyncio.CancelledError())


def test_a_bug_is_not_swallowed() -> None:
    with pytest.raises(ValueError, match="a bug"):
        ignore_end(None, ValueError("a bug"))
