"""The real world: system clock, sockets, uvloop where there is one.

Nothing is implemented twice for virtual time: clock, tasks and network are the classes over an
event loop, here with a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import mmap
import os
import secrets
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from txnsim.runtime.clock import LoopClock
from txnsim.runtime.environment import Environment
from txnsim.runtime.network import LoopNetwork
from txnsim.runtime.rng import RandomStreams, random_seed
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import RunInfo, TraceLevel, Tracer
from txnsim.settings import DEFAULTS
from txnsim.text import host_and_port
from txnsim.types import BrokerId

T = TypeVar("T")

MONOTONIC_START_MS_MAX: Final = 1 << 40
"""Upper bound of the random start of the monotonic clock: about 35 years, and never near wall time,
which is 1.7e12 ms and more.
"""

_PORT_RANGE: Final = range(10_000, 32_768)
"""Ports that no system gives to a connection or for port 0 (Linux begins at 32768, others at
49152): one that is free now stays free.
"""
_TOKEN_BYTES: Final = 24
_PAGE_BYTES: Final = mmap.PAGESIZE
_CGROUP: Final = Path("/sys/fs/cgroup")


class RealClock(LoopClock):
    """``Clock`` on the system's clocks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            loop,
            read_wall_ns=time.time_ns,
            read_monotonic_ns=time.monotonic_ns,
            monotonic_start_ms=secrets.randbelow(MONOTONIC_START_MS_MAX),
        )


def real_environment(
    *,
    seed: int | None = None,
    latency_ms_of: Callable[[BrokerId, BrokerId], float] | None = None,
    trace_level: TraceLevel = TraceLevel.OFF,
    trace_ring_bytes: int | None = DEFAULTS.trace_ring_bytes,
    run_info: RunInfo | None = None,
    logs_requests: bool = False,
) -> Environment:
    """The real environment on the running event loop; with a random seed if none is given."""
    loop = asyncio.get_running_loop()
    clock = RealClock(loop)
    tracer = Tracer(
        clock.stopwatch_ns,
        start_ns=clock.start_ns,
        level=trace_level,
        ring_bytes=trace_ring_bytes,
        run_info=run_info,
    )
    clock.context_of = tracer.timer_context
    tasks = LoopTasks(loop, tracer=tracer, read_stopwatch_ns=clock.stopwatch_ns, has_threads=True)
    network = LoopNetwork(
        loop,
        clock=clock,
        tasks=tasks,
        tracer=tracer,
        latency_ms_of=latency_ms_of,
    )
    rng = RandomStreams(random_seed() if seed is None else seed)
    return Environment(
        clock=clock,
        rng=rng,
        network=network,
        tasks=tasks,
        tracer=tracer,
        logs_requests=logs_requests,
    )


def resident_bytes() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES


def memory_bytes() -> int | None:
    """Memory of the machine or container; None if the system does not tell."""
    if not Path("/proc/self/statm").exists():
        return None
    limits = [os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES]
    for limit_file in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # the other version, or no limit
            limits.append(int((_CGROUP / limit_file).read_text("ascii")))
    return min(limits)


def host_name() -> str:
    """The name of this machine, as others may know it."""
    return socket.getfqdn()


def new_token() -> str:
    """A random secret of letters that any header and any URL can carry."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def tcp_socket(host: str, port: int) -> socket.socket:
    """A bound TCP socket, for a server that takes one; ``port`` 0 picks a free port.

    Raises:
        OSError: The port is busy, or this is no address of ours; the error names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tcp_socket_bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        tcp_socket_bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp_socket_bound.bind((host, port))
    except OSError as error:
        tcp_socket_bound.close()
        raise OSError(error.errno, f"{host_and_port(host, port)}: {error.strerror}") from error
    return tcp_socket_bound


def free_ports(count: int) -> list[int]:
    """Free ports of loopback, for processes that bind them later.

    Raises:
        OSError: There are not enough free ports.
    """
    drawn_ports = secrets.SystemRandom().sample(_PORT_RANGE, len(_PORT_RANGE))
    ports = list(itertools.islice(filter(_is_free, drawn_ports), count))
    if len(ports) < count:
        lowest_port, highest_port = _PORT_RANGE[0], _PORT_RANGE[-1]
        raise OSError(f"{count} free ports are wanted between {lowest_port} and {highest_port}")
    return ports


def _is_free(port: int) -> bool:
    try:
        tcp_socket("127.0.0.1", port).close()
    except OSError:
        return False
    return True


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new uvloop where the platform has it, otherwise asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end on a new event loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
