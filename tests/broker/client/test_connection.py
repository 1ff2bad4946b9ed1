from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from tests.broker.client.fake_broker import CLOSE, SILENCE, Asked, FakeBroker, ended, in_turn
from txnsim.client import requests
from txnsim.client.connection import ClientSettings, Connection
from txnsim.client.errors import (
    ClientError,
    ConnectionLostError,
    ErrorCode,
    NotSupportedError,
    RequestTimeoutError,
)
from txnsim.client.versions import Api, Request, VersionRange
from txnsim.runtime.real import RealClock

SETTINGS = ClientSettings(client_id="me", software_version="1.2")
END = requests.end_txn("t", producer_id=1, producer_epoch=2, committed=True)


async def connect(broker: FakeBroker, settings: ClientSettings = SETTINGS) -> Connection:
    clock = RealClock(asyncio.get_running_loop())
    return await Connection.open("127.0.0.1", broker.port, settings=settings, clock=clock)


async def test_versions_and_features_are_negotiated_first() -> None:
    async with FakeBroker(level=1) as broker:
        connection = await connect(broker)
        assert connection.versions[Api.END_TXN] == VersionRange(0, 5)
        assert connection.features.level("transaction.version") == 1
        assert connection.features.epoch == 10
        (hello,) = broker.asked
        assert (hello.version, hello.message.client_software_name) == (4, "txnsim")
        assert hello.message.client_software_version == "1.2"
        connection.close()
        await connection.wait_closed()


@pytest.mark.parametrize(("highest", "settled"), [(3, 3), (0, 0)])
async def test_an_older_broker_is_asked_again_in_its_version(highest: int, settled: int) -> None:
    async with FakeBroker() as broker:

        def refuse(asked: Asked) -> Any:
            # As a broker does: version 0, its own range inside (KIP-511).
            old = Asked(18, 0, None)
            row = old.part("ApiVersion", api_key=18, min_version=0, max_version=highest)
            return old.answer(error_code=35, api_keys=(row,))

        broker.handlers[Api.API_VERSIONS] = in_turn(refuse, broker.api_versions)
        connection = await connect(broker)
        assert [asked.version for asked in broker.asked] == [4, settled]
        assert connection.versions
        connection.close()


async def test_a_refused_greeting_is_named() -> None:
    async with FakeBroker() as broker:
        broker.handlers[Api.API_VERSIONS] = lambda asked: asked.answer(error_code=42, api_keys=())
        with pytest.raises(NotSupportedError, match="ApiVersions with INVALID_REQUEST"):
            await connect(broker)


async def test_a_listener_that_closes_at_once_differs_from_a_dead_one() -> None:
    async with FakeBroker({Api.API_VERSIONS: lambda _: CLOSE}) as broker:
        with pytest.raises(ConnectionLostError, match=r"security\.protocol=PLAINTEXT"):
            await connect(broker)
    with pytest.raises(ConnectionLostError, match="Connection refused"):
        await connect(broker)


async def test_answers_are_matched_by_correlation_id() -> None:
    answer = ended(0, epoch=9)
    async with FakeBroker({Api.END_TXN: in_turn(lambda _: SILENCE, answer)}) as broker:
        connection = await connect(broker)
        swallowed, answered = connection.send(END), connection.send(END)
        assert (await answered).producer_epoch == 9
        assert not swallowed.done()
        connection.close()
        with pytest.raises(ConnectionLostError, match="closed by us"):
            await swallowed
        assert not connection.usable
        with pytest.raises(ConnectionLostError):
            connection.send(END)


async def test_no_answer_in_time_closes_the_connection_and_fails_what_is_behind() -> None:
    async with FakeBroker({Api.END_TXN: lambda _: SILENCE}) as broker:
        connection = await connect(broker)
        first = connection.send(Request(api=Api.END_TXN, build=END.build, timeout_ms=30))
        second = connection.send(Request(api=Api.END_TXN, build=END.build, timeout_ms=60_000))
        with pytest.raises(RequestTimeoutError, match="did not answer EndTxn in time") as late:
            await first
        assert late.value.error == ErrorCode.request_timed_out
        with pytest.raises(ConnectionLostError, match="was left"):
            await second
        assert not connection.usable
        await connection.wait_closed()


async def test_a_cut_connection_fails_what_is_on_its_way() -> None:
    async with FakeBroker({Api.END_TXN: lambda _: CLOSE}) as broker:
        connection = await connect(broker)
        with pytest.raises(ConnectionLostError, match="closed the connection"):
            await connection.request(END)


async def test_a_request_given_up_by_its_caller_disturbs_no_other() -> None:
    async with FakeBroker({Api.END_TXN: ended()}) as broker:
        connection = await connect(broker)
        connection.send(END).cancel()
        assert (await connection.request(END)).error_code == ErrorCode.none
        connection.close()


@pytest.mark.parametrize(
    ("bytes_", "expected"),
    [
        (struct.pack(">ii", 4, 2), "can't be read"),
        (b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (struct.pack(">ih", 2, 1), "does not speak Kafka's protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
    ],
    ids=["short body", "negative size", "no correlation id", "HTTP"],
)
async def test_bytes_that_are_no_answer_end_the_connection(bytes_: bytes, expected: str) -> None:
    async with FakeBroker({Api.END_TXN: lambda _: bytes_}) as broker:
        connection = await connect(broker)
        with pytest.raises(ClientError, match=expected):
            await connection.request(END)
        assert not connection.usable


async def test_an_unknown_version_is_refused_before_anything_is_sent() -> None:
    async with FakeBroker(ranges={26: (0, 4)}) as broker:
        connection = await connect(broker)
        with pytest.raises(NotSupportedError, match="END_TXN"):
            connection.send(
                requests.end_txn(
                    "t",
                    producer_id=1,
                    producer_epoch=1,
                    committed=True,
                    within=VersionRange(5, 9),
                )
            )
        assert broker.keys == []
        connection.close()


async def test_a_dial_that_takes_too_long_is_given_up() -> None:
    async def never(host: str, port: int, factory: object, *, tls: object = None) -> None:
        await asyncio.get_running_loop().create_future()

    clock = RealClock(asyncio.get_running_loop())
    settings = ClientSettings(connect_timeout_ms=10)
    with pytest.raises(RequestTimeoutError, match="no connection to nowhere:1 within 10 ms"):
        await Connection.open("nowhere", 1, settings=settings, clock=clock, dial=never)
