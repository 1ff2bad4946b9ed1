"""KIP-890's guard: every event that makes, keeps, changes or removes an entry."""

from __future__ import annotations

import pytest

from txnsim.log.verification import SENTINEL, VerificationEntries


def start(
    verification: VerificationEntries,
    *,
    pid: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    tv2: bool = False,
    now: int = 0,
) -> int:
    return verification.start(
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        supports_epoch_bump=tv2,
        now_ms=now,
    )


def test_a_guard_is_never_the_sentinel_and_never_used_twice() -> None:
    verification = VerificationEntries()
    guards = [start(verification, pid=pid) for pid in range(3)]
    verification.clear()
    guards += [start(verification, pid=pid) for pid in range(3)]
    assert SENTINEL not in guards
    assert len(set(guards)) == 6


def test_the_sentinel_never_matches() -> None:
    verification = VerificationEntries()
    assert not verification.matches(7, SENTINEL)
    guard = start(verification)
    assert not verification.matches(7, SENTINEL)
    assert verification.matches(7, guard)
    assert not verification.matches(8, guard)


@pytest.mark.parametrize(
    ("epoch", "sequence", "lowest", "epoch_then"),
    [
        (3, 4, 4, 3),  # same epoch, lower: lowered
        (3, 6, 5, 3),  # same epoch, higher: kept
        (4, 9, 9, 4),  # higher epoch: replaced, even by a higher sequence
        (2, 0, 5, 3),  # lower epoch: kept
    ],
)
def test_joining_an_entry_keeps_the_guard(
    epoch: int, sequence: int, lowest: int, epoch_then: int
) -> None:
    verification = VerificationEntries()
    guard = start(verification, epoch=3, sequence=5)
    assert start(verification, epoch=epoch, sequence=sequence, tv2=True) == guard
    entry = verification.find(7)
    assert entry is not None
    assert (entry.lowest_sequence, entry.producer_epoch) == (lowest, epoch_then)
    assert not entry.supports_epoch_bump  # fixed when the entry is made


@pytest.mark.parametrize(
    ("tv2", "marker_epoch", "kept"),
    [(True, 6, True), (True, 7, False), (True, 5, False), (False, 6, False)],
)
def test_a_marker_removes_the_entry_unless_it_is_a_retry_of_the_previous_one(
    tv2: bool, marker_epoch: int, kept: bool
) -> None:
    """KAFKA-18575."""
    verification = VerificationEntries()
    guard = start(verification, epoch=6, tv2=tv2)
    verification.on_marker(7, marker_epoch)
    assert verification.matches(7, guard) is kept


def test_a_marker_of_a_producer_that_waits_for_nothing_changes_nothing() -> None:
    verification = VerificationEntries()
    guard = start(verification)
    verification.on_marker(8, 0)
    assert verification.matches(7, guard)


def test_entries_expire_by_their_own_age() -> None:
    verification = VerificationEntries()
    start(verification, pid=1, now=0)
    start(verification, pid=2, now=1)
    start(verification, pid=1, now=5)  # joining does not make it younger
    verification.expire(now_ms=10, expiration_ms=10)
    assert verification.find(1) is None
    assert verification.find(2) is not None
