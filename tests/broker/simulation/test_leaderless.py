"""Partitions without a leader: no coordinator lives there, and no marker waits for them."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, until_state
from tests.support.images import B2
from tests.support.waiting import leaderless
from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.metadata.image import TopicImage
from txnsim.types import BrokerId, TopicPartition

ALONE: Final[dict[str, Any]] = {
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
}
"""Without its broker a partition that has one replica has no leader."""
PATIENT: Final[dict[str, Any]] = {"request_timeout_ms": 5_000, "api_timeout_ms": 60_000}
P0 = TopicPartition("alone", 0)


def make_topic(cluster: VirtualCluster) -> BrokerId:
    """Create a topic whose only replica is on one broker; return the broker's id."""
    created_topic = cluster.sim.metadata.create_topic(
        TopicToCreate(name=P0.topic, assignments=((0, (B2,)),))
    )
    assert isinstance(created_topic, TopicImage)
    return B2


async def id_on_another_broker(
    cluster: VirtualCluster, client: Cluster, leaderless_broker: BrokerId
) -> str:
    """A transactional id whose coordinator does not run on that broker."""
    async with Producer(client, transactional_id="first") as producer:
        await producer.init_transactions()  # makes __transaction_state
    transactional_ids = (f"tx-{id_number}" for id_number in itertools.count())
    return next(
        transactional_id
        for transactional_id in transactional_ids
        if cluster.leader(cluster.home(transactional_id)) != leaderless_broker
    )


@pytest.mark.parametrize("keeps_marker", [False, True])
def test_a_partition_without_a_leader_counts_as_deleted_for_its_marker(keeps_marker: bool) -> None:
    """4.3 and 4.4 drop the marker (KAFKA-20734); in other releases it waits for a leader."""

    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client(**PATIENT) as client:
            leaderless_broker = make_topic(cluster)
            transactional_id = await id_on_another_broker(cluster, client, leaderless_broker)
            producer = await begin_transaction(client, transactional_id)
            await producer.send("alone", 0, b"v")
            await cluster.sim.kill_broker(leaderless_broker)
            await leaderless(cluster, P0)
            await producer.commit()
            await until_state(
                client, transactional_id, "PrepareCommit" if keeps_marker else "CompleteCommit"
            )

    rules = {"leaderless_partitions_keep_markers": True} if keeps_marker else {}
    run_cluster(main, rules=rules, **ALONE)


@pytest.mark.slow
def test_without_a_leader_of_its_partition_an_id_has_no_coordinator() -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client(**PATIENT) as client:
            leaderless_broker = B2
            id_elsewhere = await id_on_another_broker(cluster, client, leaderless_broker)
            transactional_ids = (f"tx-{id_number}" for id_number in itertools.count())
            leaderless_id = next(
                transactional_id
                for transactional_id in transactional_ids
                if cluster.leader(cluster.home(transactional_id)) == leaderless_broker
            )
            await cluster.sim.kill_broker(leaderless_broker)
            await leaderless(cluster, cluster.home(leaderless_id))
            async with Producer(client, transactional_id=id_elsewhere) as producer:
                await producer.init_transactions()
            error = (await TransactionAdmin(client).describe_transactions((leaderless_id,)))[
                leaderless_id
            ]
            assert isinstance(error, ClientError)
            assert "COORDINATOR_NOT_AVAILABLE" in str(error)  # asked again until it gave up

    run_cluster(main, **ALONE)
