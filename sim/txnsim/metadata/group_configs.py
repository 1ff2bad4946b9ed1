"""Configs of groups: names, types, bounds, values. Pure.

A group's configs exist as long as one is set. A config's value is the group's own, else the
broker's setting; the broker also sets bounds. Kafka's counterparts: GroupConfig,
GroupConfigManager, ControllerConfigurationValidator; for the settings GroupCoordinatorConfig and
ShareGroupConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from txnsim.errors import Rejection
from txnsim.metadata.config_keys import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigKey,
    Configs,
    ConfigSource,
    displayed_value,
    elements,
    invalid_config,
    invalid_request,
)
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
from txnsim.share.commands import SharePartitionSettings
from txnsim.types import BrokerId, IsolationLevel

DEVIATIONS: Final = (
    "An assignor runs at once, with any value of consumer.assignor.offload.enable, "
    "share.assignor.offload.enable or streams.assignor.offload.enable say.",
)


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    name: msgspec.structs.replace(key, broker_name=f"group.{name}")
    if key.type in (INT, LONG)
    else key
    for name, key in {
        "consumer.session.timeout.ms": ConfigKey(INT, "45000", minimum=1),
        "consumer.heartbeat.interval.ms": ConfigKey(INT, "5000", minimum=1),
        "consumer.assignment.interval.ms": ConfigKey(INT, "1000", minimum=0),
        "consumer.assignor.offload.enable": ConfigKey(BOOLEAN, "true"),
        "share.session.timeout.ms": ConfigKey(INT, "45000", minimum=1),
        "share.heartbeat.interval.ms": ConfigKey(INT, "5000", minimum=1),
        "share.record.lock.duration.ms": ConfigKey(INT, "30000", minimum=1000),
        "share.delivery.count.limit": ConfigKey(INT, "5", minimum=2),
        "share.partition.max.record.locks": ConfigKey(INT, "2000", minimum=100),
        "share.auto.offset.reset": ConfigKey(STRING, "latest"),
        "share.isolation.level": ConfigKey(
            STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
        ),
        "share.renew.acknowledge.enable": ConfigKey(BOOLEAN, "true"),
        "share.assignment.interval.ms": ConfigKey(INT, "1000", minimum=0),
        "share.assignor.offload.enable": ConfigKey(BOOLEAN, "true"),
        "streams.session.timeout.ms": ConfigKey(INT, "45000", minimum=1),
        "streams.heartbeat.interval.ms": ConfigKey(INT, "5000", minimum=1),
        "streams.num.standby.replicas": ConfigKey(INT, "0", minimum=0),
        "streams.initial.rebalance.delay.ms": ConfigKey(INT, "3000", minimum=0),
        "streams.assignment.interval.ms": ConfigKey(INT, "1000", minimum=0),
        "streams.assignor.offload.enable": ConfigKey(BOOLEAN, "true"),
        "streams.task.offset.interval.ms": ConfigKey(INT, "60000", minimum=1),
        "streams.num.warmup.replicas": ConfigKey(INT, "2", minimum=0),
        "streams.rack.aware.assignment.tags": ConfigKey(
            LIST, "", "group.streams.rack.aware.assignment.tags"
        ),
        "streams.acceptable.recovery.lag": ConfigKey(LONG, "10000", minimum=0),
        "streams.assignor.name": ConfigKey(STRING, "sticky", "group.streams.assignors"),
        "errors.deadletterqueue.topic.name": ConfigKey(STRING, ""),
        "errors.deadletterqueue.copy.record.enable": ConfigKey(BOOLEAN, "false"),
    }.items()
}
"""In the order in which they are validated (GroupConfig.CONFIG_DEF). The default of each number is
a broker config whose name begins with ``group.``.
"""
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
"""Configs that are shown only if they are set."""
_OF_4_4: Final = INTERNAL_GROUP_CONFIGS | {
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "streams.assignor.name",
    "streams.rack.aware.assignment.tags",
}
_OF_4_3: Final = frozenset(
    {
        *(f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")),
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.renew.acknowledge.enable",
    }
)


class _GroupConfigSource(msgspec.Struct, frozen=True):
    """A broker's configs for groups, and how it words the refusal of a number."""

    keys: Mapping[str, ConfigKey]
    tells_names: bool
    """Whether a refusal names the broker config that bounds the number instead of the bound."""


_TODAY: Final = _GroupConfigSource(GROUP_CONFIGS, tells_names=False)
_BEFORE_4_4: Final = _GroupConfigSource(
    {name: key for name, key in GROUP_CONFIGS.items() if name not in _OF_4_4}, tells_names=True
)
_BEFORE_4_3: Final = _GroupConfigSource(
    {name: key for name, key in _BEFORE_4_4.keys.items() if name not in _OF_4_3}, tells_names=True
)


def _way(rules: Rules) -> _GroupConfigSource:
    if rules.group_configs_tell_bounds:
        return _TODAY
    return _BEFORE_4_4 if rules.groups_have_limits else _BEFORE_4_3


_BOUNDED: Final = (
    *("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"),
    *("consumer.assignment.interval.ms", "share.heartbeat.interval.ms"),
    *("share.session.timeout.ms", "share.record.lock.duration.ms", "share.delivery.count.limit"),
    *("share.partition.max.record.locks", "share.assignment.interval.ms"),
    *("streams.heartbeat.interval.ms", "streams.session.timeout.ms"),
    *("streams.num.standby.replicas", "streams.assignment.interval.ms"),
    *("streams.task.offset.interval.ms", "streams.num.warmup.replicas"),
)
"""Configs that a broker bounds, in the order in which they are validated."""
_KINDS: Final = ("consumer", "share", "streams")
_OF_MEMBERS: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_OF_SHARES: Final = (
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)
_STREAMS_ASSIGNOR: Final = "sticky"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_COPIES: Final = "errors.deadletterqueue.copy.record.enable"
_TAGS: Final = "streams.rack.aware.assignment.tags"

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<d>[-+]?[0-9]+)D)?"
    r"(?P<time>T(?:(?P<h>[-+]?[0-9]+)H)?(?:(?P<m>[-+]?[0-9]+)M)?"
    r"(?:(?P<s>[-+]?[0-9]+)(?:[.,](?P<f>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
"""The syntax of java.time.Duration."""
_BY_DURATION: Final = "by_duration:"
_SETTINGS: Final[Mapping[str, str]] = {
    setting.kafka: field for field, setting in documentation().items() if setting.kafka is not None
}


class GroupIntervals(msgspec.Struct, frozen=True):
    """Intervals and timeouts for the members of a consumer or share group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_intervals(own: Configs | None, settings: Settings) -> GroupIntervals:
    """The intervals of a consumer group with these configs (GroupConfigManager)."""
    intervals = GroupIntervals(
        settings.group_consumer_session_timeout_ms,
        settings.group_consumer_heartbeat_interval_ms,
        settings.group_consumer_assignment_interval_ms,
    )
    return intervals if own is None else _with_own(intervals, own, "consumer")


def share_intervals(own: Configs | None, settings: Settings) -> GroupIntervals:
    """The intervals of a share group with these configs."""
    intervals = GroupIntervals(
        settings.group_share_session_timeout_ms,
        settings.group_share_heartbeat_interval_ms,
        settings.group_share_assignment_interval_ms,
    )
    return intervals if own is None else _with_own(intervals, own, "share")


def _with_own(intervals: GroupIntervals, own: Configs, kind: str) -> GroupIntervals:
    return GroupIntervals(
        int(own.get(f"{kind}.session.timeout.ms", intervals.session_timeout_ms)),
        int(own.get(f"{kind}.heartbeat.interval.ms", intervals.heartbeat_interval_ms)),
        int(own.get(f"{kind}.assignment.interval.ms", intervals.assignment_interval_ms)),
    )


DEAD_LETTERS_FROM: Final = 2
"""First level of ``share.version`` with dead letter topics."""
RESET_LATEST: Final = -1
RESET_EARLIEST: Final = -2
"""The resets that are not timestamps have the values of ListOffsets: ``RESET_LATEST`` and
``RESET_EARLIEST``.
"""


def share_settings(
    own: Configs | None, settings: Settings, *, level: int = DEAD_LETTERS_FROM
) -> SharePartitionSettings:
    """The settings for the records of a share group (ShareGroupConfigProvider).

    Args:
        own: The group's own configs, if any.
        settings: The broker's settings.
        level: The finalized level of ``share.version``.
    """
    broker = SharePartitionSettings(
        delivery_count_limit=settings.group_share_delivery_count_limit,
        max_record_locks=settings.group_share_partition_max_record_locks,
        record_lock_duration_ms=settings.group_share_record_lock_duration_ms,
    )
    if own is None:
        return broker
    return SharePartitionSettings(
        delivery_count_limit=int(
            own.get("share.delivery.count.limit", broker.delivery_count_limit)
        ),
        max_record_locks=int(own.get("share.partition.max.record.locks", broker.max_record_locks)),
        record_lock_duration_ms=int(
            own.get("share.record.lock.duration.ms", broker.record_lock_duration_ms)
        ),
        is_renew_enabled=_stripped_text(own, "share.renew.acknowledge.enable", "true").lower()
        == "true",
        has_dead_letter_topic=level >= DEAD_LETTERS_FROM
        and bool(_stripped_text(own, _DEAD_LETTERS)),
    )


def _stripped_text(own: Configs, name: str, otherwise: str = "") -> str:
    """A text config of a group, without surrounding blanks, which ConfigDef strips."""
    return own.get(name, otherwise).strip()


class DeadLetterConfigs(NamedTuple):
    """The dead letter configs of a share group (KIP-1191)."""

    topic: str = ""
    """Topic name; empty without a dead letter topic."""
    copies_records: bool = False
    """Whether dead letters contain the key and value of the records."""


def dead_letter_configs(own: Configs | None) -> DeadLetterConfigs:
    """The dead letter configs of a share group."""
    if own is None:
        return DeadLetterConfigs()
    return DeadLetterConfigs(
        _stripped_text(own, _DEAD_LETTERS), _stripped_text(own, _COPIES).lower() == "true"
    )


def share_isolation(own: Configs | None) -> IsolationLevel:
    """The isolation level of a share group."""
    is_committed = (
        own is not None and _stripped_text(own, "share.isolation.level") == "read_committed"
    )
    return IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED


def share_reset(own: Configs | None, now_ms: int) -> int:
    """The offset at which a share group begins: a timestamp, ``RESET_EARLIEST`` or ``RESET_LATEST``
    (ShareGroupAutoOffsetResetStrategy).
    """
    strategy = "latest" if own is None else _stripped_text(own, "share.auto.offset.reset", "latest")
    if strategy.startswith(_BY_DURATION):
        back_ms = _duration_ms(strategy.removeprefix(_BY_DURATION))
        assert back_ms is not None  # it was judged when it was set
        return now_ms - back_ms
    return RESET_EARLIEST if strategy == "earliest" else RESET_LATEST


AssignorConfigs = tuple[tuple[str, str], ...]
"""Configs that the assignor of a streams group uses, sorted, as its records have them."""
STANDBYS: Final = "num.standby.replicas"
RACK_TAGS: Final = "rack.aware.assignment.tags"


class StreamsConfigs(msgspec.Struct, frozen=True, kw_only=True):
    """Configs of a streams group."""

    intervals: GroupIntervals
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    warmups: int
    """Limit of warm-up tasks."""
    initial_delay_ms: int
    """How long the first assignment waits for more members, in ms."""
    assignor: AssignorConfigs


def streams_configs(own: Configs | None, settings: Settings) -> StreamsConfigs:
    """Configs of a streams group: its own values, else the broker's settings."""
    configs = {} if own is None else own

    def number(name: str, otherwise: int) -> int:
        return int(configs.get(f"streams.{name}", otherwise))

    standbys = number(STANDBYS, settings.group_streams_num_standby_replicas)
    named = configs.get(f"streams.{RACK_TAGS}", settings.group_streams_rack_aware_assignment_tags)
    tags = ",".join(tag.strip() for tag in named.split(","))
    assignor: AssignorConfigs = ((STANDBYS, str(standbys)),)
    return StreamsConfigs(
        intervals=GroupIntervals(
            number("session.timeout.ms", settings.group_streams_session_timeout_ms),
            number("heartbeat.interval.ms", settings.group_streams_heartbeat_interval_ms),
            number("assignment.interval.ms", settings.group_streams_assignment_interval_ms),
        ),
        task_offset_interval_ms=number(
            "task.offset.interval.ms", settings.group_streams_task_offset_interval_ms
        ),
        acceptable_recovery_lag=number(
            "acceptable.recovery.lag", settings.group_streams_acceptable_recovery_lag
        ),
        warmups=number("num.warmup.replicas", settings.group_streams_num_warmup_replicas),
        initial_delay_ms=number(
            "initial.rebalance.delay.ms", settings.group_streams_initial_rebalance_delay_ms
        ),
        assignor=(*assignor, (RACK_TAGS, tags)) if tags else assignor,
    )


def group_refusal(
    name: str, configs: Configs, settings: Settings, rules: Rules = LATEST
) -> Rejection | None:
    """Why a group can't have these configs; None if it can (GroupConfig.validate)."""
    if not name:
        return invalid_request("Default group resources are not allowed.")
    way = _way(rules)
    unknown = [key for key in configs if key not in way.keys]
    if unknown:
        return invalid_config(f"Unknown group config name: {unknown[0]}")
    if _has_duplicates(configs.get(_TAGS, "")):
        return invalid_config(f"{_TAGS} {_TWICE}")
    for key in (key for key in way.keys if key in configs):
        value = configs[key]
        why = (
            key_complaint(GROUP_CONFIGS[key], key, value)
            or _reset_complaint(key, value.strip())
            or _tags_complaint(key, value)
        )
        if why is not None:
            return invalid_config(why)
    return _bounds_refusal(configs, settings, way)


def _bounds_refusal(
    configs: Configs, settings: Settings, way: _GroupConfigSource
) -> Rejection | None:
    for key in _BOUNDED:
        if key not in configs:
            continue  # the broker's own value is within its own bounds
        why = _out_of_bounds(key, int(configs[key]), settings, way)
        if why is not None:
            return invalid_config(why)
    assignor = configs.get("streams.assignor.name", _STREAMS_ASSIGNOR).strip()
    if assignor != _STREAMS_ASSIGNOR:
        return invalid_config(
            f"streams.assignor.name '{assignor}' is not a registered task assignor. Registered "
            f"assignors are: [{_STREAMS_ASSIGNOR}]."
        )
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in configs and heartbeat not in configs:
            continue
        if _number(session, configs, settings) <= _number(heartbeat, configs, settings):
            return invalid_config(f"{session} must be greater than {heartbeat}")
    if configs.get(_DEAD_LETTERS, "").strip().startswith("__"):
        return invalid_config(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'")
    return None


def _out_of_bounds(key: str, value: int, settings: Settings, way: _GroupConfigSource) -> str | None:
    """Why a number is refused; a bound that is not a broker setting does not apply."""
    kind, _, setting = key.partition(".")
    least, greatest = (
        f"group.{kind}.{end}.{setting.removeprefix('num.')}" for end in ("min", "max")
    )
    low, high = _setting(least, settings), _setting(greatest, settings)
    is_low, is_high = low is not None and value < low, high is not None and value > high
    if not is_low and not is_high:
        return None
    if way.tells_names:
        ends = ("greater", least) if is_low else ("less", greatest)
        return f"{key} must be {ends[0]} than or equal to {ends[1]}"
    if low is None:
        return f"{key} must be less than or equal to {high}"
    if high is None:
        return f"{key} must be greater than or equal to {low}"
    return f"{key} must be in the range {low} to {high} inclusive."


def _setting(name: str, settings: Settings) -> int | None:
    field = _SETTINGS.get(name)
    return None if field is None else int(getattr(settings, field))


_TWICE: Final = "must not contain duplicate tag keys."


def _has_duplicates(tags: str) -> bool:
    named = elements(tags)
    return len(set(named)) < len(named)


def _tags_complaint(key: str, value: str) -> str | None:
    """ConfigDef.ValidList."""
    if key != _TAGS or "" not in elements(value):
        return None
    return _EMPTY.format(key)


def settings_complaints(settings: Settings) -> Iterator[tuple[tuple[str, str], str]]:
    """Why a broker would not start with these group settings: the two settings that contradict each
    other, and Kafka's message.
    """

    def at_most(small: str, large: str, words: str) -> Iterator[tuple[tuple[str, str], str]]:
        low, high = _setting(small, settings), _setting(large, settings)
        if low is not None and high is not None and low > high:
            yield (small, large), words

    for kind in _KINDS:
        for setting in _OF_MEMBERS:
            own, least, most = (f"group.{kind}.{end}{setting}" for end in ("", "min.", "max."))
            yield from at_most(least, most, f"{most} must be {_ABOVE} {least}")
            yield from at_most(least, own, f"{own} must be {_ABOVE} {least}")
            yield from at_most(own, most, f"{own} must be {_BELOW} {most}")
        session, heartbeat = (f"group.{kind}.{setting}" for setting in _OF_MEMBERS[:2])
        if int(_setting(heartbeat, settings) or 0) >= int(_setting(session, settings) or 0):
            yield (heartbeat, session), f"{heartbeat} must be less than {session}"
    for setting in _OF_SHARES:
        own, least, most = (f"group.share.{end}{setting}" for end in ("", "min.", "max."))
        yield from at_most(least, own, f"{own} must be {_ABOVE} {least}")
        yield from at_most(own, most, f"{most} must be {_ABOVE} {own}")
    for setting in ("standby.replicas", "warmup.replicas"):
        own, most = f"group.streams.num.{setting}", f"group.streams.max.{setting}"
        yield from at_most(own, most, f"{own} must be {_BELOW} {most}")
    own, least = (f"group.streams.{end}task.offset.interval.ms" for end in ("", "min."))
    yield from at_most(least, own, f"{own} must be {_ABOVE} {least}")
    members, sessions = "group.share.max.size", "group.share.max.share.sessions"
    yield from at_most(members, sessions, f"{sessions} must be {_ABOVE} {members}")
    tags, tags_text = f"group.{_TAGS}", settings.group_streams_rack_aware_assignment_tags
    if "" in elements(tags_text):
        yield (tags, tags), _EMPTY.format(tags)
    elif _has_duplicates(tags_text):
        yield (tags, tags), f"{tags} {_TWICE}"


_EMPTY: Final = "Configuration '{}' values must not be empty."
_ABOVE: Final = "greater than or equal to"
_BELOW: Final = "less than or equal to"


def _number(key: str, configs: Configs, settings: Settings) -> int:
    if key in configs:
        return int(configs[key])
    field = _SETTINGS.get(f"group.{key}")
    return int(GROUP_CONFIGS[key].default if field is None else getattr(settings, field))


def _reset_complaint(key: str, value: str) -> str | None:
    """ShareGroupAutoOffsetResetStrategy.Validator."""
    if key != "share.auto.offset.reset" or value in ("earliest", "latest"):
        return None
    if value.startswith(_BY_DURATION):
        back_ms = _duration_ms(value.removeprefix(_BY_DURATION))
        if back_ms is not None and back_ms >= 0:
            return None
    return (
        f"Invalid value {value} for configuration {key}: Invalid value `{value}` for configuration "
        f"{key}. The value must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )


def _duration_ms(text: str) -> int | None:
    """A duration in ms; None if the text is no duration."""
    match = _DURATION.fullmatch(text)
    if match is None or match["time"] in ("T", "t"):
        return None
    parts = [match[part] for part in ("d", "h", "m", "s")]
    if all(part is None for part in parts):
        return None
    seconds = sum(
        int(part or 0) * factor for part, factor in zip(parts, (86_400, 3_600, 60, 1), strict=True)
    )
    if not -LONG_MAX <= seconds <= LONG_MAX:
        return None
    ms = seconds * 1_000 + _fraction_ms(match)
    return -ms if match["sign"] == "-" else ms


def _fraction_ms(match: re.Match[str]) -> int:
    """The fraction of a second in milliseconds, with the sign of the seconds."""
    ms = int(((match["f"] or "") + "000")[:3])
    return -ms if (match["s"] or "").startswith("-") else ms


def group_values(
    own: Configs,
    *,
    image: ClusterImage,
    settings: Settings,
    broker_id: BrokerId,
    rules: Rules = LATEST,
) -> list[ConfigValue]:
    """Every config of a group on a broker, with its source (ConfigHelper)."""
    values = []
    for name, key in sorted(_way(rules).keys.items()):
        synonyms: list[tuple[str, str, ConfigSource]] = []
        if name in own:
            synonyms.append((name, displayed_value(key, own[name]), ConfigSource.GROUP))
        if key.broker_name is None:
            synonyms.append((name, key.default, ConfigSource.DEFAULT))
        else:
            synonyms += broker_synonyms(
                key.broker_name,
                BROKER_CONFIGS.get(key.broker_name, key),
                scopes=(str(broker_id), ""),
                image=image,
                settings=settings,
            )
        is_set = any(source is not ConfigSource.DEFAULT for _, _, source in synonyms)
        if is_set or name not in INTERNAL_GROUP_CONFIGS:
            values.append(value_of(name, key, synonyms, otherwise=key.default))
    return values
