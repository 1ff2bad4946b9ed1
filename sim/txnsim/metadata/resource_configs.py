"""Configs of groups and of subscriptions for client metrics: names, types, bounds, values. Pure.

Unlike topics and brokers these resources come into being by being configured, and are gone when
nothing is set any more. A group's value is its own, else the setting of the broker. Configs of
share and streams groups are judged by the bounds that Kafka's brokers have by default. Kafka's
counterparts: GroupConfig, ClientMetricsConfigs, ControllerConfigurationValidator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.configs import (
    BROKER_CONFIGS,
    ConfigKey,
    ConfigSource,
    ConfigType,
    ConfigValue,
    broker_synonyms,
    key_complaint,
)
from txnsim.metadata.image import ClusterImage
from txnsim.settings import Settings, documentation
from txnsim.types import BrokerId

DEVIATIONS: Final = (
    "Configs of share and streams groups (share.*, streams.*) are kept, judged by Apache Kafka's "
    "default bounds and described, but there are no such groups.",
    "Expressions in the match of a subscription for client metrics are Python's, which are Java's "
    "but for rare constructs.",
)

Configs = Mapping[str, str]

_INT, _STRING, _BOOLEAN, _LIST = (
    ConfigType.INT,
    ConfigType.STRING,
    ConfigType.BOOLEAN,
    ConfigType.LIST,
)


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    "consumer.assignment.interval.ms": ConfigKey(
        _INT, "1000", "group.consumer.assignment.interval.ms", 0
    ),
    "consumer.heartbeat.interval.ms": ConfigKey(
        _INT, "5000", "group.consumer.heartbeat.interval.ms", 1
    ),
    "consumer.session.timeout.ms": ConfigKey(_INT, "45000", "group.consumer.session.timeout.ms", 1),
    "share.assignment.interval.ms": ConfigKey(
        _INT, "1000", "group.share.assignment.interval.ms", 0
    ),
    "share.auto.offset.reset": ConfigKey(_STRING, "latest"),
    "share.delivery.count.limit": ConfigKey(_INT, "5", "group.share.delivery.count.limit", 2),
    "share.heartbeat.interval.ms": ConfigKey(_INT, "5000", "group.share.heartbeat.interval.ms", 1),
    "share.isolation.level": ConfigKey(
        _STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
    ),
    "share.partition.max.record.locks": ConfigKey(
        _INT, "2000", "group.share.partition.max.record.locks", 100
    ),
    "share.record.lock.duration.ms": ConfigKey(
        _INT, "30000", "group.share.record.lock.duration.ms", 1000
    ),
    "share.renew.acknowledge.enable": ConfigKey(_BOOLEAN, "true"),
    "share.session.timeout.ms": ConfigKey(_INT, "45000", "group.share.session.timeout.ms", 1),
    "streams.assignment.interval.ms": ConfigKey(
        _INT, "1000", "group.streams.assignment.interval.ms", 0
    ),
    "streams.heartbeat.interval.ms": ConfigKey(
        _INT, "5000", "group.streams.heartbeat.interval.ms", 1
    ),
    "streams.initial.rebalance.delay.ms": ConfigKey(
        _INT, "3000", "group.streams.initial.rebalance.delay.ms", 0
    ),
    "streams.num.standby.replicas": ConfigKey(_INT, "0", "group.streams.num.standby.replicas", 0),
    "streams.session.timeout.ms": ConfigKey(_INT, "45000", "group.streams.session.timeout.ms", 1),
}

CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    "interval.ms": ConfigKey(_INT, "300000"),
    "match": ConfigKey(_LIST, ""),
    "metrics": ConfigKey(_LIST, ""),
}
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
MATCHED: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a subscription can choose its clients by."""

_BOUNDED: Final = (
    *(
        (f"{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")
        for kind, whats in (
            ("consumer", ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")),
            (
                "share",
                (
                    *("heartbeat.interval.ms", "session.timeout.ms", "record.lock.duration.ms"),
                    *("delivery.count.limit", "partition.max.record.locks"),
                    "assignment.interval.ms",
                ),
            ),
            ("streams", ("heartbeat.interval.ms", "session.timeout.ms")),
        )
        for what in whats
    ),
    ("streams.num.standby.replicas", "", "group.streams.max.standby.replicas"),
    (
        "streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
)
"""(config, the broker's least, the broker's greatest), in the order in which they are judged."""

_DEFAULT_BOUNDS: Final[Mapping[str, int]] = {
    "group.share.min.assignment.interval.ms": 0,
    "group.share.max.assignment.interval.ms": 15_000,
    "group.share.min.delivery.count.limit": 2,
    "group.share.max.delivery.count.limit": 10,
    "group.share.min.heartbeat.interval.ms": 5_000,
    "group.share.max.heartbeat.interval.ms": 15_000,
    "group.share.min.partition.max.record.locks": 100,
    "group.share.max.partition.max.record.locks": 4_000,
    "group.share.min.record.lock.duration.ms": 15_000,
    "group.share.max.record.lock.duration.ms": 60_000,
    "group.share.min.session.timeout.ms": 45_000,
    "group.share.max.session.timeout.ms": 60_000,
    "group.streams.min.assignment.interval.ms": 0,
    "group.streams.max.assignment.interval.ms": 15_000,
    "group.streams.min.heartbeat.interval.ms": 5_000,
    "group.streams.max.heartbeat.interval.ms": 15_000,
    "group.streams.min.session.timeout.ms": 45_000,
    "group.streams.max.session.timeout.ms": 60_000,
    "group.streams.max.standby.replicas": 2,
}
"""Bounds of Kafka's brokers for groups that are not here."""

_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")
_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<d>[-+]?[0-9]+)D)?"
    r"(?P<time>T(?:(?P<h>[-+]?[0-9]+)H)?(?:(?P<m>[-+]?[0-9]+)M)?"
    r"(?:(?P<s>[-+]?[0-9]+)(?:[.,](?P<f>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
"""As java.time.Duration reads it."""
_BY_DURATION: Final = "by_duration:"
_SETTINGS: Final[Mapping[str, str]] = {
    setting.kafka: field for field, setting in documentation().items() if setting.kafka is not None
}


# Groups


class GroupIntervals(msgspec.Struct, frozen=True):
    """What the members of a group of the consumer protocol are held to."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_intervals(own: Configs | None, settings: Settings) -> GroupIntervals:
    """The intervals of a group with these configs, if it has any (GroupConfigManager)."""
    intervals = GroupIntervals(
        settings.group_consumer_session_timeout_ms,
        settings.group_consumer_heartbeat_interval_ms,
        settings.group_consumer_assignment_interval_ms,
    )
    if own is None:
        return intervals
    return GroupIntervals(
        int(own.get("consumer.session.timeout.ms", intervals.session_timeout_ms)),
        int(own.get("consumer.heartbeat.interval.ms", intervals.heartbeat_interval_ms)),
        int(own.get("consumer.assignment.interval.ms", intervals.assignment_interval_ms)),
    )


def group_refusal(name: str, wanted: Configs, settings: Settings) -> Rejection | None:
    """Why a group can't be configured like this; None where it can (GroupConfig.validate)."""
    if not name:
        return _invalid_request("Default group resources are not allowed.")
    unknown = [key for key in wanted if key not in GROUP_CONFIGS]
    if unknown:
        return _invalid_config(f"Unknown group config name: {unknown[0]}")
    for key, value in wanted.items():
        why = key_complaint(GROUP_CONFIGS[key], key, value) or _reset_complaint(key, value)
        if why is not None:
            return _invalid_config(why)
    return _bounds_refusal(wanted, settings)


def _bounds_refusal(wanted: Configs, settings: Settings) -> Rejection | None:
    for key, least_name, greatest_name in _BOUNDED:
        if key not in wanted:
            continue  # the broker's own value is within its own bounds
        value = int(wanted[key])
        if least_name and value < _bound(least_name, settings):
            return _invalid_config(f"{key} must be greater than or equal to {least_name}")
        if value > _bound(greatest_name, settings):
            return _invalid_config(f"{key} must be less than or equal to {greatest_name}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in wanted and heartbeat not in wanted:
            continue
        if _number(session, wanted, settings) <= _number(heartbeat, wanted, settings):
            return _invalid_config(f"{session} must be greater than {heartbeat}")
    return None


def _bound(name: str, settings: Settings) -> int:
    field = _SETTINGS.get(name)
    return _DEFAULT_BOUNDS[name] if field is None else int(getattr(settings, field))


def _number(key: str, wanted: Configs, settings: Settings) -> int:
    if key in wanted:
        return int(wanted[key])
    field = _SETTINGS.get(f"group.{key}")
    return int(GROUP_CONFIGS[key].default if field is None else getattr(settings, field))


def _reset_complaint(key: str, value: str) -> str | None:
    """ShareGroupAutoOffsetResetStrategy.Validator."""
    if key != "share.auto.offset.reset" or value in ("earliest", "latest"):
        return None
    if value.startswith(_BY_DURATION) and _is_duration(value.removeprefix(_BY_DURATION)):
        return None
    return (
        f"Invalid value {value} for configuration {key}: Invalid value `{value}` for configuration "
        f"{key}. The value must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )


def _is_duration(text: str) -> bool:
    """Whether it is a duration, and not a negative one."""
    found = _DURATION.fullmatch(text)
    if found is None or found["time"] in ("T", "t"):
        return False
    parts = [found[part] for part in ("d", "h", "m", "s")]
    if all(part is None for part in parts):
        return False
    seconds = sum(
        int(part or 0) * factor for part, factor in zip(parts, (86_400, 3_600, 60, 1), strict=True)
    )
    return (-seconds if found["sign"] == "-" else seconds) >= 0


def group_values(
    own: Configs, *, image: ClusterImage, settings: Settings, broker_id: BrokerId
) -> list[ConfigValue]:
    """Every config of a group on a broker, and where it comes from (ConfigHelper)."""
    values = []
    for name, key in GROUP_CONFIGS.items():
        found: list[tuple[str, str, ConfigSource]] = []
        if name in own:
            found.append((name, _shown(key, own[name]), ConfigSource.GROUP))
        if key.broker_name is None:
            found.append((name, key.default, ConfigSource.DEFAULT))
        else:
            found += broker_synonyms(
                key.broker_name,
                BROKER_CONFIGS.get(key.broker_name, key),
                scopes=(str(broker_id), ""),
                image=image,
                settings=settings,
            )
        values.append(
            ConfigValue(
                name=name,
                value=found[0][1],
                type=key.type,
                source=found[0][2],
                synonyms=tuple(found),
            )
        )
    return values


# Client metrics


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """Which metrics which clients shall push, and how often (KIP-714)."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]
    """What a client says of itself -> the expression that it has to match as a whole."""


def subscription(configs: Configs) -> Subscription:
    """The subscription that valid configs describe."""
    return Subscription(
        metrics=tuple(_elements(configs.get("metrics", ""))),
        interval_ms=int(configs.get("interval.ms", CLIENT_METRICS_CONFIGS["interval.ms"].default)),
        match=dict(
            pair for pair in map(_pattern, _elements(configs.get("match", ""))) if pair is not None
        ),
    )


def client_metrics_refusal(name: str, wanted: Configs) -> Rejection | None:
    """Why a subscription can't be like this; None where it can (ClientMetricsConfigs.validate)."""
    if not name:
        return _invalid_request("Subscription name can't be empty")
    for key in wanted:
        if key not in CLIENT_METRICS_CONFIGS:
            return _invalid_request(f"Unknown client metrics configuration: {key}")
    for key, value in wanted.items():
        kind = CLIENT_METRICS_CONFIGS[key]
        why = key_complaint(kind, key, value)
        if kind.type is ConfigType.LIST and "" in _elements(value):
            why = f"Configuration '{key}' values must not be empty."
        if why is not None:
            return _invalid_config(why)
    interval_ms = int(wanted.get("interval.ms", INTERVAL_MS_MIN))
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        return _invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        )
    for element in _elements(wanted.get("match", "")):
        if _pattern(element) is None:
            return _invalid_config(f"Illegal client matching pattern: {element}")
    return None


def client_metrics_values(own: Configs) -> list[ConfigValue]:
    """Every config of a subscription; of one that nobody has made, too."""
    values = []
    for name, key in CLIENT_METRICS_CONFIGS.items():
        is_own = name in own
        source = ConfigSource.CLIENT_METRICS if is_own else ConfigSource.DEFAULT
        value = _shown(key, own[name]) if is_own else key.default
        values.append(
            ConfigValue(
                name=name,
                value=value,
                type=key.type,
                source=source,
                synonyms=((name, value, source),) if is_own else (),
            )
        )
    return values


def _pattern(element: str) -> tuple[str, re.Pattern[str]] | None:
    """A line of ``match``: what a client says of itself, and the expression; None where it is
    none.
    """
    parts = element.split("=")
    while parts and not parts[-1]:
        parts.pop()  # as String.split does
    if len(parts) != 2 or parts[0].strip() not in MATCHED:
        return None
    try:
        return parts[0].strip(), re.compile(parts[1].strip())
    except re.error:
        return None


# Values


def _elements(value: str) -> list[str]:
    """A list as ConfigDef reads it, with the elements that are empty."""
    trimmed = value.strip()
    return _LIST_SEPARATOR.split(trimmed) if trimmed else []


def _shown(key: ConfigKey, value: str) -> str:
    match key.type:
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(_elements(value)))
        case ConfigType.INT:
            return str(int(value))
        case _:
            return value.strip().lower() if key.type is ConfigType.BOOLEAN else value.strip()


def _invalid_request(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def _invalid_config(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_config, reason=reason)
