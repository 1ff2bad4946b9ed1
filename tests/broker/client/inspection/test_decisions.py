"""Decisions against markers on a running cluster. Every incident, loaded into a cluster:
tests/lab/scenario/test_incidents.py; a real Kafka: tests/real/test_decisions.py.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from txnsim.client._txn_admin import SearchTargets
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection._batch_headers import fetch_batches
from txnsim.client.inspection._decision_reading import DecisionReading
from txnsim.client.inspection.decisions import DecisionCheck, check_decisions
from txnsim.client.inspection.txn_views import AbortSpec
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.txn.decision_audit import AuditState
from txnsim.txn.decision_report import DecisionReport
from txnsim.txn.open_txn_verdict import program_at
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

ORDERS = TopicPartition("orders", 0)


async def asked(cluster: Cluster, topic: str | None = None) -> DecisionReport:
    return await check_decisions(
        Admin(cluster), now_ms=cluster.clock.now_ms(), topic=topic, program=program_at("b:1")
    )


async def write(cluster: Cluster, transactional_id: str, transaction_count: int) -> None:
    """End some transactions, every third one by an abort."""
    async with Producer(cluster, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        for number in range(transaction_count):
            producer.begin()
            for partition in range(1 + number % 3):
                await producer.send("orders", partition, b"%d" % number)
            await (producer.abort() if number % 3 == 2 else producer.commit())


@pytest.mark.parametrize("level", [0, 2])
def test_there_is_no_alarm_while_producers_write(level: int) -> None:
    async def story(virtual_cluster: VirtualCluster) -> list[DecisionReport]:
        async with virtual_cluster.client() as cluster:
            await write(cluster, "first", 3)

            async def ask_often() -> list[DecisionReport]:
                return [await asked(cluster) for _ in range(6)]

            reports, *_ = await asyncio.gather(
                ask_often(), *(write(cluster, f"app-{number}", 40) for number in range(3))
            )
            return [*reports, await asked(cluster)]

    *reports_during, last_report = run_cluster(story, level=level)
    assert {(report.findings, report.unknown) for report in reports_during} == {((), 0)}
    assert len({report.decisions for report in reports_during}) > 1
    assert last_report.agrees == last_report.decisions == 3 * 79 + 6
    assert (last_report.owed, last_report.known_percent) == (0, 100)


@pytest.mark.parametrize("level", [0, 2])
def test_an_operators_abort_of_what_is_committed_contradicts(level: int) -> None:
    """A rule holds the commit's marker, so that it arrives after the operator's marker."""

    async def story(virtual_cluster: VirtualCluster) -> tuple[DecisionReport, DecisionReport]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            await write(cluster, "other", 4)
            producer = await begin_transaction(cluster, "shop")
            await producer.send("orders", 0, b"paid")
            virtual_cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
            await producer.commit()
            await virtual_cluster.wait_until_struck()
            report_before = await asked(cluster, "orders")
            description = await admin.describe_transaction("shop")
            (open_producer,) = (
                state
                for state in await admin.producers_of(ORDERS)
                if state.txn_start_offset is not None
            )
            spec = AbortSpec(
                partition=ORDERS,
                producer_id=open_producer.producer_id,
                producer_epoch=description.producer_epoch,
                coordinator_epoch=0,
            )
            await admin.abort_transaction(spec)
            virtual_cluster.injector.release("f")
            while (await admin.describe_transaction("shop")).state != "CompleteCommit":
                virtual_cluster.advance(100)
            return report_before, await asked(cluster, "orders")

    report_before, report_after = run_cluster(story, level=level)
    assert (report_before.findings, report_before.owed) == ((), 1)
    (finding,) = report_after.findings
    assert finding.state is AuditState.CONTRADICTS
    assert (finding.transactional_id, finding.topic, finding.records) == ("shop", "orders", 1)
    assert [marker.outcome for marker in finding.markers] == ["abort", "commit"]
    assert finding.reads_as == "aborted, though their commit was acknowledged"


@pytest.mark.parametrize("level", [0, 2])
def test_what_is_judged_is_not_kept(level: int) -> None:
    """Logs of many rounds have the report of one round, and little of them is kept at a time."""

    async def check(cluster: Cluster, entries_per_round: int) -> tuple[DecisionReport, int]:
        targets = await Admin(cluster).search_targets(TRANSACTION_STATE_TOPIC)
        reading = DecisionReading(
            cluster,
            [partition.partition for partition in targets.partitions],
            [TopicPartition("orders", number) for number in range(3)],
            topic=None,
            report_progress=lambda _: None,
            entries_per_round=entries_per_round,
        )
        decision_check = DecisionCheck(reading, program=program_at("b:1"))
        await decision_check.read()
        return decision_check.report((), ()), decision_check.kept_most

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with virtual_cluster.client() as cluster:
            for _ in range(40):
                await write(cluster, "app", 6)
                virtual_cluster.advance(60_000)
            report_at_once, kept_at_once = await check(cluster, 1_000_000)
            report_in_rounds, kept_most = await check(cluster, 30)
            assert report_in_rounds == report_at_once
            assert (report_at_once.agrees, report_at_once.known_percent) == (
                report_at_once.decisions,
                100,
            )
            assert report_at_once.decisions == 40 * 12
            assert kept_at_once == 0, "the only round is the last one"
            assert 0 < kept_most < 150, "of 480 decisions, their markers and records"

    run_cluster(story, level=level)


def test_one_topic_counts_alone() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[DecisionReport, DecisionReport]:
        async with virtual_cluster.client() as cluster:
            await Admin(cluster).create_topic("payments", partitions=1)
            await write(cluster, "app", 3)
            producer = await begin_transaction(cluster, "shop")
            await producer.send("payments", 0, b"paid")
            await producer.commit()
            return await asked(cluster, "payments"), await asked(cluster)

    payments_report, whole_report = run_cluster(story)
    assert (payments_report.decisions, whole_report.decisions) == (1, 7)


def test_who_may_not_read_the_coordinators_log_is_refused() -> None:
    class BlindAdmin(Admin):
        async def search_targets(self, *_: object, **__: object) -> SearchTargets:
            raise ClientError("hidden", error=ErrorCode.topic_authorization_failed)

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with virtual_cluster.client() as cluster:
            with pytest.raises(ClientError, match="hidden"):
                await check_decisions(BlindAdmin(cluster), now_ms=0, program=program_at("b:1"))

    run_cluster(story)


# ``batch_headers``: headers of a partition's batches


def test_batches_are_read_between_two_offsets() -> None:
    async def story(virtual_cluster: VirtualCluster) -> list[tuple[int, bool]]:
        async with virtual_cluster.client() as cluster:
            await write(cluster, "app", 4)
            assert [batch async for batch in fetch_batches(cluster, ORDERS, 0, 0)] == [], (
                "nothing lies between"
            )
            assert [
                batch.header.base_offset
                async for batch in fetch_batches(
                    cluster, TopicPartition(TRANSACTION_STATE_TOPIC, 0), 0, 0
                )
            ] == []
            return [
                (batch.header.base_offset, batch.header.is_control)
                async for batch in fetch_batches(cluster, ORDERS, 2, 6)
            ]

    assert run_cluster(story) == [(2, False), (3, True), (4, False), (5, True)]
