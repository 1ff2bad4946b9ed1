"""The door to the world: what time, chance, tasks and the network look like from inside.

Everything above gets these protocols handed in and never reaches past them. Two implementations:
``real`` (asyncio, sockets, system clock) and ``virtual_loop`` with ``virtual_net`` (a clock that
jumps, links in memory).

Two clocks on purpose. The *cluster clock* (``now_ms``) is wall time plus an offset that can be
advanced: transaction timeouts, expiry, append timestamps and the late-transaction gauge read it.
The *monotonic clock* never jumps: request timeouts, long polls and deadlines between brokers read
it, so that advancing the cluster by an hour does not time out a request on its way.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from txnsim.faults.crossings import Crossing, FaultEffect
from txnsim.runtime.link_cuts import Cut
from txnsim.runtime.peer_call import Unanswered
from txnsim.runtime.pending import Pending
from txnsim.runtime.trace import Tracer
from txnsim.runtime.turns import Turns
from txnsim.runtime.unpacker import Unpacker
from txnsim.types import BrokerId


class TimerHandle(Protocol):
    """An armed timer."""

    def cancel(self) -> None:
        """Disarm; harmless when it has fired."""


class Clock(Protocol):
    """Time, in integer milliseconds; microseconds only for the trace."""

    @property
    def advanced_ms(self) -> int:
        """How far the cluster clock has been moved in all; negative where it was set back."""

    def now_ms(self) -> int:
        """Cluster wall time in ms since the epoch, including what was advanced."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never advanced, never set back."""

    def monotonic_us(self) -> int:
        """Microseconds since the start of the run."""

    @property
    def stopwatch_ns(self) -> Callable[[], int]:
        """The monotonic source itself, in nanoseconds: the cheapest to read, for differences."""

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back once ``now_ms() >= deadline_ms``. An advance fires these in the order of their
        deadlines.
        """

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Call back after ``delay_ms`` of monotonic time, whatever the cluster clock does."""

    def advance(self, ms: int) -> None:
        """Move the cluster clock ``ms`` forward and fire every ``call_at`` timer that is then due,
        earliest first.
        """

    def shift(self, ms: int) -> None:
        """Set the cluster clock ``ms`` ahead, or back where negative, as an operator or NTP does:
        no time passes.

        Every ``call_at`` timer keeps the time that it has left: what a broker does from time to
        time goes by a monotonic clock in Kafka (ScheduledThreadPoolExecutor).
        """


class Rng(Protocol):
    """Chance: one seed, many named streams."""

    def stream(self, name: str) -> random.Random:
        """The stream of that name, derived from seed and name; the same object at every call."""


class Tasks(Protocol):
    """Owner of every background task."""

    @property
    def turns(self) -> Turns:
        """For those who have more to do than one turn of the loop bears."""

    @property
    def unpacker(self) -> Unpacker:
        """For records that unpack to more than one turn bears."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run in the background; an exception is logged as a bug and kept for ``close``."""

    def drive(
        self,
        coroutine: Coroutine[Any, Any, Any],
        done: Callable[[Any, BaseException | None], object],
        *,
        name: str,
        apart: bool = False,
        cause: int | None = None,
    ) -> None:
        """Run the first step at once, without a task; only what has to wait becomes one.

        ``apart`` gives it a context of its own. ``cause`` is what it is due to in the trace, where
        that is not the current cause.

        ``done(result, exception)`` is called exactly once: before ``drive`` returns where nothing
        had to wait.
        """

    def soon(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` after the present one, with all that it causes by ``soon``, before the
        loop looks at its sockets again.
        """

    def at_turn_end(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` when nothing is due by ``soon`` any more, still in this turn."""

    @property
    def stepping(self) -> bool:
        """Whether a driven coroutine is being run right now."""

    async def close(self) -> None:
        """Cancel and await everything that still runs."""


class Listener(Protocol):
    """A listening address."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port really bound."""

    async def close(self) -> None:
        """Stop accepting."""


PeerHandler = Callable[[int, int, object, BrokerId], Awaitable[object]]
"""(api key, api version, command, source broker) -> reply."""


class Network(Protocol):
    """Sockets for clients, links between brokers."""

    interceptor: Interceptor

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Accept client connections, over TLS if given; ``port`` 0 picks a free one.

        Raises:
            OSError: The address is busy or can't be bound.
        """

    async def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> asyncio.Transport:
        """Open a client connection, over TLS if given."""

    def register(self, broker_id: BrokerId, handler: PeerHandler) -> None:
        """Broker ``broker_id`` is reachable for its peers from now on."""

    def unregister(self, broker_id: BrokerId) -> None:
        """Broker ``broker_id`` is gone: requests to it fail with PeerDisconnectedError, its own
        too.
        """

    def cut(self, source: BrokerId, target: BrokerId, how: Cut = Cut.BLACK_HOLE) -> None:
        """Cut the link for requests of ``source`` to ``target`` and for their answers."""

    def heal(self, source: BrokerId, target: BrokerId) -> None:
        """Undo ``cut``."""

    def reaches(self, source: BrokerId, target: BrokerId) -> bool:
        """Whether the link from ``source`` to ``target`` is whole."""

    def on_heal(self, watcher: Callable[[BrokerId, BrokerId], object]) -> Callable[[], None]:
        """Call ``watcher(source, target)`` whenever a link has healed, until what is returned is
        called.
        """

    def request(
        self,
        source: BrokerId,
        target: BrokerId,
        api_key: int,
        api_version: int,
        command: object,
        *,
        timeout_ms: int,
    ) -> asyncio.Future[Any]:
        """Send a typed request to a peer; the future holds its typed reply.

        Order is kept per (source, target). Crosses ``peer.request`` and ``peer.response`` (fault
        points).

        Raises (in the future):
            PeerDisconnectedError: The peer is not there, or the link was cut.
            PeerTimeoutError: No reply within ``timeout_ms`` (monotonic).
        """

    def ask(
        self,
        source: BrokerId,
        target: BrokerId,
        api_key: int,
        api_version: int,
        command: object,
        *,
        timeout_ms: int,
    ) -> Pending[Any]:
        """``request`` for those who want to be called back, without a turn of the loop."""

    def unanswered(self) -> list[Unanswered]:
        """The requests whose senders still wait, oldest first, and what has become of them."""


class Interceptor(Protocol):
    """Stands at every named fault point; ``injection.injector`` is the real one, ``PassAll`` the
    idle one.
    """

    @property
    def armed(self) -> bool:
        """False: no rule is armed, a crossing need not even be described."""

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:
        """None: go on at once. A verdict: obey it. An awaitable: held until it has one."""


class PassAll:
    """The interceptor of an undisturbed cluster."""

    armed = False

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:  # noqa: ARG002 - asks nothing
        """Let everything pass."""
        return None


class Environment:
    """One run's world: what a broker, a coordinator or a server is handed to live in."""

    __slots__ = ("clock", "logs_requests", "network", "rng", "tasks", "tracer")

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Rng,
        network: Network,
        tasks: Tasks,
        tracer: Tracer,
        logs_requests: bool = False,
    ) -> None:
        self.logs_requests = logs_requests
        """Whether each request and connection of a client is logged (level debug)."""
        self.clock = clock
        self.rng = rng
        self.network = network
        self.tasks = tasks
        self.tracer = tracer
