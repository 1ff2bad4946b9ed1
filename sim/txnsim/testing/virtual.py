"""A test in virtual time: a cluster and an asynchronous client in one loop whose clock jumps.

Hours pass in milliseconds, and the same seed gives the same run, event by event. An unmodified
aiokafka can't tell; what is not simulated (threads, DNS, subprocesses) raises.

aiokafka's compiled part stamps records by the system's clock, years ahead of virtual time. So here,
and only here, brokers take records from the future unless the test says otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from txnsim.runtime import virtual
from txnsim.runtime.virtual import VirtualEnvironment
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.home import Home
from txnsim.testing.options import Wanted, wanted

T = TypeVar("T")

START_MS: Final = virtual.START_MS
AHEAD: Final = "log.message.timestamp.after.max.ms"
AHEAD_MS_MAX: Final = 2**63 - 1

Keep = Callable[[AsyncSimulatedKafka], object]


def run_virtual(
    main: Callable[[AsyncSimulatedKafka], Awaitable[T]],
    *,
    seed: int = 0,
    start_ms: int = START_MS,
    asked: Wanted | None = None,
    keep: Keep | None = None,
    **options: Any,
) -> T:
    """Run ``main`` beside a cluster in virtual time.

    Args:
        main: Is handed the running cluster.
        seed: Of all chance in the run.
        start_ms: What the clock shows at the start; the same in every run unless given.
        asked: The cluster, described; else ``options`` do.
        keep: Is told of the cluster before it starts, for whoever wants to look at it after a
            failure.
        options: Those of ``AsyncSimulatedKafka``.

    Returns:
        What ``main`` answers.

    Raises:
        ConfigError: What is asked for can't be had.
        SimulationError: Deadlock, livelock, or something that is not simulated.
    """
    described = asked or wanted(**{"trace": "full", **options})
    described = msgspec.structs.replace(
        described, settings={AHEAD: AHEAD_MS_MAX, **described.settings}
    )

    async def whole(environment: VirtualEnvironment) -> T:
        kafka = AsyncSimulatedKafka.of(
            described, home=Home(environment.loop), environment=environment
        )
        if keep is not None:
            keep(kafka)
        async with kafka:
            return await main(kafka)

    return virtual.run_virtual(
        whole, seed=seed, start_ms=start_ms, trace_level=described.trace_level
    )
