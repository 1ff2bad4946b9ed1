"""AddOffsetsToTxn v0 to v4: refusal and subject; the casebook has its answers."""

from __future__ import annotations

from typing import Any

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


def values(identity: tuple[int, int], *, name: str = "id") -> dict[str, Any]:
    return {
        "transactional_id": name,
        "producer_id": identity[0],
        "producer_epoch": identity[1],
        "group_id": GROUP,
    }


async def test_refusal_and_subject(groups: GroupApi) -> None:
    refused = groups.api.refuse("AddOffsetsToTxn", 1, E.producer_fenced, **values((1, 0)))
    assert refused.error_code is E.invalid_producer_epoch
    about = groups.api.subject("AddOffsetsToTxn", 1, **values((1, 0)))
    assert (about.transactional_id, about.producer_id) == ("id", 1)
