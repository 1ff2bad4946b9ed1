"""ConsumerGroupHeartbeat v0 and v1: join, assignment, leave; what is refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.errors import ErrorCode

E = ErrorCode


def given(answer: Any) -> list[tuple[int, ...]]:
    return [each.partitions for each in answer.assignment.topic_partitions]


async def test_a_member_joins_stays_and_leaves(groups: GroupApi) -> None:
    joined = await groups.consume("a")
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (E.none, "a", 2)
    assert joined.heartbeat_interval == timedelta(seconds=5)
    assert given(joined) == [(0, 1, 2)]
    assert joined.assignment.topic_partitions[0].topic_id == groups.api.topic_id("orders")
    stays = await groups.consume("a", 2)
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (E.none, 2, None)
    left = await groups.consume("a", -1)
    assert (left.error_code, left.member_epoch) == (E.none, -1)
    assert (await groups.consume("a", 2)).error_code is E.unknown_member_id


async def test_in_v0_the_coordinator_may_choose_the_id(groups: GroupApi) -> None:
    joined = await groups.consume("", version=0)
    assert joined.error_code is E.none
    assert len(joined.member_id) == 22
    assert (await groups.consume("", version=1)).error_code is E.invalid_request


async def test_owned_partitions_are_named_by_topic_ids(groups: GroupApi) -> None:
    await groups.consume("a")
    owned = ({"topic_id": groups.api.topic_id("orders"), "partitions": (0, 1, 2)},)
    again = await groups.consume("a", 2, topic_partitions=owned)
    assert (again.error_code, again.assignment) == (E.none, None)


async def test_a_regular_expression_is_looked_up_after_the_answer(groups: GroupApi) -> None:
    regex: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.*"}
    first = await groups.consume("a", **regex)
    assert (first.error_code, given(first)) == (E.none, [])
    for _ in range(100):
        answer = await groups.consume("a", first.member_epoch)
        if answer.assignment is not None:
            break
        await asyncio.sleep(0)
    assert given(answer) == [(0, 1, 2)]


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"group_id": ""}, E.invalid_request),
        ({"rack_id": ""}, E.invalid_request),
        ({"rebalance_timeout": -1}, E.invalid_request),
        ({"server_assignor": "nonsense"}, E.unsupported_assignor),
        ({"epoch": 3}, E.group_id_not_found),
        ({"epoch": -2}, E.invalid_request),
        (
            {"subscribed_topic_names": None, "subscribed_topic_regex": "("},
            E.invalid_regular_expression,
        ),
    ],
)
async def test_refusals(groups: GroupApi, told: dict[str, Any], error: ErrorCode) -> None:
    answer = await groups.consume("a", **told)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (error, None, 0)
    assert answer.error_message


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    answer = groups.api.refuse("ConsumerGroupHeartbeat", 1, E.not_coordinator, group_id=GROUP)
    assert (answer.error_code, answer.error_message) == (E.not_coordinator, None)


async def test_without_its_feature_there_is_no_consumer_protocol(groups: GroupApi) -> None:
    update = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}
    lowered = await groups.api.ask("UpdateFeatures", 1, feature_updates=[update])
    assert lowered.error_code is E.none
    answer = await groups.consume("a")
    assert answer.error_code is E.unsupported_version
    described = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP])
    assert described.groups[0].error_code is E.unsupported_version


@pytest.mark.parametrize("release", ["3.9", "4.0"])
async def test_which_releases_have_the_consumer_protocol(release: str) -> None:
    async with group_api(as_version=(release,)) as groups:
        answer = await groups.consume("a", version=0)
        has = release != "3.9"
        assert answer.error_code is (E.none if has else E.unsupported_version)
