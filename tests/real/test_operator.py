"""Judging and repairing on every cluster: a hanging transaction is named and healed, a live one is
not touched, and Kafka's own tool of that release agrees.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from tests.real.conftest import LASTING_MS, ClusterUnderTest
from tests.real.test_txns_tool import jvms, kafkas, ours
from tests.support.clusters import begin_transaction, until_state, values
from tests.support.hanging_transaction import make_hanging
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.inspection.ending import EndOutcome, TxnIdentity, end, look_at
from txnsim.client.inspection.repair import Outcome, repair
from txnsim.client.inspection.survey import survey
from txnsim.client.inspection.waiting_readers import explain
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.client.producer import Producer
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import PastDecision
from txnsim.types import TopicPartition
from txnsim.verdict.reader_standing import Cause

__all__ = ["jvms"]  # a fixture: it ends the tools' JVMs

HOUR_MS = 3_600_000


async def test_what_hangs_is_named_alone_and_healed(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    hanging_partition, live_partition = TopicPartition(name, 0), TopicPartition(name, 1)
    await admin.create_topic(name, partitions=2)
    async with await begin_transaction(cluster, f"{name}-living") as living_producer:
        await living_producer.send(name, 1, b"x")
        producer_identity = await make_hanging(admin, hanging_partition, f"{name}-ghost")
        now_ms = cluster.clock.now_ms() + 60_000
        report = await survey(
            admin, now_ms=now_ms, partitions=[hanging_partition, live_partition], older_than_ms=0
        )
        assert {
            finding_row.transaction.partition: finding_row.verdict
            for finding_row in report.findings
        } == {
            hanging_partition: OpenTxnStatus.HANGING,
            live_partition: OpenTxnStatus.ALIVE,
        }
        assert (await explain(admin, hanging_partition, now_ms=now_ms)).cause is Cause.HANGING
        assert (await explain(admin, live_partition, now_ms=now_ms)).cause is Cause.ALIVE
        (judged_transaction,) = report.hanging
        assert judged_transaction.transaction.producer.producer_id == producer_identity.producer_id
        finished_repair = await repair(admin, judged_transaction, now_ms=now_ms)
        assert finished_repair.outcome is Outcome.REPAIRED
        # The ghost's record and the marker.
        assert (
            finished_repair.last_stable_offset_before,
            finished_repair.last_stable_offset_after,
        ) == (0, 2)
        assert (await explain(admin, hanging_partition, now_ms=now_ms)).cause is Cause.NOTHING
        await living_producer.commit()


async def test_two_repairs_at_once_do_not_both_claim_it(admin: Admin, name: str) -> None:
    """A broker accepts a second marker. A repair that wrote one of two markers reports that."""
    topic_partition = TopicPartition(name, 0)
    await admin.create_topic(name, partitions=1)
    await make_hanging(admin, topic_partition, f"{name}-ghost")
    now_ms = admin.cluster.clock.now_ms()
    (judged_transaction,) = (
        await survey(admin, now_ms=now_ms, partitions=[topic_partition])
    ).hanging
    repairs = await asyncio.gather(
        *(repair(admin, judged_transaction, now_ms=now_ms) for _ in range(2))
    )
    outcomes = {finished_repair.outcome for finished_repair in repairs}
    assert outcomes <= {
        Outcome.REPAIRED,
        Outcome.ENDED_TWICE,
        Outcome.NO_LONGER_HANGS,
    }
    assert outcomes != {Outcome.REPAIRED}
    end = await admin.offset_of(topic_partition, LATEST_TIMESTAMP)
    markers = end - 1  # behind the ghost's record
    assert (markers > 1) is (Outcome.ENDED_TWICE in outcomes)


@pytest.mark.real
async def test_a_printed_command_works_when_it_is_printed(
    target: ClusterUnderTest, admin: Admin, name: str, tmp_path: Path
) -> None:
    """A young transaction counts as well, because readers stop at it at once."""
    await admin.create_topic(name, partitions=1)
    await make_hanging(admin, TopicPartition(name, 0), f"{name}-ghost", age_ms=0)
    search = ours(target, "find-hanging", "--all", "--topic", name)
    assert (search.code, search.stdout.count("\n")) == (3, 4)
    assert "open and younger: 1, 1 of them hanging" in search.stderr
    explanation = ours(target, "why", name, "0")
    assert explanation.code == 3
    command = search.stdout.splitlines()[-1].split()
    assert " ".join(command) in explanation.stdout
    arguments = command[command.index("repair") :]
    repaired = ours(target, *arguments, "--audit-file", str(tmp_path / "audit.jsonl"))
    assert repaired.code == 0, repaired.stdout + repaired.stderr
    assert ours(target, "why", name, "0").code == 0


@pytest.mark.real
@pytest.mark.parametrize("age_min", [59, 90])
async def test_kafkas_tool_names_the_same(
    target: ClusterUnderTest, admin: Admin, name: str, age_min: int
) -> None:
    topic_partition = TopicPartition(name, 0)
    await admin.create_topic(name, partitions=1)
    await make_hanging(admin, topic_partition, f"{name}-ghost")
    now_ms = admin.cluster.clock.now_ms()
    report = await survey(
        admin, now_ms=now_ms, partitions=[topic_partition], older_than_ms=age_min * 60_000
    )
    limit = ("--max-transaction-timeout", str(age_min))
    listed_lines = kafkas(target, "find-hanging", "--topic", name, *limit).stdout.splitlines()[1:]
    assert len(listed_lines) == len(report.hanging) == (1 if age_min < 60 else 0)
    # Other tests ask a whole broker what hangs there.
    survey_result = await survey(
        admin, now_ms=now_ms, partitions=[topic_partition], older_than_ms=0
    )
    for judged_transaction in survey_result.hanging:
        await repair(admin, judged_transaction, now_ms=now_ms)
    assert len(survey_result.hanging) == 1


@pytest.mark.real
async def test_an_operator_heals_two_partitions_and_leaves_a_long_transaction_alone(
    target: ClusterUnderTest, cluster: Cluster, admin: Admin, name: str, tmp_path: Path
) -> None:
    """An operator finds, tries and repairs a hang by typed commands; a live transaction commits."""
    audit_file = tmp_path / "audit.jsonl"
    scope = ("--topic", name)
    await admin.create_topic(name, partitions=4)
    async with Producer(
        cluster, transactional_id=f"{name}-long", transaction_timeout_ms=LASTING_MS
    ) as long_lived_producer:
        await long_lived_producer.init_transactions()
        long_lived_producer.begin()
        old_ms = cluster.clock.now_ms() - HOUR_MS
        # It shares no partition with the ghosts, or it would wait for them.
        for partition in (2, 3):
            await long_lived_producer.send(name, partition, b"long", timestamp_ms=old_ms)
        for partition in (0, 1):
            await make_hanging(admin, TopicPartition(name, partition), f"{name}-ghost-{partition}")

        search = ours(target, "find-hanging", "--all", *scope, "--json")
        assert search.code == 3
        findings = [row["finding"] for row in json.loads(search.stdout)["findings"]]
        verdicts = {
            finding["transaction"]["partition"]["partition"]: finding["verdict"]
            for finding in findings
        }
        assert verdicts == {0: "hanging", 1: "hanging", 2: "alive", 3: "alive"}
        assert _partitions(kafkas(target, "find-hanging", *scope).stdout) == {0, 1}

        repair_output = ours(target, "repair", *scope, "--audit-file", str(audit_file), "--json")
        assert [row["outcome"] for row in json.loads(repair_output.stdout)["repairs"]] == [
            "would be repaired"
        ] * 2
        assert not audit_file.exists()
        assert _partitions(kafkas(target, "find-hanging", *scope).stdout) == {0, 1}

        repaired = ours(
            target, "repair", *scope, "--yes", "--audit-file", str(audit_file), "--json"
        )
        assert repaired.code == 0
        for row in json.loads(repaired.stdout)["repairs"]:
            assert row["outcome"] == "repaired"
            assert row["last_stable_offset_after"] > row["last_stable_offset_before"]
        lines = [json.loads(line) for line in audit_file.read_text().splitlines()]
        assert ["attempt" if "attempt" in line else "repair" for line in lines] == [
            "attempt",
            "repair",
        ] * 2

        assert ours(target, "find-hanging", "--all", *scope).code == 0
        assert _partitions(kafkas(target, "find-hanging", *scope).stdout) == set()
        assert ours(target, "why", name, "0").code == 0
        await long_lived_producer.commit()
    # Under transactions v2 a commit is answered before its markers are written.
    await until_state(cluster, f"{name}-long", "CompleteCommit")
    for partition in range(4):
        assert (await explain(admin, TopicPartition(name, partition), now_ms=0)).cause is (
            Cause.NOTHING
        )


@pytest.mark.parametrize("wanted_decision", [PastDecision.COMMITTED, PastDecision.ABORTED])
async def test_a_lingering_transaction_is_ended_by_its_identity(
    cluster: Cluster, admin: Admin, name: str, wanted_decision: PastDecision
) -> None:
    """Begun in the flow of the cluster's level; ended once, and refused of any other identity."""
    await admin.create_topic(name, partitions=2)
    producer = await begin_transaction(cluster, f"{name}-sink")
    for partition in range(2):
        await producer.send(name, partition, b"prepared")
    identity = TxnIdentity(
        transactional_id=f"{name}-sink",
        producer_id=producer.session.identity.producer_id,
        producer_epoch=producer.session.identity.producer_epoch,
    )
    other_identity = msgspec.structs.replace(identity, producer_epoch=identity.producer_epoch + 7)
    assert (await look_at(admin, other_identity, wanted_decision)).outcome is EndOutcome.REFUSED
    prospective_end = await look_at(admin, identity, wanted_decision)
    assert prospective_end.outcome is EndOutcome.WOULD_END
    assert [(part.start_offset, part.offsets) for part in prospective_end.parts] == [(0, 1), (0, 1)]
    assert (await end(admin, prospective_end, wanted_decision)).outcome is EndOutcome.ENDED
    expected = [b"prepared"] * 2 if wanted_decision is PastDecision.COMMITTED else []
    assert await values(cluster, name, partitions=2) == expected
    assert (await look_at(admin, identity, wanted_decision)).outcome is EndOutcome.WAS_ENDED


def _partitions(table_name: str) -> set[int]:
    return {int(line.split("\t")[1]) for line in table_name.splitlines()[1:]}
