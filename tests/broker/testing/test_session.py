"""Ini options and markers, put together."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim.errors import ConfigError
from txnsim.testing._session import Guard, from_ini


def test_ini_options_are_those_of_a_cluster() -> None:
    assert from_ini(
        {
            "txnsim_brokers": "1",
            "txnsim_transaction_version": "2",
            "txnsim_topics": ["orders:3", "single"],
            "txnsim_settings": [
                "transaction.max.timeout.ms = 60000",
                "transaction.partition.verification.enable=false",
                "log.cleaner.min.cleanable.ratio=0.25",
                "message.timestamp.type=LogAppendTime",
            ],
            "txnsim_as_version": "3.9",
            "txnsim_trace": "full",
        }
    ) == {
        "brokers": 1,
        "transaction_version": 2,
        "topics": {"orders": 3, "single": 1},
        "settings": {
            "transaction.max.timeout.ms": 60_000,
            "transaction.partition.verification.enable": False,
            "log.cleaner.min.cleanable.ratio": 0.25,
            "message.timestamp.type": "LogAppendTime",
        },
        "as_version": "3.9",
        "trace": "full",
    }


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("txnsim_brokers", "three", "txnsim_brokers: expected a number, found 'three'"),
        (
            "txnsim_topics",
            ["orders:x"],
            "txnsim_topics: topics: orders:x: expected NAME or NAME:PARTITIONS",
        ),
        ("txnsim_settings", ["a"], "txnsim_settings: expected NAME=VALUE, found 'a'"),
    ],
)
def test_what_is_no_option_is_refused(name: str, value: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_ini({name: value})


class Item:
    """As much of a test as options are read from."""

    def __init__(self, *markers: pytest.Mark) -> None:
        self._markers = markers

    def iter_markers(self, name: str) -> tuple[pytest.Mark, ...]:
        assert name == "txnsim"
        return self._markers


def item(*markers: pytest.MarkDecorator) -> Any:
    return Item(*(marker.mark for marker in markers))


def test_the_closest_marker_wins_over_outer_ones_and_these_over_ini_options() -> None:
    guard = Guard({"txnsim_brokers": "5", "txnsim_trace": "off", "txnsim_topics": []})
    mark = pytest.mark.txnsim
    asked = guard.asked(
        item(mark(topics=["near"]), mark(topics=["far"], trace="full", faults_may_miss=True))
    )
    assert (asked.cluster.brokers, asked.cluster.trace) == (5, "full")
    assert dict(asked.cluster.topics) == {"near": 1}
    assert asked.faults_may_miss
    assert not guard.asked(item()).faults_may_miss


def test_a_marker_takes_no_positions() -> None:
    with pytest.raises(ConfigError, match="keyword arguments only"):
        Guard({}).asked(item(pytest.mark.txnsim(3)))
