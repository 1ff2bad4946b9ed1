"""Observations of a test, judged."""

from __future__ import annotations

from tests.support.testing_plays import committed
from tests.support.within import within
from txnsim.check.observations import Ended, Outcome, Wrote
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.virtual import run_virtual


@within(run_virtual, topics=["orders"])
async def test_what_an_application_notes_is_held_against_what_an_onlooker_sees(
    kafka: AsyncSimulatedKafka,
) -> None:
    await committed(kafka, "orders", "a")
    now_ms = await kafka.clock.now_ms()
    for offset, value in enumerate(("a", "lost")):
        await kafka.history.note(
            Wrote(
                at_ms=now_ms,
                who="app",
                topic="orders",
                partition=0,
                transaction="t1",
                value=value,
                item=value,
                offset=offset,
                outcome=Outcome.OK,
            )
        )
    await kafka.history.note(
        Ended(at_ms=now_ms, who="app", transaction="t1", commit=True, outcome=Outcome.OK)
    )
    seen = await kafka.history.look("orders")
    assert (await kafka.history.observations())[3:] == seen
    verdict = await kafka.history.verdict()
    assert "lost-write" in verdict.kinds


@within(run_virtual, topics=["orders"])
async def test_a_healthy_cluster_is_found_healthy(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "orders", "a")
    await kafka.history.look("orders")
    assert (await kafka.history.verdict()).kinds == ()
