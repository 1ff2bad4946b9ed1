"""Plain questions to a list of observations, in the words of docs/checkers.md. The definitions are
made of them.

Of the package that is judged only the observations are used: they say what a line of a history is.
Everything is a loop over all lines. It is slow, and short enough to be compared with the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Added,
    Began,
    Deleted,
    Described,
    Ended,
    Isolation,
    Outcome,
    PartitionObservation,
    PositionsRead,
    Read,
    Record,
    Seen,
    SentOffsets,
    Wrote,
)

Observations = Sequence[Seen]
SeenT = TypeVar("SeenT", bound=Seen)
Answer = Added | Wrote | SentOffsets | Ended
"""To a producer in its transaction."""

OK: Final = Outcome.OK
FAILED: Final = Outcome.FAILED
UNKNOWN: Final = Outcome.UNKNOWN
NOT_TOLD: Final = -1
"""An offset that no answer tells."""
BUSY: Final = "CONCURRENT_TRANSACTIONS"


def every(observations: Observations, observation_class: type[SeenT]) -> list[tuple[int, SeenT]]:
    return [
        (index, observation)
        for index, observation in enumerate(observations)
        if isinstance(observation, observation_class)
    ]


# Transactions


def labels(observations: Observations) -> list[str]:
    """The labels of all transactions in a history."""
    named_labels = [getattr(observation, "transaction", None) for observation in observations]
    return sorted({label for label in named_labels if label is not None})


def owner(observations: Observations, label: str | None) -> str | None:
    """The transactional id of a transaction."""
    for _, began in reversed(every(observations, Began)):
        if began.transaction == label:
            return began.transactional_id
    return None


def ends(observations: Observations, label: str | None) -> list[tuple[int, Ended]]:
    """The answers to the requests that end a transaction."""
    return [
        (index, observed_end)
        for index, observed_end in every(observations, Ended)
        if observed_end.transaction == label
    ]


def is_acknowledged(observations: Observations, label: str | None) -> bool:
    """Whether a commit of the transaction was acknowledged."""
    return any(
        observed_end.commit and observed_end.outcome is OK
        for _, observed_end in ends(observations, label)
    )


def cannot_have_committed(observations: Observations, label: str | None) -> bool:
    """Whether the transaction's end was requested, and each requested commit was refused."""
    known_ends = ends(observations, label)
    return bool(known_ends) and all(
        not observed_end.commit or observed_end.outcome is FAILED for _, observed_end in known_ends
    )


def is_committed(observations: Observations, label: str | None) -> bool:
    """Whether a commit was acknowledged, or one is unknown and a reader got a record of it."""
    if label is None or is_acknowledged(observations, label):
        return label is not None
    return any(
        observed_end.commit and observed_end.outcome is UNKNOWN
        for _, observed_end in ends(observations, label)
    ) and any(
        is_of(observations, topic_partition, record, label)
        for _, topic_partition, record in given_records(observations)
    )


def is_of(
    observations: Observations, topic_partition: TopicPartition, record: Record, label: str | None
) -> bool:
    """Whether a delivered record belongs to a transaction."""
    return any(
        writer.transaction == label
        for writer in writers(observations, topic_partition, record.value)
    )


# Records


def reads(
    observations: Observations, topic_partition: TopicPartition | None = None
) -> list[tuple[int, Read]]:
    """The Fetch answers that read_committed readers got without an error."""
    return [
        (index, read)
        for index, read in every(observations, Read)
        if read.isolation is Isolation.READ_COMMITTED and not read.error
        if topic_partition in (None, read.place)
    ]


def given_records(observations: Observations) -> list[tuple[int, TopicPartition, Record]]:
    """The records that read_committed readers got, without tombstones, which have no name."""
    return [
        (index, read.place, record)
        for index, read in reads(observations)
        for record in read.records
        if record.value is not None
    ]


def writers(
    observations: Observations, topic_partition: TopicPartition, record_value: str | None
) -> list[Wrote]:
    """The writes of a record that may have taken effect; all refused ones if none did."""
    if record_value is None:
        return []
    tried_writes = [
        observed_write
        for _, observed_write in every(observations, Wrote)
        if observed_write.place == topic_partition and observed_write.value == record_value
    ]
    return [
        observed_write for observed_write in tried_writes if observed_write.outcome is not FAILED
    ] or tried_writes


def offsets_given(observations: Observations, observed_write: Wrote) -> list[int]:
    """The offsets at which readers have found a record."""
    return [
        record.offset
        for _, topic_partition, record in given_records(observations)
        if topic_partition == observed_write.place and record.value == observed_write.value
    ]


# Topics


def with_distinct_names(observations: Observations) -> list[Seen]:
    """Return the history with a distinct name for each topic that bears one name."""
    return [
        _with_distinct_name(observations, index, observation)
        for index, observation in enumerate(observations)
    ]


def deleted_topics(observations: Observations) -> set[str]:
    """The topics that are deleted, or may be deleted, at the end of the history."""
    return {
        deleted.topic
        for _, deleted in every(observations, Deleted)
        if deleted.outcome is not FAILED
    }


def may_be_any_of(topic: str, other_topic: str) -> bool:
    """Whether it is unknown which topic of a name one was, and another is of that name."""
    return "?" in topic and topic.split("?")[0] == other_topic.split("/")[0].split("?")[0]


def _with_distinct_name(observations: Observations, index: int, observation: Seen) -> Seen:
    if isinstance(observation, Deleted):
        deletions_before = sum(
            deleted is not observation
            for deleted in _deletions(observations[: index + 1], observation.topic)
        )
        return replace(observation, topic=_numbered_name(observation.topic, deletions_before))
    if isinstance(observation, PositionsRead):
        renamed = (
            replace(position, topic=_which(observations, index, position.topic))
            for position in observation.positions
        )
        return replace(observation, positions=tuple(renamed))
    if isinstance(observation, Added | Described):
        # A coordinator knows names only: it means whichever there is.
        partitions = tuple(
            TopicPartition(_numbered_name(partition.topic, number), partition.partition)
            for partition in observation.partitions
            for number in range(len(_deletions(observations, partition.topic)) + 1)
        )
        return replace(observation, partitions=partitions)
    if isinstance(observation, Wrote):
        inputs = tuple(
            replace(position, topic=_which(observations, index, position.topic))
            for position in observation.of
        )
        observation = replace(observation, of=inputs)
    if isinstance(observation, PartitionObservation):
        return replace(observation, topic=_which(observations, index, observation.topic))
    return observation


def _deletions(observations: Observations, topic: str) -> list[Deleted]:
    return [
        deleted
        for _, deleted in every(observations, Deleted)
        if deleted.topic == topic and deleted.outcome is not FAILED
    ]


def _which(observations: Observations, index: int, topic: str) -> str:
    observation, observed_deletions = observations[index], _deletions(observations, topic)
    sent_ms = -1 if observation.asked_ms is None else observation.asked_ms

    def is_before(deleted: Deleted) -> bool:
        return observation.at_ms <= deleted.asked_ms and deleted not in observations[:index]

    def is_after(deleted: Deleted) -> bool:
        return deleted.outcome is OK and sent_ms > deleted.at_ms

    possible = [
        number
        for number in range(len(observed_deletions) + 1)
        if not any(is_before(deleted) for deleted in observed_deletions[:number])
        and not any(is_after(deleted) for deleted in observed_deletions[number:])
    ]
    return _numbered_name(topic, possible[0]) if len(possible) == 1 else f"{topic}?{index}"


def _numbered_name(topic: str, number: int) -> str:
    return f"{topic}/{number}" if number else topic
