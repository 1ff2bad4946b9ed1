"""What a cluster is started with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

import msgspec

from txnsim.security.options import NO_SECURITY, SecurityOptions
from txnsim.server.loading import LoadedCluster
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId

KIP_TEXT_PORT_DISTANCE: Final = 100
"""From the first client port to the first one that answers by the letter of the KIPs."""


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to start."""

    brokers: int = 3
    host: str = "127.0.0.1"
    port: int = 9092
    """First of consecutive ports; 0 picks free ones."""
    ports: tuple[int, ...] = ()
    """The port of each broker's listener in clear, where they are not consecutive."""
    advertised_host: str | None = None
    """What clients are told to connect to; the listening host unless given, and this machine's name
    where that is everywhere.
    """
    advertised: tuple[tuple[str, int], ...] = ()
    """Host and port that clients are told of each broker's listener in clear, where somebody
    between them and us translates ports, as containers do.
    """
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions) of topics to create at start, replicated to up to three brokers."""
    settings: Settings = DEFAULTS
    kip_text_port: int | None = None
    """First of consecutive ports of the listeners that ``settings.kip_text`` opens; 0 picks free
    ones. ``KIP_TEXT_PORT_DISTANCE`` above ``port`` unless given.
    """
    as_version: tuple[str, ...] = ()
    """Kafka releases to behave as: ``3.9`` for all brokers, ``1=3.9`` for one
    (``releases.fleet_from``); 4.3 unless named.
    """
    rules: Mapping[str, bool] = {}
    """Switches of ``releases.Rules`` turned by hand: a bug of before its fix, for a scenario."""
    security: SecurityOptions = NO_SECURITY
    """Listeners with TLS and SASL, users, ACLs (docs/security.md)."""
    loaded: LoadedCluster | None = None
    """Disks to go on with, for one start; ``brokers`` is as many as have left one."""

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """The number of each broker, in the order of their ports."""
        if self.loaded is not None:
            return tuple(self.loaded.logs)
        return tuple(BrokerId(index + 1) for index in range(self.brokers))


def port_step(options: ClusterOptions) -> int:
    """From a port of one broker to the same listener's of the next: 1, or as much more as it takes
    that no two listeners want the same.
    """
    ports = {options.port} if options.security.has_plain_listener else set()
    ports.update(listener.port for listener in options.security.listeners)
    ports.discard(0)
    return next(
        step
        for step in count(1)
        if len({port + index * step for port in ports for index in range(options.brokers)})
        == len(ports) * options.brokers
    )
