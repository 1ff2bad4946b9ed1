"""Resources that carry configs: kinds, topics, ids of brokers."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from txnsim.api._configs.config_resources import (
    ResourceType,
    node_of,
    resource_type,
    topic_refusal,
)
from txnsim.api.request import invalid
from txnsim.errors import ErrorCode


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (0, "UNKNOWN"),
        (1, "UNKNOWN"),
        (2, "TOPIC"),
        (4, "BROKER"),
        (8, "BROKER_LOGGER"),
        (16, "CLIENT_METRICS"),
        (32, "GROUP"),
        (-1, "UNKNOWN"),
        (99, "UNKNOWN"),
    ],
)
def test_kinds_are_numbered_as_kafka_does(number: int, kind: str) -> None:
    assert resource_type(number) is ResourceType[kind]


@pytest.mark.parametrize(
    ("name", "node"), [("1", 1), ("-1", -1), ("+7", 7), ("", None), ("x", None), ("1.5", None)]
)
def test_a_brokers_name_is_its_id(name: str, node: int | None) -> None:
    assert node_of(name) == node


async def test_a_topic_must_be_named_well_and_exist(api: Api) -> None:
    request = api.request("DescribeConfigs", 4)
    assert topic_refusal(request, "orders") is None
    bad = topic_refusal(request, "a b")
    assert bad is not None
    assert bad.error is ErrorCode.invalid_topic_exception
    missing = topic_refusal(request, "missing")
    assert missing is not None
    assert missing.error is ErrorCode.unknown_topic_or_partition
    assert missing.reason == "The topic 'missing' does not exist."


def test_an_invalid_request_has_its_words() -> None:
    assert invalid("why").error is ErrorCode.invalid_request
    assert invalid("why").reason == "why"
