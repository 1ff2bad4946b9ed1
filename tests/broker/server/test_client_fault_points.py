"""What faults do to a client's requests, answers and connection, and that nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.broker.server import test_connection
from tests.broker.server.test_connection import Story, count_records, first_partition, open_wire
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.raw_connection import WireClient
from tests.support.within_environment import within
from txnsim.errors import ErrorCode
from txnsim.faults.actions import (
    Corrupt,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Fail,
    Hold,
    Pass,
    Reorder,
    Slice,
    Stall,
    Throttle,
)
from txnsim.faults.interception import DamagedPart
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

E = ErrorCode
OPEN = FaultPoint.CONNECTION_OPEN
REQUEST, RESPONSE = FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE
FETCH, FETCH_VERSION = 1, 11
BYTES, CRC, LENGTH = DamagedPart.BYTES, DamagedPart.CRC, DamagedPart.LENGTH


class StoryStage:
    """Where the stories are told: ``tests/lab/proxy/test_proxied_request.py`` tells them through a
    fault proxy, as a fault means the same there.
    """

    run: Callable[..., Any] = run_cluster


def run(story: Story, **config_changes: Any) -> None:
    test_connection.run(story, told_on=StoryStage.run, **config_changes)


def run_alone(main: Callable[[VirtualCluster], Awaitable[None]], **config_changes: Any) -> None:
    StoryStage.run(main, **config_changes)


def error_of(message: Any) -> ErrorCode:
    error: ErrorCode = message.responses[0].partition_responses[0].error_code
    return error


def fetch(wire: WireClient, topic_partition: TopicPartition, version: int = FETCH_VERSION) -> bytes:
    """Frame of a Fetch that begins a session and reads the partition from its start."""
    partition = {"partition": topic_partition.partition, "partition_max_bytes": 1_000_000}
    topic = {"topic": topic_partition.topic, "partitions": [partition]}
    values = {"replica_id": -1, "max_bytes": 1_000_000, "session_epoch": 0, "topics": [topic]}
    return wire.frame(FETCH, version, message_from(codec.request_class(FETCH, version), values))


# Duplicates


@within(run)
async def test_a_duplicated_request_is_handled_again_and_answered_once(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Duplicate(times=2), REQUEST, client_id="wire", limit=1)
    wire.send(wire.produce(first_partition()) + wire.metadata())
    assert [(await wire.answer())[0] for _ in range(2)] == [1, 2]
    assert await count_records(cluster) == 3


@within(run)
async def test_a_copy_can_be_held_by_another_rule_and_arrives_late(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Duplicate(), REQUEST, client_id="wire", api="Produce", limit=1)
    cluster.arm(Hold(), REQUEST, "copy", client_id="wire", api="Produce", nth=2, limit=1)
    wire.send(wire.produce(first_partition()))
    assert (await wire.answer())[0] == 1
    await cluster.wait_until_struck("copy")
    assert await count_records(cluster) == 1
    await wire.close()
    assert cluster.injector.release("copy") == 1
    await asyncio.sleep(1)
    assert await count_records(cluster) == 2


@pytest.mark.parametrize("action", [Drop(), Disconnect(), Fail(error="UNKNOWN_SERVER_ERROR")])
@within(run)
async def test_a_copy_can_be_lost(
    cluster: VirtualCluster, wire: WireClient, /, action: Any
) -> None:
    cluster.arm(Duplicate(), REQUEST, client_id="wire", limit=1)
    cluster.arm(action, REQUEST, "copy", client_id="wire", nth=2, limit=1)
    wire.send(wire.produce(first_partition()) + wire.metadata())
    assert [(await wire.answer())[0] for _ in range(2)] == [1, 2]
    assert await count_records(cluster) == 1


# Throttling


@pytest.mark.parametrize("point", [REQUEST, RESPONSE])
@within(run)
async def test_a_throttled_client_is_answered_at_once_and_then_not_heard(
    cluster: VirtualCluster, wire: WireClient, /, point: FaultPoint
) -> None:
    cluster.arm(Throttle(throttle_ms=5_000), point, client_id="wire", limit=1)
    clock = cluster.env.clock
    started_ms = clock.monotonic_ms()
    wire.send(wire.produce(first_partition()) + wire.metadata())
    number, message = await wire.answer()
    assert (number, error_of(message)) == (1, E.none)
    assert message.throttle_time.total_seconds() == 5
    assert clock.monotonic_ms() - started_ms < 1_000
    assert (await wire.answer())[0] == 2
    assert clock.monotonic_ms() - started_ms >= 5_000
    assert await count_records(cluster) == 1


@within(run)
async def test_an_answer_that_was_prepared_is_given_its_throttle_time(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Throttle(throttle_ms=70), REQUEST, client_id="wire", api="EndTxn")
    values = {"transactional_id": "nobody", "producer_id": 1, "committed": True}
    wire.send(wire.frame(26, 3, message_from(codec.request_class(26, 3), values)))
    _, message = await wire.answer()
    assert message.throttle_time.total_seconds() == 0.07
    assert message.error_code != E.none


@within(run)
async def test_a_throttled_fetch_is_answered_without_partitions(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.produce(first_partition(), acks=-1))
    await wire.answer()
    cluster.arm(Throttle(throttle_ms=50), RESPONSE, client_id="wire", api="Fetch", limit=1)
    wire.send(fetch(wire, first_partition()) + fetch(wire, first_partition()))
    _, throttled = await wire.answer()
    assert throttled.responses == ()
    assert throttled.throttle_time.total_seconds() == 0.05
    _, message = await wire.answer()
    assert message.responses[0].partitions[0].records


@within(run)
async def test_what_has_no_field_or_no_answer_mutes_all_the_same(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Throttle(throttle_ms=1_000), REQUEST, client_id="wire", limit=2)
    started_ms = cluster.env.clock.monotonic_ms()
    wire.send(wire.produce(first_partition(), acks=0) + wire.metadata() + wire.metadata())
    assert [(await wire.answer())[0] for _ in range(2)] == [2, 3]
    assert cluster.env.clock.monotonic_ms() - started_ms >= 2_000


# Damage


@within(run)
async def test_a_request_that_can_not_be_read_any_more_closes_its_connection(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Corrupt(what=LENGTH), REQUEST, client_id="wire", limit=1)
    wire.send(wire.metadata() + wire.metadata())
    assert await wire.is_closed_by_broker()


@within(run)
async def test_a_damaged_batch_is_refused_and_the_connection_goes_on(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Corrupt(what=CRC), REQUEST, client_id="wire", api="Produce", limit=1)
    wire.send(wire.produce(first_partition()) + wire.produce(first_partition()))
    assert error_of((await wire.answer())[1]) == E.corrupt_message
    assert error_of((await wire.answer())[1]) == E.none
    assert await count_records(cluster) == 1


@pytest.mark.parametrize("chance", range(1, 9))
def test_a_request_with_random_damage_disturbs_nobody(chance: int) -> None:
    """After the damaged request the broker still serves other clients."""

    async def story(cluster: VirtualCluster, wire: WireClient) -> None:
        cluster.arm(Corrupt(what=BYTES), REQUEST, client_id="wire", limit=1)
        wire.send(wire.produce(first_partition(), value=bytes(100)))
        await cluster.wait_until_struck()
        await asyncio.sleep(1)
        other_wire = await open_wire(cluster)
        other_wire.send(other_wire.metadata())
        assert (await other_wire.answer())[0] == 1
        await other_wire.close()

    run(story, seed=chance)


@within(run)
async def test_a_damaged_request_may_have_become_one_of_the_future(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    del cluster
    wire.expect(18, 0)
    # An ApiVersions request of version 0x7f00 cut down to its header.
    wire.send(b"\x00\x00\x00\x0b" + b"\x00\x12\x7f\x00" + b"\0\0\0\1" + b"\xff\xff" + b"\0")
    assert (await wire.answer())[1].error_code == E.unsupported_version


@within(run)
async def test_a_damaged_fetched_batch_has_a_wrong_crc(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.produce(first_partition(), acks=-1) + fetch(wire, first_partition()))
    await wire.answer()
    _, message = await wire.answer()
    sound_batch = bytes(message.responses[0].partitions[0].records)
    cluster.arm(Corrupt(what=CRC), RESPONSE, client_id="wire", api="Fetch", limit=1)
    wire.send(fetch(wire, TopicPartition("orders", 99)))
    await wire.answer()
    assert cluster.injector.rules()[0].matched == 0, "an answer without a batch is none"
    wire.send(fetch(wire, first_partition()))
    _, message = await wire.answer()
    broken_batch = bytes(message.responses[0].partitions[0].records)
    assert next(
        position
        for position in range(len(sound_batch))
        if sound_batch[position] != broken_batch[position]
    ) in range(17, 21)
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 5


@within(run)
async def test_a_damaged_length_of_an_answer_says_too_little(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Corrupt(what=LENGTH), RESPONSE, client_id="wire", limit=1)
    wire.send(wire.metadata())
    told_length = int.from_bytes(await wire.reader.readexactly(4), "big")
    following_bytes = await wire.reader.read(100_000)
    assert told_length < len(following_bytes)


# Connections that break


@pytest.mark.parametrize(("point", "record_count"), [(REQUEST, 0), (RESPONSE, 1)])
@within(run)
async def test_a_connection_breaks_before_or_after_the_effect(
    cluster: VirtualCluster, wire: WireClient, /, point: FaultPoint, record_count: int
) -> None:
    cluster.arm(Disconnect(), point, client_id="wire", api="Produce", limit=1)
    wire.send(wire.metadata() + wire.produce(first_partition()) + wire.produce(first_partition()))
    assert (await wire.answer())[0] == 1, "what was answered before arrives"
    assert await wire.is_closed_by_broker()
    assert await count_records(cluster) == record_count


@within(run)
async def test_a_reset_ends_the_connection_with_an_error(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Disconnect(reset=True), RESPONSE, client_id="reset", limit=1)
    other_wire = await open_wire(cluster, client_id="reset")
    other_wire.send(other_wire.produce(first_partition()))
    with pytest.raises(ConnectionResetError):
        await other_wire.reader.read(1)
    with pytest.raises(ConnectionResetError):
        await other_wire.close()
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 1, "nobody else notices"
    assert await count_records(cluster) == 1


@within(run)
async def test_an_answer_in_slices_arrives_whole_and_late(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Slice(bytes=20, every_ms=100), RESPONSE, client_id="wire", api="Metadata", limit=1)
    started_ms = cluster.env.clock.monotonic_ms()
    wire.send(wire.metadata() + wire.produce(first_partition()))
    head = await wire.reader.readexactly(20)
    assert cluster.env.clock.monotonic_ms() - started_ms < 100
    missing = int.from_bytes(head[:4], "big") + 4 - len(head)
    await wire.reader.readexactly(missing)
    pieces_later = -(-missing // 20)
    took_ms = cluster.env.clock.monotonic_ms() - started_ms
    assert pieces_later * 100 <= took_ms < pieces_later * 100 + 100
    await wire.answer()
    assert await count_records(cluster) == 1, "what was sent behind it waits for its last piece"


@within(run)
async def test_a_throttled_answer_comes_in_slices_too(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Throttle(throttle_ms=5), REQUEST, "slow", client_id="wire", limit=1)
    cluster.arm(Slice(bytes=20, every_ms=100), RESPONSE, client_id="wire", limit=1)
    started_ms = cluster.env.clock.monotonic_ms()
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 1
    assert cluster.env.clock.monotonic_ms() - started_ms >= 100
    assert cluster.injector.never_struck() == ()


@within(run)
async def test_a_lost_answer_leaves_the_effect_and_a_silent_connection(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(DropAnswer(), REQUEST, client_id="wire", limit=1)
    wire.send(wire.produce(first_partition()) + wire.metadata())
    assert await wire.silent_for(60)
    assert await count_records(cluster) == 1


# Order and standstill


@within(run)
async def test_a_reordered_request_waits_for_those_of_other_connections(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    other_wire = await open_wire(cluster, client_id="other")
    cluster.arm(Reorder(behind=2), REQUEST, api="Produce", limit=1)
    wire.send(wire.produce(first_partition(), value=b"first sent"))
    await cluster.wait_until_struck()
    for _ in range(2):
        assert await wire.silent_for(0.01)
        other_wire.send(other_wire.produce(first_partition(), value=b"later"))
        assert (await other_wire.answer())[1].responses[0].partition_responses
    _, message = await wire.answer()
    assert message.responses[0].partition_responses[0].base_offset == 2
    await other_wire.close()


@pytest.mark.parametrize("point", [REQUEST, RESPONSE])
@within(run)
async def test_a_stalled_connection_stands_still_and_no_other(
    cluster: VirtualCluster, wire: WireClient, /, point: FaultPoint
) -> None:
    cluster.arm(Stall(stall_ms=3_000), point, client_id="wire", limit=1)
    twin_client = await open_wire(cluster, client_id="wire")
    started_ms = cluster.env.clock.monotonic_ms()
    wire.send(wire.metadata() + wire.metadata())
    await cluster.wait_until_struck()
    twin_client.send(twin_client.metadata())
    assert (await twin_client.answer())[0] == 1
    assert cluster.env.clock.monotonic_ms() - started_ms < 1_000
    assert [(await wire.answer())[0] for _ in range(2)] == [1, 2]
    assert cluster.env.clock.monotonic_ms() - started_ms >= 3_000
    await twin_client.close()


# Connections that open


@pytest.mark.parametrize("action", [Hold(), Delay(delay_ms=2_000), Reorder(behind=1)])
@within(run)
async def test_a_new_connection_can_be_made_to_wait(
    cluster: VirtualCluster, wire: WireClient, /, action: Any
) -> None:
    cluster.arm(action, OPEN, broker=int(cluster.leader(first_partition())), limit=1)
    late_wire = await open_wire(cluster)
    late_wire.send(late_wire.metadata())
    assert await late_wire.silent_for(1)
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 1, "those that are open go on"
    if isinstance(action, Hold):
        cluster.injector.release("f")
    elif isinstance(action, Reorder):
        await (await open_wire(cluster)).close()
    assert (await late_wire.answer())[0] == 1
    await late_wire.close()


@within(run)
async def test_a_new_connection_can_be_closed_or_never_heard(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    broker = int(cluster.leader(first_partition()))
    cluster.arm(Disconnect(), OPEN, "refused", broker=broker, limit=1)
    refused_wire = await open_wire(cluster)
    assert await refused_wire.is_closed_by_broker()
    cluster.arm(Drop(), OPEN, "deaf", broker=broker, limit=1)
    deaf_client = await open_wire(cluster)
    deaf_client.send(deaf_client.metadata())
    assert await deaf_client.silent_for(60)
    cluster.arm(Pass(), OPEN, "seen", broker=broker)
    served_wire = await open_wire(cluster)
    served_wire.send(served_wire.metadata() + wire.metadata())
    assert (await served_wire.answer())[0] == 1
    assert cluster.injector.never_struck() == ()
    for client_wire in (refused_wire, deaf_client, served_wire):
        await client_wire.close()


@within(run_alone)
async def test_a_broker_that_is_gone_handles_no_copy(cluster: VirtualCluster) -> None:
    wire = await open_wire(cluster)
    cluster.arm(Duplicate(), REQUEST, client_id="wire", limit=1)
    cluster.arm(Hold(), REQUEST, "copy", client_id="wire", nth=2, limit=1)
    wire.send(wire.produce(first_partition()))
    await wire.answer()
    await cluster.wait_until_struck("copy")
    leader = cluster.leader(first_partition())
    log = cluster.sim.brokers[leader].replicas.hosted[first_partition()]
    await cluster.sim.kill_broker(leader)
    assert cluster.injector.release("copy") == 1
    await asyncio.sleep(1)
    assert log.log_end_offset == 1
    await wire.close()
