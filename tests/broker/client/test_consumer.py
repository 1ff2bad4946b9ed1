from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.broker.client.fake_broker import SILENCE, FakeBroker, ReceivedRequest, in_turn
from tests.broker.client.test_fetching import fetch_answer
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.consumer import Consumer
from txnsim.client.errors import ClientError, NotSupportedError
from txnsim.client.versions import ClientApi
from txnsim.types import TopicPartition

T0 = TopicPartition("t", 0)
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=500)


def offsets(error: int = 0, offset: int = 0) -> Any:
    def handle(request: ReceivedRequest) -> Any:
        return request.answer(
            topics=[
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": row.partition_index,
                            "error_code": error,
                            "offset": offset,
                            "timestamp": -1,
                        }
                        for row in topic.partitions
                    ],
                }
                for topic in request.message.topics
            ]
        )

    return handle


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(
        {ClientApi.FETCH: fetch_answer(), ClientApi.LIST_OFFSETS: offsets(offset=5)}
    ) as fake_broker:
        yield fake_broker


@pytest.fixture
async def consumer(broker: FakeBroker) -> AsyncIterator[Consumer]:
    async with Cluster(broker.address, settings=SETTINGS) as cluster, Consumer(cluster) as consumer:
        yield consumer


@pytest.mark.parametrize(("reset", "timestamp"), [("earliest", -2), ("latest", -1)])
async def test_positions_are_looked_up_where_none_are_given(
    broker: FakeBroker, consumer: Consumer, reset: str, timestamp: int
) -> None:
    await consumer.assign([T0], reset=reset)
    assert consumer.positions == {T0: 5}
    (request,) = broker.of(ClientApi.LIST_OFFSETS)
    assert request.message.topics[0].partitions[0].timestamp == timestamp


async def test_a_position_that_cannot_be_had_is_an_error(
    broker: FakeBroker, consumer: Consumer
) -> None:
    broker.handlers[ClientApi.LIST_OFFSETS] = offsets(29)
    with pytest.raises(ClientError, match="TOPIC_AUTHORIZATION_FAILED"):
        await consumer.assign([T0])


async def test_records_move_the_position(broker: FakeBroker, consumer: Consumer) -> None:
    broker.handlers[ClientApi.FETCH] = fetch_answer(0, b"a", b"b")
    await consumer.assign({T0: 0})
    assert [record.value for record in await consumer.poll()] == [b"a", b"b"]
    assert consumer.positions == {T0: 2}
    assert consumer.last[T0].high_watermark == 9


async def test_an_empty_poll_ends_with_its_wait(broker: FakeBroker, consumer: Consumer) -> None:
    await consumer.assign({T0: 0})
    assert await consumer.poll(0) == []
    assert await consumer.poll(15) == []
    await consumer.assign({})
    assert await consumer.poll() == []


async def test_passing_errors_are_asked_again_and_others_raised(
    broker: FakeBroker, consumer: Consumer
) -> None:
    await consumer.assign({T0: 0})
    broker.handlers[ClientApi.FETCH] = in_turn(fetch_answer(6), fetch_answer(0, b"a"))
    assert len(await consumer.poll()) == 1
    broker.handlers[ClientApi.FETCH] = fetch_answer(1)
    with pytest.raises(ClientError, match="OFFSET_OUT_OF_RANGE"):
        await consumer.poll()


async def test_what_comes_for_an_old_position_is_thrown_away(
    broker: FakeBroker, consumer: Consumer
) -> None:
    await consumer.assign({T0: 0})
    sent_event = asyncio.Event()

    def seek(request: ReceivedRequest) -> Any:
        consumer.seek(T0, 7)
        sent_event.set()
        return fetch_answer(0, b"old")(request)

    broker.handlers[ClientApi.FETCH] = in_turn(seek, fetch_answer(0, b"new", offset=7))
    assert [record.value for record in await consumer.poll()] == [b"new"]
    assert consumer.positions == {T0: 8}


async def test_a_broker_too_old_is_an_error(broker: FakeBroker, consumer: Consumer) -> None:
    broker.ranges[ClientApi.FETCH] = (0, 3)
    await consumer.assign({T0: 0})
    with pytest.raises(NotSupportedError):
        await consumer.poll()


async def test_closing_leaves_nothing_on_its_way(broker: FakeBroker, consumer: Consumer) -> None:
    broker.handlers[ClientApi.FETCH] = lambda _: SILENCE
    await consumer.assign({T0: 0})
    polling_future = asyncio.gather(consumer.poll(20))
    await asyncio.sleep(0.01)
    polling_future.cancel()
    await asyncio.gather(polling_future, return_exceptions=True)
    await consumer.close()
