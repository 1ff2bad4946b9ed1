"""What a fault proxy is started with."""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.security.options import TlsFiles
from txnsim.text import EVERYWHERE, read_host_and_port
from txnsim_lab.proxy.addresses import Endpoint

LOOPBACK: Final = "127.0.0.1"
PORT_DEFAULT: Final = 19_090
PEER_PORT_DEFAULT: Final = 29_090


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault proxy is started with."""

    bootstrap: str
    """``host:port`` of the cluster, several separated by commas."""
    settings: ClientSettings = ClientSettings(client_id="txnsim-proxy")
    """How the cluster is reached: with TLS, clients' connections go on so too; as whom, for the
    proxy's own look-ups only.
    """
    host: str = LOOPBACK
    """Where to listen."""
    advertised_host: str | None = None
    """The address that clients get; ``host`` unless given."""
    port: int = PORT_DEFAULT
    """A broker's listener is at this port plus its id; 0 picks free ones."""
    peers: tuple[Endpoint, ...] = ()
    """Addresses at which brokers reach each other, around the proxy."""
    peer_port: int = PEER_PORT_DEFAULT
    """The same as ``port``, for the listeners of brokers among themselves."""
    tls: TlsFiles | None = None
    """Listen for clients with TLS."""
    peer_tls: TlsFiles | None = None
    """Listen for brokers with TLS, and speak TLS to them, trusting whom ``settings`` trust."""
    wait_ms: int = 0
    """Time that the cluster may take to answer the first Metadata request."""
    seed: int | None = None
    """Of all chance in rules; random unless given."""

    @property
    def host_for_clients(self) -> str:
        """The host that clients and brokers get.

        Raises:
            ConfigError: It would be one that clients can't connect to.
        """
        host = self.host if self.advertised_host is None else self.advertised_host
        if host in EVERYWHERE:
            raise ConfigError(
                f"--host {self.host}: clients can't connect to {host!r}; say with "
                "--advertised-host under which name clients reach this machine"
            )
        return host


def peer_from(text: str) -> Endpoint:
    """Where a broker is for the others, from ``NODE=HOST:PORT``.

    Raises:
        ConfigError: It is not of that form.
    """
    node, equals, address = text.partition("=")
    host_and_port = read_host_and_port(address)
    if not equals or not node.isdigit() or host_and_port is None:
        raise ConfigError(f"--peer {text}: expected NODE=HOST:PORT, as in 1=127.0.0.1:9094")
    return Endpoint(int(node), *host_and_port)
