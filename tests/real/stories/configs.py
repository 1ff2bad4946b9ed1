"""Configs of topics and brokers: described, altered, refused."""

from __future__ import annotations

from typing import Any, Final

from txnsim.metadata.config_keys import ConfigKey, ConfigType
from txnsim.metadata.configs import broker_configs
from txnsim.releases import LATEST_RULES
from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

GONE: Final = "gone"
MAX_BYTES: Final = "message.max.bytes"
BAD_TOPIC_CONFIGS: Final = (
    ("nonsense", "1"),
    ("", "1"),
    ("retention.ms", "x"),
    ("retention.ms", "-2"),
    ("retention.ms", None),
    ("retention.ms", ""),
    ("retention.ms", "99999999999999999999"),
    ("segment.bytes", "1"),
    ("segment.bytes", "9999999999"),
    ("segment.bytes", "x"),
    ("min.insync.replicas", "0"),
    ("preallocate", "maybe"),
    ("preallocate", " TRUE "),
    ("cleanup.policy", "nothing"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "compact, nothing"),
    ("cleanup.policy", ""),
    ("compression.type", "fast"),
    ("compression.zstd.level", "23"),
    ("compression.lz4.level", "0"),
    ("compression.gzip.level", "0"),
    ("compression.gzip.level", "10"),
    ("message.timestamp.type", "Never"),
    ("message.timestamp.after.max.ms", "-1"),
    ("min.cleanable.dirty.ratio", "2"),
    ("min.cleanable.dirty.ratio", "x"),
    ("min.cleanable.dirty.ratio", "-0.5"),
    ("max.compaction.lag.ms", "0"),
    ("max.message.bytes", "-1"),
    ("flush.messages", "0"),
    ("segment.ms", "0"),
    ("leader.replication.throttled.replicas", "x"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "0:1"),
    ("message.format.version", "2.8"),
    ("remote.storage.enable", "true"),
    ("local.retention.ms", "-3"),
    ("local.retention.ms", "999999999999"),
)

TOPIC_FORMS: Final = (
    *("compression.zstd.level", "flush.ms", "index.interval.bytes", "max.compaction.lag.ms"),
    *("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "retention.ms"),
    *("segment.index.bytes", "segment.jitter.ms", "segment.ms"),
)
BROKER_FORMS: Final = (
    *("compression.zstd.level", "log.cleaner.min.cleanable.ratio", "log.flush.interval.ms"),
    *("log.flush.scheduler.interval.ms", "log.retention.hours", "log.retention.minutes"),
    *("log.retention.ms", "log.roll.hours", "log.roll.jitter.hours", "log.roll.jitter.ms"),
    "log.roll.ms",
)


def describe_configs(player: FramePlayer) -> None:
    """DescribeConfigs of topics, brokers and unknown resources, with synonyms."""
    topic, _ = player.create_plain_topic("t", 1, retention_ms="77", cleanup_policy="compact")
    for version in range(1, 5):
        for synonyms in (False, True):
            player.ask(
                "DescribeConfigs",
                version,
                f"topic synonyms={synonyms}",
                resources=[
                    {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
                ],
                include_synonyms=synonyms,
            )
    config_names = ["retention.ms", "nonsense", "cleanup.policy"]
    for kind, name, keys in (
        (2, topic, config_names),
        (2, topic, []),
        (2, player.full_name("missing"), None),
        (2, "a b", None),
        (2, "", None),
        (4, "9", None),
        (4, "x", None),
        (4, "-1", None),
        (4, "", None),
        (8, "9", None),
        (8, "", None),
        (8, "x", None),
        (16, "none", None),
        (16, "", None),
        (32, "none", ["nonsense"]),
        (32, "", []),
        (0, "x", None),
        (1, "x", None),
        (99, "x", None),
    ):
        player.ask(
            "DescribeConfigs",
            4,
            f"{kind} {name!r} {keys}",
            resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        )
    player.ask(
        "DescribeConfigs",
        4,
        "twice",
        resources=[{"resource_type": 2, "resource_name": topic, "configuration_keys": config_names}]
        * 2,
    )
    player.ask(
        "DescribeConfigs",
        4,
        "documented",
        include_documentation=True,
        resources=[
            {"resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms"]}
        ],
    )
    player.ask("DescribeConfigs", 4, "none")


OF_A_PLACE: Final = frozenset(
    {
        "advertised.listeners",
        "controlled.shutdown.enable",
        "controller.listener.names",
        "controller.quorum.voters",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
    }
)
"""Broker configs whose values say where a broker runs, and what the test has set for that."""


def describe_broker_configs(player: FramePlayer) -> None:
    """Every config that a broker has, the internal ones included."""
    broker: dict[str, Any] = {"resource_type": 4, "resource_name": "1"}
    answer = player.ask_unrecorded(
        "DescribeConfigs", 4, resources=[{**broker, "configuration_keys": None}]
    )
    config_by_name = {config.name: config for config in answer.results[0].configs}
    player.note("DescribeConfigs v4 names", sorted(config_by_name))
    player.note(
        "DescribeConfigs v4 of a place",
        {
            name: (config.read_only, config.is_sensitive, config.config_type)
            for name, config in config_by_name.items()
            if name in OF_A_PLACE
        },
    )
    for name in broker_configs(LATEST_RULES):
        if name not in OF_A_PLACE:
            player.ask(
                "DescribeConfigs",
                4,
                f"{name} synonyms=True",
                resources=[{**broker, "configuration_keys": [name]}],
                include_synonyms=True,
            )


_SOME_VALUES: Final = {
    ConfigType.BOOLEAN: "true",
    ConfigType.DOUBLE: "0.5",
    ConfigType.INT: "5",
    ConfigType.LONG: "5",
    ConfigType.SHORT: "1",
}
"""Values for configs without a default."""


def alter_every_broker_config(player: FramePlayer) -> None:
    """Each broker config set to its default and to wrong values, for one broker and for all, only
    validated.
    """
    keys = broker_configs(LATEST_RULES)
    for broker_name in ("1", ""):
        configs_by_answer: dict[str, list[str]] = {}
        for name, key in keys.items():
            if name in OF_A_PLACE and broker_name:
                continue
            default_text = _SOME_VALUES.get(key.type, "x") if key.default is None else key.default
            for value in dict.fromkeys((default_text, *_wrong_values(key))):
                answer = player.ask_unrecorded(
                    "IncrementalAlterConfigs",
                    1,
                    validate_only=True,
                    resources=[
                        {
                            "resource_type": 4,
                            "resource_name": broker_name,
                            "configs": [{"name": name, "config_operation": 0, "value": value}],
                        }
                    ],
                )
                response = answer.responses[0]
                message = (response.error_message or "").replace(name, "NAME")
                configs_by_answer.setdefault(f"{int(response.error_code)} {message}", []).append(
                    f"{name}={value}"
                )
        for answer_text, config_texts in configs_by_answer.items():
            player.note(f"IncrementalAlterConfigs v1 {broker_name!r}: {answer_text}", config_texts)


def _wrong_values(key: ConfigKey) -> list[str]:
    """Values that a config's type or bounds may refuse."""
    values = ["x"] if key.type in _SOME_VALUES else []
    values += [str(key.minimum - 1)] if key.minimum is not None else []
    values += [str(key.maximum + 1)] if key.maximum is not None else []
    if key.choices:
        first_choice = key.choices[0]
        values += ["nonsense", first_choice.lower(), f"{first_choice},{first_choice}", ""]
    elif key.type is ConfigType.LIST:
        values += ["a,a", ""]
    return values


def config_synonyms(player: FramePlayer) -> None:
    """Static configs in hours and minutes, and dynamic ones in ms over them."""
    create_answer = player.ask_unrecorded(
        "CreateTopics",
        7,
        topics=[
            {
                "name": player.full_name(),
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
        ],
    )
    _told_at_creation(player, "static", create_answer)
    _synonyms(player, "static")
    alter(player, "1", "in hours", ("log.retention.hours", 0, "7"), resource_type=4)
    alter(player, "", "in minutes", ("log.retention.minutes", 0, "7"), resource_type=4)
    alter(player, "", "for all", ("log.retention.ms", 0, "7777"), resource_type=4)
    alter(
        player,
        "1",
        "for one",
        ("log.roll.ms", 0, "999"),
        ("log.roll.jitter.ms", 0, "9"),
        resource_type=4,
    )
    player.ask_until(
        lambda answer: (
            {config.value for config in answer.results[0].configs} == {"7777", "999", "9"}
        ),
        "DescribeConfigs",
        4,
        resources=[
            {
                "resource_type": 4,
                "resource_name": "1",
                "configuration_keys": ["log.retention.ms", "log.roll.ms", "log.roll.jitter.ms"],
            }
        ],
    )
    _synonyms(player, "dynamic")
    validated = player.ask_unrecorded(
        "CreateTopics",
        7,
        validate_only=True,
        topics=[
            {
                "name": player.full_name("other"),
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": "segment.ms", "value": "5000"}],
            }
        ],
    )
    _told_at_creation(player, "dynamic", validated)
    alter(player, "", "for all no more", ("log.retention.ms", 1, None), resource_type=4)


def _told_at_creation(player: FramePlayer, note: str, answer: Any) -> None:
    player.note(
        f"CreateTopics v7 {note}",
        {config.name: (config.value, config.config_source) for config in answer.topics[0].configs},
    )


def _synonyms(player: FramePlayer, note: str) -> None:
    for kind, name, keys in (
        (2, player.full_name(), TOPIC_FORMS),
        (4, "1", BROKER_FORMS),
        (4, "", BROKER_FORMS),
    ):
        player.ask(
            "DescribeConfigs",
            4,
            f"{kind} {name!r} {note}",
            include_synonyms=True,
            resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        )


def alter(
    player: FramePlayer,
    name: str,
    note: str,
    *changes: tuple[str, int, str | None],
    resource_type: int = 2,
    version: int = 1,
    validate_only: bool = False,
) -> None:
    """Change configs of one resource."""
    player.ask(
        "IncrementalAlterConfigs",
        version,
        note,
        validate_only=validate_only,
        resources=[
            {
                "resource_type": resource_type,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, operation, value in changes
                ],
            }
        ],
    )


def describe_config(
    player: FramePlayer, name: str, key: str, value: str | None, *, resource_type: int = 2
) -> None:
    """Describe a config once the change has reached this broker."""
    resources = [
        {"resource_type": resource_type, "resource_name": name, "configuration_keys": [key]}
    ]
    player.ask_until(
        lambda answer: (
            [config.value for config in answer.results[0].configs]
            == ([] if value is GONE else [value])
        ),
        "DescribeConfigs",
        4,
        resources=resources,
    )
    player.ask("DescribeConfigs", 4, "afterwards", include_synonyms=True, resources=resources)


def alter_configs_refused(player: FramePlayer) -> None:
    """Bad values, resources that are not there, resources named twice."""
    topic, _ = player.create_plain_topic()
    for key, value in BAD_TOPIC_CONFIGS:
        if value is not None:
            alter(player, topic, f"{key}={value}", (key, 0, value), validate_only=True)
    alter(player, topic, "no changes")
    alter(player, player.full_name("missing"), "missing topic", ("retention.ms", 0, "5"))
    alter(player, "a b", "bad name", ("retention.ms", 0, "5"))
    alter(player, "", "empty name", ("retention.ms", 0, "5"))
    for kind, name in ((0, "x"), (1, "x"), (99, "x"), (4, "9"), (4, "x"), (4, "-1")):
        alter(player, name, f"resource {kind} {name}", ("retention.ms", 0, "5"), resource_type=kind)
    resource = {
        "resource_type": 2,
        "resource_name": topic,
        "configs": [{"name": "retention.ms", "config_operation": 0, "value": "9"}],
    }
    player.ask("IncrementalAlterConfigs", 1, "resource twice", resources=[resource, resource])
    describe_config(player, topic, "retention.ms", "604800000")
    player.ask(
        "IncrementalAlterConfigs",
        1,
        "several",
        resources=[resource, {**resource, "resource_name": player.full_name("missing")}],
    )
    describe_config(player, topic, "retention.ms", "9")
    player.ask("IncrementalAlterConfigs", 1, "none")


def alter_broker_configs(player: FramePlayer) -> None:
    """Dynamic configs of a broker and of all brokers."""
    for name in ("1", ""):
        alter(
            player,
            name,
            f"broker {name!r} dynamic",
            ("message.max.bytes", 0, "1000000"),
            resource_type=4,
        )
        describe_config(player, name, MAX_BYTES, "1000000", resource_type=4)
        alter(player, name, f"broker {name!r} fixed", ("num.partitions", 0, "5"), resource_type=4)
        alter(
            player,
            name,
            f"broker {name!r} two fixed",
            ("num.partitions", 0, "5"),
            ("default.replication.factor", 0, "5"),
            resource_type=4,
        )
        alter(player, name, f"broker {name!r} unknown", ("nonsense", 0, "5"), resource_type=4)
        describe_config(player, name, "nonsense", None, resource_type=4)
        alter(
            player, name, f"broker {name!r} unknown deleted", ("nonsense", 1, None), resource_type=4
        )
        alter(player, name, f"broker {name!r} bad", ("message.max.bytes", 0, "x"), resource_type=4)
        alter(
            player,
            name,
            f"broker {name!r} too small",
            ("message.max.bytes", 0, "-1"),
            resource_type=4,
        )
        alter(
            player, name, f"broker {name!r} delete", ("message.max.bytes", 1, None), resource_type=4
        )
        describe_config(player, name, MAX_BYTES, "1048588" if name else GONE, resource_type=4)


STORIES: Final[tuple[Story, ...]] = (
    describe_configs,
    describe_broker_configs,
    config_synonyms,
    alter_every_broker_config,
    alter_configs_refused,
    alter_broker_configs,
)
