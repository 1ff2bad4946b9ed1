"""What configs say of the records of a share group: the group's own, else the broker's."""

from __future__ import annotations

import pytest

from txnsim.metadata.group_configs import (
    RESET_EARLIEST,
    RESET_LATEST,
    group_refusal,
    share_isolation,
    share_reset,
    share_settings,
)
from txnsim.settings import Settings
from txnsim.share.commands import SharePartitionSettings
from txnsim.types import IsolationLevel

NOW_MS = 1_700_000_000_000


def test_without_configs_of_its_own_a_group_has_the_brokers() -> None:
    broker = Settings(
        group_share_delivery_count_limit=7,
        group_share_partition_max_record_locks=300,
        group_share_record_lock_duration_ms=20_000,
    )
    expected_settings = SharePartitionSettings(
        delivery_count_limit=7, max_record_locks=300, record_lock_duration_ms=20_000
    )
    assert share_settings(None, broker) == share_settings({}, broker) == expected_settings


def test_what_a_group_says_counts() -> None:
    own_configs = {
        "share.delivery.count.limit": "3",
        "share.partition.max.record.locks": "100",
        "share.record.lock.duration.ms": "15000",
        "share.renew.acknowledge.enable": "false",
    }
    assert share_settings(own_configs, Settings()) == SharePartitionSettings(
        delivery_count_limit=3,
        max_record_locks=100,
        record_lock_duration_ms=15_000,
        is_renew_enabled=False,
    )


@pytest.mark.parametrize(
    ("own_configs", "level"),
    [
        (None, IsolationLevel.READ_UNCOMMITTED),
        ({}, IsolationLevel.READ_UNCOMMITTED),
        ({"share.isolation.level": "read_uncommitted"}, IsolationLevel.READ_UNCOMMITTED),
        ({"share.isolation.level": "read_committed"}, IsolationLevel.READ_COMMITTED),
    ],
)
def test_isolation(own_configs: dict[str, str] | None, level: IsolationLevel) -> None:
    assert share_isolation(own_configs) is level


@pytest.mark.parametrize(
    ("strategy", "reset"),
    [
        ("latest", RESET_LATEST),
        ("earliest", RESET_EARLIEST),
        ("by_duration:PT0S", NOW_MS),
        ("by_duration:PT1.5S", NOW_MS - 1_500),
        ("by_duration:PT1.0005S", NOW_MS - 1_000),
        ("by_duration:P1DT2H3M4S", NOW_MS - 93_784_000),
        ("by_duration:-PT-2S", NOW_MS - 2_000),
        ("by_duration:PT1M-0.5S", NOW_MS - 59_500),
    ],
)
def test_where_a_group_begins(strategy: str, reset: int) -> None:
    own_configs = {"share.auto.offset.reset": strategy}
    assert group_refusal("g", own_configs, Settings()) is None
    assert share_reset(own_configs, NOW_MS) == reset


def test_a_group_begins_at_the_end_unless_it_says_so() -> None:
    assert share_reset(None, NOW_MS) == share_reset({}, NOW_MS) == RESET_LATEST


@pytest.mark.parametrize("duration", ["PT-1S", "PT-0.5S", "-PT1S", "PT", "P", "1h"])
def test_a_duration_below_zero_and_what_is_none_are_refused(duration: str) -> None:
    own_configs = {"share.auto.offset.reset": f"by_duration:{duration}"}
    rejection = group_refusal("g", own_configs, Settings())
    assert rejection is not None
    assert "by_duration" in rejection.reason
