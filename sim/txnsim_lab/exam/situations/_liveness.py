"""A fault lasts for some seconds: does the library wait without a storm of requests, and then go
on?
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from txnsim_lab.exam._application import Application, run_together
from txnsim_lab.exam.results import MissError
from txnsim_lab.exam.situation import ALL_LEVELS, PlaySituation, Situation, situation
from txnsim_lab.exam.situations._error_codes import LEVELS_WITH_ADDITIONS

FAULT_DURATION_S: Final = 3
REQUESTS_PER_S_MAX: Final = 60
"""Kafka's clients pause for 100 ms between retries, some for 20 ms while a transaction is
completing.
"""
RECONNECTS_PER_S_MAX: Final = 2_000
"""High, since the Java client only waits before a new connection if it could not connect."""


HEALED_WITHIN_S: Final = 10
"""Time after the fault within which a client must have resumed, or reported an error."""


def _transact_amid_fault(api: str, fault_action: Any, requests_per_s_max: int) -> PlaySituation:
    """Plays a transaction in the middle of some seconds in which a fault strikes one API."""

    async def play(app: Application) -> None:
        """The Java client waits for retry.backoff.ms before it asks again, and goes on when the
        fault is over. A library may also give an error that says what the application has to do.
        """
        fault = await app.arm(point="client.request", api=api, action=fault_action)
        loop = asyncio.get_running_loop()
        counting_rule = await app.requests()

        async def heal() -> float:
            await asyncio.sleep(FAULT_DURATION_S)
            requests_per_s = counting_rule.matched / FAULT_DURATION_S
            await app.disarm(fault)
            return requests_per_s

        async def begin() -> float:
            await app.must_init()
            await app.must_transact("a-1", "b-2", group="g", position=3)
            return loop.time()

        start_s = loop.time()
        resumed_s, requests_per_s = await run_together(begin(), heal())
        if requests_per_s > requests_per_s_max:
            raise MissError(f"{requests_per_s:.0f} requests per second while {api} is struck")
        if (delay_s := resumed_s - start_s - FAULT_DURATION_S) > HEALED_WITHIN_S:
            raise MissError(f"the application goes on only {delay_s:.0f} s after {api} is healed")
        await app.goes_on()

    return play


def _read_amid_fault(api: str, fault_action: Any, requests_per_s_max: int) -> PlaySituation:
    """Reads while a fault strikes the reader's requests for some seconds."""

    async def play(app: Application) -> None:
        """The Java client waits for retry.backoff.ms before it asks again, and reads on when the
        fault is over.
        """
        await app.must_init()
        await app.must_transact("a-1", "b-1")
        fault = await app.arm(point="client.request", api=api, action=fault_action)
        counting_rule = await app.requests()
        values, healed_event = list[str](), asyncio.Event()

        async def read() -> None:
            await app.consumer()
            while not healed_event.is_set():
                values.extend(await app.poll_once())

        async def heal() -> float:
            await asyncio.sleep(FAULT_DURATION_S)
            requests_per_s = counting_rule.matched / FAULT_DURATION_S
            await app.disarm(fault)
            healed_event.set()
            return requests_per_s

        _, requests_per_s = await run_together(read(), heal())
        if requests_per_s > requests_per_s_max:
            raise MissError(f"{requests_per_s:.0f} requests per second while {api} is struck")
        app.expect(values + await app.poll(2 - len(values)), ["a-1", "b-1"], "the reader gets")

    return play


def _error_action(error: str) -> dict[str, str]:
    return {"do": "error", "error": error}


_BREAK_ROWS: Final = (
    ("breaks", "disconnect", RECONNECTS_PER_S_MAX, "each connection breaks at"),
    ("silent", "drop", RECONNECTS_PER_S_MAX, "nothing answers"),
)
"""Connection faults; readers are left out, as they wait for their own request timeout."""
_REQUEST_ROWS: Final = (
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", ALL_LEVELS),
    ("InitProducerId", "CONCURRENT_TRANSACTIONS", ALL_LEVELS),
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", LEVELS_WITH_ADDITIONS),
    ("AddOffsetsToTxn", "COORDINATOR_LOAD_IN_PROGRESS", LEVELS_WITH_ADDITIONS),
    ("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", ALL_LEVELS),
    ("Produce", "NOT_LEADER_OR_FOLLOWER", ALL_LEVELS),
    ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", ALL_LEVELS),
)
_READ_ROWS: Final = (("Fetch", ""), ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"))
"""Reader's APIs and errors. For a Fetch the fault has no error: a broker refuses single partitions,
while an injected error would refuse the whole Fetch.
"""
_CORE_NAMES: Final = ("endtxn-breaks-long", "endtxn-refused-long", "produce-refused-long",
                "initproducerid-refused-long", "listoffsets-refused-long")  # fmt: skip


def _liveness_situations(
    api: str, error: str, levels: tuple[int, ...], play: Callable[..., PlaySituation]
) -> list[Situation]:
    refused_rows = (("refused", _error_action(error), REQUESTS_PER_S_MAX, f"{error} answers"),)
    return [
        situation(
            f"{api}-{fault_name}-long".lower(),
            "liveness",
            f"For {FAULT_DURATION_S} seconds {fault_text} {api}: is there no storm, and does it"
            " then go on?",
            levels=levels,
            groups=("g",) if play is _transact_amid_fault else (),
            is_core=f"{api}-{fault_name}-long".lower() in _CORE_NAMES,
        )(play(api, action, requests_max))
        for fault_name, action, requests_max, fault_text in (
            *(refused_rows if error else ()),
            *(_BREAK_ROWS if play is _transact_amid_fault else _BREAK_ROWS[:1]),
        )
    ]


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(
        row
        for api, error, levels in _REQUEST_ROWS
        for row in _liveness_situations(api, error, levels, _transact_amid_fault)
    ),
    *(
        row
        for api, error in _READ_ROWS
        for row in _liveness_situations(api, error, ALL_LEVELS, _read_amid_fault)
    ),
)
