"""The hang of the page's button: what it makes, and that it tells its story."""

from __future__ import annotations

from tests.support.clusters import real_cluster
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.runtime.trace import TraceLevel
from txnsim.server.cluster import SimCluster
from txnsim.trace.story import story
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario import hanging_example
from txnsim_lab.trace.state import state_at

TOPIC = (hanging_example.HANGING_PARTITION.topic, 1)


async def test_it_hangs_and_nothing_else_is_made() -> None:
    async with real_cluster(topics=(TOPIC,), trace_level=TraceLevel.BRIEF) as sim:
        await leave_hanging(sim, "billing")
        assert [open_transaction.partition for open_transaction in await open_ones(sim)] == [
            hanging_example.HANGING_PARTITION
        ]
        assert sim.injector.get(hanging_example.HOLD_RULE_ID) is None
        recording = Recording.from_lines(
            "the trace", b"".join(sim.environment.tracer.pieces()).splitlines()
        )
        narrated = [
            sentence.text
            for sentence in story(recording.events, recording.nodes)
            if sentence.is_narrated
        ]
        assert len(narrated) == 6
        assert narrated[0].startswith("An application begins the transaction billing/1.")
        # Its reader got nothing, though "paid" is no part of a transaction.
        assert not [event for event in recording.events if event.k == "client.deliver"]
        state = state_at(recording.events, recording.nodes, level=recording.level)
        assert (state.logs["orders-0"]["lso"], state.logs["orders-0"]["end"]) == (1, 3)


async def test_it_can_be_made_again_while_one_hangs() -> None:
    async with real_cluster(topics=(TOPIC,)) as sim:
        for number in (1, 2):
            await leave_hanging(sim, f"billing-{number}")
            assert len(await open_ones(sim)) == number


async def leave_hanging(sim: SimCluster, transactional_id: str) -> None:
    def outside(client_id: str) -> Cluster:
        settings = ClientSettings(client_id=client_id)
        return Cluster(sim.bootstrap, settings=settings, tracer=sim.environment.tracer)

    await hanging_example.make(sim, outside, transactional_id=transactional_id)


async def open_ones(sim: SimCluster) -> list[OpenTransaction]:
    async with Cluster(sim.bootstrap) as client:
        now_ms = client.clock.now_ms()
        search = await survey(Admin(client), now_ms=now_ms, older_than_ms=ANY_AGE)
        return [hanging_transaction.transaction for hanging_transaction in search.hanging]
