"""Configs of groups: names, types, bounds, values. Pure.

A group comes into being by being configured, and its configs are gone when nothing is set any more.
A group's value is its own, else the setting of the broker. Configs of share and streams groups are
judged by the bounds that Kafka's brokers have by default. Kafka's counterparts: GroupConfig,
GroupConfigManager, ControllerConfigurationValidator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.metadata.config_keys import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigKey,
    ConfigSource,
)
from txnsim.metadata.config_values import Configs, invalid_config, invalid_request, shown
from txnsim.metadata.configs import (
    BROKER_CONFIGS,
    ConfigValue,
    broker_synonyms,
    key_complaint,
    value_of,
)
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST, Rules
from txnsim.settings import Settings, documentation
from txnsim.types import BrokerId

DEVIATIONS: Final = (
    "Configs of share and streams groups (share.*, streams.*) are kept, judged by Apache Kafka's "
    "default bounds and described, but there are no such groups.",
)


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    name: msgspec.structs.replace(key, broker_name=f"group.{name}") if key.type is INT else key
    for name, key in {
        "consumer.assignment.interval.ms": ConfigKey(INT, "1000", minimum=0),
        "consumer.assignor.offload.enable": ConfigKey(BOOLEAN, "true"),
        "consumer.heartbeat.interval.ms": ConfigKey(INT, "5000", minimum=1),
        "consumer.session.timeout.ms": ConfigKey(INT, "45000", minimum=1),
        "errors.deadletterqueue.copy.record.enable": ConfigKey(BOOLEAN, "false"),
        "errors.deadletterqueue.topic.name": ConfigKey(STRING, ""),
        "share.assignment.interval.ms": ConfigKey(INT, "1000", minimum=0),
        "share.assignor.offload.enable": ConfigKey(BOOLEAN, "true"),
        "share.auto.offset.reset": ConfigKey(STRING, "latest"),
        "share.delivery.count.limit": ConfigKey(INT, "5", minimum=2),
        "share.heartbeat.interval.ms": ConfigKey(INT, "5000", minimum=1),
        "share.isolation.level": ConfigKey(
            STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
        ),
        "share.partition.max.record.locks": ConfigKey(INT, "2000", minimum=100),
        "share.record.lock.duration.ms": ConfigKey(INT, "30000", minimum=1000),
        "share.renew.acknowledge.enable": ConfigKey(BOOLEAN, "true"),
        "share.session.timeout.ms": ConfigKey(INT, "45000", minimum=1),
        "streams.acceptable.recovery.lag": ConfigKey(LONG, "10000", minimum=0),
        "streams.assignment.interval.ms": ConfigKey(INT, "1000", minimum=0),
        "streams.assignor.name": ConfigKey(STRING, "sticky", "group.streams.assignors"),
        "streams.assignor.offload.enable": ConfigKey(BOOLEAN, "true"),
        "streams.heartbeat.interval.ms": ConfigKey(INT, "5000", minimum=1),
        "streams.initial.rebalance.delay.ms": ConfigKey(INT, "3000", minimum=0),
        "streams.num.standby.replicas": ConfigKey(INT, "0", minimum=0),
        "streams.num.warmup.replicas": ConfigKey(INT, "2", minimum=0),
        "streams.rack.aware.assignment.tags": ConfigKey(
            LIST, "", "group.streams.rack.aware.assignment.tags"
        ),
        "streams.session.timeout.ms": ConfigKey(INT, "45000", minimum=1),
        "streams.task.offset.interval.ms": ConfigKey(INT, "60000", minimum=1),
    }.items()
}
"""Each number has a default on the broker, whose name begins with ``group.``."""
INTERNAL_GROUP_CONFIGS: Final = frozenset(
    {
        "consumer.assignor.offload.enable",
        "share.assignor.offload.enable",
        "streams.acceptable.recovery.lag",
        "streams.assignor.offload.enable",
        "streams.num.warmup.replicas",
        "streams.task.offset.interval.ms",
    }
)
"""Shown only where they are set."""
_OF_4_4: Final = INTERNAL_GROUP_CONFIGS | {
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "streams.assignor.name",
    "streams.rack.aware.assignment.tags",
}
_OLDER: Final = {name: key for name, key in GROUP_CONFIGS.items() if name not in _OF_4_4}

_BOUNDS: Final[Mapping[str, tuple[int, int] | None]] = {
    "consumer.heartbeat.interval.ms": None,
    "consumer.session.timeout.ms": None,
    "consumer.assignment.interval.ms": None,
    "share.heartbeat.interval.ms": (5_000, 15_000),
    "share.session.timeout.ms": (45_000, 60_000),
    "share.record.lock.duration.ms": (15_000, 60_000),
    "share.delivery.count.limit": (2, 10),
    "share.partition.max.record.locks": (100, 4_000),
    "share.assignment.interval.ms": (0, 15_000),
    "streams.heartbeat.interval.ms": (5_000, 15_000),
    "streams.session.timeout.ms": (45_000, 60_000),
    "streams.num.standby.replicas": (0, 2),
    "streams.assignment.interval.ms": (0, 15_000),
}
"""Configs that a broker bounds, in the order in which they are judged. The least and the greatest
are those of Kafka's brokers for groups that are not here; None where they are settings of ours.
"""

_WITH_A_LIMIT: Final = frozenset({"streams.num.standby.replicas"})
"""Of these a broker bounds the greatest value only."""
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


class GroupIntervals(msgspec.Struct, frozen=True):
    """Intervals and timeouts for the members of a group of the consumer protocol."""

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


def _known(rules: Rules) -> Mapping[str, ConfigKey]:
    return GROUP_CONFIGS if rules.group_configs_tell_bounds else _OLDER


def group_refusal(
    name: str, wanted: Configs, settings: Settings, rules: Rules = LATEST
) -> Rejection | None:
    """Why a group can't be configured like this; None where it can (GroupConfig.validate)."""
    if not name:
        return invalid_request("Default group resources are not allowed.")
    unknown = [key for key in wanted if key not in _known(rules)]
    if unknown:
        return invalid_config(f"Unknown group config name: {unknown[0]}")
    for key, value in wanted.items():
        why = key_complaint(GROUP_CONFIGS[key], key, value) or _reset_complaint(key, value)
        if why is not None:
            return invalid_config(why)
    return _bounds_refusal(wanted, settings, rules)


def _bounds_refusal(wanted: Configs, settings: Settings, rules: Rules) -> Rejection | None:
    for key, bounds in _BOUNDS.items():
        if key not in wanted:
            continue  # the broker's own value is within its own bounds
        kind, _, what = key.partition(".")
        names = [f"group.{kind}.{end}.{what.removeprefix('num.')}" for end in ("min", "max")]
        least, greatest = bounds or [int(getattr(settings, _SETTINGS[name])) for name in names]
        value = int(wanted[key])
        if rules.group_configs_tell_bounds and not least <= value <= greatest:
            is_limited = key in _WITH_A_LIMIT
            told = (
                f"less than or equal to {greatest}"
                if is_limited
                else (f"in the range {least} to {greatest} inclusive.")
            )
            return invalid_config(f"{key} must be {told}")
        if value < least:
            return invalid_config(f"{key} must be greater than or equal to {names[0]}")
        if value > greatest:
            return invalid_config(f"{key} must be less than or equal to {names[1]}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in wanted and heartbeat not in wanted:
            continue
        if _number(session, wanted, settings) <= _number(heartbeat, wanted, settings):
            return invalid_config(f"{session} must be greater than {heartbeat}")
    return None


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
    own: Configs,
    *,
    image: ClusterImage,
    settings: Settings,
    broker_id: BrokerId,
    rules: Rules = LATEST,
) -> list[ConfigValue]:
    """Every config of a group on a broker, and where it comes from (ConfigHelper)."""
    values = []
    for name, key in _known(rules).items():
        if name in INTERNAL_GROUP_CONFIGS and name not in own:
            continue
        found: list[tuple[str, str, ConfigSource]] = []
        if name in own:
            found.append((name, shown(key, own[name]), ConfigSource.GROUP))
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
        values.append(value_of(name, key, found, otherwise=key.default))
    return values
