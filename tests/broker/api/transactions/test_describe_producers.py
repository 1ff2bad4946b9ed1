"""DescribeProducers v0: refusal and subject; the casebook has its answers."""

from __future__ import annotations

from typing import Any

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


def values(name: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"name": name, "partition_indexes": partitions}]}


# ``describe_transactions``


async def test_refusal_and_subject(api: Api) -> None:
    wanted = values("orders", 0, 1)
    refused = api.refuse("DescribeProducers", 0, ErrorCode.request_timed_out, **wanted)
    assert {one.error_code for one in refused.topics[0].partitions} == {ErrorCode.request_timed_out}
    about = api.subject("DescribeProducers", 0, **wanted)
    assert [str(one) for one in about.partitions] == ["orders-0", "orders-1"]
