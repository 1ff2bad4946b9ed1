"""Configs of subscriptions: what they may be, and what they come to."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.client_metrics_configs import (
    client_metrics_refusal,
    client_metrics_values,
    subscription,
)
from txnsim.metadata.config_keys import ConfigSource

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.invalid_config, ErrorCode.invalid_request


def refusal(found: Rejection | None) -> tuple[ErrorCode, str] | None:
    return None if found is None else (found.error, found.reason)


@pytest.mark.parametrize(
    ("wanted", "error", "why"),
    [
        ({"metrics": "*", "interval.ms": "100", "match": ""}, None, ""),
        ({"interval.ms": "3600000"}, None, ""),
        (
            {"interval.ms": "99"},
            INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            {"interval.ms": "x"},
            INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        ({"metrics": "a,,b"}, INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        ({"match": "client_id=a.*, client_source_port = 1"}, None, ""),
        ({"match": "client_id"}, INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ({"match": "client_id="}, INVALID_CONFIG, "Illegal client matching pattern: client_id="),
        ({"match": "a=b"}, INVALID_CONFIG, "Illegal client matching pattern: a=b"),
        ({"match": r"client_id=\p{Lu}[{]\{a{2}"}, None, ""),
        (
            {"match": "client_id=a{2,3}"},  # the comma ends the line
            INVALID_CONFIG,
            "Illegal client matching pattern: client_id=a{2",
        ),
        ({"match": "client_id=["}, INVALID_CONFIG, "Illegal client matching pattern: client_id=["),
        (
            {"match": "client_id=(?!a).*"},
            INVALID_CONFIG,
            "Illegal client matching pattern: client_id=(?!a).*",
        ),
        ({"nonsense": "1"}, INVALID_REQUEST, "Unknown client metrics configuration: nonsense"),
    ],
)
def test_a_subscription_says_what_how_often_and_of_whom(
    wanted: dict[str, str], error: ErrorCode | None, why: str
) -> None:
    expected = None if error is None else (error, why)
    assert refusal(client_metrics_refusal("s", wanted)) == expected


def test_a_subscription_needs_a_name() -> None:
    expected = (INVALID_REQUEST, "Subscription name can't be empty")
    assert refusal(client_metrics_refusal("", {})) == expected


def test_what_a_subscription_does_not_say_has_a_default() -> None:
    found = subscription({})
    assert (found.metrics, found.interval_ms, found.match) == ((), 300_000, {})
    found = subscription({"metrics": "a, b", "interval.ms": "100", "match": "client_id = x.*"})
    assert (found.metrics, found.interval_ms) == (("a", "b"), 100)
    assert [(name, one.pattern) for name, one in found.match.items()] == [("client_id", "x.*")]


def test_a_subscription_is_described_whether_it_is_there_or_not() -> None:
    nothing = client_metrics_values({})
    assert [(one.name, one.value, one.source, one.synonyms) for one in nothing] == [
        ("interval.ms", "300000", ConfigSource.DEFAULT, ()),
        ("match", "", ConfigSource.DEFAULT, ()),
        ("metrics", "", ConfigSource.DEFAULT, ()),
    ]
    *_, metrics = client_metrics_values({"metrics": "a, a ,b"})
    source = ConfigSource.CLIENT_METRICS
    assert (metrics.value, metrics.source) == ("a,b", source)
    assert metrics.synonyms == (("metrics", "a,b", source),)
