"""BrokerRegistration and BrokerHeartbeat go to Kafka's bytes and back unchanged."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.images import B1
from tests.support.peer_codec.codec import KafkaPeerCodec
from txnsim.errors import ErrorCode
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.node.peers import BROKER_HEARTBEAT, BROKER_REGISTRATION
from txnsim.releases import REFERENCE
from txnsim.wire import codec

CODEC = KafkaPeerCodec()
BROKER_HEARTBEAT_VERSION = REFERENCE.highest(BROKER_HEARTBEAT)
BROKER_REGISTRATION_VERSION = REFERENCE.highest(BROKER_REGISTRATION)
REGISTRATION = BrokerRegistrationCommand(
    broker_id=B1,
    cluster_id="c",
    incarnation_id=uuid.UUID(int=7),
    host="h",
    port=9092,
    addresses={"KIP_TEXT": ("h", 9192)},
    rack="r",
    previous_broker_epoch=12,
)


@pytest.mark.parametrize(
    ("key", "version", "command"),
    [
        (BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, REGISTRATION),
        (
            BROKER_REGISTRATION,
            BROKER_REGISTRATION_VERSION,
            BrokerRegistrationCommand(
                broker_id=B1, cluster_id="c", incarnation_id=uuid.UUID(int=7), host="h", port=1
            ),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatCommand(broker_id=B1, broker_epoch=3, metadata_offset=5),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatCommand(
                broker_id=B1,
                broker_epoch=3,
                metadata_offset=5,
                want_fence=True,
                want_shut_down=True,
                has_failed_directory=True,
            ),
        ),
    ],
)
def test_commands_come_back_as_they_were(key: int, version: int, command: Any) -> None:
    body = CODEC.encode_request(key, version, command)
    assert CODEC.decode_request(key, version, body) == command


@pytest.mark.parametrize(
    ("key", "version", "reply"),
    [
        (BROKER_REGISTRATION, 4, BrokerRegistrationReply(broker_epoch=9)),
        (
            BROKER_REGISTRATION,
            4,
            BrokerRegistrationReply(error=ErrorCode.duplicate_broker_registration),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatReply(error=ErrorCode.stale_broker_epoch),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatReply(is_caught_up=True, is_fenced=False),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatReply(is_caught_up=True, should_shut_down=True),
        ),
    ],
)
def test_replies_come_back_as_they_were(key: int, version: int, reply: Any) -> None:
    body = CODEC.encode_response(key, version, reply)
    assert CODEC.decode_response(key, version, body) == reply


def test_a_registration_tells_what_a_real_controller_demands() -> None:
    body = CODEC.encode_request(BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, REGISTRATION)
    header = codec.RequestHeader(BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, 0, None, 0)
    message = codec.decode_request(header, body)
    assert "metadata.version" in {feature.name for feature in message.features}
    assert len(message.log_dirs) == 1
    assert [listener.name for listener in message.listeners] == ["PLAINTEXT", "KIP_TEXT"]
