"""The configs of topics: which there are, and Kafka's defaults."""

from __future__ import annotations

import pytest

from txnsim.metadata.config_keys import TOPIC_CONFIGS, topic_configs
from txnsim.metadata.configs import (
    INTERNAL_SEGMENT_BYTES,
    broker_configs,
    shown_of_topic,
    topic_complaint,
)
from txnsim.releases.rules import LATEST, Rules


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS.keys() - {INTERNAL_SEGMENT_BYTES}))
def test_every_default_of_a_topic_is_valid(name: str) -> None:
    assert topic_complaint(name, TOPIC_CONFIGS[name].default) is None


def test_configs_that_came_with_a_release() -> None:
    older = topic_configs(Rules(topics_have_dead_letters=False))
    came = TOPIC_CONFIGS.keys() - older.keys()
    assert len(came) == 4
    assert came < set(shown_of_topic({}, LATEST))
    assert topic_complaint("remote.copy.lag.ms", "0") is None
    assert topic_complaint("remote.copy.lag.ms", "0", older) == (
        "Unknown topic config name: remote.copy.lag.ms"
    )


def test_configs_of_brokers_that_came_with_a_release() -> None:
    # A real 4.3.1 tells none of them.
    older = broker_configs(Rules(topics_have_dead_letters=False))
    assert broker_configs(LATEST).keys() - older.keys() == {
        *("log.remote.copy.lag.bytes", "log.remote.copy.lag.ms", "max.decompressed.message.bytes")
    }
