"""Fetch v4 to v18: how long a reader waits, what is kept; the casebook has its answers."""

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
)
from txnsim.api.registry import HANDLERS
from txnsim.errors import ErrorCode
from txnsim.runtime.turns import Pace
from txnsim.wire.batch import iter_batches


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


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_before_v7_there_are_no_sessions(filled: Api, version: int) -> None:
    assert part(await filled.ask("Fetch", version, **wanted(filled))).error_code == 0
    assert len(filled.broker.fetch_sessions) == 0


async def test_the_slots_are_a_setting() -> None:
    async with handlers(max_incremental_fetch_session_cache_slots=7) as api:
        answer = await api.ask("Fetch", 12, **wanted(api), session_epoch=0)
        assert (answer.session_id, len(answer.responses)) == (0, 1)


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


@pytest.mark.parametrize(
    ("rules", "records"), [({}, b""), ({"refused_fetches_have_records": False}, None)]
)
async def test_records_of_a_fetch_that_is_refused(
    rules: dict[str, bool], records: bytes | None
) -> None:
    async with handlers(rules=rules) as api:
        answer = await api.ask("Fetch", 12, **{**fetch("orders", 0), "isolation_level": 2})
    assert part(answer).error_code is ErrorCode.unknown_server_error
    assert part(answer).records == records


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
