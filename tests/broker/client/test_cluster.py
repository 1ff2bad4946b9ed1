from __future__ import annotations

import asyncio
import functools

import pytest

from tests.broker.client.fake_broker import CLOSE, FakeBroker, coordinator, ended, in_turn
from txnsim.client import requests
from txnsim.client.cluster import Cluster, parse_bootstrap
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import (
    ClientError,
    ConnectionLostError,
    ErrorCode,
    NotSupportedError,
    RetriableError,
)
from txnsim.client.versions import Api
from txnsim.errors import ConfigError
from txnsim.types import TopicPartition

QUICK = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, api_timeout_ms=2_000, request_timeout_ms=500
)
SHORT = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5, api_timeout_ms=40)
T0 = TopicPartition("t", 0)
END = requests.end_txn("x", producer_id=1, producer_epoch=2, committed=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", (("a", 1),)),
        ("a:1, b:2", (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_bootstrap_addresses(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert parse_bootstrap(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:b", "a:70000", "a:1,", "a:-1"])
def test_bootstrap_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="host:port is expected"):
        parse_bootstrap(text)


async def test_a_dead_address_is_passed_over() -> None:
    async with FakeBroker() as gone:
        pass
    async with (
        FakeBroker() as broker,
        Cluster(f"{gone.address},{broker.address}", settings=QUICK) as cluster,
    ):
        assert [row.port for row in cluster.view.brokers] == [broker.port]


async def test_a_missing_broker_fails_at_once_and_keeps_the_reason() -> None:
    async with FakeBroker() as gone:
        pass
    with pytest.raises(ConnectionLostError, match="Connection refused") as error:
        await Cluster(gone.address).connect()
    assert isinstance(error.value.__cause__, OSError)


async def test_connections_are_shared_and_reopened() -> None:
    async with (
        FakeBroker({Api.END_TXN: ended()}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        first, second = await asyncio.gather(cluster.connection(1), cluster.connection(1))
        assert first is second
        assert await cluster.connection(1, lane="other") is not first
        broker.cut()
        await first.wait_closed()
        assert await cluster.connection(1) is not first
        assert (await cluster.ask(1, END)).error_code == ErrorCode.none


async def test_an_unknown_broker_is_not_guessed() -> None:
    async with FakeBroker() as broker, Cluster(broker.address) as cluster:
        with pytest.raises(ConnectionLostError, match="broker 9 is not among"):
            await cluster.connection(9)


async def test_a_closed_cluster_opens_nothing() -> None:
    async with FakeBroker() as broker:
        async with Cluster(broker.address, settings=QUICK) as cluster:
            pass
        with pytest.raises(ConnectionLostError):
            await cluster.ask_any(requests.metadata(()))


async def test_asking_any_broker_survives_a_cut() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        broker.handlers[Api.METADATA] = in_turn(lambda _: CLOSE, broker.metadata)
        assert (await cluster.refresh(("t",))).topic("t") is not None


async def test_the_highest_features_epoch_wins_over_all_connections() -> None:
    async with FakeBroker(level=2) as broker, Cluster(broker.address) as cluster:
        assert cluster.features.level("transaction.version") == 2
        broker.level, broker.features_epoch = 1, 9
        assert (await cluster.refresh_features()).level("transaction.version") == 2
        broker.features_epoch = 11
        assert (await cluster.refresh_features()).level("transaction.version") == 1


# Leaders


async def test_a_leader_is_looked_up_until_there_is_one_and_remembered() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        leaderless = functools.partial(broker.metadata, leader_id=-1)
        broker.handlers[Api.METADATA] = in_turn(leaderless, leaderless, broker.metadata)
        assert (await cluster.leader(T0)).leader_id == 1
        asked = len(broker.of(Api.METADATA))
        await cluster.leader(T0)
        assert len(broker.of(Api.METADATA)) == asked
        cluster.forget_leader("t")
        await cluster.leader(T0)
        assert len(broker.of(Api.METADATA)) == asked + 1


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (TopicPartition("nope", 0), ErrorCode.unknown_topic_or_partition),
        (TopicPartition("t", 9), ErrorCode.unknown_topic_or_partition),
    ],
)
async def test_no_leader_in_time_says_why(partition: TopicPartition, expected: ErrorCode) -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=SHORT) as cluster:
        with pytest.raises(RetriableError) as error:
            await cluster.leader(partition)
        assert error.value.error == expected


async def test_a_topic_without_leaders_says_so() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=SHORT) as cluster:
        broker.handlers[Api.METADATA] = functools.partial(broker.metadata, leader_id=-1)
        with pytest.raises(RetriableError, match="LEADER_NOT_AVAILABLE"):
            await cluster.leader(T0)


async def test_a_topic_that_is_refused_is_not_asked_for_again() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        broker.handlers[Api.METADATA] = functools.partial(broker.metadata, error=29)
        with pytest.raises(ClientError) as error:
            await cluster.leader(T0)
        assert error.value.error == ErrorCode.topic_authorization_failed
        assert not isinstance(error.value, RetriableError)


# Coordinators


async def test_a_coordinator_is_looked_up_until_there_is_one_and_remembered() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        not_yet = functools.partial(coordinator, error=15)
        broker.handlers[Api.FIND_COORDINATOR] = in_turn(not_yet, broker.find_coordinator)
        assert await cluster.coordinator("a") == 1
        assert await cluster.coordinator("a") == 1
        assert broker.keys == [10, 10]
        cluster.forget_coordinator("a")
        await cluster.coordinator("a")
        assert broker.keys == [10, 10, 10]


@pytest.mark.parametrize(("error", "kind"), [(53, ClientError), (15, RetriableError)])
async def test_no_coordinator_says_why(error: int, kind: type[ClientError]) -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=SHORT) as cluster:
        broker.handlers[Api.FIND_COORDINATOR] = functools.partial(coordinator, error=error)
        with pytest.raises(ClientError) as raised:
            await cluster.coordinator("a")
        assert type(raised.value) is kind
        assert raised.value.error == ErrorCode(error)


async def test_an_old_broker_is_asked_for_coordinators_one_by_one() -> None:
    async with (
        FakeBroker(ranges={10: (0, 3)}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        found = await cluster.find_coordinators(("a", "b"), cluster.deadline())
        assert found == {"a": (0, 1), "b": (0, 1)}
        assert [asked.message.key for asked in broker.of(Api.FIND_COORDINATOR)] == ["a", "b"]


async def test_a_broker_without_the_api_is_named() -> None:
    async with (
        FakeBroker(ranges={10: (0, 0)}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        with pytest.raises(NotSupportedError, match="FIND_COORDINATOR"):
            await cluster.coordinator("a")
