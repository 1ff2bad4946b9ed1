"""Transactions as brokers describe them to an operator: values of ListTransactions,
DescribeTransactions, DescribeProducers.

Kafka's counterparts are ``TransactionListing``, ``TransactionDescription``, ``ProducerState`` and
``AbortTransactionSpec`` of the Java ``Admin``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from txnsim.client.requests import Marker
from txnsim.txn.state import WIRE_NAMES, TransactionState
from txnsim.types import TopicPartition
from txnsim.verdict.facts import TransactionFacts
from txnsim.wire.values import duration_ms, time_ms

STATES: Final = frozenset(WIRE_NAMES.values()) - {TransactionState.DEAD.wire_name}
"""The states of a transaction that Java's Admin knows; it has no Dead."""
UNKNOWN_STATE: Final = "Unknown"


class TransactionListing(msgspec.Struct, frozen=True, kw_only=True):
    """One transactional id, as its coordinator lists it."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    state: str
    """``Unknown`` for a state that this client does not know."""


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction, as its coordinator describes it."""

    coordinator_id: int
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    """Finished transactions have it too; None before the first transaction."""
    partitions: tuple[TopicPartition, ...]
    """Partitions of an open transaction; while it ends, those still without a marker."""
    last_update_time_ms: int | None = None
    """As in the text of KIP-994; None if the broker does not send it, which Apache Kafka never
    does.
    """

    def facts(self) -> TransactionFacts:
        """The transaction in the form in which the judge takes it."""
        return TransactionFacts(
            transactional_id=self.transactional_id,
            coordinator_id=self.coordinator_id,
            state=self.state,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            partitions=frozenset(self.partitions),
            timeout_ms=self.timeout_ms,
            started_ms=self.start_time_ms,
        )


TxnIdentity = tuple[int, int, int | None]
"""(producer id, producer epoch, start offset) of an open transaction."""


class ProducerState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One producer, as a partition's leader knows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """Coordinator epoch of its last marker; None before the first."""
    txn_start_offset: int | None
    """Start offset of its open transaction; None without one."""

    @property
    def txn_identity(self) -> TxnIdentity:
        """What tells its open transaction from others on the partition."""
        return self.producer_id, self.producer_epoch, self.txn_start_offset


class AbortSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of an open transaction on a partition, as an abort marker must name it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    @classmethod
    def of(cls, partition: TopicPartition, producer: ProducerState) -> AbortSpec:
        """The producer's open transaction on the partition. One that hangs before the first marker
        has no coordinator epoch; 0 is below any real one.
        """
        return cls(
            partition=partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=producer.coordinator_epoch or 0,
        )

    def marker(self, *, committed: bool) -> Marker:
        return Marker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
            coordinator_epoch=self.coordinator_epoch,
            partitions=(self.partition,),
        )

    def __str__(self) -> str:
        return (
            f"AbortTransactionSpec(topicPartition={self.partition}, producerId={self.producer_id},"
            f" producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


class OpenSince(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction, named by its start offset; its leader knows its identity (Kafka 2.8 and
    up).
    """

    partition: TopicPartition
    start_offset: int


def parse_listing(broker_id: int, state_row: Any) -> TransactionListing:
    """Read a row of a ListTransactions answer."""
    return TransactionListing(
        coordinator_id=broker_id,
        transactional_id=state_row.transactional_id,
        producer_id=state_row.producer_id,
        state=_state(state_row.transaction_state),
    )


def parse_description(broker_id: int, state_row: Any) -> TransactionDescription:
    """Read a row of a DescribeTransactions answer."""
    start_time_ms = time_ms(state_row.transaction_start_time)
    last_update_ms = getattr(state_row, "transaction_last_update_time", None)
    return TransactionDescription(
        coordinator_id=broker_id,
        transactional_id=state_row.transactional_id,
        state=_state(state_row.transaction_state),
        producer_id=state_row.producer_id,
        producer_epoch=state_row.producer_epoch,
        timeout_ms=duration_ms(state_row.transaction_timeout),
        start_time_ms=start_time_ms if start_time_ms >= 0 else None,
        partitions=tuple(
            TopicPartition(topic.topic, index)
            for topic in state_row.topics
            for index in topic.partitions
        ),
        last_update_time_ms=None if last_update_ms is None else time_ms(last_update_ms),
    )


def parse_producer(producer_row: Any) -> ProducerState:
    """Read an active producer of a DescribeProducers answer."""
    start_offset = producer_row.current_txn_start_offset
    return ProducerState(
        producer_id=producer_row.producer_id,
        producer_epoch=producer_row.producer_epoch,
        last_sequence=producer_row.last_sequence,
        last_timestamp_ms=producer_row.last_timestamp,
        coordinator_epoch=producer_row.coordinator_epoch
        if producer_row.coordinator_epoch >= 0
        else None,
        txn_start_offset=start_offset if start_offset >= 0 else None,
    )


def _state(state_name: str) -> str:
    return state_name if state_name in STATES else UNKNOWN_STATE
