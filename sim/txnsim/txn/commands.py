"""Commands for a transaction coordinator, and its answers.

The handlers have translated API versions away: the only rest is ``transaction_version``, the
protocol a request speaks (KIP-890). A refusal is a ``Rejection``; it always names PRODUCER_FENCED,
which the handlers of old versions turn into INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.types import (
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)


class InitProducerId(msgspec.Struct, frozen=True, kw_only=True):
    """Request an identity; it fences the producer that held the transactional id before."""

    transactional_id: TransactionalId | None
    """None: an idempotent producer without transactions."""
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """Identity that the caller believes to hold (KIP-360)."""
    enable_two_phase_commit: bool = False
    keep_prepared: bool = False
    by_text: bool = False
    """It came by the listener of ``--kip-text``, where KeepPreparedTxn is obeyed (KIP-939)."""


class AddPartitions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The transaction is about to write to these partitions; opens it where none is open."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    transaction_version: TransactionVersion
    """TV_2 when a partition leader adds implicitly (request version 4 and up), TV_0 when a client
    asks itself.
    """


class VerifyPartitions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Are these partitions part of the open transaction? Asked by partition leaders (KIP-890)."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]


class EndTxn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Commit or abort. The protocol version is that of the request; the cluster's level plays no
    part.
    """

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    transaction_version: TransactionVersion


class PreparedKept(ProducerIdAndEpoch, frozen=True, kw_only=True):
    """The next identity, for a client whose prepared transaction was kept (KIP-939)."""

    ongoing: ProducerIdAndEpoch
    """The identity under which the transaction was written."""


class PartitionsAdded(msgspec.Struct, frozen=True, kw_only=True):
    """All partitions of the request are part of the transaction."""


PARTITIONS_ADDED: Final = PartitionsAdded()


class PartitionsVerified(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The error of each partition asked about, in request order."""

    results: tuple[tuple[TopicPartition, int], ...]


class DescribedTxn(msgspec.Struct, frozen=True, kw_only=True):
    """Committed fields of one transactional id, as DescribeTransactions shows them."""

    transactional_id: TransactionalId
    state: str
    timeout_ms: int
    start_timestamp_ms: int
    last_update_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]
    """Sorted. In a prepared state only those without a marker yet."""


class NeedsProducerId(msgspec.Struct, frozen=True, kw_only=True):
    """The decision takes a new producer id: take one and decide again with it as ``fresh``."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


class MarkersOwed(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of a prepared end: the completion is pending now and every partition is owed its
    marker.
    """


MARKERS_OWED: Final = (MarkersOwed(),)
