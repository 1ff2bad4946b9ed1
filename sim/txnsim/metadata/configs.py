"""Topic and broker configs: names, types, defaults, and valid values.

A table and pure functions. A topic config's value is the topic's own, else the dynamic config of
all brokers, else the broker's setting, else Kafka's default. Kafka's counterparts: LogConfig,
DynamicBrokerConfig, ConfigDef.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import dropwhile
from types import MappingProxyType
from typing import Final

import msgspec

from txnsim import settings as settings_module
from txnsim.log.config import LogConfig, TimestampType
from txnsim.metadata.config_keys import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LONG_MAX_TEXT,
    STRING,
    TOPIC_CONFIGS,
    ConfigKey,
    ConfigSource,
    ConfigType,
    elements,
    topic_configs,
    whole_number,
)
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases.rules import LATEST, Rules
from txnsim.settings import Settings
from txnsim.types import INTERNAL_TOPICS, BrokerId
from txnsim.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD

DEVIATIONS = (
    "Topic configs of flushing and tiered storage, compression.lz4.level and "
    "max.decompressed.message.bytes are stored, validated and described, but have no effect.",
    "Topics have internal.segment.bytes in every release; Apache Kafka 4.0 does not know it.",
    "Segments of the internal topics end after internal.log.segment.bytes (ours), so that a "
    "long-lived server's memory stays small; segment.bytes is described as Apache Kafka's.",
)


class ConfigValue(msgspec.Struct, frozen=True, kw_only=True):
    """An effective value with its source; ``synonyms`` lists all values, the best source first."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    read_only: bool = False
    is_sensitive: bool = False


_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
OFFSET_MAP_ENTRY_BYTES: Final = 24
"""Bytes per key in the cleaner's memory: its MD5 and an offset (SkimpyOffsetMap)."""
_CODEC_OF: Final = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""Codecs by name; ``producer`` is not one of them."""
_LEVEL_OF: Final = {"gzip": "compression.gzip.level", "zstd": "compression.zstd.level"}
_PYTHON_TYPES: Final = {
    bool: BOOLEAN,
    float: DOUBLE,
    int: INT,
    str: STRING,
    type(None): INT,
}
_KINDS: Final[Mapping[str, ConfigType]] = {
    "group.consumer.assignors": LIST,
    "group.streams.acceptable.recovery.lag": LONG,
    "group.streams.rack.aware.assignment.tags": LIST,
    "leader.imbalance.check.interval.seconds": LONG,
    "log.cleaner.backoff.ms": LONG,
    "log.cleaner.dedupe.buffer.size": LONG,
    "log.initial.task.delay.ms": LONG,
    "log.retention.check.interval.ms": LONG,
    "offsets.retention.check.interval.ms": LONG,
    "offsets.topic.replication.factor": ConfigType.SHORT,
    "replica.high.watermark.checkpoint.interval.ms": LONG,
    "replica.lag.time.max.ms": LONG,
    "share.coordinator.state.topic.min.isr": ConfigType.SHORT,
    "share.coordinator.state.topic.replication.factor": ConfigType.SHORT,
    "transaction.state.log.replication.factor": ConfigType.SHORT,
}
"""Types that can't be derived from a setting's Python type."""
_MINIMA: Final = {
    f"group.{kind}.assignment.interval.ms": 0 for kind in ("consumer", "share", "streams")
}
"""Lower bounds of settings that can be changed while a broker runs."""
INTERNAL_BROKER_CONFIGS: Final = frozenset(
    {
        "group.consumer.regex.refresh.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.streams.acceptable.recovery.lag",
        "group.streams.max.warmup.replicas",
        "group.streams.min.task.offset.interval.ms",
        "group.streams.num.warmup.replicas",
        "group.streams.task.offset.interval.ms",
        "producer.id.expiration.check.interval.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
    }
)
"""Broker configs that Kafka defines as internal: shown only if they are set
(AbstractConfig.nonInternalValues).
"""
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""The internal config of a topic for its segment size (LogConfig)."""
_HOUR_MS: Final = 3_600_000
_STAND_INS: Final[Mapping[str, Mapping[str, int]]] = {
    "log.flush.interval.ms": {"log.flush.scheduler.interval.ms": 1},
    "log.retention.ms": {"log.retention.minutes": 60_000, "log.retention.hours": _HOUR_MS},
    "log.roll.jitter.ms": {"log.roll.jitter.hours": _HOUR_MS},
    "log.roll.ms": {"log.roll.hours": _HOUR_MS},
}
"""Broker configs without their own default -> the configs that Kafka uses instead, each with its
unit in ms (ServerTopicConfigSynonyms).
"""
_UNSET: Final = frozenset(_STAND_INS) | {"log.retention.minutes"}
"""Configs that are null unless they are set."""
_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    member: (first, *others)
    for first, others in _STAND_INS.items()
    for member in (first, *others)
    if member != "log.flush.scheduler.interval.ms"
}
"""Broker configs that are synonyms of each other, the one with precedence first
(DynamicBrokerConfig.brokerConfigSynonyms).
"""
_THROTTLED: Final = re.compile(r"\*|(?:\d+:\d+)?")


@cache
def broker_configs(rules: Rules) -> Mapping[str, ConfigKey]:
    """Every setting that has a Kafka name, and the broker config behind every topic config, of a
    release.
    """
    keys: dict[str, ConfigKey] = {"log.flush.scheduler.interval.ms": ConfigKey(LONG, LONG_MAX_TEXT)}
    keys |= {
        key.broker_name: ConfigKey(
            key.type, key.default, None, key.minimum, key.maximum, key.choices
        )
        for key in topic_configs(rules).values()
        if key.broker_name is not None
    }
    for name, documentation in settings_module.documentation().items():
        if documentation.kafka is None or documentation.kafka in keys:
            continue
        default = documentation.kafka_default
        if default is msgspec.UNSET:
            default = getattr(settings_module.DEFAULTS, name)
        kind = _KINDS.get(documentation.kafka, _PYTHON_TYPES[type(default)])
        default_text = "" if default is None else text(default)
        least = _MINIMA.get(documentation.kafka)
        keys[documentation.kafka] = ConfigKey(kind, default_text, minimum=least)
    return MappingProxyType(dict(sorted(keys.items())))


def text(value: object) -> str:
    """A setting's value in Kafka's spelling."""
    return str(value).lower() if isinstance(value, bool) else str(value)


BROKER_CONFIGS: Final = broker_configs(LATEST)
_SETTING_OF: Final[Mapping[str, str]] = {
    documentation.kafka: name
    for name, documentation in settings_module.documentation().items()
    if documentation.kafka is not None
}
DYNAMIC_BROKER_CONFIGS: Final = frozenset(
    {key.broker_name for key in TOPIC_CONFIGS.values() if key.broker_name is not None}
    | {
        documentation.kafka
        for documentation in settings_module.documentation().values()
        if documentation.kafka is not None and documentation.dynamic
    }
)
FIXED_BROKER_CONFIGS: Final = (frozenset(BROKER_CONFIGS) - DYNAMIC_BROKER_CONFIGS) | {
    "group.streams.assignors",
    "group.streams.topology.description.plugin.class",
}
"""Broker configs that can only be changed by a restart."""


# Validation


def topic_complaint(
    name: str, value: str, keys: Mapping[str, ConfigKey] = TOPIC_CONFIGS
) -> str | None:
    """Why ``name=value`` is no valid topic config, in the words of Kafka's ConfigDef and LogConfig;
    None if it is valid.
    """
    key = keys.get(name)
    if key is None:
        return f"Unknown topic config name: {name}"
    return key_complaint(key, name, value) or _topic_rule(name, value)


def broker_complaint(name: str, value: str) -> str | None:
    """Why ``name=value`` is no valid broker config; None if it is valid. Names that Kafka does not
    know are accepted, because a plugin may use them.
    """
    key = BROKER_CONFIGS.get(name)
    if key is None:
        return None
    if key.type is ConfigType.LIST and key.choices:
        items = elements(value)
        if len(set(items)) < len(items):  # of a topic's they go (ConfigDef.ValidList)
            return f"Configuration '{name}' values must not be duplicated."
    return key_complaint(key, name, value)


def key_complaint(key: ConfigKey, name: str, value: str) -> str | None:
    """ConfigDef's complaint about a value: wrong type or out of bounds; None if there is none."""
    match key.type:
        case ConfigType.BOOLEAN:
            if value.strip().lower() not in ("true", "false"):
                return _invalid(name, value, "Expected value to be either true or false")
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG | ConfigType.DOUBLE:
            return _number_complaint(key, name, value)
        case _:
            items = elements(value) if key.type is ConfigType.LIST else [value.strip()]
            for element in items if key.choices else ():
                if not element and key.type is ConfigType.LIST:
                    return f"Configuration '{name}' values must not be empty."
                if element not in key.choices:
                    return _invalid(
                        name, element, f"String must be one of: {', '.join(key.choices)}"
                    )
    return None


def _topic_rule(name: str, value: str) -> str | None:
    """The rules for single topic configs (LogConfig's validators)."""
    if name == "compression.gzip.level" and int(value) not in (-1, *range(1, 10)):
        return _invalid(name, value, "Value must be between 1 and 9 or equal to -1")
    if name.endswith(".replication.throttled.replicas"):
        if all(_THROTTLED.fullmatch(element) for element in _items(value)):
            return None
        return _invalid(
            name,
            f"[{', '.join(_items(value))}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    if name == "remote.storage.enable" and value.strip().lower() == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )
    return None


def _number_complaint(key: ConfigKey, name: str, value: str) -> str | None:
    limit = {
        ConfigType.INT: 2**31 - 1,
        ConfigType.SHORT: 2**15 - 1,
        ConfigType.LONG: LONG_MAX,
    }.get(key.type)
    try:
        number = float(value) if limit is None else whole_number(value.strip())
    except ValueError:
        return _invalid(name, value, f"Not a number of type {key.type.name}")
    if limit is not None and not -limit - 1 <= number <= limit:
        return _invalid(name, value, f"Not a number of type {key.type.name}")
    if key.minimum is not None and number < key.minimum:
        return _invalid(name, str(number), f"Value must be at least {key.minimum}")
    if key.maximum is not None and number > key.maximum:
        return _invalid(name, str(number), f"Value must be no more than {key.maximum}")
    return None


def _invalid(name: str, value: str, why: str) -> str:
    return f"Invalid value {value} for configuration {name}: {why}"


def _items(value: str) -> list[str]:
    return [element.strip() for element in value.split(",") if element.strip()]


# Effective values

NO_BROKER: Final = BrokerId(-1)
"""Stands for the configs of all brokers."""


def effective_settings(settings: Settings, image: ClusterImage, broker_id: BrokerId) -> Settings:
    """The settings of one broker, overridden by its dynamic configs."""
    changes: dict[str, object] = {}
    for scope in ("", str(broker_id)):
        for name, value in image.broker_configs.get(scope, {}).items():
            field = _SETTING_OF.get(name)
            if field is not None:
                changes[field] = _parse_value(value, getattr(settings, field))
    return msgspec.structs.replace(settings, **changes) if changes else settings


def _parse_value(value: str, like: object) -> object:
    if isinstance(like, bool):
        return value.strip().lower() == "true"
    if isinstance(like, float):
        return float(value)
    return int(value) if isinstance(like, int | None) else value


class TopicLookup(msgspec.Struct, frozen=True, kw_only=True):
    """The sources in which a topic's configs are looked up, nearest first."""

    topic: Mapping[str, str]
    """The topic's own configs."""
    image: ClusterImage
    settings: Settings
    broker_id: BrokerId = NO_BROKER
    """By default only the configs of all brokers apply."""
    rules: Rules = LATEST
    """The rules of the broker's release."""

    def broker_names(self) -> tuple[str, ...]:
        """The names that a broker lists."""
        keys = topic_configs(self.rules)
        return tuple(name for name in keys if name in self.topic or name != INTERNAL_SEGMENT_BYTES)

    def value(self, name: str) -> ConfigValue:
        """The effective value of a config on a broker, with its synonyms."""
        key, settings = topic_configs(self.rules)[name], self.settings
        synonyms: list[tuple[str, str, ConfigSource]] = []
        if name in self.topic:
            synonyms.append((name, self.topic[name], ConfigSource.TOPIC))
        if key.broker_name is not None:
            scopes = ("",) if self.broker_id == NO_BROKER else (str(self.broker_id), "")
            synonyms += broker_synonyms(
                key.broker_name, key, scopes=scopes, image=self.image, settings=settings
            )
        return value_of(name, key, synonyms, otherwise="" if synonyms else _stand_in(key, settings))

    def controller_value(self, name: str) -> ConfigValue:
        """Like ``value``, as a controller sees it: for a controller, settings in hours in a
        broker's file also count as broker configs (KafkaConfigSchema.resolveEffectiveTopicConfig).
        """
        config_value = self.value(name)
        stand_ins = _STAND_INS.get(TOPIC_CONFIGS[name].broker_name or "", {})
        if config_value.synonyms or all(
            _static(stand_in, self.settings) is None for stand_in in stand_ins
        ):
            return config_value
        return msgspec.structs.replace(config_value, source=ConfigSource.STATIC_BROKER)

    def text(self, name: str) -> str:
        """The effective value without its source; there always is one."""
        value = self.value(name).value
        assert value is not None, name
        return value


def value_of(
    name: str, key: ConfigKey, synonyms: Sequence[tuple[str, str, ConfigSource]], *, otherwise: str
) -> ConfigValue:
    """The first value, with all values as synonyms; ``otherwise`` is the default if there is
    none.
    """
    value, source = synonyms[0][1:] if synonyms else (otherwise, ConfigSource.DEFAULT)
    return ConfigValue(
        name=name, value=value, type=key.type, source=source, synonyms=tuple(synonyms)
    )


def _stand_in(key: ConfigKey, settings: Settings) -> str:
    """The value of a topic config if neither it nor its broker config is set: that of the first
    config that Kafka uses instead, or its default.
    """
    for name, unit_ms in _STAND_INS.get(key.broker_name or "", {}).items():
        value = _static(name, settings)
        if value is not None:
            # KafkaConfig.logRetentionTimeMillis: everything below 0 means never.
            return str(max(int(value) * unit_ms, -1))
    return key.default


def broker_value(
    name: str,
    *,
    broker: str,
    image: ClusterImage,
    settings: Settings,
    keys: Mapping[str, ConfigKey] = BROKER_CONFIGS,
) -> ConfigValue:
    """The effective value of a broker config; ``broker`` is an id as text, or empty for the dynamic
    defaults of all brokers.
    """
    key = keys.get(name)
    if key is None:
        return _unknown_value(name, source_of(broker))
    scopes = (broker, "") if broker else ("",)
    synonyms = broker_synonyms(name, key, scopes=scopes, image=image, settings=settings)
    if not broker:
        # The description of all brokers' defaults has only the configs that were set for them.
        synonyms = [entry for entry in synonyms if entry[2] is ConfigSource.DYNAMIC_DEFAULT_BROKER]
    value: str | None = None
    source = ConfigSource.DEFAULT
    if synonyms:
        value, source = synonyms[0][1:]
    if _is_overlaid(name, scopes=scopes, image=image):
        value = None if name in _UNSET else key.default
    return ConfigValue(
        name=name,
        value=value,
        type=key.type,
        source=source,
        synonyms=tuple(synonyms),
        read_only=name not in DYNAMIC_BROKER_CONFIGS,
    )


def source_of(broker: str) -> ConfigSource:
    """The source of a dynamic config of that broker, or of all brokers."""
    return ConfigSource.DYNAMIC_BROKER if broker else ConfigSource.DYNAMIC_DEFAULT_BROKER


def _unknown_value(name: str, source: ConfigSource) -> ConfigValue:
    """A config that Kafka does not know; its value may be a secret, so it is not shown."""
    return ConfigValue(
        name=name,
        value=None,
        type=ConfigType.UNKNOWN,
        source=source,
        synonyms=((name, None, source),),
        read_only=True,
        is_sensitive=True,
    )


def broker_synonyms(
    name: str,
    key: ConfigKey,
    *,
    scopes: tuple[str, ...],
    image: ClusterImage,
    settings: Settings,
) -> list[tuple[str, str, ConfigSource]]:
    """All values of a broker config, the nearest source first."""
    names = _FAMILIES.get(name, (name,))
    values = [
        (synonym, value, source_of(scope))
        for scope in scopes
        for synonym in names
        if (value := image.broker_configs.get(scope, {}).get(synonym)) is not None
    ]
    values += [
        (synonym, value, ConfigSource.STATIC_BROKER)
        for synonym in names
        if (value := _static(synonym, settings)) is not None
    ]
    values += [
        (
            synonym,
            (key if synonym == name else BROKER_CONFIGS[synonym]).default,
            ConfigSource.DEFAULT,
        )
        for synonym in names
        if synonym not in _UNSET
    ]
    # ConfigHelper.configSynonyms: drop the entries before the first value of the config itself.
    return list(dropwhile(lambda entry: entry[0] != name, values))


def _static(name: str, settings: Settings) -> str | None:
    """The value of a config in the broker's file; None if the file does not set it."""
    field = _SETTING_OF.get(name)
    if field is None:
        return None
    is_written = settings_module.is_explicit(settings, field)
    return text(getattr(settings, field)) if is_written else None


def _is_overlaid(name: str, *, scopes: tuple[str, ...], image: ClusterImage) -> bool:
    """Whether a related dynamic config overrides this one (DynamicBrokerConfig.overrideProps)."""
    related_names = set(_FAMILIES.get(name, ())) - {name}
    return any(related_names & image.broker_configs.get(scope, {}).keys() for scope in scopes)


def log_config(
    image: ClusterImage,
    topic: TopicImage,
    settings: Settings,
    broker_id: BrokerId = NO_BROKER,
    *,
    rules: Rules,
) -> LogConfig:
    """The resolved configs that a partition's log on a broker needs; without a broker only the
    configs of all brokers apply. ``rules`` are those of the broker's release.
    """
    value = TopicLookup(
        topic=topic.configs, image=image, settings=settings, broker_id=broker_id, rules=rules
    ).text
    # Some configs of the log have no topic form.
    cluster = effective_settings(settings, image, broker_id)
    policies = _items(value("cleanup.policy"))
    is_compacted = "compact" in policies
    segment_bytes = roll_bytes = int(value(INTERNAL_SEGMENT_BYTES) or value("segment.bytes"))
    if topic.name in INTERNAL_TOPICS:
        roll_bytes = min(roll_bytes, settings.internal_log_segment_bytes)
    codec = value("compression.type")
    level = _LEVEL_OF.get(codec)
    segment_ms = int(value("segment.ms"))
    max_compaction_lag_ms = int(value("max.compaction.lag.ms"))
    if is_compacted:
        # LogConfig.maxSegmentMs: a segment that is never rolled is never cleaned.
        segment_ms = min(segment_ms, max_compaction_lag_ms)
    return LogConfig(
        rules=rules,
        max_message_bytes=int(value("max.message.bytes")),
        timestamp_type=_TIMESTAMP_TYPES[value("message.timestamp.type")],
        timestamp_before_max_ms=int(value("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=int(value("message.timestamp.after.max.ms")),
        is_compacted=is_compacted,
        is_deleted="delete" in policies,
        segment_bytes=segment_bytes,
        roll_bytes=roll_bytes,
        segment_ms=segment_ms,
        segment_jitter_ms=int(value("segment.jitter.ms")),
        segment_index_bytes=int(value("segment.index.bytes")),
        index_interval_bytes=int(value("index.interval.bytes")),
        retention_ms=int(value("retention.ms")),
        retention_bytes=int(value("retention.bytes")),
        min_cleanable_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(value("min.compaction.lag.ms")),
        max_compaction_lag_ms=max_compaction_lag_ms,
        cleaner_keys_max=int(
            cluster.log_cleaner_dedupe_buffer_size
            // OFFSET_MAP_ENTRY_BYTES
            * cluster.log_cleaner_io_buffer_load_factor
        ),
        delete_retention_ms=int(value("delete.retention.ms")),
        codec=_CODEC_OF.get(codec),
        codec_level=None if level is None else int(value(level)),
        producer_id_expiration_ms=cluster.producer_id_expiration_ms,
        verification_enabled=cluster.transaction_partition_verification_enable,
    )
