"""Heartbeat v0 to v4: a refusal; the casebook has its answers."""

from __future__ import annotations

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    answer = groups.api.refuse("Heartbeat", 0, E.not_coordinator, group_id=GROUP)
    assert answer.error_code is E.not_coordinator
