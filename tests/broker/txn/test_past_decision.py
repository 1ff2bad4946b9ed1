"""What was decided about a transaction that hangs: committed, aborted or not known."""

from __future__ import annotations

import pytest

from txnsim.txn.past_decision import Decision, Newest, Noted, decided, decided_by_log
from txnsim.types import TopicPartition

PID, EPOCH, WRITTEN_MS = 7, 3, 1_000
BEFORE, AFTER = WRITTEN_MS - 100, WRITTEN_MS + 100
COMMITTED, ABORTED, UNKNOWN = Decision.COMMITTED, Decision.ABORTED, Decision.UNKNOWN


@pytest.mark.parametrize(
    ("state", "epoch", "start_ms", "expected"),
    [
        # Transactions v2: the entry is one epoch further.
        ("CompleteCommit", EPOCH + 1, BEFORE, COMMITTED),
        ("CompleteAbort", EPOCH + 1, BEFORE, ABORTED),
        # Before: one epoch has many transactions, and the newest is meant if it began before.
        ("CompleteCommit", EPOCH, BEFORE, COMMITTED),
        ("CompleteAbort", EPOCH, BEFORE, ABORTED),
        ("CompleteCommit", EPOCH, AFTER, UNKNOWN),
        ("CompleteAbort", EPOCH, AFTER, UNKNOWN),
        ("CompleteCommit", EPOCH + 1, AFTER, UNKNOWN),
        ("CompleteCommit", EPOCH + 1, None, UNKNOWN),
        # Decided, and this partition was dropped while others are still owed their marker.
        ("PrepareCommit", EPOCH + 1, BEFORE, COMMITTED),
        ("PrepareAbort", EPOCH, BEFORE, ABORTED),
        # Never begun at this epoch, gone on, or another transaction.
        ("Empty", EPOCH, None, ABORTED),
        ("Empty", EPOCH + 1, None, UNKNOWN),
        ("Ongoing", EPOCH + 1, BEFORE, UNKNOWN),
        ("Ongoing", EPOCH, BEFORE, UNKNOWN),
        ("CompleteCommit", EPOCH + 2, BEFORE, UNKNOWN),
        ("CompleteCommit", EPOCH - 1, BEFORE, UNKNOWN),
    ],
)
def test_by_state_epoch_and_clock(
    state: str, epoch: int, start_ms: int | None, expected: Decision
) -> None:
    newest = Newest(state=state, producer_id=PID, producer_epoch=epoch, start_time_ms=start_ms)
    assert decided(PID, EPOCH, WRITTEN_MS, newest).decision is expected


def test_who_has_gone_on_tells_nothing() -> None:
    assert decided(PID, EPOCH, WRITTEN_MS, None).decision is UNKNOWN
    other = Newest(state="CompleteCommit", producer_id=8, producer_epoch=0, start_time_ms=BEFORE)
    found = decided(PID, EPOCH, WRITTEN_MS, other)
    assert found.decision is UNKNOWN
    assert "goes on as producer 8" in str(found)


def test_it_says_which_marker_ends_it() -> None:
    def said(state: str) -> str:
        newest = Newest(state=state, producer_id=PID, producer_epoch=EPOCH, start_time_ms=BEFORE)
        return str(decided(PID, EPOCH, WRITTEN_MS, newest))

    commit = "It was committed: end it with COMMIT, as its coordinator says CompleteCommit"
    assert said("CompleteCommit") == commit
    assert said("CompleteAbort").startswith("It was not committed: end it with ABORT")


HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def note(
    state: str, epoch: int = EPOCH, place: TopicPartition = HERE, *, is_v2: bool = False
) -> Noted:
    return Noted(
        state=state,
        producer_id=PID,
        producer_epoch=epoch,
        partitions=frozenset({place}),
        is_v2=is_v2,
    )


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([note("PrepareCommit"), note("CompleteCommit")], COMMITTED),
        ([note("PrepareCommit", EPOCH + 1, is_v2=True)], COMMITTED),
        ([note("PrepareAbort", EPOCH + 1)], ABORTED),  # a fence
        ([note("PrepareCommit"), note("PrepareAbort", place=THERE)], COMMITTED),
        ([note("PrepareCommit"), note("PrepareAbort")], ABORTED),
        ([note("PrepareCommit", EPOCH + 1)], None),  # a later transaction of an older protocol
        ([note("PrepareCommit", is_v2=True)], None),  # the one before
        ([note("PrepareCommit", EPOCH + 2, is_v2=True)], None),
        ([note("Ongoing"), note("CompleteCommit")], None),
        ([note("PrepareCommit", place=THERE)], None),
        ([], None),
    ],
)
def test_the_log_tells_of_transactions_that_are_long_over(
    log: list[Noted], expected: Decision | None
) -> None:
    found = decided_by_log(HERE, PID, EPOCH, log)
    assert (None if found is None else found.decision) == expected
    assert decided_by_log(HERE, PID + 1, EPOCH, log) is None
