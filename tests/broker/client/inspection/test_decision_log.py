from __future__ import annotations

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.inspection import _decision_log as decision_log
from txnsim.client.inspection._decision_log import noted
from txnsim.client.producer import Producer
from txnsim.txn.past_decision import Noted
from txnsim.types import TopicPartition


def test_what_was_written_down_of_an_id_is_read_from_the_running_cluster() -> None:
    async def story(world: VirtualCluster) -> tuple[tuple[Noted, ...], ...]:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="shop") as shop,
        ):
            nothing = await noted(cluster, "shop", last_timestamp_ms=0)
            await shop.init_transactions()
            for end in (shop.commit, shop.abort):
                shop.begin()
                await shop.send("orders", 0, b"x")
                await end()
            now_ms = cluster.clock.now_ms()
            return (
                nothing,
                await noted(cluster, "shop", last_timestamp_ms=now_ms),
                await noted(cluster, "other", last_timestamp_ms=now_ms),
                await noted(cluster, "shop", last_timestamp_ms=now_ms + 2 * decision_log.BEFORE_MS),
            )

    nothing, told, other, later = run_cluster(story, level=2)
    assert nothing == other == later == ()
    decided = [one.state for one in told if one.state.startswith("Prepare")]
    assert decided == ["PrepareCommit", "PrepareAbort"]
    assert all(one.is_v2 for one in told if one.state.startswith("Prepare"))
    assert TopicPartition("orders", 0) in told[1].partitions


def test_a_log_that_is_too_long_tells_nothing() -> None:
    async def story(world: VirtualCluster) -> tuple[Noted, ...]:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="shop") as shop,
        ):
            await shop.init_transactions()
            for _ in range(3):
                shop.begin()
                await shop.send("orders", 0, b"x")
                await shop.commit()
            return await noted(cluster, "shop", last_timestamp_ms=cluster.clock.now_ms())

    most, decision_log.RECORDS_MAX = decision_log.RECORDS_MAX, 2  # type: ignore[misc]
    try:
        assert run_cluster(story) == ()
    finally:
        decision_log.RECORDS_MAX = most  # type: ignore[misc]
