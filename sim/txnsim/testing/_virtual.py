"""A test in virtual time: a cluster and an asynchronous client in one event loop whose clock jumps.

Hours pass in milliseconds, and the same seed gives the same run, event by event. An unmodified
aiokafka does not notice; features that are not simulated (threads, DNS, subprocesses) raise. A
library that opens its own sockets reaches no broker under the cluster's name, and its error gets a
note that says why.

Properties of the process can keep a run from being reproducible in another process. A failure names
them, and ``arrange_process`` removes them.
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
from txnsim.testing.options import SimulatedClusterOptions, options_from_keywords

T = TypeVar("T")

START_MS: Final = virtual.START_MS
SEED_DEFAULT: Final = 0

_SOCKET_CLIENTS: Final = {"cimpl": "confluent-kafka", "kafka": "kafka-python"}
"""Module of a client's errors -> the client's name, for clients that open their own sockets."""

KeepCluster = Callable[[AsyncSimulatedKafka], object]


def run_virtual(
    main: Callable[[AsyncSimulatedKafka], Awaitable[T]],
    *,
    seed: int = SEED_DEFAULT,
    start_ms: int = START_MS,
    cluster_options: SimulatedClusterOptions | None = None,
    keep: KeepCluster | None = None,
    **options: Any,
) -> T:
    """Run ``main`` with a cluster in virtual time.

    Args:
        main: Gets the running cluster.
        seed: Seed of all random numbers in the run.
        start_ms: Time of the clock at the start; the same in every run unless given.
        cluster_options: Options of the cluster; ``options`` unless given.
        keep: Called with the cluster before it starts, so that the caller can look at it after a
            failure.
        options: Options of ``AsyncSimulatedKafka``.

    Returns:
        The result of ``main``.

    Raises:
        ConfigError: The options are invalid.
        SimulationError: Deadlock, livelock, or use of something that is not simulated.
    """
    resolved_options = cluster_options or options_from_keywords(**{"trace": "full", **options})

    async def whole(environment: VirtualEnvironment) -> T:
        kafka = AsyncSimulatedKafka.from_description(
            resolved_options, cluster_loop=ClusterLoop(environment.loop), environment=environment
        )
        if keep is not None:
            keep(kafka)
        async with kafka:
            return await main(kafka)

    try:
        return virtual.run_virtual(
            whole, seed=seed, start_ms=start_ms, trace_level=resolved_options.trace_level
        )
    except BaseException as error:
        if client := _SOCKET_CLIENTS.get(type(error).__module__.partition(".")[0]):
            error.add_note(
                f"{client} opens sockets of its own, and a run in virtual time has none ({HOST} is "
                "no host's name): use aiokafka here, or a cluster on the real clock for this client"
            )
        if process_limits := limits_of_process():
            error.add_note(f"in another process it may go otherwise: {'; '.join(process_limits)}")
        raise
