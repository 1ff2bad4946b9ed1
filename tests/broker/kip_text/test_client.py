"""``--kip-text`` from outside: the tool, a client, two-phase commit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.kip_text.rows import shows
from tests.support.clusters import begin_transaction
from tests.support.hanging_transaction import make_hanging
from tests.support.kip_text_listeners import (
    BOTH,
    SHIPPED,
    TEXT,
    NamedListenerClient,
    kip_text_cluster,
)
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import OpenSince
from txnsim.errors import ErrorCode
from txnsim.server.cluster import SimCluster
from txnsim.server.views.metric_values import count_late_transactions
from txnsim.types import TopicPartition

# ``txnsim txns --kip-text``: what the texts have a tool say, at the listener that obeys them and
# at the one that does as Kafka ships.


Captured = pytest.CaptureFixture[str]
Table = list[dict[str, str]]

ORDERS_0: Final = TopicPartition("orders", 0)
P0: Final = ("--topic", "orders", "--partition", "0")


def address(cluster: SimCluster, listener: str) -> str:
    if listener == SHIPPED:
        return cluster.bootstrap
    assert cluster.kip_text_bootstrap is not None
    return cluster.kip_text_bootstrap


async def printed_table(capsys: Captured, bootstrap: str, *args: str, status: int = 0) -> Table:
    """The table that the tool prints; it runs in a thread, as it has a loop of its own."""
    arguments = ["txns", "--bootstrap-server", bootstrap, *args]
    code = await asyncio.to_thread(main, arguments)
    output, error_output = capsys.readouterr()
    assert code == status, error_output
    header, *rows = [
        [cell_text.strip() for cell_text in line.split("\t")] for line in output.splitlines()
    ] or [[]]
    return [dict(zip(header, row, strict=True)) for row in rows]


async def leave_some(cluster: SimCluster) -> None:
    """Leave a finished transaction and an open transaction in the cluster."""
    async with Cluster(cluster.bootstrap) as client:
        for transactional_id in ("done", "open"):
            async with await begin_transaction(client, transactional_id) as producer:
                await producer.send("orders", 0, b"x")
                if transactional_id == "done":
                    await producer.commit()


@shows("664-flags", "994-flag")
@pytest.mark.parametrize("listener", BOTH)
async def test_the_words_of_the_texts_are_taken_with_the_flag_only(
    capsys: Captured, listener: str
) -> None:
    async with kip_text_cluster() as cluster:
        await leave_some(cluster)
        bootstrap = address(cluster, listener)
        with_flag = ("--kip-text",)
        shipped = await printed_table(capsys, bootstrap, "list")
        assert await printed_table(capsys, bootstrap, *with_flag, "--list") == shipped
        (open_one,) = (row for row in shipped if row["TransactionalId"] == "open")
        home, producer_id = open_one["Coordinator"], open_one["ProducerId"]
        for flag_arguments in (
            ("--states", "Ongoing, PrepareCommit"),
            ("--producer-ids", producer_id),
            ("--states", "Ongoing", "--broker", home),
            ("--states", "Ongoing", "--coordinator", home),
        ):
            assert await printed_table(
                capsys, bootstrap, *with_flag, "--list", *flag_arguments
            ) == [open_one]
            await printed_table(capsys, bootstrap, "list", *flag_arguments, status=2)
        assert await printed_table(
            capsys, bootstrap, *with_flag, "--list", "--durationFilter", "-1"
        )
        await printed_table(capsys, bootstrap, "list", "--durationFilter", "-1", status=2)
        await printed_table(capsys, bootstrap, "--list", status=2)
        await printed_table(capsys, bootstrap, *with_flag, "list", "--producer-ids", "x", status=2)
        await printed_table(capsys, bootstrap, *with_flag, "list", "--broker", "9", status=1)

        describe_options = ("--describe", "--transactional-id", "open")
        (description,) = await printed_table(
            capsys, bootstrap, *with_flag, *describe_options, "--coordinator", home
        )
        assert description["TransactionState"] == "Ongoing"
        other_broker = "2" if home == "1" else "1"
        arguments = (*with_flag, *describe_options, "--coordinator", other_broker)
        await printed_table(capsys, bootstrap, *arguments, status=1)
        async with Cluster(bootstrap) as client:
            leader_id = (await client.leader(ORDERS_0)).leader_id
        of_replica = (*P0, "--broker", str(leader_id))
        for command in ("--describe", "--describe-producers"):
            rows = await printed_table(capsys, bootstrap, *with_flag, command, *of_replica)
            assert {row["ProducerId"] for row in rows} >= {producer_id}


@shows("664-columns", "994-tool-duration")
@pytest.mark.parametrize("listener", BOTH)
async def test_durations_and_starts_are_those_of_the_texts(capsys: Captured, listener: str) -> None:
    async with kip_text_cluster() as cluster:
        await leave_some(cluster)
        bootstrap = address(cluster, listener)

        async def described_row(name: str, *flag: str) -> dict[str, str]:
            arguments = (*flag, "describe", "--transactional-id", name)
            (row,) = await printed_table(capsys, bootstrap, *arguments)
            return row

        assert "Duration(s)" not in await described_row("open")
        description = await described_row("done", "--kip-text")
        still = await described_row("open", "--kip-text")
        last_ms, start_ms = (
            int(description[name])
            for name in ("TransactionLastUpdateTimeMs", "CurrentTransactionStartTimeMs")
        )
        is_by_text = listener == TEXT
        assert int(description["TransactionDurationMs"]) == (
            last_ms - start_ms if is_by_text else -1
        )
        assert (last_ms >= 0) == is_by_text
        assert description["CurrentTxnStartTimestamp"] == "-1"
        assert still["CurrentTxnStartTimestamp"] == still["CurrentTransactionStartTimeMs"]
        assert 0 <= int(still["Duration(s)"]) < 60

        rows = await printed_table(capsys, bootstrap, "--kip-text", "describe-producers", *P0)
        starts = {row["CurrentTransactionStartOffset"]: row for row in rows}
        assert starts["None"]["CurrentTxnStartTimestamp"] == "-1"
        (open_one,) = (row for start, row in starts.items() if start != "None")
        assert open_one["CurrentTxnStartTimestamp"] == open_one["LastTimestamp"]
        assert 0 <= int(open_one["Duration(s)"]) < 60


@shows("664-abort-spec")
@pytest.mark.parametrize("listener", BOTH)
@pytest.mark.parametrize("is_by_the_tool", [True, False])
async def test_an_abort_names_a_start_offset_alone(
    capsys: Captured, listener: str, is_by_the_tool: bool
) -> None:
    async with kip_text_cluster() as cluster:
        bootstrap = address(cluster, listener)
        async with Cluster(cluster.bootstrap) as client:
            await make_hanging(Admin(client), ORDERS_0, "ghost")
        async with Cluster(bootstrap) as client:
            admin = Admin(client)
            (row,) = await printed_table(
                capsys, bootstrap, "--kip-text", "--find-hanging", "--topic", "orders"
            )
            assert int(row["Duration(s)"]) // 60 == int(row["Duration(min)"])
            start = int(row["StartOffset"])
            for offset, is_there in ((start + 1, False), (start, True)):
                if is_by_the_tool:
                    arguments = ("--abort", *P0, "--transaction-start-offset", str(offset))
                    status = 0 if is_there else 1
                    await printed_table(capsys, bootstrap, "--kip-text", *arguments, status=status)
                elif is_there:
                    await admin.abort_transaction(
                        OpenSince(partition=ORDERS_0, start_offset=offset)
                    )
                else:
                    with pytest.raises(ClientError, match="Could not find any open") as error_info:
                        await admin.abort_transaction(
                            OpenSince(partition=ORDERS_0, start_offset=offset)
                        )
                    assert error_info.value.error is ErrorCode.invalid_txn_state
            (producers,) = (await admin.describe_producers((ORDERS_0,))).values()
            assert not isinstance(producers, ClientError)
            assert [producer.txn_start_offset for producer in producers] == [None]
            # With the offset along, the epoch that the partition knows stays as it was.
            has_text_form = is_by_the_tool and listener == TEXT
            assert [producer.coordinator_epoch for producer in producers] == [
                None if has_text_form else 0
            ]


# A prepared transaction by the text of KIP-939, through both listeners.


E = ErrorCode


async def _init(
    client: NamedListenerClient,
    *,
    enables_two_phase_commit: bool = True,
    keeps_prepared: bool = False,
) -> Any:
    return await client.until(
        "InitProducerId",
        6,
        broker=await client.coordinator("t"),
        transactional_id="t",
        transaction_timeout=1_000,
        producer_id=-1,
        producer_epoch=-1,
        enable2_pc=enables_two_phase_commit,
        keep_prepared_txn=keeps_prepared,
    )


async def _open_prepared(client: NamedListenerClient) -> tuple[int, int]:
    """Open a two-phase commit transaction that has a record."""
    answer = await _init(client)
    assert answer.error_code is E.none
    identity = answer.producer_id, answer.producer_epoch
    await client.add("t", identity)
    assert await client.produce(10, "t", identity) is E.none
    return identity


@shows("939-keep-prepared")
async def test_a_client_that_comes_back_ends_what_it_had_prepared() -> None:
    async with kip_text_cluster(
        brokers=3, transaction_two_phase_commit_enable=True, unstable_api_versions_enable=True
    ) as cluster:
        shipped_client, text = (
            NamedListenerClient(cluster, SHIPPED),
            NamedListenerClient(cluster, TEXT),
        )
        written = await _open_prepared(text)
        assert (
            await _init(shipped_client, keeps_prepared=True)
        ).error_code is E.unsupported_version
        assert (await text.describe("t")).transaction_state == "Ongoing"
        init_answer = await _init(text, keeps_prepared=True)
        assert init_answer.error_code is E.none
        assert (
            init_answer.ongoing_txn_producer_id,
            init_answer.ongoing_txn_producer_epoch,
        ) == written
        following_identity = init_answer.producer_id, init_answer.producer_epoch
        assert following_identity == (written[0], written[1] + 1)
        description = await text.describe("t")
        assert description.transaction_state == "Ongoing"
        assert (description.producer_id, description.producer_epoch) == written
        assert description.transaction_timeout.total_seconds() * 1000 == 2_147_483_647
        # Another broker reads it from the log.
        text.move_coordinator("t")
        second_init = await _init(text, keeps_prepared=True)
        assert (second_init.producer_id, second_init.producer_epoch) == (written[0], written[1] + 2)
        fenced_answer = await text.end(4, "t", following_identity, committed=True, read_as=5)
        assert fenced_answer.error_code is E.producer_fenced
        end_answer = await text.end(
            4, "t", (second_init.producer_id, second_init.producer_epoch), committed=True, read_as=5
        )
        assert end_answer.error_code is E.none
        assert (end_answer.producer_id, end_answer.producer_epoch) == (written[0], written[1] + 3)
        over = await text.wait_for_state("t", "CompleteCommit")
        assert over.producer_epoch == written[1] + 3


async def test_nothing_is_kept_where_nothing_is_open() -> None:
    async with kip_text_cluster() as cluster:
        answer = await _init(
            NamedListenerClient(cluster, TEXT), enables_two_phase_commit=False, keeps_prepared=True
        )
        assert answer.error_code is E.none
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


async def test_without_the_broker_s_word_there_is_no_two_phase_commit() -> None:
    async with kip_text_cluster() as cluster:
        answer = await _init(NamedListenerClient(cluster, TEXT))
        assert answer.error_code is E.transactional_id_authorization_failed


async def test_the_tools_tell_it_from_what_hangs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with kip_text_cluster(transaction_two_phase_commit_enable=True) as cluster:
        client = NamedListenerClient(cluster, TEXT)
        await _open_prepared(client)

        async def run_tool(*arguments: str) -> tuple[int, str, str]:
            server = ("txns", "--bootstrap-server", cluster.bootstrap)
            code = await asyncio.to_thread(main, [*server, *arguments])
            return (code, *capsys.readouterr())

        partition_options = ("--topic", "orders", "--partition", "0")
        code, output, error_output = await run_tool("why", "orders-0")
        assert "waits for its external coordinator" in output, (code, error_output)
        assert "It does not hang" in output
        assert "aborts it, even if it was decided to commit" in output
        # Its record is stamped years ago: leaders, who do not know of two-phase commit, count it.
        assert count_late_transactions(cluster) == 1
        code, output, _ = await run_tool("find-hanging", *partition_options[:2])
        assert (code, len(output.splitlines())) == (0, 1), output
        code, output, _ = await run_tool("find-hanging", "--all")
        assert code == 0, output  # 3 where something hangs
        aborts = (
            "abort",
            *partition_options,
            "--start-offset",
            "0",
            "--audit-file",
            str(tmp_path / "audit"),
        )
        code, _, error_output = await run_tool(*aborts)
        assert code != 0
        assert "It may be prepared" in error_output
        assert (await client.describe("t")).transaction_state == "Ongoing"
        code, _, error_output = await run_tool(
            "forceTerminateTransaction", "--transactionalId", "t"
        )
        assert code == 0
        assert "may have been prepared" in error_output
        await client.wait_for_state("t", "Empty")  # it was aborted, and a new session begins


# Our own client at either listener: what it can say there, and what it is told.


CLIENT_P0 = TopicPartition("orders", 0)


async def test_an_abort_by_start_offset_ends_that_transaction_only() -> None:
    async with kip_text_cluster() as cluster:
        client_by_text = NamedListenerClient(cluster, TEXT)
        producer_id, epoch = await client_by_text.open_transaction("t")
        start = (await client_by_text.active_producer(producer_id)).current_txn_start_offset
        assert cluster.kip_text_bootstrap is not None
        async with Cluster(cluster.kip_text_bootstrap) as client:
            admin = Admin(client)
            for wrong_epoch, wrong_start, error in (
                (epoch, start + 1, ErrorCode.invalid_txn_state),
                (epoch + 1, start, ErrorCode.invalid_producer_epoch),
            ):
                with pytest.raises(ClientError) as error_info:
                    await admin.abort_named_transaction(
                        CLIENT_P0,
                        producer_id=producer_id,
                        producer_epoch=wrong_epoch,
                        start_offset=wrong_start,
                    )
                assert error_info.value.error is error
            await admin.abort_named_transaction(
                CLIENT_P0, producer_id=producer_id, producer_epoch=epoch, start_offset=start
            )
        assert (await client_by_text.active_producer(producer_id)).current_txn_start_offset == -1


async def test_the_time_of_the_last_update_is_told_at_one_listener() -> None:
    async with kip_text_cluster() as cluster:
        assert cluster.kip_text_bootstrap is not None
        await NamedListenerClient(cluster, SHIPPED).run_transaction("t")
        times_by_bootstrap = {}
        for bootstrap in (cluster.bootstrap, cluster.kip_text_bootstrap):
            async with Cluster(bootstrap) as client:
                description = (await Admin(client).describe_transactions(("t",)))["t"]
                assert not isinstance(description, ClientError)
                times_by_bootstrap[bootstrap] = (
                    description.start_time_ms,
                    description.last_update_time_ms,
                )
        start_ms, missing_time = times_by_bootstrap[cluster.bootstrap]
        assert (missing_time, start_ms is not None) == (None, True)
        text_start_ms, update_ms = times_by_bootstrap[cluster.kip_text_bootstrap]
        assert text_start_ms == start_ms
        assert start_ms is not None
        assert update_ms is not None
        assert update_ms >= start_ms
