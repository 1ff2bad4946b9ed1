"""Listening sockets of the proxy, one per node and side, and where each leads.

A door has its node for good: a node that moves is followed, and another node gets another door. So
a client is never sent to the wrong node, which Kafka 4.4 would answer with REBOOTSTRAP_REQUIRED
(ApiVersions v5 names the node that is meant).
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
from txnsim.text import PORT_MAX, host_and_port
from txnsim.wire.apis import API_VERSIONS
from txnsim_lab.proxy import addresses
from txnsim_lab.proxy._crossings import Sent, peer_of
from txnsim_lab.proxy._ends import BrokerEnd, ClientEnd, Joined
from txnsim_lab.proxy.addresses import Endpoint

if TYPE_CHECKING:
    import ssl

    from txnsim.injection.injector import Injector
    from txnsim.runtime.env import Environment, Listener
    from txnsim_lab.proxy._topic_names import TopicNames


_log: Final = Logger("txnsim_lab.proxy")
DOORS_MAX: Final = 1_000
"""Brokers of a cluster that have doors; each is a listener, and a cluster may name any number."""


class House(Protocol):
    """What doors share (``fault_proxy.FaultProxy``)."""

    environment: Environment
    injector: Injector
    names: TopicNames

    async def look_up_topics(self) -> None:
        """Learn every topic's name upstream."""

    def enter(self, door: Door) -> ClientEnd:
        """The client's side of a new connection."""


class Door:
    """A listening socket that leads to one node."""

    def __init__(
        self,
        house: House,
        doors: Doors,
        node_id: int,
        upstream: tuple[str, int],
        *,
        is_peer: bool,
        tls_upstream: ssl.SSLContext | None,
    ) -> None:
        """A door that does not listen yet.

        Args:
            house: What all doors share.
            doors: The doors of this side, which know addresses of other nodes.
            node_id: The node, for good.
            upstream: Where it is.
            is_peer: Brokers come by this door.
            tls_upstream: How it is spoken to there; in clear unless given.
        """
        self.node_id = node_id
        self.node: Final = f"broker/{node_id}"
        self.upstream = upstream
        self.is_peer: Final = is_peer
        self.points: Final = FaultPoint.of_peers() if is_peer else FaultPoint.of_clients()
        """Where requests and answers of its connections cross."""
        self.injector: Final = house.injector
        self.tasks: Final = house.environment.tasks
        self.clock: Final = house.environment.clock
        self.tracer: Final = house.environment.tracer
        self.relays: dict[Joined, int] = {}
        """Connections of which a side is open, each with the trace index of its opening."""
        self.accepted = 0
        """Connections so far."""
        self._house = house
        self._doors = doors
        self._tls_upstream = tls_upstream
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._listener is not None, "it was opened"
        return self._listener.address[1]

    async def open(self, host: str, port: int, *, tls: ssl.SSLContext | None) -> None:
        """Listen.

        Raises:
            OSError: The port is busy and named, or the host is none of ours.
        """
        network = self._house.environment.network
        try:
            self._listener = await network.listen(host, port, self._accept, tls=tls)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(error.errno, f"{host_and_port(host, port)} is in use") from error

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        if self._listener is not None:
            await self._listener.close()
        for relay in list(self.relays):
            relay.close()

    def _accept(self) -> asyncio.Protocol:
        self.accepted += 1
        return self._house.enter(self)

    # For its connections

    async def connect(self, factory: Callable[[], BrokerEnd]) -> None:
        """Connect to the node.

        Raises:
            OSError: It is out of reach.
        """
        host, port = self.upstream
        network = self._house.environment.network
        await network.connect(host, port, factory, tls=self._tls_upstream)

    def is_out_of_reach(self, error: OSError) -> None:
        """The node can't be connected to."""
        host, port = self.upstream
        _log.info(
            "upstream.refused", broker=self.node_id, at=host_and_port(host, port), why=str(error)
        )

    def opened(self, relay: Joined, line: str) -> None:
        at = NO_CAUSE
        if self.tracer.on:
            at = self.tracer.emit("conn.open", self.node, parents=(NO_CAUSE,), data={"peer": line})
        self.relays[relay] = at

    def closed(self, relay: Joined, line: str) -> None:
        """A client's side of a connection is gone."""
        if self.tracer.on:
            opened_at = self.relays.get(relay, NO_CAUSE)
            self.tracer.emit("conn.close", self.node, parents=(opened_at,), data={"peer": line})

    def forget(self, relay: Joined) -> None:
        """Both sides of a connection are gone."""
        self.relays.pop(relay, None)

    def source_of(self, client_id: str | None) -> str:
        """The sender's name, as rules know it."""
        return peer_of(client_id) if self.is_peer else f"client/{client_id or ''}"

    async def decode(self, sent: Sent, frame: bytes) -> None:
        """Decode a request for whom a rule asks; topics that it tells by id are looked up."""
        names = self._house.names
        request = Sent.decoded(frame, names.names)
        if request is not None and names.unknown(request.message):
            await self._house.look_up_topics()
        sent.request = request

    async def rewritten(self, api_key: int, api_version: int, answer: bytes) -> bytes:
        """An answer that leads clients to the proxy."""
        if api_key == API_VERSIONS:
            return addresses.bounded(api_version, answer)
        if not addresses.may_carry(api_key, api_version):
            return answer
        return await self._doors.rewritten(api_key, api_version, answer)


class Doors:
    """The doors of one side: those for clients, or those for brokers among themselves."""

    def __init__(
        self,
        house: House,
        *,
        host: str,
        advertised_host: str,
        port: int,
        is_peer: bool = False,
        tls: ssl.SSLContext | None = None,
        tls_upstream: ssl.SSLContext | None = None,
    ) -> None:
        """No door yet.

        Args:
            house: What they share.
            host: Where to listen.
            advertised_host: The address that clients get.
            port: A node's door is at this port plus its id; 0 picks free ones.
            is_peer: Brokers come by these doors.
            tls: Listen with TLS.
            tls_upstream: Speak TLS to the nodes.
        """
        self._house = house
        self._host = host
        self._advertised_host = advertised_host
        self._port = port
        self._is_peer = is_peer
        self._tls = tls
        self._tls_upstream = tls_upstream
        self._doors: dict[int, Door] = {}
        self._opening = asyncio.Lock()

    def __iter__(self) -> Iterator[Door]:
        return iter(sorted(self._doors.values(), key=lambda door: door.node_id))

    @property
    def bootstrap(self) -> str:
        """Addresses of all doors."""
        return ",".join(host_and_port(self._advertised_host, door.port) for door in self)

    def address(self, node_id: int) -> tuple[str, int]:
        """Where clients reach a node.

        Raises:
            KeyError: It has no door.
        """
        return self._advertised_host, self._doors[node_id].port

    async def learn(self, nodes: Iterable[Endpoint]) -> None:
        """Open doors for nodes that are new, and follow those that have moved.

        Raises:
            ConfigError: A door's port is none.
            OSError: A door's port is busy.
        """
        for node in nodes:
            door = self._doors.get(node.node_id)
            if door is None:
                async with self._opening:
                    if node.node_id not in self._doors:
                        await self._open(node)
            elif door.upstream != (node.host, node.port):
                door.upstream = (node.host, node.port)

    async def _open(self, node: Endpoint) -> None:
        if len(self._doors) >= DOORS_MAX:
            raise ConfigError(
                f"broker {node.node_id} gets no door: there are {DOORS_MAX} of them already"
            )
        door = Door(
            self._house,
            self,
            node.node_id,
            (node.host, node.port),
            is_peer=self._is_peer,
            tls_upstream=self._tls_upstream,
        )
        await door.open(self._host, self._port_of(node.node_id), tls=self._tls)
        self._doors[node.node_id] = door

    async def _learn_late(self, nodes: Iterable[Endpoint]) -> None:
        """Learn nodes while clients wait; a node whose port is taken gets another port."""
        try:
            await self.learn(nodes)
        except (ConfigError, OSError) as error:
            _log.warning("a new broker's port can't be had: it gets a free one", reason=str(error))
            port, self._port = self._port, 0
            try:
                await self.learn(nodes)
            finally:
                self._port = port

    def _port_of(self, node_id: int) -> int:
        port = self._port and self._port + node_id
        if port > PORT_MAX:
            raise ConfigError(
                f"broker {node_id} would be at port {self._port} + {node_id}, above {PORT_MAX}: "
                "choose a lower port, or 0 for free ones"
            )
        return port

    async def rewritten(self, api_key: int, api_version: int, answer: bytes) -> bytes:
        """An answer that leads clients to these doors; new nodes get theirs.

        Raises:
            BadInputError: It can't be read.
        """
        message = addresses.message_of(api_key, api_version, answer)
        if api_key == addresses.METADATA:
            self._house.names.learn(message)
        await self._learn_late(addresses.endpoints_of(api_key, message))
        return addresses.rewritten(api_key, api_version, answer, message, self._address_of)

    def _address_of(self, node: Endpoint) -> tuple[str, int]:
        return self.address(node.node_id)

    async def close(self) -> None:
        """Close them all."""
        for door in list(self._doors.values()):
            await door.close()
