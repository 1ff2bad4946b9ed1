"""Moves of records in flight: every cell of the table, their settling and their taking back."""

from __future__ import annotations

from itertools import product

import pytest

from txnsim.share._in_flight_state import MOVES, InFlightBatch, InFlightState
from txnsim.share.commands import RecordState, ShareSettings

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
SETTINGS = ShareSettings(delivery_count_limit=5)
DEAD = ShareSettings(delivery_count_limit=5, has_dead_letter_topic=True)
FROM_ACQUIRED = {(ACQUIRED, to) for to in RecordState} - {(ACQUIRED, ACQUIRED)}
FROM_ARCHIVING = {(ARCHIVING, to) for to in RecordState} - {(ARCHIVING, ARCHIVING)}
LEGAL = {(AVAILABLE, ACQUIRED)} | FROM_ACQUIRED | FROM_ARCHIVING


def state(
    of: RecordState = ACQUIRED, count: int = 1, lock: int | None = 100, first: int = 0
) -> InFlightState:
    member = "a" if of is ACQUIRED else ""
    return InFlightState(first, first + 9, of, count, member, lock)


@pytest.mark.parametrize(("before", "after"), [*product(RecordState, RecordState)])
def test_every_move(before: RecordState, after: RecordState) -> None:
    one = state(before)
    assert (after in MOVES[before]) == ((before, after) in LEGAL)
    if after in MOVES[before]:
        one.move(after, SETTINGS, member_id="b")
        assert (one.state, one.member_id) == (after, "b")
        assert one.delivery_count == 1 + (after is ACQUIRED)
    else:
        with pytest.raises(AssertionError):
            one.move(after, SETTINGS)


@pytest.mark.parametrize(
    ("count", "settings", "after"),
    [
        (4, SETTINGS, AVAILABLE),
        (5, SETTINGS, ARCHIVED),
        (6, SETTINGS, ARCHIVED),
        (4, DEAD, AVAILABLE),
        (5, DEAD, ARCHIVING),
    ],
)
def test_what_was_delivered_often_enough_is_not_available_again(
    count: int, settings: ShareSettings, after: RecordState
) -> None:
    one = state(count=count)
    one.move(AVAILABLE, settings)
    assert one.state is after


def test_nothing_moves_while_a_move_is_being_persisted() -> None:
    one = state()
    one.move(AVAILABLE, SETTINGS, token=1)
    before = one.is_acquirable
    with pytest.raises(AssertionError):
        one.move(ACQUIRED, SETTINGS)
    one.commit()
    assert (before, one.is_acquirable, one.lock_deadline_ms) == (False, True, None)


@pytest.mark.parametrize(
    ("count", "now_ms", "after", "member", "lock"),
    [
        (1, 99, ACQUIRED, "a", 100),
        (1, 100, AVAILABLE, "", None),
        (4, 100, AVAILABLE, "", None),
        (5, 100, ARCHIVED, "", None),
    ],
)
def test_a_move_is_taken_back(
    count: int, now_ms: int, after: RecordState, member: str, lock: int | None
) -> None:
    one = state(count=count)
    one.move(ACKNOWLEDGED, SETTINGS, token=1)
    assert not one.is_complete
    one.roll_back(now_ms)
    assert (one.state, one.member_id, one.lock_deadline_ms) == (after, member, lock)


def test_what_the_log_has_lost_meanwhile_does_not_come_back() -> None:
    one = state()
    one.move(AVAILABLE, SETTINGS, token=1)
    one.archive()
    assert not one.is_complete
    one.roll_back(0)
    assert one.is_complete


def test_a_batch_is_cut() -> None:
    batch = InFlightBatch(state(), state(AVAILABLE, first=10))
    batch.states[0].move(ACKNOWLEDGED, SETTINGS, token=4)
    assert batch.is_by_offset
    assert batch.size == 20

    def parts(found: list[InFlightState]) -> list[tuple[int, int]]:
        return [(one.first_offset, one.last_offset) for one in found]

    assert parts(batch.within(8, 12)) == [(0, 9), (10, 19)]
    assert parts(batch.within(20, 30)) == []
    assert parts(batch.cut(8, 12)) == [(8, 9), (10, 12)]
    assert parts(batch.states) == [(0, 7), (8, 9), (10, 12), (13, 19)]
    assert parts(batch.cut(0, 99)) == parts(batch.states)
    assert batch.states[1].transition == batch.states[0].transition is not None


def test_a_whole_batch_is_not_cut() -> None:
    batch = InFlightBatch(state())
    assert batch.cut(0, 9) == batch.states
    with pytest.raises(AssertionError):
        batch.cut(0, 5)
