"""Sessions of brokers, as BrokerHeartbeatManagerTest has them."""

from __future__ import annotations

import pytest

from tests.support.images import B1, B2, B3
from txnsim.controller.broker_sessions import BrokerSessions, BrokerState
from txnsim.interbroker.lifecycle import BrokerHeartbeatCommand
from txnsim.types import BrokerId

FENCED, UNFENCED, LEAVING, GONE = BrokerState


def beat(
    broker_id: BrokerId = B1, *, offset: int = 10, fence: bool = False, shut_down: bool = False
) -> BrokerHeartbeatCommand:
    return BrokerHeartbeatCommand(
        broker_id=broker_id,
        broker_epoch=1,
        metadata_offset=offset,
        want_fence=fence,
        want_shut_down=shut_down,
    )


def sessions(*states: BrokerState) -> BrokerSessions:
    """Brokers 1, 2, … in these states, heard of at 0."""
    found = BrokerSessions(timeout_ms=9_000)
    for number, state in enumerate(states, 1):
        one = BrokerId(number)
        found.register(one, is_fenced=True, now_ms=0)
        found.heard(beat(one), state, now_ms=0, metadata_offset=10)
    return found


@pytest.mark.parametrize(
    ("before", "command", "leads", "expected"),
    [
        (FENCED, beat(offset=10), False, UNFENCED),
        (FENCED, beat(offset=9), False, FENCED),
        (FENCED, beat(fence=True), False, FENCED),
        (FENCED, beat(shut_down=True), False, GONE),
        (UNFENCED, beat(offset=0), True, UNFENCED),
        (UNFENCED, beat(fence=True), True, FENCED),
        (UNFENCED, beat(fence=True, shut_down=True), True, GONE),
        (UNFENCED, beat(shut_down=True), True, LEAVING),
        (UNFENCED, beat(shut_down=True), False, GONE),
        (LEAVING, beat(shut_down=True), True, LEAVING),
        (LEAVING, beat(shut_down=True), False, GONE),
    ],
)
def test_what_a_heartbeat_leads_to(
    before: BrokerState, command: BrokerHeartbeatCommand, leads: bool, expected: BrokerState
) -> None:
    found = sessions(before).next_state(command, registered_at=10, leads=lambda: leads)
    assert found is expected
    assert found.is_fenced == (found in (FENCED, GONE))


def test_a_controlled_shutdown_waits_until_the_others_know() -> None:
    found = sessions(UNFENCED, UNFENCED, FENCED)
    found.heard(beat(shut_down=True), LEAVING, now_ms=1, metadata_offset=12)
    ask = beat(shut_down=True, offset=12)
    assert found.next_state(ask, registered_at=1, leads=lambda: False) is LEAVING
    found.heard(beat(shut_down=True), LEAVING, now_ms=2, metadata_offset=99)
    found.heard(beat(B2, offset=12), UNFENCED, now_ms=2, metadata_offset=12)
    assert found.next_state(ask, registered_at=1, leads=lambda: False) is GONE
    found.heard(ask, GONE, now_ms=3, metadata_offset=12)
    assert found.state(B1) is FENCED


def test_a_session_ends_without_a_heartbeat_and_goes_on_with_one() -> None:
    found = sessions(UNFENCED, UNFENCED, UNFENCED)
    assert found.next_deadline_ms() == 9_000
    found.heard(beat(B2), UNFENCED, now_ms=5_000, metadata_offset=10)
    assert found.expired(8_999) is None
    assert found.expired(9_000) is B1
    assert found.has_session(B1, 8_999)
    assert not found.has_session(B1, 9_000)
    found.fence(B1)
    assert found.state(B1) is FENCED
    assert not found.has_session(B1, 0), "until it is heard of again"
    assert found.expired(9_000) is B3
    found.fence(B3)
    assert found.next_deadline_ms() == 14_000
    found.fence(B2)
    assert found.next_deadline_ms() is None


def test_where_no_broker_could_be_heard_open_sessions_begin_anew() -> None:
    found = sessions(UNFENCED, UNFENCED)
    found.fence(B2)
    found.renew(5_000)
    assert found.next_deadline_ms() == 14_000
    assert found.expired(14_000) is B1
    assert not found.has_session(B2, 5_000), "it had ended before"


def test_an_advance_leaves_open_sessions_a_moment() -> None:
    found = sessions(UNFENCED, UNFENCED)
    found.fence(B2)
    found.grant(8_000, 500)
    assert found.next_deadline_ms() == 9_000, "it goes on for longer anyhow"
    found.grant(20_000, 500)
    assert found.next_deadline_ms() == 20_500
    assert not found.has_session(B2, 20_000), "it had ended before"


def test_a_broker_that_is_not_registered_has_neither_state_nor_session() -> None:
    found = sessions()
    assert found.state(B1) is None
    assert not found.has_session(B1, 0)


def test_a_new_incarnation_starts_over() -> None:
    found = sessions(LEAVING)
    found.register(B1, is_fenced=True, now_ms=100)
    assert found.state(B1) is FENCED
    assert found.next_deadline_ms() == 9_100
