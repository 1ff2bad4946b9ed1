"""The open connections of clients, as their brokers know them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from txnsim.server.cluster import SimCluster
from txnsim.text import host_and_port
from txnsim.types import BrokerId, uuid_text


class ConnectionView(msgspec.Struct, frozen=True, kw_only=True):
    """A client's open connection to a broker, as far as its requests have told of it."""

    broker: BrokerId
    listener: str
    """Name of the listener that it came to."""
    address: str
    """The client's own address, ``host:port``."""
    principal: str
    client_id: str | None
    client_instance_id: str | None
    """As Kafka writes it; None before the first request with header v3 (KIP-1313, from 4.5 on)."""
    software_name: str | None
    software_version: str | None


def open_connections(cluster: SimCluster) -> Iterator[ConnectionView]:
    """The connections to each running broker, the oldest first. The reader may take breaks: one
    that has closed meanwhile may still be listed.
    """
    for listener in tuple(cluster.listeners):
        for connection in tuple(listener.connections):
            link = connection.link
            instance_id = link.client_instance_id
            yield ConnectionView(
                broker=listener.broker.broker_id,
                listener=connection.apis.listener,
                address=host_and_port(connection.client_host.removeprefix("/"), link.port),
                principal=connection.principal,
                client_id=link.client_id,
                client_instance_id=None if instance_id is None else uuid_text(instance_id),
                software_name=link.software_name,
                software_version=link.software_version,
            )
