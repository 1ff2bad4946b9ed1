"""DescribeClientQuotas v0 and v1: a refusal; the transcripts have its answers."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


async def test_refuse(api: Api) -> None:
    answer = api.refuse("DescribeClientQuotas", 1, ErrorCode.cluster_authorization_failed)
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert answer.entries is None
