"""What a request and a background step of a broker cost, as a function of what is stored.

Costs are lines of code (``tests.support.counted_steps``), so they are the same on every machine.
Slices are as short as can be, so that a walk in slices shows at a hundred elements. The cost of a
request that ``GROWING`` does not name stays as it is however much is stored. All others, and the
background steps of an hour, grow in proportion at most. No callback of the loop takes longer for
it, but for the steps of ``WHOLE``, each with its bound. A new API needs a row in ``ASKED``, a new
background step one in ``BACKGROUND``.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

import txnsim
from tests.support.broker_api import KEYS
from tests.support.clusters import VirtualCluster, options, run_cluster
from tests.support.counted_steps import CountedSteps
from tests.support.raw_connection import WireClient
from txnsim.api import parsing
from txnsim.api.registry import HANDLERS
from txnsim.controller.elections import reelect_same_leader
from txnsim.coordinators.share.service import ShareCoordinator
from txnsim.coordinators.txn.service import TransactionCoordinator
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import ShareKey
from txnsim.node import coordinator_loading
from txnsim.runtime import loop_turns, tasks
from txnsim.runtime.loop_turns import SLICE_NS
from txnsim.security.options import SecurityOptions
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    uuid_text,
)
from txnsim.wire import codec
from txnsim.wire.apis import api_name
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.encoder import _step_writer
from txnsim.wire.plain_values import message_from

Sizes = tuple[int, int, int]
SIZES: Final = (10, 100, 1_000)
LARGER: Final = (100, 1_000, 9_990)
"""Of what a few requests store, in ``make nightly``: 9,990 partitions are the most of one."""
STEADY_MAX: Final = 1.5
"""A steady cost may differ by so much: a slice ends, a segment is rolled."""
FEW_LINES: Final = 300
STEP_LINES: Final = 4_000
"""So much in one step, about a millisecond, is no matter."""
PROPORTION_MAX: Final = 15.0
"""Growth to the largest size, in terms of that before: ten, and something for slices."""
PACKAGE: Final = Path(txnsim.__file__).parent
STAMP_MS: Final = 1_700_000_000_000
_JOINING: Final[dict[str, Any]] = {
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout": 60_000,
    "subscribed_topic_names": ["orders"],
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": [],
}


class Broker:
    """A cluster of one broker, and a client of it."""

    def __init__(self, cluster: VirtualCluster, wire: WireClient) -> None:
        self.cluster = cluster
        self.wire = wire
        self.ids = {topic_name: topic.topic_id for topic_name, topic in self.image.topics.items()}
        self.producer = (0, 0)
        """Id and epoch of ``t``."""
        self.wires = [wire]

    async def wire_more(self) -> WireClient:
        """Open one more connection to the broker."""
        (broker_image,) = self.image.brokers.values()
        self.wires.append(await WireClient.open(broker_image.host, broker_image.port))
        return self.wires[-1]

    @property
    def image(self) -> Any:
        return self.cluster.sim.metadata.image

    async def ask(self, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
        message = message_from(codec.request_class(api_key, version), values)
        self.wire.send(self.wire.frame(api_key, version, message))
        return (await self.wire.answer())[1]

    async def sure(self, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
        for _ in range(300):
            answer = await self.ask(api_key, version, values)
            if not (errors_found := errors(answer)):
                return answer
            await asyncio.sleep(0.05)
        raise AssertionError(f"{api_name(api_key)}: {errors_found} in {answer!r}"[:600])


def errors(answer: Any) -> set[ErrorCode]:
    """All error codes of an answer, at any depth."""
    errors_found: set[ErrorCode] = set()
    values = [answer]
    while values:
        one = values.pop()
        if isinstance(one, (tuple, list)):
            values += one
        elif hasattr(one, "__dataclass_fields__"):
            for field_name in one.__dataclass_fields__:
                config_value = getattr(one, field_name)
                if field_name == "error_code":
                    errors_found.add(ErrorCode(int(config_value)))
                else:
                    values.append(config_value)
    return errors_found - {ErrorCode.none}


# What is stored


def _in_parts(elements: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(elements), 2_000):
        yield elements[start : start + 2_000]


async def topics(broker: Broker, count: int) -> None:
    new_topics = [
        {"name": f"t{topic_number}", "num_partitions": 1, "replication_factor": 1}
        for topic_number in range(count)
    ]
    for topics_of_request in _in_parts(new_topics):
        await broker.sure(19, 7, {"topics": topics_of_request, "timeout": 30_000})


async def partitions(broker: Broker, count: int) -> None:
    new_topics = [{"name": "wide", "num_partitions": count, "replication_factor": 1}]
    await broker.sure(19, 7, {"topics": new_topics, "timeout": 30_000})


async def began(broker: Broker, transactional_id: str) -> tuple[int, int]:
    init = {"transactional_id": transactional_id, "transaction_timeout": 900_000}
    identity = await broker.sure(22, 4, {**init, "producer_id": -1, "producer_epoch": -1})
    return identity.producer_id, identity.producer_epoch


def added(transactional_id: str, producer: tuple[int, int], topics: Any) -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": topics,
    }


async def transactional_ids(broker: Broker, count: int) -> None:
    for id_number in range(count):
        await began(broker, f"id{id_number}")


async def transactions(broker: Broker, count: int) -> None:
    """Open ``count`` transactions."""
    topics = [{"name": "other", "partitions": [0]}]
    for id_number in range(count):
        transactional_id = f"id{id_number}"
        await broker.sure(
            24, 3, added(transactional_id, await began(broker, transactional_id), topics)
        )


def _written(batch: bytes, topic: str = "orders") -> dict[str, Any]:
    topic_data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    return {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": topic_data}


def _plain_batch(**batch_fields: Any) -> bytes:
    return build_batch([Record(key=b"k", value=b"v")], timestamp_ms=STAMP_MS, **batch_fields)


async def batches(broker: Broker, count: int) -> None:
    for _ in range(count):
        await broker.sure(0, 9, _written(_plain_batch()))


async def producers(broker: Broker, count: int) -> None:
    for number in range(count):
        producer_fields = {"producer_id": 10_000 + number, "producer_epoch": 0, "base_sequence": 0}
        await broker.sure(0, 9, _written(_plain_batch(**producer_fields)))


async def markers(broker: Broker, count: int) -> None:
    """Write an ABORT marker for each of ``count`` producers."""
    for number in range(count):
        await broker.sure(27, 1, _marked(20_000 + number))


def _marked(producer_id: int) -> dict[str, Any]:
    marker = {"producer_id": producer_id, "producer_epoch": 0, "transaction_result": False}
    marker |= {"coordinator_epoch": 0, "topics": [{"name": "orders", "partition_indexes": [0]}]}
    return {"markers": [marker]}


def _positions(group_id: str, topic: str = "orders", count: int = 1) -> dict[str, Any]:
    partitions = [
        {"partition_index": partition_index, "committed_offset": 0}
        for partition_index in range(count)
    ]
    commit = {"group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": ""}
    return {**commit, "topics": [{"name": topic, "partitions": partitions}]}


async def groups(broker: Broker, count: int) -> None:
    for group_number in range(count):
        await broker.sure(8, 9, _positions(f"g{group_number}"))


async def positions(broker: Broker, count: int) -> None:
    await partitions(broker, count)
    await broker.sure(8, 9, _positions("elsewhere", "wide", count))


async def members(broker: Broker, count: int) -> None:
    for member_number in range(count):
        beat = {**_JOINING, "group_id": "many", "member_id": f"m{member_number}"}
        await broker.sure(68, 1, beat)


async def share_groups(broker: Broker, count: int) -> None:
    for number in range(count):
        beat = {"group_id": f"s{number}", "member_id": "m", "member_epoch": 0, "rack_id": None}
        await broker.sure(76, 1, {**beat, "subscribed_topic_names": ["other"]})


async def streams_groups(broker: Broker, count: int) -> None:
    for number in range(count):
        await broker.sure(88, 1, _streams(f"x{number}"))


def _streams(group_id: str) -> dict[str, Any]:
    sub = {"subtopology_id": "0", "source_topics": ["orders"], "source_topic_regex": []}
    sub |= {"state_changelog_topics": [], "repartition_sink_topics": []}
    sub |= {"repartition_source_topics": [], "copartition_groups": []}
    return {
        "group_id": group_id,
        "member_id": "m",
        "member_epoch": 0,
        "endpoint_information_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "topology": {"epoch": 0, "subtopologies": [sub]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        "user_endpoint": None,
        "client_tags": [],
        "task_offsets": None,
        "task_end_offsets": None,
    }


def _of_share(topic_id: UUID, group_id: str, count: int = 1, **fields: Any) -> dict[str, Any]:
    partitions = [{"partition": partition_index, **fields} for partition_index in range(count)]
    return {"group_id": group_id, "topics": [{"topic_id": topic_id, "partitions": partitions}]}


async def share_states(broker: Broker, count: int) -> None:
    await partitions(broker, count)
    topic_id = broker.image.topics["wide"].topic_id
    state = {"state_epoch": 0, "start_offset": 0}
    await _of_key(broker, ShareKey("many", uuid_text(topic_id), 0).coordinator_key, 2)
    await broker.sure(83, 0, _of_share(topic_id, "many", count, **state))


async def _of_key(broker: Broker, key: str, key_type: int) -> None:
    await broker.sure(10, 6, {"key_type": key_type, "coordinator_keys": [key]})


async def fetch_sessions(broker: Broker, count: int) -> None:
    for _ in range(count):
        await broker.sure(1, 12, _fetched(session_epoch=0))


def _fetched(**request_fields: Any) -> dict[str, Any]:
    partition_fields = {"partition": 0, "partition_max_bytes": 1_000, "fetch_offset": 0}
    partition_fields |= {
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    fetch_fields = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 10_000}
    fetch_fields |= {"isolation_level": 1, "session_id": 0, "session_epoch": -1}
    fetch_fields |= {
        "topics": [{"topic": "orders", "partitions": [partition_fields]}],
        "rack_id": "",
    }  # type: ignore[dict-item]
    return {**fetch_fields, **request_fields}


def _shared(broker: Broker, group_id: str, member_id: str, **fields: Any) -> dict[str, Any]:
    partition_fields = {"partition_index": 0, "acknowledgement_batches": []}
    return {
        "group_id": group_id,
        "member_id": member_id,
        "share_session_epoch": 0,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 10_000,
        "max_records": 10,
        "batch_size": 10,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": [{"topic_id": broker.ids["orders"], "partitions": [partition_fields]}],
        "forgotten_topics_data": [],
        **fields,
    }


async def share_sessions(broker: Broker, count: int) -> None:
    """Open ``count`` share sessions, each by a member with its own connection."""
    for member_number in range(count):
        await Broker(broker.cluster, await broker.wire_more()).sure(
            78, 2, _shared(broker, "s", f"m{member_number}")
        )


async def parked(broker: Broker, count: int) -> None:
    """Park ``count`` Fetches at the end of a partition, each over its own connection."""
    for _ in range(count):
        wire = await broker.wire_more()
        values = _fetched(max_wait=100_000_000, min_bytes=1_000_000)
        wire.send(wire.frame(1, 12, message_from(codec.request_class(1, 12), values)))
    await asyncio.sleep(1)


async def acls(broker: Broker, count: int) -> None:
    for_topic = {"resource_type": 2, "resource_pattern_type": 3, "host": "*", "operation": 3}
    creations = [
        {**for_topic, "resource_name": "o", "principal": f"User:{acl_number}", "permission_type": 3}
        for acl_number in range(count)
    ]
    for creations_of_request in _in_parts(creations):
        await broker.sure(30, 3, {"creations": creations_of_request})


async def quotas(broker: Broker, count: int) -> None:
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": f"u{user_number}"}],
            "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
        }
        for user_number in range(count)
    ]
    for entries_of_request in _in_parts(entries):
        await broker.sure(49, 1, {"entries": entries_of_request, "validate_only": False})


async def users(broker: Broker, count: int) -> None:
    scram = {"mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"x" * 32}
    upsertions = [{"name": f"u{user_number}", **scram} for user_number in range(count)]
    for upsertions_of_request in _in_parts(upsertions):
        await broker.sure(51, 0, {"upsertions": upsertions_of_request, "deletions": []})


def _config(resource_type: int, resource_name: str, key: str, config_value: str) -> dict[str, Any]:
    configs = [{"name": key, "config_operation": 0, "value": config_value}]
    return {"resource_type": resource_type, "resource_name": resource_name, "configs": configs}


async def configs(broker: Broker, count: int) -> None:
    """Set a config on each of ``count`` groups."""
    resources = [
        _config(32, f"c{resource_number}", "consumer.session.timeout.ms", "45000")
        for resource_number in range(count)
    ]
    for resources_of_request in _in_parts(resources):
        await broker.sure(44, 1, {"resources": resources_of_request, "validate_only": False})


async def subscriptions(broker: Broker, count: int) -> None:
    """Create ``count`` subscriptions to client metrics."""
    resources = [
        _config(16, f"c{resource_number}", "metrics", "*") for resource_number in range(count)
    ]
    for resources_of_request in _in_parts(resources):
        await broker.sure(44, 1, {"resources": resources_of_request, "validate_only": False})


async def client_instances(broker: Broker, count: int) -> None:
    """Register ``count`` client instances that push metrics."""
    for number in range(count):
        await broker.sure(71, 0, {"client_instance_id": UUID(int=number + 1)})


STORED: Final = {
    step.__name__: step
    for step in (
        topics,
        partitions,
        transactional_ids,
        transactions,
        batches,
        producers,
        markers,
        groups,
        positions,
        members,
        share_groups,
        streams_groups,
        share_states,
        fetch_sessions,
        share_sessions,
        parked,
        acls,
        quotas,
        users,
        configs,
        subscriptions,
        client_instances,
    )
}

AT_ONCE: Final = tuple(
    step.__name__
    for step in (
        topics,
        partitions,
        positions,
        share_states,
        acls,
        quotas,
        users,
        configs,
        subscriptions,
    )
)

# What is asked

Values = Callable[[Broker], Mapping[str, Any]]
_ANY: Final = {"pattern_type_filter": 1, "operation": 1, "permission_type": 1}
_ORDERS: Final = {"name": "orders"}
_TIMEOUT: Final = {"timeout": 30_000}


def _plain(**values: Any) -> Values:
    return lambda _: values


def _in_transaction(broker: Broker, **fields: Any) -> dict[str, Any]:
    producer_id, epoch = broker.producer
    identity_fields = {"producer_id": producer_id, "producer_epoch": epoch}
    return {"transactional_id": "t", **identity_fields, **fields}


def _state(**state_fields: Any) -> Values:
    return lambda broker: _of_share(broker.ids["orders"], "s", **state_fields)


def _asked(api: str, version: int, values_of: Values) -> tuple[int, int, Values]:
    return KEYS[api], version, values_of


_OF_ORDERS: Final = {"topics": [{"name": "orders", "partition_indexes": [0]}]}
ASKED: Final = (
    _asked("ApiVersions", 4, _plain(client_software_name="a", client_software_version="1")),
    _asked("Metadata", 12, _plain(topics=[_ORDERS], allow_auto_topic_creation=False)),
    _asked("Produce", 9, lambda _: _written(_plain_batch())),
    _asked("Fetch", 12, lambda _: _fetched()),
    _asked("ListOffsets", 9, _plain(replica_id=-1, topics=[
        {"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}])),
    _asked("OffsetForLeaderEpoch", 4, _plain(replica_id=-2, topics=[
        {"topic": "orders", "partitions": [
            {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}])),
    _asked("DeleteRecords", 2, _plain(**_TIMEOUT, topics=[
        {"name": "other", "partitions": [{"partition_index": 0, "offset": 0}]}])),
    _asked("DescribeProducers", 0, _plain(**_OF_ORDERS)),
    _asked("DescribeLogDirs", 4, _plain(topics=[{"topic": "orders", "partitions": [0]}])),
    _asked("AlterReplicaLogDirs", 2, _plain(
        dirs=[{"path": "/x", "topics": [{"name": "orders", "partitions": [0]}]}])),
    _asked("WriteTxnMarkers", 1, lambda _: _marked(9_999)),
    # Transactions
    _asked("FindCoordinator", 6, _plain(key_type=1, coordinator_keys=["t"])),
    _asked("InitProducerId", 4, lambda broker: _in_transaction(
        broker, transaction_timeout=60_000)),
    _asked("AddPartitionsToTxn", 3, lambda broker: added(
        "t", broker.producer, [{"name": "orders", "partitions": [0]}])),
    _asked("AddOffsetsToTxn", 3, lambda broker: _in_transaction(broker, group_id="g")),
    _asked("TxnOffsetCommit", 3, lambda broker: _in_transaction(
        broker, group_id="g", generation_id=-1, member_id="", topics=[
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 0}]}])),
    _asked("DescribeTransactions", 0, _plain(transactional_ids=["t"])),
    _asked("ListTransactions", 1, _plain(duration_filter=-1)),
    _asked("EndTxn", 3, lambda broker: _in_transaction(broker, committed=True)),
    # Groups
    _asked("JoinGroup", 3, _plain(group_id="classic", session_timeout=30_000,
        rebalance_timeout=1_000, member_id="", protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0"}])),
    _asked("SyncGroup", 3, _plain(group_id="classic", generation_id=1, member_id="no")),
    _asked("Heartbeat", 3, _plain(group_id="classic", generation_id=1, member_id="no")),
    _asked("LeaveGroup", 3, _plain(group_id="classic", members=[{"member_id": "no"}])),
    _asked("OffsetCommit", 8, lambda _: _positions("g")),
    _asked("OffsetFetch", 9, _plain(
        groups=[{"group_id": "g", "member_epoch": -1, "topics": [
            {"name": "orders", "partition_indexes": [0]}]}])),
    _asked("OffsetDelete", 0, _plain(group_id="g", topics=[
        {"name": "orders", "partitions": [{"partition_index": 0}]}])),
    _asked("DescribeGroups", 5, _plain(groups=["g"])),
    _asked("ListGroups", 5, _plain()),
    _asked("DeleteGroups", 2, _plain(groups_names=["g"])),
    _asked("ConsumerGroupHeartbeat", 1, _plain(group_id="c", member_id="m", **_JOINING)),
    _asked("ConsumerGroupDescribe", 1, _plain(group_ids=["c"])),
    _asked("ShareGroupHeartbeat", 1, _plain(group_id="s", member_id="m", member_epoch=0,
        rack_id=None, subscribed_topic_names=["orders"])),
    _asked("ShareGroupDescribe", 1, _plain(group_ids=["s"])),
    _asked("DescribeShareGroupOffsets", 1, _plain(
        groups=[{"group_id": "s", "topics": [{"topic_name": "orders", "partitions": [0]}]}])),
    _asked("ShareFetch", 2, lambda broker: _shared(broker, "s", "reader")),
    _asked("ShareAcknowledge", 2, lambda broker: {"group_id": "s", "member_id": "reader",
        "share_session_epoch": 1, "is_renew_ack": False, "topics": [
            {"topic_id": broker.ids["orders"], "partitions": [
                {"partition_index": 0, "acknowledgement_batches": [
                    {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]}]}]}),
    _asked("AlterShareGroupOffsets", 0, _plain(group_id="gone", topics=[
        {"topic_name": "orders", "partitions": [{"partition_index": 0, "start_offset": 0}]}])),
    _asked("DeleteShareGroupOffsets", 0, _plain(
        group_id="gone", topics=[{"topic_name": "orders"}])),
    _asked("InitializeShareGroupState", 0, _state(state_epoch=1, start_offset=0)),
    _asked("ReadShareGroupState", 0, _state(leader_epoch=0)),
    _asked("WriteShareGroupState", 0, _state(
        state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[])),
    _asked("ReadShareGroupStateSummary", 1, _state(leader_epoch=0)),
    _asked("DeleteShareGroupState", 0, _state()),
    _asked("StreamsGroupHeartbeat", 1, lambda _: _streams("x")),
    _asked("StreamsGroupDescribe", 1, _plain(group_ids=["x"])),
    _asked("StreamsGroupTopologyDescriptionUpdate", 0, _plain(
        group_id="x", member_id="m", topology_epoch=0)),
    # Administration
    _asked("CreateTopics", 7, _plain(**_TIMEOUT, topics=[
        {"name": "new", "num_partitions": 1, "replication_factor": 1}])),
    _asked("CreatePartitions", 3, _plain(**_TIMEOUT, topics=[
        {"name": "new", "count": 2, "assignments": None}])),
    _asked("DeleteTopics", 6, _plain(**_TIMEOUT, topics=[
        {"name": "new", "topic_id": UUID(int=0)}])),
    _asked("DescribeTopicPartitions", 0, _plain(
        topics=[_ORDERS], response_partition_limit=100)),
    _asked("ElectLeaders", 2, _plain(**_TIMEOUT, election_type=0,
        topic_partitions=[{"topic": "orders", "partitions": [0]}])),
    _asked("AlterPartitionReassignments", 1, _plain(**_TIMEOUT, topics=[
        {"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}])),
    _asked("ListPartitionReassignments", 0, _plain(**_TIMEOUT, topics=[
        {"name": "orders", "partition_indexes": [0]}])),
    _asked("DescribeConfigs", 4, _plain(resources=[
        {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}])),
    _asked("AlterConfigs", 2, _plain(resources=[
        {"resource_type": 2, "resource_name": "orders",
         "configs": [{"name": "retention.ms", "value": "1000000"}]}])),
    _asked("IncrementalAlterConfigs", 1, _plain(
        resources=[_config(2, "orders", "retention.ms", "2000000")])),
    _asked("ListConfigResources", 1, _plain(resource_types=[2])),
    _asked("DescribeClientQuotas", 1, _plain(components=[
        {"entity_type": "user", "match_type": 0, "match": "u1"}])),
    _asked("AlterClientQuotas", 1, _plain(entries=[
        {"entity": [{"entity_type": "user", "entity_name": "new"}],
         "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]}])),
    _asked("DescribeUserScramCredentials", 0, _plain(users=[{"name": "u1"}])),
    _asked("AlterUserScramCredentials", 0, _plain(upsertions=[
        {"name": "new", "mechanism": 1, "iterations": 4096, "salt": b"s",
         "salted_password": b"x" * 32}])),
    _asked("DescribeAcls", 3, _plain(resource_type_filter=2, resource_name_filter="none", **_ANY)),
    _asked("CreateAcls", 3, _plain(creations=[
        {"resource_type": 2, "resource_name": "none", "resource_pattern_type": 3,
         "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}])),
    _asked("DeleteAcls", 3, _plain(filters=[
        {"resource_type_filter": 2, "resource_name_filter": "none", **_ANY}])),
    _asked("SaslHandshake", 1, _plain(mechanism="PLAIN")),
    _asked("SaslAuthenticate", 2, _plain(auth_bytes=b"")),
    _asked("CreateDelegationToken", 3, _plain(renewers=[])),
    _asked("RenewDelegationToken", 2, _plain(hmac=b"x")),
    _asked("ExpireDelegationToken", 2, _plain(hmac=b"x")),
    _asked("DescribeDelegationToken", 3, _plain(owners=None)),
    _asked("DescribeQuorum", 2, _plain(topics=[
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}])),
    _asked("UpdateFeatures", 2, _plain(**_TIMEOUT, feature_updates=[], validate_only=True)),
    _asked("DescribeCluster", 1, _plain(endpoint_type=1)),
    _asked("UnregisterBroker", 0, _plain(broker_id=77)),
    _asked("GetTelemetrySubscriptions", 0, _plain(client_instance_id=UUID(int=99_999))),
    _asked("PushTelemetry", 0, _plain(client_instance_id=UUID(int=99_999), subscription_id=0,
        terminating=False, compression_type=0, metrics=b"")),
)  # fmt: skip


# Measuring

Costs = dict[str, tuple[int, int]]
"""Step -> all of its lines, and those of its longest callback."""


async def _prepared(broker: Broker) -> None:
    """Make the groups and transactions that the requests above are about. Afterwards every
    handler's code is loaded and every encoder compiled, which is done once for each message.
    """
    for api_key, version, _ in ASKED:
        _step_writer(codec.response_class(api_key, version))
    await _of_key(broker, "g", 0)
    await _of_key(broker, "t", 1)
    share_key = ShareKey("s", uuid_text(broker.ids["orders"]), 0)
    await _of_key(broker, share_key.coordinator_key, 2)
    broker.producer = await began(broker, "t")
    for api_key, version, values_of in ASKED:
        await broker.ask(api_key, version, values_of(broker))
    await _reloaded(broker)
    broker.producer = await began(broker, "t")


async def _measured(broker: Broker) -> Costs:
    costs_by_name: Costs = {}
    for api_key, version, values_of in ASKED:
        request_values = values_of(broker)
        with CountedSteps() as step_counter:
            answer = await broker.ask(api_key, version, request_values)
            await asyncio.sleep(0.001)
        costs_by_name[api_name(api_key)] = step_counter.total, step_counter.longest
        if api_key == KEYS["InitProducerId"]:
            broker.producer = answer.producer_id, answer.producer_epoch
    with CountedSteps() as step_counter:
        await _reloaded(broker)
    costs_by_name[RELOAD] = step_counter.total, step_counter.longest
    with CountedSteps() as step_counter:
        await asyncio.sleep(3_700)
    for cost_name, lines in step_counter.by_name.items():
        costs_by_name[cost_name] = lines, step_counter.longest_by_name[cost_name]
    return costs_by_name


async def _reloaded(broker: Broker) -> None:
    """Raise the leader epoch of each coordinator's partition, so that it is loaded again."""
    loop, metadata = asyncio.get_running_loop(), broker.cluster.sim.metadata
    for topic in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, SHARE_STATE_TOPIC):
        for partition_index in range(len(broker.image.topics[topic].partitions)):
            resigned = reelect_same_leader(broker.image, TopicPartition(topic, partition_index))
            assert not isinstance(resigned, Rejection)
            for image in resigned:
                loop.call_soon(metadata.publish, image)
                await asyncio.sleep(0.05)


def costs(stored_kind: str, count: int) -> Costs:
    """What each request costs where so much is stored, then each background step of an hour."""
    costs_by_name: Costs = {}

    async def story(cluster: VirtualCluster) -> None:
        (broker_image,) = cluster.sim.metadata.image.brokers.values()
        broker = Broker(cluster, await WireClient.open(broker_image.host, broker_image.port))
        await _prepared(broker)
        await STORED[stored_kind](broker, count)
        await asyncio.sleep(2)
        costs_by_name.update(await _measured(broker))
        for wire in broker.wires:
            await wire.close()

    options_for_everybody = SecurityOptions(
        has_authorizer=True, allow_everyone_if_no_acl_found=True
    )
    run_cluster(
        story,
        cluster_options=options(
            brokers=1,
            topics=(("orders", 1), ("other", 1)),
            security=options_for_everybody,
            client_telemetry_enable=True,
            # Not beside a request.
            transaction_abort_timed_out_cleanup_interval_ms=600_000,
            replica_high_watermark_checkpoint_interval_ms=600_000,
        ),
    )
    return costs_by_name


# What is declared

RELOAD: Final = "a reload of all coordinators"
_TOPICS: Final = frozenset({"topics", "partitions", "positions", "share_states"})
_GROUPS: Final = frozenset({"groups", "share_groups", "streams_groups"})
GROWING: Final[Mapping[str, frozenset[str]]] = {
    # The answer, or what is looked through for it.
    "ListConfigResources": frozenset({"topics"}),
    "ListTransactions": frozenset({"transactional_ids", "transactions"}),
    "ListGroups": _GROUPS,
    "DescribeProducers": frozenset({"producers", "markers"}),
    "DescribeClientQuotas": frozenset({"quotas"}),
    # Up to the bytes of the request, and the locks of the group.
    "ShareFetch": frozenset({"batches", "producers", "markers"}),
    # Those that wait for the partition are asked.
    "Produce": frozenset({"parked"}),
    "WriteTxnMarkers": frozenset({"parked"}),
    "EndTxn": frozenset({"parked"}),
    # The timers of the others run while it waits.
    "JoinGroup": frozenset({"streams_groups"}),
    "DeleteTopics": _TOPICS | _GROUPS,
    "GetTelemetrySubscriptions": frozenset({"subscriptions"}),
    RELOAD: frozenset(STORED),
}
"""Request -> what it grows with."""
WHOLE: Final[Mapping[str, frozenset[str]]] = {
    # A broker that learns of another leader looks through what it leads: three lines for each,
    # about 10 ms for 50,000.
    RELOAD: _TOPICS,
    # Starts of logs are noted: three lines for each partition, 12 ms for 50,000.
    "DeleteTopics": _TOPICS,
    # Four and five lines for each partition: 12, 5 and 2 ms for 50,000.
    "replication/log_maintenance.py:LogMaintenance._note_log_starts_and_rearm": _TOPICS,
    "node/controller_node.py:ControllerNode._arm_rebalance": _TOPICS,
    "node/controller_node.py:ControllerNode._arm_unclean": _TOPICS,
    # Eleven lines for each marker of one request, behind its slices: 1 ms for 20,000, the most.
    "broker/_marker_writes.py:MarkerWrites.write": frozenset({"transactions"}),
    # Six lines for each producer of a partition: 5 ms for 100,000.
    "broker/_housekeeping.py:Housekeeping._arm_expiry": frozenset(
        {"transactions", "producers", "markers"}
    ),
    # Retention ends a segment, whose producers are saved: 14 lines for each that has appended
    # since the last one, 16 to 100 ms for 100,000. A line for each log.
    "replication/log_maintenance.py:LogMaintenance._arm_retention": _TOPICS
    | {"producers", "markers"},
    # A line or two for each log, three for each share partition, a line for each name: seen at
    # 9,990 only, some milliseconds for 50,000.
    "replication/log_maintenance.py:LogMaintenance._arm_cleaner": _TOPICS,
    "broker/_share_host.py:ShareHost._arm_job": frozenset({"share_states"}),
    "ListConfigResources": frozenset({"topics"}),
    # Producers are copied in one step, as they are of one moment: 16 lines for each, 41 ms for
    # 100,000.
    "DescribeProducers": frozenset({"producers", "markers"}),
}
"""Step -> what it grows with, and does so at once."""
BACKGROUND: Final = frozenset(
    {
        "broker/coordinator_host.py:GroupHost._arm_expiry",
        "broker/_share_host.py:ShareHost._arm_job",
        "broker/_share_partitions.py:SharePartitions._expire_locks",
        "broker/_share_persister.py:SharePersister._on_answer",
        "broker/_peer_requests.py:PeerRequests.handle",
        "broker/_housekeeping.py:Housekeeping._arm_expiry",
        "broker/_housekeeping.py:Housekeeping._checkpoint",
        "broker/_housekeeping.py:Housekeeping._expire_in_steps",
        "broker/_marker_writes.py:MarkerWrites.write",
        "coordinators/group/_group_timers.py:GroupTimers._fire_timer",
        "coordinators/group/_group_timers.py:GroupTimers._begin_turn",
        "coordinators/group/_group_timers.py:GroupTimers._run_late_timers",
        "coordinators/group/service.py:GroupCoordinator._expire_all",
        "coordinators/share/service.py:ShareCoordinator._keep_up",
        "coordinators/txn/_transition_effects.py:MarkerSender._flush",
        "coordinators/txn/_transition_effects.py:MarkerSender._follow_outcomes",
        "coordinators/txn/_transition_effects.py:MarkerSender._send_markers",
        "coordinators/txn/service.py:Scans._arm_scan",
        "coordinators/txn/service.py:Scans._expiries",
        "coordinators/txn/service.py:Scans._timeouts",
        "node/broker_lifecycle.py:BrokerLifecycle._communicate",
        "node/controller_node.py:ControllerNode._arm_rebalance",
        "node/controller_node.py:ControllerNode._arm_unclean",
        "node/controller_node.py:ControllerNode.handle_peer",
        "replica/broker_logs.py:BrokerLogs.checkpoint_high_watermarks",
        "replication/isr_changes.py:IsrChanges._arm_check",
        "replication/log_maintenance.py:LogMaintenance._arm_cleaner",
        "replication/log_maintenance.py:LogMaintenance._arm_retention",
        "replication/log_maintenance.py:LogMaintenance._delete_segments_in_steps",
        "replication/log_maintenance.py:LogMaintenance._note_log_starts_and_rearm",
    }
)
"""What runs by itself: timers, and what they set going."""


_QUERY: Final = "a query"
"""Of a figure, a name or the whole, for the control port or another step."""
METHODS: Final[Mapping[type, Mapping[str, str]]] = {
    TransactionCoordinator: {
        "start": _QUERY,
        "stop": _QUERY,
        "ready": _QUERY,
        "init_producer_id": "InitProducerId",
        "add_partitions": "AddPartitionsToTxn",
        "verify": "Produce",
        "end_txn": "EndTxn",
        "age": _QUERY,
        "describe": "DescribeTransactions",
        "list_transactions": "ListTransactions",
        "owned_partitions": _QUERY,
        "entry": _QUERY,
        "entries": _QUERY,
        "withdrawn_transitions": _QUERY,
        "sendings": _QUERY,
        "snapshot": _QUERY,
        "begin_load": RELOAD,
        "read": RELOAD,
        "unload": RELOAD,
        "leaders_changed": RELOAD,
    },
    ShareCoordinator: {
        "stop": _QUERY,
        "shards": _QUERY,
        "answer": "WriteShareGroupState",
        "begin_load": RELOAD,
        "read": RELOAD,
        "unload": RELOAD,
        "prune": "broker/_share_host.py:ShareHost._arm_job",
        "snapshot_cold": "coordinators/share/service.py:ShareCoordinator._keep_up",
        "topics_deleted": "DeleteTopics",
    },
}
"""Where each public method of a coordinator is measured; groups have a file of their own."""


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize(
    ("stored_kind", "sizes"),
    [
        *(pytest.param(stored_kind, SIZES, id=stored_kind) for stored_kind in STORED),
        *(
            pytest.param(stored_kind, LARGER, id=f"more {stored_kind}", marks=pytest.mark.thorough)
            for stored_kind in AT_ONCE
        ),
    ],
)
def test_nothing_costs_more_than_is_declared(
    stored_kind: str, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_turns, "LOOKS", 1)
    monkeypatch.setattr(tasks, "DUE_PER_TURN_MAX", 1)
    monkeypatch.setattr(parsing, "JOINED_PIECES", 32)
    monkeypatch.setattr(coordinator_loading, "RECORD_NS", SLICE_NS // 4)
    few, medium, many = (costs(stored_kind, size) for size in sizes)
    complaints = [
        *_steps_too_long(stored_kind, few, medium, many),
        *_too_much(stored_kind, few, medium, many),
    ]
    assert not complaints, "\n".join(complaints)
    background = {name for name in many if "/" in name}
    assert background <= BACKGROUND, "a step that is not declared"


def _steps_too_long(stored_kind: str, few: Costs, medium: Costs, many: Costs) -> list[str]:
    complaints = []
    for name, (_, longest) in many.items():
        shorter_step = max(few.get(name, (0, 0))[1], medium.get(name, (0, 0))[1])
        is_declared = stored_kind in WHOLE.get(name, ())
        if longest > STEP_LINES and longest > STEADY_MAX * shorter_step and not is_declared:
            complaints.append(f"{name} in one step: {shorter_step}, {longest}")
    return complaints


def _too_much(stored_kind: str, few: Costs, medium: Costs, many: Costs) -> list[str]:
    complaints = []
    api_names = [name for name in many if "/" not in name]
    for name in api_names:
        lines = few[name][0], medium[name][0], many[name][0]
        if stored_kind in GROWING.get(name, ()):
            complaints += _out_of_proportion(name, *lines)
        elif lines[2] > STEADY_MAX * max(lines[1], FEW_LINES):
            complaints.append(f"{name} grows: {lines}")
    hour = [
        sum(cost[0] for name, cost in costs_of_size.items() if "/" in name)
        for costs_of_size in (few, medium, many)
    ]
    return complaints + _out_of_proportion("an hour", *hour)


def _out_of_proportion(name: str, few: int, medium: int, many: int) -> list[str]:
    # How many turns of the loop a long work takes varies by some of its lines.
    if many - medium <= PROPORTION_MAX * max(medium - few, FEW_LINES) + few // 100:
        return []
    return [f"{name} grows faster than in proportion: {few}, {medium}, {many}"]


@pytest.mark.parametrize("coordinator", METHODS)
def test_each_method_of_a_coordinator_is_measured(coordinator: type) -> None:
    public = {
        attribute_name
        for attribute_name, attribute_value in vars(coordinator).items()
        if callable(attribute_value) and not attribute_name.startswith("_")
    }
    assert METHODS[coordinator].keys() == public
    measured = {RELOAD, _QUERY, *BACKGROUND, *(api_name(handler_key) for handler_key in HANDLERS)}
    assert set(METHODS[coordinator].values()) <= measured


def test_each_api_is_asked_and_what_is_declared_is_there() -> None:
    assert {key for key, _, _ in ASKED} == set(HANDLERS)
    names = {RELOAD, *(api_name(handler_key) for handler_key in HANDLERS)}
    assert GROWING.keys() <= names
    assert WHOLE.keys() <= names | BACKGROUND
    assert all(stored <= STORED.keys() for stored in (*GROWING.values(), *WHOLE.values()))


@pytest.mark.parametrize("step", sorted(step for step in {*BACKGROUND, *WHOLE} if ".py:" in step))
def test_a_step_that_is_declared_has_a_function(step: str) -> None:
    """A renamed function fails here already, and not only in the measurement."""
    file, _, qualified_name = step.partition(":")
    class_name, _, function_name = qualified_name.partition(".")
    module_tree = ast.parse((PACKAGE / file).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = {
        member.name
        for node in module_tree.body
        if isinstance(node, ast.ClassDef) and node.name == class_name
        for member in node.body
        if isinstance(member, functions)
    }
    assert function_name in methods
