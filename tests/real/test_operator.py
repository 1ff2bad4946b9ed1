"""Judging and repairing on both brokers: a transaction that hangs is named and healed, one that
lives is not touched.
"""

from __future__ import annotations

import pytest

from sim.client.admin import Admin
from sim.client.cluster import Cluster
from sim.client.judgement import Verdict
from sim.client.producer import Producer
from sim.client.repair import Outcome, repair
from sim.client.stuck import Cause, explain
from sim.client.survey import survey
from sim.types import TopicPartition
from tests.real.conftest import Target
from tests.real.hang import make_hanging
from tests.real.test_txns_tool import kafkas


async def test_what_hangs_is_named_alone_and_healed(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    hangs, lives = TopicPartition(name, 0), TopicPartition(name, 1)
    await admin.create_topic(name, partitions=2)
    async with Producer(cluster, transactional_id=f"{name}-living") as living:
        await living.init_transactions()
        living.begin()
        await living.send(name, 1, b"x")
        identity = await make_hanging(admin, hangs, f"{name}-ghost")
        now_ms = cluster.clock.now_ms() + 60_000
        found = await survey(admin, now_ms=now_ms, partitions=[hangs, lives], older_than_ms=0)
        assert {one.transaction.partition: one.verdict for one in found.findings} == {
            hangs: Verdict.HANGING,
            lives: Verdict.ALIVE,
        }
        assert (await explain(admin, hangs, now_ms=now_ms)).cause is Cause.HANGING
        assert (await explain(admin, lives, now_ms=now_ms)).cause is Cause.ALIVE
        (finding,) = found.hanging
        assert finding.transaction.producer.producer_id == identity.producer_id
        done = await repair(admin, finding, now_ms=now_ms)
        assert done.outcome is Outcome.REPAIRED
        # The ghost's record and the marker.
        assert (done.last_stable_offset_before, done.last_stable_offset_after) == (0, 2)
        assert (await explain(admin, hangs, now_ms=now_ms)).cause is Cause.NOTHING
        await living.commit()


@pytest.mark.parametrize("age_min", [59, 61])
async def test_kafkas_tool_names_the_same(
    target: Target, admin: Admin, name: str, age_min: int
) -> None:
    where = TopicPartition(name, 0)
    await admin.create_topic(name, partitions=1)
    await make_hanging(admin, where, f"{name}-ghost")
    now_ms = admin.cluster.clock.now_ms()
    found = await survey(admin, now_ms=now_ms, partitions=[where], older_than_ms=age_min * 60_000)
    limit = ("--max-transaction-timeout", str(age_min))
    told = kafkas(target, "find-hanging", "--topic", name, *limit).stdout.splitlines()[1:]
    assert len(told) == len(found.hanging) == (1 if age_min < 60 else 0)
    for finding in found.hanging:
        await repair(admin, finding, now_ms=now_ms)
