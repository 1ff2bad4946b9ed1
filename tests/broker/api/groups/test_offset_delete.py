"""OffsetDelete v0: refusals of the whole; the casebook has its answers."""

from __future__ import annotations

from typing import Any

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

E = ErrorCode


def values(*indexes: int, name: str = "orders", group_id: str = GROUP) -> dict[str, Any]:
    partitions = [{"partition_index": each} for each in indexes]
    return {"group_id": group_id, "topics": [{"name": name, "partitions": partitions}]}


async def test_refusals_of_the_whole(groups: GroupApi) -> None:
    missing = await groups.api.ask("OffsetDelete", 0, **values(0, group_id="missing"))
    assert (missing.error_code, missing.topics) == (E.group_id_not_found, ())
    nameless = await groups.api.ask("OffsetDelete", 0, **values(0, group_id=""))
    assert nameless.error_code is E.invalid_group_id
    joined = await groups.join(protocol_type="connect")
    assert joined.error_code is E.none
    busy = await groups.api.ask("OffsetDelete", 0, **values(0))
    assert (busy.error_code, busy.topics) == (E.non_empty_group, ())
