"""LeaveGroup v0 to v5: a refusal; the casebook has its answers."""

from __future__ import annotations

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


async def test_the_whole_request_refused(groups: GroupApi) -> None:
    for version in (0, 5):
        answer = groups.api.refuse("LeaveGroup", version, E.not_coordinator, group_id=GROUP)
        assert answer.error_code is E.not_coordinator
