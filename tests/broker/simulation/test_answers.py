"""What is asked bounds what is answered: every API of the registry that only asks, with its
heaviest element named often. The answer is within the budget, or an error, or the connection ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from uuid import UUID

import pytest

from tests.support.clusters import VirtualCluster, client_of, real_cluster, run_cluster, values
from tests.support.raw_connection import WireClient
from txnsim.api.registry import HANDLERS
from txnsim.api.request import READS
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.faults.actions import (
    Corrupt,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Pass,
    Reorder,
    Stall,
    Throttle,
)
from txnsim.faults.interception import DamagedPart
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.runtime.trace import TraceLevel
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire import codec
from txnsim.wire.apis import api_name
from txnsim.wire.plain_values import message_from

BUDGET: Final = 40_000
TIMES: Final = 900
"""So often an element is named; each is small enough for the request to be answered with an error.
"""
PARTITIONS: Final = 100
_ALL: Final = range(PARTITIONS)
_ANY: Final = {"pattern_type_filter": 1, "operation": 1, "permission_type": 1}
_USERS: Final = [{"entity_type": "user", "match_type": 2, "match": None}]
ASKED: Final[dict[int, tuple[int, dict[str, Any]]]] = {
    2: (9, {"replica_id": -1, "topics": [{"name": "wide", "partitions": [
        {"partition_index": 0, "timestamp": -1}] * TIMES}]}),
    3: (12, {"topics": None}),
    9: (9, {"groups": [{"group_id": "g", "member_epoch": -1, "topics": None}] * TIMES}),
    10: (4, {"key_type": 0, "coordinator_keys": ["g"] * TIMES}),
    15: (5, {"groups": ["classic"] * TIMES}),
    16: (5, {}),
    23: (4, {"replica_id": -2, "topics": [{"topic": "wide", "partitions": [
        {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}] * TIMES}]}),
    29: (3, {"resource_type_filter": 1, **_ANY}),
    32: (4, {"resources": [{"resource_type": 2, "resource_name": "wide",
                            "configuration_keys": None}] * TIMES, "include_synonyms": True,
             "include_documentation": True}),
    35: (4, {"topics": None}),
    41: (3, {"owners": None}),
    46: (0, {"timeout": 1_000, "topics": None}),
    48: (1, {"components": _USERS}),
    50: (0, {"users": None}),
    55: (2, {"topics": [{"topic_name": "__cluster_metadata",
                         "partitions": [{"partition_index": 0}] * TIMES}]}),
    60: (1, {"endpoint_type": 1}),
    61: (0, {"topics": [{"name": "wide", "partition_indexes": [0] * TIMES}]}),
    65: (0, {"transactional_ids": ["t"] * TIMES}),
    66: (1, {"duration_filter": -1}),
    69: (1, {"group_ids": ["consumers"] * TIMES}),
    74: (1, {}),
    77: (1, {"group_ids": ["sharers"] * TIMES}),
    75: (0, {"topics": [{"name": "wide"}] * TIMES, "response_partition_limit": 2_000}),
    87: (1, {"group_id": "consumers", "topics": [{"topic_id": UUID(int=7), "partitions": [
        {"partition": 0, "leader_epoch": 0}] * TIMES}]}),
    89: (1, {"group_ids": ["none"] * TIMES}),
    90: (1, {"groups": [{"group_id": "sharers", "topics": [
        {"topic_name": "wide", "partitions": [0] * TIMES}]}]}),
}  # fmt: skip
SHARE_GROUP_DESCRIBE: Final = 77
TOO_LARGE: Final = {9, 32, 55, 65, 69, SHARE_GROUP_DESCRIBE, 89, 90}
"""Those of which so much is more than the budget."""


def test_every_api_that_only_asks_is_asked() -> None:
    assert set(ASKED) == READS
    assert set(HANDLERS) >= READS


@pytest.mark.parametrize("api_key", sorted(READS), ids=api_name)
def test_an_answer_is_within_its_budget(api_key: int) -> None:
    version, values = ASKED[api_key]

    async def main(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await WireClient.open(broker.host, broker.port)
        await _fill_partitions(wire)
        if api_key == SHARE_GROUP_DESCRIBE:
            await _share(wire)
        size_bytes, message = await _ask_with_size(wire, api_key, version, values)
        assert 0 < size_bytes <= BUDGET, f"{size_bytes} bytes"
        is_refused = b"POLICY_VIOLATION" in repr(message).upper().encode() or (
            "policy_violation" in repr(message)
        )
        assert is_refused == (api_key in TOO_LARGE), repr(message)[:300]
        await wire.close()

    run_cluster(main, brokers=1, topics=(("wide", PARTITIONS),), answer_max_bytes=BUDGET)


async def _ask_with_size(
    wire: WireClient, api_key: int, version: int, values: dict[str, Any]
) -> tuple[int, Any]:
    message = message_from(codec.request_class(api_key, version), values)
    wire.send(wire.frame(api_key, version, message))
    size_bytes = int.from_bytes(await wire.reader.readexactly(4), "big")
    frame = await wire.reader.readexactly(size_bytes)
    return size_bytes, codec.read_response(api_key, version, frame)[1]


async def _until(
    wire: WireClient, api_key: int, version: int, values: dict[str, Any], ok: Any
) -> Any:
    for _ in range(200):
        _, answer = await _ask_with_size(wire, api_key, version, values)
        if ok(answer):
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError(repr(answer))


async def _fill_partitions(wire: WireClient) -> None:
    """Make positions and a transaction on all partitions, and a consumer group that owns them."""
    for key_type in (0, 1):
        keys = {"key_type": key_type, "coordinator_keys": ["g"]}
        await _until(wire, 10, 4, keys, lambda answer: not answer.coordinators[0].error_code)
    partitions = [
        {"partition_index": partition_index, "committed_offset": 1} for partition_index in _ALL
    ]
    commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    commit["topics"] = [{"name": "wide", "partitions": partitions}]  # type: ignore[assignment]
    await _until(wire, 8, 9, commit, lambda answer: not answer.topics[0].partitions[0].error_code)
    init = {"transactional_id": "t", "transaction_timeout": 60_000}
    init |= {"producer_id": -1, "producer_epoch": -1}
    producer_identity = await _until(wire, 22, 4, init, lambda answer: not answer.error_code)
    added_fields = {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_producer_id": producer_identity.producer_id,
        "v3_and_below_producer_epoch": producer_identity.producer_epoch,
        "v3_and_below_topics": [{"name": "wide", "partitions": _ALL}],
    }
    await _ask_with_size(wire, 24, 3, added_fields)
    beat = {"group_id": "consumers", "member_id": "m", "member_epoch": 0, "instance_id": None}
    beat |= {"rack_id": None, "rebalance_timeout": 60_000, "subscribed_topic_names": ["wide"]}  # type: ignore[dict-item]
    beat |= {"subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": []}  # type: ignore[dict-item]
    await _until(wire, 68, 1, beat, lambda answer: not answer.error_code)
    await _ask_with_size(wire, 68, 1, beat)


async def _share(wire: WireClient) -> None:
    """Make a share group with a member, separately, because it enlarges other answers."""
    beat = {"group_id": "sharers", "member_id": "m" * 60, "member_epoch": 0, "rack_id": None}
    beat["subscribed_topic_names"] = ["wide"]
    await _until(wire, 76, 1, beat, lambda answer: not answer.error_code)


HEAVY_BYTES: Final = 10_000
FEW: Final[dict[int, tuple[int, dict[str, Any]]]] = {
    15: (5, {"groups": ["heavy"] * 10}),
    32: (4, {"resources": [{"resource_type": 2, "resource_name": "wide",
                            "configuration_keys": None}] * 10}),
}  # fmt: skip
"""Of so few elements that nothing is done in slices."""


@pytest.mark.parametrize("api_key", FEW, ids=api_name)
def test_few_heavy_elements_are_within_the_budget_as_well(api_key: int) -> None:
    version, values = FEW[api_key]

    async def main(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await WireClient.open(broker.host, broker.port)
        await _fill_partitions(wire)
        await _heavy(wire)
        size_bytes, message = await _ask_with_size(wire, api_key, version, values)
        assert 0 < size_bytes <= BUDGET, f"{size_bytes} bytes"
        assert "policy_violation" in repr(message)
        size_bytes, message = await _ask_with_size(wire, api_key, version, _first_of(values))
        assert HEAVY_BYTES < size_bytes <= BUDGET, "one of them is answered"
        await wire.close()

    run_cluster(main, brokers=1, topics=(("wide", PARTITIONS),), answer_max_bytes=BUDGET)


def test_an_answer_of_few_pieces_that_nobody_has_announced_ends_the_connection() -> None:
    """The leader of a classic group gets the metadata that all members have sent."""

    async def main(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await WireClient.open(broker.host, broker.port)
        await _fill_partitions(wire)
        message = message_from(codec.request_class(11, 3), _joining(BUDGET + 1))
        wire.send(wire.frame(11, 3, message))
        assert await wire.is_closed_by_broker()
        await wire.close()

    run_cluster(main, brokers=1, topics=(("wide", PARTITIONS),), answer_max_bytes=BUDGET)


def _first_of(values: dict[str, Any]) -> dict[str, Any]:
    return {name: listed_values[:1] for name, listed_values in values.items()}


def _joining(size: int) -> dict[str, Any]:
    return {
        "group_id": "heavy",
        "session_timeout": 30_000,
        "rebalance_timeout": 1_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(size)}],
    }


async def _heavy(wire: WireClient) -> None:
    """Make a group with a member of much metadata, and a config with a long value."""
    join_reply = await _until(
        wire, 11, 3, _joining(HEAVY_BYTES), lambda answer: not answer.error_code
    )
    sync_fields = {"group_id": "heavy", "generation_id": join_reply.generation_id}
    sync_fields |= {"member_id": join_reply.member_id}
    sync_fields["assignments"] = [{"member_id": join_reply.member_id, "assignment": b""}]
    await _ask_with_size(wire, 14, 2, sync_fields)
    config_value = ",".join(["0:1"] * (HEAVY_BYTES // 4))
    name = "leader.replication.throttled.replicas"
    config = {"name": name, "config_operation": 0, "value": config_value}
    resource = {"resource_type": 2, "resource_name": "wide", "configs": [config]}
    _, alter_answer = await _ask_with_size(
        wire, 44, 1, {"resources": [resource], "validate_only": False}
    )
    assert not alter_answer.responses[0].error_code, alter_answer


# Faults on the wire over a whole transaction: nothing is lost or doubled, a seed repeats them, and
# they strike the same over TCP and where brokers send each other bytes.


CLIENT = FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE
PEER = FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE
RECORDS = [f"record {record_number}".encode() for record_number in range(12)]
P0 = TopicPartition("orders", 0)


def arm(injector: Injector, action: Action, point: FaultPoint, **rule_fields: object) -> None:
    count = len(injector.rules())
    injector.arm(FaultRule(id=f"rule {count}", point=point, action=action, **rule_fields))  # type: ignore[arg-type]


def arm_bad_weather(injector: Injector) -> None:
    """A bit of everything, by chance; each rule three times at most."""
    luck = {"client_id": "app", "probability": 0.15, "limit": 3}
    for point in CLIENT:
        for action in (Delay(delay_ms=40), Drop(), Disconnect(), Stall(stall_ms=30)):
            arm(injector, action, point, **luck)
        arm(injector, Throttle(throttle_ms=25), point, **luck)
    arm(injector, DropAnswer(), CLIENT[0], **luck)
    for api in ("Produce", "EndTxn"):  # an InitProducerId that comes twice fences its own producer
        arm(injector, Duplicate(times=2), CLIENT[0], **{**luck, "api": api})
    arm(injector, Corrupt(what=DamagedPart.CRC), CLIENT[0], **{**luck, "api": "Produce"})
    between: dict[str, object] = {"probability": 0.1, "limit": 3}
    for point in PEER:
        for between_action in (Delay(delay_ms=40), Disconnect(), Stall(stall_ms=30), Reorder()):
            arm(injector, between_action, point, **between)
    arm(injector, Duplicate(), PEER[0], **between)


async def transact(client: Cluster) -> None:
    """Three transactions of four records; a client that has to try again, tries again."""
    async with Producer(client, transactional_id="tx", request_timeout_ms=2_000) as producer:
        await producer.init_transactions()
        for start in range(0, len(RECORDS), 4):
            producer.begin()
            for record_number, config_value in enumerate(RECORDS[start : start + 4]):
                await producer.send("orders", record_number % 3, config_value)
            await producer.commit()


async def bad_weather(cluster: VirtualCluster) -> tuple[str, list[int]]:
    injector = cluster.sim.injector
    async with cluster.client(request_timeout_ms=2_000) as client:
        arm_bad_weather(injector)  # our client asks once for its first metadata
        await transact(client)
        strike_counts = [armed_rule.struck for armed_rule in injector.rules()]
        injector.disarm_all()
        values_read = await values(client, "orders")
    assert sorted(config_value for config_value in values_read if config_value) == sorted(RECORDS)
    return cluster.env.tracer.hash, strike_counts


def story(seed: int) -> tuple[str, list[int]]:
    return run_cluster(bad_weather, seed=seed, trace_level=TraceLevel.FULL)


def test_bad_weather_loses_nothing_and_doubles_nothing(seed: int) -> None:
    _, strike_counts = story(seed)
    assert sum(strike_counts) > 5


@pytest.mark.slow
def test_the_same_seed_strikes_the_same_crossings() -> None:
    assert story(3) == story(3)
    assert story(3)[1] != story(4)[1]


def test_a_followers_fetch_is_matched_by_any_topic_of_its_session() -> None:
    async def main(cluster: VirtualCluster) -> None:
        if cluster.leader(P0) != 1:
            cluster.sim.move_leader(P0, BrokerId(1))
        async with cluster.client() as client, Producer(client) as producer:
            await producer.send("orders", 0, b"the sessions are there")
            for topic, is_expected in (("orders", True), ("no-such-topic", False)):
                passing_rule = FaultRule(
                    id=topic, point=PEER[0], action=Pass(), api="Fetch", broker=1,
                    source="broker/2", topic=topic, partition=0,
                )  # fmt: skip
                armed_rule = cluster.sim.injector.arm(passing_rule)
                await producer.send("orders", 0, b"one more")
                assert (armed_rule.struck > 0) is is_expected

    run_cluster(main)


async def test_they_strike_over_tcp_as_well() -> None:
    async with real_cluster() as sim:
        injector = sim.injector
        actions: tuple[Action, ...] = (
            Duplicate(),
            Corrupt(what=DamagedPart.CRC),
            Throttle(throttle_ms=5),
        )
        for nth, action in enumerate(actions, 1):
            arm(injector, action, CLIENT[0], api="Produce", client_id="app", nth=nth, limit=1)
        arm(injector, Disconnect(), CLIENT[1], api="EndTxn", client_id="app", limit=1)
        arm(injector, Stall(stall_ms=5), PEER[0], api="WriteTxnMarkers", limit=1)
        arm(injector, Delay(delay_ms=5), FaultPoint.CONNECTION_OPEN, limit=1)
        async with client_of(sim.environment, sim) as client:
            await transact(client)
            assert injector.never_struck() == ()
            injector.disarm_all()
            values_read = await values(client, "orders")
        assert sorted(config_value for config_value in values_read if config_value) == sorted(
            RECORDS
        )
