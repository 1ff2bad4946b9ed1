"""The requests that came with 4.4, answered as a real 4.4.0 has answered them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.raw_connection import API_VERSIONS, WireClient
from tests.support.waiting import until
from tests.support.within_environment import within
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

E = ErrorCode
FIND_COORDINATOR, INIT_PRODUCER_ID, HEARTBEAT = 10, 22, 68
OFFSET_FETCH, TXN_OFFSET_COMMIT, DELETE_GROUPS = 9, 28, 42
METADATA, INCREMENTAL_ALTER_CONFIGS = 3, 44
TOPIC_NAMES: Final = ["missing", "t", "bad name", ""]
CLIENT: Final = {"client_software_name": "x", "client_software_version": "1"}


class BrokerConnection:
    """One connection to the only broker."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire

    async def ask(self, api_key: int, version: int, **request_fields: Any) -> Any:
        message = message_from(codec.request_class(api_key, version), request_fields)
        self.wire.send(self.wire.frame(api_key, version, message))
        return (await self.wire.answer())[1]

    async def settled(self, api_key: int, version: int, **values: Any) -> Any:
        """Repeat a request until the answer has no error, because the coordinator is loaded."""
        answers: list[Any] = []

        async def answers_without_error() -> bool:
            answers[:] = [await self.ask(api_key, version, **values)]
            return answers[0].error_code is E.none

        await until(answers_without_error, f"{api_key} is answered")
        return answers[0]


@asynccontextmanager
async def asking(cluster: VirtualCluster) -> AsyncIterator[BrokerConnection]:
    broker = cluster.sim.metadata.image.brokers[BrokerId(1)]
    wire = await WireClient.open(broker.host, broker.port)
    yield BrokerConnection(wire)
    await wire.close()


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "client_software_name", "error"),
    [
        (None, -1, "x", E.none),
        ("own", 1, "x", E.none),
        ("own", -1, "x", E.invalid_request),
        (None, 1, "x", E.invalid_request),
        (None, -5, "x", E.invalid_request),
        ("other", 1, "x", E.rebootstrap_required),
        ("", 1, "x", E.rebootstrap_required),
        ("own", 2, "x", E.rebootstrap_required),
        ("own", -5, "x", E.rebootstrap_required),
        ("other", 1, "-", E.invalid_request),
    ],
)
@within(run_cluster, brokers=1, as_version=("4.4",))
async def test_a_client_may_say_whom_it_means(
    cluster: VirtualCluster,
    cluster_id: str | None,
    node_id: int,
    client_software_name: str,
    error: ErrorCode,
) -> None:
    own_cluster_id = cluster.sim.metadata.image.cluster_id
    async with asking(cluster) as client:
        answer = await client.ask(
            API_VERSIONS,
            5,
            client_software_name=client_software_name,
            client_software_version="1",
            cluster_id=own_cluster_id if cluster_id == "own" else cluster_id,
            node_id=node_id,
        )
        assert answer.error_code is error
        ranges = {
            api_key.api_key: (api_key.min_version, api_key.max_version)
            for api_key in answer.api_keys
        }
        newest_ranges = {API_VERSIONS: (0, 5), TXN_OFFSET_COMMIT: (0, 6), DELETE_GROUPS: (0, 3)}
        assert ranges.items() >= newest_ranges.items() if error is E.none else not ranges
        assert bool(answer.supported_features) is (error is E.none)


@within(run_cluster, brokers=1, as_version=("4.3",))
async def test_4_3_answers_in_the_first_version_that_it_has_4(cluster: VirtualCluster) -> None:
    async with asking(cluster) as client:
        message = message_from(codec.request_class(API_VERSIONS, 5), CLIENT)
        frame = codec.encode_request(
            API_VERSIONS, 5, client.wire.expect(API_VERSIONS, 0), "wire", message
        )
        client.wire.send(frame)
        _, answer = await client.wire.answer()
        (own_row,) = answer.api_keys
        assert (answer.error_code, own_row.max_version) == (E.unsupported_version, 4)


@pytest.mark.parametrize(
    ("rules", "names"),
    [({}, ["t", "", "missing", "bad name"]), ({"unknown_topics_are_hashed": False}, TOPIC_NAMES)],
)
def test_unknown_topics_come_in_the_order_of_a_hash_set(
    rules: dict[str, bool], names: list[str]
) -> None:
    async def story(cluster: VirtualCluster) -> list[str]:
        async with asking(cluster) as client:
            topics = [{"name": name} for name in TOPIC_NAMES]
            answer = await client.ask(METADATA, 12, topics=topics)
        return [topic.name for topic in answer.topics]

    assert run_cluster(story, brokers=1, topics=(("t", 1),), rules=rules) == names


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({}, E.invalid_request),
        ({"logger_operations_are_checked": False}, E.unknown_server_error),
    ],
)
def test_an_unknown_operation_on_a_logger(rules: dict[str, bool], error: ErrorCode) -> None:
    change = {"name": "kafka", "config_operation": 4, "value": "INFO"}
    resource = {"resource_type": 8, "resource_name": "1", "configs": [change]}

    async def story(cluster: VirtualCluster) -> ErrorCode:
        async with asking(cluster) as client:
            answer = await client.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        return ErrorCode(answer.responses[0].error_code)

    assert run_cluster(story, brokers=1, rules=rules) is error


@within(run_cluster, brokers=1, topics=(("t", 2),), as_version=("4.4",))
async def test_positions_of_a_transaction_are_named_by_topic_ids(cluster: VirtualCluster) -> None:
    async with asking(cluster) as client:
        topic_id = cluster.sim.metadata.image.topics["t"].topic_id
        for key, key_type in (("g", 0), ("x", 1)):
            await client.settled(FIND_COORDINATOR, 1, key=key, key_type=key_type)
        producer_identity = await client.settled(
            INIT_PRODUCER_ID,
            4,
            transactional_id="x",
            producer_id=-1,
            producer_epoch=-1,
            transaction_timeout=60_000,
        )
        join_reply = await client.settled(
            HEARTBEAT,
            1,
            group_id="g",
            member_id="m",
            subscribed_topic_names=["t"],
            topic_partitions=[],
            rebalance_timeout=5_000,
        )
        epoch: int = join_reply.member_epoch

        async def commit(version: int = 6, **request_fields: Any) -> ErrorCode:
            partition = {
                "partition_index": request_fields.pop("partition", 0),
                "committed_offset": 5,
            }
            of_v6 = {"topic_id": request_fields.pop("topic_id", topic_id)}
            topic_fields = of_v6 if version == 6 else {"name": "t"}
            field_name = "generation_id_or_member_epoch" if version == 6 else "generation_id"
            committer = {
                "group_id": "g",
                "member_id": "m",
                field_name: request_fields.pop("epoch", epoch),
            }
            answer = await client.ask(
                TXN_OFFSET_COMMIT,
                version,
                transactional_id="x",
                producer_id=producer_identity.producer_id,
                producer_epoch=producer_identity.producer_epoch,
                topics=[{**topic_fields, "partitions": [{**partition, "committed_metadata": ""}]}],
                **{**committer, **request_fields},
            )
            (topic,) = answer.topics
            assert version == 5 or topic.topic_id == of_v6["topic_id"]
            error: ErrorCode = topic.partitions[0].error_code
            return error

        assert await commit() is E.none
        assert await commit(member_id="", epoch=-1) is E.none
        assert await commit(member_id="q") is E.unknown_member_id
        assert await commit(topic_id=None) is E.unknown_topic_id
        assert await commit(partition=9) is E.unknown_topic_or_partition
        for version, stale_error, missing_error in (
            (6, E.stale_member_epoch, E.group_id_not_found),
            (5, E.illegal_generation, E.illegal_generation),
        ):
            assert await commit(version, epoch=epoch + 1) is stale_error
            assert await commit(version, epoch=epoch - 1) is stale_error
            assert await commit(version, group_id="none", epoch=3) is missing_error


@within(run_cluster, brokers=1, as_version=("4.4",))
async def test_a_deleted_group_has_room_for_a_message(cluster: VirtualCluster) -> None:
    async with asking(cluster) as client:
        await client.settled(FIND_COORDINATOR, 1, key="g", key_type=0)
        answer = await client.ask(DELETE_GROUPS, 3, groups_names=["g"])
        (result,) = answer.results
        assert (result.error_code, result.error_message) == (E.group_id_not_found, None)
