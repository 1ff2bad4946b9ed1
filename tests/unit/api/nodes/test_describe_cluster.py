"""DescribeCluster v0 to v2: a refusal; the casebook has its answers."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


async def test_refusing_says_nothing_of_the_cluster(api: Api) -> None:
    answer = api.refuse("DescribeCluster", 1, ErrorCode.request_timed_out)
    assert (answer.error_code, answer.brokers) == (ErrorCode.request_timed_out, ())
