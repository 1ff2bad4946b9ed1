"""A prepared transaction by the text of KIP-939, through both doors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.kip_text.rows import shows
from tests.support.doors import SHIPPED, TEXT, Door, doors
from txnsim.cli.main import main
from txnsim.errors import ErrorCode
from txnsim.server.views.readings import late_transactions

E = ErrorCode
RECORDED: Final = (
    Path(__file__).parents[2] / "conformance/transcripts/cases/coordinator/two_phase.jsonl"
)


async def _init(door: Door, *, two_phase: bool = True, keep: bool = False) -> Any:
    return await door.until(
        "InitProducerId",
        6,
        broker=await door.coordinator("t"),
        transactional_id="t",
        transaction_timeout=1_000,
        producer_id=-1,
        producer_epoch=-1,
        enable2_pc=two_phase,
        keep_prepared_txn=keep,
    )


async def _prepared(door: Door) -> tuple[int, int]:
    """A transaction of two-phase commit with a record."""
    answer = await _init(door)
    assert answer.error_code is E.none
    identity = answer.producer_id, answer.producer_epoch
    await door.add("t", identity)
    assert await door.produce(10, "t", identity) is E.none
    return identity


def test_the_real_broker_refuses_to_keep_a_prepared_transaction() -> None:
    """On the day when Kafka ships KIP-939 its recorded answer changes, and this test fails: then
    the rule of ``txn.two_phase`` is to be compared with Kafka's and moved to the ordinary door.
    """
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    (answer,) = (
        one["says"] for one in lines if one.get("ask") == "InitProducerId v6 keep prepared"
    )
    assert (answer["error_code"], answer["ongoing_txn_producer_id"]) == (
        "35 unsupported_version",
        -1,
    )


@shows("939-keep-prepared")
async def test_a_client_that_comes_back_ends_what_it_had_prepared() -> None:
    async with doors(
        brokers=3, transaction_two_phase_commit_enable=True, unstable_api_versions_enable=True
    ) as cluster:
        shipped, text = Door(cluster, SHIPPED), Door(cluster, TEXT)
        written = await _prepared(text)
        assert (await _init(shipped, keep=True)).error_code is E.unsupported_version
        assert (await text.describe("t")).transaction_state == "Ongoing"
        kept = await _init(text, keep=True)
        assert kept.error_code is E.none
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == written
        following = kept.producer_id, kept.producer_epoch
        assert following == (written[0], written[1] + 1)
        shown = await text.describe("t")
        assert shown.transaction_state == "Ongoing"
        assert (shown.producer_id, shown.producer_epoch) == written
        assert shown.transaction_timeout.total_seconds() * 1000 == 2_147_483_647
        # Another broker reads it from the log.
        text.move_coordinator("t")
        again = await _init(text, keep=True)
        assert (again.producer_id, again.producer_epoch) == (written[0], written[1] + 2)
        fenced = await text.end(4, "t", following, committed=True, read_as=5)
        assert fenced.error_code is E.producer_fenced
        ended = await text.end(
            4, "t", (again.producer_id, again.producer_epoch), committed=True, read_as=5
        )
        assert ended.error_code is E.none
        assert (ended.producer_id, ended.producer_epoch) == (written[0], written[1] + 3)
        over = await text.described("t", "CompleteCommit")
        assert over.producer_epoch == written[1] + 3


async def test_nothing_is_kept_where_nothing_is_open() -> None:
    async with doors() as cluster:
        answer = await _init(Door(cluster, TEXT), two_phase=False, keep=True)
        assert answer.error_code is E.none
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


async def test_without_the_broker_s_word_there_is_no_two_phase_commit() -> None:
    async with doors() as cluster:
        answer = await _init(Door(cluster, TEXT))
        assert answer.error_code is E.transactional_id_authorization_failed


async def test_the_tools_tell_it_from_what_hangs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with doors(transaction_two_phase_commit_enable=True) as cluster:
        door = Door(cluster, TEXT)
        await _prepared(door)

        async def told(*words: str) -> tuple[int, str, str]:
            server = ("txns", "--bootstrap-server", cluster.bootstrap)
            code = await asyncio.to_thread(main, [*server, *words])
            return (code, *capsys.readouterr())

        where = ("--topic", "orders", "--partition", "0")
        code, out, err = await told("why", "orders-0")
        assert "waits for its external coordinator" in out, (code, err)
        assert "It does not hang" in out
        assert "aborts it, even if it was decided to commit" in out
        # Its record is stamped years ago: leaders, who do not know of two-phase commit, count it.
        assert late_transactions(cluster) == 1
        code, out, _ = await told("find-hanging", *where[:2])
        assert (code, len(out.splitlines())) == (0, 1), out
        code, out, _ = await told("find-hanging", "--all")
        assert code == 0, out  # 3 where something hangs
        aborts = ("abort", *where, "--start-offset", "0", "--audit-file", str(tmp_path / "audit"))
        code, _, err = await told(*aborts)
        assert code != 0
        assert "It may be prepared" in err
        assert (await door.describe("t")).transaction_state == "Ongoing"
        code, _, err = await told("forceTerminateTransaction", "--transactionalId", "t")
        assert code == 0
        assert "may have been prepared" in err
        await door.described("t", "Empty")  # it was aborted, and a new session begins
