"""Options of a fault proxy."""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.security.options import TlsFiles
from txnsim.text import EVERYWHERE, read_host_and_port
from txnsim_lab.proxy.addresses import NodeAddress

LOOPBACK: Final = "127.0.0.1"
PORT_DEFAULT: Final = 19_090
PEER_PORT_DEFAULT: Final = 29_090


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a fault proxy."""

    bootstrap: str
    """``host:port`` of the cluster, several separated by commas."""
    settings: ClientSettings = ClientSettings(client_id="txnsim-proxy")
    """Settings of clients of the cluster. TLS applies to all connections to it; the login only to
    the proxy's own look-ups.
    """
    host: str = LOOPBACK
    """The address to listen on."""
    advertised_host: str | None = None
    """The address that clients get; ``host`` unless given."""
    port: int = PORT_DEFAULT
    """A broker's listener has this port plus the broker's id; 0 picks free ports."""
    peers: tuple[NodeAddress, ...] = ()
    """Addresses at which brokers reach each other, around the proxy."""
    peer_port: int = PEER_PORT_DEFAULT
    """Like ``port``, for the listeners between brokers."""
    tls: TlsFiles | None = None
    """Certificate and key for TLS with clients."""
    peer_tls: TlsFiles | None = None
    """Certificate and key for TLS with brokers as clients; connections between brokers then use TLS
    upstream, too, with the trust of ``settings``.
    """
    wait_ms: int = 0
    """Time that the cluster may take to answer the first Metadata request."""
    seed: int | None = None
    """Seed of all randomness in rules; random unless given."""

    @property
    def host_for_clients(self) -> str:
        """The host that clients and brokers get.

        Raises:
            ConfigError: Clients could not connect to that host.
        """
        host = self.host if self.advertised_host is None else self.advertised_host
        if host in EVERYWHERE:
            raise ConfigError(
                f"--host {self.host}: clients can't connect to {host!r}; say with "
                "--advertised-host under which name clients reach this machine"
            )
        return host


def peer_from(peer_text: str) -> NodeAddress:
    """Parse ``NODE=HOST:PORT``, the address of a broker for other brokers.

    Raises:
        ConfigError: The text has another form.
    """
    node_id_text, equals, address = peer_text.partition("=")
    host_and_port = read_host_and_port(address)
    if not equals or not node_id_text.isdigit() or host_and_port is None:
        raise ConfigError(f"--peer {peer_text}: expected NODE=HOST:PORT, as in 1=127.0.0.1:9094")
    return NodeAddress(int(node_id_text), *host_and_port)
