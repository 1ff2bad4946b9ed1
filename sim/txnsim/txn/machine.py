"""The decisions of a transaction coordinator: the effect of a request or a timer on one
transactional id.

Every ``decide_*`` reads an entry and returns a ``Decision`` (record to append, reply to send,
effects) or a ``Rejection``, and changes nothing; only ``txnsim.txn.transitions`` changes an entry.
``NeedsProducerId`` asks for the same call with an unused producer id.

Here: adding and verifying partitions, the two timers, queries. InitProducerId is in
``machine_init``, ends are in ``machine_end``.

Counterpart in Kafka: TransactionCoordinator.
"""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import Rules
from txnsim.txn.commands import (
    PARTITIONS_ADDED,
    AddPartitions,
    DescribedTxn,
    MarkersOwed,
    PartitionsAdded,
    PartitionsVerified,
    VerifyPartitions,
)
from txnsim.txn.refusals import (
    concurrent_rejection,
    fencing_rejection,
    not_found_rejection,
    other_producer_rejection,
    unknown_id_rejection,
)
from txnsim.txn.state import (
    IDLE_STATES,
    PREPARED_STATES,
    TIMEOUT_NEVER_MS,
    Tombstone,
    TransactionState,
    TxnMetadata,
    TxnTransition,
)
from txnsim.txn.transitions import to_ongoing
from txnsim.txn.two_phase import refuse_addition, refuse_verification
from txnsim.types import NO_PRODUCER_EPOCH, Decision, TransactionalId, TransactionVersion

AddDecision = Decision[TxnTransition, PartitionsAdded, MarkersOwed]

_ONGOING: Final = TransactionState.ONGOING

_ALREADY_ADDED: Final[AddDecision] = Decision(reply=PARTITIONS_ADDED, rule="add.again")
_UNKNOWN_ID_TO_ADD: Final = unknown_id_rejection("add.unknown-id")
_UNKNOWN_ID_TO_CHECK: Final = unknown_id_rejection("check.unknown-id")

_ADD_RULE_IDS: Final = {
    TransactionState.EMPTY: "add.opens",
    TransactionState.ONGOING: "add.more",
    TransactionState.COMPLETE_COMMIT: "add.opens-after-commit",
    TransactionState.COMPLETE_ABORT: "add.opens-after-abort",
}
"""Previous state -> row of docs/rules.md."""


# Partitions


def decide_add_partitions(
    txn: TxnMetadata | None, command: AddPartitions, *, now_ms: int, release_rules: Rules
) -> AddDecision | Rejection:
    """Adds partitions to the transaction, and opens it if none is open."""
    if txn is None:
        return _UNKNOWN_ID_TO_ADD
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        return refuse_addition(txn)
    # KAFKA-18660: before the identity, which an overflow is about to change
    if txn.pending_state is not None and release_rules.pending_comes_before_identity:
        return concurrent_rejection(txn, "add.pending")
    if command.producer_id != txn.producer_id:
        return other_producer_rejection(txn, command.producer_id, "add.wrong-pid")
    if command.producer_epoch != txn.producer_epoch:
        return fencing_rejection(txn, command.producer_epoch, "add.wrong-epoch")
    if txn.pending_state is not None:
        return concurrent_rejection(txn, "add.pending")
    if txn.state in PREPARED_STATES:
        return concurrent_rejection(txn, "add.prepared")
    if txn.state is _ONGOING and command.partitions <= txn.partitions:
        return _ALREADY_ADDED
    transition = to_ongoing(
        txn,
        partitions=command.partitions,
        client_version=(
            command.transaction_version
            if release_rules.client_version_is_kept
            else TransactionVersion.TV_0
        ),
        now_ms=now_ms,
    )
    rule_id = _ADD_RULE_IDS[txn.state] if command.partitions else "add.nothing"
    return Decision(records=(transition,), reply=PARTITIONS_ADDED, rule=rule_id)


def decide_verify(
    txn: TxnMetadata | None, command: VerifyPartitions, *, release_rules: Rules
) -> PartitionsVerified | Rejection:
    """Decides which partitions are part of the transaction, regardless of pending changes
    (KAFKA-14904).
    """
    if txn is None:
        return _UNKNOWN_ID_TO_CHECK
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        return refuse_verification(txn, command.producer_id, command.producer_epoch)
    waits_for_pending = not release_rules.verify_ignores_pending
    if waits_for_pending and txn.pending_state is not None:
        return concurrent_rejection(txn, "check.pending")
    if command.producer_id != txn.producer_id:
        return other_producer_rejection(txn, command.producer_id, "check.wrong-pid")
    if command.producer_epoch != txn.producer_epoch:
        return fencing_rejection(txn, command.producer_epoch, "check.wrong-epoch")
    if txn.state in PREPARED_STATES:
        return concurrent_rejection(txn, "check.prepared")
    partition_errors = []
    for partition in command.partitions:
        is_added = partition in txn.partitions
        partition_errors.append(
            (partition, ErrorCode.none if is_added else not_added_error(release_rules))
        )
    return PartitionsVerified(partition_errors=tuple(partition_errors))


def not_added_error(release_rules: Rules) -> ErrorCode:
    """The error for a partition outside of the transaction. Releases before 3.8 have no
    TRANSACTION_ABORTABLE (KAFKA-16314).
    """
    return (
        ErrorCode.transaction_abortable
        if release_rules.unverified_is_abortable
        else ErrorCode.invalid_txn_state
    )


# Timers


def is_timed_out(txn: TxnMetadata, *, now_ms: int, release_rules: Rules) -> bool:
    """Whether the abort scan must end this transaction: strictly later than its start plus its
    timeout.
    """
    return (
        txn.state is _ONGOING
        and txn.pending_state is None
        and not (txn.txn_timeout_ms == TIMEOUT_NEVER_MS and release_rules.longest_timeout_is_never)
        and txn.start_timestamp_ms + txn.txn_timeout_ms < now_ms
    )


def decide_expiry(txn: TxnMetadata, *, now_ms: int, expiration_ms: int) -> Tombstone | None:
    """The tombstone of an idle transactional id; None while the id must be kept."""
    is_expired = (
        txn.pending_state is None
        and txn.state in IDLE_STATES
        and txn.last_update_timestamp_ms <= now_ms - expiration_ms
    )
    return Tombstone(transactional_id=txn.transactional_id) if is_expired else None


# Queries


def describe(
    txn: TxnMetadata | None, transactional_id: TransactionalId
) -> DescribedTxn | Rejection:
    """The state of an entry without its pending change, or the error."""
    if txn is None:
        return not_found_rejection(transactional_id)
    return DescribedTxn(
        transactional_id=txn.transactional_id,
        state=txn.state.wire_name,
        timeout_ms=txn.txn_timeout_ms,
        start_timestamp_ms=txn.start_timestamp_ms,
        last_update_timestamp_ms=txn.last_update_timestamp_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        partitions=tuple(sorted(txn.partitions)),
    )
