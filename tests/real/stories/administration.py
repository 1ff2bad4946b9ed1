"""Requests of a cluster's consoles: authorized operations on groups, SCRAM users, ACLs, loggers,
and fenced brokers.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

ABSENT: Final = 3
LOGGERS: Final = 8
SET, DELETE, APPEND, SUBTRACT = range(4)
SHA_256, SHA_512, NO_MECHANISM, NEW_MECHANISM = 1, 2, 0, 3
SALT: Final = b"0123456789abcdef"
GROUP_BOUNDS: Final = {
    "group.share.min.heartbeat.interval.ms": "2000",
    "group.share.max.heartbeat.interval.ms": "20000",
    "group.share.min.session.timeout.ms": "15000",
    "group.share.max.session.timeout.ms": "90000",
    "group.share.session.timeout.ms": "30000",
    "group.share.min.record.lock.duration.ms": "2000",
    "group.share.max.record.lock.duration.ms": "90000",
    "group.share.min.delivery.count.limit": "3",
    "group.share.max.delivery.count.limit": "25",
    "group.share.delivery.count.limit": "7",
    "group.share.min.partition.max.record.locks": "200",
    "group.share.max.partition.max.record.locks": "10000",
    "group.share.min.assignment.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "2000",
    "group.streams.min.session.timeout.ms": "15000",
    "group.streams.max.standby.replicas": "5",
    "group.streams.max.warmup.replicas": "10",
    "group.streams.min.task.offset.interval.ms": "20000",
    "group.streams.acceptable.recovery.lag": "5",
    "group.streams.rack.aware.assignment.tags": "zone",
}
"""Bounds of what groups may configure that are not Kafka's defaults."""
GROUP_VALUES: Final = (
    ("share.heartbeat.interval.ms", ("1999", "2000", "20000", "20001")),
    ("share.session.timeout.ms", ("14999", "15000", "90000", "90001")),
    ("share.record.lock.duration.ms", ("1999", "2000", "90000", "90001")),
    ("share.delivery.count.limit", ("2", "3", "25", "26")),
    ("share.partition.max.record.locks", ("199", "200", "10000", "10001")),
    ("share.assignment.interval.ms", ("499", "500", "15000", "15001")),
    ("streams.heartbeat.interval.ms", ("1999", "2000", "15000", "15001")),
    ("streams.session.timeout.ms", ("14999", "60000", "60001")),
    ("streams.num.standby.replicas", ("-1", "0", "5", "6")),
    ("streams.num.warmup.replicas", ("-1", "0", "10", "11")),
    ("streams.task.offset.interval.ms", ("0", "19999", "20000", "1000000")),
    ("streams.assignment.interval.ms", ("-1", "0", "15000", "15001")),
    ("streams.initial.rebalance.delay.ms", ("-1", "1000000")),
    ("streams.acceptable.recovery.lag", ("-1", "1000000000000")),
    ("streams.assignor.name", ("sticky", "range", "")),
    ("streams.rack.aware.assignment.tags", ("", "a,b", "a,a")),
    ("errors.deadletterqueue.topic.name", ("", "a/b", "__x")),
)


# Groups


def group_operations(player: FramePlayer) -> None:
    """The authorized operations on a group, without an authorizer."""
    topic, _ = player.create_topic()
    classic, modern = player.full_name("classic"), player.full_name("modern")
    player.ask_unrecorded("FindCoordinator", 3, key=classic, key_type=0)
    player.ask_until(
        lambda answer: int(answer.topics[0].partitions[0].error_code) == 0,
        "OffsetCommit",
        8,
        group_id=classic,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 0}]}],
    )
    player.ask_until(
        lambda answer: int(answer.error_code) == 0,
        "ConsumerGroupHeartbeat",
        1,
        group_id=modern,
        member_id="m",
        member_epoch=0,
        rebalance_timeout=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    names = [classic, modern, player.full_name("absent")]
    for version in range(3, 7):
        for with_operations in (False, True):
            answer = player.ask_unrecorded(
                "DescribeGroups",
                version,
                groups=names,
                include_authorized_operations=with_operations,
            )
            player.note(
                f"DescribeGroups v{version} operations={with_operations}",
                _operations(answer),
            )
    for version in range(2):
        for with_operations in (False, True):
            answer = player.ask_unrecorded(
                "ConsumerGroupDescribe",
                version,
                group_ids=names,
                include_authorized_operations=with_operations,
            )
            player.note(
                f"ConsumerGroupDescribe v{version} operations={with_operations}",
                _operations(answer),
            )


def group_cleanup(player: FramePlayer) -> None:
    """Offsets whose tombstones take several batches. When a client deletes them, all stay; when
    their topic is deleted, all go, in as many batches as needed. A later topic of that name has no
    offsets.
    """
    count = 60
    topic, _ = player.create_topic(partitions=count)
    group, partition_indexes = player.full_name("group"), list(range(count))
    player.ask_unrecorded("FindCoordinator", 3, key=group, key_type=0)
    positions = [
        {"partition_index": partition_index, "committed_offset": partition_index}
        for partition_index in partition_indexes
    ]
    player.ask_until(
        lambda answer: int(answer.topics[0].partitions[0].error_code) == 0,
        "OffsetCommit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": positions}],
    )

    def count_positions(answer: Any) -> int:
        return sum(part.committed_offset >= 0 for part in answer.topics[0].partitions)

    fetch_fields = {
        "group_id": group,
        "topics": [{"name": topic, "partition_indexes": partition_indexes}],
    }
    player.note(
        "positions", count_positions(player.ask_unrecorded("OffsetFetch", 7, **fetch_fields))
    )
    _limit_offsets(player, "700")
    partitions = [{"partition_index": partition_index} for partition_index in partition_indexes]
    all_topics = [{"name": topic, "partitions": partitions}]
    player.ask("OffsetDelete", 0, "all of them", group_id=group, topics=all_topics)
    player.ask("DeleteGroups", 2, "the group", groups_names=[group])
    player.note(
        "positions kept", count_positions(player.ask_unrecorded("OffsetFetch", 7, **fetch_fields))
    )
    player.ask("DeleteTopics", 5, "its topic", timeout=5_000, topic_names=[topic])
    player.ask_until(lambda answer: count_positions(answer) == 0, "OffsetFetch", 7, **fetch_fields)
    player.create_topic(partitions=count)
    player.note(
        "positions of the next topic",
        count_positions(player.ask_unrecorded("OffsetFetch", 7, **fetch_fields)),
    )
    _limit_offsets(player, None)


def _limit_offsets(player: FramePlayer, limit: str | None) -> None:
    """Set ``max.message.bytes`` of ``__consumer_offsets``, or go back to the default."""
    name, topic = "max.message.bytes", "__consumer_offsets"
    operation = DELETE if limit is None else SET
    config = {"name": name, "config_operation": operation, "value": limit}
    resource = {"resource_type": 2, "resource_name": topic}
    player.ask_unrecorded(
        "IncrementalAlterConfigs", 1, resources=[{**resource, "configs": [config]}]
    )
    player.ask_until(
        lambda answer: answer.results[0].configs[0].value == (limit or "1048588"),
        "DescribeConfigs",
        4,
        resources=[{**resource, "configuration_keys": [name]}],
    )


def group_bounds(player: FramePlayer) -> None:
    """The group configs that are accepted if the broker's file sets bounds, and the description of
    a group's configs.
    """
    group = player.full_name("group")
    for name, config_values in GROUP_VALUES:
        for config_value in config_values:
            _configure_group(player, group, {name: config_value})
    for pair in (
        {"share.session.timeout.ms": "15000", "share.heartbeat.interval.ms": "15000"},
        {"streams.session.timeout.ms": "16000", "streams.heartbeat.interval.ms": "15000"},
    ):
        _configure_group(player, group, pair)
    for group_name in (group, player.full_name("unconfigured")):
        answer = player.ask_until(
            lambda answer: len(answer.results[0].configs) > 1,
            "DescribeConfigs",
            4,
            resources=[{"resource_type": 32, "resource_name": group_name}],
            include_synonyms=True,
        )
        player.note(
            f"configs of {group_name}",
            sorted(
                (config.name, config.value, int(config.config_source), config.is_default)
                if hasattr(config, "is_default")
                else (config.name, config.value, int(config.config_source))
                for config in answer.results[0].configs
            ),
        )


def _configure_group(player: FramePlayer, group: str, values_by_name: dict[str, str]) -> None:
    configs = [
        {"name": config_name, "config_operation": SET, "value": config_value}
        for config_name, config_value in values_by_name.items()
    ]
    player.ask(
        "IncrementalAlterConfigs",
        1,
        " ".join(
            f"{config_name}={config_value}" for config_name, config_value in values_by_name.items()
        ),
        resources=[{"resource_type": 32, "resource_name": group, "configs": configs}],
    )


def _operations(answer: Any) -> Any:
    """The operations by group, as the order of the answer is by chance."""
    return sorted(
        (group.group_id, int(group.error_code), group.authorized_operations)
        for group in answer.groups
    )


# Who can log in, who may do what


def scram_credentials(player: FramePlayer) -> None:
    """Users are created, changed and deleted. No answer contains their credentials."""
    alice, bob = player.full_name("alice"), player.full_name("bob")
    for users in (None, [], [alice], [alice, alice], [""]):
        _describe_users(player, f"of {users}", users)
    for note, changes in (
        ("a new one", [_upsert(alice)]),
        ("another mechanism", [_upsert(alice, SHA_512)]),
        ("more rounds", [_upsert(alice, SHA_256, 8_192)]),
        ("too few rounds", [_upsert(bob, SHA_256, 4_095)]),
        ("the fewest", [_upsert(bob, SHA_512, 4_096)]),
        ("too many", [_upsert(bob, SHA_256, 16_385)]),
        ("no mechanism", [_upsert(bob, NO_MECHANISM)]),
        ("a mechanism to come", [_upsert(bob, NEW_MECHANISM)]),
        ("a negative mechanism", [_upsert(bob, -1)]),
        ("nobody", [_upsert("")]),
        ("twice", [_upsert(bob), _upsert(bob, SHA_256, 5_000)]),
        ("one good, one bad", [_upsert(bob), _upsert(player.full_name("carl"), SHA_256, 1)]),
        ("one user, one bad", [_upsert(bob, SHA_256, 6_000), _upsert(bob, SHA_512, 1)]),
        ("nothing", []),
    ):
        _alter_users(player, note, changes)
    for note, deletions in (
        ("nobody", [("", SHA_256)]),
        ("an unknown user", [(player.full_name("eve"), SHA_256)]),
        ("what is not there", [(player.full_name("carl"), SHA_512)]),
        ("no mechanism", [(alice, NO_MECHANISM)]),
        ("twice", [(alice, SHA_256), (alice, SHA_256)]),
        ("one of two", [(alice, SHA_256)]),
        ("it again", [(alice, SHA_256)]),
    ):
        _alter_users(player, f"without {note}", [], deletions)
    _alter_users(player, "there and gone", [_upsert(alice)], [(alice, SHA_256)])
    _until_told(player, bob, exists=True)
    _describe_users(player, "of all", None)
    _describe_users(player, "of some", [bob, alice, player.full_name("eve"), bob])
    _alter_users(player, "the last of each", [], [(alice, SHA_512), (bob, SHA_256)])
    _alter_users(player, "the last", [], [(bob, SHA_512)])
    _until_told(player, bob, exists=False)
    _describe_users(player, "of nobody", None)


def _describe_users(player: FramePlayer, note: str, users: list[str] | None) -> None:
    named_users = None if users is None else [{"name": user_name} for user_name in users]
    answer = player.ask_unrecorded("DescribeUserScramCredentials", 0, users=named_users)
    player.note(
        f"DescribeUserScramCredentials v0 {note}",
        {
            "error": (answer.error_code, answer.error_message),
            "results": sorted(
                (
                    result.user,
                    int(result.error_code),
                    result.error_message or "",
                    sorted((info.mechanism, info.iterations) for info in result.credential_infos),
                )
                for result in answer.results
            ),
        },
    )


def _until_told(player: FramePlayer, user_name: str, *, exists: bool) -> None:
    player.ask_until(
        lambda answer: (int(answer.results[0].error_code) == 0) is exists,
        "DescribeUserScramCredentials",
        0,
        users=[{"name": user_name}],
    )


def _upsert(name: str, mechanism: int = SHA_256, round_count: int = 4_096) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": round_count,
        "salt": SALT,
        "salted_password": bytes(32 if mechanism == SHA_256 else 64),
    }


def _alter_users(
    player: FramePlayer,
    note: str,
    upserts: list[dict[str, Any]],
    deletions: list[tuple[str, int]] | None = None,
) -> None:
    answer = player.ask_unrecorded(
        "AlterUserScramCredentials",
        0,
        upsertions=upserts,
        deletions=[{"name": name, "mechanism": mechanism} for name, mechanism in deletions or []],
    )
    player.note(
        f"AlterUserScramCredentials v0 {note}",
        sorted(
            (result.user, int(result.error_code), result.error_message or "")
            for result in answer.results
        ),
    )


def without_authorizer(player: FramePlayer) -> None:
    """Without an authorizer ACLs can be neither described nor changed."""
    rule = {
        "resource_type": 2,
        "resource_name": player.full_name(),
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    every: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    for version in range(1, 4):
        player.ask("DescribeAcls", version, **every)
        player.ask("CreateAcls", version, "one", creations=[rule])
        player.ask("CreateAcls", version, "none", creations=[])
        player.ask("DeleteAcls", version, "all", filters=[every])
        player.ask("DeleteAcls", version, "none", filters=[])


# Loggers


def loggers(player: FramePlayer) -> None:
    """Levels of missing loggers."""
    for note, broker, configs in (
        ("set", "1", [("no.such.Logger", SET, "DEBUG")]),
        ("set to nonsense", "1", [("no.such.Logger", SET, "LOUD")]),
        ("set to nothing", "1", [("no.such.Logger", SET, None)]),
        ("deleted", "1", [("no.such.Logger", DELETE, None)]),
        ("appended", "1", [("no.such.Logger", APPEND, "DEBUG")]),
        ("subtracted", "1", [("no.such.Logger", SUBTRACT, "DEBUG")]),
        ("a new operation", "1", [("no.such.Logger", 4, "DEBUG")]),
        ("nothing", "1", []),
        ("of another broker", "9", [("no.such.Logger", SET, "DEBUG")]),
        ("of no broker", "x", [("no.such.Logger", SET, "DEBUG")]),
        ("of all brokers", "", [("no.such.Logger", SET, "DEBUG")]),
    ):
        for is_dry in (False, True):
            player.ask(
                "IncrementalAlterConfigs",
                1,
                f"{note} dry={is_dry}",
                validate_only=is_dry,
                resources=[
                    {
                        "resource_type": LOGGERS,
                        "resource_name": broker,
                        "configs": [
                            {"name": name, "config_operation": operation, "value": config_value}
                            for name, operation, config_value in configs
                        ],
                    }
                ],
            )
    for broker in ("1", "9", "x", ""):
        resource = {"resource_type": LOGGERS, "resource_name": broker}
        player.ask(
            "AlterConfigs",
            2,
            f"of {broker!r}",
            resources=[{**resource, "configs": [{"name": "no.such.Logger", "value": "DEBUG"}]}],
        )


# Brokers that are fenced


def fenced_brokers(player: FramePlayer) -> None:
    """Descriptions while broker 3 is registered and down."""
    _cluster(player)
    for note, replicas in (("three of them", 3), ("four of them", 4)):
        _create(player, f"replicas: {note}", num_partitions=1, replication_factor=replicas)
    for note, brokers in (("on it", [ABSENT]), ("on it, too", [1, ABSENT])):
        _create(
            player,
            f"replicas: {note}",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[{"partition_index": 0, "broker_ids": brokers}],
        )


def _cluster(player: FramePlayer) -> None:
    for version in range(3):
        for is_fenced in (False, True) if version == 2 else (False,):
            answer = player.ask_unrecorded(
                "DescribeCluster", version, endpoint_type=1, include_fenced_brokers=is_fenced
            )
            # Which broker is told as the controller is left to chance.
            player.note(
                f"DescribeCluster v{version} fenced={is_fenced}",
                [(node.broker_id, getattr(node, "is_fenced", None)) for node in answer.brokers],
            )
    answer = player.ask_unrecorded("Metadata", 12, topics=[])
    player.note("Metadata v12", sorted(node.node_id for node in answer.brokers))
    for broker in ("1", str(ABSENT)):
        resource = {"resource_type": 4, "resource_name": broker}
        player.ask(
            "DescribeConfigs",
            4,
            f"of {broker}",
            resources=[{**resource, "configuration_keys": ["num.partitions"]}],
        )
    answer = player.ask_unrecorded("ListConfigResources", 1, resource_types=[4])
    player.note(
        "ListConfigResources v1 brokers",
        sorted(config_resource.resource_name for config_resource in answer.config_resources),
    )


def _create(player: FramePlayer, note: str, **request_fields: Any) -> None:
    player.ask(
        "CreateTopics",
        7,
        note,
        validate_only=True,
        topics=[
            {"name": player.full_name("new"), "assignments": [], "configs": [], **request_fields}
        ],
    )


STORIES: Final[tuple[Story, ...]] = (
    group_operations,
    group_cleanup,
    group_bounds,
    scram_credentials,
    without_authorizer,
    loggers,
    fenced_brokers,
)
