"""The world outside: what time, chance, tasks and the network look like from inside.

Everything above gets these handed in and never reaches past them. One class of each serves both
worlds: ``real_world`` puts them on sockets and the system's clocks, ``virtual.run`` on a loop whose
clock jumps and on links in memory. Of clocks there may be others, as one machine's
(``SkewedClock``).

Two clocks on purpose. The *cluster clock* (``now_ms``) is wall time plus an offset that can be
advanced: transaction timeouts, expiry, append timestamps and the late-transaction gauge read it.
The *monotonic clock* never jumps: request timeouts, long polls and deadlines between brokers read
it, so that advancing the cluster by an hour does not time out a request on its way.
"""

from __future__ import annotations

from txnsim.runtime.clock import Clock as Clock
from txnsim.runtime.clock import TimerHandle as TimerHandle
from txnsim.runtime.network import LoopNetwork, SocketListener
from txnsim.runtime.rng import RandomStreams
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import Tracer

Listener = SocketListener
"""A listening socket for clients."""
Network = LoopNetwork
"""Sockets for clients, and links between brokers."""
Rng = RandomStreams
"""Random numbers: one seed, many named streams."""
Tasks = LoopTasks
"""Owner of all background tasks."""


class Environment:
    """Time, random numbers, tasks and network of one run: handed to brokers, coordinators and
    servers.
    """

    __slots__ = ("clients_host", "clock", "logs_requests", "network", "rng", "tasks", "tracer")

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Rng,
        network: Network,
        tasks: Tasks,
        tracer: Tracer,
        logs_requests: bool = False,
        clients_host: str | None = None,
    ) -> None:
        self.clients_host = clients_host
        """Host name at which clients reach this machine; None if they use the listening
        addresses.
        """
        self.logs_requests = logs_requests
        """Whether requests and connections of clients are logged (level debug)."""
        self.clock = clock
        self.rng = rng
        self.network = network
        self.tasks = tasks
        self.tracer = tracer
