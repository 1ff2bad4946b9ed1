"""Commands between brokers about transactions, and their replies (KIP-890, KIP-664, KIP-730)."""

from __future__ import annotations

import msgspec

from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)


class TxnPartitions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One transaction of an AddPartitionsToTxn v4+ request between brokers (KIP-890)."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verify_only: bool
    partitions: tuple[TopicPartition, ...]


class AddPartitionsToTxnCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """AddPartitionsToTxn v4+ from a partition leader to the transaction coordinator: verifies
    partitions, or adds them.
    """

    transactions: tuple[TxnPartitions, ...]


class AddPartitionsToTxnReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``error`` is the top-level code; ``results`` hold (transactional id, ((partition, error),
    ...)) in request order, and are empty with an error.
    """

    error: int = 0
    results: tuple[tuple[TransactionalId, tuple[tuple[TopicPartition, int], ...]], ...] = ()


class TxnMarker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One marker of a WriteTxnMarkers request: it ends the producer's transaction on the
    partitions.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    coordinator_epoch: CoordinatorEpoch
    transaction_version: int
    """The version that WriteTxnMarkers v2 carries (KIP-1228); 0 in an older request."""
    partitions: tuple[TopicPartition, ...]
    start_offset: int = -1
    """Offset at which the transaction must have started (KIP-664); -1 for any."""


class WriteTxnMarkersCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """WriteTxnMarkers from a coordinator (or an admin) to a partition leader."""

    markers: tuple[TxnMarker, ...]


class WriteTxnMarkersReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``results`` hold (producer id, ((partition, error), ...)); markers of one producer id are
    merged.
    """

    results: tuple[tuple[ProducerId, tuple[tuple[TopicPartition, int], ...]], ...] = ()
    is_forgotten: bool = False
    """Whether Kafka would never send this reply."""


class AllocateProducerIdsCommand(msgspec.Struct, frozen=True, kw_only=True):
    """AllocateProducerIds from a broker to the controller."""

    broker_id: BrokerId
    broker_epoch: int


class AllocateProducerIdsReply(msgspec.Struct, frozen=True, kw_only=True):
    """A block of producer ids: ``first`` to ``first + length - 1``."""

    error: int = 0
    first_producer_id: int = -1
    producer_id_count: int = 0
