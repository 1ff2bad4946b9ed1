"""Configs of groups and of subscriptions for client metrics (KIP-848, KIP-714)."""

from __future__ import annotations

from typing import Final

from tests.real.stories.configs import alter, describe_config
from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

CLIENT_METRICS: Final = 16
GROUP: Final = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
GROUP_NUMBERS: Final = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.assignment.interval.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.assignment.interval.ms",
    "streams.num.standby.replicas",
    "streams.initial.rebalance.delay.ms",
)
NUMBERS: Final = (
    *("x", "", "1.5", "-1", "0", "1", "2", "3", "10", "99", "100", "101", "999", "1000", "2000"),
    *("4999", "5000", "10000", "15000", "15001", "20000", "44999", "45000", "45001", "60000"),
    *("60001", "100000", "1000000", "2147483647", "2147483648"),
)
GROUP_WORDS: Final = (
    ("share.auto.offset.reset", "earliest"),
    ("share.auto.offset.reset", "latest"),
    ("share.auto.offset.reset", "none"),
    ("share.auto.offset.reset", "by_duration:PT1H"),
    ("share.auto.offset.reset", "by_duration:-PT1H"),
    ("share.auto.offset.reset", "by_duration:soon"),
    ("share.isolation.level", "read_committed"),
    ("share.isolation.level", "read_uncommitted"),
    ("share.isolation.level", "READ_COMMITTED"),
    ("share.renew.acknowledge.enable", "false"),
    ("share.renew.acknowledge.enable", "maybe"),
    ("consumer.nonsense", "1"),
    ("nonsense", "1"),
    ("consumer.assignor.offload.enable", "true"),
    ("errors.deadletterqueue.topic.name", "dlq"),
    ("", "1"),
)
BAD_METRICS: Final = (
    ("interval.ms", "99"),
    ("interval.ms", "100"),
    ("interval.ms", "3600000"),
    ("interval.ms", "3600001"),
    ("interval.ms", "x"),
    ("interval.ms", ""),
    ("metrics", "*"),
    ("metrics", ""),
    ("metrics", "a,b"),
    ("metrics", "a, b"),
    ("metrics", "a,a"),
    ("metrics", "a,,b"),
    ("metrics", ","),
    ("match", ""),
    ("match", "client_id=a"),
    ("match", " client_id = a.* "),
    ("match", "client_id=a,client_id=b"),
    ("match", "client_id=a,client_id=a"),
    ("match", "client_id"),
    ("match", "client_id="),
    ("match", "=a"),
    ("match", "client_id=a=b"),
    ("match", "nobody=a"),
    ("match", "client_id=["),
    ("match", "client_id=a(?i)b{2,}\\\\d"),
    ("match", "client_instance_id=x,client_software_name=x,client_software_version=1"),
    ("match", "client_source_address=127.0.0.1,client_source_port=9,"),
    ("match", "CLIENT_ID=a"),
    ("nonsense", "1"),
    ("", "1"),
)


def group_configs(player: FramePlayer) -> None:
    """The configs of one group, within the bounds of the broker."""
    group = player.full_name("g")
    player.ask(
        "DescribeConfigs",
        4,
        "a group that nobody has configured",
        include_synonyms=True,
        resources=[{"resource_type": GROUP, "resource_name": group, "configuration_keys": None}],
    )
    for name in GROUP_NUMBERS:
        for value in NUMBERS:
            tried_setting = f"{name}={value}"
            alter(
                player,
                group,
                tried_setting,
                (name, SET, value),
                resource_type=GROUP,
                validate_only=True,
            )
    for name, value in GROUP_WORDS:
        alter(
            player,
            group,
            f"{name}={value}",
            (name, SET, value),
            resource_type=GROUP,
            validate_only=True,
        )
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    alter(player, "", "of no group", (session, SET, "50000"), resource_type=GROUP)
    alter(player, group, "null", (session, SET, None), resource_type=GROUP)
    alter(player, group, "append", (session, APPEND, "50000"), resource_type=GROUP)
    alter(player, group, "nothing", resource_type=GROUP)
    alter(player, group, "twice", (session, SET, "1"), (session, SET, "2"), resource_type=GROUP)
    alter(player, group, "deleted before", (session, DELETE, None), resource_type=GROUP)
    alter(player, group, "unknown deleted", ("nonsense", DELETE, None), resource_type=GROUP)
    two_changes = (session, SET, "55000"), (heartbeat, SET, "7000")
    alter(player, group, "both", *two_changes, resource_type=GROUP)
    describe_config(player, group, session, "55000", resource_type=GROUP)
    describe_config(player, group, heartbeat, "7000", resource_type=GROUP)
    _note_listed(player, "configured", GROUP, count=1)
    alter(player, group, "one back", (session, DELETE, None), resource_type=GROUP)
    describe_config(player, group, session, "45000", resource_type=GROUP)
    _replace_configs(player, group, "replaced", GROUP, {session: "46000"})
    describe_config(player, group, session, "46000", resource_type=GROUP)
    describe_config(player, group, heartbeat, "5000", resource_type=GROUP)
    _replace_configs(player, group, "replaced by bad ones", GROUP, {session: "1"})
    _replace_configs(player, group, "replaced by nulls", GROUP, {session: None})
    _replace_configs(player, group, "all gone", GROUP, {})
    describe_config(player, group, session, "45000", resource_type=GROUP)
    _note_listed(player, "nothing configured", GROUP)


def client_metrics_configs(player: FramePlayer) -> None:
    """Client metrics subscriptions: their valid settings. A subscription exists as long as it has a
    setting.
    """
    name = player.full_name("s")
    player.ask(
        "DescribeConfigs",
        4,
        "a subscription that nobody has made",
        include_synonyms=True,
        resources=[
            {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
        ],
    )
    for key, value in BAD_METRICS:
        change = (key, SET, value)
        alter(
            player, name, f"{key}={value}", change, resource_type=CLIENT_METRICS, validate_only=True
        )
    alter(player, "", "of no name", ("metrics", SET, "*"), resource_type=CLIENT_METRICS)
    alter(player, name, "null", ("metrics", SET, None), resource_type=CLIENT_METRICS)
    alter(player, name, "nothing", resource_type=CLIENT_METRICS)
    alter(player, name, "deleted before", ("metrics", DELETE, None), resource_type=CLIENT_METRICS)
    alter(player, name, "unknown deleted", ("nonsense", DELETE, None), resource_type=CLIENT_METRICS)
    for version in (0, 1):
        _note_listed(player, "none", CLIENT_METRICS, version=version)
    changes = ("metrics", SET, "a,b"), ("interval.ms", SET, "2000"), ("match", SET, "client_id=x")
    alter(player, name, "made", *changes, resource_type=CLIENT_METRICS)
    for key, value in (("metrics", "a,b"), ("interval.ms", "2000"), ("match", "client_id=x")):
        describe_config(player, name, key, value, resource_type=CLIENT_METRICS)
    for version in (0, 1):
        _note_listed(player, "one", CLIENT_METRICS, count=1, version=version)
    alter(player, name, "appended", ("metrics", APPEND, "c"), resource_type=CLIENT_METRICS)
    alter(player, name, "subtracted", ("metrics", SUBTRACT, "a"), resource_type=CLIENT_METRICS)
    alter(
        player,
        name,
        "appended to a number",
        ("interval.ms", APPEND, "1"),
        resource_type=CLIENT_METRICS,
    )
    alter(player, name, "bad, others good", ("interval.ms", SET, "1"), resource_type=CLIENT_METRICS)
    alter(player, name, "one back", ("interval.ms", DELETE, None), resource_type=CLIENT_METRICS)
    describe_config(player, name, "interval.ms", "300000", resource_type=CLIENT_METRICS)
    describe_config(player, name, "metrics", "a,b", resource_type=CLIENT_METRICS)
    _replace_configs(player, name, "replaced", CLIENT_METRICS, {"interval.ms": "500"})
    describe_config(player, name, "interval.ms", "500", resource_type=CLIENT_METRICS)
    describe_config(player, name, "metrics", "", resource_type=CLIENT_METRICS)
    _replace_configs(player, name, "replaced by bad ones", CLIENT_METRICS, {"interval.ms": "1"})
    _replace_configs(player, name, "all gone", CLIENT_METRICS, {})
    describe_config(player, name, "interval.ms", "300000", resource_type=CLIENT_METRICS)
    _note_listed(player, "gone", CLIENT_METRICS)


def _note_listed(
    player: FramePlayer, note: str, resource_type: int, *, count: int = 0, version: int = 1
) -> None:
    """Note the listed resources once there are as many as expected, as a broker hears of changes a
    little later.
    """
    player.ask_until(
        lambda answer: len(answer.config_resources) == count,
        "ListConfigResources",
        version,
        resource_types=[resource_type],
    )
    player.ask("ListConfigResources", version, note, resource_types=[resource_type])


def _replace_configs(
    player: FramePlayer, name: str, note: str, resource_type: int, configs: dict[str, str | None]
) -> None:
    player.ask(
        "AlterConfigs",
        2,
        note,
        validate_only=False,
        resources=[
            {
                "resource_type": resource_type,
                "resource_name": name,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
        ],
    )


STORIES: Final[tuple[Story, ...]] = (group_configs, client_metrics_configs)
