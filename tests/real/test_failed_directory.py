"""A broker with a failing log directory: its answers to clients, and the new leader.

Kafka's broker has another directory left, or it would end itself; ours has the one that fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.real.conftest import SETTINGS
from tests.support.apache_kafka import ApacheKafka
from tests.support.clusters import real_cluster
from tests.support.raw_connection import WireClient
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.errors import ErrorCode
from txnsim.faults.cluster_actions import FillDisk
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition
from txnsim.wire import codec

TOPIC: Final = "spoilt"
P0: Final = TopicPartition(TOPIC, 0)
FAILING: Final = 2
"""The broker that leads the one partition; broker 1 follows."""
METADATA, WRITE_TXN_MARKERS, DESCRIBE_LOG_DIRS = 3, 27, 35
WAIT_S: Final = 30


class DirectoryAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to clients about the directory and its partition."""

    directory: tuple[ErrorCode, int, int, int]
    """Error, how many topics, total and usable bytes."""
    produce: tuple[ErrorCode, int, int]
    """Error, base offset, log start."""
    marker: ErrorCode
    leader: int
    isr: tuple[int, ...]
    offline: tuple[int, ...]


EXPECTED: Final = DirectoryAnswers(
    directory=(ErrorCode.kafka_storage_error, 0, -1, -1),
    produce=(ErrorCode.kafka_storage_error, -1, -1),
    marker=ErrorCode.unknown_topic_or_partition,
    leader=1,
    isr=(1,),
    offline=(FAILING,),
)


async def ask_broker(port: int, api_key: int, version: int, **request_fields: Any) -> Any:
    wire = await WireClient.open("127.0.0.1", port)
    try:
        message = codec.build(codec.request_class(api_key, version), **request_fields)
        wire.send(wire.frame(api_key, version, message))
        return (await wire.answer())[1]
    finally:
        await wire.close()


async def directory_of(port: int, is_wanted: Callable[[Any], bool]) -> Any:
    """Wait until one of a broker's log directories satisfies ``is_wanted``, and return it."""
    for _ in range(WAIT_S * 5):
        answer = await ask_broker(port, DESCRIBE_LOG_DIRS, 4, topics=None)
        for directory in answer.results:
            if is_wanted(directory):
                return directory
        await asyncio.sleep(0.2)
    raise AssertionError(f"none of {answer.results}")


async def story(bootstrap: str, spoil: Callable[[str], Awaitable[None]]) -> DirectoryAnswers:
    """Write records, make the log directory fail, and collect the answers of clients."""
    ports = [int(address.rsplit(":", 1)[1]) for address in bootstrap.split(",")]
    healthy, failing = ports[0], ports[FAILING - 1]
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        await admin.create_topics((NewTopic(name=TOPIC, assignments=((FAILING, 1),)),))
        await admin.wait_for_topic(TOPIC)
        await Producer(cluster).send(TOPIC, 0, b"before")
    directory = await directory_of(
        failing, lambda candidate: TOPIC in {topic.name for topic in candidate.topics}
    )
    await spoil(directory.log_dir)
    failed_answer = await directory_of(
        failing, lambda candidate: candidate.error_code is not ErrorCode.none
    )
    produce_result = await produce_record(failing)
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [(TOPIC, (0,))],
        "coordinator_epoch": 0,
    }
    marked = await ask_broker(failing, WRITE_TXN_MARKERS, 1, markers=markers(marker))
    partition = await wait_for_new_leader(healthy)
    return DirectoryAnswers(
        directory=(
            failed_answer.error_code, len(failed_answer.topics),
            failed_answer.total_bytes, failed_answer.usable_bytes,
        ),
        produce=(
            produce_result.error_code, produce_result.base_offset, produce_result.log_start_offset,
        ),
        marker=marked.markers[0].topics[0].partitions[0].error_code,
        leader=partition.leader_id,
        isr=tuple(partition.isr_nodes),
        offline=tuple(partition.offline_replicas),
    )  # fmt: skip


def markers(marker_fields: dict[str, Any]) -> tuple[Any, ...]:
    """The fields of a marker in the request."""
    schema = codec.request_schema(WRITE_TXN_MARKERS, 1)
    topics = tuple(
        schema.WritableTxnMarkerTopic(name=name, partition_indexes=partitions)
        for name, partitions in marker_fields.pop("topics")
    )
    return (schema.WritableTxnMarker(topics=topics, **marker_fields),)


async def produce_record(port: int) -> Any:
    """The answer to a Produce to the partition at this broker."""
    wire = await WireClient.open("127.0.0.1", port)
    try:
        wire.send(wire.produce(P0))
        return (await wire.answer())[1].responses[0].partition_responses[0]
    finally:
        await wire.close()


async def wait_for_new_leader(port: int) -> Any:
    """Wait until another broker leads the partition, and return a healthy broker's description of
    it.
    """
    for _ in range(WAIT_S * 5):
        answer = await ask_broker(
            port,
            METADATA,
            7,
            topics=(codec.request_schema(METADATA, 7).MetadataRequestTopic(name=TOPIC),),
            allow_auto_topic_creation=False,
        )
        partition = answer.topics[0].partitions[0]
        if partition.leader_id != FAILING:
            return partition
        await asyncio.sleep(0.2)
    raise AssertionError(f"it stays {partition}")


def replace(directory: Path) -> None:
    """Put a file in the directory's place, so that no write succeeds there any more."""
    directory.rename(directory.with_suffix(".gone"))
    directory.write_text("no directory any more", "utf-8")


class TwoDirectories(ApacheKafka):
    """Brokers with two directories for logs and another one for metadata."""

    def _server_properties(
        self, node_id: int, port: int, controller_port: int, home: Path
    ) -> dict[str, str]:
        properties = super()._server_properties(node_id, port, controller_port, home)
        folders = {"log.dirs": f"{home}/one,{home}/two", "metadata.log.dir": f"{home}/metadata"}
        return {**properties, **folders}


@pytest.mark.real
async def test_a_failed_directory_of_a_real_broker() -> None:
    async def take_away(directory: str) -> None:
        await asyncio.to_thread(replace, Path(directory))

    with TwoDirectories(brokers=2) as kafka:
        assert await story(kafka.bootstrap, take_away) == EXPECTED


@pytest.mark.slow
async def test_a_failed_directory_here() -> None:
    async with real_cluster(brokers=2, topics=()) as sim:

        async def fill(_directory: str) -> None:
            fill_disk = FillDisk(broker=FAILING)
            sim.injector.arm(FaultRule(id="full", point=FaultPoint.NOW, action=fill_disk))

        assert await story(sim.bootstrap, fill) == EXPECTED
