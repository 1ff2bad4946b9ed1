"""Fetch v4 to v18: what is read, who may read, how long a reader waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sim.errors import ErrorCode
from sim.types import BrokerId, TopicPartition
from sim.wire.batch import iter_batches
from tests.support.handlers import NO_SUCH_ID, Api, batch, fetch, produce, transaction


@pytest.fixture
async def filled(api: Api) -> Api:
    """Two batches of two records each in orders-0."""
    for _ in range(2):
        await api.ask("Produce", 8, **produce("orders", batch(b"a", b"b")))
    return api


def part(answer: Any) -> Any:
    (partition,) = answer.responses[0].partitions
    return partition


def offsets(records: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_batches(records)]


def wanted(api: Api, offset: int = 0, **more: Any) -> dict[str, Any]:
    return fetch("orders", offset, topic_id=api.topic_id("orders"), **more)


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_reads(filled: Api, version: int) -> None:
    found = part(await filled.ask("Fetch", version, **wanted(filled)))
    assert (found.error_code, offsets(found.records)) == (ErrorCode.none, [0, 2])
    assert (found.high_watermark, found.last_stable_offset) == (4, 4)
    assert found.aborted_transactions is None
    if version >= 5:
        assert found.log_start_offset == 0
    committed = part(await filled.ask("Fetch", version, **wanted(filled, isolation=1)))
    assert committed.aborted_transactions == ()


@pytest.mark.parametrize("version", [4, 12, 13, 18])
@pytest.mark.parametrize(
    ("offset", "found"), [(0, [0, 2]), (1, [0, 2]), (2, [2]), (4, []), (5, None), (-1, None)]
)
async def test_offsets(filled: Api, version: int, offset: int, found: list[int] | None) -> None:
    got = part(await filled.ask("Fetch", version, **wanted(filled, offset)))
    if found is None:
        assert got.error_code is ErrorCode.offset_out_of_range
        assert (got.high_watermark, got.last_stable_offset, got.records) == (-1, -1, b"")
    else:
        assert (got.error_code, offsets(got.records)) == (ErrorCode.none, found)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
async def test_what_is_not_there(filled: Api, version: int) -> None:
    by_id = version >= 13
    missing = part(await filled.ask("Fetch", version, **fetch("missing", topic_id=NO_SUCH_ID)))
    assert missing.error_code is (
        ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    )
    assert missing.aborted_transactions == ()
    for partition in (9, -1):
        got = part(await filled.ask("Fetch", version, **wanted(filled, partition=partition)))
        assert got.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", [9, 12, 18])
@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.none),
        (1, ErrorCode.none),
        (0, ErrorCode.fenced_leader_epoch),
        (2, ErrorCode.unknown_leader_epoch),
    ],
)
async def test_the_readers_epoch_is_checked(
    api_of_three: Api, version: int, epoch: int, error: ErrorCode
) -> None:
    api = api_of_three
    api.cluster.move_leader(TopicPartition("orders", 1), BrokerId(1))
    values = wanted(api, partition=1, current_leader_epoch=epoch)
    answer = await api.ask("Fetch", version, **values)
    assert part(answer).error_code is error
    if version >= 16 and error is ErrorCode.fenced_leader_epoch:
        leader = part(answer).current_leader
        assert (leader.leader_id, leader.leader_epoch) == (1, 1)
        assert [one.node_id for one in answer.node_endpoints] == [1]


@pytest.mark.parametrize("version", [12, 18])
@pytest.mark.parametrize(
    ("fetched", "offset", "error", "diverges"),
    [(0, 2, 0, False), (0, 4, 0, True), (1, 5, 0, False), (2, 5, 1, False)],
)
async def test_a_log_that_went_another_way_is_told_where(
    api_of_three: Api, version: int, fetched: int, offset: int, error: int, diverges: bool
) -> None:
    api = api_of_three
    await api.at(2).ask("Produce", 8, **produce("orders", batch(b"a", b"b"), partition=1))
    api.cluster.move_leader(TopicPartition("orders", 1), BrokerId(1))
    await api.ask("Produce", 8, **produce("orders", batch(b"a", b"b", b"c"), partition=1))
    values = wanted(api, offset, partition=1, last_fetched_epoch=fetched)
    got = part(await api.ask("Fetch", version, **values))
    assert int(got.error_code) == error
    assert (got.diverging_epoch.epoch >= 0) == diverges
    if diverges:
        assert (got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == (0, 2)


async def test_before_v11_only_the_leader_is_read(api_of_three: Api) -> None:
    values = wanted(api_of_three, partition=1)
    old = part(await api_of_three.ask("Fetch", 10, **values))
    assert old.error_code is ErrorCode.not_leader_or_follower
    assert part(await api_of_three.ask("Fetch", 11, **values)).error_code is ErrorCode.none


async def test_aborted_transactions_are_named_to_committed_readers(filled: Api) -> None:
    pid, epoch = await filled.producer("id")
    await filled.ask("AddPartitionsToTxn", 3, **transaction("id", (pid, epoch), {"orders": [0]}))
    records = batch(producer_id=pid, producer_epoch=epoch, base_sequence=0, transactional=True)
    await filled.ask("Produce", 11, **produce("orders", records, transactional_id="id"))
    opened = part(await filled.ask("Fetch", 12, **wanted(filled, isolation=1)))
    assert (offsets(opened.records), opened.last_stable_offset) == ([0, 2], 4)
    ended = {"transactional_id": "id", "producer_id": pid, "producer_epoch": epoch}
    await filled.ask("EndTxn", 3, committed=False, **ended)
    await filled.state("id", "CompleteAbort")
    found = part(await filled.ask("Fetch", 12, **wanted(filled, isolation=1)))
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [(pid, 4)]


async def test_limits_never_keep_the_first_batch_back(filled: Api) -> None:
    values = wanted(filled, partition_max_bytes=1)
    values["max_bytes"] = 0
    assert offsets(part(await filled.ask("Fetch", 12, **values)).records) == [0]
    first, second = wanted(filled), wanted(filled, partition=1)
    await filled.ask("Produce", 8, **produce("orders", batch(b"z"), partition=1))
    first["topics"][0]["partitions"] += second["topics"][0]["partitions"]
    first["max_bytes"] = 1
    answer = await filled.ask("Fetch", 12, **first)
    assert [offsets(one.records) for one in answer.responses[0].partitions] == [[0], []]


async def test_partitions_come_back_in_the_order_asked_and_once(filled: Api) -> None:
    values = wanted(filled)
    values["topics"] += fetch("x", topic_id=NO_SUCH_ID)["topics"] + wanted(filled, 2)["topics"]
    answer = await filled.ask("Fetch", 13, **values)
    assert [one.topic_id for one in answer.responses] == [filled.topic_id("orders"), NO_SUCH_ID]
    assert offsets(answer.responses[0].partitions[0].records) == [2], "as it was named last"


async def test_a_reader_waits_for_the_next_record(filled: Api) -> None:
    values = wanted(filled, 4, max_wait_ms=20_000)
    waiting = asyncio.ensure_future(filled.ask("Fetch", 12, **values))  # noqa: TID251 - a client's
    await asyncio.sleep(0)
    assert not waiting.done()
    await filled.ask("Produce", 8, **produce("orders", batch(b"c")))
    assert offsets(part(await waiting).records) == [4]


async def test_a_reader_does_not_wait_where_something_failed(filled: Api) -> None:
    values = wanted(filled, 4, max_wait_ms=60_000)
    values["topics"] += fetch("x", topic_id=NO_SUCH_ID)["topics"]
    assert len((await filled.ask("Fetch", 13, **values)).responses) == 2


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [
        (0, -1, ErrorCode.none),
        (9, -1, ErrorCode.none),
        (0, 0, ErrorCode.none),
        (9, 1, ErrorCode.fetch_session_id_not_found),
    ],
)
async def test_sessions_are_declined(
    filled: Api, session_id: int, epoch: int, error: ErrorCode
) -> None:
    values = {**wanted(filled), "session_id": session_id, "session_epoch": epoch}
    answer = await filled.ask("Fetch", 12, **values)
    assert (answer.error_code, answer.session_id) == (error, 0)


@pytest.mark.parametrize("version", [4, 7, 12, 13])
async def test_an_unknown_isolation_level_trips_the_broker(filled: Api, version: int) -> None:
    answer = await filled.ask("Fetch", version, **wanted(filled, isolation=2))
    if version >= 7:
        assert answer.error_code is ErrorCode.unknown_server_error
    if version < 13:
        assert part(answer).error_code is ErrorCode.unknown_server_error
    else:
        assert answer.responses == ()


async def test_subject(filled: Api) -> None:
    for version in (12, 13):
        about = filled.subject("Fetch", version, **wanted(filled))
        assert [str(one) for one in about.partitions] == ["orders-0"]
