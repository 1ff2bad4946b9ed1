"""Moves of records in flight: every cell of the table, their settling and their taking back."""

from __future__ import annotations

from itertools import product

import pytest

from txnsim.share._in_flight_state import STATE_MOVES, InFlightBatch, InFlightState
from txnsim.share.commands import RecordState, SharePartitionSettings

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
SETTINGS = SharePartitionSettings(delivery_count_limit=5)
DEAD = SharePartitionSettings(delivery_count_limit=5, has_dead_letter_topic=True)
FROM_ACQUIRED = {(ACQUIRED, to) for to in RecordState} - {(ACQUIRED, ACQUIRED)}
FROM_ARCHIVING = {(ARCHIVING, to) for to in RecordState} - {(ARCHIVING, ARCHIVING)}
LEGAL = {(AVAILABLE, ACQUIRED)} | FROM_ACQUIRED | FROM_ARCHIVING


def state(
    record_state: RecordState = ACQUIRED,
    delivery_count: int = 1,
    lock: int | None = 100,
    first_offset: int = 0,
) -> InFlightState:
    member = "a" if record_state is ACQUIRED else ""
    return InFlightState(first_offset, first_offset + 9, record_state, delivery_count, member, lock)


@pytest.mark.parametrize(("state_before", "state_after"), [*product(RecordState, RecordState)])
def test_every_move(state_before: RecordState, state_after: RecordState) -> None:
    in_flight = state(state_before)
    assert (state_after in STATE_MOVES[state_before]) == ((state_before, state_after) in LEGAL)
    if state_after in STATE_MOVES[state_before]:
        in_flight.move(state_after, SETTINGS, member_id="b")
        assert (in_flight.state, in_flight.member_id) == (state_after, "b")
        assert in_flight.delivery_count == 1 + (state_after is ACQUIRED)
    else:
        with pytest.raises(AssertionError):
            in_flight.move(state_after, SETTINGS)


@pytest.mark.parametrize(
    ("count", "settings", "state_after"),
    [
        (4, SETTINGS, AVAILABLE),
        (5, SETTINGS, ARCHIVED),
        (6, SETTINGS, ARCHIVED),
        (4, DEAD, AVAILABLE),
        (5, DEAD, ARCHIVING),
    ],
)
def test_what_was_delivered_often_enough_is_not_available_again(
    count: int, settings: SharePartitionSettings, state_after: RecordState
) -> None:
    in_flight = state(delivery_count=count)
    in_flight.move(AVAILABLE, settings)
    assert in_flight.state is state_after


def test_nothing_moves_while_a_move_is_being_persisted() -> None:
    in_flight = state()
    in_flight.move(AVAILABLE, SETTINGS, token=1)
    was_acquirable = in_flight.is_acquirable
    with pytest.raises(AssertionError):
        in_flight.move(ACQUIRED, SETTINGS)
    in_flight.commit()
    assert (was_acquirable, in_flight.is_acquirable, in_flight.lock_deadline_ms) == (
        False,
        True,
        None,
    )


@pytest.mark.parametrize(
    ("count", "now_ms", "state_after", "member", "lock"),
    [
        (1, 99, ACQUIRED, "a", 100),
        (1, 100, AVAILABLE, "", None),
        (4, 100, AVAILABLE, "", None),
        (5, 100, ARCHIVED, "", None),
    ],
)
def test_a_move_is_taken_back(
    count: int, now_ms: int, state_after: RecordState, member: str, lock: int | None
) -> None:
    in_flight = state(delivery_count=count)
    in_flight.move(ACKNOWLEDGED, SETTINGS, token=1)
    assert not in_flight.is_complete
    in_flight.roll_back(now_ms)
    assert (in_flight.state, in_flight.member_id, in_flight.lock_deadline_ms) == (
        state_after,
        member,
        lock,
    )


def test_what_the_log_has_lost_meanwhile_does_not_come_back() -> None:
    in_flight = state()
    in_flight.move(AVAILABLE, SETTINGS, token=1)
    in_flight.archive()
    assert not in_flight.is_complete
    in_flight.roll_back(0)
    assert in_flight.is_complete


def test_a_batch_is_cut() -> None:
    batch = InFlightBatch(state(), state(AVAILABLE, first_offset=10))
    batch.states[0].move(ACKNOWLEDGED, SETTINGS, token=4)
    assert batch.is_by_offset
    assert batch.size == 20

    def parts(states: list[InFlightState]) -> list[tuple[int, int]]:
        return [(in_flight.first_offset, in_flight.last_offset) for in_flight in states]

    assert parts(batch.states_within(8, 12)) == [(0, 9), (10, 19)]
    assert parts(batch.states_within(20, 30)) == []
    assert parts(batch.cut_states(8, 12)) == [(8, 9), (10, 12)]
    assert parts(batch.states) == [(0, 7), (8, 9), (10, 12), (13, 19)]
    assert parts(batch.cut_states(0, 99)) == parts(batch.states)
    assert batch.states[1].transition == batch.states[0].transition is not None


def test_a_whole_batch_is_not_cut() -> None:
    batch = InFlightBatch(state())
    assert batch.cut_states(0, 9) == batch.states
    with pytest.raises(AssertionError):
        batch.cut_states(0, 5)
