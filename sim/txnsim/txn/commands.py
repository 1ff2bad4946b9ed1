"""Commands to a transaction coordinator, and its replies.

The handlers have translated API versions away; only ``transaction_version`` is left, the version of
the transaction protocol that a request uses (KIP-890). An error is a ``Rejection``; a fenced
producer always gets PRODUCER_FENCED, which the handlers of old versions turn into
INVALID_PRODUCER_EPOCH.
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
    """Requests a producer id and epoch; fences the producer that had the transactional id
    before.
    """

    transactional_id: TransactionalId | None
    """None for an idempotent producer without transactions."""
    timeout_ms: int
    expected_identity: ProducerIdAndEpoch | None = None
    """The producer id and epoch that the caller believes it has (KIP-360)."""
    enable_two_phase_commit: bool = False
    keeps_prepared: bool = False
    comes_through_kip_text: bool = False
    """Whether the request came through the listener of ``--kip-text``, where KeepPreparedTxn is
    supported (KIP-939).
    """


class AddPartitions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Adds partitions to the transaction, and opens it if none is open."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    transaction_version: TransactionVersion
    """TV_2 if a partition leader adds partitions implicitly (request version 4 and up), TV_0 if a
    client asks.
    """


class VerifyPartitions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Asks whether partitions are part of the open transaction; sent by partition leaders
    (KIP-890).
    """

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]


class EndTxn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Commits or aborts. The protocol version is that of the request, whatever the cluster's
    level.
    """

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    transaction_version: TransactionVersion


class PreparedKept(ProducerIdAndEpoch, frozen=True, kw_only=True):
    """The new producer id and epoch for a client whose prepared transaction was kept (KIP-939)."""

    ongoing_identity: ProducerIdAndEpoch
    """The producer id and epoch with which the transaction was written."""


class PartitionsAdded(msgspec.Struct, frozen=True, kw_only=True):
    """Reply: all partitions of the request are part of the transaction."""


PARTITIONS_ADDED: Final = PartitionsAdded()


class PartitionsVerified(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Reply: the error code of each partition, in the order of the request."""

    partition_errors: tuple[tuple[TopicPartition, int], ...]


class DescribedTxn(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one transactional id, without pending changes, as DescribeTransactions shows
    it.
    """

    transactional_id: TransactionalId
    state: str
    timeout_ms: int
    start_timestamp_ms: int
    last_update_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]
    """Sorted; in a prepared state only the partitions that have no marker yet."""


class NeedsProducerId(msgspec.Struct, frozen=True, kw_only=True):
    """The decision needs a new producer id: the caller takes one and decides again with it as
    ``fresh_producer_id``.
    """


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


class MarkersOwed(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of a prepared end: its completion is pending now, and every partition is owed a
    marker.
    """


MARKERS_OWED: Final = (MarkersOwed(),)
