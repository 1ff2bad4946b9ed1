"""The configs of topics: types, Kafka's defaults, bounds, and the broker configs that they fall
back to. A table; Kafka's counterpart is LogConfig's ConfigDef.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import Rules


class ConfigType(IntEnum):
    """Types of configs, numbered as in DescribeConfigs v3+."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Sources of values, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigKey(msgspec.Struct, frozen=True):
    """One config: its type, Kafka's default, the broker config it falls back to, its bounds."""

    type: ConfigType
    default: str
    broker_name: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


LONG_MAX: Final = 2**63 - 1
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
LONG_MAX_TEXT: Final = str(LONG_MAX)
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    "cleanup.policy": ConfigKey(
        LIST, "delete", "log.cleanup.policy", choices=("compact", "delete")
    ),
    "compression.gzip.level": ConfigKey(INT, "-1", "compression.gzip.level"),
    "compression.lz4.level": ConfigKey(INT, "9", "compression.lz4.level", 1, 17),
    "compression.type": ConfigKey(STRING, "producer", "compression.type", choices=_CODECS),
    "compression.zstd.level": ConfigKey(INT, "3", "compression.zstd.level", -131072, 22),
    "delete.retention.ms": ConfigKey(LONG, "86400000", "log.cleaner.delete.retention.ms", 0),
    "errors.deadletterqueue.group.enable": ConfigKey(BOOLEAN, "false"),
    "file.delete.delay.ms": ConfigKey(LONG, "60000", "log.segment.delete.delay.ms", 0),
    "flush.messages": ConfigKey(LONG, LONG_MAX_TEXT, "log.flush.interval.messages", 1),
    "flush.ms": ConfigKey(LONG, LONG_MAX_TEXT, "log.flush.interval.ms", 0),
    "follower.replication.throttled.replicas": ConfigKey(LIST, ""),
    "index.interval.bytes": ConfigKey(INT, "4096", "log.index.interval.bytes", 0),
    "internal.segment.bytes": ConfigKey(INT, ""),
    "leader.replication.throttled.replicas": ConfigKey(LIST, ""),
    "local.retention.bytes": ConfigKey(LONG, "-2", "log.local.retention.bytes", -2),
    "local.retention.ms": ConfigKey(LONG, "-2", "log.local.retention.ms", -2),
    "max.compaction.lag.ms": ConfigKey(LONG, LONG_MAX_TEXT, "log.cleaner.max.compaction.lag.ms", 1),
    "max.decompressed.message.bytes": ConfigKey(
        INT, "2147483639", "max.decompressed.message.bytes", 1, 2_147_483_639
    ),
    "max.message.bytes": ConfigKey(INT, "1048588", "message.max.bytes", 0),
    "message.timestamp.after.max.ms": ConfigKey(
        LONG, "3600000", "log.message.timestamp.after.max.ms", 0
    ),
    "message.timestamp.before.max.ms": ConfigKey(
        LONG, LONG_MAX_TEXT, "log.message.timestamp.before.max.ms", 0
    ),
    "message.timestamp.type": ConfigKey(
        STRING,
        "CreateTime",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    ),
    "min.cleanable.dirty.ratio": ConfigKey(DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1),
    "min.compaction.lag.ms": ConfigKey(LONG, "0", "log.cleaner.min.compaction.lag.ms", 0),
    "min.insync.replicas": ConfigKey(INT, "1", "min.insync.replicas", 1),
    "preallocate": ConfigKey(BOOLEAN, "false", "log.preallocate"),
    "remote.copy.lag.bytes": ConfigKey(LONG, "-1", "log.remote.copy.lag.bytes", -1),
    "remote.copy.lag.ms": ConfigKey(LONG, "0", "log.remote.copy.lag.ms", -1),
    "remote.log.copy.disable": ConfigKey(BOOLEAN, "false"),
    "remote.log.delete.on.disable": ConfigKey(BOOLEAN, "false"),
    "remote.storage.enable": ConfigKey(BOOLEAN, "false"),
    "retention.bytes": ConfigKey(LONG, "-1", "log.retention.bytes"),
    "retention.ms": ConfigKey(LONG, "604800000", "log.retention.ms", -1),
    "segment.bytes": ConfigKey(INT, "1073741824", "log.segment.bytes", 1048576),
    "segment.index.bytes": ConfigKey(INT, "10485760", "log.index.size.max.bytes", 4),
    "segment.jitter.ms": ConfigKey(LONG, "0", "log.roll.jitter.ms", 0),
    "segment.ms": ConfigKey(LONG, "604800000", "log.roll.ms", 1),
    "unclean.leader.election.enable": ConfigKey(BOOLEAN, "false", "unclean.leader.election.enable"),
}

_DEAD_LETTERS: Final = frozenset(
    {"errors.deadletterqueue.group.enable", "remote.copy.lag.bytes", "remote.copy.lag.ms"}
)
_DECOMPRESSED: Final = "max.decompressed.message.bytes"
_AFTER_MAX: Final = "message.timestamp.after.max.ms"


@cache
def topic_configs(release_rules: Rules) -> Mapping[str, ConfigKey]:
    """The topic configs of a release, with its defaults."""
    missing_names = set() if release_rules.topics_have_dead_letters else set(_DEAD_LETTERS)
    if not release_rules.decompression_is_bounded:
        missing_names.add(_DECOMPRESSED)
    keys = {
        config_name: key
        for config_name, key in TOPIC_CONFIGS.items()
        if config_name not in missing_names
    }
    if not release_rules.future_records_are_refused:
        keys[_AFTER_MAX] = msgspec.structs.replace(keys[_AFTER_MAX], default=LONG_MAX_TEXT)
    return MappingProxyType(keys)


# How values are written, and how wrong ones are refused

Configs = Mapping[str, str]
"""Config name -> value, in the original spelling."""

_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")


def elements(list_text: str) -> list[str]:
    """The elements of a list as ConfigDef parses it, including empty ones."""
    trimmed_text = list_text.strip()
    return _LIST_SEPARATOR.split(trimmed_text) if trimmed_text else []


def whole_number(digits: str) -> int:
    """Parse a number like Java.

    Raises:
        ValueError: It is no number; unlike Python, Java refuses ``1_000``.
    """
    if not _WHOLE_NUMBER.fullmatch(digits):
        raise ValueError(digits)
    return int(digits)


def displayed_value(key: ConfigKey, config_value: str) -> str:
    """A value as DescribeConfigs shows it."""
    match key.type:
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(elements(config_value)))
        case ConfigType.INT:
            return str(int(config_value))
        case _:
            return (
                config_value.strip().lower()
                if key.type is ConfigType.BOOLEAN
                else config_value.strip()
            )


def invalid_request(reason: str) -> Rejection:
    """INVALID_REQUEST with this reason."""
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def invalid_config(reason: str) -> Rejection:
    """INVALID_CONFIG with this reason."""
    return Rejection(error=ErrorCode.invalid_config, reason=reason)
