"""One Fetch against a scripted leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.broker.client.fake_broker import CLOSE, FakeBroker, ReceivedRequest, in_turn
from tests.support.clusters import VirtualCluster, options, run_cluster
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, RetriableError
from txnsim.client.fetching import NO_REPLICA, PREFERENCE_MS, NearReplicas, fetch
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.replica.read_replicas import RACK_SELECTOR
from txnsim.types import BrokerId, IsolationLevel, TopicPartition
from txnsim.wire.batch import Record, build_batch

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=60)


def fetch_answer(
    error: int = 0, *record_values: bytes, offset: int = 0, aborted: Any = ()
) -> Callable[[ReceivedRequest], Any]:
    def handle(request: ReceivedRequest) -> Any:
        batch_data = b""
        if record_values and not error:
            records = [Record(value=record_value) for record_value in record_values]
            batch_data = build_batch(records, timestamp_ms=1, base_offset=offset)
        return request.answer(
            error_code=0,
            session_id=0,
            responses=[
                {
                    "topic": topic.topic,
                    "partitions": [
                        {
                            "partition_index": row.partition,
                            "error_code": error,
                            "high_watermark": -1 if error else 9,
                            "last_stable_offset": -1 if error else 8,
                            "log_start_offset": -1 if error else 0,
                            "aborted_transactions": aborted,
                            "records": batch_data,
                        }
                        for row in topic.partitions
                    ],
                }
                for topic in request.message.topics
            ],
        )

    return handle


async def test_all_fields_of_the_answer_are_returned() -> None:
    async with (
        FakeBroker({ClientApi.FETCH: fetch_answer(0, b"a", b"b", offset=3)}) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        result = await fetch(cluster, "t", 0, 4, max_wait_ms=7, min_bytes=2)
        assert [(record.offset, record.value) for record in result.records] == [(4, b"b")]
        assert (result.high_watermark, result.last_stable_offset, result.log_start_offset) == (
            9,
            8,
            0,
        )
        assert (result.next_offset, result.aborted) == (5, ())
        assert result.size_bytes > 61
        message = broker.of(ClientApi.FETCH)[0].message
        assert (message.isolation_level, message.min_bytes) == (IsolationLevel.READ_COMMITTED, 2)
        assert (message.session_id, message.session_epoch) == (0, -1)


async def test_no_list_of_aborted_transactions_is_not_an_empty_one() -> None:
    async with (
        FakeBroker({ClientApi.FETCH: fetch_answer(aborted=None)}) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        assert (await fetch(cluster, "t", 0, 0)).aborted is None


@pytest.mark.parametrize("make_first_answer", [fetch_answer(6), fetch_answer(3), lambda _: CLOSE])
async def test_a_leader_that_moved_is_looked_up_and_asked(
    make_first_answer: Callable[[ReceivedRequest], Any],
) -> None:
    settings = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=2_000)
    async with (
        FakeBroker({ClientApi.FETCH: in_turn(make_first_answer, fetch_answer(0, b"a"))}) as broker,
        Cluster(broker.address, settings=settings) as cluster,
    ):
        await cluster.refresh(("t",))
        lookup_count_before = len(broker.of(ClientApi.METADATA))
        assert len((await fetch(cluster, "t", 0, 0)).records) == 1
        assert len(broker.of(ClientApi.METADATA)) == lookup_count_before + 1


@pytest.mark.parametrize(
    ("error", "error_class"), [(1, ClientError), (29, ClientError), (6, RetriableError)]
)
async def test_errors_say_why(error: int, error_class: type[ClientError]) -> None:
    async with (
        FakeBroker({ClientApi.FETCH: fetch_answer(error)}) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        with pytest.raises(ClientError) as error_info:
            await fetch(cluster, "t", 0, 5)
        assert type(error_info.value) is error_class
        assert error_info.value.error == ErrorCode(error)


async def test_an_error_of_the_whole_answer_counts() -> None:
    async with (
        FakeBroker(
            {
                ClientApi.FETCH: lambda request: request.answer(
                    error_code=-1, session_id=0, responses=()
                )
            }
        ) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        with pytest.raises(ClientError, match="UNKNOWN_SERVER_ERROR"):
            await fetch(cluster, "t", 0, 5)


# In a rack (KIP-392)

RACKS = ("a", "b", "c")
PARTITION = TopicPartition("orders", 0)


def run_in_racks(story: Callable[[VirtualCluster], Awaitable[None]]) -> None:
    options_with_selector = options(replica_selector_class=RACK_SELECTOR)
    run_cluster(story, cluster_options=msgspec.structs.replace(options_with_selector, racks=RACKS))


def test_a_reader_stays_at_the_follower_in_its_rack_while_that_answers() -> None:
    async def story(cluster: VirtualCluster) -> None:
        leader = cluster.leader(PARTITION)
        follower = next(broker_id for broker_id in (1, 2, 3) if broker_id != leader)
        near_replicas, far_replicas = (
            NearReplicas(RACKS[follower - 1]),
            NearReplicas(RACKS[leader - 1]),
        )
        async with cluster.client() as client:
            for reader in (near_replicas, far_replicas):
                assert reader.of(PARTITION) == NO_REPLICA
            follower_fetch_result = await fetch(
                client, "orders", 0, 0, near_replicas=near_replicas, max_wait_ms=0
            )
            assert follower_fetch_result.follower_id == near_replicas.of(PARTITION) == follower
            leader_fetch_result = await fetch(
                client, "orders", 0, 0, near_replicas=far_replicas, max_wait_ms=0
            )
            assert leader_fetch_result.follower_id == far_replicas.of(PARTITION) == NO_REPLICA
            await asyncio.sleep(PREFERENCE_MS / 1_000)
            assert near_replicas.of(PARTITION) == NO_REPLICA, "its leader is asked again after that"
            with pytest.raises(ClientError) as error_info:
                await fetch(client, "orders", 0, 99, near_replicas=far_replicas, max_wait_ms=0)
            assert error_info.value.error is ErrorCode.offset_out_of_range

    run_in_racks(story)


def test_a_follower_that_can_not_answer_is_left_for_the_leader() -> None:
    async def story(cluster: VirtualCluster) -> None:
        leader = cluster.leader(PARTITION)
        follower = next(broker_id for broker_id in (1, 2, 3) if broker_id != leader)
        near_replicas = NearReplicas(RACKS[follower - 1])
        async with cluster.client() as client:
            await fetch(client, "orders", 0, 0, near_replicas=near_replicas, max_wait_ms=0)
            await cluster.sim.kill_broker(BrokerId(follower))
            fetch_result = await fetch(
                client, "orders", 0, 0, near_replicas=near_replicas, max_wait_ms=0
            )
            assert (fetch_result.follower_id, near_replicas.of(PARTITION)) == (
                NO_REPLICA,
                NO_REPLICA,
            )

    run_in_racks(story)
