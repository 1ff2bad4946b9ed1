"""The definitions of docs/checkers.md, "What was written and what was read"."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, permutations

from tests.lab.checkers.brute_force.facts import (
    FAILED,
    NOT_TOLD,
    OK,
    Observations,
    cannot_have_committed,
    ends,
    every,
    given_records,
    is_committed,
    labels,
    owner,
    reads,
    writers,
)
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import PositionsRead, SentOffsets, Wrote

Pair = tuple[str, str]
"""The second depends on the first."""


def aborted_read(observations: Observations) -> bool:
    for _, topic_partition, record in given_records(observations):
        writers_of_value = writers(observations, topic_partition, record.value)
        if writers_of_value and all(
            cannot_have_committed(observations, observed_write.transaction)
            for observed_write in writers_of_value
        ):
            return True
    return False


def intermediate_read(observations: Observations) -> bool:
    for index, topic_partition, record in given_records(observations):
        for observed_write in writers(observations, topic_partition, record.value):
            for later_at, later_write in every(observations, Wrote):
                if (
                    observed_write.transaction is not None
                    and later_write.transaction == observed_write.transaction
                    and later_write.place == topic_partition
                    and later_write.outcome is OK
                    and later_at > index
                    and not _end_was_asked(
                        observations, observed_write.transaction, read=index, later_index=later_at
                    )
                ):
                    return True
    return False


def _end_was_asked(observations: Observations, label: str, *, read: int, later_index: int) -> bool:
    for index, observed_end in ends(observations, label):
        if observed_end.asked_ms is None and index < later_index:
            return True
        if observed_end.asked_ms is not None and observed_end.asked_ms <= observations[read].at_ms:
            return True
    return False


# Circles


def dirty_write(observations: Observations) -> bool:
    committed = [label for label in labels(observations) if is_committed(observations, label)]
    if not _have_an_order(committed, _overwrites(observations, committed)):
        return True
    for transactional_id in {owner(observations, label) for label in committed} - {None}:
        own_labels = [
            label for label in committed if owner(observations, label) == transactional_id
        ]
        if not _have_an_order(own_labels, _follows(observations, own_labels)):
            return True
    return False


def circular_information_flow(observations: Observations) -> bool:
    committed = [label for label in labels(observations) if is_committed(observations, label)]
    overwrites, tells = _overwrites(observations, committed), _tells(observations, committed)
    for size in range(2, len(committed) + 1):
        for ring in permutations(committed, size):
            steps = [*zip(ring, (*ring[1:], ring[0]), strict=True)]
            if all(step in overwrites or step in tells for step in steps) and any(
                step in tells for step in steps
            ):
                return True
    return False


def read_skew(observations: Observations) -> bool:
    committed = [label for label in labels(observations) if is_committed(observations, label)]
    other_edges = _overwrites(observations, committed) | _tells(observations, committed)
    misses = _misses(observations, committed)
    for size in range(2, len(committed) + 1):
        for first_label, *other_labels in permutations(committed, size):
            steps = [*pairwise((*other_labels, first_label))]
            if (first_label, other_labels[0]) in misses and all(
                step in other_edges for step in steps
            ):
                return True
    return False


def _misses(observations: Observations, committed: list[str]) -> set[Pair]:
    """Pairs: a transaction that read a whole partition, and one that appended to it later."""
    return {
        (str(read.transaction), str(observed_write.transaction))
        for _, read in reads(observations)
        for topic_partition, offset, observed_write in _placed_records(observations)
        if read.whole and topic_partition == read.place and offset >= read.next_offset
        if read.transaction in committed and observed_write.transaction in committed
        if read.transaction != observed_write.transaction
    }


def _have_an_order(committed: list[str], pairs: set[Pair]) -> bool:
    """Whether an order of the transactions exists that has all pairs in the right order."""
    return any(
        all(
            order.index(label_before) < order.index(label_after)
            for label_before, label_after in pairs
        )
        for order in permutations(committed)
    )


def _placed_records(observations: Observations) -> Iterable[tuple[TopicPartition, int, Wrote]]:
    """Records at the offset that was read, else at that which was acknowledged; neither of two."""
    read = [
        (topic_partition, record.offset, writers_of_value[0])
        for _, topic_partition, record in given_records(observations)
        if (writers_of_value := writers(observations, topic_partition, record.value))
        if len({observed_write.transaction for observed_write in writers_of_value}) == 1
    ]
    placed_writes = [
        (observed_write.place, observed_write.offset, observed_write)
        for _, observed_write in every(observations, Wrote)
        if observed_write.outcome is OK and observed_write.offset != NOT_TOLD
    ]
    unread_records = [
        placed_write
        for placed_write in placed_writes
        if not any(placed_write[:2] == placed_record[:2] for placed_record in read)
    ]
    return [*_undisputed_records(read), *_undisputed_records(unread_records)]


def _undisputed_records(
    placed: list[tuple[TopicPartition, int, Wrote]],
) -> list[tuple[TopicPartition, int, Wrote]]:
    return [
        (topic_partition, offset, observed_write)
        for topic_partition, offset, observed_write in placed
        if all(
            (observed_write.transaction, observed_write.key, observed_write.value)
            == (other_wrote.transaction, other_wrote.key, other_wrote.value)
            for other_partition, other_offset, other_wrote in placed
            if (topic_partition, offset) == (other_partition, other_offset)
        )
    ]


def _overwrites(observations: Observations, committed: list[str]) -> set[Pair]:
    """Pairs: a transaction whose last write to a key precedes that of the other transaction."""
    versions = [
        (topic_partition, observed_write.key, observed_write.transaction, offset)
        for topic_partition, offset, observed_write in _placed_records(observations)
        if observed_write.key is not None and observed_write.transaction in committed
    ]
    last_versions = [
        (topic_partition, key, label, offset)
        for topic_partition, key, label, offset in versions
        if not any(
            (topic_partition, key, label) == version[:3] and offset < version[3]
            for version in versions
        )
    ]
    return {
        (label_before, label_after)
        for topic_partition, key, label_before, offset in last_versions
        for other_partition, other_key, label_after, other_offset in last_versions
        if (topic_partition, key) == (other_partition, other_key)
        if offset < other_offset and label_before is not None and label_after is not None
    }


def _follows(observations: Observations, own_labels: list[str]) -> set[Pair]:
    """Pairs of transactions of one id: the first one has a record before one of the second."""
    records = [
        (topic_partition, observed_write.transaction, offset)
        for topic_partition, offset, observed_write in _placed_records(observations)
        if observed_write.transaction in own_labels
    ]
    return {
        (label_before, label_after)
        for topic_partition, label_before, offset in records
        for other_partition, label_after, other_offset in records
        if topic_partition == other_partition
        and offset < other_offset
        and label_before != label_after
        if label_before is not None and label_after is not None
    }


def _tells(observations: Observations, committed: list[str]) -> set[Pair]:
    """Pairs: a transaction, and one that read a record of it."""
    pairs = set()
    for _, read in reads(observations):
        for record in read.records:
            writer_labels = {
                writer.transaction for writer in writers(observations, read.place, record.value)
            }
            label_before, label_after = (
                writer_labels.pop() if len(writer_labels) == 1 else None,
                read.transaction,
            )
            if (
                label_before in committed
                and label_after in committed
                and label_before != label_after
            ):
                pairs.add((str(label_before), str(label_after)))
    return pairs


# Lost updates


def lost_update(observations: Observations) -> bool:
    committed = [label for label in labels(observations) if is_committed(observations, label)]
    for label in committed:
        for other_label in committed:
            if label != other_label and _replaced_versions(
                observations, label
            ) & _replaced_versions(observations, other_label):
                return True
    return False


def _replaced_versions(
    observations: Observations, label: str
) -> set[tuple[str, str, TopicPartition, int]]:
    """The versions that a transaction read and then replaced."""
    replaced_versions = set()
    for index, observed_write in every(observations, Wrote):
        if (
            observed_write.transaction == label
            and observed_write.outcome is OK
            and observed_write.key is not None
        ):
            offsets_read = [
                record.offset
                for read_at, read in reads(observations, observed_write.place)
                if read.transaction == label and read_at < index
                for record in read.records
                if record.key == observed_write.key
            ]
            if offsets_read:
                replaced_versions.add(
                    ("key", observed_write.key, observed_write.place, max(offsets_read))
                )
    for index, sent_offsets in every(observations, SentOffsets):
        if sent_offsets.transaction == label and sent_offsets.outcome is OK:
            offsets_read = [
                position.offset
                for read_at, read in every(observations, PositionsRead)
                if read.transaction == label and read_at < index and not read.error
                for position in read.positions
                if (read.group, position.place) == (sent_offsets.group, sent_offsets.place)
            ]
            if (
                offsets_read
                and offsets_read[-1] != sent_offsets.position
                and not _is_set_twice(observations, sent_offsets, offsets_read[-1])
            ):
                replaced_versions.add(
                    ("position", sent_offsets.group, sent_offsets.place, offsets_read[-1])
                )
    return replaced_versions


def _is_set_twice(observations: Observations, sent: SentOffsets, offset: int) -> bool:
    same_positions = [
        sent_offsets
        for _, sent_offsets in every(observations, SentOffsets)
        if (sent_offsets.group, sent_offsets.place, sent_offsets.position)
        == (sent.group, sent.place, offset)
        if sent_offsets.outcome is not FAILED
    ]
    return len(same_positions) > 1
