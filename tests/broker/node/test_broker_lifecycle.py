"""A broker's registration, heartbeats and shutdown, against a controller that is a list of
answers.
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.coordinator import ManualClock
from tests.support.images import B1
from tests.support.peer_network import RecordingNetwork
from txnsim.errors import ErrorCode, PeerDisconnectedError, PeerTimeoutError
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.node.broker_lifecycle import BrokerLifecycle
from txnsim.node.peers import Peers
from txnsim.settings import DEFAULTS

UNFENCED = BrokerHeartbeatReply(is_caught_up=True, is_fenced=False)
FENCED = BrokerHeartbeatReply(is_caught_up=False)
GO = BrokerHeartbeatReply(should_shut_down=True)
REGISTRATION = BrokerRegistrationCommand(
    broker_id=B1, cluster_id="c", incarnation_id=uuid.UUID(int=1), host="h", port=1
)


class World:
    """A broker's side; the test answers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = RecordingNetwork()
        self.told: list[object] = []
        self.lifecycle = BrokerLifecycle(
            broker_id=B1,
            peers=Peers(
                network=self.network,  # type: ignore[arg-type]
                broker_id=B1,
                request_timeout_ms=30_000,
            ),
            clock=self.clock,
            settings=DEFAULTS,
            metadata_offset=lambda: 42,
        )

    def register(self) -> None:
        self.lifecycle.register(
            REGISTRATION,
            on_registered=lambda epoch: self.told.append(("registered", epoch)),
            on_unfenced=lambda: self.told.append("unfenced"),
        )

    def shut_down(self) -> None:
        self.lifecycle.shut_down(lambda: self.told.append("may stop"))

    @property
    def count(self) -> int:
        return len(self.network.sent)

    @property
    def last(self) -> Any:
        return self.network.sent[-1].command

    def answer(self, reply: object) -> None:
        answer = self.network.sent[-1].answer
        if isinstance(reply, Exception):
            answer.fail(reply)
        else:
            answer.resolve(reply)


def test_a_broker_registers_until_it_may_and_then_asks_to_be_unfenced() -> None:
    world = World()
    world.register()
    assert world.last == REGISTRATION
    assert world.network.sent[-1].timeout_ms == 4_500, "half a session"
    world.answer(BrokerRegistrationReply(error=ErrorCode.duplicate_broker_registration))
    world.clock.advance(1_999)
    assert world.count == 1
    world.clock.advance(1)
    world.answer(PeerTimeoutError("nobody there"))
    world.clock.advance(2_000)
    world.answer(BrokerRegistrationReply(broker_epoch=9))
    assert world.told == [("registered", 9)]
    world.clock.advance(10)
    assert world.last == BrokerHeartbeatCommand(broker_id=B1, broker_epoch=9, metadata_offset=42)
    world.answer(FENCED)
    world.clock.advance(2_000)
    world.answer(UNFENCED)
    assert world.told == [("registered", 9), "unfenced"]
    assert not world.lifecycle.is_fenced
    world.clock.advance(2_000)
    world.answer(UNFENCED)
    assert world.told == [("registered", 9), "unfenced"], "once"


def test_a_heartbeat_waits_for_the_answer_to_the_last_one() -> None:
    world = World()
    world.lifecycle.go_on(5)
    assert world.count == 0
    world.clock.advance(2_000)
    assert (world.count, world.last.broker_epoch) == (1, 5)
    world.clock.advance(60_000)
    assert world.count == 1
    world.answer(PeerDisconnectedError("cut"))
    world.clock.advance(2_000)
    assert world.count == 2


def test_a_controlled_shutdown_is_asked_for_until_it_is_granted() -> None:
    world = World()
    world.lifecycle.go_on(5)
    world.shut_down()
    world.clock.advance(0)
    assert world.last.want_shut_down
    world.answer(UNFENCED)
    world.clock.advance(50)
    assert world.count == 2
    world.answer(UNFENCED)
    world.clock.advance(50)
    assert world.count == 2
    world.clock.advance(1_950)
    world.answer(GO)
    assert world.told == ["may stop"]
    world.clock.advance(60_000)
    assert world.count == 3, "nothing is sent any more"


def test_a_shutdown_follows_the_heartbeat_that_is_under_way() -> None:
    world = World()
    world.lifecycle.go_on(5)
    world.clock.advance(2_000)
    world.shut_down()
    assert world.count == 1
    world.answer(UNFENCED)
    world.clock.advance(0)
    assert (world.count, world.last.want_shut_down) == (2, True)


def test_after_a_failure_nothing_is_sent_at_once() -> None:
    world = World()
    world.lifecycle.go_on(5)
    world.clock.advance(2_000)
    world.shut_down()
    world.answer(BrokerHeartbeatReply(error=ErrorCode.stale_broker_epoch))
    world.clock.advance(1_999)
    assert world.count == 1
    world.clock.advance(1)
    assert world.count == 2


def test_who_is_stopped_says_nothing_more_and_hears_nothing() -> None:
    world = World()
    world.register()
    world.lifecycle.stop()
    world.answer(BrokerRegistrationReply(broker_epoch=9))
    assert world.told == []
    other = World()
    other.lifecycle.go_on(5)
    other.clock.advance(2_000)
    other.lifecycle.stop()
    other.answer(UNFENCED)
    other.clock.advance(60_000)
    assert (other.count, other.lifecycle.is_fenced) == (1, False)


def test_a_shutdown_that_the_controller_wants_is_obeyed_without_being_asked_for() -> None:
    world = World()
    world.lifecycle.go_on(5)
    world.clock.advance(2_000)
    world.answer(GO)
    assert world.lifecycle.is_stopped
    assert world.told == []
