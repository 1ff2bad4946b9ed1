"""Which properties of a real broker change nothing here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from txnsim.config.kafka_names import (
    _FAMILIES,
    AUTHORIZER_PROPERTIES,
    BEFORE_4,
    FORMER,
    IDLE,
    KNOWN,
    LISTENER_PROPERTIES,
    NOT_MODELLED,
    SECURITY_PROPERTIES,
    why_without_effect,
)
from txnsim.settings import documentation

TRANSCRIPT = (
    Path(__file__).parents[2] / "conformance" / "transcripts" / "describe_broker_configs.jsonl"
)
"""What a real broker answers when it is asked for its configs."""
NOT_DESCRIBED = {
    "group.consumer.regex.refresh.interval.ms",
    "producer.id.expiration.check.interval.ms",
    "unclean.leader.election.interval.ms",
    "unstable.api.versions.enable",
}
"""Internal ones of Kafka's, or not asked for there."""

SETTINGS = {setting.kafka for setting in documentation().values() if setting.kafka}


def test_every_name_of_a_setting_is_kafkas() -> None:
    described = set(re.findall(r'"name":"([^"]+)"', TRANSCRIPT.read_text()))
    assert described <= KNOWN
    assert SETTINGS - described == NOT_DESCRIBED
    assert len(KNOWN) == 360, "as many as KafkaConfig.configDef() of 4.3 lists"


def test_every_property_is_a_setting_or_a_listener_or_has_a_reason() -> None:
    has_effect = SETTINGS | LISTENER_PROPERTIES | SECURITY_PROPERTIES
    assert not IDLE & has_effect, "what is idle has an effect"
    assert IDLE | has_effect == KNOWN | AUTHORIZER_PROPERTIES
    for name in KNOWN:
        assert (why_without_effect(name) is None) is (name in has_effect), name


@pytest.mark.parametrize(
    "name", ["zookeeper.connect", "zookeeper.session.timeout.ms", "inter.broker.protocol.version"]
)
def test_a_property_of_before_kafka_4_is_taken_and_has_a_reason(name: str) -> None:
    assert why_without_effect(name) == BEFORE_4
    assert not FORMER & KNOWN


def test_an_unknown_property_has_no_reason() -> None:
    assert why_without_effect("num.partition") is None


@pytest.mark.parametrize("family", [family for family, _why in _FAMILIES])
def test_every_family_has_a_member(family: str) -> None:
    assert any(why_without_effect(name) for name in KNOWN if name.startswith(family))


def test_a_name_of_no_family_is_listed_apart() -> None:
    assert why_without_effect("fetch.purgatory.purge.interval.requests") == NOT_MODELLED
