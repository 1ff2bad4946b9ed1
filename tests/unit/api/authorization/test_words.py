"""What a refusal says beside its error code, as measured on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.security import GuardedApi
from txnsim.api.authorization.words import worded
from txnsim.api.request import NoResponse


@pytest.mark.parametrize(
    ("name", "version", "values", "field", "text"),
    [
        ("DescribeQuorum", 2, {}, None, "Cluster authorization failed."),
        ("DescribeUserScramCredentials", 0, {}, None, None),
        ("DescribeClientQuotas", 1, {}, None, None),
        (
            "DescribeConfigs",
            4,
            {"resources": [{"resource_type": 8, "resource_name": "1"}]},
            "results",
            "Cluster authorization failed.",
        ),
        (
            "IncrementalAlterConfigs",
            1,
            {"resources": [{"resource_type": 8, "resource_name": "1"}]},
            "responses",
            None,
        ),
        ("ConsumerGroupHeartbeat", 1, {"group_id": "g"}, None, None),
        (
            "FindCoordinator",
            3,
            {"key_type": 1, "key": "tx"},
            None,
            "Transactional Id authorization failed.",
        ),
    ],
)
async def test_some_say_what_is_missing(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    field: str | None,
    text: str | None,
) -> None:
    answer = await api.ask(name, version, **values)
    told = answer if field is None else getattr(answer, field)[0]
    assert told.error_message == text


def test_an_answer_without_a_message_is_left_alone() -> None:
    assert worded(0, NoResponse.CLOSE) is NoResponse.CLOSE
