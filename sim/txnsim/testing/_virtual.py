"""A test in virtual time: a cluster and an asynchronous client in one loop whose clock jumps.

Hours pass in milliseconds, and the same seed gives the same run, event by event. An unmodified
aiokafka can't tell; unsimulated features (threads, DNS, subprocesses) raise. A library that opens
sockets of its own finds nobody under the cluster's name, and its error gets a note that says why.

What keeps a run from repeating in another process is a property of the process. A failure names it,
and ``arrange_process`` removes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from txnsim.runtime.virtual import run as virtual
from txnsim.runtime.virtual.net import HOST
from txnsim.runtime.virtual.reproducible_process import limits_of_process
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.options import SimulatedClusterOptions, wanted

T = TypeVar("T")

START_MS: Final = virtual.START_MS
SEED_DEFAULT: Final = 0

_OPEN_SOCKETS: Final = {"cimpl": "confluent-kafka", "kafka": "kafka-python"}
"""Clients that can't follow a run, by the module of their errors."""

Keep = Callable[[AsyncSimulatedKafka], object]


def run_virtual(
    main: Callable[[AsyncSimulatedKafka], Awaitable[T]],
    *,
    seed: int = SEED_DEFAULT,
    start_ms: int = START_MS,
    asked: SimulatedClusterOptions | None = None,
    keep: Keep | None = None,
    **options: Any,
) -> T:
    """Run ``main`` beside a cluster in virtual time.

    Args:
        main: Is handed the running cluster.
        seed: Seed of all chance in the run.
        start_ms: What the clock shows at the start; the same in every run unless given.
        asked: The cluster, described; else ``options`` do.
        keep: Called with the cluster before it starts, so that the caller can look at it after a
            failure.
        options: Those of ``AsyncSimulatedKafka``.

    Returns:
        What ``main`` answers.

    Raises:
        ConfigError: The options can't be met.
        SimulationError: Deadlock, livelock, or something that is not simulated.
    """
    described = asked or wanted(**{"trace": "full", **options})

    async def whole(environment: VirtualEnvironment) -> T:
        kafka = AsyncSimulatedKafka.of(
            described, cluster_loop=ClusterLoop(environment.loop), environment=environment
        )
        if keep is not None:
            keep(kafka)
        async with kafka:
            return await main(kafka)

    try:
        return virtual.run_virtual(
            whole, seed=seed, start_ms=start_ms, trace_level=described.trace_level
        )
    except BaseException as error:
        if client := _OPEN_SOCKETS.get(type(error).__module__.partition(".")[0]):
            error.add_note(
                f"{client} opens sockets of its own, and a run in virtual time has none ({HOST} is "
                "no host's name): use aiokafka here, or a cluster on the real clock for this client"
            )
        if limits := limits_of_process():
            error.add_note(f"in another process it may go otherwise: {'; '.join(limits)}")
        raise
