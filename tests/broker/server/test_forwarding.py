"""What a broker forwards waits while the controller can't be reached, and times out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.handlers import KEYS
from tests.support.images import B1
from tests.support.raw_wire import message_from
from tests.support.within import within
from txnsim.api.registry import HANDLERS
from txnsim.errors import ErrorCode
from txnsim.releases.exchanges import FORWARDED
from txnsim.server._forwarding import RETRY_TIMEOUT_MS
from txnsim.types import TRANSACTION_STATE_TOPIC
from txnsim.wire import codec

CREATE = {"topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}]}


async def ask(
    cluster: VirtualCluster, api: str, version: int, **values: Any
) -> asyncio.Future[Any]:
    """Ask broker 1 over a connection of its own; the answer comes later."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    key = KEYS[api]

    class Client(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            answer.set_result(codec.read_response(key, version, data[4:])[1])

    broker = cluster.sim.metadata.image.brokers[B1]
    transport = await cluster.env.network.connect(broker.host, broker.port, Client)
    message = message_from(codec.request_class(key, version), values)
    transport.write(codec.encode_request(key, version, 1, "app", message))
    return answer


@pytest.mark.parametrize("key", sorted(FORWARDED & HANDLERS.keys()))
@within(run_cluster)
async def test_all_that_is_forwarded_waits_for_the_controller(
    cluster: VirtualCluster, key: int
) -> None:
    cluster.sim.isolate(B1)
    answer = await ask(cluster, HANDLERS[key].name, HANDLERS[key].versions[1])
    await asyncio.sleep(RETRY_TIMEOUT_MS / 1_000 - 1)
    assert not answer.done()
    await answer


@pytest.mark.parametrize("heals", [True, False])
@within(run_cluster)
async def test_a_request_waits_for_the_controller_and_times_out_without_it(
    cluster: VirtualCluster, heals: bool
) -> None:
    cluster.sim.isolate(B1)
    answer = await ask(cluster, "CreateTopics", 7, **CREATE)
    await asyncio.sleep(RETRY_TIMEOUT_MS / 1_000 - 1)
    assert not answer.done()
    assert "made" not in cluster.sim.metadata.image.topics
    if heals:
        cluster.sim.heal(B1)
    (topic,) = (await answer).topics
    expected = ErrorCode.none if heals else ErrorCode.request_timed_out
    assert topic.error_code is expected
    assert ("made" in cluster.sim.metadata.image.topics) is heals


@within(run_cluster)
async def test_a_broker_that_dies_meanwhile_answers_nothing(cluster: VirtualCluster) -> None:
    cluster.sim.isolate(B1)
    answer = await ask(cluster, "CreateTopics", 7, **CREATE)
    await asyncio.sleep(1)
    await cluster.sim.kill_broker(B1)
    cluster.sim.heal(B1)
    await asyncio.sleep(120)
    assert not answer.done()
    assert "made" not in cluster.sim.metadata.image.topics


@within(run_cluster)
async def test_a_broker_without_a_controller_creates_no_topic_by_itself(
    cluster: VirtualCluster,
) -> None:
    cluster.sim.isolate(B1)
    metadata = await (
        await ask(cluster, "Metadata", 5, topics=[{"name": "made"}], allow_auto_topic_creation=True)
    )
    assert metadata.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    found = await (await ask(cluster, "FindCoordinator", 1, key="tx", key_type=1))
    assert found.error_code is ErrorCode.coordinator_not_available
    assert "made" not in cluster.sim.metadata.image.topics
    assert TRANSACTION_STATE_TOPIC not in cluster.sim.metadata.image.topics
