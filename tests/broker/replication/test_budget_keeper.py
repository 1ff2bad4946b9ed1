"""A cluster whose logs reach their budget goes on, and says so once."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.replica.log_budget import by_partition, held_bytes
from txnsim.replication.budget_keeper import BudgetKeeper
from txnsim.runtime.trace import TraceLevel
from txnsim.types import TopicPartition

BUDGET = 4 * 2**20
ORDERS = TopicPartition("orders", 0)
RECORD = b"v" * 40_000


def held(cluster: VirtualCluster) -> int:
    disks = [member.disk for member in cluster.sim.members.values()]
    return sum(map(held_bytes, by_partition(disks)))


async def write(app: Cluster, transactions: int, name: str = "app") -> None:
    async with Producer(app, transactional_id=name) as producer:
        await producer.init_transactions()
        for number in range(transactions):
            producer.begin()
            for partition in range(3):
                producer.send("orders", partition, RECORD, key=str(number).encode())
            await producer.commit()


@pytest.mark.usefixtures("all_levels")
def test_the_oldest_records_go_on_every_replica_and_a_read_below_is_out_of_range() -> None:
    async def main(cluster: VirtualCluster) -> tuple[list[int], int, list[str]]:
        async with cluster.client() as app:
            highest = 0
            for _ in range(10):
                await write(app, 10)
                highest = max(highest, held(cluster))
            await asyncio.sleep(1)
            starts = [
                log.log_start_offset
                for member in cluster.sim.members.values()
                for log in member.disk
                if log.topic_partition == ORDERS
            ]
            with pytest.raises(ClientError) as refused:
                await fetch(app, "orders", 0, 0)
            assert refused.value.error is ErrorCode.offset_out_of_range
            read = await fetch(app, "orders", 0, starts[0])
            assert read.records[0].value == RECORD
            reasons = [
                str(event.d["reason"])
                for event in cluster.env.tracer.events()
                if event.k == "log.start"
            ]
            return starts, highest, reasons

    with capture_logs() as logs:
        starts, highest, reasons = run_cluster(
            main, log_budget_bytes=BUDGET, trace_level=TraceLevel.BRIEF
        )
    assert starts[0] > 0
    assert len(set(starts)) == 1, "followers let go what the leader lets go"
    assert highest <= BUDGET
    assert set(reasons) == {"log-budget"}
    said = [line["event"] for line in logs if "budget" in line["event"]]
    assert said == [
        "the logs have reached their budget of 4 MiB (--log-budget): the oldest closed segments "
        "go from now on"
    ]


def test_internal_topics_are_cleaned_without_waiting_for_the_timer() -> None:
    async def main(cluster: VirtualCluster) -> int:
        async with cluster.client() as app:
            await write(app, 120)
            batches = [
                sum(map(len, log.local.segments))
                for member in cluster.sim.members.values()
                for log in member.disk
                if log.topic_partition == cluster.home("app")
            ]
            return max(batches)

    settings = {
        "brokers": 1,
        "internal_log_segment_bytes": 2_500,
        "log_cleaner_backoff_ms": 3_600_000,
    }
    bounded = run_cluster(main, log_budget_bytes=BUDGET, **settings)
    grown = run_cluster(main, log_budget_bytes=0, **settings)
    assert bounded < grown / 3


def test_an_open_transaction_keeps_its_records() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes | None]:
        async with cluster.client() as app, Producer(app, transactional_id="open") as producer:
            await producer.init_transactions()
            producer.begin()
            producer.send("orders", 0, b"first of the transaction")
            await producer.flush()
            await write(app, 60)
            await producer.commit()
            read = await fetch(app, "orders", 0, 0)
            return [record.value for record in read.records][:1]

    assert run_cluster(main, log_budget_bytes=BUDGET, brokers=1) == [b"first of the transaction"]


def test_what_was_on_the_disks_before_is_allowed_beside_the_budget() -> None:
    async def main(cluster: VirtualCluster) -> tuple[int, int]:
        async with cluster.client() as app:
            await write(app, 5)
        disks = {broker_id: one.disk for broker_id, one in cluster.sim.members.items()}
        keeper = BudgetKeeper(BUDGET, cluster.env, list)
        keeper.begin(disks)
        return keeper.budget, BUDGET + held(cluster)

    found, expected = run_cluster(main, brokers=1)
    assert found == expected > BUDGET
