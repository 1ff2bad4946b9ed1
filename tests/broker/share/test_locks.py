"""Deadlines of locks come in the order of time, and do not pile up."""

from __future__ import annotations

from txnsim.share._locks import LockDeadline, LockDeadlines


def test_deadlines_are_due_in_the_order_of_time() -> None:
    locks = LockDeadlines()
    empty = locks.next_deadline_ms()
    for deadline_ms in (30, 10, 20):
        locks.add(LockDeadline(deadline_ms, deadline_ms, deadline_ms + 1))
    assert (empty, locks.next_deadline_ms()) == (None, 10)
    assert [lock.deadline_ms for lock in locks.pop_due(20)] == [10, 20]
    assert locks.next_deadline_ms() == 30
    assert list(locks.pop_due(29)) == []


def test_what_counts_no_more_is_cleaned_up_when_it_is_the_half() -> None:
    locks = LockDeadlines()
    littered = []
    for deadline_ms in range(65):
        locks.add(LockDeadline(deadline_ms, 0, 0))
        littered.append(locks.needs_cleanup)
    assert littered == [*(64 * [False]), True]
    locks.keep_valid(lambda lock: lock.deadline_ms >= 5)
    littered.clear()
    for deadline_ms in range(61):
        locks.add(LockDeadline(deadline_ms, 0, 0))
        littered.append(locks.needs_cleanup)
    assert littered == [*(60 * [False]), True]
    assert locks.next_deadline_ms() == 0
