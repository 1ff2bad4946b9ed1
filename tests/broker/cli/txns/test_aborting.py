"""``txnsim txns abort``: Kafka's command, that says what it would lose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker.client.inspection.test_repair import SOLO, abandoned
from tests.support.clusters import VirtualCluster, run_cluster, until_state, values
from txnsim.cli._txns.aborting import Guarded
from txnsim.cli._txns.commands import AbortTransaction
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

Captured = pytest.CaptureFixture[str]
HERE = TopicPartition("orders", 0)


@pytest.mark.parametrize("force", [False, True])
def test_what_was_committed_is_not_discarded_in_silence(
    force: bool, tmp_path: Path, capsys: Captured
) -> None:
    """KAFKA-20734: the client was told that it is committed, and one partition hangs."""
    file = tmp_path / "audit.jsonl"
    command = AbortTransaction(
        partition=SOLO, start_offset=0, guarded=Guarded(force=force, audit_file=file, again="t")
    )

    async def story(world: VirtualCluster) -> list[bytes | None]:
        async with world.client() as cluster:
            admin = Admin(cluster)
            await abandoned(world, admin, later=0)
            if force:
                await command.execute(admin, now_ms=0)
                return await values(cluster, SOLO.topic, partitions=1)
            with pytest.raises(ClientError, match="To abort it: --force") as refused:
                await command.execute(admin, now_ms=0)
            assert "It was committed: its coordinator's log has PrepareCommit" in str(refused.value)
            assert "t repair --topic solo --partition 0 --yes" in str(refused.value)
            return []

    read = run_cluster(story)
    assert read == []
    if not force:
        assert not file.exists()
        return
    assert "It was committed" in capsys.readouterr().err
    before, after = [json.loads(line) for line in file.read_text().splitlines()]
    assert before["attempt"]["decided"]["decision"] == "committed"
    assert before["abort"]["partition"] == {"topic": "solo", "partition": 0}
    assert (after["outcome"], after["error"]) == ("written", None)


def test_what_is_open_by_a_marker_that_is_late_keeps_its_commit(tmp_path: Path) -> None:
    """Its coordinator is in PrepareCommit: the marker of an abort would overtake it."""
    command = AbortTransaction(
        partition=HERE, start_offset=0, guarded=Guarded(audit_file=tmp_path / "audit")
    )

    async def story(world: VirtualCluster) -> list[bytes | None]:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="shop") as shop,
        ):
            await shop.init_transactions()
            shop.begin()
            await shop.send("orders", 0, b"paid")
            world.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
            await shop.commit()
            await until_state(cluster, "shop", "PrepareCommit")
            with pytest.raises(ClientError, match="Its coordinator writes COMMIT as soon as"):
                await command.execute(Admin(cluster), now_ms=0)
            world.sim.injector.release("f")
            world.sim.injector.disarm("f")
            await until_state(cluster, "shop", "CompleteCommit")
            return await values(cluster, "orders")

    assert run_cluster(story, level=2) == [b"paid"]


def test_what_lives_is_aborted_as_by_kafkas_tool_with_a_word(
    tmp_path: Path, capsys: Captured
) -> None:
    command = AbortTransaction(
        partition=HERE, start_offset=0, guarded=Guarded(audit_file=tmp_path / "audit")
    )

    async def story(world: VirtualCluster) -> None:
        async with (
            world.client() as cluster,
            Producer(cluster, transactional_id="shop") as shop,
        ):
            await shop.init_transactions()
            shop.begin()
            await shop.send("orders", 0, b"x")
            await command.execute(Admin(cluster), now_ms=0)
            await shop.abort()

    run_cluster(story)
    assert "It did not hang: transactional id shop is Ongoing" in capsys.readouterr().err
