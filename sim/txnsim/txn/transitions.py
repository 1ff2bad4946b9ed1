"""The only place where the state of a transaction changes. Its rules:

1. ``to_*`` compute the target of a change and change nothing.
2. ``begin`` marks a change as pending. Apart from the fence of protocol versions 0 and 1 nothing
   else changes yet.
3. ``apply`` finishes it when its record is in the log. Loading calls the same function with every
   record that it reads.
4. ``withdraw`` cancels a change whose record could not be written.
5. A prepared transaction becomes complete only when ``acknowledge_markers`` has removed its last
   partition.

Counterpart in Kafka: TransactionMetadata.prepare* and completeTransitionTo.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from txnsim.errors import InvariantViolation
from txnsim.releases.rules import Rules
from txnsim.txn.state import (
    EPOCH_EXHAUSTED,
    IDLE_STATES,
    NO_PARTITIONS,
    NO_TIMESTAMP,
    PREPARED_STATES,
    VALID_PREVIOUS_STATES,
    Tombstone,
    TransactionState,
    TxnMetadata,
    TxnRecord,
    TxnTransition,
)
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

# Module constants: looking a member up in its enum costs more than the comparison
_TV_2: Final = TransactionVersion.TV_2
_EMPTY: Final = TransactionState.EMPTY
_ONGOING: Final = TransactionState.ONGOING
_PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT


# Moves


def begin(txn: TxnMetadata | None, record: TxnRecord, *, now_ms: int) -> TxnMetadata:
    """The entry while ``record`` is being appended.

    A new transactional id gets its entry now, before its first record: if that record is lost the
    entry stays, Empty and without an epoch, as on a real broker.

    Raises:
        InvariantViolation: The change is not allowed (TransactionMetadata.prepareTransitionTo):
            another one is pending, the target has no producer id or epoch, or the table does not
            have it.
    """
    if isinstance(record, Tombstone):
        return _begin_expiry(txn, record)
    if txn is None:
        txn = _new_entry(record, now_ms)
    target_state = record.state
    if txn.pending_state is not None:
        raise InvariantViolation(
            f"{txn.transactional_id}: cannot begin {target_state.wire_name} while "
            f"{txn.pending_state.wire_name} is pending"
        )
    if record.producer_id < 0:
        raise InvariantViolation(
            f"{txn.transactional_id}: illegal new producer id {record.producer_id}"
        )
    if record.producer_epoch < 0:
        raise InvariantViolation(
            f"{txn.transactional_id}: illegal new producer epoch {record.producer_epoch}"
        )
    valid_previous_states = (
        IDLE_STATES
        if record.ends_nothing
        else VALID_PREVIOUS_STATES[record.client_version][target_state]
    )
    if txn.state not in valid_previous_states:
        raise InvariantViolation(
            f"{txn.transactional_id}: no move from {txn.state.wire_name} "
            f"to {target_state.wire_name}"
        )
    if record.fences_epoch:
        # TransactionCoordinator.endTransaction before version 2: the fence takes hold before it is
        # logged
        fence_epoch = _fence_epoch(record)
        txn = replace(txn, producer_epoch=fence_epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
    return replace(txn, pending_state=target_state)


def apply(
    txn: TxnMetadata | None, record: TxnRecord, *, release_rules: Rules
) -> TxnMetadata | None:
    """The entry after ``record`` was written; None if it is a tombstone.

    Args:
        txn: The pending entry, or None while loading: the log of a compacted topic may lack the
            record before.
        record: The record that was written or read.
        release_rules: Rules of the broker's release.

    Raises:
        InvariantViolation: The record does not finish the pending change.
    """
    if isinstance(record, Tombstone):
        return None
    if txn is not None:
        check_complete(txn, record)
        if not release_rules.moves_replace_whole_entry:
            record = _partial_change(txn, record)
    is_completion = record.state is _COMPLETE_COMMIT or record.state is _COMPLETE_ABORT
    return TxnMetadata(
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        prev_producer_id=record.prev_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.producer_epoch,
        next_producer_epoch=record.next_producer_epoch,
        last_producer_epoch=record.last_producer_epoch,
        txn_timeout_ms=record.txn_timeout_ms,
        state=record.state,
        partitions=record.partitions,
        start_timestamp_ms=record.start_timestamp_ms,
        last_update_timestamp_ms=record.last_update_timestamp_ms,
        client_version=record.client_version,
        has_failed_epoch_fence=txn is not None and txn.has_failed_epoch_fence and not is_completion,
    )


def check_complete(txn: TxnMetadata, transition: TxnTransition) -> None:
    """Checks that a record finishes the pending change (TransactionMetadata.completeTransitionTo).

    Raises:
        InvariantViolation: The pending state, or a field that must not change, differs.
    """
    if txn.pending_state is not transition.state:
        raise InvariantViolation(
            f"{txn.transactional_id}: completing {transition.state.wire_name}, "
            f"but pending is {txn.pending_state!r}"
        )
    target_transition, target_state = transition, transition.state
    has_same_id = target_transition.producer_id == txn.producer_id
    has_same_epoch = target_transition.producer_epoch == txn.producer_epoch
    is_version_2 = target_transition.client_version >= _TV_2
    is_sound = target_transition.txn_timeout_ms == txn.txn_timeout_ms
    if target_state is _ONGOING:
        is_sound = (
            is_sound
            and has_same_id
            and has_same_epoch
            and target_transition.partitions >= txn.partitions
        )
    elif target_state in PREPARED_STATES:
        epoch_before = (
            target_transition.last_producer_epoch
            if is_version_2
            else target_transition.producer_epoch
        )
        is_empty_abort = is_version_2 and txn.state is not _ONGOING
        is_sound = (
            is_sound
            and has_same_id
            and epoch_before == txn.producer_epoch
            and target_transition.partitions == txn.partitions
            and (is_empty_abort or target_transition.start_timestamp_ms == txn.start_timestamp_ms)
        )
    elif target_state is _COMPLETE_COMMIT or target_state is _COMPLETE_ABORT:
        is_overflow = (
            is_version_2
            and target_transition.producer_epoch == 0
            and target_transition.prev_producer_id == txn.producer_id
            and target_transition.last_producer_epoch == txn.last_producer_epoch
        )
        keeps_identity = txn.next_producer_epoch != NO_PRODUCER_EPOCH and (
            (target_transition.producer_id, target_transition.producer_epoch)
            == (txn.next_producer_id, txn.next_producer_epoch)
        )
        is_sound = (
            is_sound
            and ((has_same_id and has_same_epoch) or is_overflow or keeps_identity)
            and target_transition.start_timestamp_ms != NO_TIMESTAMP
        )
    elif target_state is _EMPTY:
        is_raised_or_same = (
            has_same_epoch or target_transition.producer_epoch == txn.producer_epoch + 1
        )
        is_sound = is_raised_or_same if has_same_id else target_transition.producer_epoch == 0
        is_sound = (
            is_sound
            and not target_transition.partitions
            and target_transition.start_timestamp_ms == NO_TIMESTAMP
        )
    else:  # Dead and PrepareEpochFence are never written
        is_sound = False
    if not is_sound:
        raise InvariantViolation(f"unsound completion: {txn!r} by {transition!r}")


def withdraw(txn: TxnMetadata, record: TxnRecord) -> TxnMetadata:
    """The entry after the append of ``record`` failed: nothing is pending, and a failed fence is
    remembered (KAFKA-9666; ``fence_epoch_of`` decides whether it matters).
    """
    has_failed_fence = isinstance(record, TxnTransition) and record.fences_epoch
    has_failed_fence = has_failed_fence or txn.has_failed_epoch_fence
    return replace(txn, pending_state=None, has_failed_epoch_fence=has_failed_fence)


def acknowledge_markers(txn: TxnMetadata, partitions: frozenset[TopicPartition]) -> TxnMetadata:
    """The entry after these partitions have got their marker, or no longer need it.

    Raises:
        InvariantViolation: The transaction is not waiting for markers.
    """
    if txn.pending_state is not _COMPLETE_COMMIT and txn.pending_state is not _COMPLETE_ABORT:
        raise InvariantViolation(f"{txn.transactional_id}: marker acknowledged, none owed: {txn!r}")
    return replace(txn, partitions=txn.partitions - partitions)


# Targets


def to_empty(
    txn: TxnMetadata,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    last_producer_epoch: ProducerEpoch,
    timeout_ms: int,
    now_ms: int,
) -> TxnTransition:
    """The record of a new session (prepareIncrementProducerEpoch, prepareProducerIdRotation)."""
    return TxnTransition(
        transactional_id=txn.transactional_id,
        producer_id=producer_id,
        prev_producer_id=txn.producer_id,
        next_producer_id=txn.next_producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        txn_timeout_ms=timeout_ms,
        state=_EMPTY,
        partitions=NO_PARTITIONS,
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
        client_version=txn.client_version,
    )


def to_first(
    transactional_id: TransactionalId, *, producer_id: ProducerId, timeout_ms: int, now_ms: int
) -> TxnTransition:
    """The record of the first session of a transactional id."""
    return TxnTransition(
        transactional_id=transactional_id,
        producer_id=producer_id,
        prev_producer_id=producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=ProducerEpoch(0),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        txn_timeout_ms=timeout_ms,
        state=_EMPTY,
        partitions=NO_PARTITIONS,
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
        client_version=TransactionVersion.TV_0,
    )


def to_ongoing(
    txn: TxnMetadata,
    *,
    partitions: frozenset[TopicPartition],
    client_version: TransactionVersion,
    now_ms: int,
) -> TxnTransition:
    """The record of added partitions, which opens the transaction if none is open
    (prepareAddPartitions).
    """
    is_ongoing = txn.state is _ONGOING
    return TxnTransition(
        transactional_id=txn.transactional_id,
        producer_id=txn.producer_id,
        prev_producer_id=txn.producer_id,
        next_producer_id=txn.next_producer_id,
        producer_epoch=txn.producer_epoch,
        last_producer_epoch=txn.last_producer_epoch,
        txn_timeout_ms=txn.txn_timeout_ms,
        state=_ONGOING,
        partitions=txn.partitions | partitions if txn.partitions else partitions,
        start_timestamp_ms=txn.start_timestamp_ms if is_ongoing else now_ms,
        last_update_timestamp_ms=now_ms,
        client_version=client_version,
    )


def to_prepared_v1(
    txn: TxnMetadata,
    *,
    is_commit: bool,
    now_ms: int,
    fence_epoch: ProducerEpoch | None = None,
) -> TxnTransition:
    """The record of an end under protocol version 0 or 1: the epoch stays, unless a fence raises
    it.
    """
    fences_epoch = fence_epoch is not None
    return TxnTransition(
        transactional_id=txn.transactional_id,
        producer_id=txn.producer_id,
        prev_producer_id=txn.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=txn.producer_epoch if fence_epoch is None else fence_epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH if fences_epoch else txn.last_producer_epoch,
        txn_timeout_ms=txn.txn_timeout_ms,
        state=_PREPARE_COMMIT if is_commit else _PREPARE_ABORT,
        partitions=txn.partitions,
        start_timestamp_ms=txn.start_timestamp_ms,
        last_update_timestamp_ms=now_ms,
        client_version=TransactionVersion.TV_0,
        fences_epoch=fences_epoch,
    )


def to_prepared_v2(
    txn: TxnMetadata,
    *,
    is_commit: bool,
    fresh_producer_id: ProducerId | None,
    now_ms: int,
    fence_epoch: ProducerEpoch | None = None,
) -> TxnTransition:
    """The record of an end under protocol version 2: every end raises the epoch (KIP-890).

    Args:
        txn: The entry; not Ongoing for an empty abort or commit.
        is_commit: Commit or abort.
        fresh_producer_id: The producer id that takes over; given if and only if the epoch is
            exhausted.
        now_ms: Cluster time.
        fence_epoch: Epoch to which a fence has raised the entry already (before KAFKA-19367).
    """
    epoch_before = txn.producer_epoch if fence_epoch is None else fence_epoch
    # KAFKA-20090: an abort gets through at 32767, too; a commit is refused before.
    keeps_epoch = epoch_before == PRODUCER_EPOCH_MAX
    return TxnTransition(
        transactional_id=txn.transactional_id,
        producer_id=txn.producer_id,
        prev_producer_id=txn.producer_id,
        next_producer_id=NO_PRODUCER_ID if fresh_producer_id is None else fresh_producer_id,
        producer_epoch=epoch_before if keeps_epoch else ProducerEpoch(epoch_before + 1),
        last_producer_epoch=epoch_before,
        txn_timeout_ms=txn.txn_timeout_ms,
        state=_PREPARE_COMMIT if is_commit else _PREPARE_ABORT,
        partitions=txn.partitions,
        start_timestamp_ms=txn.start_timestamp_ms if txn.state is _ONGOING else now_ms,
        last_update_timestamp_ms=now_ms,
        client_version=_TV_2,
        fences_epoch=fence_epoch is not None,
        ends_nothing=is_commit and txn.state is not _ONGOING,
    )


def to_kept(txn: TxnMetadata, *, next_identity: ProducerIdAndEpoch, now_ms: int) -> TxnTransition:
    """The record of an open transaction that is kept for a client, which gets a new producer id and
    epoch (KIP-939).
    """
    return replace(
        to_ongoing(
            txn, partitions=txn.partitions, client_version=txn.client_version, now_ms=now_ms
        ),
        next_producer_id=next_identity.producer_id,
        next_producer_epoch=next_identity.producer_epoch,
    )


def to_prepared_kept(
    txn: TxnMetadata, *, is_commit: bool, next_identity: ProducerIdAndEpoch, now_ms: int
) -> TxnTransition:
    """The record of the end of a kept transaction. Its previous producer id is that of the EndTxn
    request, so that a repeated one is recognised (KIP-939).
    """
    return replace(
        to_prepared_v2(txn, is_commit=is_commit, fresh_producer_id=None, now_ms=now_ms),
        prev_producer_id=txn.next_producer_id,
        next_producer_id=next_identity.producer_id,
        next_producer_epoch=next_identity.producer_epoch,
    )


def to_complete(txn: TxnMetadata, *, now_ms: int) -> TxnTransition:
    """The record of a completed end, when all markers are written (prepareComplete). On an epoch
    overflow the next producer id takes over at epoch 0; after a kept transaction, the client's
    producer id and epoch.

    Raises:
        InvariantViolation: The transaction is not prepared.
    """
    if txn.state not in PREPARED_STATES:
        raise InvariantViolation(f"{txn.transactional_id}: cannot complete {txn.state.wire_name}")
    takes_next_id = txn.client_version >= _TV_2 and txn.next_producer_id != NO_PRODUCER_ID
    keeps_identity = txn.next_producer_epoch != NO_PRODUCER_EPOCH
    new_epoch = txn.next_producer_epoch if keeps_identity else ProducerEpoch(0)
    return TxnTransition(
        transactional_id=txn.transactional_id,
        producer_id=txn.next_producer_id if takes_next_id else txn.producer_id,
        prev_producer_id=txn.prev_producer_id if keeps_identity else txn.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=new_epoch if takes_next_id else txn.producer_epoch,
        last_producer_epoch=txn.last_producer_epoch,
        txn_timeout_ms=txn.txn_timeout_ms,
        state=_COMPLETE_COMMIT if txn.state is _PREPARE_COMMIT else _COMPLETE_ABORT,
        partitions=NO_PARTITIONS,
        start_timestamp_ms=txn.start_timestamp_ms,
        last_update_timestamp_ms=now_ms,
        client_version=txn.client_version,
    )


def fence_epoch_of(txn: TxnMetadata, release_rules: Rules) -> ProducerEpoch:
    """The epoch that fences the present producer (prepareFenceProducerEpoch).

    It is not raised again after a fence whose record was lost (KAFKA-9666), nor above the last
    possible epoch.
    """
    is_repeated = txn.has_failed_epoch_fence and release_rules.failed_fence_keeps_epoch
    if is_repeated or txn.producer_epoch == PRODUCER_EPOCH_MAX:
        return txn.producer_epoch
    return ProducerEpoch(txn.producer_epoch + 1)


# Helpers


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether the next raise needs a new producer id."""
    return producer_epoch >= EPOCH_EXHAUSTED


def _fence_epoch(record: TxnTransition) -> ProducerEpoch:
    """The epoch that a fence sets before its record is written."""
    return record.last_producer_epoch if record.client_version >= _TV_2 else record.producer_epoch


def _partial_change(txn: TxnMetadata, record: TxnTransition) -> TxnTransition:
    """The record as an entry of Kafka before 4.1 takes it over: a new session keeps the old start,
    and only some changes replace the previous and next producer id.
    """
    target_state = record.state
    is_completion = target_state is _COMPLETE_COMMIT or target_state is _COMPLETE_ABORT
    is_preparation = target_state is _PREPARE_COMMIT or target_state is _PREPARE_ABORT
    is_version_2 = record.client_version >= _TV_2
    replaces_prev_id = target_state is _EMPTY or (is_completion and is_version_2)
    replaces_next_id = (is_completion or is_preparation) and is_version_2
    return replace(
        record,
        prev_producer_id=record.prev_producer_id if replaces_prev_id else txn.prev_producer_id,
        next_producer_id=record.next_producer_id if replaces_next_id else txn.next_producer_id,
        start_timestamp_ms=(
            txn.start_timestamp_ms if target_state is _EMPTY else record.start_timestamp_ms
        ),
    )


def _new_entry(record: TxnTransition, now_ms: int) -> TxnMetadata:
    return TxnMetadata(
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        txn_timeout_ms=record.txn_timeout_ms,
        last_update_timestamp_ms=now_ms,
    )


def _begin_expiry(txn: TxnMetadata | None, record: Tombstone) -> TxnMetadata:
    if txn is None or txn.pending_state is not None or txn.state not in IDLE_STATES:
        raise InvariantViolation(f"{record.transactional_id}: cannot expire {txn!r}")
    return replace(txn, pending_state=TransactionState.DEAD)
