"""States of a transaction, the allowed changes between them, and the values that a coordinator
stores and logs.

The table ``VALID_PREVIOUS_STATES`` decides: code uses it, tests and diagrams are made from it. A
coordinator keeps a ``TxnMetadata`` for each transactional id, and writes a ``TxnTransition`` (or a
``Tombstone``) to ``__transaction_state``. Both are frozen: a change makes a new value, and only
``txnsim.txn.transitions`` makes it.

Counterpart in Kafka: TransactionState, TransactionMetadata, TxnTransitMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import msgspec

from txnsim.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

NO_TIMESTAMP: Final = -1
"""Start time if no transaction has started."""

TIMEOUT_NEVER_MS: Final = 2_147_483_647
"""Timeout of a transaction under two-phase commit (KIP-939): the abort scan leaves it alone."""

EPOCH_EXHAUSTED: Final = 32_766
"""Epoch from which on a producer id must be replaced: 32767 is reserved for the coordinator's last
fence.
"""

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class TransactionState(IntEnum):
    """The state of a transactional id; the number is its id in the log.

    While a change is being logged, the entry is *pending* and nearly every request gets
    CONCURRENT_TRANSACTIONS.
    """

    EMPTY = 0
    """Has a producer id and epoch, but no transaction. Adding partitions opens one; InitProducerId
    raises the epoch; a commit gets INVALID_TXN_STATE, and so does an abort before version 2 of the
    protocol (KIP-890), which makes an empty abort of it. Expires. Leaves to: Ongoing, Empty,
    PrepareAbort (version 2), Dead.
    """

    ONGOING = 1
    """A transaction is open. Adding partitions extends it; EndTxn prepares its end; InitProducerId
    or the timeout fences it. Never expires. Leaves to: Ongoing, PrepareCommit, PrepareAbort.
    """

    PREPARE_COMMIT = 2
    """The commit is decided, and markers are under way. Requests get CONCURRENT_TRANSACTIONS; an
    abort that is not stopped by the pending completion gets INVALID_TXN_STATE. Leaves to:
    CompleteCommit, when every partition has its marker.
    """

    PREPARE_ABORT = 3
    """The abort is decided, and markers are under way. Answers like PrepareCommit. Leaves to:
    CompleteAbort.
    """

    COMPLETE_COMMIT = 4
    """Committed and marked everywhere. A repeated commit succeeds without a change. Expires.
    Leaves to: Ongoing, Empty, PrepareAbort (version 2), Dead."""

    COMPLETE_ABORT = 5
    """Aborted and marked everywhere. A repeated abort succeeds without a change. Expires.
    Leaves to: Ongoing, Empty, PrepareAbort (version 2), Dead."""

    DEAD = 6
    """Expired; only ever pending, while the tombstone is being written. Requests get
    CONCURRENT_TRANSACTIONS.
    """

    PREPARE_EPOCH_FENCE = 7
    """A new producer or the timeout is about to abort the transaction; only ever pending, on the
    way to PrepareAbort. Fencing and preparing the abort are one step here, so no client sees it.
    """

    # Enum's own hash is written in Python, and states are looked up in sets at every request.
    __hash__ = int.__hash__

    @property
    def wire_name(self) -> str:
        """The state's name in ListTransactions and DescribeTransactions."""
        return WIRE_NAMES[self]


WIRE_NAMES: Final[Mapping[TransactionState, str]] = {
    state: state.name.title().replace("_", "") for state in TransactionState
}
"""State -> its name in requests: PREPARE_COMMIT is PrepareCommit."""

_IDLE: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)
_OPENABLE_STATES: Final = _IDLE | {TransactionState.ONGOING}
_ONGOING: Final = frozenset({TransactionState.ONGOING})
_FENCEABLE_STATES: Final = frozenset(
    {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}
)

_PREVIOUS_STATES_V1: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _OPENABLE_STATES,
    TransactionState.PREPARE_COMMIT: _ONGOING,
    TransactionState.PREPARE_ABORT: _FENCEABLE_STATES,
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: _ONGOING,
}

VALID_PREVIOUS_STATES: Final[
    Mapping[TransactionVersion, Mapping[TransactionState, frozenset[TransactionState]]]
] = {
    # TransactionMetadata.VALID_PREVIOUS_STATES of Kafka 3.x
    TransactionVersion.TV_0: _PREVIOUS_STATES_V1,
    TransactionVersion.TV_1: _PREVIOUS_STATES_V1,
    # TransactionState.VALID_PREVIOUS_STATES of Kafka 4.x: an abort needs no open transaction
    # (KIP-890)
    TransactionVersion.TV_2: {
        **_PREVIOUS_STATES_V1,
        TransactionState.PREPARE_ABORT: _FENCEABLE_STATES | _IDLE,
    },
}
"""Version of the protocol -> target state -> states from which it may be entered."""

IDLE_STATES: Final = _IDLE
"""States without an open or ending transaction: they expire, and InitProducerId starts from
them.
"""

PREPARED_STATES: Final = frozenset(
    {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
)


class TxnMetadata(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The coordinator's state of one transactional id."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    prev_producer_id: ProducerId = NO_PRODUCER_ID
    """Producer id before the last transition."""
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """Producer id that takes over when the ending transaction is complete (epoch overflow,
    KIP-890).
    """
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    next_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """Epoch with which a prepared transaction that was kept is ended (text of KIP-939)."""
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """Epoch before it was last raised, to tell a retry from a zombie. Never logged: lost when the
    coordinator moves.
    """
    txn_timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    """In Ongoing, all partitions that were added; in a prepared state, those that still wait for a
    marker.
    """
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int
    client_version: TransactionVersion = TransactionVersion.TV_0
    """Protocol version with which the transaction was opened or ended."""
    pending_state: TransactionState | None = None
    """Target of the change whose record is being appended, or of the completion that waits for
    markers.
    """
    has_failed_epoch_fence: bool = False
    """Whether a fence has raised the epoch and its record was lost: the next fence keeps this epoch
    (KAFKA-9666).
    """


class TxnTransition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of ``__transaction_state``: the whole entry after a change."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    prev_producer_id: ProducerId
    next_producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_producer_epoch: ProducerEpoch
    """Epoch before the change; not logged."""
    txn_timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_timestamp_ms: int
    last_update_timestamp_ms: int
    client_version: TransactionVersion
    fences_epoch: bool = False
    """Whether the change is a fence that raises the entry's epoch at once, even if the record is
    not written (before version 2); not logged.
    """
    next_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    ends_nothing: bool = False
    """Whether it prepares the commit of no transaction, which no release does
    (``empty_commits_are_ended``); not logged.
    """


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """The record that deletes a transactional id."""

    transactional_id: TransactionalId


TxnRecord = TxnTransition | Tombstone
