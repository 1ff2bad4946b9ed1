"""Requests that name resources one by one: the forbidden ones fail alone, whether they exist or
not.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import KEYS
from tests.support.logs import plain
from tests.support.rights import OFFSETS, TOPICS
from tests.support.rights import PARTS as PART_CASES
from tests.support.security import GuardedApi, acl
from txnsim.api.authorization.parts import PARTS
from txnsim.api.request import NoResponse
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, Operation, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
FORBIDDEN = ErrorCode.topic_authorization_failed


@pytest.mark.parametrize(("name", "version", "values", "operation", "path", "granted"), PART_CASES)
async def test_a_forbidden_topic_fails_alone_and_does_not_show_whether_it_exists(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    operation: Operation,
    path: str,
    granted: list[Any],
) -> None:
    api.grant(*granted)
    await have_group(api)
    errors = errors_by_topic(await api.ask(name, version, **values), path)
    assert errors == dict.fromkeys(TOPICS, FORBIDDEN)
    api.grant(acl(TOPIC, "orders", operation))
    errors = errors_by_topic(await api.ask(name, version, **values), path)
    assert errors.pop("orders") is not FORBIDDEN
    assert errors == {"hidden": FORBIDDEN, "missing": FORBIDDEN}
    api.grant(acl(TOPIC, "*", operation))
    errors = errors_by_topic(await api.ask(name, version, **values), path)
    assert FORBIDDEN not in errors.values()


async def have_group(api: GuardedApi) -> None:
    await api.api.until(
        lambda answer: answer.error_code is ErrorCode.none, "FindCoordinator", 1, key="g"
    )
    await api.api.until(
        lambda answer: answer.topics[0].partitions[0].error_code is ErrorCode.none,
        "OffsetCommit",
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=OFFSETS[:1],
    )


def errors_by_topic(answer: Any, path: str) -> dict[str, ErrorCode]:
    field, _, inner = path.partition(".")
    errors = {}
    for topic in getattr(answer, field):
        name = next(
            getattr(topic, one) for one in ("name", "topic", "resource_name") if hasattr(topic, one)
        )
        error = topic if not inner else getattr(topic, inner)[0]
        errors[name] = next(
            getattr(error, one)
            for one in ("error_code", "partition_error_code")
            if hasattr(error, one)
        )
    return errors


@pytest.mark.parametrize(
    ("name", "version", "field", "answered", "operation"),
    [
        ("DeleteGroups", 2, "groups_names", "results", Operation.DELETE),
        ("DescribeGroups", 5, "groups", "groups", Operation.DESCRIBE),
        ("ConsumerGroupDescribe", 1, "group_ids", "groups", Operation.DESCRIBE),
    ],
)
async def test_a_forbidden_group_fails_alone(
    api: GuardedApi, name: str, version: int, field: str, answered: str, operation: Operation
) -> None:
    api.grant(acl(GROUP, "g", operation))
    answer = await api.ask(name, version, **{field: ["g", "other"]})
    errors = {group.group_id: group.error_code for group in getattr(answer, answered)}
    assert errors["g"] is not ErrorCode.group_authorization_failed
    assert errors["other"] is ErrorCode.group_authorization_failed


def test_the_tables_have_every_api() -> None:
    tried = {KEYS[name] for name, *_ in PART_CASES} | {42}
    assert PARTS.keys() <= tried


@pytest.mark.parametrize(
    ("kind", "name", "right", "error"),
    [
        (4, "1", acl(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE_CONFIGS), 31),
        (8, "1", acl(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE_CONFIGS), 31),
        (16, "m", acl(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE_CONFIGS), 31),
        (32, "g", acl(GROUP, "g", Operation.DESCRIBE_CONFIGS), 30),
    ],
)
async def test_configs_of_other_resources_have_rights_of_their_own(
    api: GuardedApi, kind: int, name: str, right: Any, error: int
) -> None:
    values = {"resources": [{"resource_type": kind, "resource_name": name}]}
    answer = await api.ask("DescribeConfigs", 4, **values)
    assert answer.results[0].error_code == error
    api.grant(right)
    answer = await api.ask("DescribeConfigs", 4, **values)
    assert answer.results[0].error_code != error


async def test_loggers_can_not_be_replaced_so_no_right_is_asked_for(api: GuardedApi) -> None:
    values = {"resources": [{"resource_type": 8, "resource_name": "1"}]}
    answer = await api.ask("AlterConfigs", 2, **values)
    assert answer.responses[0].error_code is ErrorCode.invalid_request
    answer = await api.ask("IncrementalAlterConfigs", 1, **values)
    assert answer.responses[0].error_code is ErrorCode.cluster_authorization_failed


async def test_configs_of_no_known_resource_are_refused_as_ever(api: GuardedApi) -> None:
    values = {"resources": [{"resource_type": 64, "resource_name": "x"}]}
    answer = await api.ask("DescribeConfigs", 4, **values)
    assert answer.results[0].error_code is ErrorCode.invalid_request


async def test_without_acknowledgements_a_forbidden_topic_closes_the_connection(
    api: GuardedApi,
) -> None:
    values = {"transactional_id": None, "acks": 0}
    data = {"index": 0, "records": plain()}
    denied = [{"name": "orders", "partition_data": [data]}]
    assert await api.ask("Produce", 9, **values, topic_data=denied) is NoResponse.CLOSE
    api.grant(acl(TOPIC, "orders", Operation.WRITE))
    never = [
        {"name": "orders", "partition_data": [{"index": 0, "records": None}]},
        {"name": "hidden", "partition_data": [data]},
    ]
    assert await api.ask("Produce", 9, **values, topic_data=never) is NoResponse.NEVER


async def test_a_topic_id_is_judged_by_the_name_behind_it(api: GuardedApi) -> None:
    ids = [api.api.topic_id("orders"), api.api.topic_id("hidden")]
    api.grant(acl(TOPIC, "orders", Operation.WRITE))
    answer = await api.ask(
        "Produce",
        13,
        transactional_id=None,
        acks=-1,
        topic_data=[
            {"topic_id": topic_id, "partition_data": [{"index": 0, "records": plain()}]}
            for topic_id in ids
        ],
    )
    errors = {one.topic_id: one.partition_responses[0].error_code for one in answer.responses}
    assert errors == {ids[0]: ErrorCode.none, ids[1]: FORBIDDEN}


async def test_followers_may_ask_for_epochs_and_read_everything(api: GuardedApi) -> None:
    epochs = {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    wanted = {
        "replica_id": 1,
        "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [{"partition": 0}]}],
    }
    answer = await api.ask("Fetch", 12, **wanted)
    assert answer.responses[0].partitions[0].error_code is FORBIDDEN
    api.grant(acl(CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION))
    answer = await api.ask("OffsetForLeaderEpoch", 3, **epochs)
    assert answer.topics[0].partitions[0].error_code is not FORBIDDEN
    answer = await api.ask("Fetch", 12, **wanted)
    assert answer.responses[0].partitions[0].error_code is not FORBIDDEN
