"""Distinguishes topics with the same name: a topic that is created again after its deletion is
another topic. Kafka distinguishes them by their ids (KIP-516), which clients do not see. So the
second topic of a name is called ``orders#2`` before any checker runs, and no checker compares it
with the first one. If a request was under way during the deletion, its answer may be of either
topic. Such an answer gets a topic of its own and proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from txnsim.types import TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Added,
    Deleted,
    Described,
    Outcome,
    PartitionObservation,
    PositionsRead,
    Seen,
    Wrote,
)

REMADE_MARK: Final = "#"
"""A character that Kafka does not allow in topic names."""
IN_DOUBT_MARK: Final = f"{REMADE_MARK}?"


def with_distinct_topics(history: History) -> History:
    """The history with a different name for each topic that had the same name."""
    deletions: dict[str, list[tuple[int, Deleted]]] = defaultdict(list)
    for index, deletion in history.all_of(Deleted):
        if deletion.outcome is not Outcome.FAILED:
            deletions[deletion.topic].append((index, deletion))
    if not deletions:
        return history
    topic_names = _Names(deletions)
    return History(
        topic_names.rename(index, observation) for index, observation in enumerate(history)
    )


def deleted_topics(history: History) -> frozenset[str]:
    return frozenset(
        deletion.topic
        for _, deletion in history.all_of(Deleted)
        if deletion.outcome is not Outcome.FAILED
    )


def in_doubt_of(partition: TopicPartition) -> TopicPartition | None:
    """The partition under its real name, if an answer may be about either of two topics of that
    name; None for all other partitions.
    """
    topic, doubt_mark, _ = partition.topic.partition(IN_DOUBT_MARK)
    return TopicPartition(topic, partition.partition) if doubt_mark else None


def own_name(partition: TopicPartition) -> TopicPartition:
    """The partition under its real name, which clients know."""
    return TopicPartition(partition.topic.partition(REMADE_MARK)[0], partition.partition)


class _Names:
    """Finds the topic that an observation is about, among those with the same name."""

    def __init__(self, deletions: dict[str, list[tuple[int, Deleted]]]) -> None:
        self._deletions_by_topic = deletions

    def rename(self, index: int, observation: Seen) -> Seen:
        """The observation with the distinct names of topics."""
        match observation:
            case Deleted():
                earlier_deletions = [
                    deletion_index
                    for deletion_index, _ in self._deletions_by_topic.get(observation.topic, ())
                    if deletion_index < index
                ]
                return replace(observation, topic=_name(observation.topic, len(earlier_deletions)))
            case Wrote():
                inputs = tuple(
                    replace(
                        input_position,
                        topic=self._name_of(input_position.topic, index, observation),
                    )
                    for input_position in observation.of
                )
                return replace(
                    observation,
                    topic=self._name_of(observation.topic, index, observation),
                    of=inputs,
                )
            case PartitionObservation():
                return replace(
                    observation, topic=self._name_of(observation.topic, index, observation)
                )
            case PositionsRead():
                return replace(
                    observation,
                    positions=tuple(
                        replace(position, topic=self._name_of(position.topic, index, observation))
                        for position in observation.positions
                    ),
                )
            case Added() | Described():
                return replace(observation, partitions=self._all_names_of(observation.partitions))
            case _:
                return observation

    def _name_of(self, topic: str, index: int, observation: Seen) -> str:
        """The distinct name of the topic that an observation is about. It is certain for answers
        that came before the deletion was requested, and for requests that were sent after the
        deletion was confirmed. A confirmed deletion also ends the doubt about earlier ones.
        """
        deletion_count, is_in_doubt = 0, False
        sent_ms = -1 if observation.asked_ms is None else observation.asked_ms
        for deletion_index, deletion in self._deletions_by_topic.get(topic, ()):
            if index < deletion_index and observation.at_ms <= deletion.asked_ms:
                break
            deletion_count += 1
            is_in_doubt = deletion.outcome is not Outcome.OK or sent_ms <= deletion.at_ms
        return f"{topic}{IN_DOUBT_MARK}{index}" if is_in_doubt else _name(topic, deletion_count)

    def _all_names_of(self, partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """The partitions of all topics with this name: a coordinator knows only the name."""
        return tuple(
            TopicPartition(_name(partition.topic, deletion_count), partition.partition)
            for partition in partitions
            for deletion_count in range(len(self._deletions_by_topic.get(partition.topic, ())) + 1)
        )


def _name(topic: str, deletion_count: int) -> str:
    return topic if deletion_count == 0 else f"{topic}{REMADE_MARK}{deletion_count + 1}"
