"""What a broker and the controller say to each other about the broker's life, as Kafka's messages:
BrokerRegistration and BrokerHeartbeat (KIP-631).

Further fields of a real broker (features, directories) are written as one of this release has it,
and not read.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from tests.support.peer_codec.shapes import PlainField, Shape, error
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.releases import REFERENCE
from txnsim.types import BrokerId
from txnsim.wire import codec

NO_THROTTLE_MS: Final = 0
PLAINTEXT: Final = 0
"""Number of the security protocol (SecurityProtocol)."""
ONE_DIRECTORY: Final = uuid.UUID(int=0x7472_616E_7361_6374_696F_6E73)
"""Every broker has one log directory; ids below 100 are reserved (DirectoryId)."""


class Registration:
    """BrokerRegistration. One list holds all listeners, the first one included."""

    def to_message(self, schema: Any, command: BrokerRegistrationCommand) -> Any:
        """A command as a BrokerRegistration request."""
        listeners = {CLIENT_LISTENER: (command.host, command.port), **command.addresses}
        return codec.build(
            schema.BrokerRegistrationRequest,
            broker_id=command.broker_id,
            cluster_id=command.cluster_id,
            incarnation_id=command.incarnation_id,
            listeners=tuple(
                schema.Listener(
                    name=listener_name, host=host, port=port, security_protocol=PLAINTEXT
                )
                for listener_name, (host, port) in listeners.items()
            ),
            features=tuple(
                schema.Feature(
                    name=feature_name,
                    min_supported_version=feature.min_level,
                    max_supported_version=feature.max_level,
                )
                for feature_name, feature in REFERENCE.features.items()
            ),
            rack=command.rack,
            is_migrating_zk_broker=False,
            log_dirs=(ONE_DIRECTORY,),
            previous_broker_epoch=command.previous_broker_epoch,
        )

    def from_message(self, message: Any) -> BrokerRegistrationCommand:
        """A BrokerRegistration request as a command."""
        addresses = {
            listener.name: (listener.host, int(listener.port)) for listener in message.listeners
        }
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


REGISTRATION_RESPONSE: Final = Shape(
    BrokerRegistrationReply,
    "BrokerRegistrationResponse",
    "broker_epoch",
    error=error(),
    says={"throttle_time": NO_THROTTLE_MS},
)
HEARTBEAT_REQUEST: Final = Shape(
    BrokerHeartbeatCommand,
    "BrokerHeartbeatRequest",
    *("broker_id", "broker_epoch", "want_fence", "want_shut_down"),
    metadata_offset="current_metadata_offset",
    has_failed_directory=PlainField(
        "offline_log_dirs",
        to_wire=lambda failed: (ONE_DIRECTORY,) if failed else (),
        from_wire=bool,
    ),
)
HEARTBEAT_RESPONSE: Final = Shape(
    BrokerHeartbeatReply,
    "BrokerHeartbeatResponse",
    *("is_caught_up", "is_fenced", "should_shut_down"),
    error=error(),
    says={"throttle_time": NO_THROTTLE_MS},
)
