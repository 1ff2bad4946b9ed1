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
from txnsim.api.authorization._parts import PARTS
from txnsim.api.request import NoResponse
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType

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
