"""The table of settings, asked of Kafka's jars and of brokers of each release on KRaft."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka
from tests.support.kafka_settings import differences, facts_of_jars, table_facts
from txnsim.metadata.config_keys import ConfigKey, config_keys
from txnsim.metadata.settings_table import Scope, UpdateMode
from txnsim.releases import RELEASES, Release
from txnsim_lab.conformance._book.frame_player import FramePlayer

pytestmark = pytest.mark.real

RELEASED = [release for release in RELEASES.values() if release.is_released]
ON_KRAFT = [release for release in RELEASED if release.features]
TOPIC = "t"


@pytest.mark.parametrize("release", RELEASED, ids=lambda release: release.name)
def test_the_table_says_what_the_jars_say(release: Release) -> None:
    assert [*differences(table_facts(release), facts_of_jars(release.patch_release))] == []


@pytest.mark.parametrize("release", ON_KRAFT, ids=lambda release: release.name)
def test_a_broker_describes_the_settings_of_its_release(release: Release) -> None:
    level_range = release.features.get("transaction.version")
    level = 0 if level_range is None else level_range.max_level
    with (
        ApacheKafka(version=release.patch_release, transaction_version=level) as kafka,
        closing(FramePlayer(kafka.bootstrap, play_prefix="settings", level=level)) as player,
    ):
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        player.ask_unrecorded(
            "CreateTopics", 5, topics=[{**topic, "assignments": [], "configs": []}]
        )
        player.ask_until(
            lambda answer: not answer.results[0].error_code,
            "DescribeConfigs",
            4,
            resources=[_resource(2, TOPIC)],
        )
        assert _described(player, 4, "1") == _expected("broker", release)
        assert _described(player, 2, TOPIC) == _expected("topic", release)
        if release.api_versions.get(69):  # groups have configs since 4.0
            assert _described(player, 32, "g") == _expected("group", release)


def _resource(resource_type: int, name: str) -> dict[str, object]:
    return {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}


def _described(
    player: FramePlayer, resource_type: int, name: str
) -> dict[str, tuple[int, bool, bool]]:
    """Name -> type, whether it is sensitive, whether it is read-only. A setting of the test's file
    that the release does not know has type 0.
    """
    answer = player.ask_unrecorded("DescribeConfigs", 4, resources=[_resource(resource_type, name)])
    return {
        config.name: (config.config_type, config.is_sensitive, config.read_only)
        for config in answer.results[0].configs
        if config.config_type
    }


def _expected(scope: Scope, release: Release) -> dict[str, tuple[int, bool, bool]]:
    def is_read_only(key: ConfigKey) -> bool:
        return scope == "broker" and key.update is UpdateMode.READ_ONLY

    return {
        name: (key.type.value, key.is_sensitive, is_read_only(key))
        for name, key in config_keys(scope, release.rules).items()
        if not key.is_internal
    }


def test_the_reference_is_among_them() -> None:
    assert KAFKA_VERSION in {release.patch_release for release in ON_KRAFT}
