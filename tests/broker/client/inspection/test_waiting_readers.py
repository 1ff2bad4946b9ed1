"""Why readers stand still: each cause made on a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from tests.real.hang import make_hanging
from tests.support.clusters import VirtualCluster, run_cluster, until_state
from tests.support.within import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, NotSupportedError
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.inspection.waiting_readers import Explanation, explain
from txnsim.client.producer import Producer
from txnsim.client.versions import Api, Request
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.txn.open_txn_verdict import Cause
from txnsim.types import TopicPartition
from txnsim.wire.codec import build

WHERE = TopicPartition("orders", 0)


async def explained(admin: Admin) -> Explanation:
    return await explain(admin, WHERE, now_ms=admin.cluster.clock.now_ms())


def test_nothing_is_withheld() -> None:
    async def story(world: VirtualCluster) -> Explanation:
        async with world.client() as cluster, Producer(cluster) as producer:
            await producer.send("orders", 0, b"x")
            return await explained(Admin(cluster))

    known = run_cluster(story)
    assert known.cause is Cause.NOTHING
    assert (known.last_stable_offset, known.high_watermark) == (1, 1)
    assert "No transaction holds readers back" in known.sentences[0]


def test_a_hanging_one_is_named_with_its_cure() -> None:
    async def story(world: VirtualCluster) -> Explanation:
        async with world.client() as cluster, Producer(cluster) as producer:
            admin = Admin(cluster)
            await producer.send("orders", 0, b"x")
            await make_hanging(admin, WHERE, "ghost")
            await producer.send("orders", 0, b"y")
            return await explained(admin)

    known = run_cluster(story)
    assert known.cause is Cause.HANGING
    assert (known.log_start_offset, known.last_stable_offset, known.high_watermark) == (0, 1, 3)
    first, whose, advice = known.sentences
    assert "stop at offset 1" in first
    assert "so they do not get the last 2 offsets" in first
    assert "its newest record is stamped 3600 s ago" in whose
    assert advice.endswith("txnsim txns repair --topic orders --partition 0 --yes.")


def test_open_and_decided_transactions_differ() -> None:
    async def story(world: VirtualCluster) -> tuple[Explanation, Explanation]:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="first") as first,
            Producer(cluster, transactional_id="second") as second,
        ):
            admin = Admin(cluster)
            for producer in (first, second):
                await producer.init_transactions()
                producer.begin()
                await producer.send("orders", 0, b"x")
            alive = await explained(admin)
            world.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
            await first.commit()
            await until_state(cluster, "first", "PrepareCommit")
            decided = await explained(admin)
            world.sim.injector.release("f")
            world.sim.injector.disarm("f")
            await second.abort()
            return alive, decided

    alive, decided = run_cluster(story)
    assert alive.cause is Cause.ALIVE
    assert "forceTerminateTransaction --transactionalId first" in alive.sentences[2]
    assert alive.sentences[3] == "Transactions that are open behind it: 1."
    assert decided.cause is Cause.DECIDED
    assert "does not hang" in decided.sentences[2]


def test_a_marker_that_is_not_replicated_is_no_transaction() -> None:
    async def story(world: VirtualCluster) -> Explanation:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="tx") as producer,
        ):
            admin = Admin(cluster)
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"x")
            # Followers ask no more, and have been in sync until now.
            world.arm(Hold(), FaultPoint.PEER_REQUEST, api="Fetch")
            await producer.abort()
            known = await explained(admin)
            world.sim.injector.release("f")
            world.sim.injector.disarm("f")
            return known

    known = run_cluster(
        story,
        default_replication_factor=3,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
    )
    assert known.cause is Cause.UNREPLICATED
    assert "matter of replication" in known.sentences[1]


def test_without_a_leader_no_broker_is_asked() -> None:
    alone = TopicPartition("alone", 0)

    async def story(world: VirtualCluster) -> Explanation:
        async with world.client() as cluster:
            admin = Admin(cluster)
            # The brokers' default is one replica.
            await admin.create_topic(alone.topic, partitions=1)
            await world.sim.kill_broker(world.leader(alone))
            for _ in range(60):
                await asyncio.sleep(1)
                if world.leader(alone) < 0:
                    break
            return await explain(admin, alone, now_ms=0)

    known = run_cluster(story)
    assert known.cause is Cause.OFFLINE
    assert "no leader" in known.sentences[0]


@within(run_cluster)
async def test_a_partition_that_does_not_exist_is_an_error(world: VirtualCluster) -> None:
    async with world.client() as cluster:
        with pytest.raises(ClientError, match="no partition orders-9"):
            await explain(Admin(cluster), TopicPartition("orders", 9), now_ms=0)


class Older(Admin):
    """As brokers before Kafka 2.8 have it."""

    async def describe_producers(
        self, partitions: Collection[TopicPartition], **_: object
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
        return dict.fromkeys(partitions, NotSupportedError("The node does not support it"))


def test_where_no_broker_describes_transactions_the_log_is_read() -> None:
    async def story(world: VirtualCluster) -> tuple[Explanation, Explanation, int]:
        async with world.client() as cluster, Producer(cluster) as producer:
            admin = Older(cluster)
            await producer.send("orders", 0, b"x")
            healthy = await explained(admin)
            identity = await make_hanging(admin, WHERE, "ghost")
            return healthy, await explained(admin), identity.producer_id

    healthy, stuck, ghost = run_cluster(story)
    assert healthy.cause is Cause.NOTHING
    assert stuck.cause is Cause.UNTOLD
    assert (stuck.log_start_offset, stuck.last_stable_offset, stuck.high_watermark) == (0, 1, 2)
    withheld, whose, untold, advice = stuck.sentences
    assert "stop at offset 1" in withheld
    assert f"producer id {ghost}, epoch 0" in whose
    assert "Kafka 3.0 is needed" in untold
    assert f"--producer-id {ghost} --producer-epoch 0 --coordinator-epoch 0;" in advice


def test_a_log_without_an_answer_names_no_transaction() -> None:
    async def story(world: VirtualCluster) -> Explanation:
        async with world.client() as cluster, Producer(cluster) as producer:
            admin = Older(cluster)
            await make_hanging(admin, WHERE, "ghost")
            await producer.send("orders", 0, b"y")
            # Deleted up to another producer's record, which lies where readers stop.
            await delete_records(admin, WHERE, 1)
            return await explained(admin)

    stuck = run_cluster(story)
    assert stuck.cause is Cause.UNTOLD
    assert stuck.last_stable_offset == 1
    assert len(stuck.sentences) == 3
    assert "does not tell whose" in stuck.sentences[1]


async def delete_records(admin: Admin, where: TopicPartition, before: int) -> None:
    request = Request(
        api=Api.DELETE_RECORDS,
        build=lambda schema: build(
            schema.DeleteRecordsRequest,
            topics=(
                build(
                    schema.DeleteRecordsTopic,
                    name=where.topic,
                    partitions=(
                        build(
                            schema.DeleteRecordsPartition,
                            partition_index=where.partition,
                            offset=before,
                        ),
                    ),
                ),
            ),
            timeout=1_000,
        ),
    )
    leader = await admin.cluster.leader(where)
    await admin.cluster.ask(leader.leader_id, request)
