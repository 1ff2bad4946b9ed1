"""Decisions about InitProducerId: who gets the transactional id, with which producer id and epoch.

A caller without an expected identity always fences every older session. A caller with one (KIP-360)
gets a higher epoch if its identity is current, the same reply again if it repeats its last
successful call, and PRODUCER_FENCED otherwise.

Counterpart in Kafka: TransactionCoordinator.handleInitProducerId and prepareInitProducerIdTransit.
"""

from __future__ import annotations

from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import Rules
from txnsim.settings import Settings
from txnsim.txn.commands import NEEDS_PRODUCER_ID, InitProducerId, MarkersOwed, NeedsProducerId
from txnsim.txn.machine_end import decide_fence
from txnsim.txn.refusals import concurrent_rejection, fencing_rejection
from txnsim.txn.state import (
    EPOCH_EXHAUSTED,
    PREPARED_STATES,
    TIMEOUT_NEVER_MS,
    TransactionState,
    TxnMetadata,
    TxnTransition,
)
from txnsim.txn.transitions import is_epoch_exhausted, to_empty, to_first
from txnsim.txn.two_phase import decide_keep
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    Decision,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TransactionVersion,
)

InitDecision = Decision[TxnTransition, ProducerIdAndEpoch | Rejection, MarkersOwed]
"""The reply is a ``Rejection`` if an open transaction is aborted first: the caller must try
again.
"""


def check_init_producer_id(
    command: InitProducerId, settings: Settings, *, keeps_prepared: bool
) -> Rejection | None:
    """Errors that are checked before the broker checks whether it coordinates the transactional id;
    None if there is none.

    Args:
        command: The request.
        settings: The broker's settings.
        keeps_prepared: Whether the broker obeys KeepPreparedTxn.
    """
    if command.transactional_id == "":
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="the transactional id is empty",
            rule="init.empty-id",
        )
    if command.enable_two_phase_commit and not settings.transaction_two_phase_commit_enable:
        return Rejection(
            error=ErrorCode.transactional_id_authorization_failed,
            reason="two-phase commit is off (transaction.two.phase.commit.enable, KIP-939)",
            rule="init.two-phase-off",
        )
    if command.keeps_prepared and not (keeps_prepared or command.comes_through_kip_text):
        return Rejection(
            error=ErrorCode.unsupported_version,
            reason="KeepPreparedTxn is not implemented by any broker yet (KIP-939)",
            rule="init.keep-prepared",
        )
    max_timeout_ms = settings.transaction_max_timeout_ms
    if not command.enable_two_phase_commit and not 0 < command.timeout_ms <= max_timeout_ms:
        return Rejection(
            error=ErrorCode.invalid_transaction_timeout,
            reason=f"timeout of {command.timeout_ms} ms is not within 1 … {max_timeout_ms} "
            "(transaction.max.timeout.ms)",
            rule="init.timeout",
        )
    return None


def decide_init_producer_id(
    txn: TxnMetadata | None,
    command: InitProducerId,
    *,
    finalized_version: TransactionVersion,
    now_ms: int,
    fresh_producer_id: ProducerId | None = None,
    release_rules: Rules,
) -> InitDecision | Rejection | NeedsProducerId:
    """Give a transactional id its producer id and epoch.

    Args:
        txn: The entry; None if there is none.
        command: The request, which ``check_init_producer_id`` has accepted.
        finalized_version: Finalized level of ``transaction.version``; it decides how an open
            transaction is aborted.
        now_ms: Cluster time.
        fresh_producer_id: An unused producer id, on the second call after ``NeedsProducerId``.
        release_rules: Rules of the broker's release.
    """
    timeout_ms = TIMEOUT_NEVER_MS if command.enable_two_phase_commit else command.timeout_ms
    if txn is None:
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        assert command.transactional_id is not None
        transition = to_first(
            command.transactional_id,
            producer_id=fresh_producer_id,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )
        return _hand_out_identity(
            transition, "init.two-phase" if command.enable_two_phase_commit else "init.new"
        )
    if txn.pending_state is not None:
        return concurrent_rejection(txn, "init.pending")
    expected_identity = command.expected_identity
    if expected_identity is not None and not _is_identity_plausible(txn, expected_identity):
        return fencing_rejection(txn, expected_identity.producer_epoch, "init.other-identity")
    if txn.state in PREPARED_STATES:
        return concurrent_rejection(txn, "init.prepared")
    if txn.state is TransactionState.ONGOING and command.keeps_prepared:
        return decide_keep(
            txn,
            finalized_version=finalized_version,
            now_ms=now_ms,
            fresh_producer_id=fresh_producer_id,
        )
    if txn.state is TransactionState.ONGOING:
        fence_decision = decide_fence(
            txn,
            finalized_version=finalized_version,
            now_ms=now_ms,
            fresh_producer_id=fresh_producer_id,
            release_rules=release_rules,
        )
        if isinstance(fence_decision, NeedsProducerId | Rejection):
            return fence_decision
        retry_rejection = Rejection(
            error=ErrorCode.concurrent_transactions,
            reason=f"{txn.transactional_id}: the open transaction is being aborted first",
            rule="init.open",
        )
        return Decision(
            records=fence_decision.records,
            reply=retry_rejection,
            effects=fence_decision.effects,
            rule="init.open",
        )
    return _decide_idle(txn, expected_identity, timeout_ms, now_ms, fresh_producer_id)


def _decide_idle(
    txn: TxnMetadata,
    expected_identity: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    fresh_producer_id: ProducerId | None,
) -> InitDecision | Rejection | NeedsProducerId:
    """Decide in the states Empty and CompleteX (prepareProducerIdRotation,
    prepareIncrementProducerEpoch).
    """
    entry_epoch = txn.producer_epoch
    expected_epoch = None if expected_identity is None else expected_identity.producer_epoch
    producer_id = txn.producer_id
    next_epoch, last_epoch = ProducerEpoch(entry_epoch + 1), NO_PRODUCER_EPOCH
    rule_id = "init.bump"
    if is_epoch_exhausted(entry_epoch):
        if expected_epoch is not None and expected_epoch != entry_epoch:
            # An IllegalStateException on a real broker; the client sees its error code
            return Rejection(
                error=ErrorCode.unknown_server_error,
                reason=f"{txn.transactional_id}: epoch {entry_epoch} is exhausted, expected was"
                f" {expected_epoch}",
                rule="init.exhausted-wrong",
            )
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        producer_id, next_epoch = fresh_producer_id, ProducerEpoch(0)
        last_epoch = NO_PRODUCER_EPOCH if expected_epoch is None else entry_epoch
        rule_id = "init.exhausted" if expected_epoch is None else "init.exhausted-expected"
    elif entry_epoch == NO_PRODUCER_EPOCH:
        rule_id = "init.no-epoch-yet"
    elif expected_epoch is not None:
        if expected_epoch == entry_epoch:
            last_epoch, rule_id = entry_epoch, "init.expected-current"
        elif expected_epoch == txn.last_producer_epoch:  # the same call again, its answer was lost
            next_epoch, last_epoch = entry_epoch, txn.last_producer_epoch
            names_former_id = (
                expected_identity is not None and expected_identity.producer_id != producer_id
            )
            rule_id = "init.rotated-retry" if names_former_id else "init.expected-last"
        else:
            return fencing_rejection(txn, expected_epoch, "init.expected-wrong")
    transition = to_empty(
        txn,
        producer_id=producer_id,
        producer_epoch=next_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        now_ms=now_ms,
    )
    return _hand_out_identity(transition, rule_id)


def _is_identity_plausible(txn: TxnMetadata, expected_identity: ProducerIdAndEpoch) -> bool:
    """Whether the expected producer id may be right; the epoch is checked later, by state."""
    return (
        txn.producer_epoch == NO_PRODUCER_EPOCH
        or expected_identity.producer_id == txn.producer_id
        or (
            expected_identity.producer_id == txn.prev_producer_id
            and expected_identity.producer_epoch >= EPOCH_EXHAUSTED
        )
    )


def _hand_out_identity(transition: TxnTransition, rule_id: str) -> InitDecision:
    identity = ProducerIdAndEpoch(
        producer_id=transition.producer_id, producer_epoch=transition.producer_epoch
    )
    return Decision(records=(transition,), reply=identity, rule=rule_id)
