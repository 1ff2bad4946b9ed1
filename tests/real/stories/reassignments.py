"""Replicas that are moved to other brokers (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

NO_BROKER: Final = 4711
Replicas = list[int] | None


def reassign_alone(player: FramePlayer) -> None:
    """Reassignments on one broker: those that are rejected, and those that change nothing."""
    topic, _ = player.create_topic(partitions=2)
    for version in (0, 1):
        for note, partition_key, replicas in (
            ("as it is", (topic, 0), [1]),
            ("no such broker", (topic, 0), [1, NO_BROKER]),
            ("a negative broker", (topic, 0), [-1]),
            ("to nobody", (topic, 0), []),
            ("twice the same", (topic, 0), [1, 1]),
            ("no such partition", (topic, 7), [1]),
            ("no such topic", (player.full_name("absent"), 0), [1]),
            ("cancelled while nothing moves", (topic, 0), None),
            ("cancelled in no such partition", (topic, 7), None),
        ):
            _alter(player, note, {partition_key: replicas}, version=version)
        _alter(player, "some of each", {(topic, 0): [1], (topic, 1): [2]}, version=version)
        player.ask("AlterPartitionReassignments", version, "nothing", timeout=5_000, topics=[])
        _alter(player, "at once", {(topic, 0): [1]}, version=version, timeout_ms=0)
    _alter(player, "another factor", {(topic, 0): [1, 1]}, may_change_factor=False)
    _alter(player, "nobody, the same factor", {(topic, 0): []}, may_change_factor=False)
    player.ask(
        "AlterPartitionReassignments",
        1,
        "nothing, the same factor",
        timeout=5_000,
        allow_replication_factor_change=False,
        topics=[],
    )
    for topics in (None, [], [(topic, [0, 7])], [(player.full_name("absent"), [0])]):
        _list_reassignments(player, topics)


def reassign_partitions(player: FramePlayer) -> None:
    """Reassignments on three brokers, the third of them down: those that end at once, and those
    that wait for it.
    """
    _reassign_in_one_step(player)
    _reassign_to_absent_broker(player)
    _changed_on_the_way(player)


def _reassign_in_one_step(player: FramePlayer) -> None:
    topic = _make_topic(player, "single", [[1], [1]])
    _alter(player, "to another broker", {(topic, 0): [2]})
    _wait_until_settled(player, topic)
    _alter(player, "one more", {(topic, 1): [1, 2]})
    _wait_until_settled(player, topic)
    _alter(player, "one more, forbidden", {(topic, 0): [1, 2]}, may_change_factor=False)
    _alter(player, "back", {(topic, 0): [1]}, may_change_factor=False)
    _wait_until_settled(player, topic)
    topic = _make_topic(player, "double", [[1, 2], [1, 2], [2, 1]])
    _alter(player, "another order", {(topic, 0): [2, 1]})
    _wait_until_settled(player, topic)
    _alter(player, "the leader goes", {(topic, 1): [2]})
    _wait_until_settled(player, topic)
    _alter(player, "the follower goes", {(topic, 2): [2]})
    _wait_until_settled(player, topic)
    _alter(player, "and on", {(topic, 2): [1]}, may_change_factor=False)
    _wait_until_settled(player, topic)


def _reassign_to_absent_broker(player: FramePlayer) -> None:
    topic = _make_topic(player, "waiting", [[1, 2], [1, 2], [2, 1]])
    for note, partition, replicas in (
        ("a replica that is down", 0, [1, 3]),
        ("one more that is down", 1, [2, 1, 3]),
        ("only one that is down", 2, [3]),
    ):
        _alter(player, note, {(topic, partition): replicas})
        _note_partitions(player, topic)
    _alter(player, "the same again", {(topic, 0): [1, 3]})
    _alter(player, "a factor of what is to be", {(topic, 2): [2]}, may_change_factor=False)
    _note_partitions(player, topic)
    _alter(player, "too many", {(topic, 2): [1, 2]}, may_change_factor=False)
    player.ask(
        "ElectLeaders",
        2,
        "preferred on the way",
        timeout=5_000,
        election_type=0,
        topic_partitions=[{"topic": topic, "partitions": [0, 1, 2]}],
    )
    _note_partitions(player, topic)
    for partition in (0, 1, 2):
        _alter(player, f"cancelled {partition}", {(topic, partition): None})
        _note_partitions(player, topic)
    _alter(player, "cancelled again", {(topic, 0): None})


def _changed_on_the_way(player: FramePlayer) -> None:
    topic = _make_topic(player, "turned", [[1, 2]] * 6)
    on_the_way = {(topic, index): [1, 3] for index in range(6)}
    _alter(player, "all on the way", on_the_way)
    _alter(player, "back by hand", {(topic, 0): [1, 2]})
    _alter(player, "all three", {(topic, 1): [1, 2, 3]})
    _alter(player, "away from the old leader", {(topic, 2): [2, 3]})
    _alter(player, "one alone", {(topic, 3): [2]})
    _alter(player, "the new one alone", {(topic, 4): [3]})
    _alter(player, "another order", {(topic, 5): [3, 1]})
    _note_partitions(player, topic)
    _list_reassignments(player, [(topic, [5, 0, 3, 9]), (player.full_name("absent"), [0])])
    _alter(player, "all cancelled", {(topic, index): None for index in range(6)})
    _note_partitions(player, topic)


# Asking


def _alter(
    player: FramePlayer,
    note: str,
    replicas_by_partition: Mapping[tuple[str, int], Replicas],
    *,
    version: int = 1,
    may_change_factor: bool = True,
    timeout_ms: int = 5_000,
) -> None:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, replica_index), replicas in replicas_by_partition.items():
        topics.setdefault(topic, []).append(
            {"partition_index": replica_index, "replicas": replicas}
        )
    player.ask(
        "AlterPartitionReassignments",
        version,
        note,
        timeout=timeout_ms,
        allow_replication_factor_change=may_change_factor,
        topics=[
            {"name": topic_name, "partitions": partitions}
            for topic_name, partitions in topics.items()
        ],
    )


def _list_reassignments(player: FramePlayer, topics: list[tuple[str, list[int]]] | None) -> None:
    topic_filters = None
    if topics is not None:
        topic_filters = [{"name": name, "partition_indexes": indexes} for name, indexes in topics]
    player.ask("ListPartitionReassignments", 0, f"{topics}", timeout=5_000, topics=topic_filters)


def _make_topic(player: FramePlayer, name: str, replicas: list[list[int]]) -> str:
    """Create a topic with an explicit replica assignment."""
    topic = player.full_name(name)
    player.ask_unrecorded(
        "CreateTopics",
        7,
        timeout=5_000,
        topics=[
            {
                "name": topic,
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [
                    {"partition_index": replica_index, "broker_ids": brokers}
                    for replica_index, brokers in enumerate(replicas)
                ],
            }
        ],
    )
    _wait_for_metadata(player)
    return topic


def _wait_for_metadata(player: FramePlayer) -> None:
    """Wait until the player's broker knows all decisions so far."""
    name = player.full_name(player.next_awaited_topic())
    player.ask_unrecorded(
        "CreateTopics",
        7,
        timeout=5_000,
        topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}],
    )
    player.ask_until(
        lambda answer: not answer.topics[0].error_code,
        "Metadata",
        12,
        topics=[{"name": name}],
        allow_auto_topic_creation=False,
    )


def _wait_until_settled(player: FramePlayer, topic: str) -> None:
    """Wait until no partition of the topic moves any more, and note the topic."""
    player.ask_until(
        lambda answer: not answer.topics,
        "ListPartitionReassignments",
        0,
        timeout=5_000,
        topics=[{"name": topic, "partition_indexes": list(range(10))}],
    )
    _wait_for_metadata(player)
    _note_partitions(player, topic)


def _note_partitions(player: FramePlayer, topic: str) -> None:
    """Note the topic's partitions, and the reassignments in progress."""
    _wait_for_metadata(player)
    _list_reassignments(player, None)
    player.ask("DescribeTopicPartitions", 0, "now", topics=[{"name": topic}])
    metadata = player.ask_unrecorded(
        "Metadata", 12, topics=[{"name": topic}], allow_auto_topic_creation=False
    )
    player.note("Metadata v12 now", metadata.topics)


STORIES: Final[tuple[Story, ...]] = (reassign_alone, reassign_partitions)
