"""OffsetFetch v1 to v10: several groups, refusals; the casebook has its answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.errors import ErrorCode

E = ErrorCode


def values(groups: GroupApi, *indexes: int, **more: Any) -> dict[str, Any]:
    """In both shapes."""
    topic = {"name": "orders", "partition_indexes": indexes or (0,)}
    group = {
        "group_id": GROUP,
        "topics": [{**topic, "topic_id": groups.api.topic_id("orders")}],
        "member_id": None,
        "member_epoch": -1,
        **more,
    }
    return {"require_stable": False, "groups": [group], "group_id": GROUP, "topics": [topic]}


def only(answer: Any) -> Any:
    """The one group of an answer, by itself or in a list."""
    groups = getattr(answer, "groups", None)
    return answer if groups is None else groups[0]


async def test_several_groups_each_with_its_error(groups: GroupApi) -> None:
    await groups.commit(5)
    await groups.consume("a", group_id="new")
    base = values(groups)["groups"][0]
    wanted = [base, {**base, "group_id": "new", "member_id": "b", "member_epoch": 1}]
    answer = await groups.api.ask("OffsetFetch", 9, groups=wanted, require_stable=False)
    assert [each.error_code for each in answer.groups] == [E.none, E.unknown_member_id]


@pytest.mark.parametrize(("rules", "times"), [({}, 2), ({"positions_are_told_as_asked": False}, 1)])
async def test_a_partition_that_is_named_twice(rules: dict[str, bool], times: int) -> None:
    async with group_api(rules=rules) as groups:
        answer = await groups.api.ask("OffsetFetch", 9, **values(groups, 0, 0))
    assert len(answer.groups[0].topics[0].partitions) == times


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({}, E.unknown_server_error),
        ({"large_positions_are_server_errors": False}, E.invalid_commit_offset_size),
    ],
)
async def test_a_position_that_does_not_fit(rules: dict[str, bool], error: ErrorCode) -> None:
    small = {"name": "max.message.bytes", "config_operation": 0, "value": "100"}
    topic = {"resource_type": 2, "resource_name": "__consumer_offsets", "configs": [small]}
    async with group_api(rules=rules) as groups:
        await groups.commit(5)
        await groups.api.ask("IncrementalAlterConfigs", 1, resources=[topic])
        answer = await groups.commit(6)
    assert answer.topics[0].partitions[0].error_code is error


async def test_a_deleted_topic_has_no_id(groups: GroupApi) -> None:
    await groups.commit(5)
    await groups.api.ask("DeleteTopics", 1, topic_names=["orders"])
    answer = await groups.api.ask(
        "OffsetFetch",
        10,
        groups=[{"group_id": GROUP, "topics": None, "member_id": None, "member_epoch": -1}],
    )
    assert answer.groups[0].topics == ()


@pytest.mark.parametrize("version", [1, 2, 7, 8])
async def test_errors_of_the_group(groups: GroupApi, version: int) -> None:
    for partition in range(3):
        groups.api.broker.groups.unload(partition)
    answer = only(await groups.api.ask("OffsetFetch", version, **values(groups)))
    if version == 1:
        assert answer.topics[0].partitions[0].error_code is E.not_coordinator
    else:
        assert (answer.error_code, answer.topics) == (E.not_coordinator, ())
    refused = groups.api.refuse("OffsetFetch", version, E.not_coordinator, **values(groups))
    assert type(only(refused)) is type(answer)
