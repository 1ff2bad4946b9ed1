"""A run in virtual time: ``run_virtual(main, seed=7)``.

Puts clock, tasks, network and trace, the same classes as in the real world, on a virtual loop, and
makes the ambient sources that unmodified client libraries read (``time``, ``random``) follow the
run in its thread. A run is a function of its seed: every failure carries the seed as a note. A
process has one run at a time; what its other threads do is not touched and does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, Final, TypeVar

from txnsim.runtime.clock import LoopClock
from txnsim.runtime.env import Environment
from txnsim.runtime.network import LoopNetwork
from txnsim.runtime.rng import SeededRng, derive
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import RunInfo, TraceLevel, Tracer
from txnsim.runtime.virtual._ambient import ambient_virtual
from txnsim.runtime.virtual._loop import IDLE_TURNS_MAX, VirtualLoop
from txnsim.runtime.virtual.net import HOST, LATENCY_US_DEFAULT, VirtualNet
from txnsim.types import BrokerId

T = TypeVar("T")

START_MS: Final = 1_700_000_000_000
"""Cluster wall time at the start of a virtual run (14 November 2023), the same in every run."""

PEER_LATENCY_US_DEFAULT: Final = (50, 500)
"""One way between brokers, drawn evenly."""


class VirtualEnvironment(Environment):
    """A virtual run's world, with its loop and its network of connections, where faults of
    connections are put in.
    """

    __slots__ = ("loop", "net", "seed")

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        seed: int,
        latency_us: tuple[int, int],
        peer_latency_us: tuple[int, int] | None,
        trace_level: TraceLevel,
        wall_ns: Callable[[], int],
    ) -> None:
        clock = LoopClock(
            loop,
            wall_ns=wall_ns,
            monotonic_ns=loop.time_ns,
            monotonic_start_ms=loop.time_ns() // 1_000_000,
        )
        rng = SeededRng(seed)
        tracer = Tracer(
            clock.monotonic_us,
            level=trace_level,
            run=RunInfo(seed=seed, clock="virtual"),
            strict=True,
        )
        clock.context_of = tracer.timer_context
        tasks = LoopTasks(loop, tracer=tracer, stopwatch_ns=clock.stopwatch_ns)
        network = LoopNetwork(
            loop,
            clock=clock,
            tasks=tasks,
            tracer=tracer,
            latency_ms=None if peer_latency_us is None else _peer_latency(rng, peer_latency_us),
        )
        super().__init__(
            clock=clock,
            rng=rng,
            network=network,
            tasks=tasks,
            tracer=tracer,
            clients_host=HOST,
        )
        self.seed = seed
        self.loop = loop
        self.net = VirtualNet(loop, rng=rng, latency_us=latency_us)
        loop.net = self.net


def run_virtual(
    main: Callable[[VirtualEnvironment], Awaitable[T]],
    *,
    seed: int,
    start_ms: int = START_MS,
    latency_us: tuple[int, int] = LATENCY_US_DEFAULT,
    peer_latency_us: tuple[int, int] | None = PEER_LATENCY_US_DEFAULT,
    trace_level: TraceLevel = TraceLevel.FULL,
    idle_turns_max: int = IDLE_TURNS_MAX,
) -> T:
    """Run ``main`` to its end in virtual time.

    Args:
        main: Is handed the environment.
        seed: Of all chance in the run, ``random`` in its thread included.
        start_ms: Wall time at the start.
        latency_us: Least and greatest latency of a connection, one way.
        peer_latency_us: The same of a link between brokers; None delivers at once, as ``serve``.
        trace_level: How much is recorded; nothing is dropped.
        idle_turns_max: Turns of the loop without time going on that are called a livelock.

    Returns:
        What ``main`` answers.

    Raises:
        SimulationError: Deadlock, livelock, something that is not simulated, or another virtual
            run is under way in this process.
        BaseExceptionGroup: ``main`` came to its end, but background tasks or callbacks failed.
    """
    loop = VirtualLoop(idle_turns_max=idle_turns_max)
    wall_ns = _wall_ns(loop, start_ms)
    failures: list[BaseException] = []
    loop.set_exception_handler(_collector(failures))
    try:
        with (
            closing(loop),
            ambient_virtual(
                monotonic_ns=loop.time_ns, wall_ns=wall_ns, seed=derive(seed, "ambient")
            ) as libraries,
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):
            loop.before_connect = libraries.lend
            environment = VirtualEnvironment(
                loop,
                seed=seed,
                latency_us=latency_us,
                peer_latency_us=peer_latency_us,
                trace_level=trace_level,
                wall_ns=wall_ns,
            )
            result = runner.run(_whole(main, environment))
        if failures:
            raise BaseExceptionGroup("callbacks of the loop failed", failures)
    except BaseException as error:
        error.add_note(f"virtual run with seed {seed}")
        raise
    return result


async def _whole(main: Callable[[VirtualEnvironment], Awaitable[T]], env: VirtualEnvironment) -> T:
    try:
        return await main(env)
    finally:
        await env.tasks.close()


def _wall_ns(loop: VirtualLoop, start_ms: int) -> Callable[[], int]:
    offset_ns = start_ms * 1_000_000 - loop.time_ns()
    return lambda: loop.time_ns() + offset_ns


def _peer_latency(
    rng: SeededRng, latency_us: tuple[int, int]
) -> Callable[[BrokerId, BrokerId], float]:
    def latency_ms(source: BrokerId, target: BrokerId) -> float:
        return rng.stream(f"link.b{source}-b{target}").randint(*latency_us) / 1_000

    return latency_ms


def _collector(
    failures: list[BaseException],
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]:
    """A loop's handler that keeps failed callbacks as bugs; what a client library leaves unread in
    a future is only reported.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, asyncio.CancelledError):
            return  # asyncio's streams of Python 3.11 let it out of a callback when the run ends
        if error is not None and "future" not in context and "task" not in context:
            failures.append(error)
        else:
            loop.default_exception_handler(context)

    return handle
