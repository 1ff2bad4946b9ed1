"""Which open transactions hang, by the rules of ``find-hanging``. Pure.

A partition has a transaction open that its coordinator does not know: then no marker will ever end
it (KIP-664). Kafka's counterpart is ``TransactionsCommand.FindHangingTransactionsCommand``; like
Kafka, it does not compare epoch and state, although the KIP's text asks for it. A transaction whose
coordinator is about to write the marker still has the partition in its description, and does not
hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.types import TopicPartition

MAX_TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
"""Default minimum age; brokers have the same default for transaction.max.timeout.ms."""

_MINUTE_MS: Final = 60_000


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A producer with an open transaction on a partition."""

    partition: TopicPartition
    producer: ProducerState

    def is_that_of(self, producer_row: ProducerState) -> bool:
        """Whether a later answer still shows this very transaction."""
        return self.producer.txn_identity == producer_row.txn_identity

    def is_older(self, than_ms: int, now_ms: int) -> bool:
        """Whether its last write is older than ``than_ms``. Records have the producers' timestamps,
        so this is approximate.
        """
        return now_ms - self.producer.last_timestamp_ms > than_ms

    def duration_min(self, now_ms: int) -> int:
        """Whole minutes since the producer's last write, rounded towards zero like Java's
        TimeUnit.
        """
        elapsed_ms = now_ms - self.producer.last_timestamp_ms
        return elapsed_ms // _MINUTE_MS if elapsed_ms >= 0 else -(-elapsed_ms // _MINUTE_MS)

    @classmethod
    def candidates(
        cls,
        producers: Mapping[TopicPartition, Iterable[ProducerState]],
        *,
        now_ms: int,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> tuple[OpenTransaction, ...]:
        """The open transactions whose last write is longer ago than any transaction may take.

        Args:
            producers: Active producers of each partition.
            now_ms: The wall clock to measure by.
            max_transaction_timeout_ms: The exclusive lower bound of the age.
        """
        open_transactions = (
            cls(partition=partition, producer=producer)
            for partition, rows in producers.items()
            for producer in rows
            if producer.txn_start_offset is not None
        )
        return tuple(
            transaction
            for transaction in open_transactions
            if transaction.is_older(max_transaction_timeout_ms, now_ms)
        )

    @staticmethod
    def hanging(
        open_transactions: Sequence[OpenTransaction],
        transactional_ids: Mapping[int, str],
        descriptions: Mapping[str, TransactionDescription | None],
    ) -> tuple[OpenTransaction, ...]:
        """The candidates that no coordinator will end.

        Args:
            open_transactions: Candidates.
            transactional_ids: Producer id -> transactional id, as coordinators list them.
            descriptions: Transactional id -> description; None if the coordinator has forgotten it.
        """
        return tuple(
            transaction
            for transaction in open_transactions
            if _is_hanging(transaction, transactional_ids, descriptions)
        )


def producer_ids(open_transactions: Iterable[OpenTransaction]) -> set[int]:
    return {transaction.producer.producer_id for transaction in open_transactions}


def _is_hanging(
    transaction: OpenTransaction,
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription | None],
) -> bool:
    transactional_id = transactional_ids.get(transaction.producer.producer_id)
    if transactional_id is None:
        return True
    description = descriptions.get(transactional_id)
    return description is None or transaction.partition not in description.partitions
