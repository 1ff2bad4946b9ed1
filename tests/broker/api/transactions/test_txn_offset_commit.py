"""TxnOffsetCommit v0 to v5: words for loading; the casebook has its answers."""

from __future__ import annotations

from typing import Any

from tests.support.group_api import GroupApi, commit_values
from txnsim.errors import ErrorCode

E = ErrorCode
Identity = tuple[int, int]


def values(groups: GroupApi, identity: Identity, offset: int = 7, **more: Any) -> dict[str, Any]:
    mine = {
        "transactional_id": "id",
        "producer_id": identity[0],
        "producer_epoch": identity[1],
    }
    return commit_values(groups.api, offset, **{**mine, **more})


def one(answer: Any) -> ErrorCode:
    found: ErrorCode = answer.topics[0].partitions[0].error_code
    return found


async def test_versions_that_do_not_know_loading_get_another_error(
    groups: GroupApi,
) -> None:
    told = values(groups, (1, 0))
    for version, error in ((1, E.coordinator_not_available), (2, E.coordinator_load_in_progress)):
        refused = groups.api.refuse(
            "TxnOffsetCommit", version, E.coordinator_load_in_progress, **told
        )
        assert one(refused) is error
    plain = groups.api.refuse("TxnOffsetCommit", 1, E.not_coordinator, **told)
    assert one(plain) is E.not_coordinator
    about = groups.api.subject("TxnOffsetCommit", 3, **told)
    assert (about.transactional_id, about.producer_id) == ("id", 1)
