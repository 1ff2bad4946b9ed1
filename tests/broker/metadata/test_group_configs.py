"""Configs of groups: what they may be, and what they come to."""

from __future__ import annotations

import pytest

from tests.support.images import B1, cluster
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.config_keys import ConfigSource
from txnsim.metadata.group_configs import (
    GROUP_CONFIGS,
    GroupIntervals,
    group_intervals,
    group_refusal,
    group_values,
)
from txnsim.releases import Rules
from txnsim.settings import DEFAULTS, Settings

BEFORE_4_4 = Rules(group_configs_tell_bounds=False)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.invalid_config, ErrorCode.invalid_request


def refusal(found: Rejection | None) -> tuple[ErrorCode, str] | None:
    return None if found is None else (found.error, found.reason)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({SESSION: "45000"}, None),
        ({SESSION: "60000", HEARTBEAT: "15000"}, None),
        ({"nonsense": "1"}, "Unknown group config name: nonsense"),
        (
            {SESSION: "x"},
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type "
            "INT",
        ),
        (
            {SESSION: "44999"},
            f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {SESSION: "60001"},
            f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"share.delivery.count.limit": "11"},
            "share.delivery.count.limit must be less than or equal to "
            "group.share.max.delivery.count.limit",
        ),
        ({"streams.num.standby.replicas": "2"}, None),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
        ({"share.isolation.level": "read_committed"}, None),
        ({"share.auto.offset.reset": "earliest"}, None),
    ],
)
def test_a_group_is_configured_within_the_bounds_of_its_broker(
    wanted: dict[str, str], why: str | None
) -> None:
    expected = None if why is None else (INVALID_CONFIG, why)
    assert refusal(group_refusal("g", wanted, DEFAULTS, BEFORE_4_4)) == expected


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({SESSION: "44999"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ({SESSION: "60001"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to 2",
        ),
        ({"consumer.assignor.offload.enable": "true"}, None),
        ({"errors.deadletterqueue.topic.name": "dlq."}, None),
        ({"streams.num.warmup.replicas": "20"}, None),
        (
            {"streams.num.warmup.replicas": "21"},
            "streams.num.warmup.replicas must be less than or equal to 20",
        ),
        ({"streams.task.offset.interval.ms": "15000"}, None),
        (
            {"streams.task.offset.interval.ms": "14999"},
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        ({"streams.assignor.name": "sticky"}, None),
        (
            {"streams.assignor.name": "range"},
            "streams.assignor.name 'range' is not a registered task assignor. Registered assignors "
            "are: [sticky].",
        ),
        ({"streams.rack.aware.assignment.tags": "a,b"}, None),
        (
            {"streams.rack.aware.assignment.tags": "a,a"},
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            {"errors.deadletterqueue.topic.name": "__x"},
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
    ],
)
def test_a_refusal_tells_the_bounds(wanted: dict[str, str], why: str | None) -> None:
    expected = None if why is None else (INVALID_CONFIG, why)
    assert refusal(group_refusal("g", wanted, DEFAULTS)) == expected


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"share.heartbeat.interval.ms": "20000"}, None),
        ({"share.session.timeout.ms": "15000"}, None),
        ({"share.record.lock.duration.ms": "90000"}, None),
        ({"share.delivery.count.limit": "25"}, None),
        ({"share.delivery.count.limit": "2"}, "must be in the range 3 to 25 inclusive."),
        ({"share.partition.max.record.locks": "100"}, "must be in the range 200 to 10000 inclus"),
        ({"streams.num.standby.replicas": "5"}, None),
        ({"streams.num.standby.replicas": "6"}, "must be less than or equal to 5"),
        ({"streams.num.warmup.replicas": "11"}, "must be less than or equal to 10"),
        ({"streams.assignment.interval.ms": "0"}, "must be in the range 500 to 15000 inclusive."),
        (
            {"share.session.timeout.ms": "15000", "share.heartbeat.interval.ms": "15000"},
            "share.session.timeout.ms must be greater than share.heartbeat.interval.ms",
        ),
    ],
)
def test_the_bounds_are_those_of_the_brokers_settings(
    wanted: dict[str, str], why: str | None
) -> None:
    """A real 4.4.0 with these in its file."""
    settings = Settings(
        group_share_max_heartbeat_interval_ms=20_000,
        group_share_min_session_timeout_ms=15_000,
        group_share_max_record_lock_duration_ms=90_000,
        group_share_min_delivery_count_limit=3,
        group_share_max_delivery_count_limit=25,
        group_share_min_partition_max_record_locks=200,
        group_share_max_partition_max_record_locks=10_000,
        group_streams_max_standby_replicas=5,
        group_streams_max_warmup_replicas=10,
        group_streams_min_assignment_interval_ms=500,
    )
    found = group_refusal("g", wanted, settings)
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert why in found.reason


def test_a_group_is_told_what_its_brokers_file_says() -> None:
    settings = Settings(group_share_delivery_count_limit=7, group_streams_acceptable_recovery_lag=5)
    values = group_values({}, image=cluster(), settings=settings, broker_id=B1)
    found = {one.name: (one.value, one.source) for one in values}
    assert found["share.delivery.count.limit"] == ("7", ConfigSource.STATIC_BROKER)
    assert found["streams.acceptable.recovery.lag"] == ("5", ConfigSource.STATIC_BROKER)
    assert "streams.num.warmup.replicas" not in found, "internal, and not set"


def test_dead_letters_of_groups_came_with_4_4() -> None:
    name = "errors.deadletterqueue.topic.name"
    expected = (INVALID_CONFIG, f"Unknown group config name: {name}")
    assert refusal(group_refusal("g", {name: "dlq."}, DEFAULTS, BEFORE_4_4)) == expected


def test_internal_configs_are_told_where_they_are_set() -> None:
    own = {"streams.num.warmup.replicas": "3"}
    for configs, is_told in ((own, True), ({}, False)):
        values = group_values(configs, image=cluster(), settings=DEFAULTS, broker_id=B1)
        assert ("streams.num.warmup.replicas" in {one.name for one in values}) is is_told


def test_a_group_needs_a_name() -> None:
    expected = (INVALID_REQUEST, "Default group resources are not allowed.")
    assert refusal(group_refusal("", {}, DEFAULTS)) == expected


def test_a_session_is_longer_than_the_pause_between_heartbeats() -> None:
    settings = Settings(
        group_consumer_min_session_timeout_ms=1_000,
        group_consumer_max_heartbeat_interval_ms=50_000,
    )
    why = f"{SESSION} must be greater than {HEARTBEAT}"
    for wanted in ({SESSION: "5000"}, {HEARTBEAT: "45000"}, {SESSION: "9000", HEARTBEAT: "9000"}):
        assert refusal(group_refusal("g", wanted, settings)) == (INVALID_CONFIG, why)
    assert group_refusal("g", {SESSION: "9000", HEARTBEAT: "8000"}, settings) is None


@pytest.mark.parametrize(
    ("duration", "is_one"),
    [
        ("PT1H", True),
        ("P1DT2H3M4.5S", True),
        ("PT-1H", False),
        ("-PT1H", False),
        ("-PT-1H", True),
        ("P", False),
        ("PT", False),
        ("P1DT", False),
        ("soon", False),
    ],
)
def test_share_groups_may_begin_some_time_ago(duration: str, *, is_one: bool) -> None:
    found = group_refusal("g", {"share.auto.offset.reset": f"by_duration:{duration}"}, DEFAULTS)
    assert (found is None) is is_one
    if found is not None:
        assert found.reason.endswith("of the format 'by_duration:<PnDTnHnMn.nS>'.")


def test_share_groups_begin_at_an_end_or_some_time_ago() -> None:
    assert group_refusal("g", {"share.auto.offset.reset": "none"}, DEFAULTS) is not None


def test_a_groups_own_value_goes_before_the_brokers() -> None:
    settings = Settings(group_consumer_session_timeout_ms=50_000)
    image = cluster().with_broker_configs("", {"group.consumer.assignment.interval.ms": "7"})
    found = {
        value.name: value
        for value in group_values(
            {HEARTBEAT: " 6000 ", "share.renew.acknowledge.enable": "FALSE"},
            image=image,
            settings=settings,
            broker_id=B1,
        )
    }
    assert set(found) < set(GROUP_CONFIGS)
    assert list(found) == sorted(found)
    assert (found[HEARTBEAT].value, found[HEARTBEAT].source) == ("6000", ConfigSource.GROUP)
    assert found[HEARTBEAT].synonyms == (
        (HEARTBEAT, "6000", ConfigSource.GROUP),
        (f"group.{HEARTBEAT}", "5000", ConfigSource.DEFAULT),
    )
    assert (found[SESSION].value, found[SESSION].source) == ("50000", ConfigSource.STATIC_BROKER)
    pause = found["consumer.assignment.interval.ms"]
    assert (pause.value, pause.source) == ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert found["share.renew.acknowledge.enable"].value == "false"
    level = found["share.isolation.level"]
    assert level.synonyms == (("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT),)


def test_members_are_held_to_what_their_group_says() -> None:
    assert group_intervals(None, DEFAULTS) == GroupIntervals(45_000, 5_000, 1_000)
    own = {SESSION: "50000", "consumer.assignment.interval.ms": "0"}
    assert group_intervals(own, DEFAULTS) == GroupIntervals(50_000, 5_000, 0)
