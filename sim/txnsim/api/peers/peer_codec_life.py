"""What a broker and the controller say to each other about the broker's life, as Kafka's messages:
BrokerRegistration and BrokerHeartbeat (KIP-631).

Part of ``api.peers.peer_codec``. What a real broker would tell besides (features, directories) is
written as one of this release has it, and not read.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from txnsim.errors import ErrorCode
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.node.peers import BROKER_HEARTBEAT, BROKER_REGISTRATION
from txnsim.releases import RELEASE_4_3
from txnsim.types import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerId,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.wire import codec

NO_THROTTLE_MS: Final = 0
PLAINTEXT: Final = 0
"""Number of the security protocol (SecurityProtocol)."""
ONE_DIRECTORY: Final = uuid.UUID(int=0x7472_616E_7361_6374_696F_6E73)
"""Every broker has one log directory; ids below 100 are reserved (DirectoryId)."""


def registration_request(api_version: int, command: BrokerRegistrationCommand) -> Any:
    """BrokerRegistration as a message."""
    schema = codec.request_schema(BROKER_REGISTRATION, api_version)
    listeners = {CLIENT_LISTENER: (command.host, command.port), **command.addresses}
    return codec.build(
        schema.BrokerRegistrationRequest,
        broker_id=command.broker_id,
        cluster_id=command.cluster_id,
        incarnation_id=command.incarnation_id,
        listeners=tuple(
            schema.Listener(name=name, host=host, port=port, security_protocol=PLAINTEXT)
            for name, (host, port) in listeners.items()
        ),
        features=tuple(
            schema.Feature(
                name=name,
                min_supported_version=feature.min_level,
                max_supported_version=feature.max_level,
            )
            for name, feature in RELEASE_4_3.features.items()
        ),
        rack=command.rack,
        is_migrating_zk_broker=False,
        log_dirs=(ONE_DIRECTORY,),
        previous_broker_epoch=command.previous_broker_epoch,
    )


def registration_command(message: Any) -> BrokerRegistrationCommand:
    """The command in a BrokerRegistration."""
    addresses = {one.name: (one.host, int(one.port)) for one in message.listeners}
    host, port = addresses.pop(CLIENT_LISTENER)
    return BrokerRegistrationCommand(
        broker_id=BrokerId(message.broker_id),
        cluster_id=message.cluster_id,
        incarnation_id=message.incarnation_id,
        host=host,
        port=port,
        addresses=addresses,
        rack=message.rack,
        previous_broker_epoch=message.previous_broker_epoch,
    )


def registration_response(api_version: int, reply: BrokerRegistrationReply) -> Any:
    """The answer as a message."""
    return codec.build(
        codec.response_class(BROKER_REGISTRATION, api_version),
        throttle_time=NO_THROTTLE_MS,
        error_code=ErrorCode(reply.error),
        broker_epoch=reply.broker_epoch,
    )


def registration_reply(message: Any) -> BrokerRegistrationReply:
    """The reply in an answer."""
    return BrokerRegistrationReply(error=int(message.error_code), broker_epoch=message.broker_epoch)


def heartbeat_request(api_version: int, command: BrokerHeartbeatCommand) -> Any:
    """BrokerHeartbeat as a message."""
    return codec.build(
        codec.request_class(BROKER_HEARTBEAT, api_version),
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        current_metadata_offset=command.metadata_offset,
        want_fence=command.want_fence,
        want_shut_down=command.want_shut_down,
        offline_log_dirs=(ONE_DIRECTORY,) if command.has_failed_directory else (),
    )


def heartbeat_command(message: Any) -> BrokerHeartbeatCommand:
    """The command in a BrokerHeartbeat."""
    return BrokerHeartbeatCommand(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=message.broker_epoch,
        metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        has_failed_directory=bool(message.offline_log_dirs),
    )


def heartbeat_response(api_version: int, reply: BrokerHeartbeatReply) -> Any:
    """The answer as a message."""
    return codec.build(
        codec.response_class(BROKER_HEARTBEAT, api_version),
        throttle_time=NO_THROTTLE_MS,
        error_code=ErrorCode(reply.error),
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )


def heartbeat_reply(message: Any) -> BrokerHeartbeatReply:
    """The reply in an answer."""
    return BrokerHeartbeatReply(
        error=int(message.error_code),
        is_caught_up=message.is_caught_up,
        is_fenced=message.is_fenced,
        should_shut_down=message.should_shut_down,
    )
