"""Listening sockets of the proxy, one per node and side. A listener always leads to the same node:
it follows a node that moves, and another node gets another listener. So a client is never sent to
the wrong node, which Kafka 4.4 would answer with REBOOTSTRAP_REQUIRED (ApiVersions v5 names the
intended node).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from txnsim.errors import ConfigError
from txnsim.faults.points import FaultPoint
from txnsim.loggers import Logger
from txnsim.runtime.trace import NO_CAUSE
from txnsim.text import host_and_port
from txnsim.wire.apis import API_VERSIONS
from txnsim_lab.proxy import addresses
from txnsim_lab.proxy._connection_ends import BrokerEnd, ClientEnd, JoinedEnds
from txnsim_lab.proxy._proxied_request import ProxiedRequest, peer_of
from txnsim_lab.proxy.addresses import NodeAddress

if TYPE_CHECKING:
    import ssl

    from txnsim.injection.injector import Injector
    from txnsim.runtime.environment import Environment, Listener
    from txnsim_lab.proxy._topic_names import TopicNames


_log: Final = Logger("txnsim_lab.proxy")
_PORT_MAX: Final = 65_535
LISTENERS_MAX: Final = 1_000
"""Limit of brokers with a listener, since a cluster may name any number."""


class ProxyContext(Protocol):
    """What all listeners share (``fault_proxy.FaultProxy``)."""

    environment: Environment
    injector: Injector
    names: TopicNames

    async def look_up_topics(self) -> None:
        """Ask the cluster for the names of all topics."""

    def enter(self, listener: NodeListener) -> ClientEnd:
        """Accept a new connection; returns the client's side."""


class NodeListener:
    """A listening socket that leads to one node."""

    def __init__(
        self,
        context: ProxyContext,
        listeners: NodeListeners,
        node_id: int,
        upstream: tuple[str, int],
        *,
        is_peer: bool,
        tls_upstream: ssl.SSLContext | None,
    ) -> None:
        """A listener that does not listen yet.

        Args:
            context: What all listeners share.
            listeners: The listeners of this side, which have the addresses of other nodes.
            node_id: Id of the node, which does not change.
            upstream: Address of the node.
            is_peer: Whether brokers connect here, not clients.
            tls_upstream: TLS for connections to the node; plain text unless given.
        """
        self.node_id = node_id
        self.node: Final = f"broker/{node_id}"
        self.upstream = upstream
        self.is_peer: Final = is_peer
        self.points: Final = FaultPoint.of_peers() if is_peer else FaultPoint.of_clients()
        """Fault points for requests and responses of its connections."""
        self.injector: Final = context.injector
        self.tasks: Final = context.environment.tasks
        self.clock: Final = context.environment.clock
        self.tracer: Final = context.environment.tracer
        self.relays: dict[JoinedEnds, int] = {}
        """Open connections, each with the index of the trace event of its opening."""
        self.accepted_count = 0
        """Number of connections so far."""
        self._context = context
        self._listeners = listeners
        self._tls_upstream = tls_upstream
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None, "it was opened"
        return self._listener.address[1]

    async def open(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Starts listening.

        Raises:
            OSError: The given port is busy, or the host is not an address of this machine.
        """
        network = self._context.environment.network
        try:
            self._listener = await network.listen(host, port, self._accept, tls=tls)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(error.errno, f"{host_and_port(host, port)} is in use") from error

    async def close(self) -> None:
        """Stops listening, and closes every connection."""
        if self._listener is not None:
            await self._listener.close()
        for relay in list(self.relays):
            relay.close()

    def _accept(self) -> asyncio.Protocol:
        self.accepted_count += 1
        return self._context.enter(self)

    # For its connections

    async def connect(self, protocol_factory: Callable[[], BrokerEnd]) -> None:
        """Connect to the node.

        Raises:
            OSError: The node can't be reached.
        """
        host, port = self.upstream
        network = self._context.environment.network
        await network.connect(host, port, protocol_factory, tls=self._tls_upstream)

    def log_unreachable(self, error: OSError) -> None:
        """Logs that the node can't be reached."""
        host, port = self.upstream
        _log.info(
            "upstream.refused", broker=self.node_id, at=host_and_port(host, port), why=str(error)
        )

    def note_open(self, relay: JoinedEnds, connection_name: str) -> None:
        open_event = NO_CAUSE
        if self.tracer.on:
            open_event = self.tracer.emit(
                "conn.open", self.node, parents=(NO_CAUSE,), data={"peer": connection_name}
            )
        self.relays[relay] = open_event

    def note_close(self, relay: JoinedEnds, connection_name: str) -> None:
        """Notes that the client's side of a connection is closed."""
        if self.tracer.on:
            open_event = self.relays.get(relay, NO_CAUSE)
            self.tracer.emit(
                "conn.close", self.node, parents=(open_event,), data={"peer": connection_name}
            )

    def forget(self, relay: JoinedEnds) -> None:
        """Remove a connection whose sides are both closed."""
        self.relays.pop(relay, None)

    def source_of(self, client_id: str | None) -> str:
        """The sender's name as in fault rules: ``client/ID`` or ``broker/ID``."""
        return peer_of(client_id) if self.is_peer else f"client/{client_id or ''}"

    async def decode(self, proxied_request: ProxiedRequest, frame: bytes) -> None:
        """Decode a request that a rule needs; look up topics that it identifies by id."""
        topic_names = self._context.names
        request = ProxiedRequest.decode_request(frame, topic_names.names)
        if request is not None and topic_names.has_unknown_topic(request.message):
            await self._context.look_up_topics()
        proxied_request.request = request

    async def rewrite_answer(self, api_key: int, api_version: int, answer: bytes) -> bytes:
        """Rewrite an answer so that its addresses lead to the proxy."""
        if api_key == API_VERSIONS:
            return addresses.limit_api_versions(api_version, answer)
        if not addresses.may_have_addresses(api_key, api_version):
            return answer
        return await self._listeners.rewrite_answer(api_key, api_version, answer)


class NodeListeners:
    """The listeners of one side: for clients, or for connections between brokers."""

    def __init__(
        self,
        context: ProxyContext,
        *,
        host: str,
        advertised_host: str,
        port: int,
        is_peer: bool = False,
        tls: ssl.SSLContext | None = None,
        tls_upstream: ssl.SSLContext | None = None,
    ) -> None:
        """No listener yet.

        Args:
            context: What all listeners share.
            host: The address to listen on.
            advertised_host: The address that clients get.
            port: A node's listener has this port plus the node's id; 0 picks free ports.
            is_peer: Whether brokers connect here, not clients.
            tls: TLS for connections to the listeners.
            tls_upstream: TLS for connections to the nodes.
        """
        self._context = context
        self._host = host
        self._advertised_host = advertised_host
        self._port = port
        self._is_peer = is_peer
        self._tls = tls
        self._tls_upstream = tls_upstream
        self._listeners: dict[int, NodeListener] = {}
        self._opening_lock = asyncio.Lock()

    def __iter__(self) -> Iterator[NodeListener]:
        return iter(sorted(self._listeners.values(), key=lambda listener: listener.node_id))

    @property
    def bootstrap(self) -> str:
        """Addresses of all listeners, separated by commas."""
        return ",".join(host_and_port(self._advertised_host, listener.port) for listener in self)

    def address(self, node_id: int) -> tuple[str, int]:
        """The address at which clients reach a node.

        Raises:
            KeyError: The node has no listener.
        """
        return self._advertised_host, self._listeners[node_id].port

    async def learn(self, endpoints: Iterable[NodeAddress]) -> None:
        """Open listeners for new nodes, and update the addresses of nodes that have moved.

        Raises:
            ConfigError: A listener's port is out of range.
            OSError: A listener's port is busy.
        """
        for node_address in endpoints:
            listener = self._listeners.get(node_address.node_id)
            if listener is None:
                async with self._opening_lock:
                    if node_address.node_id not in self._listeners:
                        await self._open_listener(node_address)
            elif listener.upstream != (node_address.host, node_address.port):
                listener.upstream = (node_address.host, node_address.port)

    async def _open_listener(self, node_address: NodeAddress) -> None:
        if len(self._listeners) >= LISTENERS_MAX:
            raise ConfigError(
                f"broker {node_address.node_id} gets no listener:"
                f" there are {LISTENERS_MAX} of them already"
            )
        listener = NodeListener(
            self._context,
            self,
            node_address.node_id,
            (node_address.host, node_address.port),
            is_peer=self._is_peer,
            tls_upstream=self._tls_upstream,
        )
        await listener.open(self._host, self._port_of(node_address.node_id), tls=self._tls)
        self._listeners[node_address.node_id] = listener

    async def _learn_late(self, endpoints: Iterable[NodeAddress]) -> None:
        """Learn nodes while clients wait; a node whose port is busy gets another port."""
        try:
            await self.learn(endpoints)
        except (ConfigError, OSError) as error:
            _log.warning("a new broker's port can't be had: it gets a free one", reason=str(error))
            configured_port, self._port = self._port, 0
            try:
                await self.learn(endpoints)
            finally:
                self._port = configured_port

    def _port_of(self, node_id: int) -> int:
        port = self._port and self._port + node_id
        if port > _PORT_MAX:
            raise ConfigError(
                f"broker {node_id} would be at port {self._port} + {node_id}, above {_PORT_MAX}: "
                "choose a lower port, or 0 for free ones"
            )
        return port

    async def rewrite_answer(self, api_key: int, api_version: int, answer: bytes) -> bytes:
        """Rewrite an answer so that its addresses lead to these listeners; open listeners for new
        nodes.

        Raises:
            BadInputError: The answer can't be decoded.
        """
        message = addresses.message_of(api_key, api_version, answer)
        if api_key == addresses.METADATA:
            self._context.names.learn(message)
        await self._learn_late(addresses.endpoints_of(api_key, message))
        return addresses.rewrite_addresses(api_key, api_version, answer, message, self._address_of)

    def _address_of(self, node_address: NodeAddress) -> tuple[str, int]:
        return self.address(node_address.node_id)

    async def close(self) -> None:
        for listener in list(self._listeners.values()):
            await listener.close()
