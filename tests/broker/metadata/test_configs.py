"""Configs and quotas: valid values, where one comes from, and what a log is told."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from tests.support.images import cluster, topic
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.config import TimestampType
from txnsim.metadata import configs
from txnsim.metadata.config_keys import (
    LONG_MAX,
    TOPIC_CONFIGS,
    ConfigKey,
    ConfigSource,
    ConfigType,
    decimal_text,
    displayed_value,
    elements,
    invalid_config,
    invalid_request,
    topic_configs,
)
from txnsim.metadata.configs import (
    INTERNAL_SEGMENT_BYTES,
    SECRET,
    TopicLookup,
    broker_configs,
    broker_synonyms,
    described_names,
    documentation_of,
    effective_settings,
    log_config,
    own_values,
    text,
    topic_complaint,
)
from txnsim.metadata.image import ClusterImage
from txnsim.metadata.quotas import (
    Entity,
    QuotaChange,
    QuotaFilter,
    altered_quotas,
    altered_values,
    entity_of,
    entity_text,
    finds_quota,
)
from txnsim.metadata.settings_table import UpdateMode
from txnsim.releases import RELEASES
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.settings import DEFAULTS, Settings, settings_from_values
from txnsim.types import BrokerId

# Configs: valid values, where an effective value comes from, and what a log is told.

BROKER_CONFIGS = broker_configs(LATEST_RULES)
broker_value = partial(configs.broker_value, key_by_name=BROKER_CONFIGS)
settings_of = partial(
    effective_settings, DEFAULTS, broker_id=BrokerId(1), release_rules=LATEST_RULES
)
broker_complaint = partial(configs.broker_complaint, key_by_name=BROKER_CONFIGS)


# Validation


@pytest.mark.parametrize(
    ("config_name", "config_value"),
    [
        ("preallocate", "true"),
        ("preallocate", " FALSE "),
        ("retention.ms", "-1"),
        ("retention.ms", str(2**63 - 1)),
        ("min.cleanable.dirty.ratio", "0.75"),
        ("compression.lz4.level", "17"),
        ("min.cleanable.dirty.ratio", "NaN"),  # it is neither below 0 nor above 1
        ("min.cleanable.dirty.ratio", " 0x1p-1 "),
        ("min.cleanable.dirty.ratio", "1e-3d"),
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("compression.gzip.level", "-1"),
        ("compression.gzip.level", "9"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("remote.storage.enable", "false"),
        ("leader.replication.throttled.replicas", ""),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
    ],
)
def test_valid_values(config_name: str, config_value: str) -> None:
    assert topic_complaint(config_name, config_value) is None


@pytest.mark.parametrize(
    ("config_name", "config_value", "reason"),
    [
        ("no.such", "1", "Unknown topic config name: no.such"),
        ("preallocate", "maybe", "either true or false"),
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("retention.ms", str(2**63), "Not a number of type LONG"),
        ("retention.ms", "-2", "at least -1"),
        ("index.interval.bytes", str(2**31), "Not a number of type INT"),
        ("segment.bytes", "10", "at least 1048576"),
        ("compression.lz4.level", "18", "no more than 17"),
        ("min.cleanable.dirty.ratio", "1.5", "no more than 1"),
        ("min.cleanable.dirty.ratio", "2", "Invalid value 2.0"),
        ("min.cleanable.dirty.ratio", "1e308", "Invalid value 1.0E308"),
        ("min.cleanable.dirty.ratio", "-Infinity", "Invalid value -Infinity"),
        ("min.cleanable.dirty.ratio", "inf", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "0_1", "Not a number of type DOUBLE"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "between 1 and 9 or equal to -1"),
        ("leader.replication.throttled.replicas", "0:1, x", "Invalid value [0:1, x]"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
        ("min.cleanable.dirty.ratio", "much", "Not a number of type DOUBLE"),
        ("cleanup.policy", "shred", "one of: compact, delete"),
        ("cleanup.policy", "compact,shred", "Invalid value shred"),
        ("compression.type", "rar", "one of: uncompressed"),
    ],
)
def test_wrong_values_are_refused_with_the_name_the_value_and_the_rule(
    config_name: str, config_value: str, reason: str
) -> None:
    complaint = topic_complaint(config_name, config_value)
    assert complaint is not None
    assert reason in complaint
    assert config_name in complaint or config_name == "remote.storage.enable"


EDGES = ("NaN", "Infinity", "-Infinity", "1e308", "0x1p9999", "-1", "-0.0", "0", "1")
LARGE_EDGES = (2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**31) - 1, -(2**63))


@pytest.mark.parametrize("release_name", RELEASES)
def test_what_is_accepted_at_its_edges_can_be_applied(release_name: str) -> None:
    release_rules = RELEASES[release_name].rules
    broker_keys, topic_keys = broker_configs(release_rules), topic_configs(release_rules)
    accepted_values = set()
    for config_value in (*EDGES, *map(str, LARGE_EDGES)):
        # What the release does not have is taken with any value, as a plugin's may be.
        own_broker_configs = {
            name: config_value
            for name in (*broker_keys, *broker_configs(LATEST_RULES))
            if configs.broker_complaint(name, config_value, broker_keys) is None
        }
        own_topic_configs = {
            name: config_value
            for name in topic_keys
            if topic_complaint(name, config_value, topic_keys) is None
        }
        image = cluster().with_broker_configs("1", own_broker_configs)
        settings_of(image, release_rules=release_rules)
        for codec in ("gzip", "zstd"):
            for topic_values in ({}, own_topic_configs):
                log_config(
                    image,
                    topic(configs={**topic_values, "compression.type": codec}),
                    DEFAULTS,
                    BrokerId(1),
                    release_rules=release_rules,
                )
        if "log.cleaner.io.buffer.load.factor" in own_broker_configs:
            accepted_values.add(config_value)
    assert accepted_values == {*EDGES, *map(str, LARGE_EDGES)}


@pytest.mark.parametrize(
    ("load_factor", "keys_max"),
    [
        ("NaN", 0),
        ("0", 0),
        ("-1", -5_592_405),
        ("0.9", 5_033_164),
        ("1e308", 2**31 - 1),
        ("Infinity", 2**31 - 1),
        ("-Infinity", -(2**31)),
    ],
)
def test_the_keys_of_a_cleaner_are_cast_like_a_number_of_java(
    load_factor: str, keys_max: int
) -> None:
    # Cleaner.buildOffsetMap: (int) (map.slots() * dupBufferLoadFactor)
    load_configs = {"log.cleaner.io.buffer.load.factor": load_factor}
    image = cluster().with_broker_configs("", load_configs)
    config = log_config(image, topic(), DEFAULTS, release_rules=LATEST_RULES)
    assert config.cleaner_keys_max == keys_max


def test_a_config_of_a_newer_release_has_no_effect_whatever_its_value() -> None:
    rules = RELEASES["3.5"].rules
    newer_configs = {
        "log.message.timestamp.after.max.ms": "soon",
        "group.share.max.size": "many",
        "group.consumer.max.size": "5",
    }
    image = cluster().with_broker_configs("", newer_configs)
    assert settings_of(image, release_rules=rules) is DEFAULTS
    config = log_config(image, topic(), DEFAULTS, release_rules=rules)
    assert config.timestamp_after_max_ms == LONG_MAX


@pytest.mark.parametrize("config_value", ["0", "10", "-2", str(2**31 - 1)])
def test_a_broker_s_level_of_gzip_is_as_bounded_as_a_topic_s(config_value: str) -> None:
    complaint = configs.broker_complaint("compression.gzip.level", config_value, BROKER_CONFIGS)
    assert complaint is not None
    assert "Value must be between 1 and 9 or equal to -1" in complaint


@pytest.mark.parametrize(
    ("number", "number_text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (-1.25e100, "-1.25E100"),
        (1e308, "1.0E308"),
    ],
)
def test_a_decimal_number_is_written_as_java_writes_it(number: float, number_text: str) -> None:
    assert decimal_text(number) == number_text


@pytest.mark.parametrize(
    ("config_value", "is_good"), [("9", True), ("nan", False), ("32768", False)]
)
def test_a_short_has_its_own_bounds(config_value: str, is_good: bool) -> None:
    config_name = "transaction.state.log.replication.factor"
    assert BROKER_CONFIGS[config_name].type is ConfigType.SHORT
    assert (broker_complaint(config_name, config_value) is None) == is_good


def test_a_broker_takes_unknown_configs_but_shows_no_value() -> None:
    assert broker_complaint("my.plugin.password", "anything") is None
    image = cluster().with_broker_configs("1", {"my.plugin.password": "x"})
    config_value = broker_value("my.plugin.password", scope="1", image=image, settings=DEFAULTS)
    assert (config_value.value, config_value.is_sensitive, config_value.read_only) == (
        None,
        True,
        True,
    )
    assert config_value.source is ConfigSource.DYNAMIC_BROKER


def test_what_has_no_default_on_a_broker_shows_none() -> None:
    config_value = broker_value("log.retention.ms", scope="1", image=cluster(), settings=DEFAULTS)
    assert (config_value.value, config_value.synonyms) == (None, ())
    value_of_topic = TopicLookup(topic={}, image=cluster(), settings=DEFAULTS).value("retention.ms")
    assert (value_of_topic.value, value_of_topic.synonyms) == ("604800000", ())


STATIC, DEFAULT, DYNAMIC = (
    ConfigSource.STATIC_BROKER,
    ConfigSource.DEFAULT,
    ConfigSource.DYNAMIC_DEFAULT_BROKER,
)
MINUTES = Settings(log_retention_minutes=90, log_retention_hours=5)
"""Which of several that stand for the same wins."""


def test_what_is_written_down_is_told_from_the_same_default() -> None:
    """A real 4.4.0 shows group.share.heartbeat.interval.ms=5000 of its file in the same way."""
    config_name = "log.cleaner.backoff.ms"
    for settings, sources in (
        (DEFAULTS, [DEFAULT]),
        (settings_from_values({"log_cleaner_backoff_ms": 15_000}), [STATIC, DEFAULT]),
        (settings_from_values({"log_cleaner_backoff_ms": 7}), [STATIC, DEFAULT]),
    ):
        synonyms = broker_synonyms(
            config_name, BROKER_CONFIGS, scopes=("",), image=cluster(), settings=settings
        )
        assert [source for _, _, source in synonyms] == sources


@pytest.mark.parametrize(
    ("settings", "retention_ms", "source"),
    [
        (DEFAULTS, "604800000", DEFAULT),
        (Settings(log_retention_hours=5), "18000000", STATIC),
        (MINUTES, "5400000", STATIC),
        (Settings(log_retention_ms=7, log_retention_minutes=90), "7", STATIC),
        (Settings(log_retention_ms=604_800_000), "604800000", STATIC),
        (Settings(log_retention_hours=-5), "-1", STATIC),
        (settings_from_values({"log_retention_hours": 168}), "604800000", STATIC),
    ],
)
def test_ms_win_over_minutes_and_those_over_hours(
    settings: Settings, retention_ms: str, source: ConfigSource
) -> None:
    config_value = TopicLookup(topic={}, image=cluster(), settings=settings).value("retention.ms")
    assert config_value.value == retention_ms
    has_ms = settings.log_retention_ms is not None
    assert config_value.source is (STATIC if has_ms else DEFAULT), (
        "hours are no synonym of their own"
    )
    assert bool(config_value.synonyms) is has_ms
    lookup = TopicLookup(topic={}, image=cluster(), settings=settings, broker_id=BrokerId(1))
    created_value = lookup.controller_value("retention.ms")
    assert (created_value.value, created_value.source) == (retention_ms, source)
    assert log_config(cluster(), topic(), settings, release_rules=LATEST_RULES).retention_ms == int(
        retention_ms
    )


@pytest.mark.parametrize("release_name", RELEASES)
def test_a_controller_tells_each_config_that_its_release_has(release_name: str) -> None:
    """CreateTopics answers with all of them; older releases have some that the newest lacks."""
    rules = RELEASES[release_name].rules
    lookup = TopicLookup(topic={}, image=cluster(), settings=DEFAULTS, rules=rules)
    names = lookup.broker_names()
    assert ("message.downconversion.enable" in names) == ("message.format.version" in names)
    assert [lookup.controller_value(name).name for name in names] == list(names)


def test_a_topic_without_such_a_config_is_answered_as_before_at_its_creation() -> None:
    for config_name, config_value in (
        ("segment.bytes", "1073741824"),
        ("remote.storage.enable", "false"),
    ):
        lookup = TopicLookup(topic={}, image=cluster(), settings=MINUTES, broker_id=BrokerId(1))
        created_value = lookup.controller_value(config_name)
        assert (created_value.value, created_value.source) == (config_value, DEFAULT)


def test_synonyms_begin_with_the_config_that_is_described() -> None:
    hours = [("log.retention.hours", "5", STATIC), ("log.retention.hours", "168", DEFAULT)]
    for config_name, value, synonyms in (
        ("log.retention.ms", None, []),
        ("log.retention.minutes", "90", [("log.retention.minutes", "90", STATIC), *hours]),
        ("log.retention.hours", "5", hours),
    ):
        config_value = broker_value(config_name, scope="1", image=cluster(), settings=MINUTES)
        assert (config_value.value, list(config_value.synonyms)) == (value, synonyms)


def test_a_dynamic_config_hides_what_stands_for_the_same() -> None:
    image = cluster().with_broker_configs("", {"log.retention.ms": "7"})
    for config_name, value, source in (
        ("log.retention.ms", "7", DYNAMIC),
        ("log.retention.minutes", None, STATIC),
        ("log.retention.hours", "168", STATIC),
    ):
        config_value = broker_value(config_name, scope="1", image=image, settings=MINUTES)
        assert (config_value.value, config_value.source) == (value, source)
    config_value = TopicLookup(topic={}, image=image, settings=MINUTES).value("retention.ms")
    assert [synonym[1:] for synonym in config_value.synonyms] == [
        ("7", DYNAMIC),
        ("90", STATIC),
        ("5", STATIC),
        ("168", DEFAULT),
    ]


def test_numbers_and_fractions_of_a_broker_can_be_dynamic() -> None:
    changes = {
        "log.cleaner.min.cleanable.ratio": "0.75",
        "log.preallocate": "true",  # of no effect, and no setting
        "log.roll.ms": "7",
    }
    image = cluster().with_broker_configs("", changes)
    settings = settings_of(image)
    assert (settings.log_cleaner_min_cleanable_ratio, settings.log_roll_ms) == (0.75, 7)
    config = log_config(image, topic(), DEFAULTS, release_rules=LATEST_RULES)
    assert (config.min_cleanable_dirty_ratio, config.segment_ms) == (0.75, 7)
    config_value = broker_value("log.preallocate", scope="1", image=image, settings=DEFAULTS)
    assert [synonym[1:] for synonym in config_value.synonyms] == [
        ("true", DYNAMIC),
        ("false", DEFAULT),
    ]


def test_the_defaults_of_all_brokers_are_what_was_set_for_them() -> None:
    image = cluster().with_broker_configs("", {"message.max.bytes": "5"})
    config_value = broker_value("message.max.bytes", scope="", image=image, settings=DEFAULTS)
    assert config_value.synonyms == (
        ("message.max.bytes", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    )
    unset_value = broker_value("num.partitions", scope="", image=image, settings=DEFAULTS)
    assert (unset_value.value, unset_value.synonyms) == (None, ())


def test_a_log_may_have_smaller_segments_than_a_topic_may_ask_for() -> None:
    """A real 4.3.1 takes any whole number, and tells it of a topic that has set it."""
    config_name = INTERNAL_SEGMENT_BYTES
    assert topic_complaint("segment.bytes", "1000") is not None
    assert [topic_complaint(config_name, config_value) for config_value in ("1000", "-5")] == [
        None,
        None,
    ]
    assert "Not a number of type INT" in str(topic_complaint(config_name, "x"))
    own_configs = {config_name: "1000"}
    config = log_config(cluster(), topic(configs=own_configs), DEFAULTS, release_rules=LATEST_RULES)
    assert (config.segment_bytes, config.roll_bytes) == (1_000, 1_000)
    of_topic, lookup_of_none = (
        TopicLookup(topic=topic_configs, image=cluster(), settings=DEFAULTS)
        for topic_configs in (own_configs, {})
    )
    assert config_name in of_topic.broker_names()
    assert config_name not in lookup_of_none.broker_names()


BOUND = "message.timestamp.after.max.ms"
OLDER = Rules(future_records_are_refused=False)


@pytest.mark.parametrize(("rules", "unset"), [(LATEST_RULES, 3_600_000), (OLDER, LONG_MAX)])
@pytest.mark.parametrize("own_configs", [{}, {BOUND: "5"}])
@pytest.mark.parametrize("given_ms", [None, 3_600_000, 7])
def test_how_far_ahead_a_record_may_be_stamped(
    rules: Rules, unset: int, own_configs: dict[str, str], given_ms: int | None
) -> None:
    settings = Settings(message_timestamp_after_max_ms=given_ms)
    config = log_config(cluster(), topic(configs=own_configs), settings, release_rules=rules)
    of_broker = unset if given_ms is None else given_ms
    assert config.timestamp_after_max_ms == (5 if own_configs else of_broker)
    config_value = broker_value(
        f"log.{BOUND}",
        scope="1",
        image=cluster(),
        settings=settings,
        key_by_name=broker_configs(rules),
    )
    assert (config_value.value, config_value.synonyms[-1][1]) == (str(of_broker), str(unset))


def test_every_setting_of_kafkas_and_every_fallback_is_a_broker_config() -> None:
    fallbacks = {
        topic_config_key.broker_name
        for topic_config_key in TOPIC_CONFIGS.values()
        if topic_config_key.broker_name
    }
    assert fallbacks <= set(BROKER_CONFIGS)
    assert "transaction.max.timeout.ms" in BROKER_CONFIGS
    verification_key = BROKER_CONFIGS["transaction.partition.verification.enable"]
    assert verification_key.update is UpdateMode.CLUSTER_WIDE
    assert BROKER_CONFIGS["transaction.max.timeout.ms"].update is UpdateMode.READ_ONLY


@pytest.mark.parametrize(
    ("config_value", "spelling"),
    [(True, "true"), (False, "false"), (7, "7"), ("CreateTime", "CreateTime")],
)
def test_values_are_spelled_as_kafka_does(config_value: object, spelling: str) -> None:
    assert text(config_value) == spelling


# Effective values


def sources(config_value: configs.ConfigValue) -> list[ConfigSource]:
    return [source for _, _, source in config_value.synonyms]


def test_a_topics_value_is_its_own_then_the_clusters_then_the_settings_then_kafkas() -> None:
    image = cluster().with_broker_configs("", {"message.max.bytes": "300"})
    settings = Settings(message_max_bytes=200)
    rows = [
        ({"max.message.bytes": "400"}, image, settings, "400", ConfigSource.TOPIC),
        ({}, image, settings, "300", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ({}, cluster(), settings, "200", ConfigSource.STATIC_BROKER),
        ({}, cluster(), DEFAULTS, "1048588", ConfigSource.DEFAULT),
    ]
    for own_topic, seen_image, static_settings, value, source in rows:
        config_value = TopicLookup(
            topic=own_topic, image=seen_image, settings=static_settings
        ).value("max.message.bytes")
        assert (config_value.value, config_value.source) == (value, source)
    value_of_topic = TopicLookup(topic=rows[0][0], image=image, settings=settings).value(
        "max.message.bytes"
    )
    assert sources(value_of_topic) == [
        ConfigSource.TOPIC,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.DEFAULT,
    ]
    assert value_of_topic.synonyms[0][0] == "max.message.bytes"
    assert value_of_topic.synonyms[1][0] == "message.max.bytes", "a synonym has its own name"


def test_a_topic_config_without_a_broker_side_has_only_its_default() -> None:
    config_value = TopicLookup(topic={}, image=cluster(), settings=DEFAULTS).value(
        "remote.storage.enable"
    )
    assert (config_value.value, config_value.source, config_value.synonyms) == (
        "false",
        ConfigSource.DEFAULT,
        (),
    )


def test_a_brokers_value_is_its_own_before_the_clusters() -> None:
    config_name = "producer.id.expiration.ms"
    image = (
        cluster()
        .with_broker_configs("", {config_name: "20"})
        .with_broker_configs("1", {config_name: "10"})
    )
    values = {
        broker_id: broker_value(config_name, scope=broker_id, image=image, settings=DEFAULTS).value
        for broker_id in ("1", "2")
    }
    assert values == {"1": "10", "2": "20"}
    config_value = broker_value(config_name, scope="1", image=image, settings=DEFAULTS)
    assert sources(config_value) == [
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.DEFAULT,
    ]
    assert not config_value.read_only
    fixed_value = broker_value("num.partitions", scope="1", image=image, settings=DEFAULTS)
    assert fixed_value.read_only


def test_dynamic_configs_lie_over_the_settings_of_a_broker() -> None:
    image = (
        cluster()
        .with_broker_configs(
            "",
            {
                "transaction.partition.verification.enable": "false",
                "producer.id.expiration.ms": "5",
                "log.message.timestamp.type": "LogAppendTime",
                "log.retention.ms": "7",
            },
        )
        .with_broker_configs("2", {"producer.id.expiration.ms": "6"})
    )
    settings = settings_of(image)
    assert not settings.transaction_partition_verification_enable
    assert settings.producer_id_expiration_ms == 5
    assert settings.message_timestamp_type == "LogAppendTime"
    assert settings_of(image, broker_id=BrokerId(2)).producer_id_expiration_ms == 6
    assert settings_of(cluster()) is DEFAULTS


def test_a_log_has_the_configs_of_its_topic_and_of_the_cluster() -> None:
    image = cluster().with_broker_configs("", {"producer.id.expiration.ms": "5"})
    own_topic = topic(
        configs={
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": "100",
            "segment.bytes": "2097152",
        }
    )
    config = log_config(image, own_topic, DEFAULTS, release_rules=LATEST_RULES)
    assert config.is_compacted
    assert config.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.max_message_bytes == 100
    assert config.segment_bytes == 2_097_152
    assert config.producer_id_expiration_ms == 5
    assert config.needs_verification
    assert not log_config(image, topic(), DEFAULTS, release_rules=LATEST_RULES).is_compacted


def test_a_log_follows_what_is_configured_for_its_broker_before_what_is_for_all() -> None:
    image = (
        cluster()
        .with_broker_configs("", {"message.max.bytes": "300", "producer.id.expiration.ms": "5"})
        .with_broker_configs("2", {"message.max.bytes": "900", "producer.id.expiration.ms": "6"})
    )
    for broker_id, size, expiration_ms in ((-1, 300, 5), (1, 300, 5), (2, 900, 6)):
        config = log_config(
            image, topic(), DEFAULTS, BrokerId(broker_id), release_rules=LATEST_RULES
        )
        assert (config.max_message_bytes, config.producer_id_expiration_ms) == (size, expiration_ms)
    lookup = TopicLookup(topic={}, image=image, settings=DEFAULTS, broker_id=BrokerId(2))
    config_value = lookup.value("max.message.bytes")
    assert sources(config_value) == [
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.DEFAULT,
    ]


@pytest.mark.parametrize(
    ("codec", "number", "codec_level"),
    [
        ("producer", None, None),
        ("uncompressed", 0, None),
        ("gzip", 1, 5),
        ("snappy", 2, None),
        ("lz4", 3, None),
        ("zstd", 4, 7),
    ],
)
def test_a_topics_codec_and_its_level(
    codec: str, number: int | None, codec_level: int | None
) -> None:
    own_topic = topic(
        configs={
            "compression.type": codec,
            "compression.gzip.level": "5",
            "compression.zstd.level": "7",
        }
    )
    config = log_config(cluster(), own_topic, DEFAULTS, release_rules=LATEST_RULES)
    assert (config.codec, config.codec_level) == (number, codec_level)


def test_what_keeps_a_log_in_bounds_reaches_it() -> None:
    own_topic = topic(
        configs={
            "cleanup.policy": "compact,delete",
            "segment.ms": "700",
            "max.compaction.lag.ms": "500",
            "segment.jitter.ms": "7",
            "retention.ms": "-1",
            "retention.bytes": "9",
            "min.cleanable.dirty.ratio": "0.25",
        }
    )
    config = log_config(cluster(), own_topic, DEFAULTS, release_rules=LATEST_RULES)
    assert (config.is_compacted, config.is_deleted) == (True, True)
    assert config.segment_ms == 500, "what is never rolled is never cleaned"
    assert (config.segment_jitter_ms, config.retention_ms, config.retention_bytes) == (7, -1, 9)
    assert config.min_cleanable_dirty_ratio == 0.25
    assert (
        log_config(cluster(), topic(), DEFAULTS, release_rules=LATEST_RULES).segment_ms
        == 604_800_000
    )


def test_segments_of_internal_topics_are_small_but_take_what_others_take() -> None:
    config = log_config(
        cluster(), topic("__transaction_state"), DEFAULTS, release_rules=LATEST_RULES
    )
    assert config.roll_bytes == DEFAULTS.internal_log_segment_bytes
    assert config.segment_bytes == DEFAULTS.segment_bytes


def test_a_factor_that_is_not_set_is_told_as_kafkas_default() -> None:
    """A real 4.4.0 answers 3 with DEFAULT_CONFIG; if its file sets 3, with STATIC_BROKER_CONFIG."""
    config_name = "transaction.state.log.replication.factor"
    for settings, source in (
        (DEFAULTS, ConfigSource.DEFAULT),
        (Settings(transaction_state_log_replication_factor=3), ConfigSource.STATIC_BROKER),
    ):
        config_value = broker_value(config_name, scope="1", image=cluster(), settings=settings)
        assert (config_value.value, config_value.source) == ("3", source)


# Quotas: whom they may be for, what they may be, and which a filter finds.


EMPTY = ClusterImage(cluster_id="c")


@pytest.mark.parametrize("config_value", [float("inf"), float("nan"), float("-inf")])
def test_a_quota_is_a_finite_number(config_value: float) -> None:
    change = [QuotaChange(key="request_percentage", value=config_value)]
    values = altered_values(EMPTY, (("user", "u"),), change)
    assert isinstance(values, Rejection)
    assert values.reason == "Quota request_percentage must be a finite number"


def test_before_4_4_a_quota_might_be_without_end() -> None:
    change = [QuotaChange(key="request_percentage", value=float("inf"))]
    values = altered_values(EMPTY, (("user", "u"),), change, Rules(quotas_are_finite=False))
    assert values == {"request_percentage": float("inf")}


RATE = "producer_byte_rate"
CONNECTIONS = "connection_creation_rate"


def quota_complaint(entity: Entity, key: str = RATE, config_value: float = 1.0) -> str | None:
    outcome = altered_values(EMPTY, entity, [QuotaChange(key=key, value=config_value)])
    return outcome.reason if isinstance(outcome, Rejection) else None


@pytest.mark.parametrize(
    ("entity", "key", "complaint"),
    [
        ((), RATE, "Invalid empty client quota entity"),
        ((("group", "g"),), RATE, "Unhandled client quota entity type: group"),
        ((("user", ""),), RATE, "Empty user not supported"),
        ((("user", None),), RATE, None),
        ((("client-id", "c"), ("user", "u")), RATE, None),
        ((("user", "u"), ("ip", "::1")), RATE, "Invalid quota entity combination, IP entity"),
        ((("ip", "nowhere!"),), CONNECTIONS, "nowhere! is not a valid IP or resolvable host."),
        ((("ip", "192.0.2.1"),), CONNECTIONS, None),
        ((("ip", "localhost"),), CONNECTIONS, None),
        ((("ip", None),), CONNECTIONS, None),
        ((("ip", None),), RATE, f"Invalid configuration key {RATE}"),
        ((("user", "u"),), CONNECTIONS, f"Invalid configuration key {CONNECTIONS}"),
    ],
)
def test_whom_a_quota_may_be_for(entity: Entity, key: str, complaint: str | None) -> None:
    complaint_found = quota_complaint(entity, key)
    assert (
        complaint_found is None
        if complaint is None
        else complaint_found is not None and complaint in complaint_found
    )


@pytest.mark.parametrize(
    ("key", "config_value", "complaint"),
    [
        (RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        (RATE, -1.0, f"Quota {RATE} must be greater than 0"),
        (RATE, 1.5, f"{RATE} cannot be a fractional value."),
        (RATE, 1e30, f"Proposed value for {RATE} is too large for a LONG."),
        ("request_percentage", 1.5, None),
    ],
)
def test_what_a_value_may_be(key: str, config_value: float, complaint: str | None) -> None:
    assert quota_complaint((("user", "u"),), key, config_value) == complaint


def test_connections_are_counted_in_ints() -> None:
    complaint = quota_complaint((("ip", None),), CONNECTIONS, 2.0**31)
    assert complaint == f"Proposed value for {CONNECTIONS} is too large for an INT."


def test_an_entity_has_one_order_and_one_name_of_a_kind() -> None:
    entity = entity_of([("user", "u"), ("group", "g"), ("client-id", None), ("user", "v")])
    assert entity == (("client-id", None), ("user", "v"), ("group", "g"))
    assert entity_text(entity) == "ClientQuotaEntity(entries={client-id=null, user=v, group=g})"


ENTITIES: tuple[Entity, ...] = (
    (("user", "u"),),
    (("user", None),),
    (("client-id", "c"), ("user", "u")),
    (("client-id", "c"),),
)


@pytest.mark.parametrize(
    ("exact", "kinds", "is_strict", "expected"),
    [
        ({}, (), False, (0, 1, 2, 3)),
        ({}, (), True, ()),
        ({"user": "u"}, (), False, (0, 2)),
        ({"user": "u"}, (), True, (0,)),
        ({"user": None}, (), False, (1,)),
        ({}, ("user",), False, (0, 1, 2)),
        ({}, ("user",), True, (0, 1)),
        ({"client-id": "c"}, ("user",), True, (2,)),
        ({"ip": "::1"}, (), False, ()),
    ],
)
def test_what_a_filter_finds(
    exact: dict[str, str | None], kinds: tuple[str, ...], is_strict: bool, expected: tuple[int, ...]
) -> None:
    change = [QuotaChange(key="request_percentage", value=1.0)]
    image = altered_quotas(EMPTY, dict.fromkeys(ENTITIES, change))
    assert image.offset == EMPTY.offset + len(ENTITIES), "a record each"
    quota_filter = QuotaFilter(exact=exact, kinds=frozenset(kinds), strict=is_strict)
    entities = [entity for entity in image.client_quotas if finds_quota(quota_filter, entity)]
    assert entities == [ENTITIES[entity_number] for entity_number in expected]


def test_a_quota_is_taken_back_and_what_changes_nothing_is_the_image_itself() -> None:
    user: Entity = (("user", "u"),)
    limited_image = altered_quotas(EMPTY, {user: [QuotaChange(key=RATE, value=1.0)]})
    assert limited_image.client_quotas == {user: {RATE: 1.0}}
    assert (
        altered_quotas(limited_image, {user: [QuotaChange(key=RATE, value=1.0)]}) is limited_image
    )
    freed_image = altered_quotas(limited_image, {user: [QuotaChange(key=RATE, value=None)]})
    assert freed_image.client_quotas == {}
    assert altered_quotas(freed_image, {user: [QuotaChange(key=RATE, value=None)]}) is freed_image


def test_what_is_refused_is_left_out_of_what_changes_at_once() -> None:
    good_entity, bad_entity = (("user", "u"),), (("group", "g"),)
    change = [QuotaChange(key=RATE, value=1.0)]
    assert altered_quotas(EMPTY, {good_entity: change, bad_entity: change}).client_quotas == {
        good_entity: {RATE: 1.0}
    }
    assert altered_quotas(EMPTY, {bad_entity: change}) is EMPTY


# The configs of topics: which there are, and Kafka's defaults.


@pytest.mark.parametrize("config_name", sorted(TOPIC_CONFIGS.keys() - {INTERNAL_SEGMENT_BYTES}))
def test_every_default_of_a_topic_is_valid(config_name: str) -> None:
    assert topic_complaint(config_name, TOPIC_CONFIGS[config_name].default_text) is None


def test_configs_that_came_with_a_release() -> None:
    older_configs = topic_configs(Rules(topics_have_dead_letters=False))
    new_names = TOPIC_CONFIGS.keys() - older_configs.keys()
    assert len(new_names) == 3
    assert new_names < set(TopicLookup(topic={}, image=cluster(), settings=DEFAULTS).broker_names())
    assert topic_complaint("remote.copy.lag.ms", "0") is None
    assert topic_complaint("remote.copy.lag.ms", "0", older_configs) == (
        "Unknown topic config name: remote.copy.lag.ms"
    )


def test_configs_of_brokers_that_came_with_a_release() -> None:
    # A real 4.3.1 tells none of them, a real 4.2.2 the last one.
    bounded = "max.decompressed.message.bytes"
    of_4_4 = {"log.remote.copy.lag.bytes", "log.remote.copy.lag.ms", bounded}
    assert of_4_4 <= broker_configs(LATEST_RULES).keys()
    for rules, missing in (
        (RELEASES["4.3"].rules, of_4_4),
        (RELEASES["4.2"].rules, of_4_4 - {bounded}),
        (RELEASES["4.1"].rules, of_4_4),
        (Rules(decompression_is_bounded=False), {bounded}),
    ):
        assert of_4_4 - broker_configs(rules).keys() == missing
        assert (bounded in topic_configs(rules)) is (bounded not in missing)


# How values of configs are written.


def test_a_list_keeps_elements_that_are_empty() -> None:
    assert elements(" a ,, b") == ["a", "", "b"]
    assert elements("  ") == []


@pytest.mark.parametrize(
    ("config_type", "written_value", "shown_value"),
    [
        (ConfigType.LIST, "b, a,b", "b,a"),
        (ConfigType.INT, " 07 ", "7"),
        (ConfigType.BOOLEAN, " TRUE ", "true"),
        (ConfigType.STRING, " Latest ", "Latest"),
    ],
)
def test_a_value_is_shown_in_its_plain_form(
    config_type: ConfigType, written_value: str, shown_value: str
) -> None:
    assert displayed_value(ConfigKey(config_type, ""), written_value) == shown_value


def test_a_refusal_says_why() -> None:
    assert (invalid_config("so").error, invalid_config("so").reason) == (
        ErrorCode.invalid_config,
        "so",
    )
    assert invalid_request("so").error is ErrorCode.invalid_request


# What a broker tells of settings that have no effect here, and of itself.


def test_a_file_is_told_also_where_it_has_no_effect() -> None:
    settings = settings_from_values({}, {"num.io.threads": "16", "ssl.key.password": SECRET})
    threads_value = broker_value("num.io.threads", scope="1", image=cluster(), settings=settings)
    assert (threads_value.value, threads_value.source, threads_value.read_only) == (
        "16",
        STATIC,
        False,
    )
    assert threads_value.synonyms == (
        ("num.io.threads", "16", STATIC),
        ("num.io.threads", "8", DEFAULT),
    )
    password_value = broker_value("ssl.key.password", scope="1", image=cluster(), settings=settings)
    assert (password_value.value, password_value.source, password_value.is_sensitive) == (
        None,
        STATIC,
        True,
    )
    assert password_value.synonyms == (("ssl.key.password", None, STATIC),)


def test_what_a_release_does_not_know_is_told_without_its_value() -> None:
    # Real brokers of 3.5.2 and 3.9.2, whose files had a setting of 4.1.
    newer_name = "share.coordinator.state.topic.min.isr"
    settings = settings_from_values({newer_name.replace(".", "_"): 1}, {"jmx.port": SECRET})
    keys = broker_configs(RELEASES["3.6"].rules)
    image = cluster().with_broker_configs("1", {"plugin.x": "5"})
    names = described_names("1", key_by_name=keys, image=image, settings=settings)
    assert names == (*keys, "jmx.port", newer_name, "plugin.x")
    for name, source in (
        ("jmx.port", STATIC),
        (newer_name, STATIC),
        ("plugin.x", ConfigSource.DYNAMIC_BROKER),
    ):
        config_value = broker_value(
            name, scope="1", image=image, settings=settings, key_by_name=keys
        )
        assert config_value.type is ConfigType.UNKNOWN
        assert (config_value.value, config_value.is_sensitive) == (None, True)
        assert config_value.synonyms == ((name, None, source),)
    assert newer_name in described_names(
        "1", key_by_name=BROKER_CONFIGS, image=image, settings=DEFAULTS
    )
    assert described_names("", key_by_name=keys, image=image, settings=settings) == ()


def test_a_setting_that_no_broker_has_is_told_as_one_of_the_file_that_is_unknown() -> None:
    newer_name = "group.streams.num.warmup.replicas"
    settings = settings_from_values({}, {newer_name: "1"})
    keys = broker_configs(RELEASES["4.3"].rules)
    assert newer_name in described_names("1", key_by_name=keys, image=cluster(), settings=settings)
    config_value = broker_value(
        newer_name, scope="1", image=cluster(), settings=settings, key_by_name=keys
    )
    assert (config_value.type, config_value.value) == (ConfigType.UNKNOWN, None)
    assert (config_value.source, config_value.is_sensitive) == (STATIC, True)


def test_a_broker_tells_its_own_numbers_and_addresses() -> None:
    image = cluster()
    own_id = min(image.brokers)
    broker_values = own_values(image, own_id, is_kraft=True)
    listener = f"PLAINTEXT://{image.brokers[own_id].host}:{image.brokers[own_id].port}"
    assert broker_values == {
        "advertised.listeners": listener,
        "broker.id": str(own_id),
        "listeners": listener,
        "node.id": str(own_id),
        "process.roles": "broker,controller",
    }
    roles_value = broker_value(
        "process.roles", scope="1", image=image, settings=DEFAULTS, own_values=broker_values
    )
    assert (roles_value.value, roles_value.source) == ("broker,controller", STATIC)
    assert own_values(image, max(image.brokers), is_kraft=True)["process.roles"] == "broker"


def test_a_broker_before_kraft_has_no_roles() -> None:
    image = cluster()
    own_id = min(image.brokers)
    broker_in_rack = msgspec.structs.replace(image.brokers[own_id], rack="r1")
    image = msgspec.structs.replace(image, brokers={**image.brokers, own_id: broker_in_rack})
    broker_values = own_values(image, own_id, is_kraft=False)
    assert broker_values.keys() == {"advertised.listeners", "broker.id", "broker.rack", "listeners"}
    assert broker_values["broker.rack"] == "r1"


def test_a_topics_config_has_the_documentation_of_the_brokers() -> None:
    assert documentation_of("cleanup.policy") == documentation_of("log.cleanup.policy")
    sized = documentation_of("transaction.max.timeout.ms")
    assert sized is not None
    assert sized.startswith("upper bound of a producer's transaction timeout")


def test_what_no_release_has_has_no_documentation() -> None:
    assert documentation_of("no.such") is None
    assert documentation_of("num.io.threads") == (
        "threads that handle requests; no effect here, because one event loop serves every "
        "connection"
    )


@pytest.mark.parametrize(
    ("config_name", "config_value", "complaint"),
    [
        (
            "metric.reporters",
            "a,a",
            "Configuration 'metric.reporters' values must not be duplicated.",
        ),
        ("metric.reporters", "", None),
        (
            "listeners",
            "",
            "Configuration 'listeners' must not be empty. Valid values include: any non-empty "
            "value",
        ),
        (
            "ssl.engine.factory.class",
            "x",
            "Invalid value x for configuration ssl.engine.factory.class: Class x could not be "
            "found.",
        ),
        ("config.providers", "a,a", None),
        ("no.such", "a,a", None),
    ],
)
def test_lists_and_classes_of_brokers(
    config_name: str, config_value: str, complaint: str | None
) -> None:
    assert broker_complaint(config_name, config_value) == complaint
