"""Commands by which a broker tells the controller that it is there, and their answers (KIP-631)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import msgspec

from txnsim.types import BrokerId


class BrokerRegistrationCommand(msgspec.Struct, frozen=True, kw_only=True):
    """BrokerRegistration from a broker that starts to the controller (KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: uuid.UUID
    """Drawn at every start: it differs after a restart, and stays in a repeated request."""
    host: str
    port: int
    addresses: Mapping[str, tuple[str, int]] = {}
    """Host and port of listeners besides the first, by their names."""
    rack: str | None = None
    previous_broker_epoch: int = -1
    """The epoch that a clean shutdown has left behind; -1 after a crash (KIP-966)."""


class BrokerRegistrationReply(msgspec.Struct, frozen=True, kw_only=True):
    """The broker epoch of the incarnation, or the error."""

    error: int = 0
    broker_epoch: int = -1


class BrokerHeartbeatCommand(msgspec.Struct, frozen=True, kw_only=True):
    """BrokerHeartbeat: a broker is there, how far it has followed the metadata, what it wants."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    has_failed_directory: bool = False
    """Its log directory is among those that are offline (KIP-858)."""


class BrokerHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's view of a broker."""

    error: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
