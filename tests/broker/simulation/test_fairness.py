"""What one client can take from the others, counted in requests and bytes: in virtual time it is
exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.raw_connection import API_VERSIONS, METADATA, WireClient
from tests.support.within_environment import within
from txnsim.metrics.requests import ApiMeter
from txnsim.runtime.loop_turns import REQUEST_NS
from txnsim.server._connection import FRAME_BYTES
from txnsim.server._listener import BrokerListener
from txnsim.server._outbox import PART_BYTES
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

FIRST = TopicPartition("orders", 0)
FETCH = 1
PER_TURN = 10_000_000 // REQUEST_NS
"""Requests that a turn bears where they take no time."""

Story = Callable[[VirtualCluster, WireClient, WireClient], Awaitable[None]]


def run(story: Story, **settings: Any) -> None:
    """Tell a story of an attacker and a neighbour at the broker that leads orders-0. What is sent
    at one moment arrives at one moment.
    """

    async def main(cluster: VirtualCluster) -> None:
        attacking_client = await open_wire(cluster)
        neighbouring_client = await open_wire(cluster)
        await story(cluster, attacking_client, neighbouring_client)
        await neighbouring_client.close()
        attacking_client.writer.transport.abort()

    run_cluster(main, latency_us=(100, 100), **settings)


async def open_wire(cluster: VirtualCluster) -> WireClient:
    broker = cluster.sim.metadata.image.brokers[cluster.leader(FIRST)]
    return await WireClient.open(broker.host, broker.port)


class Moment(ApiMeter):
    """Notes how many Metadata requests had been handled when its own API was asked."""

    def __init__(self, cluster: VirtualCluster) -> None:
        super().__init__(None)
        self._cluster = cluster
        self.ahead = -1

    def observe(self, *values: int) -> None:
        self.ahead = handled(self._cluster, METADATA)
        super().observe(*values)


async def ahead_of(cluster: VirtualCluster, neighbouring_client: WireClient) -> int:
    """How many Metadata requests are handled before the neighbour's ApiVersions, when all of them
    arrive at one moment.
    """
    moment = listener_of(cluster).meters[API_VERSIONS, 0] = Moment(cluster)
    neighbouring_client.send(
        neighbouring_client.frame(API_VERSIONS, 0, codec.request_class(API_VERSIONS, 0)())
    )
    await neighbouring_client.answer()
    return moment.ahead


def listener_of(cluster: VirtualCluster) -> BrokerListener:
    """The listener of the broker that leads orders-0."""
    leader = cluster.leader(FIRST)
    return next(
        listener for listener in cluster.sim.listeners if listener.broker.broker_id == leader
    )


def handled(cluster: VirtualCluster, api_key: int) -> int:
    """Requests of an API that this broker has handled so far."""
    meters = listener_of(cluster).meters
    return sum(sum(meter.total_counts) for (key, _), meter in meters.items() if key == api_key)


def fetch(wire: WireClient, *, max_wait_ms: int = 0) -> bytes:
    """Frame of a Fetch that reads orders-0 from its start."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
    message = message_from(
        codec.request_class(FETCH, 11),
        {
            "replica_id": -1,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 30,
            "topics": [{"topic": "orders", "partitions": [partition]}],
        },
    )
    return wire.frame(FETCH, 11, message)


@pytest.mark.slow
@within(run)
async def test_a_neighbour_waits_for_one_turn_of_a_client_that_pipelines(
    cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient, /
) -> None:
    count = 5_000
    attacking_client.send(b"".join(attacking_client.metadata() for _ in range(count)))
    assert 0 < await ahead_of(cluster, neighbouring_client) <= PER_TURN
    await answered(attacking_client, count)


@pytest.mark.slow
@within(run)
async def test_a_neighbour_waits_for_no_round_of_many_clients(
    cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient, /
) -> None:
    other_wires = [await open_wire(cluster) for _ in range(20)]
    for other_wire in other_wires:
        other_wire.send(b"".join(other_wire.metadata() for _ in range(500)))
    assert 0 < await ahead_of(cluster, neighbouring_client) <= PER_TURN
    for other_wire in other_wires:
        await answered(other_wire, 500)
        await other_wire.close()


async def answered(wire: WireClient, count: int) -> None:
    for number in range(1, count + 1):
        assert (await wire.answer())[0] == number


@pytest.mark.slow
@within(run)
async def test_requests_of_a_client_that_does_not_read_are_not_handled(
    cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient, /
) -> None:
    large_bytes = 900_000
    for _ in range(4):
        neighbouring_client.send(
            neighbouring_client.produce(FIRST, acks=-1, value=bytes(large_bytes))
        )
        await neighbouring_client.answer()
    attacking_client.writer.transport.pause_reading()
    attacking_client.send(b"".join(fetch(attacking_client) for _ in range(50)))
    await asyncio.sleep(5)
    assert handled(cluster, FETCH) <= 1
    attacking_client.writer.transport.resume_reading()
    for number in range(1, 51):
        correlation_id, message = await attacking_client.answer()
        assert correlation_id == number
        assert len(message.responses[0].partitions[0].records) > 4 * large_bytes


@within(run)
async def test_a_large_answer_waits_as_it_lies_in_the_log(
    cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient, /
) -> None:
    neighbouring_client.send(neighbouring_client.produce(FIRST, acks=-1, value=bytes(900_000)))
    await neighbouring_client.answer()
    attacking_client.writer.transport.pause_reading()
    attacking_client.send(fetch(attacking_client))
    await asyncio.sleep(5)
    listener = listener_of(cluster)
    buffered_bytes = [
        connection.server.get_write_buffer_size() for connection in cluster.env.net.connections
    ]
    assert 0 < max(buffered_bytes) <= PART_BYTES + 65_536
    assert listener.unread.total == 0, "records don't count"
    attacking_client.writer.transport.resume_reading()
    _, message = await attacking_client.answer()
    assert len(message.responses[0].partitions[0].records) > 900_000


@within(run, connection_queue_bytes=100_000)
async def test_empty_frames_fill_the_queue(
    cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient, /
) -> None:
    attacking_client.send(fetch(attacking_client, max_wait_ms=60_000))
    limit = 100_000 // FRAME_BYTES
    attacking_client.send(bytes(4 * limit))
    await asyncio.sleep(0.1)
    assert attacking_client.writer.transport.get_write_buffer_size() == 0
    attacking_client.send(bytes(4))
    await asyncio.sleep(0.1)
    attacking_client.send(bytes(4))
    await asyncio.sleep(0.1)
    assert attacking_client.writer.transport.get_write_buffer_size() == 4, "it is not read any more"
    neighbouring_client.send(neighbouring_client.produce(FIRST))
    await neighbouring_client.answer()


@pytest.mark.costly
@pytest.mark.slow
@within(run, queued_max_response_bytes=4_000_000)
async def test_unread_answers_of_all_clients_have_a_bound(
    cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient, /
) -> None:
    names = tuple(f"topic-{topic_number:0200}" for topic_number in range(5_000))
    other_wires = [await open_wire(cluster) for _ in range(8)]
    for other_wire in other_wires:
        other_wire.writer.transport.pause_reading()
        other_wire.send(metadata_of(other_wire, names))
    await asyncio.sleep(5)
    listener = listener_of(cluster)
    assert 0 < listener.unread.total <= 4_000_000
    assert 2 < len(listener.connections) < 2 + len(other_wires), "some of them had to go"
    for other_wire in other_wires:
        other_wire.writer.transport.abort()
    await asyncio.sleep(1)
    assert listener.unread.total == 0


def metadata_of(wire: WireClient, names: tuple[str, ...]) -> bytes:
    message = message_from(
        codec.request_class(METADATA, 4),
        {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False},
    )
    return wire.frame(METADATA, 4, message)


TOPIC_NAMES = [f"no-such-{number}" for number in range(3_000)]
LARGE: dict[str, tuple[int, int, dict[str, Any]]] = {
    "Metadata": (METADATA, 9, {"topics": [{"name": name} for name in TOPIC_NAMES]}),
    "DeleteTopics": (20, 6, {"topics": [{"name": name} for name in TOPIC_NAMES], "timeout": 1_000}),
    "DescribeUserScramCredentials": (50, 0, {"users": [{"name": name} for name in TOPIC_NAMES]}),
    "AlterUserScramCredentials": (
        *(51, 0),
        {
            "upsertions": [
                {
                    "name": n,
                    "mechanism": 1,
                    "iterations": 4096,
                    "salt": b"s",
                    "salted_password": b"p",
                }
                for n in TOPIC_NAMES
            ]
        },
    ),
    "CreateTopics": (
        *(19, 7),
        {
            "topics": [{"name": "wide", "num_partitions": 3_000, "replication_factor": 1}],
            "timeout": 1_000,
        },
    ),
    "DescribeTransactions": (65, 0, {"transactional_ids": TOPIC_NAMES}),
    "ListOffsets": (
        *(2, 6),
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": partition_index} for partition_index in range(3_000)
                    ],
                }
            ]
        },
    ),
    "Fetch": (
        *(1, 11),
        {
            "topics": [
                {
                    "topic": "t",
                    "partitions": [
                        {"partition": partition_index} for partition_index in range(3_000)
                    ],
                }
            ]
        },
    ),
}


@pytest.mark.parametrize("api", LARGE)
def test_others_come_to_their_turns_while_a_large_request_is_handled(api: str) -> None:
    api_key, version, values = LARGE[api]

    async def story(
        _cluster: VirtualCluster, attacking_client: WireClient, neighbouring_client: WireClient
    ) -> None:
        message = message_from(codec.request_class(api_key, version), values)
        attacking_client.send(
            attacking_client.frame(api_key, version, message) + attacking_client.metadata()
        )
        answers: list[str] = []

        async def note(wire: WireClient, name: str) -> None:
            await wire.answer()
            answers.append(name)

        large_task = asyncio.get_running_loop().create_task(note(attacking_client, "large"))
        for _ in range(20):  # one behind the other, at the moment at which the large one arrives
            neighbouring_client.send(
                neighbouring_client.frame(API_VERSIONS, 0, codec.request_class(API_VERSIONS, 0)())
            )
        for _ in range(20):
            await note(neighbouring_client, "small")
        await large_task
        assert answers.index("large") > 0
        assert (await attacking_client.answer())[0] == 2, "its next request waits for it"

    run(story)
