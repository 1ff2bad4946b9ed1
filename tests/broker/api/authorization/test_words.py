"""What a refusal says beside its error code, as measured on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import handlers
from tests.support.security import GuardedApi
from txnsim.api.authorization._parts import REFUSED_AT_ONCE
from txnsim.api.authorization._words import worded
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


@pytest.mark.parametrize(
    ("rules", "text"),
    [({}, None), ({"brokers_guard_their_configs": False}, "Cluster authorization failed.")],
)
@pytest.mark.parametrize(("name", "version"), [("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)])
async def test_a_broker_refuses_without_words_since_it_guards_its_configs(
    name: str, version: int, rules: dict[str, bool], text: str | None
) -> None:
    kinds = [(4, "1"), (4, ""), (16, "metrics")]
    resources = [{"resource_type": kind, "resource_name": what} for kind, what in kinds]
    async with handlers(rules=rules) as found:
        answer = await GuardedApi(found).ask(name, version, resources=resources)
    told = [one.error_message for one in answer.responses]
    assert told == [text, text, "Cluster authorization failed."]


async def test_an_answer_without_a_message_is_left_alone(api: GuardedApi) -> None:
    request = api.api.request("Produce", 9)
    assert await worded(request, NoResponse.CLOSE) is NoResponse.CLOSE


@pytest.mark.parametrize(
    ("name", "version", "asked", "answered"),
    [
        ("DescribeGroups", 5, "groups", "groups"),
        ("ConsumerGroupDescribe", 1, "group_ids", "groups"),
        ("DescribeTransactions", 0, "transactional_ids", "transaction_states"),
    ],
)
async def test_many_are_refused_one_by_one_and_in_order(
    api: GuardedApi, name: str, version: int, asked: str, answered: str
) -> None:
    names = [f"n-{number}" for number in range(3 * REFUSED_AT_ONCE + 1)] + ["n-0"]
    told = getattr(await api.ask(name, version, **{asked: names}), answered)
    assert [getattr(one, "group_id", None) or one.transactional_id for one in told] == names
    assert {one.error_code.name.endswith("authorization_failed") for one in told} == {True}
