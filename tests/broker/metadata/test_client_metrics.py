"""Metrics of clients: who is to push what, when it may, and what is taken (KIP-714)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import count

import msgspec
import pytest

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.client_metrics import (
    ALL,
    CHARACTERS_MAX,
    EXPIRY_MS,
    INSTANCES_MAX,
    NAMES_MAX,
    WEIGHT,
    ClientMetrics,
    MetricsPush,
    MetricsToPush,
    TelemetryClient,
    requested_metrics,
)
from txnsim.metadata.client_metrics_configs import (
    client_metrics_refusal,
    client_metrics_values,
    subscription,
)
from txnsim.metadata.config_keys import ConfigSource
from txnsim.wire.codec import run_to_end
from txnsim.wire.compression import GZIP, NONE, ZSTD, compress

E = ErrorCode
ID, OTHER_ID = uuid.UUID(int=0xFACADE_0001), uuid.UUID(int=0xFACADE_0002)
INTERVAL_MS = 300_000
NOTHING: Mapping[str, Mapping[str, str]] = {}
CLIENT = TelemetryClient(
    connection="c",
    client_id="app",
    software_name="lib",
    software_version="1.2",
    address="127.0.0.1",
    port="50000",
)
TOO_EARLY, UNKNOWN = E.throttling_quota_exceeded, E.unknown_subscription_id


class Asker:
    """A client instance that asks a broker for metrics to push, with its own clock."""

    def __init__(self, metrics: ClientMetrics, instance_id: uuid.UUID | None = ID) -> None:
        self.metrics = metrics
        self.instance_id = instance_id
        self.client = CLIENT
        self.subscriptions = NOTHING
        self.now_ms = 1_000
        self.subscription_id = 0

    def get(self) -> ErrorCode:
        answer = run_to_end(
            self.metrics.get(self.instance_id, self.client, self.subscriptions, now_ms=self.now_ms)
        )
        if not isinstance(answer, MetricsToPush):
            return answer.error
        self.wanted = answer
        self.instance_id, self.subscription_id = answer.instance_id, answer.subscription_id
        return E.none

    def push(
        self,
        metrics: bytes = b"",
        *,
        kind: int = NONE,
        is_last: bool = False,
        subscription_id: int | None = None,
    ) -> ErrorCode:
        push = MetricsPush(
            instance_id=self.instance_id,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            is_last=is_last,
            compression=kind,
            metrics=metrics,
        )
        rejection = run_to_end(
            self.metrics.push(push, self.client, self.subscriptions, now_ms=self.now_ms)
        )
        return E.none if rejection is None else rejection.error


def metrics_of(max_bytes: int = 100) -> ClientMetrics:
    numbers = count(7)
    return ClientMetrics(max_bytes=max_bytes, new_id=lambda: uuid.UUID(int=next(numbers)))


def requested_of(
    instance_id: uuid.UUID, client: TelemetryClient, subscriptions: Mapping[str, Mapping[str, str]]
) -> MetricsToPush:
    return run_to_end(requested_metrics(instance_id, client, subscriptions))


@pytest.fixture
def asker() -> Asker:
    return Asker(metrics_of())


# What is wanted


@pytest.mark.parametrize(
    ("subscriptions", "metrics", "subscription_id"),
    [
        # As Apache Kafka 4.3.1 answered.
        ({"one": {"metrics": "a.", "interval.ms": "3000000"}}, ("a.",), -349766805),
        (
            {"one": {"metrics": "a.,b."}, "two": {"metrics": "b.,c.", "interval.ms": "20000"}},
            ("c.", "b.", "a."),
            -1648647444,
        ),
        ({"one": {"metrics": "a."}, "two": {"metrics": "*,x"}}, ("*",), -158658617),
    ],
)
def test_subscriptions_together_say_what_is_wanted(
    subscriptions: Mapping[str, Mapping[str, str]], metrics: tuple[str, ...], subscription_id: int
) -> None:
    wanted_metrics = requested_of(uuid.UUID(int=0xFACADE_001E), CLIENT, subscriptions)
    assert (wanted_metrics.metrics, wanted_metrics.subscription_id) == (metrics, subscription_id)


def test_names_are_in_the_order_of_a_java_hash_set() -> None:
    names = [f"org.apache.kafka.{word}.{number}." for word in "ab" for number in range(9)]
    wanted_metrics = requested_of(
        uuid.UUID(int=0xFACADE_001E), CLIENT, {"one": {"metrics": ",".join(names)}}
    )
    # As Apache Kafka 4.3.1 answered.
    order = "a4 b3 a5 b4 a2 b1 a3 b2 a8 b7 b8 a6 b5 a7 b6 a0 a1 b0"
    assert wanted_metrics.metrics == tuple(
        f"org.apache.kafka.{words[0]}.{words[1]}." for words in order.split()
    )
    assert wanted_metrics.subscription_id == 1639323552


@pytest.mark.parametrize("length", [1, CHARACTERS_MAX // NAMES_MAX + 1])
def test_who_would_be_asked_for_too_much_is_asked_for_all(length: int) -> None:
    names = [f"{number:0{length}}" for number in range(NAMES_MAX + (length == 1))]
    many_subscriptions = {
        f"{number}": {"metrics": ",".join(names[number::10])} for number in range(10)
    }
    assert requested_of(ID, CLIENT, many_subscriptions).metrics == (ALL,)
    fewer = {f"{number}": {"metrics": ",".join(names[number:9_000:10])} for number in range(10)}
    assert set(requested_of(ID, CLIENT, fewer).metrics) == set(names[:9_000])


def test_each_subscription_is_a_step() -> None:
    many_subscriptions = {f"{number}": {"metrics": "a.,b."} for number in range(3)}
    assert list(requested_metrics(ID, CLIENT, many_subscriptions)) == [WEIGHT + 2] * 3


def test_the_id_of_a_subscription_is_an_int_of_32_bits() -> None:
    ids = {
        requested_of(uuid.UUID(int=number << 64 | number * 77), CLIENT, NOTHING).subscription_id
        for number in range(0, 1 << 32, 1 << 27)
    }
    assert len(ids) > 1
    assert all(-(2**31) <= subscription_id < 2**31 for subscription_id in ids)
    assert min(ids) < 0 < max(ids)


def test_the_shortest_interval_counts_and_none_is_longer_than_the_default() -> None:
    short_interval = {"interval.ms": "20000"}
    long_interval = {"interval.ms": "3000000"}
    for subscriptions, expected_ms in (
        ({}, INTERVAL_MS),
        ({"a": long_interval}, INTERVAL_MS),
        ({"a": long_interval, "b": short_interval}, 20_000),
    ):
        assert requested_of(ID, CLIENT, subscriptions).interval_ms == expected_ms


@pytest.mark.parametrize(
    ("match", "is_chosen"),
    [
        ("client_id=app", True),
        ("client_id=ap", False),
        ("client_id=ap.*,client_software_name=lib", True),
        ("client_id=ap.*,client_software_name=other", False),
        ("client_software_version=1\\..*", True),
        ("client_source_address=127\\.0\\.0\\.1", True),
        ("client_source_port=[0-9]+", True),
        ("client_instance_id=AAAAAAAA.*", True),
    ],
)
def test_a_subscription_chooses_by_what_is_known_of_a_client(match: str, is_chosen: bool) -> None:
    wanted_metrics = requested_of(ID, CLIENT, {"one": {"metrics": "yes", "match": match}})
    assert (wanted_metrics.metrics == ("yes",)) is is_chosen


def test_no_expression_takes_long_over_a_name() -> None:
    client = msgspec.structs.replace(CLIENT, client_id="a" * 5_000)
    subscriptions = {"one": {"metrics": "yes", "match": "client_id=(a+)+b"}}
    assert requested_of(ID, client, subscriptions).metrics == ()


def test_a_client_whose_name_is_no_name_is_not_chosen() -> None:
    client = msgspec.structs.replace(CLIENT, client_id="a" * 1_000_000)
    subscriptions = {"one": {"metrics": "yes", "match": "client_id=[a-z]+"}}
    assert requested_of(ID, client, subscriptions).metrics == ()


def test_what_is_not_known_of_a_client_matches_nothing() -> None:
    nameless_client = msgspec.structs.replace(CLIENT, software_name=None)
    subscriptions = {"one": {"metrics": "yes", "match": "client_software_name=.*"}}
    assert requested_of(ID, nameless_client, subscriptions).metrics == ()


# GetTelemetrySubscriptions


@pytest.mark.parametrize("empty_id", [None, uuid.UUID(int=0)])
def test_a_client_without_an_id_is_given_one(empty_id: uuid.UUID | None) -> None:
    asker = Asker(metrics_of(), empty_id)
    assert asker.get() is E.none
    assert asker.instance_id == uuid.UUID(int=7)
    assert asker.metrics.max_bytes == 100


def test_a_client_asks_once_per_interval(asker: Asker) -> None:
    assert asker.get() is E.none
    asker.now_ms += INTERVAL_MS - 1
    assert asker.get() is TOO_EARLY
    asker.now_ms += 1
    assert asker.get() is E.none


def test_after_a_push_a_client_waits_as_well(asker: Asker) -> None:
    asker.get()
    asker.now_ms += INTERVAL_MS - 1
    assert asker.push() is E.none
    asker.now_ms += 1
    assert asker.get() is TOO_EARLY


@pytest.mark.parametrize(
    ("kind", "subscription_id", "error"),
    [(NONE, 1, UNKNOWN), (9, None, E.unsupported_compression_type)],
)
def test_a_client_that_must_ask_again_may_do_so_at_once(
    asker: Asker, kind: int, subscription_id: int | None, error: ErrorCode
) -> None:
    asker.get()
    assert asker.push(kind=kind, subscription_id=subscription_id) is error
    assert asker.get() is E.none
    assert asker.get() is TOO_EARLY


def test_other_subscriptions_are_answered_at_once(asker: Asker) -> None:
    asker.get()
    asker.subscriptions = {"one": {"metrics": "a."}}
    asker.client = msgspec.structs.replace(CLIENT, client_id="somebody else by now")
    assert asker.get() is E.none
    assert asker.wanted.metrics == ("a.",)
    assert asker.get() is TOO_EARLY


def test_who_a_client_is_was_settled_when_it_was_met(asker: Asker) -> None:
    asker.get()
    asker.client = msgspec.structs.replace(CLIENT, client_id="other")
    asker.subscriptions = {"one": {"metrics": "yes", "match": "client_id=app"}}
    asker.get()
    assert asker.wanted.metrics == ("yes",)


# PushTelemetry


def test_the_first_push_comes_when_it_likes_the_next_after_an_interval(asker: Asker) -> None:
    asker.get()
    asker.now_ms += 1
    assert asker.push() is E.none
    asker.now_ms += INTERVAL_MS - 1
    assert asker.push() is TOO_EARLY
    asker.now_ms += 1
    assert asker.push() is E.none


def test_the_last_push_is_never_too_early_and_ends_it(asker: Asker) -> None:
    asker.get()
    asker.push()
    assert asker.push(is_last=True) is E.none
    assert asker.push() is E.invalid_request
    # A refused push counts as one that was not the last.
    assert asker.push(is_last=True) is E.none


@pytest.mark.parametrize("reserved_id", [None, uuid.UUID(int=0), uuid.UUID(int=1)])
def test_reserved_ids_push_nothing(reserved_id: uuid.UUID | None) -> None:
    asker = Asker(metrics_of(), reserved_id)
    assert asker.push() is E.invalid_request
    assert asker.metrics.instance_count == 0


def test_a_client_that_never_asked_has_another_subscription(asker: Asker) -> None:
    assert asker.push(subscription_id=0) is UNKNOWN


@pytest.mark.parametrize(
    ("kind", "payload", "error", "counted_bytes"),
    [
        (NONE, b"x" * 100, E.none, 100),
        (NONE, b"x" * 101, E.telemetry_too_large, 0),
        (ZSTD, compress(ZSTD, b"x" * 100), E.none, 100),
        (ZSTD, compress(ZSTD, b"x" * 101), E.invalid_record, 0),
        (GZIP, b"no gzip", E.invalid_record, 0),
        (5, b"x", E.unsupported_compression_type, 0),
        (-1, b"x", E.unsupported_compression_type, 0),
        (9, b"", E.unsupported_compression_type, 0),
    ],
)
def test_what_is_pushed_is_bounded_and_counted(
    asker: Asker, kind: int, payload: bytes, error: ErrorCode, counted_bytes: int
) -> None:
    asker.get()
    assert asker.push(payload, kind=kind) is error
    assert asker.metrics.bytes_total == counted_bytes
    assert asker.metrics.pushes == {error: 1}


# Forgetting


def test_a_client_is_forgotten_with_its_connection(asker: Asker) -> None:
    asker.get()
    asker.metrics.forget_connection("another connection")
    assert asker.get() is TOO_EARLY
    asker.metrics.forget_connection(CLIENT.connection)
    assert asker.metrics.instance_count == 0
    assert asker.get() is E.none


@pytest.mark.parametrize(("interval", "kept_ms"), [("300000", 3 * INTERVAL_MS), ("100", EXPIRY_MS)])
def test_a_silent_client_is_forgotten_after_a_while(interval: str, kept_ms: int) -> None:
    for away_ms, error in ((kept_ms - 1, E.invalid_request), (kept_ms, E.none)):
        asker = Asker(metrics_of())
        asker.subscriptions = {"one": {"interval.ms": interval}}
        asker.get()
        asker.push(is_last=True)
        asker.now_ms += away_ms
        assert asker.push() is error


def test_of_too_many_the_one_that_was_silent_longest_is_forgotten() -> None:
    metrics = metrics_of()
    first_asker, second_asker = Asker(metrics, ID), Asker(metrics, OTHER_ID)
    first_asker.get()
    second_asker.get()
    for instance_number in range(INSTANCES_MAX - 2):
        Asker(metrics, uuid.UUID(int=1 << 100 | instance_number)).get()
    assert first_asker.get() is TOO_EARLY
    Asker(metrics, uuid.UUID(int=1 << 101)).get()
    assert metrics.instance_count == INSTANCES_MAX
    assert first_asker.get() is TOO_EARLY
    assert second_asker.get() is E.none


def test_a_connection_whose_client_was_forgotten_before_ends_quietly() -> None:
    metrics = metrics_of()
    Asker(metrics, ID).get()
    for instance_number in range(INSTANCES_MAX):
        asker = Asker(metrics, uuid.UUID(int=1 << 100 | instance_number))
        asker.client = msgspec.structs.replace(CLIENT, connection=instance_number)
        asker.get()
    metrics.forget_connection(CLIENT.connection)
    assert metrics.instance_count == INSTANCES_MAX


# Configs of subscriptions: what they may be, and what they come to.


SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.invalid_config, ErrorCode.invalid_request


def refusal(rejection: Rejection | None) -> tuple[ErrorCode, str] | None:
    return None if rejection is None else (rejection.error, rejection.reason)


@pytest.mark.parametrize(
    ("configs", "error", "reason"),
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
    configs: dict[str, str], error: ErrorCode | None, reason: str
) -> None:
    expected = None if error is None else (error, reason)
    assert refusal(client_metrics_refusal("s", configs)) == expected


def test_a_subscription_needs_a_name() -> None:
    expected = (INVALID_REQUEST, "Subscription name can't be empty")
    assert refusal(client_metrics_refusal("", {})) == expected


def test_what_a_subscription_does_not_say_has_a_default() -> None:
    default_subscription = subscription({})
    assert (
        default_subscription.metrics,
        default_subscription.interval_ms,
        default_subscription.match,
    ) == ((), 300_000, {})
    own_subscription = subscription(
        {"metrics": "a, b", "interval.ms": "100", "match": "client_id = x.*"}
    )
    assert (own_subscription.metrics, own_subscription.interval_ms) == (("a", "b"), 100)
    assert [(name, pattern.pattern) for name, pattern in own_subscription.match.items()] == [
        ("client_id", "x.*")
    ]


def test_a_subscription_is_described_whether_it_is_there_or_not() -> None:
    default_values = client_metrics_values({})
    assert [
        (config_value.name, config_value.value, config_value.source, config_value.synonyms)
        for config_value in default_values
    ] == [
        ("interval.ms", "300000", ConfigSource.DEFAULT, ()),
        ("match", "", ConfigSource.DEFAULT, ()),
        ("metrics", "", ConfigSource.DEFAULT, ()),
    ]
    *_, metrics_value = client_metrics_values({"metrics": "a, a ,b"})
    source = ConfigSource.CLIENT_METRICS
    assert (metrics_value.value, metrics_value.source) == ("a,b", source)
    assert metrics_value.synonyms == (("metrics", "a,b", source),)
