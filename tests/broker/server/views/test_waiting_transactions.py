"""What a transaction waits for, in the words of a message."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from tests.support.within_environment import within
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.points import FaultPoint
from txnsim.server.views.waiting_transactions import (
    check_states,
    until_state,
    wait_reasons,
    waited_in_vain_text,
)
from txnsim.types import BrokerId, TopicPartition


async def _commit(producer: Producer) -> None:
    await producer.init_transactions()
    producer.begin()
    await producer.send("orders", 0, b"v")
    await producer.commit()


@within(run_cluster)
async def test_a_lost_marker_is_named_with_the_setting_and_what_ends_the_wait(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers", limit=1)
    async with (
        cluster.client() as app_cluster,
        Producer(app_cluster, transactional_id="shop") as producer,
    ):
        await _commit(producer)
        await cluster.wait_until_struck()
        with pytest.raises(TimeoutError) as timeout_info:
            await until_state(cluster.sim, "shop", ("CompleteCommit",), timeout_ms=1_000)
        headline, lost_line, marker = str(timeout_info.value).splitlines()
        assert headline == "shop is PrepareCommit after 1000 ms, not CompleteCommit"
        assert "WriteTxnMarkers from broker" in lost_line
        assert "was lost by a fault" in lost_line
        assert "for 30000 ms (request.timeout.ms)" in lost_line
        assert marker == "  orders-0 has no marker yet"
        advised = int(lost_line.rpartition("advance the clock by ")[2].split()[0])
        cluster.advance(advised)
        await until_state(cluster.sim, "shop", ("CompleteCommit",), timeout_ms=1_000)
        assert wait_reasons(cluster.sim, "shop") == ()


@within(run_cluster)
async def test_a_rule_that_holds_and_a_link_that_is_cut_are_named(cluster: VirtualCluster) -> None:
    cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
    async with (
        cluster.client() as app_cluster,
        Producer(app_cluster, transactional_id="shop") as producer,
    ):
        await _commit(producer)
        await cluster.wait_until_struck()
        held_wait, _marker = wait_reasons(cluster.sim, "shop")
        assert held_wait.startswith("the fault rule 'f' holds WriteTxnMarkers of broker/")
        assert held_wait.endswith("at peer.request: release it")
        cluster.sim.injector.disarm_all()
        await until_state(cluster.sim, "shop", ("CompleteCommit",), timeout_ms=1_000)
        leader = cluster.sim.metadata.image.partition(TopicPartition("orders", 0))
        assert leader is not None
        coordinator = await app_cluster.coordinator("shop")
        if leader.leader == coordinator:
            cluster.sim.move_leader(TopicPartition("orders", 0), None)
            await asyncio.sleep(1)
        producer.begin()
        await producer.send("orders", 0, b"w")
        leader = cluster.sim.metadata.image.partition(TopicPartition("orders", 0))
        assert leader is not None
        cluster.env.network.cut(BrokerId(coordinator), leader.leader)
        await producer.commit()
        assert any(
            "it is cut, heal it" in wait_text for wait_text in wait_reasons(cluster.sim, "shop")
        )
        cluster.env.network.heal(BrokerId(coordinator), leader.leader)
        await until_state(cluster.sim, "shop", ("CompleteCommit",), timeout_ms=1_000)


@within(run_cluster)
async def test_an_open_transaction_and_one_that_is_not_known_say_what_is_missing(
    cluster: VirtualCluster,
) -> None:
    assert "no coordinator knows it" in waited_in_vain_text(cluster.sim, "shop", ("Ongoing",), 5)
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "shop") as producer,
    ):
        await producer.send("orders", 0, b"v")
        (wait_text,) = wait_reasons(cluster.sim, "shop")
        assert "neither committed nor aborted" in wait_text
        assert "transaction.timeout.ms" in wait_text
        await producer.abort()


def test_a_misspelt_state_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="did you mean CompleteCommit"):
        check_states(("CompletCommit",))
    with pytest.raises(ConfigError, match="no state is given; there are: Empty"):
        check_states(())
