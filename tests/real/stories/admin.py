"""Topics, features, and the cluster's description of itself."""

from __future__ import annotations

import struct
from typing import Any, Final

from tests.real.stories.configs import BAD_TOPIC_CONFIGS
from txnsim_lab.conformance._book.frame_player import UNUSED_TOPIC_ID, FramePlayer, Story
from txnsim_lab.conformance._book.transcript import sort_by_fields


def api_versions(player: FramePlayer) -> None:
    """Every version, a future version, client names that are not allowed."""
    for version in range(5):
        answer = player.ask_unrecorded(
            "ApiVersions", version, client_software_name="x", client_software_version="1"
        )
        player.note(
            f"ApiVersions v{version}",
            {
                "error": answer.error_code,
                "ours": [
                    (api.api_key, api.min_version, api.max_version)
                    for api in answer.api_keys
                    if api.api_key in OURS
                ],
                "features": sort_by_fields(getattr(answer, "supported_features", ()), "name"),
                "finalized": sort_by_fields(getattr(answer, "finalized_features", ()), "name"),
            },
        )
    for client_software_name in ("", "-x", "x-", "a b", "a.b-c", "é"):
        answer = player.ask_unrecorded(
            "ApiVersions", 3, client_software_name=client_software_name, client_software_version="1"
        )
        player.note(
            f"ApiVersions v3 software {client_software_name!r}",
            (answer.error_code, len(answer.api_keys) > 0),
        )
    player.ask_bytes(
        "ApiVersions v99", frame_bytes(struct.pack(">hhih", 18, 99, 5, -1) + b"\0junk")
    )
    player.ask_bytes("ApiVersions v-1", frame_bytes(struct.pack(">hhih", 18, -1, 5, -1)))
    player.ask_bytes("ApiVersions v6", frame_bytes(struct.pack(">hhih", 18, 6, 5, -1) + b"\0"))


OURS: Final = frozenset(
    {0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 24, 26, 27, 32, 44, 57, 60, 61, 65, 66, 75}
)


def frame_bytes(data: bytes) -> bytes:
    """The bytes with their size in front."""
    return struct.pack(">i", len(data)) + data


def bad_frames(player: FramePlayer) -> None:
    """Frames that are no request, or no known request, close the connection."""
    head = struct.pack(">hhih", 3, 1, 1, -1)
    player.ask_bytes("unknown key", frame_bytes(struct.pack(">hhih", 999, 0, 1, -1)))
    player.ask_bytes("negative key", frame_bytes(struct.pack(">hhih", -1, 0, 1, -1)))
    player.ask_bytes("removed key", frame_bytes(struct.pack(">hhih", 4, 0, 1, -1)))
    player.ask_bytes(
        "controller's key", frame_bytes(struct.pack(">hhih", 67, 0, 1, -1) + b"\0" * 14)
    )
    player.ask_bytes("Metadata v99", frame_bytes(struct.pack(">hhih", 3, 99, 1, -1)))
    player.ask_bytes("Produce v2", frame_bytes(struct.pack(">hhih", 0, 2, 1, -1) + b"\0" * 20))
    player.ask_bytes(
        "InitProducerId v6", frame_bytes(struct.pack(">hhih", 22, 6, 1, -1) + b"\0" * 30)
    )
    player.ask_bytes("torn body", frame_bytes(head + b"\0\0\0\5"))
    player.ask_bytes("torn header", frame_bytes(b"\0\3\0"))
    player.ask_bytes("empty frame", frame_bytes(b""))
    player.ask_bytes("negative size", struct.pack(">i", -5))
    player.ask_bytes("absurd size", struct.pack(">i", 0x7FFFFFFF))
    player.ask_bytes("http", b"GET / HTTP/1.1\r\n\r\n")
    player.ask_bytes("array too long", frame_bytes(head + struct.pack(">i", 0x7FFFFFF0)))


def metadata(player: FramePlayer) -> None:
    """Topics by name and by id, known and unknown, in every version."""
    topic, topic_id = player.create_topic(partitions=3)
    for version in range(14):
        named_topics: list[dict[str, Any]] = [{"name": topic}]
        player.ask(
            "Metadata", version, "a topic", topics=named_topics, allow_auto_topic_creation=False
        )
        if version >= 4:
            player.ask(
                "Metadata",
                version,
                "unknown names",
                topics=[{"name": player.full_name("missing")}, {"name": "bad name"}, {"name": ""}],
                allow_auto_topic_creation=False,
            )
        if version >= 1:
            player.ask("Metadata", version, "none", topics=[])
        if version >= 10:
            player.ask("Metadata", version, "by id", topics=[{"name": None, "topic_id": topic_id}])
            player.ask(
                "Metadata",
                version,
                "unknown id",
                topics=[{"name": None, "topic_id": UNUSED_TOPIC_ID}, {"name": topic}],
            )
            player.ask(
                "Metadata",
                version,
                "id and name",
                topics=[{"name": topic, "topic_id": topic_id}, {"name": topic}],
            )
            player.ask("Metadata", version, "null name", topics=[{"name": None}])
    player.ask("Metadata", 5, "twice", topics=[{"name": topic}, {"name": topic}])
    for version in (8, 9, 10):
        player.ask(
            "Metadata",
            version,
            "with operations",
            topics=[{"name": topic}],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
    whole_metadata = player.ask_unrecorded("Metadata", 12, topics=None)
    player.note(
        "all topics",
        [listed_topic for listed_topic in whole_metadata.topics if listed_topic.name == topic],
    )


def create(
    player: FramePlayer,
    note: str,
    version: int = 7,
    *,
    validate_only: bool = False,
    **request_fields: Any,
) -> None:
    """Create one topic; one partition with one replica unless told otherwise."""
    request_fields.setdefault("num_partitions", 1)
    request_fields.setdefault("replication_factor", 1)
    player.ask(
        "CreateTopics",
        version,
        note,
        topics=[request_fields],
        timeout=5_000,
        validate_only=validate_only,
    )


def create_topics_by_hand(player: FramePlayer) -> None:
    """Create topics with explicit assignments, valid and faulty ones."""
    own_assignment = {"partition_index": 0, "broker_ids": [1]}
    neither: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    create(player, "assigned", name=player.full_name("m0"), assignments=[own_assignment], **neither)
    create(
        player,
        "assigned, partitions",
        name=player.full_name("m1"),
        assignments=[own_assignment],
        num_partitions=1,
        replication_factor=-1,
    )
    create(
        player,
        "assigned, replicas",
        name=player.full_name("m2"),
        assignments=[own_assignment],
        num_partitions=-1,
        replication_factor=1,
    )
    create(player, "assigned, both", name=player.full_name("m2"), assignments=[own_assignment])
    for note, assignments in (
        ("gap", [{"partition_index": 1, "broker_ids": [1]}]),
        ("gap 2", [own_assignment, {"partition_index": 2, "broker_ids": [1]}]),
        ("unknown broker", [{"partition_index": 0, "broker_ids": [9]}]),
        ("twice", [{"partition_index": 0, "broker_ids": [1, 1]}]),
        ("empty", [{"partition_index": 0, "broker_ids": []}]),
        ("same partition", [own_assignment, own_assignment]),
        ("uneven", [own_assignment, {"partition_index": 1, "broker_ids": [1, 2]}]),
    ):
        create(
            player,
            f"assigned {note}",
            name=player.full_name("m3"),
            assignments=assignments,
            **neither,
        )


def create_topics_with_configs(player: FramePlayer) -> None:
    """Configs that are rejected, and some that are accepted."""
    for name, config_value in BAD_TOPIC_CONFIGS:
        create(
            player,
            f"config {name}={config_value}",
            name=player.full_name("c1"),
            validate_only=True,
            configs=[{"name": name, "value": config_value}],
        )
    create(
        player,
        "config set",
        name=player.full_name("c2"),
        configs=[
            {"name": "retention.ms", "value": "5"},
            {"name": "cleanup.policy", "value": "compact"},
        ],
    )
    create(
        player,
        "config twice",
        name=player.full_name("c3"),
        configs=[{"name": "retention.ms", "value": "5"}, {"name": "retention.ms", "value": "6"}],
    )


def delete_topics(player: FramePlayer) -> None:
    """Delete topics by name and by id, a topic twice, and a missing topic."""
    for version in range(1, 7):
        name, _ = player.create_topic(f"v{version}")
        deletion: dict[str, Any] = {"topic_names": [name], "topics": [{"name": name}]}
        answer = player.ask_unrecorded("DeleteTopics", version, timeout=5_000, **deletion)
        player.note(f"DeleteTopics v{version}", answer)
        player.ask("DeleteTopics", version, "again", timeout=5_000, **deletion)
    name, topic_id = player.create_topic("by-id")
    other_topic, other_id = player.create_topic("other")

    def delete(note: str, *topics: dict[str, Any]) -> None:
        player.ask("DeleteTopics", 6, note, timeout=5_000, topics=list(topics))

    delete("both", {"name": name, "topic_id": topic_id})
    delete("neither", {"name": None})
    delete("unknown id", {"name": None, "topic_id": UNUSED_TOPIC_ID})
    delete("id twice", {"name": None, "topic_id": topic_id}, {"name": None, "topic_id": topic_id})
    delete("name twice", {"name": other_topic}, {"name": other_topic})
    delete("bad name", {"name": "a b"})
    delete("by id", {"name": None, "topic_id": topic_id})
    delete("by id again", {"name": None, "topic_id": topic_id})
    answer = player.ask_unrecorded(
        "DeleteTopics",
        6,
        timeout=5_000,
        topics=[{"name": None, "topic_id": other_id}, {"name": other_topic}],
    )
    player.note(
        "same by id and name",
        sorted(
            map(
                repr,
                [(response.error_code, response.error_message) for response in answer.responses],
            )
        ),
    )
    delete("none")
    player.ask("DeleteTopics", 3, "none", timeout=5_000, topic_names=[])


def describe_cluster(player: FramePlayer) -> None:
    """Endpoint types and versions."""
    for version in range(3):
        for endpoint in (1, 2, 0, 3, -1) if version else (1,):
            player.ask("DescribeCluster", version, f"endpoint {endpoint}", endpoint_type=endpoint)
        player.ask(
            "DescribeCluster", version, "operations", include_cluster_authorized_operations=True
        )
    player.ask("DescribeCluster", 2, "fenced", include_fenced_brokers=True)


def describe_topic_partitions(player: FramePlayer) -> None:
    """DescribeTopicPartitions page by page, with cursors."""
    first_topic, _ = player.create_topic("one", 3)
    second_topic, _ = player.create_topic("two", 2)
    missing = player.full_name("missing")

    def ask(
        note: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
    ) -> None:
        player.ask(
            "DescribeTopicPartitions",
            0,
            note,
            topics=[{"name": name} for name in names],
            response_partition_limit=limit,
            cursor=None
            if cursor is None
            else {"topic_name": cursor[0], "partition_index": cursor[1]},
        )

    ask("both", second_topic, first_topic)
    ask("twice", first_topic, first_topic)
    ask("missing", missing, first_topic)
    ask("bad", "a b", first_topic)
    ask("bad alone", "a b")
    ask("too long", "x" * 250)
    ask("empty", first_topic, "")
    for limit in (1, 2, 3, 4, 5, 6, 0, -1):
        ask(f"limit {limit}", first_topic, second_topic, limit=limit)
        ask(f"limit {limit} with missing", first_topic, missing, second_topic, limit=limit)
    for index in (0, 1, 3, 9):
        ask(f"cursor {index}", first_topic, second_topic, cursor=(first_topic, index))
        ask(
            f"cursor {index} limit 1",
            first_topic,
            second_topic,
            cursor=(first_topic, index),
            limit=1,
        )
    ask("cursor second", first_topic, second_topic, cursor=(second_topic, 1))
    ask("cursor before all", first_topic, second_topic, cursor=(player.full_name("a"), 0))
    ask("cursor between", first_topic, second_topic, cursor=(player.full_name("p"), 1))
    ask("cursor behind", first_topic, second_topic, cursor=(player.full_name("z"), 0))
    ask("cursor negative", first_topic, second_topic, cursor=(first_topic, -1))
    ask("cursor at missing", first_topic, missing, cursor=(missing, 0))
    ask("cursor behind all, no topics", cursor=("zzzzzz", 0))
    ask("cursor negative, no topics", cursor=("a", -1))


def update_features(player: FramePlayer) -> None:
    """Levels, upgrade types, dry runs, all or nothing."""
    level = player.level

    def update(
        note: str, *updates: tuple[str, int, int], version: int = 1, validate_only: bool = True
    ) -> None:
        player.ask(
            "UpdateFeatures",
            version,
            note,
            validate_only=validate_only,
            timeout=5_000,
            feature_updates=[
                {
                    "feature": feature,
                    "max_version_level": to,
                    "upgrade_type": upgrade_type,
                    "allow_downgrade": upgrade_type != 1,
                }
                for feature, to, upgrade_type in updates
            ],
        )

    name = "transaction.version"
    for version in (1, 2):
        for upgrade_type in (0, 1, 2, 3, 4):
            for to in (-1, 0, 1, 2, 3):
                update(f"to {to} by {upgrade_type}", (name, to, upgrade_type), version=version)
    update("unknown", ("nonsense", 1, 1))
    update("unknown at 0", ("nonsense", 0, 2))
    update("empty name", ("", 1, 1))
    update("same twice", (name, level, 1), (name, level, 1))
    update("good and bad", (name, level, 1), ("nonsense", 1, 1))
    update("bad and good", ("nonsense", 1, 1), (name, level, 1))
    update("none")
    for feature in (
        "group.version",
        "share.version",
        "streams.version",
        "eligible.leader.replicas.version",
        "kraft.version",
    ):
        for to, upgrade_type in ((0, 1), (0, 2), (0, 3), (1, 1), (2, 1)):
            update(f"{feature} to {to} by {upgrade_type}", (feature, to, upgrade_type))
    for to, upgrade_type in (
        (0, 2),
        (6, 3),
        (7, 2),
        (7, 3),
        (29, 1),
        (29, 2),
        (29, 3),
        (30, 1),
        (31, 1),
    ):
        update(
            f"metadata.version to {to} by {upgrade_type}", ("metadata.version", to, upgrade_type)
        )
    for version in (0, 1, 2):
        update("same for real", (name, level, 1), version=version, validate_only=False)


STORIES: Final[tuple[Story, ...]] = (
    api_versions,
    bad_frames,
    metadata,
    create_topics_by_hand,
    create_topics_with_configs,
    delete_topics,
    describe_cluster,
    describe_topic_partitions,
    update_features,
)
