"""Decisions against markers: each state, and drawn histories with the truth that made them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnsim.txn.decision_audit import (
    CLOCK_TOLERANCE_MS,
    AuditedDecision,
    AuditedMarker,
    AuditState,
    AuditVerdict,
    LogReach,
    audit_epoch,
    is_repetition,
    with_final_reach,
)
from txnsim.txn.marker_payment import SKEW_MS

WHOLE = LogReach()
STEP_MS = 100


def decision(number: int, *, is_commit: bool = True, is_completed: bool = True) -> AuditedDecision:
    at_ms = number * STEP_MS
    return AuditedDecision(
        coordinator=3,
        offset=10 * number,
        at_ms=at_ms,
        is_commit=is_commit,
        completed_ms=at_ms + 10 if is_completed else None,
    )


def marker(
    number: int, *, is_commit: bool = True, lag_ms: int = 5, offset: int = 0
) -> AuditedMarker:
    return AuditedMarker(
        offset=offset or 2 * number + 1, at_ms=number * STEP_MS + lag_ms, is_commit=is_commit
    )


def audited(
    decisions: list[AuditedDecision],
    markers: list[AuditedMarker],
    *,
    partition_reach: LogReach = WHOLE,
    coordinator_reach: LogReach = WHOLE,
) -> list[AuditVerdict]:
    return audit_epoch(
        decisions, markers, partition_reach=partition_reach, coordinator_reach=coordinator_reach
    )


def states_by_decision(verdicts: list[AuditVerdict]) -> dict[int | None, AuditState]:
    """Time of the decision, in steps, or None -> its state."""
    return {
        None if verdict.decision is None else verdict.decision.at_ms // STEP_MS: verdict.state
        for verdict in verdicts
    }


def test_equal_histories_agree() -> None:
    verdicts = audited([decision(n) for n in range(9)], [marker(n) for n in range(9)])
    assert {verdict.state for verdict in verdicts} == {AuditState.AGREES}
    assert len(verdicts) == 9


@pytest.mark.parametrize("missing", range(6))
def test_the_decision_whose_marker_is_missing_is_named(missing: int) -> None:
    markers = [marker(n) for n in range(6) if n != missing]
    states = states_by_decision(audited([decision(n) for n in range(6)], markers))
    assert states.pop(missing) is AuditState.NO_MARKER
    assert set(states.values()) == {AuditState.AGREES}


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("index", range(4))
def test_the_other_outcome_contradicts(index: int, is_commit: bool) -> None:
    decisions = [decision(n, is_commit=is_commit) for n in range(4)]
    markers = [marker(n, is_commit=is_commit is (n != index)) for n in range(4)]
    states = states_by_decision(audited(decisions, markers))
    assert states.pop(index) is AuditState.CONTRADICTS
    assert set(states.values()) == {AuditState.AGREES}


@pytest.mark.parametrize("index", range(4))
def test_a_marker_twice_is_named_with_both(index: int) -> None:
    markers = [marker(n) for n in range(4)]
    markers.insert(index + 1, marker(index, lag_ms=30, offset=2 * index + 2))
    verdicts = audited([decision(n) for n in range(4)], markers)
    (repeated_verdict,) = (verdict for verdict in verdicts if verdict.state is AuditState.TWICE)
    assert [found_marker.at_ms - index * STEP_MS for found_marker in repeated_verdict.markers] == [
        5,
        30,
    ]
    assert Counter(verdict.state for verdict in verdicts)[AuditState.AGREES] == 3


def test_a_decision_that_is_not_completed_owes_its_marker() -> None:
    states = states_by_decision(
        audited([decision(0), decision(1, is_completed=False)], [marker(0)])
    )
    assert states == {0: AuditState.AGREES, 1: AuditState.OWED}


@pytest.mark.parametrize("first_number", [0, 1_000])
@pytest.mark.parametrize("by_epoch", [False, True])
def test_a_marker_long_after_the_completion_has_no_decision(
    by_epoch: bool, first_number: int
) -> None:
    decisions = [msgspec.structs.replace(decision(first_number), by_epoch=by_epoch)]
    verdicts = audited(decisions, [marker(first_number), marker(first_number + 60)])
    states = states_by_decision(verdicts)
    assert states == {first_number: AuditState.AGREES, None: AuditState.WITHOUT_DECISION}
    late_verdicts = audited(decisions, [marker(first_number + 60)])
    assert late_verdicts[0].state is AuditState.AGREES, "a repair is late"


@pytest.mark.parametrize(
    ("is_completed", "lag_ms", "is_repeated"),
    [
        (True, 10 + SKEW_MS, True),
        (True, 11 + SKEW_MS, False),
        (True, -10 - SKEW_MS, True),
        (True, -11 - SKEW_MS, False),
        (False, 10**12, True),
    ],
)
def test_a_marker_may_be_repeated_until_the_transaction_is_complete(
    is_completed: bool, lag_ms: int, is_repeated: bool
) -> None:
    first_marker = marker(1_000, lag_ms=0)
    later_marker = marker(1_000, lag_ms=lag_ms)
    past_decision = decision(1_000, is_completed=is_completed)
    assert is_repetition(past_decision, first_marker, later_marker) is is_repeated


def test_a_marker_in_front_of_every_decision_has_none_unless_the_log_is_cleaned() -> None:
    arguments = ([decision(50)], [marker(0), marker(50)])
    states = states_by_decision(audited(*arguments))
    assert states == {50: AuditState.AGREES, None: AuditState.WITHOUT_DECISION}
    cleaned_reach = LogReach(since_ms=4_000, reason="cleaned")
    verdicts = audited(*arguments, coordinator_reach=cleaned_reach)
    (unknown_verdict,) = (verdict for verdict in verdicts if verdict.state is AuditState.UNKNOWN)
    assert (unknown_verdict.decision, unknown_verdict.reason) == (None, "cleaned")


def test_what_retention_took_is_unknown() -> None:
    reach = LogReach(since_ms=5_000, reason="retention")
    decisions = [decision(0), decision(80), decision(90)]
    verdicts = audited(decisions, [marker(90)], partition_reach=reach)
    assert states_by_decision(verdicts) == {
        0: AuditState.UNKNOWN,
        80: AuditState.NO_MARKER,
        90: AuditState.AGREES,
    }


def test_a_partition_without_a_log_is_unknown() -> None:
    (verdict,) = audited([decision(0)], [], partition_reach=LogReach.absent("no replica"))
    assert (verdict.state, verdict.reason) == (AuditState.UNKNOWN, "no replica")


def test_a_copy_that_ends_before_the_completion_is_recent() -> None:
    (verdict,) = audited([decision(9)], [], partition_reach=LogReach(until_ms=905))
    assert verdict.state is AuditState.UNKNOWN
    assert verdict.reason.startswith("recent")


@pytest.mark.parametrize("lag_ms", [-90_000, 0, 90_000])
def test_transactions_v2_are_paired_by_epoch_whatever_the_clocks_say(lag_ms: int) -> None:
    decision_by_epoch = AuditedDecision(
        coordinator=0, offset=1, at_ms=100_000, is_commit=True, by_epoch=True, completed_ms=100_001
    )
    (verdict,) = audited([decision_by_epoch], [marker(1_000, lag_ms=lag_ms)])
    assert verdict.state is AuditState.AGREES
    (verdict,) = audited([decision_by_epoch], [marker(1_000, lag_ms=lag_ms, is_commit=False)])
    assert verdict.state is AuditState.CONTRADICTS
    (verdict,) = audited([decision_by_epoch], [])
    assert verdict.state is AuditState.NO_MARKER


def test_what_is_missing_becomes_unknown_where_a_gap_is_found_later() -> None:
    log_reach = LogReach(since_ms=10**9, reason="a gap")
    past_decision, lone_marker = decision(50), marker(90)
    verdicts = audited([past_decision], [lone_marker])
    verdicts += audited([past_decision], []) + audited([], [lone_marker])
    states = [verdict.state for verdict in verdicts]
    missing = (AuditState.NO_MARKER, AuditState.WITHOUT_DECISION)
    assert states[1:] == [*missing]
    for has_partition_gap, has_coordinator_gap in ((False, False), (True, False), (False, True)):
        final_verdicts = [
            with_final_reach(
                verdict,
                partition_reach=log_reach if has_partition_gap else WHOLE,
                coordinator_reach=log_reach if has_coordinator_gap else WHOLE,
            )
            for verdict in verdicts
        ]
        assert final_verdicts[0] is verdicts[0]
        assert [(verdict.state, verdict.reason) for verdict in final_verdicts[1:]] == [
            (AuditState.UNKNOWN, "a gap") if has_gap else (state, "")
            for state, has_gap in zip(
                missing, (has_partition_gap, has_coordinator_gap), strict=True
            )
        ]


def test_a_lost_and_a_repeated_marker_leave_a_doubt() -> None:
    """Clocks of two leaders could explain it, too, so it is neither an alarm nor agreement."""
    markers = [marker(0, lag_ms=1), *(marker(n) for n in (1, 3, 4, 5))]
    markers.insert(4, marker(4, lag_ms=30, offset=10))
    states = states_by_decision(audited([decision(n) for n in range(6)], markers))
    assert [number for number, state in states.items() if state is AuditState.UNKNOWN] == [2, 3]
    assert {states[number] for number in (0, 1, 4, 5)} == {AuditState.AGREES}


class History(NamedTuple):
    """Decisions of coordinators, and the markers of the partitions' logs."""

    decisions: list[AuditedDecision]
    markers: list[AuditedMarker]


@st.composite
def healthy_histories(draw: st.DrawFn, max_skew_ms: int) -> History:
    """Decisions and their markers, each marker between its decision and the completion, by the
    clocks of two brokers. The leader's clock differs by a constant.
    """
    skew_ms = draw(st.integers(-max_skew_ms, max_skew_ms))
    now_ms = 10_000_000
    decisions: list[AuditedDecision] = []
    markers: list[AuditedMarker] = []
    for number in range(draw(st.integers(1, 25))):
        now_ms += draw(st.sampled_from([0, 1, 3, 40, 2_500]))
        decided_ms, is_commit = now_ms, draw(st.booleans())
        now_ms += draw(st.integers(0, 20))
        markers.append(
            AuditedMarker(offset=2 * number + 1, at_ms=now_ms + skew_ms, is_commit=is_commit)
        )
        now_ms += draw(st.integers(0, 5))
        decisions.append(
            AuditedDecision(
                coordinator=0,
                offset=3 * number,
                at_ms=decided_ms,
                is_commit=is_commit,
                completed_ms=now_ms,
            )
        )
    return History(decisions, markers)


@settings(max_examples=300)
@given(healthy_histories(SKEW_MS))
def test_no_alarm_without_a_fault(history: History) -> None:
    """Clocks that differ by up to a second can make a verdict unknown, but never an alarm."""
    states = {verdict.state for verdict in audited(*history)}
    assert states <= {AuditState.AGREES, AuditState.UNKNOWN}


@settings(max_examples=200)
@given(healthy_histories(CLOCK_TOLERANCE_MS // 2))
def test_nothing_is_unknown_where_clocks_agree(history: History) -> None:
    verdicts = audited(*history)
    assert [verdict.state for verdict in verdicts] == [AuditState.AGREES] * len(history.decisions)


@settings(max_examples=300)
@given(healthy_histories(0), st.data())
def test_one_lost_marker_is_one_finding(history: History, data: st.DataObject) -> None:
    lost_index = data.draw(st.integers(0, len(history.markers) - 1))
    markers = [
        found_marker for number, found_marker in enumerate(history.markers) if number != lost_index
    ]
    counts = Counter(verdict.state for verdict in audited(history.decisions, markers))
    del counts[AuditState.AGREES]
    assert sum(counts.values()) >= 1
    # Of two in the same millisecond nobody can say which; but one is missing.
    assert counts[AuditState.NO_MARKER] + counts[AuditState.CONTRADICTS] >= 1


@settings(max_examples=300)
@given(healthy_histories(0), st.data())
def test_one_wrong_marker_is_a_finding(history: History, data: st.DataObject) -> None:
    wrong_index = data.draw(st.integers(0, len(history.markers) - 1))
    markers = [
        AuditedMarker(
            offset=found_marker.offset,
            at_ms=found_marker.at_ms,
            is_commit=found_marker.is_commit is (number != wrong_index),
        )
        for number, found_marker in enumerate(history.markers)
    ]
    states = {verdict.state for verdict in audited(history.decisions, markers)}
    assert states & {AuditState.CONTRADICTS, AuditState.NO_MARKER}


# What is known at the end


def final_verdict(verdict: AuditVerdict, reach: LogReach) -> AuditVerdict:
    return with_final_reach(verdict, partition_reach=reach, coordinator_reach=reach)


def test_a_gap_that_is_found_later_makes_a_missing_counterpart_unknown() -> None:
    (unmarked_verdict,) = audited([decision(5)], [])
    (lone_verdict,) = audited([], [marker(5)])
    later_reach = LogReach(since_ms=100 * STEP_MS, reason="compacted")
    for verdict in (unmarked_verdict, lone_verdict):
        final = final_verdict(verdict, later_reach)
        assert (final.state, final.reason) == (AuditState.UNKNOWN, "compacted")
        assert (final.decision, final.markers) == (verdict.decision, verdict.markers)
        assert final_verdict(verdict, WHOLE) == verdict
        earlier_reach = LogReach(since_ms=-100 * STEP_MS - SKEW_MS, reason="compacted")
        assert final_verdict(verdict, earlier_reach) == verdict


def test_what_was_seen_is_no_less_seen_for_a_later_gap() -> None:
    (agreed_verdict,) = audited([decision(5)], [marker(5)])
    later_reach = LogReach(since_ms=100 * STEP_MS, reason="compacted")
    assert agreed_verdict.state is AuditState.AGREES
    assert final_verdict(agreed_verdict, later_reach) is agreed_verdict
