"""OffsetFetch v1 to v10: one group or several, some positions or all, stable ones only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi
from tests.support.handlers import NO_SUCH_ID
from txnsim.errors import ErrorCode

E = ErrorCode


def values(groups: GroupApi, *indexes: int, **more: Any) -> dict[str, Any]:
    """In both shapes."""
    topics = [
        {
            "name": "orders",
            "topic_id": groups.api.topic_id("orders"),
            "partition_indexes": indexes or (0,),
        }
    ]
    group = {
        "group_id": GROUP,
        "topics": topics,
        "member_id": None,
        "member_epoch": -1,
        **more,
    }
    return {"require_stable": False, "groups": [group], **group}


def only(answer: Any) -> Any:
    """The one group of an answer, by itself or in a list."""
    groups = getattr(answer, "groups", None)
    return answer if groups is None else groups[0]


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version(groups: GroupApi, version: int) -> None:
    await groups.commit(5, metadata="mine")
    answer = only(await groups.api.ask("OffsetFetch", version, **values(groups, 0, 1)))
    assert getattr(answer, "error_code", E.none) is E.none
    (topic,) = answer.topics
    found = [(one.committed_offset, one.metadata, one.error_code) for one in topic.partitions]
    assert found == [(5, "mine", E.none), (-1, "", E.none)]


@pytest.mark.parametrize("version", [2, 7, 8, 10])
@pytest.mark.parametrize("group_id", [GROUP, "missing"])
async def test_all_positions(groups: GroupApi, version: int, group_id: str) -> None:
    await groups.commit(5)
    wanted = values(groups, topics=None, group_id=group_id)
    answer = only(await groups.api.ask("OffsetFetch", version, **wanted))
    assert answer.error_code is E.none
    found = [one.committed_offset for topic in answer.topics for one in topic.partitions]
    assert found == ([5] if group_id == GROUP else [])
    if version == 10 and found:
        assert answer.topics[0].topic_id == groups.api.topic_id("orders")


async def test_several_groups_each_with_its_error(groups: GroupApi) -> None:
    await groups.commit(5)
    await groups.consume("a", group_id="new")
    base = values(groups)["groups"][0]
    wanted = [base, {**base, "group_id": "new", "member_id": "b", "member_epoch": 1}]
    answer = await groups.api.ask("OffsetFetch", 9, groups=wanted, require_stable=False)
    assert [each.error_code for each in answer.groups] == [E.none, E.unknown_member_id]


async def test_an_unknown_id_is_an_error_of_its_topic(groups: GroupApi) -> None:
    topics = [{"topic_id": NO_SUCH_ID, "partition_indexes": [0]}]
    answer = only(await groups.api.ask("OffsetFetch", 10, **values(groups, topics=topics)))
    assert answer.topics[0].topic_id == NO_SUCH_ID
    assert answer.topics[0].partitions[0].error_code is E.unknown_topic_id


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
