"""Topic and broker configs: names, types, defaults, and valid values.

A table and pure functions. A topic config's value is the topic's own, else the dynamic config of
all brokers, else the broker's setting, else Kafka's default. Kafka's counterparts: LogConfig,
DynamicBrokerConfig, ConfigDef.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import dropwhile
from types import MappingProxyType
from typing import Final

import msgspec

from txnsim import settings as settings_module
from txnsim.log.config import LogConfig, TimestampType
from txnsim.metadata.config_keys import (
    LONG_MAX,
    TOPIC_CONFIGS,
    ConfigKey,
    ConfigSource,
    ConfigType,
    as_java_int,
    config_key,
    config_keys,
    decimal_number,
    decimal_text,
    elements,
    topic_configs,
    whole_number,
)
from txnsim.metadata.image import CLIENT_LISTENER, ClusterImage, TopicImage
from txnsim.metadata.settings_table import NO_EFFECT_REASONS, SCOPES, UpdateMode, setting_rows
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.settings import Settings
from txnsim.types import INTERNAL_TOPICS, BrokerId
from txnsim.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD

DEVIATIONS = (
    "Topic configs of flushing and tiered storage, compression.lz4.level and "
    "max.decompressed.message.bytes are stored, validated and described, but have no effect.",
    "A broker tells advertised.listeners also where its file does not set it, and nothing of "
    "listeners of controllers, which there are none of: controller.listener.names is null.",
    "Topic configs of message formats (message.format.version, message.downconversion.enable) and "
    "message.timestamp.difference.max.ms of releases before 4.0 have no effect.",
    "Segments of the internal topics end after internal.log.segment.bytes (ours), so that a "
    "long-lived server's memory stays small; segment.bytes is described as Apache Kafka's.",
)


Synonym = tuple[str, str | None, ConfigSource]
"""A name, its value (None: it is secret or unknown) and where it stands."""
SECRET: Final = "[hidden]"
"""Stands for the value of a secret in a broker's file: only that there is one is ever told."""
NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigValue(msgspec.Struct, frozen=True, kw_only=True):
    """An effective value with its source; ``synonyms`` lists all values, the best source first."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
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
_GZIP_LEVELS: Final = (-1, *range(1, 10))
_LEVEL_OF: Final = {"gzip": "compression.gzip.level", "zstd": "compression.zstd.level"}
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""The internal config of a topic for its segment size (LogConfig)."""
_HOUR_MS: Final = 3_600_000
_SUBSTITUTE_CONFIGS: Final[Mapping[str, Mapping[str, int]]] = {
    "log.flush.interval.ms": {"log.flush.scheduler.interval.ms": 1},
    "log.retention.ms": {"log.retention.minutes": 60_000, "log.retention.hours": _HOUR_MS},
    "log.roll.jitter.ms": {"log.roll.jitter.hours": _HOUR_MS},
    "log.roll.ms": {"log.roll.hours": _HOUR_MS},
}
"""Broker configs without their own default -> the configs that Kafka uses instead, each with its
unit in ms (ServerTopicConfigSynonyms).
"""
_DYNAMIC_SOURCES: Final = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
_LISTENERS: Final = "listeners"
_PROVIDERS: Final = "config.providers"
"""It is resolved before values are checked, so its own never is
(DynamicBrokerConfig.validateConfigTypes).
"""
_STORE_PREFIXES: Final = ("ssl.keystore.", "ssl.truststore.")
_THROTTLED_REPLICA: Final = re.compile(r"\*|(?:\d+:\d+)?")


def broker_configs(release_rules: Rules) -> Mapping[str, ConfigKey]:
    return config_keys("broker", release_rules)


def text(setting_value: object) -> str:
    """A setting's value in Kafka's spelling."""
    return str(setting_value).lower() if isinstance(setting_value, bool) else str(setting_value)


_FIELD_OF: Final = settings_module.fields_by_kafka_name()


@cache
def documentation_of(config_name: str) -> str | None:
    """What a config of any resource is for, in our words; None if no release has it."""
    field = _FIELD_OF.get(config_name)
    if field is not None:
        return settings_module.documentation()[field].reason
    for scope in SCOPES:
        row = setting_rows(scope).get(config_name)
        if row is None:
            continue
        if not row.about and row.broker is not None:
            return documentation_of(row.broker)
        reason = NO_EFFECT_REASONS.get(row.no_effect)
        return row.about if reason is None else f"{row.about}; no effect here, because {reason}"
    return None


# Validation


def topic_complaint(
    config_name: str, config_value: str, key_by_name: Mapping[str, ConfigKey] = TOPIC_CONFIGS
) -> str | None:
    """Why ``name=value`` is no valid topic config, in the words of Kafka's ConfigDef and LogConfig;
    None if it is valid.
    """
    key = key_by_name.get(config_name)
    if key is None:
        return f"Unknown topic config name: {config_name}"
    return key_complaint(key, config_name, config_value) or _topic_rule_complaint(
        config_name, config_value
    )


def broker_complaint(
    config_name: str, config_value: str, key_by_name: Mapping[str, ConfigKey]
) -> str | None:
    """Why ``name=value`` is no valid broker config; None if it is valid. Names that Kafka does not
    know are accepted, because a plugin may use them.
    """
    key = key_by_name.get(config_name)
    if key is None or config_name == _PROVIDERS:
        return None
    if key.has_distinct_elements:
        list_elements = elements(config_value)
        # Of a topic's they go (ConfigDef.ValidList).
        if len(set(list_elements)) < len(list_elements):
            return f"Configuration '{config_name}' values must not be duplicated."
        if not list_elements and config_name == _LISTENERS:
            return (
                f"Configuration '{config_name}' must not be empty. Valid values include: any "
                "non-empty value"
            )
    if key.type is ConfigType.CLASS and config_value != key.default:
        return _invalid_value_text(
            config_name, config_value, f"Class {config_value} could not be found."
        )
    return key_complaint(key, config_name, config_value)


def is_of_listener(config_name: str) -> bool:
    """Whether a broker config can be changed only for one listener, below its prefix
    (DynamicBrokerConfig.securityConfigsWithoutListenerPrefix).
    """
    return config_name.startswith(_STORE_PREFIXES) or config_name == "ssl.key.password"


def key_complaint(key: ConfigKey, config_name: str, config_value: str) -> str | None:
    """ConfigDef's complaint about a value: wrong type or out of bounds; None if there is none."""
    match key.type:
        case ConfigType.BOOLEAN:
            if config_value.strip().lower() not in ("true", "false"):
                return _invalid_value_text(
                    config_name, config_value, "Expected value to be either true or false"
                )
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG | ConfigType.DOUBLE:
            return _number_complaint(key, config_name, config_value)
        case _:
            list_elements = (
                elements(config_value) if key.type is ConfigType.LIST else [config_value.strip()]
            )
            for element in list_elements if key.choices else ():
                if not element and key.type is ConfigType.LIST:
                    return f"Configuration '{config_name}' values must not be empty."
                if element not in key.choices:
                    return _invalid_value_text(
                        config_name, element, f"String must be one of: {', '.join(key.choices)}"
                    )
    return None


def _topic_rule_complaint(config_name: str, config_value: str) -> str | None:
    """The rules for single topic configs (LogConfig's validators)."""
    if config_name.endswith(".replication.throttled.replicas"):
        if all(_THROTTLED_REPLICA.fullmatch(element) for element in _list_elements(config_value)):
            return None
        return _invalid_value_text(
            config_name,
            f"[{', '.join(_list_elements(config_value))}]",
            f"{config_name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    if config_name == "remote.storage.enable" and config_value.strip().lower() == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )
    return None


def _number_complaint(key: ConfigKey, config_name: str, config_value: str) -> str | None:
    type_maximum = {
        ConfigType.INT: 2**31 - 1,
        ConfigType.SHORT: 2**15 - 1,
        ConfigType.LONG: LONG_MAX,
    }.get(key.type)
    try:
        number = (decimal_number if type_maximum is None else whole_number)(config_value.strip())
    except ValueError:
        return _invalid_value_text(
            config_name, config_value, f"Not a number of type {key.type.name}"
        )
    if type_maximum is not None and not -type_maximum - 1 <= number <= type_maximum:
        return _invalid_value_text(
            config_name, config_value, f"Not a number of type {key.type.name}"
        )
    number_text = str(number) if isinstance(number, int) else decimal_text(number)
    if key.minimum is not None and number < key.minimum:
        return _invalid_value_text(
            config_name, number_text, f"Value must be at least {key.minimum}"
        )
    if key.maximum is not None and number > key.maximum:
        return _invalid_value_text(
            config_name, number_text, f"Value must be no more than {key.maximum}"
        )
    if config_name == "compression.gzip.level" and number not in _GZIP_LEVELS:
        return _invalid_value_text(
            config_name, config_value, "Value must be between 1 and 9 or equal to -1"
        )
    return None


def _invalid_value_text(config_name: str, config_value: str, problem: str) -> str:
    return f"Invalid value {config_value} for configuration {config_name}: {problem}"


def _list_elements(list_text: str) -> list[str]:
    return [element.strip() for element in list_text.split(",") if element.strip()]


# Effective values

NO_BROKER: Final = BrokerId(-1)
"""Stands for the configs of all brokers."""


def effective_settings(
    settings: Settings, image: ClusterImage, broker_id: BrokerId, *, release_rules: Rules
) -> Settings:
    """The settings of one broker, overridden by its dynamic configs. ``release_rules`` are those of
    the broker's release.
    """
    key_by_name = broker_configs(release_rules)
    changed_values: dict[str, object] = {}
    for scope in ("", str(broker_id)):
        for config_name, config_value in image.broker_configs.get(scope, {}).items():
            field = _FIELD_OF.get(config_name)
            if field is not None and _is_applied(config_name, config_value, key_by_name):
                changed_values[field] = _parse_value(config_value, getattr(settings, field))
    return msgspec.structs.replace(settings, **changed_values) if changed_values else settings


def _is_applied(config_name: str, config_value: str, key_by_name: Mapping[str, ConfigKey]) -> bool:
    """Whether a broker applies a dynamic config. One that its release does not have, which a broker
    takes with any value, or that it would refuse, is kept and has no effect
    (DynamicBrokerConfig.processReconfiguration).
    """
    key = key_by_name.get(config_name)
    return (
        key is not None
        and key.update is not UpdateMode.READ_ONLY
        and key_complaint(key, config_name, config_value) is None
    )


def _parse_value(config_value: str, current_value: object) -> object:
    if isinstance(current_value, bool):
        return config_value.strip().lower() == "true"
    if isinstance(current_value, float):
        return decimal_number(config_value.strip())
    return int(config_value) if isinstance(current_value, int | None) else config_value


class TopicLookup(msgspec.Struct, frozen=True, kw_only=True):
    """The sources in which a topic's configs are looked up, nearest first."""

    topic: Mapping[str, str]
    """The topic's own configs."""
    image: ClusterImage
    settings: Settings
    broker_id: BrokerId = NO_BROKER
    """By default only the configs of all brokers apply."""
    rules: Rules = LATEST_RULES
    """The rules of the broker's release."""

    def broker_names(self) -> tuple[str, ...]:
        """The names that a broker lists."""
        key_by_name = topic_configs(self.rules)
        return tuple(
            config_name
            for config_name in key_by_name
            if config_name in self.topic or not key_by_name[config_name].is_internal
        )

    def value(self, config_name: str) -> ConfigValue:
        """The effective value of a config on a broker, with its synonyms."""
        key, settings = config_key("topic", config_name, self.rules), self.settings
        synonyms: list[Synonym] = []
        if config_name in self.topic:
            synonyms.append((config_name, self.topic[config_name], ConfigSource.TOPIC))
        if key.broker_name is not None:
            scopes = ("",) if self.broker_id == NO_BROKER else (str(self.broker_id), "")
            broker_keys = broker_configs(self.rules)
            synonyms += [
                (name, broker_value, source)
                for name, broker_value, source in broker_synonyms(
                    key.broker_name,
                    broker_keys,
                    scopes=scopes,
                    image=self.image,
                    settings=settings,
                )
                if source not in _DYNAMIC_SOURCES
                or broker_value is None
                or _is_applied(name, broker_value, broker_keys)
            ]
        default_value = None if synonyms else _substitute_value(key, settings)
        return value_of(config_name, key, synonyms, default_value=default_value)

    def controller_value(self, config_name: str) -> ConfigValue:
        """Like ``value``, as a controller sees it: for a controller, settings in hours in a
        broker's file also count as broker configs (KafkaConfigSchema.resolveEffectiveTopicConfig).
        """
        config_value = self.value(config_name)
        broker_name = config_key("topic", config_name, self.rules).broker_name
        value_by_stand_in = _SUBSTITUTE_CONFIGS.get(broker_name or "", {})
        if config_value.synonyms or all(
            _static_value(stand_in_name, self.settings) is None
            for stand_in_name in value_by_stand_in
        ):
            return config_value
        return msgspec.structs.replace(config_value, source=ConfigSource.STATIC_BROKER)

    def text(self, config_name: str) -> str:
        """The effective value without its source; there always is one."""
        config_text = self.value(config_name).value
        assert config_text is not None, config_name
        return config_text


def value_of(
    config_name: str,
    key: ConfigKey,
    synonyms: Sequence[Synonym],
    *,
    default_value: str | None,
) -> ConfigValue:
    """The first value, with all values as synonyms; ``default_value`` is the default if there is
    none.
    """
    first_value, config_source = (
        synonyms[0][1:] if synonyms else (default_value, ConfigSource.DEFAULT)
    )
    return ConfigValue(
        name=config_name,
        value=first_value,
        type=key.type,
        source=config_source,
        synonyms=tuple(synonyms),
    )


def _substitute_value(key: ConfigKey, settings: Settings) -> str | None:
    """The value of a topic config if neither it nor its broker config is set: that of the first
    config that Kafka uses instead, or its default.
    """
    for config_name, unit_ms in _SUBSTITUTE_CONFIGS.get(key.broker_name or "", {}).items():
        static_value = _static_value(config_name, settings)
        if static_value is not None:
            # KafkaConfig.logRetentionTimeMillis: everything below 0 means never.
            return str(max(int(static_value) * unit_ms, -1))
    return key.default


def broker_value(
    config_name: str,
    *,
    scope: str,
    image: ClusterImage,
    settings: Settings,
    key_by_name: Mapping[str, ConfigKey],
    own_values: Mapping[str, str] = NO_VALUES,
) -> ConfigValue:
    """The effective value of a broker config.

    Args:
        config_name: Name of the config.
        scope: A broker's id as text, or empty for the dynamic defaults of all brokers.
        image: The metadata of the cluster.
        settings: The settings of the cluster.
        key_by_name: The broker configs of the broker's release.
        own_values: What stands in the file of this broker alone, such as its number.
    """
    key = key_by_name.get(config_name)
    scopes = (scope, "") if scope else ("",)
    synonyms = broker_synonyms(
        config_name,
        key_by_name,
        scopes=scopes,
        image=image,
        settings=settings,
        own_values=own_values,
    )
    if key is None:
        return _unknown_value(config_name, synonyms)
    if not scope:
        # The description of all brokers' defaults has only the configs that were set for them.
        synonyms = [
            synonym for synonym in synonyms if synonym[2] is ConfigSource.DYNAMIC_DEFAULT_BROKER
        ]
    config_text: str | None = None
    config_source = ConfigSource.DEFAULT
    if synonyms:
        config_text, config_source = synonyms[0][1:]
    if key.synonyms and _is_overlaid(config_name, key, scopes=scopes, image=image):
        config_text = key.default
    return ConfigValue(
        name=config_name,
        value=None if key.is_sensitive else config_text,
        type=key.type,
        source=config_source,
        synonyms=tuple(_without_values(synonyms) if key.is_sensitive else synonyms),
        read_only=key.update is UpdateMode.READ_ONLY,
        is_sensitive=key.is_sensitive,
    )


def _without_values(synonyms: Iterable[Synonym]) -> Iterator[Synonym]:
    return ((synonym_name, None, source) for synonym_name, _, source in synonyms)


def described_names(
    scope: str, *, key_by_name: Mapping[str, ConfigKey], image: ClusterImage, settings: Settings
) -> tuple[str, ...]:
    """The configs that a broker describes, in order: those of its release, and what else stands in
    its file or was set (ConfigHelper.allConfigs).

    Args:
        scope: A broker's id as text, or empty for the dynamic defaults of all brokers.
        key_by_name: The broker configs of the broker's release.
        image: The metadata of the cluster.
        settings: The settings of the cluster.
    """
    dynamic_names = image.broker_configs.get(scope, {})
    if not scope:
        return tuple(dynamic_names)
    file_names = settings_module.values_without_effect(settings)
    newer_names = [
        name for name in _FIELD_OF if name not in key_by_name and _static_value(name, settings)
    ]
    return tuple(dict.fromkeys((*key_by_name, *file_names, *newer_names, *dynamic_names)))


def own_values(image: ClusterImage, broker_id: BrokerId, *, is_kraft: bool) -> Mapping[str, str]:
    """The broker configs that one broker alone has, as its own file would say them: its numbers,
    roles and addresses.

    Args:
        image: The metadata of the cluster.
        broker_id: The broker.
        is_kraft: Whether the release has nodes with roles, and no ZooKeeper.
    """
    broker = image.brokers[broker_id]
    address_by_listener = {CLIENT_LISTENER: (broker.host, broker.port), **broker.addresses}
    listeners = ",".join(
        f"{name}://{host}:{port}" for name, (host, port) in address_by_listener.items()
    )
    value_by_config = {
        "advertised.listeners": listeners,
        "broker.id": str(broker_id),
        "listeners": listeners,
    }
    if broker.rack is not None:
        value_by_config["broker.rack"] = broker.rack
    if is_kraft:
        # The controller runs on the first broker's node.
        is_first = broker_id == min(image.brokers)
        value_by_config["node.id"] = str(broker_id)
        value_by_config["process.roles"] = "broker,controller" if is_first else "broker"
    return value_by_config


def source_of(scope: str) -> ConfigSource:
    """The source of a dynamic config of that broker, or of all brokers."""
    return ConfigSource.DYNAMIC_BROKER if scope else ConfigSource.DYNAMIC_DEFAULT_BROKER


def _unknown_value(config_name: str, synonyms: Sequence[Synonym]) -> ConfigValue:
    """A config that the release does not know; its value may be a secret, so it is not shown."""
    return ConfigValue(
        name=config_name,
        value=None,
        type=ConfigType.UNKNOWN,
        source=synonyms[0][2],
        synonyms=tuple(_without_values(synonyms)),
        read_only=True,
        is_sensitive=True,
    )


def broker_synonyms(
    config_name: str,
    key_by_name: Mapping[str, ConfigKey],
    *,
    scopes: tuple[str, ...],
    image: ClusterImage,
    settings: Settings,
    own_values: Mapping[str, str] = NO_VALUES,
) -> list[Synonym]:
    """All values of a broker config, the nearest source first. ``key_by_name`` has the broker
    configs of the release.
    """
    key = key_by_name.get(config_name)
    family_names = (config_name,) if key is None else key.synonyms or (config_name,)
    synonyms: list[Synonym] = []
    for scope in scopes:
        if scope_configs := image.broker_configs.get(scope):
            synonyms += [
                (synonym, scope_configs[synonym], source_of(scope))
                for synonym in family_names
                if synonym in scope_configs
            ]
    for synonym in family_names:
        static_value = own_values.get(synonym) or _static_value(synonym, settings)
        if static_value is not None:
            synonyms.append((synonym, static_value, ConfigSource.STATIC_BROKER))
    for synonym in family_names:
        synonym_key = key if synonym == config_name else key_by_name.get(synonym)
        if synonym_key is not None and synonym_key.default is not None:
            synonyms.append((synonym, synonym_key.default, ConfigSource.DEFAULT))
    if len(family_names) == 1:
        return synonyms
    # ConfigHelper.configSynonyms: drop the entries before the first value of the config itself.
    return list(dropwhile(lambda synonym_entry: synonym_entry[0] != config_name, synonyms))


def _static_value(config_name: str, settings: Settings) -> str | None:
    """The value of a config in the broker's file; None if the file does not set it."""
    field = _FIELD_OF.get(config_name)
    if field is not None and settings_module.is_explicit(settings, field):
        return text(getattr(settings, field))
    return settings_module.values_without_effect(settings).get(config_name)


def _is_overlaid(
    config_name: str, key: ConfigKey, *, scopes: tuple[str, ...], image: ClusterImage
) -> bool:
    """Whether a related dynamic config overrides this one (DynamicBrokerConfig.overrideProps)."""
    related_names = set(key.synonyms) - {config_name}
    return any(related_names & image.broker_configs.get(scope, {}).keys() for scope in scopes)


def log_config(
    image: ClusterImage,
    topic: TopicImage,
    settings: Settings,
    broker_id: BrokerId = NO_BROKER,
    *,
    release_rules: Rules,
) -> LogConfig:
    """The resolved configs that a partition's log on a broker needs; without a broker only the
    configs of all brokers apply. ``release_rules`` are those of the broker's release.
    """
    text_of_config = TopicLookup(
        topic=topic.configs,
        image=image,
        settings=settings,
        broker_id=broker_id,
        rules=release_rules,
    ).text
    # Some configs of the log have no topic form.
    broker_settings = effective_settings(settings, image, broker_id, release_rules=release_rules)
    policy_names = _list_elements(text_of_config("cleanup.policy"))
    is_compacted = "compact" in policy_names
    segment_bytes = roll_bytes = int(
        topic.configs.get(INTERNAL_SEGMENT_BYTES) or text_of_config("segment.bytes")
    )
    if topic.name in INTERNAL_TOPICS:
        roll_bytes = min(roll_bytes, settings.internal_log_segment_bytes)
    codec = text_of_config("compression.type")
    level = _LEVEL_OF.get(codec)
    segment_ms = int(text_of_config("segment.ms"))
    max_compaction_lag_ms = int(text_of_config("max.compaction.lag.ms"))
    if is_compacted:
        # LogConfig.maxSegmentMs: a segment that is never rolled is never cleaned.
        segment_ms = min(segment_ms, max_compaction_lag_ms)
    return LogConfig(
        rules=release_rules,
        max_message_bytes=int(text_of_config("max.message.bytes")),
        timestamp_type=_TIMESTAMP_TYPES[text_of_config("message.timestamp.type")],
        timestamp_before_max_ms=int(text_of_config("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=int(text_of_config("message.timestamp.after.max.ms")),
        is_compacted=is_compacted,
        is_deleted="delete" in policy_names,
        segment_bytes=segment_bytes,
        roll_bytes=roll_bytes,
        segment_ms=segment_ms,
        segment_jitter_ms=int(text_of_config("segment.jitter.ms")),
        segment_index_bytes=int(text_of_config("segment.index.bytes")),
        index_interval_bytes=int(text_of_config("index.interval.bytes")),
        retention_ms=int(text_of_config("retention.ms")),
        retention_bytes=int(text_of_config("retention.bytes")),
        min_cleanable_dirty_ratio=decimal_number(
            text_of_config("min.cleanable.dirty.ratio").strip()
        ),
        min_compaction_lag_ms=int(text_of_config("min.compaction.lag.ms")),
        max_compaction_lag_ms=max_compaction_lag_ms,
        cleaner_keys_max=as_java_int(
            broker_settings.log_cleaner_dedupe_buffer_size
            // OFFSET_MAP_ENTRY_BYTES
            * broker_settings.log_cleaner_io_buffer_load_factor
        ),
        delete_retention_ms=int(text_of_config("delete.retention.ms")),
        codec=_CODEC_OF.get(codec),
        codec_level=None if level is None else int(text_of_config(level)),
        producer_id_expiration_ms=broker_settings.producer_id_expiration_ms,
        needs_verification=broker_settings.transaction_partition_verification_enable,
    )
