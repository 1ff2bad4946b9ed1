"""DescribeClientQuotas v0 and v1: filters are judged, no quota is found."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

Component = tuple[str, int, str | None]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "error", "word"),
    [
        ([], ErrorCode.none, ""),
        ([("user", 0, "x"), ("client-id", 1, None)], ErrorCode.none, ""),
        ([("ip", 2, None)], ErrorCode.none, ""),
        ([("", 2, None)], ErrorCode.invalid_request, "empty entity type"),
        ([("zz", 2, None)], ErrorCode.unsupported_version, "type zz"),
        ([("user", 2, None), ("user", 2, None)], ErrorCode.invalid_request, "more than once"),
        ([("user", 0, None)], ErrorCode.invalid_request, "MATCH_TYPE_EXACT"),
        ([("user", 1, "x")], ErrorCode.invalid_request, "MATCH_TYPE_DEFAULT"),
        ([("user", 2, "x")], ErrorCode.invalid_request, "MATCH_TYPE_SPECIFIED"),
        ([("user", 9, None)], ErrorCode.invalid_request, "match type 9"),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.invalid_request, "combination"),
    ],
)
async def test_filters(
    api: Api, version: int, components: list[Component], error: ErrorCode, word: str
) -> None:
    wanted = [
        {"entity_type": kind, "match_type": number, "match": match}
        for kind, number, match in components
    ]
    answer = await api.ask("DescribeClientQuotas", version, components=wanted, strict=False)
    assert answer.error_code is error
    assert word in answer.error_message
    assert answer.entries == (() if error is ErrorCode.none else None)


async def test_refuse(api: Api) -> None:
    answer = api.refuse("DescribeClientQuotas", 1, ErrorCode.cluster_authorization_failed)
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert answer.entries is None
