"""What ordinary admin tools ask for besides topics and transactions."""

from __future__ import annotations

from typing import Any, Final

from txnsim_lab.conformance._book.frame_player import FramePlayer, Story, produce, records

TOPIC, BROKER = 2, 4


def create_partitions(player: FramePlayer) -> None:
    """CreatePartitions by count and by assignment, with duplicates and dry runs."""
    topic_and_id = player.create_topic(partitions=2)
    topic = topic_and_id[0]

    def grow(note: str, count: int, version: int = 3, **more_fields: Any) -> None:
        dry = more_fields.pop("validate_only", False)
        values = {"name": topic, "count": count, "assignments": None, **more_fields}
        player.ask(
            "CreatePartitions", version, note, topics=[values], timeout=5000, validate_only=dry
        )

    for version in range(4):
        for count in (2, 1, 0, -1):
            grow(f"to {count}", count, version)
        grow("unknown topic", 5, version, name=player.full_name("missing"))
        grow("bad name", 5, version, name="a b")
        grow("no name", 5, version, name="")
        grow("dry", 3, version, validate_only=True)
        grow("dry and wrong", 2, version, validate_only=True)
    for note, brokers in (
        ("none", []),
        ("too few", [[1]]),
        ("too many", [[1], [1], [1]]),
        ("unknown broker", [[1], [7]]),
        ("negative broker", [[-1], [1]]),
        ("no broker", [[], [1]]),
        ("twice", [[1, 1], [1]]),
        ("more than there were", [[1, 2], [1]]),
    ):
        grow(note, 4, assignments=[{"broker_ids": replicas} for replicas in brokers])
    grow("by hand", 3, assignments=[{"broker_ids": [1]}])
    grow("one more", 4, 0)
    other_topic = player.create_plain_topic("other")[0]
    new_counts = [
        {"name": name, "count": 9, "assignments": None}
        for name in (player.full_name("missing"), topic, other_topic, topic)
    ]
    player.ask("CreatePartitions", 3, "twice", topics=new_counts, timeout=5000, validate_only=False)
    player.ask("CreatePartitions", 3, "none", topics=[], timeout=5000, validate_only=False)
    player.ask_until(
        lambda answer: len(answer.topics[0].partitions) == 4,
        "Metadata",
        12,
        topics=[{"name": topic}],
        allow_auto_topic_creation=False,
    )
    player.ask_until(
        lambda answer: not answer.responses[0].partition_responses[0].error_code,
        "Produce",
        8,
        **produce(topic_and_id, records("a"), 8, partition=3),
    )


def replace_configs(player: FramePlayer) -> None:
    """AlterConfigs, which replaces all configs of a topic or broker, accepted and refused."""
    topic = player.create_plain_topic()[0]

    def alter(
        note: str, *configs: tuple[str, str | None], version: int = 2, **more_fields: Any
    ) -> None:
        dry = more_fields.pop("validate_only", False)
        resource = {
            "resource_type": TOPIC,
            "resource_name": topic,
            "configs": [{"name": name, "value": config_value} for name, config_value in configs],
            **more_fields,
        }
        player.ask("AlterConfigs", version, note, resources=[resource], validate_only=dry)
        player.await_metadata()
        player.ask(
            "DescribeConfigs",
            1,
            f"after {note}",
            resources=[
                {
                    "resource_type": TOPIC,
                    "resource_name": topic,
                    "configuration_keys": ["retention.ms", "cleanup.policy"],
                }
            ],
        )

    for version in range(3):
        alter("one", ("retention.ms", "5000"), version=version)
        alter("another", ("cleanup.policy", "compact"), version=version)
        alter("dry", ("retention.ms", "7000"), version=version, validate_only=True)
        alter("nothing", version=version)
    alter("null", ("retention.ms", None))
    alter("bad value", ("retention.ms", "x"))
    alter("unknown", ("no.such", "x"))
    alter("good and bad", ("retention.ms", "1"), ("no.such", "x"))
    alter("twice", ("retention.ms", "1"), ("retention.ms", "2"))
    alter("unknown topic", ("retention.ms", "1"), resource_name=player.full_name("missing"))
    alter("bad name", ("retention.ms", "1"), resource_name="a b")
    alter("no name", ("retention.ms", "1"), resource_name="")
    for resource_type in (0, 1, 8, 99):
        alter(f"kind {resource_type}", ("x", "y"), resource_type=resource_type, resource_name="1")
    for resource_name, configs in (
        ("1", [("message.max.bytes", "1000000")]),
        ("1", [("message.max.bytes", None)]),
        ("1", [("message.max.bytes", "x")]),
        ("1", [("transaction.max.timeout.ms", "7000")]),
        ("1", [("min.insync.replicas", "1")]),
        ("1", [("no.such", "1")]),
        ("1", []),
        ("", [("message.max.bytes", "1000001")]),
        ("", [("min.insync.replicas", "1"), ("message.max.bytes", "1048588")]),
        ("", [("min.insync.replicas", "1")]),
        ("9", []),
        ("x", []),
    ):
        alter(
            f"broker {resource_name!r} {configs}",
            *configs,
            resource_type=BROKER,
            resource_name=resource_name,
        )
    player.ask("AlterConfigs", 2, "none", resources=[], validate_only=False)
    same_resource = {"resource_type": TOPIC, "resource_name": topic, "configs": []}
    player.ask_unanswered(
        "AlterConfigs", 2, "twice", resources=[same_resource, same_resource], validate_only=False
    )


def describe_log_dirs(player: FramePlayer) -> None:
    """Sizes of the replicas that a broker hosts. Others are left out."""
    topic_and_id = player.create_topic(partitions=2)
    topic = topic_and_id[0]
    player.ask_unrecorded("Produce", 8, **produce(topic_and_id, records("a", "b"), 8))
    player.ask_unrecorded("Produce", 8, **produce(topic_and_id, records("c"), 8))
    asked_partitions = {"topic": topic, "partitions": [0, 1, 7, -1]}
    missing = {"topic": player.full_name("missing"), "partitions": [0]}
    for version in range(1, 6):
        player.ask("DescribeLogDirs", version, "some", topics=[asked_partitions, missing])
        player.ask("DescribeLogDirs", version, "none", topics=[])
        repeated_topics = [
            {"topic": topic, "partitions": [0, 0]},
            {"topic": topic, "partitions": [1]},
        ]
        player.ask("DescribeLogDirs", version, "twice", topics=repeated_topics)
        empty_topic = {"topic": topic, "partitions": []}
        player.ask("DescribeLogDirs", version, "nothing of it", topics=[empty_topic])


def elect_leaders(player: FramePlayer) -> None:
    """ElectLeaders on a single broker, with wrong election types and wrong partitions."""
    topic = player.create_topic(partitions=2)[0]
    topic_partitions = [
        {"topic": topic, "partitions": [0, 9, -1]},
        {"topic": player.full_name("missing"), "partitions": [0]},
        {"topic": topic, "partitions": [1]},
    ]
    for version in range(3):
        for election_type in (0, 1, 2, -1) if version else (0,):
            player.ask(
                "ElectLeaders",
                version,
                f"type {election_type}",
                election_type=election_type,
                topic_partitions=topic_partitions,
                timeout=5000,
            )
        player.ask("ElectLeaders", version, "none", topic_partitions=[], timeout=5000)


def nothing_there(player: FramePlayer) -> None:
    """Reassignments, quotas and resources of a cluster that has none of them."""
    topic = player.create_topic()[0]
    partitions = [
        {"name": topic, "partition_indexes": [0, 9]},
        {"name": "no", "partition_indexes": [0]},
    ]
    for topics in (None, [], partitions):
        player.ask("ListPartitionReassignments", 0, f"{topics}", topics=topics, timeout=5000)
    filters: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
        (),
        (("user", 0, "x"),),
        (("client-id", 1, None),),
        (("ip", 2, None),),
        (("user", 2, None), ("client-id", 0, "x")),
        (("zz", 2, None),),
        (("", 2, None),),
        (("user", 9, None),),
        (("user", -1, "x"),),
        (("user", 2, None), ("user", 2, None)),
        (("user", 0, None),),
        (("user", 1, "x"),),
        (("user", 2, "x"),),
        (("ip", 2, None), ("user", 2, None)),
    )
    for version in (0, 1):
        for components in filters:
            player.ask(
                "DescribeClientQuotas",
                version,
                f"{components}",
                components=[
                    {"entity_type": entity_type, "match_type": component_number, "match": match}
                    for entity_type, component_number, match in components
                ],
                strict=bool(version),
            )
        for kinds in ([4], [8], [16], [32], [4, 4], [0], [99], [4, 99]):
            player.ask("ListConfigResources", version, f"{kinds}", resource_types=kinds)


STORIES: Final[tuple[Story, ...]] = (
    create_partitions,
    replace_configs,
    describe_log_dirs,
    elect_leaders,
    nothing_there,
)
