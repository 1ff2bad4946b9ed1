"""The configs of topics: which there are, and Kafka's defaults."""

from __future__ import annotations

import pytest

from tests.support.images import cluster
from txnsim.metadata.config_keys import TOPIC_CONFIGS, topic_configs
from txnsim.metadata.configs import (
    INTERNAL_SEGMENT_BYTES,
    TopicLookup,
    broker_configs,
    topic_complaint,
)
from txnsim.releases import RELEASES
from txnsim.releases.rules import LATEST, Rules
from txnsim.settings import DEFAULTS


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS.keys() - {INTERNAL_SEGMENT_BYTES}))
def test_every_default_of_a_topic_is_valid(name: str) -> None:
    assert topic_complaint(name, TOPIC_CONFIGS[name].default) is None


def test_configs_that_came_with_a_release() -> None:
    older = topic_configs(Rules(topics_have_dead_letters=False))
    came = TOPIC_CONFIGS.keys() - older.keys()
    assert len(came) == 3
    assert came < set(TopicLookup(topic={}, image=cluster(), settings=DEFAULTS).shown())
    assert topic_complaint("remote.copy.lag.ms", "0") is None
    assert topic_complaint("remote.copy.lag.ms", "0", older) == (
        "Unknown topic config name: remote.copy.lag.ms"
    )


def test_configs_of_brokers_that_came_with_a_release() -> None:
    # A real 4.3.1 tells none of them, a real 4.2.2 the last one.
    bounded = "max.decompressed.message.bytes"
    of_4_4 = {"log.remote.copy.lag.bytes", "log.remote.copy.lag.ms", bounded}
    for rules, missing in (
        (RELEASES["4.3"].rules, of_4_4),
        (RELEASES["4.2"].rules, of_4_4 - {bounded}),
        (RELEASES["4.1"].rules, of_4_4),
        (Rules(decompression_is_bounded=False), {bounded}),
    ):
        older = broker_configs(rules)
        assert broker_configs(LATEST).keys() - older.keys() == missing
        assert (bounded in topic_configs(rules)) is (bounded not in missing)
