"""What a search of ``txnsim txns`` counts, and what it must not leave out in silence."""

from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.hanging_transaction import make_hanging
from tests.support.waiting import leaderless
from txnsim.cli._txns.operator_commands import HANGS, INCOMPLETE, FindHangingEverywhere, WhyCommand
from txnsim.cli._txns.search_scope import HangingSearchResult, SearchScope
from txnsim.cli.output import Output
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ConfigError
from txnsim.types import BrokerId, TopicPartition

Captured = pytest.CaptureFixture[str]
SOLO = TopicPartition("solo", 0)
HOME = BrokerId(2)


def test_a_partition_needs_its_topic() -> None:
    with pytest.raises(ConfigError, match="requires --topic"):
        SearchScope(partition=1)


def search_story(scope: SearchScope, *, age_ms: int) -> tuple[HangingSearchResult, Output]:
    """Search a cluster that has a hanging transaction and a live transaction."""

    async def story(virtual_cluster: VirtualCluster) -> tuple[HangingSearchResult, Output]:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="living") as living_producer,
        ):
            admin = Admin(cluster)
            await make_hanging(admin, TopicPartition("orders", 0), "ghost", age_ms=age_ms)
            await living_producer.init_transactions()
            living_producer.begin()
            await living_producer.send("orders", 1, b"x")
            now_ms = cluster.clock.now_ms()
            search_result = await scope.search(admin, now_ms=now_ms)
            output = await FindHangingEverywhere(scope=scope, program="t").execute(
                admin, now_ms=now_ms
            )
            await living_producer.abort()
            return search_result, output

    return run_cluster(story)


def test_what_is_younger_is_judged_and_counted_and_is_no_success(capsys: Captured) -> None:
    search, output = search_story(SearchScope(), age_ms=0)
    assert (
        len(search.findings),
        len(search.younger_transactions),
        len(search.hanging_younger_findings),
    ) == (
        0,
        2,
        1,
    )
    assert output.status == HANGS
    assert output.rows == (), "the table is of the age that was asked for"
    assert output.lines[0].startswith("orders-0 at offset 0: transactional id ghost is Empty")
    assert output.lines[-1] == "  t repair --topic orders --partition 0 --yes"
    assert "hanging: 0; open and younger: 2, 1 of them hanging." in capsys.readouterr().err
    assert [row["finding"].verdict for row in output.values["younger"]] == ["hanging", "alive"]


def test_a_named_partition_is_judged_at_any_age(capsys: Captured) -> None:
    search, output = search_story(SearchScope(topic="orders", partition=0), age_ms=-60_000)
    assert (len(search.hanging), search.younger_transactions, output.status) == (1, (), HANGS)
    search, _ = search_story(
        SearchScope(topic="orders", partition=0, max_transaction_timeout_min=5), age_ms=60_000
    )
    assert (len(search.hanging), len(search.hanging_younger_findings)) == (0, 1)
    assert "open and younger: 1, 1 of them hanging" in capsys.readouterr().err


@pytest.mark.parametrize(("topic", "partition"), [("orders", 9), ("order", 0)])
def test_a_partition_that_is_not_there_is_told_at_once(topic: str, partition: int) -> None:
    async def story(virtual_cluster: VirtualCluster) -> float:
        async with virtual_cluster.client() as cluster:
            began_ms = cluster.clock.now_ms()
            with pytest.raises(ClientError, match=f"there is no partition {topic}-{partition}"):
                await SearchScope(topic=topic, partition=partition).search(Admin(cluster), now_ms=0)
            return cluster.clock.now_ms() - began_ms

    assert run_cluster(story) < 5_000


def test_a_partition_without_a_leader_is_no_success() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Output:
        virtual_cluster.sim.metadata.create_topic(
            TopicToCreate(name=SOLO.topic, assignments=((0, (HOME,)),))
        )
        await virtual_cluster.sim.kill_broker(HOME)
        await leaderless(virtual_cluster, SOLO)
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            with pytest.raises(ClientError, match="solo-0 has no leader"):
                await SearchScope(topic=SOLO.topic, partition=0).search(admin, now_ms=0)
            return await WhyCommand(partition=SOLO, program="t").execute(admin, now_ms=0)

    output = run_cluster(story)
    assert "has no leader" in output.lines[0]
    assert output.status == INCOMPLETE
