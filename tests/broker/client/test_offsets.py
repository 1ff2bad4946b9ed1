from __future__ import annotations

import pytest

from tests.broker.client.fake_broker import FakeBroker, in_turn
from tests.broker.client.test_consumer import offsets
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, RetriableError
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, FoundOffset, list_offsets
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=60)


async def test_one_request_asks_for_all_partitions_of_a_leader() -> None:
    async with (
        FakeBroker({ClientApi.LIST_OFFSETS: offsets(offset=5)}) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        found_offset_by_partition = await list_offsets(
            cluster,
            {T0: LATEST_TIMESTAMP, T1: EARLIEST_TIMESTAMP},
            isolation=IsolationLevel.READ_COMMITTED,
        )
        assert [
            offset.offset
            for offset in found_offset_by_partition.values()
            if isinstance(offset, FoundOffset)
        ] == [
            5,
            5,
        ]
        (request,) = broker.of(ClientApi.LIST_OFFSETS)
        assert request.message.isolation_level == 1
        assert [row.timestamp for row in request.message.topics[0].partitions] == [-1, -2]


@pytest.mark.parametrize("error", [6, 78])
async def test_passing_errors_are_asked_again(error: int) -> None:
    settings = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=2_000)
    async with (
        FakeBroker({ClientApi.LIST_OFFSETS: in_turn(offsets(error), offsets(offset=1))}) as broker,
        Cluster(broker.address, settings=settings) as cluster,
    ):
        offset = (await list_offsets(cluster, {T0: LATEST_TIMESTAMP}))[T0]
        assert isinstance(offset, FoundOffset)
        assert offset.offset == 1


@pytest.mark.parametrize(("error", "error_class"), [(29, ClientError), (78, RetriableError)])
async def test_errors_belong_to_their_partition(error: int, error_class: type[ClientError]) -> None:
    async with (
        FakeBroker({ClientApi.LIST_OFFSETS: offsets(error)}) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        offset = (await list_offsets(cluster, {T0: LATEST_TIMESTAMP}))[T0]
        assert type(offset) is error_class
        code = ErrorCode(error) if error_class is ClientError else ErrorCode.request_timed_out
        assert isinstance(offset, ClientError)
        assert offset.error == code
