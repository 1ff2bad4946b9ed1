"""IncrementalAlterConfigs v0 and v1: operations, dry runs, every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(
    *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "orders"
) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in changes
        ],
    }


async def alter(api: Api, *resources: dict[str, Any], version: int = 1, **more: Any) -> Any:
    answer = await api.ask("IncrementalAlterConfigs", version, resources=resources, **more)
    return answer.responses


@pytest.mark.parametrize("version", [0, 1])
async def test_operations_on_a_topic(api: Api, version: int) -> None:
    def own() -> Any:
        return api.broker.image.topics["orders"].configs

    for change, after in (
        (("retention.ms", SET, "5"), {"retention.ms": "5"}),
        (("retention.ms", DELETE, None), {}),
        (("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        (("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": "compact"}),
    ):
        (done,) = await alter(api, resource(change), version=version)
        assert (done.error_code, done.error_message) == (ErrorCode.none, None)
        assert own() == after


async def test_a_dry_run_changes_nothing_but_refuses(api: Api) -> None:
    (good,) = await alter(api, resource(("retention.ms", SET, "5")), validate_only=True)
    (bad,) = await alter(api, resource(("retention.ms", SET, "x")), validate_only=True)
    assert (good.error_code, bad.error_code) == (ErrorCode.none, ErrorCode.invalid_config)
    assert api.broker.image.topics["orders"].configs == {}


@pytest.mark.parametrize("name", ["1", ""])
async def test_dynamic_configs_of_brokers(api: Api, name: str) -> None:
    change = resource(("message.max.bytes", SET, "77"), kind=BROKER, name=name)
    (done,) = await alter(api, change)
    assert done.error_code is ErrorCode.none
    assert api.broker.settings.message_max_bytes == 77
    await alter(api, resource(("message.max.bytes", DELETE, None), kind=BROKER, name=name))
    assert api.broker.settings.message_max_bytes == 1_048_588


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (resource(("nonsense", SET, "1")), ErrorCode.invalid_config, "Unknown topic config name"),
        (resource(("retention.ms", APPEND, "1")), ErrorCode.invalid_config, "is not LIST"),
        (resource(("retention.ms", SET, None)), ErrorCode.invalid_request, "Null value not"),
        (
            resource(("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            ErrorCode.invalid_request,
            "duplicate config keys",
        ),
        (resource(name="missing"), ErrorCode.unknown_topic_or_partition, "'missing' does not"),
        (resource(name="a b"), ErrorCode.invalid_topic_exception, "Topic name is invalid"),
        (resource(name=""), ErrorCode.invalid_request, "Default topic resources are not allowed."),
        (resource(kind=0, name="x"), ErrorCode.invalid_request, "Unknown resource type 0"),
        (resource(kind=99, name="x"), ErrorCode.invalid_request, "Unknown resource type 99"),
        (resource(("x", SET, "INFO"), kind=8, name="1"), ErrorCode.invalid_config, "Logger x does"),
        (resource(("x", DELETE, None), kind=8, name="1"), ErrorCode.invalid_config, "not exist!"),
        (resource(("x", APPEND, "INFO"), kind=8, name="1"), ErrorCode.invalid_request, "APPEND"),
        (resource(("x", 2, None), kind=8, name="1"), ErrorCode.invalid_request, "Null value"),
        (resource(kind=8, name="9"), ErrorCode.invalid_request, "Expected 1, but received 9"),
        (resource(kind=8, name="x"), ErrorCode.invalid_request, "Node id must be an integer"),
        (resource(kind=BROKER, name="9"), ErrorCode.invalid_request, "expected 1, but received 9"),
        (resource(kind=BROKER, name="x"), ErrorCode.invalid_request, "Node id must be an integer"),
        (
            resource(
                ("num.partitions", SET, "1"),
                ("default.replication.factor", SET, "1"),
                kind=BROKER,
                name="1",
            ),
            ErrorCode.invalid_request,
            "dynamically: [num.partitions, default.replication.factor]",
        ),
        (
            resource(("message.max.bytes", SET, "x"), kind=BROKER, name="1"),
            ErrorCode.invalid_request,
            "Not a number of type INT",
        ),
    ],
)
async def test_refusals(api: Api, wanted: dict[str, Any], error: ErrorCode, words: str) -> None:
    before = api.broker.image
    (refused,) = await alter(api, wanted)
    assert refused.error_code is error
    assert words in refused.error_message
    assert api.broker.image is before


@pytest.mark.parametrize("operation", [9, -1])
async def test_an_unknown_operation_trips_the_controller(api: Api, operation: int) -> None:
    (refused,) = await alter(api, resource(("retention.ms", operation, "5")))
    assert (refused.error_code, refused.error_message) == (ErrorCode.unknown_server_error, None)


async def test_a_resource_named_twice_is_refused_and_others_go_on(api: Api) -> None:
    change = ("retention.ms", SET, "5")
    twice = resource(change)
    other = resource(("message.max.bytes", SET, "77"), kind=BROKER, name="1")
    answers = await alter(api, twice, other, twice)
    assert [one.error_code for one in answers] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert answers[0].error_message == "Each resource must appear at most once."
    assert api.broker.image.topics["orders"].configs == {}


async def test_refusing_names_every_resource(api: Api) -> None:
    error = ErrorCode.request_timed_out
    answer = api.refuse("IncrementalAlterConfigs", 0, error, resources=[resource()])
    assert [(one.resource_name, one.error_code) for one in answer.responses] == [("orders", error)]


GROUP, METRICS = 32, 16


@pytest.mark.parametrize(
    ("kind", "key", "good", "bad"),
    [
        (GROUP, "consumer.session.timeout.ms", "50000", "1"),
        (METRICS, "interval.ms", "100", "99"),
    ],
)
async def test_groups_and_subscriptions_are_there_while_they_say_something(
    api: Api, kind: int, key: str, good: str, bad: str
) -> None:
    def own() -> Any:
        image = api.broker.image
        return image.group_configs if kind == GROUP else image.client_metrics

    (done,) = await alter(api, resource((key, SET, good), kind=kind, name="x"))
    assert (done.error_code, own()) == (ErrorCode.none, {"x": {key: good}})
    for change in ((key, SET, bad), (key, APPEND, good), (key, SET, None), ("nonsense", SET, "1")):
        (refused,) = await alter(api, resource(change, kind=kind, name="x"))
        assert refused.error_code in (ErrorCode.invalid_config, ErrorCode.invalid_request)
        assert own() == {"x": {key: good}}
    (refused,) = await alter(api, resource((key, SET, good), kind=kind, name=""))
    assert refused.error_code is ErrorCode.invalid_request
    (done,) = await alter(api, resource((key, DELETE, None), kind=kind, name="x"))
    assert (done.error_code, own()) == (ErrorCode.none, {})


async def test_no_level_of_a_logger_can_always_be_altered(api: Api) -> None:
    before = api.broker.image
    (done,) = await alter(api, resource(kind=8, name="1"))
    assert (done.error_code, done.error_message) == (ErrorCode.none, None)
    (odd,) = await alter(api, resource(("x", 4, "INFO"), kind=8, name="1"))
    assert (odd.error_code, odd.error_message) == (ErrorCode.unknown_server_error, None)
    assert api.broker.image is before


async def test_a_broker_is_altered_where_it_is(api_of_three: Api) -> None:
    change = resource(("message.max.bytes", SET, "77"), kind=BROKER, name="2")
    (refused,) = await alter(api_of_three, change)
    assert refused.error_code is ErrorCode.invalid_request
    assert refused.error_message == "Unexpected broker id, expected 1, but received 2"
    (done,) = await alter(api_of_three.at(2), change)
    assert done.error_code is ErrorCode.none
