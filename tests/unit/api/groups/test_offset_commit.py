"""OffsetCommit v2 to v10: positions, who may commit them, topics that are not there."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.group_api import GROUP, GroupApi, commit_values
from tests.support.handlers import NO_SUCH_ID
from txnsim.errors import ErrorCode

E = ErrorCode
NO_ID = UUID(int=0)


def error(answer: Any) -> ErrorCode:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    found: ErrorCode = partition.error_code
    return found


@pytest.mark.parametrize("version", range(2, 11))
async def test_every_version(groups: GroupApi, version: int) -> None:
    answer = await groups.commit(5, version=version, retention_time=60_000)
    assert error(answer) is E.none
    (topic,) = answer.topics
    if version >= 10:
        assert topic.topic_id == groups.api.topic_id("orders")
    else:
        assert topic.name == "orders"
    assert await groups.committed() == (5, E.none)


@pytest.mark.parametrize(
    ("version", "told", "expected"),
    [
        (8, {"generation_id_or_member_epoch": 3}, E.illegal_generation),
        (9, {"generation_id_or_member_epoch": 3}, E.group_id_not_found),
        (8, {"name": "missing"}, E.unknown_topic_or_partition),
        (8, {"name": ""}, E.unknown_topic_or_partition),
        (8, {"partition": 9}, E.unknown_topic_or_partition),
        (8, {"metadata": "x" * 4_097}, E.offset_metadata_too_large),
        (8, {"metadata": None}, E.none),
    ],
)
async def test_refusals(
    groups: GroupApi, version: int, told: dict[str, Any], expected: ErrorCode
) -> None:
    assert error(await groups.commit(5, version=version, **told)) is expected


@pytest.mark.parametrize("topic_id", [NO_SUCH_ID, NO_ID], ids=["unknown", "zero"])
async def test_an_id_that_no_topic_has(groups: GroupApi, topic_id: UUID) -> None:
    values = commit_values(groups.api, 5)
    values["topics"][0]["topic_id"] = topic_id
    answer = await groups.api.ask("OffsetCommit", 10, **values)
    assert error(answer) is E.unknown_topic_id
    assert (answer.topics[0].topic_id or NO_ID) == topic_id


async def test_what_does_not_exist_stands_before_the_rest(groups: GroupApi) -> None:
    values = commit_values(groups.api, 5)
    positions = values["topics"][0]["partitions"]
    positions.append({**positions[0], "partition_index": 9})
    values["topics"].append({"name": "missing", "partitions": [positions[0]]})
    answer = await groups.api.ask("OffsetCommit", 8, **values)
    found = [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.topics
    ]
    unknown = E.unknown_topic_or_partition
    assert found == [("orders", [(9, unknown), (0, E.none)]), ("missing", [(0, unknown)])]


async def test_members_commit_as_their_generation(groups: GroupApi) -> None:
    member = await groups.stable(instance="i")
    mine: dict[str, Any] = {"member_id": member.id, "generation_id_or_member_epoch": 1}
    for told, expected in (
        (mine, E.none),
        ({**mine, "group_instance_id": "i"}, E.none),
        ({**mine, "generation_id_or_member_epoch": 2}, E.illegal_generation),
        ({**mine, "member_id": "nobody"}, E.unknown_member_id),
        ({**mine, "member_id": "nobody", "group_instance_id": "i"}, E.fenced_instance_id),
        ({}, E.unknown_member_id),
    ):
        assert error(await groups.commit(1, **told)) is expected


async def test_members_of_the_consumer_protocol_need_v9_and_their_epoch(groups: GroupApi) -> None:
    joined = await groups.consume("a")
    mine: dict[str, Any] = {
        "member_id": "a",
        "generation_id_or_member_epoch": joined.member_epoch,
    }
    assert error(await groups.commit(1, version=9, **mine)) is E.none
    assert error(await groups.commit(1, version=8, **mine)) is E.unsupported_version
    stale = {**mine, "generation_id_or_member_epoch": joined.member_epoch + 1}
    assert error(await groups.commit(1, version=9, **stale)) is E.stale_member_epoch
    nobody = {**mine, "member_id": "b"}
    assert error(await groups.commit(1, version=9, **nobody)) is E.unknown_member_id


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    values = commit_values(groups.api, 5)
    assert error(groups.api.refuse("OffsetCommit", 8, E.not_coordinator, **values)) is (
        E.not_coordinator
    )
    assert values["group_id"] == GROUP
