"""Commands by which a broker registers with the controller and stays registered, and their replies
(KIP-631).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import msgspec

from txnsim.types import BrokerId


class BrokerRegistrationCommand(msgspec.Struct, frozen=True, kw_only=True):
    """BrokerRegistration from a starting broker to the controller (KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: uuid.UUID
    """Drawn at every start of the broker; a repeated request has the same id."""
    host: str
    port: int
    addresses: Mapping[str, tuple[str, int]] = {}
    """Listener name -> (host, port), of the listeners after the first."""
    rack: str | None = None
    previous_broker_epoch: int = -1
    """The broker epoch before a clean shutdown; -1 after a crash (KIP-966)."""


class BrokerRegistrationReply(msgspec.Struct, frozen=True, kw_only=True):
    """The broker epoch of the new incarnation, or an error."""

    error: int = 0
    broker_epoch: int = -1


class BrokerHeartbeatCommand(msgspec.Struct, frozen=True, kw_only=True):
    """BrokerHeartbeat: tells the controller that the broker is alive, up to which offset it has
    read the metadata, and what it wants.
    """

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    has_failed_directory: bool = False
    """Whether the broker reports its log directory as offline (KIP-858)."""


class BrokerHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's view of the broker."""

    error: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
