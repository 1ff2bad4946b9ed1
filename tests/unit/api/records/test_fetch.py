"""Fetch v4 to v18: what is read, who may read, how long a reader waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.support.handlers import (
    NO_SUCH_ID,
    Api,
    batch,
    fetch,
    handlers,
    produce,
    read_back,
    transaction,
)
from txnsim.api.registry import HANDLERS
from txnsim.errors import ErrorCode
from txnsim.runtime.turns import Pace
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire.batch import iter_batches

NEW_ORDERS = {"name": "orders", "num_partitions": 1, "replication_factor": 1}


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
async def test_a_diverged_log_learns_where(
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


async def test_a_reader_waits_beside_what_does_not_exist(filled: Api) -> None:
    values = wanted(filled, 4, max_wait_ms=20_000)
    values["topics"] += fetch("x", topic_id=NO_SUCH_ID)["topics"]
    waiting = asyncio.ensure_future(filled.ask("Fetch", 13, **values))  # noqa: TID251 - a client's
    await asyncio.sleep(0)
    assert not waiting.done()
    await filled.ask("Produce", 8, **produce("orders", batch(b"c")))
    found, missing = (await waiting).responses
    assert offsets(found.partitions[0].records) == [4]
    assert missing.partitions[0].error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [12, 13])
async def test_a_reader_does_not_wait_for_what_does_not_exist(filled: Api, version: int) -> None:
    values = fetch("x", topic_id=NO_SUCH_ID, max_wait_ms=60_000)
    assert part(await filled.ask("Fetch", version, **values)).error_code


async def test_a_reader_does_not_wait_where_something_failed(filled: Api) -> None:
    values = wanted(filled, 4, max_wait_ms=60_000)
    values["topics"] += wanted(filled, partition=1, current_leader_epoch=9)["topics"]
    answer = await filled.ask("Fetch", 13, **values)
    assert answer.responses[0].partitions[1].error_code is ErrorCode.unknown_leader_epoch


async def test_a_reader_waits_for_no_more_bytes_than_it_takes(filled: Api) -> None:
    values = {**wanted(filled, max_wait_ms=60_000), "min_bytes": 9_999, "max_bytes": 1}
    assert offsets(part(await filled.ask("Fetch", 12, **values)).records) == [0]


# Sessions


@pytest.mark.parametrize("version", [7, 12, 13, 15, 18])
async def test_an_incremental_answer_lists_what_has_news(filled: Api, version: int) -> None:
    opened = await filled.ask("Fetch", version, **wanted(filled, 4), session_epoch=0)
    assert opened.session_id > 0
    quiet = {**wanted(filled), "topics": [], "session_id": opened.session_id}
    answer = await filled.ask("Fetch", version, **quiet, session_epoch=1)
    assert (answer.error_code, answer.session_id) == (ErrorCode.none, opened.session_id)
    assert answer.responses == ()
    await filled.ask("Produce", 8, **produce("orders", batch(b"c")))
    answer = await filled.ask("Fetch", version, **quiet, session_epoch=2)
    assert offsets(part(answer).records) == [4]
    forget = {"topic": "orders", "topic_id": filled.topic_id("orders"), "partitions": [0]}
    answer = await filled.ask(
        "Fetch", version, **quiet, session_epoch=3, forgotten_topics_data=[forget]
    )
    assert (answer.session_id, answer.responses) == (0, ())


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_before_v7_there_are_no_sessions(filled: Api, version: int) -> None:
    assert part(await filled.ask("Fetch", version, **wanted(filled))).error_code == 0
    assert len(filled.broker.fetch_sessions) == 0


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [
        (9, 1, ErrorCode.fetch_session_id_not_found),
        (None, 2, ErrorCode.invalid_fetch_session_epoch),
        (None, 1, ErrorCode.none),
    ],
)
async def test_errors_of_a_session_answer_the_whole_request(
    filled: Api, session_id: int | None, epoch: int, error: ErrorCode
) -> None:
    opened = await filled.ask("Fetch", 12, **wanted(filled), session_epoch=0)
    values = {"session_id": session_id or opened.session_id, "session_epoch": epoch}
    answer = await filled.ask("Fetch", 12, **wanted(filled), **values)
    assert answer.error_code is error
    assert bool(answer.session_id) == bool(answer.responses) == (error is ErrorCode.none)


async def test_a_session_of_names_takes_no_ids(filled: Api) -> None:
    opened = await filled.ask("Fetch", 12, **wanted(filled), session_epoch=0)
    values = {"session_id": opened.session_id, "session_epoch": 1}
    answer = await filled.ask("Fetch", 13, **wanted(filled), **values)
    assert answer.error_code is ErrorCode.fetch_session_topic_id_error


@pytest.mark.parametrize("version", [12, 13])
async def test_an_impossible_session_id_trips_the_broker(filled: Api, version: int) -> None:
    values = {"session_id": 2**31 - 1, "session_epoch": 1}
    answer = await filled.ask("Fetch", version, **wanted(filled), **values)
    assert (answer.error_code, answer.session_id) == (ErrorCode.unknown_server_error, 2**31 - 1)
    assert len(answer.responses) == (1 if version == 12 else 0)


async def test_an_unknown_isolation_level_uses_an_epoch_up(filled: Api) -> None:
    opened = await filled.ask("Fetch", 12, **wanted(filled), session_epoch=0)
    values = {"session_id": opened.session_id}
    tripped = await filled.ask(
        "Fetch", 12, **wanted(filled, isolation=2), **values, session_epoch=1
    )
    assert tripped.error_code is ErrorCode.unknown_server_error
    assert not (
        await filled.ask("Fetch", 12, **wanted(filled), **values, session_epoch=2)
    ).error_code


async def test_a_topic_that_was_made_anew_is_another_one(filled: Api) -> None:
    values = wanted(filled)
    opened = await filled.ask("Fetch", 13, **values, session_epoch=0)
    await filled.ask("DeleteTopics", 5, topic_names=["orders"], timeout=1_000)
    session = {**values, "topics": [], "session_id": opened.session_id}
    gone = await filled.ask("Fetch", 13, **session, session_epoch=1)
    assert part(gone).error_code is ErrorCode.unknown_topic_or_partition
    await filled.ask("CreateTopics", 7, topics=[NEW_ORDERS])
    other = await filled.ask("Fetch", 13, **session, session_epoch=2)
    assert part(other).error_code is ErrorCode.inconsistent_topic_id
    listed = {**values, "session_id": opened.session_id, "session_epoch": 3}
    assert part(await filled.ask("Fetch", 13, **listed)).error_code is part(other).error_code


async def test_the_slots_are_a_setting() -> None:
    async with handlers(max_incremental_fetch_session_cache_slots=7) as api:
        answer = await api.ask("Fetch", 12, **wanted(api), session_epoch=0)
        assert (answer.session_id, len(answer.responses)) == (0, 1)


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


async def test_a_request_is_about_the_partitions_of_its_session_too(filled: Api) -> None:
    opened = await filled.ask("Fetch", 12, **wanted(filled), session_epoch=0)
    values = {**wanted(filled, partition=1), "session_id": opened.session_id}
    about = filled.subject("Fetch", 12, **values, session_epoch=1)
    assert [str(one) for one in about.partitions] == ["orders-1", "orders-0"]
    stale = filled.subject("Fetch", 12, **values, session_epoch=5)
    assert [str(one) for one in stale.partitions] == ["orders-1"]


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_a_large_request_that_waits_keeps_no_message_but_what_it_is_about(
    filled: Api, version: int
) -> None:
    """The message of a Fetch of 10,000 partitions takes more memory than all else of it."""
    places = ((0, 4), (1, 0), (0, 4))
    listed = [
        {"partition": at, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        for at, offset in places
    ]
    values = {**wanted(filled), "max_wait": timedelta(seconds=5), "min_bytes": 1}
    (topic,) = values["topics"]
    values["topics"] = [{**topic, "partitions": listed}]
    request = filled.request("Fetch", version, **values)
    environment = filled.broker.environment
    request.pace = Pace(environment.tasks.turns, environment.clock.stopwatch_ns)
    about = HANDLERS[request.api_key].subject(request)
    handled = HANDLERS[request.api_key].handle(request)
    reading = asyncio.ensure_future(handled)  # noqa: TID251 - a client's
    await asyncio.sleep(0)
    assert request.message.topics == ()
    assert HANDLERS[request.api_key].subject(request) == about
    refused = read_back(
        request, HANDLERS[request.api_key].refuse(request, ErrorCode.unknown_server_error)
    )
    if version < 13:
        parts = refused.responses[0].partitions
        assert [one.partition_index for one in parts] == [0, 1]
    await filled.ask("Produce", 8, **produce("orders", batch(b"c")))
    found = read_back(request, await reading)
    assert offsets(found.responses[0].partitions[0].records) == [4]
