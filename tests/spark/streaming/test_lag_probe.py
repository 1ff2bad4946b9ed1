"""The probe on a simulated cluster: what holds readers back, and what could not be asked."""

from __future__ import annotations

from tests.real.hang import make_hanging
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ConnectionLostError
from txnsim.client.producer import Producer
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark.streaming._lag_probe import PartitionLag, probe

GHOSTLY = TopicPartition("orders", 0)


async def look(cluster: Cluster, *, older_than_ms: int = 900_000) -> dict[int, PartitionLag]:
    rows = await probe(
        Admin(cluster), ["orders"], now_ms=cluster.clock.now_ms() + 1, older_than_ms=older_than_ms
    )
    return {row.partition: row for row in rows if row.partition is not None}


@within(run_cluster)
async def test_a_hanging_transaction_is_named_and_what_it_withholds_counted(
    world: VirtualCluster,
) -> None:
    async with world.client() as cluster:
        assert {row.lag for row in (await look(cluster)).values()} == {0}
        ghost = await make_hanging(Admin(cluster), GHOSTLY, "ghost")
        async with Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"behind")
            await producer.send("orders", 1, b"free")
            await producer.commit()
        rows = await look(cluster)
        assert (rows[0].last_stable_offset, rows[0].high_watermark, rows[0].lag) == (0, 3, 3)
        (held,) = rows[0].held_by
        assert (held.verdict, held.start_offset) == (OpenTxnStatus.HANGING, 0)
        assert (held.producer_id, held.producer_epoch) == (
            ghost.producer_id,
            ghost.producer_epoch,
        )
        assert (held.transactional_id, held.state) == ("ghost", "Empty")
        assert (rows[1].lag, rows[1].held_by) == (0, ())


@within(run_cluster)
async def test_a_transaction_that_is_young_is_a_lag_and_nobody_is_accused(
    world: VirtualCluster,
) -> None:
    async with (
        world.client() as cluster,
        Producer(cluster, transactional_id="app") as producer,
    ):
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 2, b"open")
        young = (await look(cluster))[2]
        assert (young.lag, young.held_by) == (1, ())
        (held,) = (await look(cluster, older_than_ms=0))[2].held_by
        assert (held.verdict, held.transactional_id) == (OpenTxnStatus.ALIVE, "app")
        await producer.abort()


@within(run_cluster)
async def test_all_topics_but_those_of_kafka_itself(world: VirtualCluster) -> None:
    async with world.client() as cluster:
        async with Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
        rows = await probe(Admin(cluster), None, now_ms=0)
        assert {row.topic for row in rows} == {"orders"}


@within(run_cluster)
async def test_a_topic_that_is_not_there_is_a_row_with_its_reason(world: VirtualCluster) -> None:
    async with world.client() as cluster:
        rows = await probe(Admin(cluster), ["orders", "nothing"], now_ms=0)
        assert rows[0] == PartitionLag(topic="nothing", error="UNKNOWN_TOPIC_OR_PARTITION")
        assert {row.lag for row in rows[1:]} == {0}
        assert rows[0].lag is None


def test_who_did_not_answer_is_told_and_nothing_is_concluded() -> None:
    class Deaf(Admin):
        """Its coordinators don't answer."""

        async def list_transactions(self, *_: object, **__: object) -> dict[int, object]:  # type: ignore[override]
            raise ConnectionLostError("gone")

    async def story(world: VirtualCluster) -> None:
        async with world.client() as cluster:
            await make_hanging(Admin(cluster), GHOSTLY, "ghost")
            rows = await probe(Deaf(cluster), ["orders"], now_ms=cluster.clock.now_ms())
            (row,) = (row for row in rows if row.partition == 0)
            assert (row.lag, row.held_by, row.error) == (1, (), "gone")

    run_cluster(story)


@within(run_cluster)
async def test_where_nobody_answers_one_row_says_so(world: VirtualCluster) -> None:
    async with world.client(api_timeout_ms=1_000) as cluster:
        for broker in sorted(world.sim.members):
            await world.sim.kill_broker(broker)
        (row,) = await probe(Admin(cluster), ["orders"], now_ms=0)
        assert (row.topic, row.partition, row.lag) == (None, None, None)
        assert row.error is not None
