"""OffsetCommit v2 to v10: a refusal; the casebook has its answers."""

from __future__ import annotations

from typing import Any

from tests.support.group_api import GROUP, GroupApi, commit_values
from txnsim.errors import ErrorCode

E = ErrorCode


def error(answer: Any) -> ErrorCode:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    found: ErrorCode = partition.error_code
    return found


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    values = commit_values(groups.api, 5)
    assert error(groups.api.refuse("OffsetCommit", 8, E.not_coordinator, **values)) is (
        E.not_coordinator
    )
    assert values["group_id"] == GROUP
