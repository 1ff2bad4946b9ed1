"""Finds transactions without an owner (KIP-664's "hanging").

A leader says that a producer's transaction is open on its partition. The coordinator says that this
producer has no transaction there. The two answers come at two moments, so one contradiction proves
nothing. The transaction must be open before the coordinator is asked, and it must still be open at
the same offset after the coordinator has answered.

A transaction that the coordinator lists as Ongoing with this partition is alive, however old it is.
One that it lists as PrepareCommit or PrepareAbort is decided. Neither is hanging. Epochs are not
compared: a listed partition gets a marker, and the marker ends any transaction of the producer that
is open there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check._topics import deleted_topics
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    UNKNOWN_OFFSET,
    Described,
    Initialised,
    Listed,
    Producers,
    Read,
    Seen,
    Wrote,
)

OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transaction in which its coordinator still has to write a marker, now or later."""


class Hanging(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction that no marker will end."""

    topic_partition: TopicPartition
    producer_id: int
    start_offset: int
    last_stable_offset: int
    high_watermark: int
    evidence: tuple[int, ...]
    """Indexes of the observations: open, not listed, still open, readers blocked."""

    def holds(self, write: Wrote) -> bool:
        return (
            write.place == self.topic_partition
            and write.producer_id == self.producer_id
            and write.offset >= self.start_offset
        )


def hanging(history: History) -> tuple[Hanging, ...]:
    """The transactions that hang at the end of a history, by partition."""
    return history.derived(_hanging)


def _hanging(history: History) -> tuple[Hanging, ...]:
    owners = _ids_by_producer(history)
    last_answers = {producers.place: index for index, producers in _producer_answers(history)}
    hanging_transactions = []
    deleted_topic_names = deleted_topics(history)
    for partition in sorted(last_answers):
        if partition.topic in deleted_topic_names:
            continue  # and nobody is held back any more
        indexed_read = _last_read_held_back(history, partition)
        if indexed_read is None:
            continue
        read_index, read = indexed_read
        for producer_id, start_offset in _open_at(history, last_answers[partition]):
            if start_offset > read.last_stable_offset:
                continue  # another one is before it
            proof_indexes = _proof_without_owner(
                history, partition, producer_id, start_offset, owners[producer_id]
            )
            if proof_indexes:
                hanging_transactions.append(
                    Hanging(
                        topic_partition=partition,
                        producer_id=producer_id,
                        start_offset=start_offset,
                        last_stable_offset=read.last_stable_offset,
                        high_watermark=read.high_watermark,
                        evidence=tuple(
                            sorted({*proof_indexes, last_answers[partition], read_index})
                        ),
                    )
                )
    return tuple(hanging_transactions)


def _producer_answers(history: History) -> Iterator[tuple[int, Producers]]:
    return (
        (index, producers) for index, producers in history.all_of(Producers) if not producers.error
    )


def _ids_by_producer(history: History) -> dict[int, set[str]]:
    """For each producer id, the transactional ids that have ever had it."""
    ids_by_producer: dict[int, set[str]] = defaultdict(set)
    for _, initialised in history.all_of(Initialised):
        ids_by_producer[initialised.producer_id].add(initialised.transactional_id)
    for _, description in history.all_of(Described):
        ids_by_producer[description.producer_id].add(description.transactional_id)
    return ids_by_producer


def _open_at(history: History, index: int) -> list[tuple[int, int]]:
    """Producer id and start offset of each transaction that a leader's answer showed as open."""
    producers_observation = history[index]
    assert isinstance(producers_observation, Producers)
    return [
        (producer.producer_id, producer.start_offset)
        for producer in producers_observation.producers
        if producer.start_offset is not None
    ]


def _last_read_held_back(history: History, partition: TopicPartition) -> tuple[int, Read] | None:
    """The last Read of a read_committed reader, if the last stable offset blocked it."""
    last_read = None
    for index_and_read in history.committed_reads(partition):
        if index_and_read[1].last_stable_offset != UNKNOWN_OFFSET:
            last_read = index_and_read
    if last_read is None or last_read[1].last_stable_offset >= last_read[1].high_watermark:
        return None
    return last_read


def _proof_without_owner(
    history: History,
    partition: TopicPartition,
    producer_id: int,
    start_offset: int,
    transactional_ids: set[str],
) -> tuple[int, ...]:
    """Indexes of the observations: open, not listed, open again; empty if one is missing or
    contradicted later.
    """
    first_open_index: int | None = None
    denial_index: int | None = None
    proof_indexes: tuple[int, ...] = ()
    for index, observation in enumerate(history):
        if _says_open(observation, partition, producer_id, start_offset):
            if first_open_index is None:
                first_open_index = index
            if denial_index is not None:
                proof_indexes = (first_open_index, denial_index, index)
            continue
        coordinator_says_open = _word_of_coordinator(
            observation, partition, producer_id, transactional_ids
        )
        if coordinator_says_open is True:
            denial_index, proof_indexes = None, ()
        elif coordinator_says_open is False and first_open_index is not None:
            denial_index = index
    return proof_indexes


def _says_open(
    observation: Seen, partition: TopicPartition, producer_id: int, start_offset: int
) -> bool:
    """Whether a leader's answer shows the transaction as open: it names it, or the last stable
    offset equals its start.
    """
    if isinstance(observation, Producers):
        return (
            observation.place == partition
            and not observation.error
            and any(
                producer.producer_id == producer_id and producer.start_offset == start_offset
                for producer in observation.producers
            )
        )
    if not isinstance(observation, Read) or observation.place != partition or observation.error:
        return False
    return observation.last_stable_offset == start_offset < observation.high_watermark


def _word_of_coordinator(
    observation: Seen, partition: TopicPartition, producer_id: int, transactional_ids: set[str]
) -> bool | None:
    """Whether a coordinator's answer lists the transaction on the partition; None if the answer is
    about others.
    """
    match observation:
        case Described(error="") if observation.producer_id == producer_id:
            return observation.state in OPEN_STATES and partition in observation.partitions
        case Described(error="" | "TRANSACTIONAL_ID_NOT_FOUND") if transactional_ids == {
            observation.transactional_id
        }:
            return False  # the only id that ever had this producer id has another one now, or none
        case Listed():
            listings_of_producer = [
                listing
                for listing in observation.transactions
                if listing.producer_id == producer_id
            ]
            if any(listing.state in OPEN_STATES for listing in listings_of_producer):
                return None  # which partitions, DescribeTransactions would say
            return False
        case _:
            return None
