"""Which properties of a real broker change nothing here."""

from __future__ import annotations

import pytest

from txnsim.config.kafka_names import (
    _FAMILIES,
    AUTHORIZER_PROPERTIES,
    BEFORE_4,
    FORMER,
    KNOWN,
    LISTENER_PROPERTIES,
    NOT_MODELLED,
    SECURITY_PROPERTIES,
    why_without_effect,
)
from txnsim.settings import documentation


def test_every_property_is_a_setting_or_a_listener_or_has_a_reason() -> None:
    settings = {setting.kafka for setting in documentation().values() if setting.kafka}
    assert settings <= KNOWN, "a setting has a Kafka name that Kafka does not know"
    assert LISTENER_PROPERTIES <= KNOWN
    assert SECURITY_PROPERTIES - KNOWN == AUTHORIZER_PROPERTIES
    for name in KNOWN:
        has_effect = name in settings | LISTENER_PROPERTIES | SECURITY_PROPERTIES
        assert (why_without_effect(name) is None) is has_effect, name


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
