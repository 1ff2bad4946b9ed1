"""Which properties of a real broker change nothing here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from txnsim.config import _kafka_names as kafka_names
from txnsim.config._kafka_names import (
    AUTHORIZER_PROPERTIES,
    BEFORE_4,
    LISTENER_PROPERTIES,
    SECURITY_PROPERTIES,
    known,
    nearest,
    why_without_effect,
    without_effect,
)
from txnsim.settings import documentation

TRANSCRIPT = (
    Path(__file__).parents[2] / "conformance" / "transcripts" / "describe_broker_configs.jsonl"
)
"""What a real broker answers when it is asked for its configs."""
NOT_DESCRIBED = {
    "group.streams.acceptable.recovery.lag",
    "group.streams.max.warmup.replicas",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.num.warmup.replicas",
    "group.streams.task.offset.interval.ms",
    "group.consumer.regex.refresh.interval.ms",
    "producer.id.expiration.check.interval.ms",
    "unclean.leader.election.interval.ms",
    "unstable.api.versions.enable",
}
"""Internal ones of Kafka's, or not asked for there."""

SETTINGS = {setting.kafka for setting in documentation().values() if setting.kafka}


def test_every_name_of_a_setting_is_kafkas() -> None:
    described = set(re.findall(r'"name":"([^"]+)"', TRANSCRIPT.read_text()))
    assert described <= known()
    assert SETTINGS - described == NOT_DESCRIBED
    assert len(known()) == 379, "as many as KafkaConfig.configDef() of 4.4.0 lists"


def test_every_property_is_a_setting_or_a_listener_or_has_a_reason() -> None:
    has_effect = SETTINGS | LISTENER_PROPERTIES | SECURITY_PROPERTIES
    for name in known() | AUTHORIZER_PROPERTIES:
        assert bool(why_without_effect(name)) is (name not in has_effect), name


@pytest.mark.parametrize(
    "name", ["zookeeper.connect", "zookeeper.session.timeout.ms", "inter.broker.protocol.version"]
)
def test_a_property_of_before_kafka_4_is_taken_and_has_a_reason(name: str) -> None:
    assert why_without_effect(name) == BEFORE_4
    assert name not in known()


def test_every_name_is_listed_once() -> None:
    lines = (Path(kafka_names.__file__).with_name("kafka_properties.txt")).read_text().splitlines()
    assert len([line for line in lines if line.startswith(" ")]) == len(without_effect())


def test_an_unknown_property_has_no_reason() -> None:
    assert why_without_effect("num.partition") is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("replicas.min.insync", "min.insync.replicas"),
        ("max_message_bytes", "message.max.bytes"),
        ("transaction.state.log.replication", "transaction.state.log.replication.factor"),
        ("offsets.topic", None),
        ("jmx.port", None),
    ],
)
def test_a_property_is_meant_by_a_slip_by_its_words_in_another_order_and_by_its_beginning(
    given: str, meant: str | None
) -> None:
    assert nearest(given) == meant
