"""Observations of a test, and the judges' verdict on them."""

from __future__ import annotations

from tests.support.testing_plays import write_committed
from tests.support.within_environment import within
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim_lab.check.observations import Ended, Outcome, Wrote


@within(run_virtual, topics=["orders"])
async def test_what_an_application_notes_is_held_against_what_an_onlooker_sees(
    kafka: AsyncSimulatedKafka,
) -> None:
    await write_committed(kafka, "orders", "a")
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
    observations = await kafka.history.look("orders")
    assert (await kafka.history.observations())[3:] == observations
    verdict = await kafka.history.verdict()
    assert "lost-write" in verdict.kinds


@within(run_virtual, topics=["orders"])
async def test_a_healthy_cluster_is_found_healthy(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "orders", "a")
    await kafka.history.look("orders")
    assert (await kafka.history.verdict()).kinds == ()


@within(run_virtual, topics=["orders"])
async def test_a_topic_that_the_test_deletes_takes_its_records_with_it(
    kafka: AsyncSimulatedKafka,
) -> None:
    now_ms = await kafka.clock.now_ms()
    observed_write = Wrote(
        at_ms=now_ms, who="app", topic="orders", partition=0, value="a", offset=0
    )
    await kafka.history.note(observed_write)
    await kafka.topics.delete("orders")
    await kafka.topics.create("orders")
    await kafka.clock.advance("1s")
    await write_committed(kafka, "orders", "b")
    await kafka.history.look("orders")
    assert (await kafka.history.verdict()).kinds == ()
