"""Finds the replicas that belong to the present topic of a name. The name is not enough. A topic
may have been deleted and created again: then it has its old name and a new id. A broker that was
down at that time still has the old log. A replica is identified by its cluster
(``segments.refuse_logs_of_two_clusters``), by its topic's id (``partition.metadata``) and by its
partition. The newest copy of the metadata log says which id is in use. Replicas of other ids are
*stale*: their broker removes them when it starts, as it does with one without an id. If ids differ
and no copy decides, this module does not guess.

Kafka's counterparts: PartitionMetadataFile, LogManager.isStrayReplica.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from txnsim.storage.metadata_log import StoredMetadata
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_spark.forensics._metadata_copies import KnownTopics, known_topics_in
from txnsim_spark.forensics._read_notes import meaning
from txnsim_spark.scan.log_dirs import OnProblem, ignore_problem, topic_id_of
from txnsim_spark.scan.segments import (
    Replica,
    log_dirs_in,
    refuse_logs_of_two_clusters,
    replicas_in,
)
from txnsim_spark.stores.mirror import with_store_names

_METADATA_TOPIC: Final = StoredMetadata.FOLDER.rpartition("-")[0]
"""The controllers' own topic, which the metadata log does not name."""


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of a deleted topic, or one that its broker could not identify."""

    topic: str
    partition: int
    topic_id: Annotated[
        str | None,
        meaning("Of the topic that was deleted; null where only this replica of its log directory"
              " has no partition.metadata."),
    ]  # fmt: skip
    living_topic_id: Annotated[
        str | None, meaning("Of the topic that has its name now; null where none has.")
    ]
    broker: Annotated[int, meaning("Whose replica it is; -1 where the directory does not tell.")]
    log_dir: str


class Identities(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas whose topic id is not that of the present topic with this name."""

    stale: tuple[Stale, ...] = ()
    """Stale replicas by topic, partition and broker."""
    undecided_reason_by_topic: Mapping[str, str] = {}
    """Topic -> a sentence saying that the files do not show which of its ids is the present one."""

    stale_paths: frozenset[str] = frozenset()

    def is_stale(self, replica: Replica) -> bool:
        """Whether a replica is of a topic that was deleted."""
        return replica.path in self.stale_paths

    def unjudged_partitions(self, living_replicas: Iterable[Replica]) -> Iterator[str]:
        """A sentence about each partition of a living topic of which only stale replicas are
        here.
        """
        living_partitions = {replica.topic_partition for replica in living_replicas}
        stale_by_partition = {
            TopicPartition(stale_replica.topic, stale_replica.partition): stale_replica
            for stale_replica in self.stale
            if stale_replica.living_topic_id is not None
        }
        for partition, stale_replica in stale_by_partition.items():
            if partition not in living_partitions:
                yield (
                    f"{partition} of topic id {stale_replica.living_topic_id}: only replicas of"
                    " another topic id are here, so nothing is known of it"
                )

    def living_rows(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows without those of stale replicas."""
        partition_folders = {
            (with_store_names(stale_places.log_dir), stale_places.topic, stale_places.partition)
            for stale_places in self.stale
        }
        for row in rows:
            if (row["log_dir"], row["topic"], row["partition"]) not in partition_folders:
                yield row


def stale_words(stale: Iterable[Stale]) -> tuple[str, ...]:
    """Lines about stale replicas: one per topic and broker."""
    stale_by_topic: defaultdict[tuple[str, int, str], list[Stale]] = defaultdict(list)
    for stale_replica in stale:
        stale_by_topic[
            stale_replica.topic, stale_replica.broker, stale_replica.topic_id or ""
        ].append(stale_replica)
    return tuple(
        _stale_sentence(replicas_of_topic)
        for _, replicas_of_topic in sorted(stale_by_topic.items())
    )


def _stale_sentence(stale_replicas: Sequence[Stale]) -> str:
    first_stale = stale_replicas[0]
    partition_numbers = ", ".join(str(stale_replica.partition) for stale_replica in stale_replicas)
    reason = (
        "that topic was deleted"
        if first_stale.living_topic_id is None
        else f"that topic was deleted, the one of this name has id {first_stale.living_topic_id}"
    )
    place_text = (
        f"stale: {first_stale.topic}, partition {partition_numbers}, on broker"
        f" {first_stale.broker} has"
    )
    if first_stale.topic_id is None:
        return f"{place_text} no partition.metadata: its broker sets it aside when it starts"
    return f"{place_text} topic id {first_stale.topic_id}: {reason}"


def identify_replicas(
    replicas_with_ids: Iterable[tuple[Replica, str | None]], known_topics: KnownTopics
) -> Identities:
    """Separate stale replicas from replicas of existing topics.

    If the newest copy of the metadata log lacks a replica's topic id, the topic was deleted if that
    copy has the record of it, or if the copy of the replica's own broker was read: a broker creates
    the folder of a replica only when its copy has the topic. Otherwise the replica may be newer
    than the copy.

    A replica without an id is stale if others in its log directory have ids: a broker writes the id
    before it appends. If none has an id, the files were left out when the directory was copied. The
    log of a coordinator is read nevertheless, as it has the decisions.

    Args:
        replicas_with_ids: Replicas, each with its topic's id; None if it has no id, as before Kafka
            2.8.
        known_topics: The topics in the metadata log.
    """
    replicas_by_topic: defaultdict[str, list[tuple[Replica, str]]] = defaultdict(list)
    replicas_without_id = []
    for replica, topic_id in replicas_with_ids:
        if replica.topic == _METADATA_TOPIC:
            continue
        if topic_id is None:
            if replica.topic not in INTERNAL_TOPICS:
                replicas_without_id.append(replica)
        else:
            replicas_by_topic[replica.topic].append((replica, topic_id))
    stale_replicas_found = _stale_without_id(replicas_without_id, replicas_by_topic, known_topics)
    undecided_topics: dict[str, str] = {}
    for topic, replicas in sorted(replicas_by_topic.items()):
        living_topic_id = (
            None if known_topics.topic_ids is None else known_topics.topic_ids.get(topic)
        )
        replicas_of_other_ids = [
            (replica, topic_id) for replica, topic_id in replicas if topic_id != living_topic_id
        ]
        if known_topics.topic_ids is not None and all(
            topic_id in known_topics.removed_topic_ids or replica.broker in known_topics.brokers
            for replica, topic_id in replicas_of_other_ids
        ):
            stale_replicas_found |= {
                replica.path: _stale_replica(replica, topic_id, living_topic_id)
                for replica, topic_id in replicas_of_other_ids
            }
            continue
        topic_ids = {topic_id for _, topic_id in replicas} | (
            {living_topic_id} if living_topic_id is not None else set()
        )
        if len(topic_ids) > 1:
            undecided_topics[topic] = _undecided_reason(topic, replicas)
    stale_replicas = sorted(
        stale_replicas_found.values(),
        key=lambda replica: (replica.topic, replica.partition, replica.broker),
    )
    return Identities(
        stale=tuple(stale_replicas),
        stale_paths=frozenset(stale_replicas_found),
        undecided_reason_by_topic=undecided_topics,
    )


def _stale_without_id(
    replicas: Iterable[Replica],
    replicas_by_topic: Mapping[str, Sequence[tuple[Replica, str]]],
    known_topics: KnownTopics,
) -> dict[str, Stale]:
    """Stale ones of the replicas without an id, by path."""
    if known_topics.topic_ids is None:
        return {}
    log_dirs_with_ids = {
        replica.log_dir
        for replicas_of_topic in replicas_by_topic.values()
        for replica, _ in replicas_of_topic
    }
    return {
        replica.path: _stale_replica(replica, None, known_topics.topic_ids.get(replica.topic))
        for replica in replicas
        if replica.log_dir in log_dirs_with_ids
    }


def _stale_replica(replica: Replica, topic_id: str | None, living_topic_id: str | None) -> Stale:
    return Stale(
        topic=replica.topic,
        partition=replica.partition,
        topic_id=topic_id,
        living_topic_id=living_topic_id,
        broker=replica.broker,
        log_dir=replica.log_dir,
    )


def _undecided_reason(topic: str, replicas: Iterable[tuple[Replica, str]]) -> str:
    brokers_by_id: defaultdict[str, set[int]] = defaultdict(set)
    for replica, topic_id in replicas:
        brokers_by_id[topic_id].add(replica.broker)
    ids_text = "; ".join(
        f"id {topic_id} on broker {', '.join(map(str, sorted(brokers_of_id)))}"
        for topic_id, brokers_of_id in sorted(brokers_by_id.items())
    )
    return (
        f"{topic} was deleted and made again ({ids_text}), and no copy of the metadata log tells"
        " which"
        " of these topics lives"
    )


def identities_in(
    paths: Iterable[Path],
    topics: frozenset[str] = frozenset(),
    on_problem: OnProblem = ignore_problem,
) -> Identities:
    """Identify the replicas in log directories (``identify_replicas``).

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        topics: Only these; all where empty.
        on_problem: Called with what can't be read.

    Raises:
        BadInputError: A path is no directory, there is nothing of Kafka's in it, or directories are
            of two clusters.
    """
    given_paths = tuple(paths)
    log_dirs = log_dirs_in(
        given_paths
    )  # also those without a replica of these topics: they have copies
    refuse_logs_of_two_clusters(log_dirs)
    replicas = replicas_in(given_paths, topics, on_problem)
    return identify_replicas(
        ((replica, topic_id_of(Path(replica.path), on_problem)) for replica in replicas),
        known_topics_in(log_dirs, on_problem),
    )
