"""A cluster in virtual time for players that block: its loop turns while they wait.

A player writes to a connection in memory, then waits for the answer, for a pause to pass or for a
broker to start. Only then does the loop turn, until what is waited for has come. So everything
happens in one thread, in an order that the seed decides, and a pause costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from tests.support.lifetime import ManagedResource
from tests.support.virtual_environment import around
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual._connection import VirtualTransport
from txnsim.runtime.virtual.run import VirtualLoop
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions
from txnsim_lab.conformance._book.transcript import CLOCK_TIME_MIN_MS
from txnsim_lab.target.cluster import SIMULATED_ABILITIES, Ability
from txnsim_lab.target.simulated import SimulatedTarget

T = TypeVar("T")

START_MS: Final = CLOCK_TIME_MIN_MS + 50_000_000_000
"""Later than any time that a transcript attributes to the story itself."""


class _Operator:
    """An operator that leaves no trace in the story.

    Args:
        admin: With which it looks.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def admin(self) -> Admin:
        return self._admin

    def say(self, text: str) -> None:
        """Say nothing."""


class VirtualWorld(ManagedResource):
    """A cluster in memory, as a context manager, and the time around it; a ``SimulatedTarget``
    whose acts are waited for.

    Args:
        options: What is started.
        seed: Of all chance in the run.
        trace_level: How much is traced. Clients must not notice.
    """

    abilities: frozenset[Ability] = SIMULATED_ABILITIES

    def __init__(
        self,
        options: ClusterOptions,
        *,
        seed: int = 1,
        trace_level: TraceLevel = TraceLevel.OFF,
    ) -> None:
        self._loop = VirtualLoop()
        self._environment, self._failures = around(
            self._loop, start_ms=START_MS, seed=seed, trace_level=trace_level
        )
        self._options = options

    def __enter__(self) -> VirtualWorld:
        self._run(self._start())
        return self

    def _on_exit(self, exc: BaseException | None) -> None:
        try:
            self._run(self._stop())
        finally:
            self._loop.close()
        assert not self._failures, f"callbacks of the loop failed: {self._failures}"

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers."""
        return self._cluster.bootstrap

    def bootstrap_of(self, listener: str) -> str:
        """Return the brokers' addresses at the listener of this name."""
        return self._cluster.bootstrap_of(listener)

    # World

    def connect(self, host: str, port: int, *, timeout_s: float) -> VirtualLine:
        """Open a connection."""
        line = VirtualLine(self._loop, timeout_s)
        self._run(self._loop.create_connection(lambda: line, host, port))
        return line

    def monotonic_s(self) -> float:
        """Virtual time in seconds, for deadlines."""
        return self._loop.time()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._run(asyncio.sleep(seconds))

    # Target

    def age(self, transactional_id: str, epoch: int) -> bool:
        """Raise the epoch of an idle transactional id."""
        if Ability.INSIDE not in self.abilities:
            return False
        self._run(self._age(transactional_id, epoch))
        return True

    def kill(self, broker: int) -> None:
        """Kill a broker, as ``kill -9`` does."""
        self._run(self._target.kill(broker))

    def stop(self, broker: int) -> None:
        """Stop a broker by a controlled shutdown."""
        self._run(self._target.stop(broker))

    def start(self, broker: int) -> None:
        """Start a stopped broker, and wait until it serves clients."""
        self._run(self._target.start(broker))

    async def _age(self, transactional_id: str, epoch: int) -> None:
        environment = self._environment
        settings = ClientSettings(client_id="operator")
        async with Cluster(
            self.bootstrap, settings=settings, clock=environment.clock, tasks=environment.tasks
        ) as client:
            self._target.acts_for(_Operator(Admin(client)))
            await self._target.age(transactional_id, epoch)

    def _run(self, awaitable: Awaitable[T]) -> T:
        return self._loop.run_until_complete(awaitable)

    async def _start(self) -> None:
        self._cluster = SimCluster(self._environment, self._options)
        await self._cluster.start()
        self._target = SimulatedTarget(self._cluster)

    async def _stop(self) -> None:
        await self._cluster.stop()
        await self._environment.tasks.close()


class VirtualLine(asyncio.Protocol):
    """One connection, with the calls of a blocking socket."""

    def __init__(self, loop: VirtualLoop, timeout_s: float) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._unread = bytearray()
        self._has_ended = False
        self._broken: Exception | None = None
        self._awaited: asyncio.Future[None] | None = None

    # Blocking socket

    def settimeout(self, value: float, /) -> None:
        """Set how many seconds ``recv`` waits before it raises ``TimeoutError``."""
        self._timeout_s = value

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes.

        Raises:
            BrokenPipeError: The connection is closed.
        """
        if self._transport.is_closing():
            raise BrokenPipeError("the connection is closed")
        self._transport.write(data)

    def recv(self, size: int, /) -> bytes:
        """Up to ``size`` received bytes; empty at the end of the stream.

        Raises:
            TimeoutError: Nothing came in time.
            ConnectionResetError: The other side threw the connection away.
        """
        if not self._unread and not self._has_ended:
            self._wait()
        if self._unread:
            data = bytes(self._unread[:size])
            del self._unread[:size]
            return data
        if self._broken is not None:
            raise self._broken
        return b""

    def close(self) -> None:
        if not self._loop.is_closed():
            self._transport.close()

    def _wait(self) -> None:
        self._awaited = self._loop.create_future()
        timer = self._loop.call_later(self._timeout_s, self._give_up)
        self._loop.run_until_complete(self._awaited)
        timer.cancel()

    def _give_up(self) -> None:
        assert self._awaited is not None
        if not self._awaited.done():
            self._awaited.set_exception(TimeoutError(f"nothing within {self._timeout_s} s"))

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, VirtualTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._has_ended = True
        self._broken = exc
        self._wake()

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
