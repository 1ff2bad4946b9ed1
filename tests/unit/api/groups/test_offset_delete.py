"""OffsetDelete v0: positions go, those of topics that members consume stay."""

from __future__ import annotations

from typing import Any

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


def values(*indexes: int, name: str = "orders", group_id: str = GROUP) -> dict[str, Any]:
    partitions = [{"partition_index": each} for each in indexes]
    return {"group_id": group_id, "topics": [{"name": name, "partitions": partitions}]}


def errors(answer: Any) -> dict[int, ErrorCode]:
    return {
        each.partition_index: each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


async def test_positions_go(groups: GroupApi) -> None:
    await groups.commit(5)
    answer = await groups.api.ask("OffsetDelete", 0, **values(0, 1, 9))
    assert answer.error_code is E.none
    assert errors(answer) == {0: E.none, 1: E.none, 9: E.unknown_topic_or_partition}
    assert await groups.committed() == (-1, E.none)


async def test_what_a_member_consumes_stays(groups: GroupApi) -> None:
    member = await groups.stable()
    mine: dict[str, Any] = {"member_id": member.id, "generation_id_or_member_epoch": 1}
    await groups.commit(5, **mine)
    answer = await groups.api.ask("OffsetDelete", 0, **values(0))
    assert errors(answer) == {0: E.group_subscribed_to_topic}
    assert await groups.committed() == (5, E.none)


async def test_refusals_of_the_whole(groups: GroupApi) -> None:
    missing = await groups.api.ask("OffsetDelete", 0, **values(0, group_id="missing"))
    assert (missing.error_code, missing.topics) == (E.group_id_not_found, ())
    nameless = await groups.api.ask("OffsetDelete", 0, **values(0, group_id=""))
    assert nameless.error_code is E.invalid_group_id
    refused = groups.api.refuse("OffsetDelete", 0, E.not_coordinator, **values(0))
    assert refused.error_code is E.not_coordinator
    joined = await groups.join(protocol_type="connect")
    assert joined.error_code is E.none
    busy = await groups.api.ask("OffsetDelete", 0, **values(0))
    assert (busy.error_code, busy.topics) == (E.non_empty_group, ())
