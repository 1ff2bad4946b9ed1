"""Dead letters of share groups (KIP-1191): what is written where, and what is lost.

What a real broker writes is in ``clients/share/``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.broker_api import Api, batch, produce
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.share_members import ShareMember, errors, fill
from tests.support.within_environment import within
from txnsim.controller.controller import TopicToCreate
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import SHARE_VERSION
from txnsim.share.commands import RecordState
from txnsim.types import TopicPartition
from txnsim.wire.records import Record, read_records

ORDERS_0 = TopicPartition("orders", 0)
LETTERS = TopicPartition("dlq.orders", 0)


async def member_of(
    cluster: VirtualCluster, *, topic: dict[str, str] | None = None, **configs: str
) -> ShareMember:
    """A member of a group with dead letters; the topic for them has these configs."""
    metadata = cluster.sim.metadata
    if topic is not None:
        group_configs = {"errors.deadletterqueue.group.enable": "true", **topic}
        metadata.create_topic(
            TopicToCreate(name=LETTERS.topic, partition_count=2, configs=group_configs)
        )
    metadata.publish(
        metadata.image.with_group_configs(
            "g",
            {
                "errors.deadletterqueue.topic.name": LETTERS.topic,
                "errors.deadletterqueue.copy.record.enable": "true",
                **{
                    config_name.replace("_", "."): config_value
                    for config_name, config_value in configs.items()
                },
            },
            keeps_empty=True,
        )
    )
    member = ShareMember(Api(cluster.sim, cluster.leader(ORDERS_0)))
    await member.initialize()
    return member


def letters(cluster: VirtualCluster, partition: int = 0) -> list[list[Record]]:
    """The records of the dead letter topic, batch by batch."""
    topic_partition = TopicPartition(LETTERS.topic, partition)
    if topic_partition.topic not in cluster.sim.metadata.image.topics:
        return []
    log = cluster.sim.brokers[cluster.leader(topic_partition)].replicas.led[topic_partition]
    return [read_records(batch) for batch in log.batches()]


def error_headers(record: Record) -> dict[str, str]:
    """The values of a dead letter's ``__dlq.errors.`` headers, by the rest of their names."""
    return {
        name.removeprefix("__dlq.errors."): (header_value or b"").decode()
        for name, header_value in record.headers
    }


async def letters_after(cluster: VirtualCluster, count: int, *, after_s: int = 10) -> list[Record]:
    """Wait some time; return all dead letters, which must be ``count``."""
    await asyncio.sleep(after_s)
    records = [record for partition_records in letters(cluster) for record in partition_records]
    assert len(records) == count
    return records


def states(member: ShareMember) -> list[tuple[int, int, str]]:
    share_partition = member.api.broker.share_fetching.shares.find(member.key())
    assert share_partition is not None
    return [
        (batch.first_offset, batch.last_offset, batch.state.name)
        for batch in share_partition.in_flight_ranges()
    ]


@within(run_cluster, brokers=1)
async def test_a_rejected_record_is_copied_with_its_origin(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={})
    await fill(member.api, 3)
    assert await member.get() == "0-2:1"
    assert errors(await member.acknowledge("0-2:3,1,3")) == {0: "none"}
    first_letter_record, second_letter_record = await letters_after(cluster, 2)
    assert (first_letter_record.key, first_letter_record.value) == (b"k", b"v")
    assert error_headers(first_letter_record) == {
        "topic": "orders",
        "partition": "0",
        "offset": "0",
        "group": "g",
        "delivery.count": "1",
        "message": "Offset rejected by client.",
    }
    assert error_headers(second_letter_record)["offset"] == "2"
    meter = member.api.broker.share_fetching.shares.meter
    assert (meter.letters_sent, meter.letters_written, meter.letters_failed) == (1, 2, 0)


@within(run_cluster, brokers=1)
async def test_without_copies_a_letter_has_headers_alone(cluster: VirtualCluster) -> None:
    off = {"errors_deadletterqueue_copy_record_enable": "false"}
    member = await member_of(cluster, topic={}, **off)
    await fill(member.api, 2)
    await member.get()
    await member.acknowledge("0-1:3")
    dead_letters = await letters_after(cluster, 2)
    assert [(letter_record.key, letter_record.value) for letter_record in dead_letters] == [
        (None, None)
    ] * 2
    assert len(letters(cluster)) == 1


@within(run_cluster, brokers=1)
async def test_what_was_delivered_too_often_is_copied(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={}, share_delivery_count_limit="2")
    await fill(member.api, 1)
    for _ in range(2):
        await member.get()
        await member.acknowledge("0-0:2")
    (letter_record,) = await letters_after(cluster, 1)
    assert (
        error_headers(letter_record)["message"] == "Offset delivery count exceeded the threshold."
    )
    assert error_headers(letter_record)["delivery.count"] == "2"


@within(run_cluster, brokers=3)
async def test_the_partition_follows_from_that_of_the_source(cluster: VirtualCluster) -> None:
    """This holds also where another broker leads the dead letter topic's partition."""
    member = await member_of(cluster, topic={})
    topic_partition = TopicPartition("orders", 1)
    member.api = Api(cluster.sim, cluster.leader(topic_partition))
    await member.initialize(1)
    await fill(member.api, 1, partition=1)
    await member.fetch(partitions=(1,), max_wait=2_000)
    await member.fetch({1: ["0-0:3"]}, partitions=())
    assert await letters_after(cluster, 0) == []
    assert len(letters(cluster, 1)) == 1


@pytest.mark.parametrize(
    "configs",
    [
        {"errors.deadletterqueue.group.enable": "false"},
        None,
    ],
    ids=["disabled", "missing"],
)
def test_a_topic_that_takes_none_loses_them(configs: dict[str, str] | None) -> None:
    @within(run_cluster, brokers=1)
    async def play(cluster: VirtualCluster) -> None:
        member = await member_of(cluster, topic=configs)
        await fill(member.api, 2)
        await member.get()
        await member.acknowledge("0-1:3,1")
        await asyncio.sleep(5)
        assert letters(cluster) == []
        assert states(member) == []

    play()


@within(run_cluster, brokers=1)
async def test_a_name_without_the_prefix_loses_them(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={}, errors_deadletterqueue_topic_name="orders")
    await fill(member.api, 1)
    await member.get()
    await member.acknowledge("0-0:3")
    await asyncio.sleep(5)
    assert letters(cluster) == []


@within(run_cluster, brokers=1, errors_deadletterqueue_auto_create_topics_enable=True)
async def test_a_broker_may_make_the_topic(cluster: VirtualCluster) -> None:
    member = await member_of(cluster)
    await fill(member.api, 1)
    await member.get()
    await member.acknowledge("0-0:3")
    await letters_after(cluster, 1)
    topic = cluster.sim.metadata.image.topics[LETTERS.topic]
    assert dict(topic.configs) == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }


@within(run_cluster, brokers=1)
async def test_level_1_of_share_version_has_none(cluster: VirtualCluster) -> None:
    metadata = cluster.sim.metadata
    image = metadata.image
    metadata.publish(image._next_image(features={**image.features, SHARE_VERSION: 1}))
    member = await member_of(cluster, topic={})
    await fill(member.api, 1)
    await member.get()
    await member.acknowledge("0-0:3")
    await asyncio.sleep(2)
    assert letters(cluster) == []


@within(run_cluster, brokers=1)
async def test_batches_are_no_larger_than_the_topic_takes(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={"max.message.bytes": "700"})
    await fill(member.api, 10)
    await member.get()
    await member.acknowledge("0-9:3")
    dead_letters = await letters_after(cluster, 10)
    assert [error_headers(letter_record)["offset"] for letter_record in dead_letters] == [
        str(offset) for offset in range(10)
    ]
    assert len(letters(cluster)) > 2


@within(run_cluster, brokers=1)
async def test_many_ranges_go_together(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={})
    await fill(member.api, 100, 100)
    await member.get()
    types = ",".join("3" if offset % 2 else "1" for offset in range(200))
    assert errors(await member.acknowledge(f"0-199:{types}")) == {0: "none"}
    dead_letters = await letters_after(cluster, 100)
    assert [error_headers(letter_record)["offset"] for letter_record in dead_letters] == [
        str(offset) for offset in range(1, 200, 2)
    ]
    assert {letter_record.value for letter_record in dead_letters} == {b"v"}
    assert len(letters(cluster)) == 1
    assert states(member) == []


@within(run_cluster, brokers=1)
async def test_what_is_too_large_takes_no_other_along(cluster: VirtualCluster) -> None:
    """The range of the too large record is lost; the next range is not."""
    member = await member_of(cluster, topic={"max.message.bytes": "400"})
    for size in (10, 300, 10, 10):
        await member.api.ask("Produce", 8, **produce("orders", batch(b"v" * size)))
    await member.get(batch_size=1)
    assert errors(await member.acknowledge("0-3:3,3,1,3")) == {0: "none"}
    dead_letters = await letters_after(cluster, 2)
    assert [error_headers(letter_record)["offset"] for letter_record in dead_letters] == ["0", "3"]


@within(run_cluster, brokers=1)
async def test_a_large_record_is_told_without_its_value(cluster: VirtualCluster) -> None:
    """This holds also for a record that is large only after decompression."""
    member = await member_of(cluster, topic={"max.message.bytes": "400"})
    for size, compression in ((500, 0), (20, 0), (5_000, 1)):
        records = batch(b"v" * size, compression=compression)
        await member.api.ask("Produce", 8, **produce("orders", records))
    await member.get()
    await member.acknowledge("0-2:3")
    dead_letters = await letters_after(cluster, 3)
    assert [letter_record.value for letter_record in dead_letters] == [None, b"v" * 20, None]


@within(run_cluster, brokers=1)
async def test_what_a_topic_never_takes_is_lost(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={"max.message.bytes": "100"})
    await fill(member.api, 2)
    await member.get()
    await member.acknowledge("0-1:3")
    await asyncio.sleep(5)
    meter = member.api.broker.share_fetching.shares.meter
    assert (meter.letters_sent, meter.letters_written, meter.letters_failed) == (1, 0, 1)
    assert letters(cluster) == []
    assert states(member) == []


@within(run_cluster, brokers=1)
async def test_a_compressed_batch_is_copied(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={})
    await member.api.ask("Produce", 8, **produce("orders", batch(b"a", b"b", b"c", compression=1)))
    await member.get()
    await member.acknowledge("0-2:1,3,3")
    assert [letter_record.value for letter_record in await letters_after(cluster, 2)] == [
        b"b",
        b"c",
    ]


@within(run_cluster, brokers=1)
async def test_what_is_gone_from_the_log_has_headers_alone(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={})
    await fill(member.api, 2)
    await member.get()
    cluster.sim.brokers[cluster.leader(ORDERS_0)].replicas.led[ORDERS_0].delete_records_before(2)
    await member.acknowledge("0-1:3")
    assert [letter_record.value for letter_record in await letters_after(cluster, 2)] == [
        None,
        None,
    ]


@within(run_cluster, brokers=3)
async def test_a_request_without_answer_is_tried_again(cluster: VirtualCluster) -> None:
    """Meanwhile the record is on its way: it is archived once it is written."""
    member = await member_of(cluster, topic={})
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, api="Produce", limit=1)
    await fill(member.api, 1)
    await member.get()
    await member.acknowledge("0-0:3")
    await cluster.wait_until_struck()
    assert states(member) == [(0, 0, RecordState.ARCHIVING.name)]
    await letters_after(cluster, 1, after_s=60)
    await asyncio.sleep(1)
    assert states(member) == []


@within(run_cluster, brokers=3)
async def test_after_five_failures_they_are_lost(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, topic={})
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, api="Produce")
    await fill(member.api, 1)
    await member.get()
    await member.acknowledge("0-0:3")
    await asyncio.sleep(300)
    await cluster.wait_until_struck(count=5)
    assert states(member) == []
    assert letters(cluster) == []


@within(run_cluster, brokers=1)
async def test_a_new_leader_sends_what_was_on_its_way(cluster: VirtualCluster) -> None:
    """The share coordinator has it as being archived (maybeResumeDlqArchiving): it comes twice."""
    member = await member_of(cluster, topic={})
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "f", api="Produce", limit=1)
    await fill(member.api, 1)
    await member.get()
    await member.acknowledge("0-0:3")
    await cluster.wait_until_struck()
    shares: Any = member.api.broker.share_fetching.shares
    shares.forget_partitions([ORDERS_0])
    next_member = ShareMember(member.api, "m2")
    await next_member.get(wait=500)
    for letter_record in await letters_after(cluster, 2, after_s=60):
        assert error_headers(letter_record)["message"] == "Offset rejected by client."
