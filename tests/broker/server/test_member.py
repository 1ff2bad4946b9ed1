"""Brokers stop, die, start and are cut off; requests that they forward."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.support.broker_api import KEYS
from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.images import B1, B2, B3
from tests.support.waiting import alive, until
from tests.support.within_environment import within
from txnsim.api.registry import HANDLERS
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError, ErrorCode
from txnsim.releases.interbroker_versions import FORWARDED
from txnsim.runtime.trace import TraceLevel
from txnsim.server._connection import RETRY_TIMEOUT_MS
from txnsim.server.member import MemberLifeState
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

# Stop, kill, start and isolate brokers of a whole cluster, as a client and the metadata see it.


P0 = TopicPartition("orders", 0)


async def sends(cluster: VirtualCluster, record_value: bytes, *, name: str = "app") -> None:
    async with cluster.client(name) as client:
        producer = Producer(client)
        await producer.send("orders", 0, record_value)


@within(run_cluster)
async def test_a_stopped_broker_hands_its_leaders_over_and_comes_back_with_another_epoch(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    await sends(cluster, b"before")
    assert cluster.leader(P0) == 1
    broker_before = sim.metadata.image.brokers[B1]
    await sim.stop_broker(B1)
    assert sim.member(B1).state is MemberLifeState.DOWN
    assert alive(cluster) == [2, 3]
    assert cluster.leader(P0) != 1
    assert B1 not in sim.brokers
    await sends(cluster, b"meanwhile")
    await sim.start_broker(B1)
    broker_after = sim.metadata.image.brokers[B1]
    assert alive(cluster) == [1, 2, 3]
    assert (broker_after.host, broker_after.port) == (broker_before.host, broker_before.port)
    assert broker_after.epoch > broker_before.epoch
    async with cluster.client() as client:
        assert await values(client, "orders") == [b"before", b"meanwhile"]


@within(run_cluster)
async def test_a_killed_broker_is_fenced_when_its_session_ends_and_not_before(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    await sends(cluster, b"before")
    killed_ms = cluster.env.clock.monotonic_ms()
    await sim.kill_broker(B1)
    assert alive(cluster) == [1, 2, 3], "nobody knows yet"
    assert cluster.leader(P0) == 1
    await until(lambda: alive(cluster) == [2, 3], "[2, 3] are alive")
    assert 7_000 <= cluster.env.clock.monotonic_ms() - killed_ms <= 9_200
    assert cluster.leader(P0) != 1
    await sim.start_broker(B1)
    assert alive(cluster) == [1, 2, 3]


@within(run_cluster)
async def test_a_quick_restart_waits_until_the_old_session_is_over(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    started_ms = cluster.env.clock.monotonic_ms()
    await sim.kill_broker(B1)
    await sim.start_broker(B1)
    took_ms = cluster.env.clock.monotonic_ms() - started_ms
    assert 7_000 <= took_ms <= 13_000
    assert alive(cluster) == [1, 2, 3]


@within(run_cluster)
async def test_an_isolated_broker_is_fenced_and_hears_of_it_after_the_heal(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    zombie_broker = sim.brokers[B1]
    sim.isolate(B1)
    assert sim.is_isolated(B1)
    await until(lambda: alive(cluster) == [2, 3], "[2, 3] are alive")
    assert cluster.leader(P0) != 1
    partition = zombie_broker.image.partition(P0)
    assert partition is not None
    assert partition.leader == 1, "it goes on with what it knows"
    assert zombie_broker.image.is_alive(B1)
    sim.heal(B1)
    assert not sim.is_isolated(B1)
    assert zombie_broker.image is sim.metadata.image
    await until(lambda: alive(cluster) == [1, 2, 3], "[1, 2, 3] are alive")
    assert sim.brokers[B1] is zombie_broker, "it is the same incarnation"


@within(run_cluster)
async def test_clients_are_in_a_black_hole_while_they_are_cut_off_too(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    async with cluster.client() as client:
        producer = Producer(client)
        await producer.send("orders", 0, b"before")
        sim.isolate(B1, from_clients=True)
        sending_future = producer.send("orders", 0, b"late")
        await asyncio.sleep(1)
        assert not sending_future.done()
        sim.heal(B1)
        await sending_future
        assert await values(client, "orders") == [b"before", b"late"]


@within(run_cluster)
async def test_a_broker_killed_while_it_starts_or_stops_ends_both(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    stopping_task = asyncio.get_running_loop().create_task(sim.stop_broker(B1))
    await asyncio.sleep(0)
    assert sim.member(B1).state is MemberLifeState.STOPPING
    await sim.kill_broker(B1)
    with pytest.raises(ConfigError, match="killed while it stopped"):
        await stopping_task
    starting_task = asyncio.get_running_loop().create_task(sim.start_broker(B1))
    await asyncio.sleep(0)
    assert sim.member(B1).state is MemberLifeState.STARTING
    await sim.kill_broker(B1)
    with pytest.raises(ConfigError, match="killed while it started"):
        await starting_task
    cancelled_task = asyncio.get_running_loop().create_task(sim.start_broker(B1))
    await asyncio.sleep(0)
    cancelled_task.cancel()
    await asyncio.wait((cancelled_task,))
    assert sim.member(B1).state is MemberLifeState.DOWN
    await sim.start_broker(B1)
    assert sim.member(B1).state is MemberLifeState.RUNNING


@within(run_cluster)
async def test_a_controlled_shutdown_that_nobody_grants_ends_after_five_minutes(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    sim.isolate(B1)
    started_ms = cluster.env.clock.monotonic_ms()
    await sim.stop_broker(B1)
    assert cluster.env.clock.monotonic_ms() - started_ms == 300_000


@within(run_cluster)
async def test_what_makes_no_sense_is_refused_with_a_way_out(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    with pytest.raises(ConfigError, match="no broker 9, only 1, 2, 3"):
        await sim.kill_broker(BrokerId(9))
    with pytest.raises(ConfigError, match="while it is running: stop or kill it first"):
        await sim.start_broker(B1)
    await sim.kill_broker(B1)
    with pytest.raises(ConfigError, match="while it is down: start it first"):
        await sim.kill_broker(B1)
    with pytest.raises(ConfigError, match="while it is down"):
        await sim.stop_broker(B1)


@within(run_cluster, brokers=1)
async def test_the_only_broker_can_stop_and_start(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    await sends(cluster, b"before")
    await sim.stop_broker(B1)
    partition = sim.metadata.image.partition(P0)
    assert partition is not None
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))
    await sim.start_broker(B1)
    assert cluster.leader(P0) == 1
    async with cluster.client() as client:
        assert await values(client, "orders") == [b"before"]


@pytest.mark.slow
@within(run_cluster)
async def test_sixty_kills_and_starts_leave_no_task_behind(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    await sends(cluster, b"before")

    async def round_trip(number: int) -> None:
        victim_id = (B1, B2, B3)[number % 3]
        if number % 4:
            await sim.kill_broker(victim_id, lose_unflushed=number % 8 == 1)
            await asyncio.sleep(number % 20)
        else:
            await sim.stop_broker(victim_id)
        await sim.start_broker(victim_id)

    await round_trip(0)
    await asyncio.sleep(60)
    task_count_before = len(asyncio.all_tasks())
    for number in range(1, 61):
        await round_trip(number)
    await asyncio.sleep(60)
    assert len(asyncio.all_tasks()) <= task_count_before
    assert alive(cluster) == [1, 2, 3]
    assert cluster.env.network.in_flight <= 10  # type: ignore[attr-defined]


@pytest.mark.slow
@within(run_cluster)
async def test_a_client_hears_of_errors_and_not_of_silence_while_no_broker_is_left(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    for broker_id in (B1, B2):
        await sim.kill_broker(broker_id)
    await until(lambda: alive(cluster) == [3], "[3] are alive")
    async with cluster.client() as client:
        await sim.kill_broker(B3)
        with pytest.raises((ClientError, OSError)) as error_info:
            await Producer(client, transactional_id="tx").init_transactions()
        assert getattr(error_info.value, "error", None) is not ErrorCode.unknown_server_error


def test_a_broken_machine_tells_the_trace_what_its_logs_have_lost() -> None:
    async def main(cluster: VirtualCluster) -> list[tuple[str, object]]:
        first_partition = TopicPartition("orders", 0)
        async with cluster.client() as client, Producer(client) as producer:
            await producer.send("orders", 0, b"v")
        leader = cluster.leader(first_partition)
        await cluster.sim.kill_broker(leader, lose_unflushed=True)
        tracer = cluster.env.tracer
        return [
            (tracer.nodes[event.n].removeprefix(f"broker/{leader}/"), event.d)
            for event in tracer.events()
            if event.k == "log.truncate"
        ]

    assert run_cluster(main, trace_level=TraceLevel.FULL) == [
        ("log/orders-0", {"tp": "orders-0", "epoch": 0, "to": 0})
    ]


def test_what_becomes_of_a_broker_is_in_the_trace() -> None:
    async def main(cluster: VirtualCluster) -> list[tuple[str, str]]:
        sim = cluster.sim
        await sim.stop_broker(B1)
        await sim.start_broker(B1)
        await sim.kill_broker(B2)
        await sim.kill_broker(B3, lose_unflushed=True)
        tracer = cluster.env.tracer
        lines: list[bytes] = []
        tracer.export(lines.append)
        events = [msgspec.json.decode(line) for line in b"".join(lines).splitlines()]
        return [
            (event["k"], event["d"].get("reason", ""))
            for event in events
            if event["k"] in ("node.up", "node.down")
        ]

    assert run_cluster(main, trace_level=TraceLevel.FULL) == [
        *[("node.up", "")] * 3,
        ("node.down", "stopped"),
        ("node.up", ""),
        ("node.down", "killed"),
        ("node.down", "machine lost"),
    ]


# What a broker forwards waits while the controller can't be reached, and times out.


CREATE = {"topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}]}


async def ask(
    cluster: VirtualCluster, api: str, version: int, **request_fields: Any
) -> asyncio.Future[Any]:
    """Ask broker 1 over a connection of its own; the answer comes later."""
    loop = asyncio.get_running_loop()
    answer_future: asyncio.Future[Any] = loop.create_future()
    api_key = KEYS[api]

    class Client(asyncio.Protocol):
        def data_received(self, frame_bytes: bytes) -> None:
            answer_future.set_result(codec.read_response(api_key, version, frame_bytes[4:])[1])

    broker = cluster.sim.metadata.image.brokers[B1]
    transport = await cluster.env.network.connect(broker.host, broker.port, Client)
    message = message_from(codec.request_class(api_key, version), request_fields)
    transport.write(codec.encode_request(api_key, version, 1, "app", message))
    return answer_future


@pytest.mark.parametrize("handler_key", sorted(FORWARDED & HANDLERS.keys()))
@within(run_cluster)
async def test_all_that_is_forwarded_waits_for_the_controller(
    cluster: VirtualCluster, handler_key: int
) -> None:
    cluster.sim.isolate(B1)
    answer_future = await ask(
        cluster, HANDLERS[handler_key].name, HANDLERS[handler_key].versions[1]
    )
    await asyncio.sleep(RETRY_TIMEOUT_MS / 1_000 - 1)
    assert not answer_future.done()
    await answer_future


@pytest.mark.parametrize("can_heal", [True, False])
@within(run_cluster)
async def test_a_request_waits_for_the_controller_and_times_out_without_it(
    cluster: VirtualCluster, can_heal: bool
) -> None:
    cluster.sim.isolate(B1)
    answer_future = await ask(cluster, "CreateTopics", 7, **CREATE)
    await asyncio.sleep(RETRY_TIMEOUT_MS / 1_000 - 1)
    assert not answer_future.done()
    assert "made" not in cluster.sim.metadata.image.topics
    if can_heal:
        cluster.sim.heal(B1)
    (topic,) = (await answer_future).topics
    expected_error = ErrorCode.none if can_heal else ErrorCode.request_timed_out
    assert topic.error_code is expected_error
    assert ("made" in cluster.sim.metadata.image.topics) is can_heal


@within(run_cluster)
async def test_a_broker_that_dies_meanwhile_answers_nothing(cluster: VirtualCluster) -> None:
    cluster.sim.isolate(B1)
    answer_future = await ask(cluster, "CreateTopics", 7, **CREATE)
    await asyncio.sleep(1)
    await cluster.sim.kill_broker(B1)
    cluster.sim.heal(B1)
    await asyncio.sleep(120)
    assert not answer_future.done()
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
    coordinator = await (await ask(cluster, "FindCoordinator", 1, key="tx", key_type=1))
    assert coordinator.error_code is ErrorCode.coordinator_not_available
    assert "made" not in cluster.sim.metadata.image.topics
    assert TRANSACTION_STATE_TOPIC not in cluster.sim.metadata.image.topics
