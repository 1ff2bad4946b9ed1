"""Configs of groups: names, types, bounds, values. Pure.

A group's configs exist as long as one is set. A config's value is the group's own, else the
broker's setting; the broker also sets bounds. Kafka's counterparts: GroupConfig,
GroupConfigManager, ControllerConfigurationValidator; for the settings GroupCoordinatorConfig and
ShareGroupConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from txnsim.errors import Rejection
from txnsim.metadata.config_keys import (
    LONG_MAX,
    Configs,
    ConfigSource,
    config_keys,
    displayed_value,
    elements,
    invalid_config,
    invalid_request,
)
from txnsim.metadata.configs import ConfigValue, Synonym, broker_synonyms, key_complaint, value_of
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.settings import Settings, fields_by_kafka_name
from txnsim.share.commands import SharePartitionSettings
from txnsim.types import BrokerId, IsolationLevel

DEVIATIONS: Final = (
    "An assignor runs at once, with any value of consumer.assignor.offload.enable, "
    "share.assignor.offload.enable or streams.assignor.offload.enable say.",
)


GROUP_CONFIGS: Final = config_keys("group", LATEST_RULES)
"""In the order in which they are validated (GroupConfig.CONFIG_DEF). The default of each number is
a broker config whose name begins with ``group.``.
"""


_BOUNDED_CONFIGS: Final = (
    *("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"),
    *("consumer.assignment.interval.ms", "share.heartbeat.interval.ms"),
    *("share.session.timeout.ms", "share.record.lock.duration.ms", "share.delivery.count.limit"),
    *("share.partition.max.record.locks", "share.assignment.interval.ms"),
    *("streams.heartbeat.interval.ms", "streams.session.timeout.ms"),
    *("streams.num.standby.replicas", "streams.assignment.interval.ms"),
    *("streams.task.offset.interval.ms", "streams.num.warmup.replicas"),
)
"""Configs that a broker bounds, in the order in which they are validated."""
_GROUP_KINDS: Final = ("consumer", "share", "streams")
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

_DURATION: Final = (
    r"(?P<sign>[-+]?)P(?:(?P<d>[-+]?[0-9]+)D)?"
    r"(?P<time>T(?:(?P<h>[-+]?[0-9]+)H)?(?:(?P<m>[-+]?[0-9]+)M)?"
    r"(?:(?P<s>[-+]?[0-9]+)(?:[.,](?P<f>[0-9]{0,9}))?S)?)?"
)
"""The syntax of java.time.Duration, in letters of either case. It is compiled when it is needed."""
_BY_DURATION_PREFIX: Final = "by_duration:"
_FIELD_OF: Final = fields_by_kafka_name()


class GroupIntervals(msgspec.Struct, frozen=True):
    """Intervals and timeouts for the members of a consumer or share group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_intervals(group_configs: Configs | None, settings: Settings) -> GroupIntervals:
    """The intervals of a consumer group with these configs (GroupConfigManager)."""
    intervals = GroupIntervals(
        settings.group_consumer_session_timeout_ms,
        settings.group_consumer_heartbeat_interval_ms,
        settings.group_consumer_assignment_interval_ms,
    )
    return (
        intervals
        if group_configs is None
        else _with_own_intervals(intervals, group_configs, "consumer")
    )


def share_intervals(group_configs: Configs | None, settings: Settings) -> GroupIntervals:
    intervals = GroupIntervals(
        settings.group_share_session_timeout_ms,
        settings.group_share_heartbeat_interval_ms,
        settings.group_share_assignment_interval_ms,
    )
    return (
        intervals
        if group_configs is None
        else _with_own_intervals(intervals, group_configs, "share")
    )


def _with_own_intervals(
    intervals: GroupIntervals, group_configs: Configs, group_kind: str
) -> GroupIntervals:
    return GroupIntervals(
        int(group_configs.get(f"{group_kind}.session.timeout.ms", intervals.session_timeout_ms)),
        int(
            group_configs.get(
                f"{group_kind}.heartbeat.interval.ms", intervals.heartbeat_interval_ms
            )
        ),
        int(
            group_configs.get(
                f"{group_kind}.assignment.interval.ms", intervals.assignment_interval_ms
            )
        ),
    )


DEAD_LETTERS_FROM: Final = 2
"""First level of ``share.version`` with dead letter topics."""
RESET_LATEST: Final = -1
RESET_EARLIEST: Final = -2
"""The resets that are not timestamps have the values of ListOffsets: ``RESET_LATEST`` and
``RESET_EARLIEST``.
"""


def share_settings(
    group_configs: Configs | None, settings: Settings, *, level: int = DEAD_LETTERS_FROM
) -> SharePartitionSettings:
    """The settings for the records of a share group (ShareGroupConfigProvider).

    Args:
        group_configs: The group's own configs, if any.
        settings: The broker's settings.
        level: The finalized level of ``share.version``.
    """
    broker_settings = SharePartitionSettings(
        delivery_count_limit=settings.group_share_delivery_count_limit,
        max_record_locks=settings.group_share_partition_max_record_locks,
        record_lock_duration_ms=settings.group_share_record_lock_duration_ms,
    )
    if group_configs is None:
        return broker_settings
    return SharePartitionSettings(
        delivery_count_limit=int(
            group_configs.get("share.delivery.count.limit", broker_settings.delivery_count_limit)
        ),
        max_record_locks=int(
            group_configs.get("share.partition.max.record.locks", broker_settings.max_record_locks)
        ),
        record_lock_duration_ms=int(
            group_configs.get(
                "share.record.lock.duration.ms", broker_settings.record_lock_duration_ms
            )
        ),
        is_renew_enabled=_stripped_text(
            group_configs, "share.renew.acknowledge.enable", "true"
        ).lower()
        == "true",
        has_dead_letter_topic=level >= DEAD_LETTERS_FROM
        and bool(_stripped_text(group_configs, _DEAD_LETTERS)),
    )


def _stripped_text(group_configs: Configs, config_name: str, default_text: str = "") -> str:
    """A text config of a group, without surrounding blanks, which ConfigDef strips."""
    return group_configs.get(config_name, default_text).strip()


class DeadLetterConfigs(NamedTuple):
    """The dead letter configs of a share group (KIP-1191)."""

    topic: str = ""
    """Topic name; empty without a dead letter topic."""
    copies_records: bool = False
    """Whether dead letters contain the key and value of the records."""


def dead_letter_configs(group_configs: Configs | None) -> DeadLetterConfigs:
    if group_configs is None:
        return DeadLetterConfigs()
    return DeadLetterConfigs(
        _stripped_text(group_configs, _DEAD_LETTERS),
        _stripped_text(group_configs, _COPIES).lower() == "true",
    )


def share_isolation(group_configs: Configs | None) -> IsolationLevel:
    is_committed = (
        group_configs is not None
        and _stripped_text(group_configs, "share.isolation.level") == "read_committed"
    )
    return IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED


def share_reset(group_configs: Configs | None, now_ms: int) -> int:
    """The offset at which a share group begins: a timestamp, ``RESET_EARLIEST`` or ``RESET_LATEST``
    (ShareGroupAutoOffsetResetStrategy).
    """
    strategy = (
        "latest"
        if group_configs is None
        else _stripped_text(group_configs, "share.auto.offset.reset", "latest")
    )
    if strategy.startswith(_BY_DURATION_PREFIX):
        back_ms = _duration_ms(strategy.removeprefix(_BY_DURATION_PREFIX))
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
    warmup_tasks_max: int
    """Limit of warm-up tasks."""
    initial_delay_ms: int
    """How long the first assignment waits for more members, in ms."""
    assignor: AssignorConfigs


def streams_configs(group_configs: Configs | None, settings: Settings) -> StreamsConfigs:
    """Configs of a streams group: its own values, else the broker's settings."""
    own_configs = {} if group_configs is None else group_configs

    def number(config_name: str, default_value: int) -> int:
        return int(own_configs.get(f"streams.{config_name}", default_value))

    standby_count = number(STANDBYS, settings.group_streams_num_standby_replicas)
    tags_text = own_configs.get(
        f"streams.{RACK_TAGS}", settings.group_streams_rack_aware_assignment_tags
    )
    joined_tags = ",".join(tag.strip() for tag in tags_text.split(","))
    assignor: AssignorConfigs = ((STANDBYS, str(standby_count)),)
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
        warmup_tasks_max=number("num.warmup.replicas", settings.group_streams_num_warmup_replicas),
        initial_delay_ms=number(
            "initial.rebalance.delay.ms", settings.group_streams_initial_rebalance_delay_ms
        ),
        assignor=(*assignor, (RACK_TAGS, joined_tags)) if joined_tags else assignor,
    )


def group_refusal(
    group_id: str, configs: Configs, settings: Settings, release_rules: Rules = LATEST_RULES
) -> Rejection | None:
    """Why a group can't have these configs; None if it can (GroupConfig.validate)."""
    if not group_id:
        return invalid_request("Default group resources are not allowed.")
    group_keys = config_keys("group", release_rules)
    unknown_names = [config_name for config_name in configs if config_name not in group_keys]
    if unknown_names:
        return invalid_config(f"Unknown group config name: {unknown_names[0]}")
    if _has_duplicates(configs.get(_TAGS, "")):
        return invalid_config(f"{_TAGS} {_TWICE}")
    for config_name in (config_name for config_name in group_keys if config_name in configs):
        config_value = configs[config_name]
        complaint = (
            key_complaint(group_keys[config_name], config_name, config_value)
            or _reset_complaint(config_name, config_value.strip())
            or _tags_complaint(config_name, config_value)
        )
        if complaint is not None:
            return invalid_config(complaint)
    return _bounds_refusal(configs, settings, release_rules)


def _bounds_refusal(configs: Configs, settings: Settings, release_rules: Rules) -> Rejection | None:
    for config_name in _BOUNDED_CONFIGS:
        if config_name not in configs:
            continue  # the broker's own value is within its own bounds
        complaint = _out_of_bounds(config_name, int(configs[config_name]), settings, release_rules)
        if complaint is not None:
            return invalid_config(complaint)
    assignor = configs.get("streams.assignor.name", _STREAMS_ASSIGNOR).strip()
    if assignor != _STREAMS_ASSIGNOR:
        return invalid_config(
            f"streams.assignor.name '{assignor}' is not a registered task assignor. Registered "
            f"assignors are: [{_STREAMS_ASSIGNOR}]."
        )
    for group_kind in _GROUP_KINDS:
        session_name, heartbeat_name = (
            f"{group_kind}.session.timeout.ms",
            f"{group_kind}.heartbeat.interval.ms",
        )
        if session_name not in configs and heartbeat_name not in configs:
            continue
        if _config_number(session_name, configs, settings) <= _config_number(
            heartbeat_name, configs, settings
        ):
            return invalid_config(f"{session_name} must be greater than {heartbeat_name}")
    if configs.get(_DEAD_LETTERS, "").strip().startswith("__"):
        return invalid_config(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'")
    return None


def _out_of_bounds(
    config_name: str, config_value: int, settings: Settings, release_rules: Rules
) -> str | None:
    """Why a number is refused; a bound that is not a broker setting does not apply."""
    group_kind, _, own_name = config_name.partition(".")
    minimum_name, maximum_name = (
        f"group.{group_kind}.{bound_kind}.{own_name.removeprefix('num.')}"
        for bound_kind in ("min", "max")
    )
    minimum, maximum = (
        _setting_value(minimum_name, settings),
        _setting_value(maximum_name, settings),
    )
    is_too_low, is_too_high = (
        minimum is not None and config_value < minimum,
        maximum is not None and config_value > maximum,
    )
    if not is_too_low and not is_too_high:
        return None
    names_the_broken_bound = not release_rules.group_configs_tell_bounds
    if names_the_broken_bound:
        comparison_word, bound_name = (
            ("greater", minimum_name) if is_too_low else ("less", maximum_name)
        )
        return f"{config_name} must be {comparison_word} than or equal to {bound_name}"
    if minimum is None:
        return f"{config_name} must be less than or equal to {maximum}"
    if maximum is None:
        return f"{config_name} must be greater than or equal to {minimum}"
    return f"{config_name} must be in the range {minimum} to {maximum} inclusive."


def _setting_value(config_name: str, settings: Settings) -> int | None:
    field = _FIELD_OF.get(config_name)
    return None if field is None else int(getattr(settings, field))


_TWICE: Final = "must not contain duplicate tag keys."


def _has_duplicates(joined_tags: str) -> bool:
    tag_names = elements(joined_tags)
    return len(set(tag_names)) < len(tag_names)


def _tags_complaint(config_name: str, config_value: str) -> str | None:
    """Kafka's complaint about a list of client tags (ConfigDef.ValidList)."""
    if config_name != _TAGS or "" not in elements(config_value):
        return None
    return _EMPTY.format(config_name)


def settings_complaints(settings: Settings) -> Iterator[tuple[tuple[str, str], str]]:
    """Why a broker would not start with these group settings: the two settings that contradict each
    other, and Kafka's message.
    """

    def at_most(
        lower_name: str, upper_name: str, message_text: str
    ) -> Iterator[tuple[tuple[str, str], str]]:
        lower_value, upper_value = (
            _setting_value(lower_name, settings),
            _setting_value(upper_name, settings),
        )
        if lower_value is not None and upper_value is not None and lower_value > upper_value:
            yield (lower_name, upper_name), message_text

    for group_kind in _GROUP_KINDS:
        for setting_name in _OF_MEMBERS:
            own_name, minimum_name, maximum_name = (
                f"group.{group_kind}.{bound_kind}{setting_name}"
                for bound_kind in ("", "min.", "max.")
            )
            yield from at_most(
                minimum_name, maximum_name, f"{maximum_name} must be {_ABOVE} {minimum_name}"
            )
            yield from at_most(
                minimum_name, own_name, f"{own_name} must be {_ABOVE} {minimum_name}"
            )
            yield from at_most(
                own_name, maximum_name, f"{own_name} must be {_BELOW} {maximum_name}"
            )
        session_name, heartbeat_name = (
            f"group.{group_kind}.{setting_name}" for setting_name in _OF_MEMBERS[:2]
        )
        if int(_setting_value(heartbeat_name, settings) or 0) >= int(
            _setting_value(session_name, settings) or 0
        ):
            yield (
                (heartbeat_name, session_name),
                f"{heartbeat_name} must be less than {session_name}",
            )
    for setting_name in _OF_SHARES:
        own_name, minimum_name, maximum_name = (
            f"group.share.{bound_kind}{setting_name}" for bound_kind in ("", "min.", "max.")
        )
        yield from at_most(minimum_name, own_name, f"{own_name} must be {_ABOVE} {minimum_name}")
        yield from at_most(own_name, maximum_name, f"{maximum_name} must be {_ABOVE} {own_name}")
    for setting_name in ("standby.replicas", "warmup.replicas"):
        own_name, maximum_name = (
            f"group.streams.num.{setting_name}",
            f"group.streams.max.{setting_name}",
        )
        yield from at_most(own_name, maximum_name, f"{own_name} must be {_BELOW} {maximum_name}")
    own_name, minimum_name = (
        f"group.streams.{bound_kind}task.offset.interval.ms" for bound_kind in ("", "min.")
    )
    yield from at_most(minimum_name, own_name, f"{own_name} must be {_ABOVE} {minimum_name}")
    members_name, sessions_name = "group.share.max.size", "group.share.max.share.sessions"
    yield from at_most(
        members_name, sessions_name, f"{sessions_name} must be {_ABOVE} {members_name}"
    )
    tags_name, tags_text = f"group.{_TAGS}", settings.group_streams_rack_aware_assignment_tags
    if "" in elements(tags_text):
        yield (tags_name, tags_name), _EMPTY.format(tags_name)
    elif _has_duplicates(tags_text):
        yield (tags_name, tags_name), f"{tags_name} {_TWICE}"


_EMPTY: Final = "Configuration '{}' values must not be empty."
_ABOVE: Final = "greater than or equal to"
_BELOW: Final = "less than or equal to"


def _config_number(config_name: str, configs: Configs, settings: Settings) -> int:
    if config_name in configs:
        return int(configs[config_name])
    field = _FIELD_OF.get(f"group.{config_name}")
    return (
        int(GROUP_CONFIGS[config_name].default_text) if field is None else getattr(settings, field)
    )


def _reset_complaint(config_name: str, config_value: str) -> str | None:
    """Kafka's complaint about a share group's reset strategy
    (ShareGroupAutoOffsetResetStrategy.Validator).
    """
    if config_name != "share.auto.offset.reset" or config_value in ("earliest", "latest"):
        return None
    if config_value.startswith(_BY_DURATION_PREFIX):
        back_ms = _duration_ms(config_value.removeprefix(_BY_DURATION_PREFIX))
        if back_ms is not None and back_ms >= 0:
            return None
    return (
        f"Invalid value {config_value} for configuration {config_name}: Invalid value "
        f"`{config_value}` for configuration {config_name}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _duration_ms(duration_text: str) -> int | None:
    """A duration in ms; None if the text is no duration."""
    match = re.fullmatch(_DURATION, duration_text, re.IGNORECASE)
    if match is None or match["time"] in ("T", "t"):
        return None
    duration_parts = [match[duration_part] for duration_part in ("d", "h", "m", "s")]
    if all(duration_part is None for duration_part in duration_parts):
        return None
    seconds = sum(
        int(duration_part or 0) * factor
        for duration_part, factor in zip(duration_parts, (86_400, 3_600, 60, 1), strict=True)
    )
    if not -LONG_MAX <= seconds <= LONG_MAX:
        return None
    duration_ms = seconds * 1_000 + _fraction_ms(match)
    return -duration_ms if match["sign"] == "-" else duration_ms


def _fraction_ms(match: re.Match[str]) -> int:
    """The fraction of a second in milliseconds, with the sign of the seconds."""
    fraction_ms = int(((match["f"] or "") + "000")[:3])
    return -fraction_ms if (match["s"] or "").startswith("-") else fraction_ms


def group_values(
    group_configs: Configs,
    *,
    image: ClusterImage,
    settings: Settings,
    broker_id: BrokerId,
    release_rules: Rules = LATEST_RULES,
) -> list[ConfigValue]:
    """Every config of a group on a broker, with its source (ConfigHelper)."""
    config_values = []
    broker_keys = config_keys("broker", release_rules)
    for config_name, key in sorted(config_keys("group", release_rules).items()):
        synonyms: list[Synonym] = []
        if config_name in group_configs:
            synonyms.append(
                (config_name, displayed_value(key, group_configs[config_name]), ConfigSource.GROUP)
            )
        if key.broker_name is not None:
            synonyms += broker_synonyms(
                key.broker_name,
                broker_keys,
                scopes=(str(broker_id), ""),
                image=image,
                settings=settings,
            )
        else:
            synonyms.append((config_name, key.default, ConfigSource.DEFAULT))
        only_nearest_is_told = not release_rules.groups_have_limits
        if only_nearest_is_told:  # a broker's as the group's default
            config_source = (
                ConfigSource.GROUP if config_name in group_configs else ConfigSource.DEFAULT
            )
            synonyms = [(config_name, synonyms[0][1], config_source)]
        is_set = any(config_source is not ConfigSource.DEFAULT for _, _, config_source in synonyms)
        if is_set or not key.is_internal:
            config_values.append(value_of(config_name, key, synonyms, default_value=key.default))
    return config_values
