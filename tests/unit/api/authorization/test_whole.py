"""Requests that are refused as a whole: each API, the right it asks for, its error."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.authorization.whole import CHECKS
from sim.errors import ErrorCode
from sim.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.support.handlers import KEYS
from tests.support.logs import batch, plain
from tests.support.security import GuardedApi, acl

GROUP, CLUSTER, TXN = ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
TOPIC = ResourceType.TOPIC
NAMES = {GROUP: "g", CLUSTER: CLUSTER_NAME, TXN: "tx", TOPIC: "orders"}
ERRORS = {
    GROUP: ErrorCode.group_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    TXN: ErrorCode.transactional_id_authorization_failed,
}

OFFSETS = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
OF_GROUP: dict[str, Any] = {"group_id": "g"}
OF_TXN: dict[str, Any] = {"transactional_id": "tx"}
IN_BOTH = {**OF_GROUP, **OF_TXN}
ADDED = {
    "v3_and_below_transactional_id": "tx",
    "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
}
MARKERS = {"markers": [{"topics": [{"name": "orders", "partition_indexes": [0]}]}]}
WRITTEN = {
    **OF_TXN,
    "acks": -1,
    "topic_data": [
        {"name": "orders", "partition_data": [{"index": 0, "records": batch(transactional=True)}]}
    ],
}

CASES = [
    ("Produce", 9, WRITTEN, [(TXN, Operation.WRITE)]),
    ("OffsetCommit", 8, {**OF_GROUP, "topics": OFFSETS}, [(GROUP, Operation.READ)]),
    ("JoinGroup", 5, OF_GROUP, [(GROUP, Operation.READ)]),
    ("Heartbeat", 3, OF_GROUP, [(GROUP, Operation.READ)]),
    ("LeaveGroup", 3, OF_GROUP, [(GROUP, Operation.READ)]),
    ("SyncGroup", 3, OF_GROUP, [(GROUP, Operation.READ)]),
    ("InitProducerId", 4, OF_TXN, [(TXN, Operation.WRITE)]),
    ("InitProducerId", 4, {"transactional_id": None}, [(CLUSTER, Operation.IDEMPOTENT_WRITE)]),
    ("AddPartitionsToTxn", 3, ADDED, [(TXN, Operation.WRITE)]),
    (
        "AddPartitionsToTxn",
        5,
        {"transactions": [{"transactional_id": "tx"}]},
        [(CLUSTER, Operation.CLUSTER_ACTION)],
    ),
    ("AddOffsetsToTxn", 3, IN_BOTH, [(TXN, Operation.WRITE), (GROUP, Operation.READ)]),
    ("EndTxn", 3, OF_TXN, [(TXN, Operation.WRITE)]),
    ("WriteTxnMarkers", 1, MARKERS, [(CLUSTER, Operation.ALTER)]),
    ("WriteTxnMarkers", 1, MARKERS, [(CLUSTER, Operation.CLUSTER_ACTION)]),
    (
        "TxnOffsetCommit",
        3,
        {**IN_BOTH, "topics": OFFSETS},
        [(TXN, Operation.WRITE), (GROUP, Operation.READ)],
    ),
    ("DescribeAcls", 3, {}, [(CLUSTER, Operation.DESCRIBE)]),
    ("CreateAcls", 3, {"creations": [{}]}, [(CLUSTER, Operation.ALTER)]),
    ("DeleteAcls", 3, {"filters": [{}]}, [(CLUSTER, Operation.ALTER)]),
    (
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/", "topics": [{"name": "orders", "partitions": [0]}]}]},
        [(CLUSTER, Operation.ALTER)],
    ),
    ("DescribeLogDirs", 4, {}, [(CLUSTER, Operation.DESCRIBE)]),
    ("ElectLeaders", 2, {}, [(CLUSTER, Operation.ALTER)]),
    ("ListPartitionReassignments", 0, {}, [(CLUSTER, Operation.DESCRIBE)]),
    ("OffsetDelete", 0, OF_GROUP, [(GROUP, Operation.DELETE)]),
    ("DescribeClientQuotas", 1, {}, [(CLUSTER, Operation.DESCRIBE_CONFIGS)]),
    (
        "AlterClientQuotas",
        1,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}]}]},
        [(CLUSTER, Operation.ALTER_CONFIGS)],
    ),
    ("DescribeUserScramCredentials", 0, {}, [(CLUSTER, Operation.DESCRIBE)]),
    (
        "AlterUserScramCredentials",
        0,
        {"deletions": [{"name": "a", "mechanism": 1}]},
        [(CLUSTER, Operation.ALTER)],
    ),
    (
        "DescribeQuorum",
        2,
        {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]},
        [(CLUSTER, Operation.DESCRIBE)],
    ),
    ("UpdateFeatures", 1, {}, [(CLUSTER, Operation.ALTER)]),
    ("UnregisterBroker", 0, {}, [(CLUSTER, Operation.ALTER)]),
    ("ConsumerGroupHeartbeat", 0, OF_GROUP, [(GROUP, Operation.READ)]),
    ("ListConfigResources", 1, {}, [(CLUSTER, Operation.DESCRIBE_CONFIGS)]),
]


@pytest.mark.parametrize(("name", "version", "values", "needs"), CASES)
async def test_each_right_is_asked_for_and_enough(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    needs: list[tuple[ResourceType, Operation]],
) -> None:
    for kind, operation in needs:
        assert errors_of(await api.ask(name, version, **values)) == {ERRORS[kind]}
        api.grant(acl(kind, NAMES[kind], operation))
    assert not errors_of(await api.ask(name, version, **values)) & set(ERRORS.values())


def test_the_table_has_every_row() -> None:
    tried = {KEYS[name] for name, *_ in CASES}
    assert tried == CHECKS.keys() - {45}  # AlterPartitionReassignments is not spoken here


async def test_what_is_not_transactional_needs_no_transactional_id(api: GuardedApi) -> None:
    api.grant(acl(TOPIC, "orders", Operation.WRITE))
    values = {
        **WRITTEN,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": plain()}]}],
    }
    answer = await api.ask("Produce", 9, **values)
    assert errors_of(answer) == {ErrorCode.none}
    answer = await api.ask("Produce", 9, **{**values, "transactional_id": None})
    assert errors_of(answer) == {ErrorCode.none}


async def test_who_may_write_anywhere_may_be_idempotent(api: GuardedApi) -> None:
    api.grant(acl(TOPIC, "orders", Operation.WRITE))
    answer = await api.ask("InitProducerId", 4, transactional_id=None)
    assert answer.error_code is not ErrorCode.cluster_authorization_failed


async def test_two_phase_commit_is_a_right_of_its_own(api: GuardedApi) -> None:
    api.grant(acl(TXN, "tx", Operation.WRITE))
    values = {"transactional_id": "tx", "enable2_pc": True}
    answer = await api.ask("InitProducerId", 6, **values)
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed


def errors_of(answer: Any) -> set[ErrorCode]:
    """Every error code anywhere in an answer, but for those of elements beside a failure."""
    found: set[ErrorCode] = set()
    if isinstance(answer, tuple):
        for one in answer:
            found |= errors_of(one)
    elif hasattr(answer, "__dataclass_fields__"):
        for name in answer.__dataclass_fields__:
            value = getattr(answer, name)
            if isinstance(value, ErrorCode):
                found.add(value)
            else:
                found |= errors_of(value)
    return found
