"""ConsumerGroupHeartbeat v0 and v1: who has the protocol; the casebook has its answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.errors import ErrorCode

E = ErrorCode


def given(answer: Any) -> list[tuple[int, ...]]:
    return [each.partitions for each in answer.assignment.topic_partitions]


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
