"""``txnsim txns --kip-text``: what the texts have a tool say, at the door that obeys them and at
the one that does as Kafka ships.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.broker.kip_text.rows import shows
from tests.real.hang import make_hanging
from tests.support.doors import BOTH, SHIPPED, TEXT, doors
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import OpenSince
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition

Captured = pytest.CaptureFixture[str]
Table = list[dict[str, str]]

WHERE: Final = TopicPartition("orders", 0)
P0: Final = ("--topic", "orders", "--partition", "0")


def address(cluster: SimCluster, listener: str) -> str:
    if listener == SHIPPED:
        return cluster.bootstrap
    assert cluster.kip_text_bootstrap is not None
    return cluster.kip_text_bootstrap


async def told(capsys: Captured, bootstrap: str, *args: str, status: int = 0) -> Table:
    """The table that the tool prints; it runs in a thread, as it has a loop of its own."""
    words = ["txns", "--bootstrap-server", bootstrap, *args]
    code = await asyncio.to_thread(main, words)
    out, err = capsys.readouterr()
    assert code == status, err
    header, *rows = [[cell.strip() for cell in line.split("\t")] for line in out.splitlines()] or [
        []
    ]
    return [dict(zip(header, row, strict=True)) for row in rows]


async def leave_some(cluster: SimCluster) -> None:
    """One transaction finished, one open."""
    async with Cluster(cluster.bootstrap) as client:
        for name in ("done", "open"):
            async with Producer(client, transactional_id=name) as producer:
                await producer.init_transactions()
                producer.begin()
                await producer.send("orders", 0, b"x")
                if name == "done":
                    await producer.commit()


@shows("664-flags", "994-flag")
@pytest.mark.parametrize("listener", BOTH)
async def test_the_words_of_the_texts_are_taken_with_the_flag_only(
    capsys: Captured, listener: str
) -> None:
    async with doors() as cluster:
        await leave_some(cluster)
        bootstrap = address(cluster, listener)
        with_flag = ("--kip-text",)
        shipped = await told(capsys, bootstrap, "list")
        assert await told(capsys, bootstrap, *with_flag, "--list") == shipped
        (open_one,) = (row for row in shipped if row["TransactionalId"] == "open")
        home, producer_id = open_one["Coordinator"], open_one["ProducerId"]
        for words in (
            ("--states", "Ongoing, PrepareCommit"),
            ("--producer-ids", producer_id),
            ("--states", "Ongoing", "--broker", home),
            ("--states", "Ongoing", "--coordinator", home),
        ):
            assert await told(capsys, bootstrap, *with_flag, "--list", *words) == [open_one]
            await told(capsys, bootstrap, "list", *words, status=2)
        assert await told(capsys, bootstrap, *with_flag, "--list", "--durationFilter", "-1")
        await told(capsys, bootstrap, "list", "--durationFilter", "-1", status=2)
        await told(capsys, bootstrap, "--list", status=2)
        await told(capsys, bootstrap, *with_flag, "list", "--producer-ids", "x", status=2)
        await told(capsys, bootstrap, *with_flag, "list", "--broker", "9", status=1)

        described = ("--describe", "--transactional-id", "open")
        (here,) = await told(capsys, bootstrap, *with_flag, *described, "--coordinator", home)
        assert here["TransactionState"] == "Ongoing"
        elsewhere = "2" if home == "1" else "1"
        asked = (*with_flag, *described, "--coordinator", elsewhere)
        await told(capsys, bootstrap, *asked, status=1)
        async with Cluster(bootstrap) as client:
            leader_id = (await client.leader(WHERE)).leader_id
        of_replica = (*P0, "--broker", str(leader_id))
        for command in ("--describe", "--describe-producers"):
            rows = await told(capsys, bootstrap, *with_flag, command, *of_replica)
            assert {row["ProducerId"] for row in rows} >= {producer_id}


@shows("664-columns", "994-tool-duration")
@pytest.mark.parametrize("listener", BOTH)
async def test_durations_and_starts_are_those_of_the_texts(capsys: Captured, listener: str) -> None:
    async with doors() as cluster:
        await leave_some(cluster)
        bootstrap = address(cluster, listener)

        async def described(name: str, *flag: str) -> dict[str, str]:
            words = (*flag, "describe", "--transactional-id", name)
            (row,) = await told(capsys, bootstrap, *words)
            return row

        assert "Duration(s)" not in await described("open")
        done = await described("done", "--kip-text")
        still = await described("open", "--kip-text")
        last_ms, start_ms = (
            int(done[name])
            for name in ("TransactionLastUpdateTimeMs", "CurrentTransactionStartTimeMs")
        )
        at_the_door = listener == TEXT
        assert int(done["TransactionDurationMs"]) == (last_ms - start_ms if at_the_door else -1)
        assert (last_ms >= 0) == at_the_door
        assert done["CurrentTxnStartTimestamp"] == "-1"
        assert still["CurrentTxnStartTimestamp"] == still["CurrentTransactionStartTimeMs"]
        assert 0 <= int(still["Duration(s)"]) < 60

        rows = await told(capsys, bootstrap, "--kip-text", "describe-producers", *P0)
        starts = {row["CurrentTransactionStartOffset"]: row for row in rows}
        assert starts["None"]["CurrentTxnStartTimestamp"] == "-1"
        (open_one,) = (row for start, row in starts.items() if start != "None")
        assert open_one["CurrentTxnStartTimestamp"] == open_one["LastTimestamp"]
        assert 0 <= int(open_one["Duration(s)"]) < 60


@shows("664-abort-spec")
@pytest.mark.parametrize("listener", BOTH)
@pytest.mark.parametrize("by_the_tool", [True, False])
async def test_an_abort_names_a_start_offset_alone(
    capsys: Captured, listener: str, by_the_tool: bool
) -> None:
    async with doors() as cluster:
        bootstrap = address(cluster, listener)
        async with Cluster(cluster.bootstrap) as client:
            await make_hanging(Admin(client), WHERE, "ghost")
        async with Cluster(bootstrap) as client:
            admin = Admin(client)
            (row,) = await told(
                capsys, bootstrap, "--kip-text", "--find-hanging", "--topic", "orders"
            )
            assert int(row["Duration(s)"]) // 60 == int(row["Duration(min)"])
            start = int(row["StartOffset"])
            for offset, is_there in ((start + 1, False), (start, True)):
                if by_the_tool:
                    words = ("--abort", *P0, "--transaction-start-offset", str(offset))
                    status = 0 if is_there else 1
                    await told(capsys, bootstrap, "--kip-text", *words, status=status)
                elif is_there:
                    await admin.abort_transaction(OpenSince(partition=WHERE, start_offset=offset))
                else:
                    with pytest.raises(ClientError, match="Could not find any open") as refused:
                        await admin.abort_transaction(
                            OpenSince(partition=WHERE, start_offset=offset)
                        )
                    assert refused.value.error is ErrorCode.invalid_txn_state
            (producers,) = (await admin.describe_producers((WHERE,))).values()
            assert not isinstance(producers, ClientError)
            assert [one.txn_start_offset for one in producers] == [None]
            # With the offset along, the epoch that the partition knows stays as it was.
            named = by_the_tool and listener == TEXT
            assert [one.coordinator_epoch for one in producers] == [None if named else 0]
