"""Keyword arguments to a cluster's options, and what is refused."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim.settings import DEFAULTS
from txnsim.testing.options import wanted


def test_nothing_asked_for_is_a_cluster_with_kafka_s_defaults_on_free_ports() -> None:
    options = wanted().options()
    assert (options.brokers, options.port, options.topics) == (3, 0, ())
    assert options.settings is DEFAULTS


def test_settings_go_by_kafka_s_names_and_topics_by_number_or_name() -> None:
    options = wanted(
        brokers=1,
        topics=["a", "b"],
        transaction_version=1,
        settings={"transaction.max.timeout.ms": 1_000},
        as_version="4.0",
        rules={"markers_need_verification": True},
    ).options()
    assert options.topics == (("a", 1), ("b", 1))
    assert options.settings.transaction_version == 1
    assert options.settings.transaction_max_timeout_ms == 1_000
    assert options.as_version == ("4.0",)
    assert wanted(topics={"a": 6}).options().topics == (("a", 6),)


def test_an_unknown_argument_is_named_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigError,
        match=r"txnsim: partitions: no option .*there are: brokers, first_broker_id,",
    ):
        wanted(partitions=3)


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"brokers: expected a whole number, found '3'"):
        wanted(brokers="3")


def test_a_wrong_setting_is_refused_as_in_a_file() -> None:
    with pytest.raises(ConfigError, match=r"did you mean transaction.max.timeout.ms\?"):
        wanted(settings={"transaction.max.timeout": 1}).options()


def test_a_setting_without_effect_is_warned_about() -> None:
    with pytest.warns(UserWarning, match=r"without effect, because .*: log.dirs"):
        wanted(settings={"log.dirs": "here"}).options()


def test_the_level_of_the_trace_is_one_of_three() -> None:
    assert wanted(trace="full").trace_level is TraceLevel.FULL
    with pytest.raises(ConfigError, match="trace: no value 'loud'; there are: ") as refusal:
        wanted(trace="loud", brokers="three")
    assert "brokers: expected a whole number, found 'three'" in str(refusal.value)
