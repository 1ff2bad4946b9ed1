from __future__ import annotations

import asyncio

from sim.scenario.steps import act
from sim.types import TopicPartition
from tests.support.stories import late_produce, staged, step


async def test_a_stage_is_a_cluster_in_the_world_of_its_mode() -> None:
    for mode, world in late_produce().modes.items():
        async with staged(mode) as built:
            settings = built.cluster.options.settings
            assert settings.transaction_version == world.transaction_version
            assert settings.transaction_partition_verification_enable is world.verification
            assert len(built.cluster.brokers) == 3
            assert built.partition == TopicPartition("payments", 0)
            assert built.facts.player == "own client"


async def test_a_sentence_is_the_storys_or_somebodys() -> None:
    async with staged() as built:
        built.tell("It begins.")
        built.tell("sees it", who="reader")
        tracer = built.environment.tracer
        notes = [
            (tracer.nodes[event.n], event.d) for event in tracer.events(0) if event.k == "note"
        ]
    assert notes == [("scenario", {"text": "It begins."}), ("reader", {"text": "sees it"})]


async def test_leaving_a_stage_ends_everything_even_what_is_held() -> None:
    before = asyncio.all_tasks()
    async with staged() as built:
        rule = {"id": "x", "point": "client.request", "api": "Produce", "transactional_id": "app"}
        for given in (
            step(call={"who": "producer", "do": "begin"}),
            step(hold=rule),
            step(call={"who": "producer", "do": "send", "value": "late"}),
            step(wait_until={"struck": "x"}),
        ):
            await act(built, given)
        assert built.cluster.injector.rules()
    assert built.cluster.injector.rules() == ()
    assert asyncio.all_tasks() == before
