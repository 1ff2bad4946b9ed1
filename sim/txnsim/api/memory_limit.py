"""A limit on the process's memory: above it, requests that need more memory are refused.

All brokers share one process, and a MemoryError would stop all of them. So the memory of the
process is measured from time to time. While it is above its mark, requests that make something grow
are answered with an error: a Produce with KAFKA_STORAGE_ERROR, which a client tries again, as where
a disk is full; all others with POLICY_VIOLATION. Reading goes on, and transactions end. Before
anything is refused, large incomplete frames are dropped with their connections.

Kafka's counterpart: none; a broker's heap ends with an OutOfMemoryError, and the broker with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

import msgspec

from txnsim.api.request import ApiTable, Handler, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.loggers import Logger
from txnsim.runtime.environment import Clock

DEVIATIONS: Final = (
    "Above a mark of memory (--memory) what needs more is refused: Produce with"
    " KAFKA_STORAGE_ERROR, requests that make topics, ids, groups, positions or settings with"
    " POLICY_VIOLATION; Apache Kafka ends with an OutOfMemoryError.",
)

_log: Final = Logger("txnsim.server")

LOOK_MS: Final = 250
SOON_MS: Final = 10
"""Milliseconds between two checks while memory is being released."""
SHARE_OF_MACHINE: Final = 0.8
"""Share of the memory of the machine or container that is the default mark."""
BELOW: Final = 0.95
"""Share of the mark; below it the server accepts all requests again."""
_PRODUCE: Final = 0
GROWS: Final = frozenset((_PRODUCE, 8, 11, 19, 22, 24, 28, 30, 33, 37, 44, 49, 51, 68))
"""API keys of the requests that make the server's state grow."""


def with_growth_refusal(apis: ApiTable) -> ApiTable:
    """The same APIs, but requests that make the state grow are refused."""
    return msgspec.structs.replace(
        apis,
        handlers={
            api_key: handler.with_parts(handle=partial(_refuse_growth, handler))
            if api_key in GROWS
            else handler
            for api_key, handler in apis.handlers.items()
        },
    )


async def _refuse_growth(handler: Handler, request: Request) -> Reply:
    is_produce = request.api_key == _PRODUCE
    error = ErrorCode.kafka_storage_error if is_produce else ErrorCode.policy_violation
    return handler.refuse(request, error)


class GrowthListener(Protocol):
    """A listener that can refuse requests that make the state grow."""

    def give_up_largest_frame(self) -> bool:
        """Close the connection with the largest incomplete frame; False if none is large."""

    def refuse_growth(self, *, is_full: bool) -> None:
        """Refuse requests that need more memory, or accept them again."""


class MemoryMark:
    """The memory limit of one server."""

    def __init__(
        self,
        limit_bytes: int,
        clock: Clock,
        find_listeners: Callable[[], Iterable[GrowthListener]],
        read_resident_bytes: Callable[[], int],
    ) -> None:
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._listeners = find_listeners
        self._resident_bytes = read_resident_bytes
        self.is_over = False

    def look(self) -> None:
        """Measure the memory now and from time to time."""
        resident_bytes = self._resident_bytes()
        next_ms = LOOK_MS
        if resident_bytes > self._limit_bytes:
            # One at a time: to free a gigabyte takes longer than a turn may.
            if any(
                memory_listener.give_up_largest_frame() for memory_listener in self._listeners()
            ):
                next_ms = SOON_MS
            resident_bytes = self._resident_bytes()
        is_over = resident_bytes > self._limit_bytes * (BELOW if self.is_over else 1)
        if is_over is not self.is_over:
            self.is_over = is_over
            resident_mib, limit_mib = resident_bytes >> 20, self._limit_bytes >> 20
            if is_over:
                _log.error(
                    f"memory: {resident_mib} MiB, above {limit_mib} (--memory): "
                    "no new work is taken"
                )
            else:
                _log.warning(f"memory: {resident_mib} MiB: new work is taken again")
        for memory_listener in self._listeners():
            memory_listener.refuse_growth(is_full=is_over)
        self._clock.call_later(next_ms, self.look)
