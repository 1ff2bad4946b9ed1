"""Decisions and markers that are judged while they are being read: the verdicts are those of all at
once, and what is judged is not kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from txnsim.runtime.rng import RandomStreams
from txnsim.txn.decision_audit import (
    AuditedDecision,
    AuditedMarker,
    AuditState,
    AuditVerdict,
    LogReach,
    audit_epoch,
)
from txnsim.txn.decision_ledger import NEIGHBOURS, PAUSE_MS, DecisionLedger, EpochPlace
from txnsim.types import TopicPartition

WHOLE = LogReach()
ORDERS = TopicPartition("orders", 0)
PLACE = EpochPlace(7, 0, ORDERS)
Stream = list[tuple[EpochPlace, AuditedDecision | AuditedMarker]]


def decision(
    offset: int, at_ms: int, *, is_commit: bool = True, by_epoch: bool = False
) -> AuditedDecision:
    return AuditedDecision(
        coordinator=0,
        offset=offset,
        at_ms=at_ms,
        is_commit=is_commit,
        by_epoch=by_epoch,
        completed_ms=at_ms + 5,
    )


def marker(offset: int, at_ms: int, *, is_commit: bool = True) -> AuditedMarker:
    return AuditedMarker(offset=offset, at_ms=at_ms, is_commit=is_commit)


def ledger_of() -> DecisionLedger:
    return DecisionLedger(lambda _: (WHOLE, WHOLE))


def stream_of(transaction_count: int, *, by_epoch: bool, gap_ms: int, seed: int) -> Stream:
    """Transactions of which one in 400 has no marker, another outcome, or a marker twice."""
    rng = RandomStreams(seed).stream("transactions")
    stream: Stream = []
    for number in range(transaction_count):
        at_ms = 1_000_000 + number * gap_ms
        place = EpochPlace(7, number, ORDERS) if by_epoch else PLACE
        is_commit = rng.random() < 0.7
        stream.append((place, decision(number, at_ms, is_commit=is_commit, by_epoch=by_epoch)))
        damage = rng.choice(["lost", "turned", "twice"]) if number % 400 == 200 else "sound"
        if damage != "lost":
            stream.append(
                (place, marker(2 * number, at_ms + 2, is_commit=is_commit ^ (damage == "turned")))
            )
        if damage == "twice":
            stream.append((place, marker(2 * number + 1, at_ms + 4, is_commit=is_commit)))
    return stream


def verdict_key(place: EpochPlace, verdict: AuditVerdict) -> tuple[object, ...]:
    return (
        place,
        verdict.state,
        None if verdict.decision is None else verdict.decision.offset,
        tuple(audited_marker.offset for audited_marker in verdict.markers),
    )


def judged_at_once(stream: Stream) -> Counter[tuple[object, ...]]:
    items: defaultdict[EpochPlace, list[AuditedDecision | AuditedMarker]] = defaultdict(list)
    for place, item in stream:
        items[place].append(item)
    keys: Counter[tuple[object, ...]] = Counter()
    for place, place_items in items.items():
        for verdict in audit_epoch(
            [item for item in place_items if isinstance(item, AuditedDecision)],
            [item for item in place_items if isinstance(item, AuditedMarker)],
            partition_reach=WHOLE,
            coordinator_reach=WHOLE,
        ):
            keys[verdict_key(place, verdict)] += 1
    return keys


@pytest.mark.parametrize("draw", range(3))
@pytest.mark.parametrize(
    ("by_epoch", "gap_ms"), [(True, 20), (False, 20), (False, 3 * PAUSE_MS)], ids=str
)
def test_verdicts_are_those_of_all_at_once_and_little_is_kept(
    by_epoch: bool, gap_ms: int, draw: int
) -> None:
    stream = stream_of(4_000, by_epoch=by_epoch, gap_ms=gap_ms, seed=draw)
    ledger, keys = ledger_of(), Counter[tuple[object, ...]]()
    kept_most = 0
    for number, (place, item) in enumerate(stream):
        if isinstance(item, AuditedDecision):
            ledger.add_decision(place, item)
        else:
            ledger.add_marker(place, item)
        if number % 50 == 49:
            for judged in ledger.settle(item.at_ms, frozenset()):
                keys[verdict_key(*judged)] += 1
            kept_most = max(kept_most, ledger.kept_count)
    for judged in ledger.finish():
        keys[verdict_key(*judged)] += 1
    assert ledger.kept_count == 0
    assert keys == judged_at_once(stream)
    assert len({key[1] for key in keys}) >= 3, "some agree, and some do not"
    in_a_pause = 4 * PAUSE_MS // gap_ms
    assert kept_most <= in_a_pause + 8 * NEIGHBOURS + 100, "of 8,000"


def test_a_marker_waits_for_a_decision_that_is_not_complete_yet() -> None:
    ledger = ledger_of()
    ledger.add_marker(PLACE, marker(5, 1_000))
    late_ms = 1_000 + 2 * PAUSE_MS
    assert [*ledger.settle(late_ms, frozenset({7}))] == []
    ledger.add_decision(PLACE, decision(1, 990))
    assert [judged.verdict.state for judged in ledger.settle(late_ms, frozenset())] == [
        AuditState.AGREES
    ]
    assert ledger.kept_count == 0


def test_a_marker_without_a_decision_is_judged_once_its_time_is_past() -> None:
    ledger = ledger_of()
    ledger.add_marker(PLACE, marker(5, 1_000))
    assert [*ledger.settle(1_000 + PAUSE_MS, frozenset())] == []
    assert [judged.verdict.state for judged in ledger.settle(1_001 + PAUSE_MS, frozenset())] == [
        AuditState.WITHOUT_DECISION
    ]


def test_a_decision_without_a_marker_is_kept_to_the_end() -> None:
    ledger = ledger_of()
    place = EpochPlace(7, 3, ORDERS)
    ledger.add_decision(place, decision(1, 1_000, by_epoch=True))
    assert [*ledger.settle(10**12, frozenset())] == []
    ledger.add_decision(EpochPlace(7, 4, ORDERS), decision(2, 2_000, by_epoch=True))
    ledger.add_marker(EpochPlace(7, 4, ORDERS), marker(6, 2_001))
    ledger.add_marker(EpochPlace(7, 5, ORDERS), marker(7, 3_000))
    assert ledger.unmarked_epochs() == {(7, ORDERS): {3}}
    assert [judged.verdict.state for judged in ledger.finish()] == [
        AuditState.NO_MARKER,
        AuditState.AGREES,
        AuditState.WITHOUT_DECISION,
    ]
