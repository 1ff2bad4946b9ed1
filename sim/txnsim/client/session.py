"""A producer's side of the transaction protocol as a pure state machine: state, identity,
sequences, and the protocol version.

Rules, those of Kafka's ``TransactionManager``:

1. The protocol is chosen per transaction, from the finalized level of ``transaction.version`` with
    the highest epoch seen; it is read when the session is initialized and whenever a transaction
    ends (KIP-890).
2. A transaction ends in the protocol it began in. If the level has risen meanwhile: the old EndTxn,
    then InitProducerId with the current identity, so that no request of the old transaction counts
    for the new one (KAFKA-18227). If it has fallen: EndTxn v5 once more.
3. Old protocol: sequences go on across transactions, and the epoch changes only through
   InitProducerId. Transactions v2: every EndTxn returns a new identity, and sequences begin at 0
   again.
4. A transaction that never reached the coordinator is not ended there: without a partition no
    EndTxn is sent (KAFKA-18401).
5. After an abortable error of the old protocol the epoch is bumped after the abort (KIP-360); if
    the coordinator can't do that, the error is fatal.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Any, Final

import msgspec

from txnsim.client.errors import AbortableError, ClientError, ErrorCode, FatalError, IllegalUseError
from txnsim.client.versions import ANY, FinalizedFeatures, VersionRange
from txnsim.types import ProducerIdAndEpoch, TopicPartition

_SEQUENCES: Final = 1 << 31


class TxnProtocol(IntEnum):
    """Which versions of requests a client uses in a transaction: those before KIP-890, or those of
    transactions v2.
    """

    V1 = 1
    """AddPartitionsToTxn up to 3, Produce up to 11, EndTxn up to 4."""
    V2 = 2
    """Produce 12 adds partitions, EndTxn 5 bumps the epoch (KIP-890)."""

    @property
    def produce_versions(self) -> VersionRange:
        """Versions of Produce that mean this protocol."""
        return VersionRange(0, 11) if self is TxnProtocol.V1 else VersionRange(12, ANY.highest)

    @property
    def end_versions(self) -> VersionRange:
        """Versions of EndTxn that mean this protocol."""
        return VersionRange(0, 4) if self is TxnProtocol.V1 else VersionRange(5, ANY.highest)


class SessionState(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = auto()
    """Only ``init_transactions`` may be called."""
    READY = auto()
    IN_TRANSACTION = auto()
    ABORTABLE_ERROR = auto()
    """Only ``abort`` may be called."""
    FATAL_ERROR = auto()
    """Terminal: every further call fails."""


class EndPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to end the transaction."""

    committed: bool
    identity: ProducerIdAndEpoch
    send: bool
    """Whether an EndTxn must be sent."""
    versions: VersionRange
    """Versions of EndTxn."""
    bump: bool
    """Whether InitProducerId with the current identity follows."""


class TxnSession(msgspec.Struct, eq=False):
    """Mutable state of one transactional producer; no I/O."""

    state: SessionState = SessionState.UNINITIALIZED
    identity: ProducerIdAndEpoch = ProducerIdAndEpoch.NONE
    protocol: TxnProtocol = TxnProtocol.V1
    error: ClientError | None = None
    """The error that led to an error state."""
    _features_epoch: int = -1
    _can_bump: bool = False
    _needs_bump: bool = False
    _partitions: set[TopicPartition] = set()
    _sequences: dict[TopicPartition, int] = {}

    # Life of a transaction

    def set_identity(
        self, identity: ProducerIdAndEpoch, features: FinalizedFeatures, *, can_bump: bool
    ) -> None:
        """Take over the identity from InitProducerId; all sequences restart at 0.

        Args:
            identity: The identity in the answer.
            features: The newest known features.
            can_bump: Whether the coordinator knows InitProducerId 3, which bumps an epoch on
                demand.
        """
        self._can_bump = can_bump
        self._look_at(features)
        self._restart(identity)
        self._needs_bump = False
        self._partitions.clear()
        self.error = None
        self.state = SessionState.READY

    def begin(self) -> None:
        """Begin a transaction; no broker learns of it yet.

        Raises:
            FatalError: The producer is finished.
            AbortableError: The last transaction was not aborted yet.
            IllegalUseError: Not initialized, or a transaction is open.
        """
        self.raise_error()
        if self.state is not SessionState.READY:
            raise IllegalUseError(f"begin in state {self.state.name}: READY is expected")
        self.state = SessionState.IN_TRANSACTION

    def touch(self, partition: TopicPartition) -> bool:
        """Note a record for this partition; returns whether AddPartitionsToTxn must be sent first.

        Raises:
            FatalError: The producer is finished.
            AbortableError: The transaction can only be aborted.
            IllegalUseError: No transaction is open.
        """
        self.raise_error()
        if self.state is not SessionState.IN_TRANSACTION:
            raise IllegalUseError(f"send in state {self.state.name}: a transaction is expected")
        if self.protocol is TxnProtocol.V2:
            # The partition leader will add it; whatever becomes of the record, there may be
            # something to end.
            self._partitions.add(partition)
            return False
        return partition not in self._partitions

    def note_added_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Note that AddPartitionsToTxn succeeded for these partitions."""
        self._partitions |= partitions

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition is part of the transaction."""
        return partition in self._partitions

    @property
    def is_empty(self) -> bool:
        """Whether no partition is part of the transaction yet."""
        return not self._partitions

    def next_sequence(self, partition: TopicPartition, count: int) -> int:
        """The first sequence of a batch of ``count`` records; after 2147483647 comes 0."""
        first_sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (first_sequence + count) % _SEQUENCES
        return first_sequence

    def plan_end(self, *, is_commit: bool, features: FinalizedFeatures) -> EndPlan:
        """Decide how to commit or abort, and choose the protocol of the next transaction.

        Raises:
            FatalError: The producer is finished.
            AbortableError: A commit, but the transaction can only be aborted.
            IllegalUseError: No transaction is open.
        """
        if is_commit or self.state is not SessionState.ABORTABLE_ERROR:
            self.raise_error()
            if self.state is not SessionState.IN_TRANSACTION:
                operation_name = "commit" if is_commit else "abort"
                raise IllegalUseError(
                    f"{operation_name} in state {self.state.name}: a transaction is expected"
                )
        # The plan is made before the features are looked at: rule 2.
        versions = self.protocol.end_versions
        was_v1 = self.protocol is TxnProtocol.V1
        self._look_at(features)
        if was_v1 and self.protocol is TxnProtocol.V2:
            self._needs_bump = True
        return EndPlan(
            committed=is_commit,
            identity=self.identity,
            send=bool(self._partitions),
            versions=versions,
            bump=self._needs_bump,
        )

    def note_end(self, identity: ProducerIdAndEpoch | None) -> None:
        """Note that the transaction has ended; in transactions v2 with the identity of the next
        one.
        """
        if identity is not None:
            self._restart(identity)
        self._partitions.clear()
        self._needs_bump = False
        self.error = None
        self.state = SessionState.READY

    # Errors

    def enter_abortable_error(self, error: ClientError) -> ClientError:
        """Enter the abortable error state; returns the error to raise."""
        if self.state is SessionState.FATAL_ERROR:
            return self._repeat_error()
        if self.protocol is TxnProtocol.V1:
            if not self._can_bump:
                return self.enter_fatal_error(error)
            self._needs_bump = True
        self.state = SessionState.ABORTABLE_ERROR
        self.error = error
        return AbortableError(str(error), error=error.error)

    def enter_fatal_error(self, error: ClientError) -> ClientError:
        """Enter the fatal error state; returns the error to raise. The first reason is kept."""
        if self.state is not SessionState.FATAL_ERROR:
            self.state = SessionState.FATAL_ERROR
            self.error = error
        return self._repeat_error()

    def raise_error(self) -> None:
        """Raise the error of an error state; return if there is none.

        Raises:
            FatalError: The producer is finished.
            AbortableError: The transaction can only be aborted.
        """
        if self.state in (SessionState.FATAL_ERROR, SessionState.ABORTABLE_ERROR):
            raise self._repeat_error()

    def _repeat_error(self) -> ClientError:
        assert self.error is not None
        if self.state is SessionState.FATAL_ERROR:
            return FatalError(str(self.error), error=self.error.error)
        return AbortableError(str(self.error), error=self.error.error)

    # Parts

    def _look_at(self, features: FinalizedFeatures) -> None:
        if features.epoch <= self._features_epoch:
            return
        self._features_epoch = features.epoch
        level = features.level("transaction.version")
        self.protocol = TxnProtocol.V2 if level >= 2 else TxnProtocol.V1

    def _restart(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self._sequences.clear()


def identity_in(answer: Any) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)


def unexpected_error(request_name: str, error: ErrorCode) -> ClientError:
    """An unexpected error of an answer as an exception; the session decides how severe it is."""
    return ClientError(f"{request_name}: {error.name.upper()}", error=error)
