"""The surroundings of a cluster in virtual time whose loop is turned by hand."""

from __future__ import annotations

from typing import Any

from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.net import LATENCY_US_DEFAULT
from txnsim.runtime.virtual.run import PEER_LATENCY_US_DEFAULT, VirtualEnvironment, VirtualLoop

Failures = list[dict[str, Any]]


def around(
    loop: VirtualLoop, *, start_ms: int, seed: int = 1, trace_level: TraceLevel = TraceLevel.OFF
) -> tuple[VirtualEnvironment, Failures]:
    """An environment on this loop, and what callbacks of the loop will have failed with.

    Args:
        loop: Not yet running.
        start_ms: What clocks show now.
        seed: Of all chance in the run.
        trace_level: Of its trace.
    """
    failures: Failures = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    begun_ns = loop.time_ns()
    environment = VirtualEnvironment(
        loop,
        seed=seed,
        latency_us=LATENCY_US_DEFAULT,
        peer_latency_us=PEER_LATENCY_US_DEFAULT,
        trace_level=trace_level,
        read_wall_ns=lambda: loop.time_ns() - begun_ns + start_ms * 1_000_000,
    )
    return environment, failures
