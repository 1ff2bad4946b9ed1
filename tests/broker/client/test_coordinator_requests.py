"""What is asked of a coordinator before a transaction is open; the rest is seen through the
producer.
"""

from __future__ import annotations

import pytest

from tests.broker.client.fake_broker import (
    FakeBroker,
    add_partitions_answer,
    coordinator,
    init_answer,
)
from txnsim.client._coordinator_requests import CoordinatorRequests
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import AbortableError, ClientError, FatalError, RetriableError
from txnsim.client.session import SessionState, TxnSession
from txnsim.client.versions import ClientApi
from txnsim.types import ProducerIdAndEpoch, TopicPartition

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=40)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("error", "error_class"), [(53, FatalError), (120, AbortableError), (15, RetriableError)]
)
async def test_no_coordinator(error: int, error_class: type[ClientError]) -> None:
    handler_by_api = {ClientApi.FIND_COORDINATOR: lambda request: coordinator(request, error=error)}
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=SETTINGS) as c,
    ):
        session = TxnSession()
        with pytest.raises(error_class):
            await CoordinatorRequests(c, session, "x", 1).init_producer_id(ProducerIdAndEpoch.NONE)
        is_finished = session.state is SessionState.FATAL_ERROR
        assert is_finished is (error_class is FatalError)


@pytest.mark.parametrize(("highest", "error_class"), [(2, FatalError), (3, AbortableError)])
async def test_a_coordinator_that_cannot_bump_makes_losses_fatal(
    highest: int, error_class: type[ClientError]
) -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: init_answer(),
        ClientApi.ADD_PARTITIONS_TO_TXN: add_partitions_answer(59),
    }
    ranges = {22: (0, highest)}
    async with (
        FakeBroker(handler_by_api, ranges=ranges, transaction_version=1) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        session = TxnSession()
        requests = CoordinatorRequests(cluster, session, "x", 1)
        await requests.init_producer_id(ProducerIdAndEpoch.NONE)
        session.begin()
        session.touch(P0)
        with pytest.raises(error_class):
            await requests.add_partition(P0, lambda: False, cluster.deadline())


async def test_wanted_partitions_go_along_and_a_given_up_one_is_not_added() -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: init_answer(),
        ClientApi.ADD_PARTITIONS_TO_TXN: add_partitions_answer(),
    }
    async with (
        FakeBroker(handler_by_api, transaction_version=1) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        session = TxnSession()
        requests = CoordinatorRequests(cluster, session, "x", 1)
        await requests.init_producer_id(ProducerIdAndEpoch.NONE)
        session.begin()
        with pytest.raises(AbortableError, match="is being aborted"):
            await requests.add_partition(P0, lambda: True, cluster.deadline())
        assert broker.of(ClientApi.ADD_PARTITIONS_TO_TXN) == []
        requests.want(P1)
        await requests.add_partition(P0, lambda: False, cluster.deadline())
        await requests.add_partition(P1, lambda: False, cluster.deadline())
        (request,) = broker.of(ClientApi.ADD_PARTITIONS_TO_TXN)
        assert sorted(request.message.v3_and_below_topics[0].partitions) == [0, 1]


async def test_adding_not_decided_in_time_asks_for_an_abort() -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: init_answer(),
        ClientApi.ADD_PARTITIONS_TO_TXN: add_partitions_answer(51),
    }
    async with (
        FakeBroker(handler_by_api, transaction_version=1) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        session = TxnSession()
        requests = CoordinatorRequests(cluster, session, "x", 1)
        await requests.init_producer_id(ProducerIdAndEpoch.NONE)
        session.begin()
        with pytest.raises(AbortableError, match="CONCURRENT_TRANSACTIONS"):
            await requests.add_partition(P0, lambda: False, cluster.deadline(20))
