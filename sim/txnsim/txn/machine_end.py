"""Decisions about the end of a transaction: EndTxn under either protocol, and the abort that a
fence or the timeout forces.

The version of the request alone decides which protocol applies (from 5 on: version 2 of the
protocol). Under versions 0 and 1 a late duplicate of an EndTxn looks like a new one at the same
epoch. Version 2 bumps the epoch at every end, so the two differ (KIP-890).

Counterpart in Kafka: TransactionCoordinator.endTransactionWithTV1 and endTransaction.
"""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import Rules
from txnsim.txn.commands import (
    MARKERS_OWED,
    NEEDS_PRODUCER_ID,
    EndTxn,
    MarkersOwed,
    NeedsProducerId,
)
from txnsim.txn.refusals import (
    concurrent_rejection,
    fencing_rejection,
    other_producer_rejection,
    unknown_id_rejection,
)
from txnsim.txn.state import (
    EPOCH_EXHAUSTED,
    PREPARED_STATES,
    TransactionState,
    TxnMetadata,
    TxnTransition,
)
from txnsim.txn.transitions import (
    fence_epoch_of,
    is_epoch_exhausted,
    to_prepared_v1,
    to_prepared_v2,
)
from txnsim.txn.two_phase import decide_end_kept, end_kept
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    Decision,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TransactionVersion,
)

EndDecision = Decision[TxnTransition, ProducerIdAndEpoch | Rejection, MarkersOwed]

_TV_2: Final = TransactionVersion.TV_2
_EMPTY: Final = TransactionState.EMPTY
_ONGOING: Final = TransactionState.ONGOING
_COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT

_UNKNOWN_ID_V1: Final = unknown_id_rejection("end.v4.unknown-id")
_UNKNOWN_ID_V2: Final = unknown_id_rejection("end.v5.unknown-id")

_V1_COMMIT_RULE_IDS: Final = {
    TransactionState.EMPTY: "end.v4.empty-commit",
    TransactionState.ONGOING: "end.v4.commit",
    TransactionState.PREPARE_COMMIT: "end.v4.prepared-commit",
    TransactionState.PREPARE_ABORT: "end.v4.prepared-abort",
    TransactionState.COMPLETE_COMMIT: "end.v4.committed-commit",
    TransactionState.COMPLETE_ABORT: "end.v4.aborted-commit",
}
"""State before a commit -> row of docs/rules.md, under protocol versions 0 and 1."""
_V1_ABORT_RULE_IDS: Final = {
    TransactionState.EMPTY: "end.v4.empty-abort",
    TransactionState.ONGOING: "end.v4.abort",
    TransactionState.PREPARE_COMMIT: "end.v4.prepared-commit",
    TransactionState.PREPARE_ABORT: "end.v4.prepared-abort",
    TransactionState.COMPLETE_COMMIT: "end.v4.committed-abort",
    TransactionState.COMPLETE_ABORT: "end.v4.aborted-abort",
}
_V2_COMMIT_RULE_IDS: Final = {
    TransactionState.EMPTY: "end.v5.empty-commit",
    TransactionState.ONGOING: "end.v5.commit",
    TransactionState.COMPLETE_COMMIT: "end.v5.committed-commit",
    TransactionState.COMPLETE_ABORT: "end.v5.aborted-commit",
}
"""State before a commit at the present epoch -> row of docs/rules.md, under protocol version 2."""
_V2_ABORT_RULE_IDS: Final = {
    TransactionState.EMPTY: "end.v5.empty-abort",
    TransactionState.ONGOING: "end.v5.abort",
    TransactionState.COMPLETE_COMMIT: "end.v5.committed-abort",
    TransactionState.COMPLETE_ABORT: "end.v5.aborted-abort",
}
_V2_RETRY_RULE_IDS: Final = {
    (_COMPLETE_COMMIT, True): "end.v5.committed-commit-retry",
    (_COMPLETE_COMMIT, False): "end.v5.committed-abort-retry",
    (_COMPLETE_ABORT, True): "end.v5.aborted-commit-retry",
    (_COMPLETE_ABORT, False): "end.v5.aborted-abort-retry",
}
"""(state, whether it is a commit) -> row of docs/rules.md, for a repeated EndTxn under protocol
version 2.
"""


def decide_end_txn(
    txn: TxnMetadata | None,
    command: EndTxn,
    *,
    now_ms: int,
    fresh_producer_id: ProducerId | None = None,
    release_rules: Rules,
) -> EndDecision | Rejection | NeedsProducerId:
    """Decide about an EndTxn: commit or abort, as the producer asks.

    Args:
        txn: The entry; None if there is none.
        command: The request.
        now_ms: Cluster time.
        fresh_producer_id: An unused producer id, on the second call after ``NeedsProducerId``.
        release_rules: Rules of the broker's release.
    """
    if txn is None:
        return _UNKNOWN_ID_V2 if command.transaction_version >= _TV_2 else _UNKNOWN_ID_V1
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        return decide_end_kept(txn, command, now_ms=now_ms, fresh_producer_id=fresh_producer_id)
    if command.transaction_version >= _TV_2:
        return _decide_v2(txn, command, now_ms, fresh_producer_id, release_rules)
    return _decide_v1(txn, command, now_ms, release_rules)


def decide_fence(
    txn: TxnMetadata,
    *,
    finalized_version: TransactionVersion,
    now_ms: int,
    fresh_producer_id: ProducerId | None = None,
    is_timeout: bool = False,
    release_rules: Rules,
) -> EndDecision | Rejection | NeedsProducerId:
    """Abort an open transaction against its producer's will, and fence the producer.

    Kafka raises the epoch first (PrepareEpochFence) and runs EndTxn on itself afterwards; here both
    are one step, so no client can get in between. The protocol is that of the cluster's finalized
    level, whatever the producer uses.

    Args:
        txn: The entry: Ongoing, nothing pending.
        finalized_version: Finalized level of ``transaction.version``.
        now_ms: Cluster time.
        fresh_producer_id: An unused producer id, on the second call after ``NeedsProducerId``.
        is_timeout: Whether the reason is the timeout, and not a new producer.
        release_rules: Rules of the broker's release.
    """
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        return end_kept(txn, is_commit=False, now_ms=now_ms, fresh_producer_id=fresh_producer_id)
    if txn.producer_epoch == PRODUCER_EPOCH_MAX and _last_epoch_is_stuck(release_rules):
        return _no_epoch_left(txn)
    if finalized_version < _TV_2:
        bumps_epoch = release_rules.timeout_bumps_epoch or not is_timeout
        fence_epoch = fence_epoch_of(txn, release_rules) if bumps_epoch else None
        transition = to_prepared_v1(txn, is_commit=False, now_ms=now_ms, fence_epoch=fence_epoch)
        if not bumps_epoch:
            return _end_decision(transition, "timeout.aborts")
        return _end_decision(transition, "timeout.fences-v1" if is_timeout else "end.v4.fence")
    rule_id = "timeout.bumps-v2" if is_timeout else "end.v5.fence"
    if release_rules.fence_bumps_once:
        if release_rules.fence_rotates_exhausted_id:
            return _end_decision_v2(
                txn,
                is_commit=False,
                now_ms=now_ms,
                fresh_producer_id=fresh_producer_id,
                rule_id=rule_id,
            )
        return _end_decision(
            to_prepared_v2(txn, is_commit=False, fresh_producer_id=None, now_ms=now_ms), rule_id
        )
    return _fence_twice(txn, now_ms, release_rules, rule_id)


# Versions 0 and 1


def _decide_v1(
    txn: TxnMetadata, command: EndTxn, now_ms: int, release_rules: Rules
) -> EndDecision | Rejection:
    if command.producer_id != txn.producer_id:
        return other_producer_rejection(txn, command.producer_id, "end.v4.wrong-pid")
    is_future_epoch = command.producer_epoch > txn.producer_epoch
    takes_future_epoch = is_future_epoch and not release_rules.end_needs_exact_epoch
    if command.producer_epoch != txn.producer_epoch and not takes_future_epoch:
        return fencing_rejection(txn, command.producer_epoch, "end.v4.wrong-epoch")
    if txn.pending_state is not None:
        return concurrent_rejection(txn, "end.v4.pending")
    rule_id = (_V1_COMMIT_RULE_IDS if command.committed else _V1_ABORT_RULE_IDS)[txn.state]
    if txn.state is _ONGOING:
        end_decision = _end_decision(
            to_prepared_v1(txn, is_commit=command.committed, now_ms=now_ms), rule_id
        )
        return _end_without_markers(txn, command, end_decision) if is_future_epoch else end_decision
    if txn.state is _EMPTY or not _has_asked_outcome(txn, command):
        return _invalid_state(txn, command, rule_id)
    if txn.state in PREPARED_STATES:
        return concurrent_rejection(txn, rule_id)
    return Decision(reply=_producer_identity(txn), rule=rule_id)


def _end_without_markers(
    txn: TxnMetadata, command: EndTxn, end_decision: EndDecision
) -> EndDecision:
    """The decision for a future epoch before KAFKA-9600: the end is logged, then the coordinator
    finds another epoch in its entry and sends no markers (sendTxnMarkersCallback). The next
    coordinator sends them when it loads.
    """
    refusal = Rejection(
        error=ErrorCode.invalid_producer_epoch,
        reason=f"{txn.transactional_id}: prepared at epoch {txn.producer_epoch} for epoch "
        f"{command.producer_epoch}, and no marker is sent",
        rule="end.v4.wrong-epoch",
    )
    return Decision(records=end_decision.records, reply=refusal, rule="end.v4.wrong-epoch")


# Version 2


def _decide_v2(
    txn: TxnMetadata,
    command: EndTxn,
    now_ms: int,
    fresh_producer_id: ProducerId | None,
    release_rules: Rules,
) -> EndDecision | Rejection | NeedsProducerId:
    # KAFKA-18464: before any check of identity, as the identity is about to change
    if txn.pending_state is not None:
        return concurrent_rejection(txn, "end.v5.pending")
    request_epoch, entry_epoch = command.producer_epoch, txn.producer_epoch
    is_overflow_retry = (
        txn.prev_producer_id == command.producer_id
        and request_epoch == EPOCH_EXHAUSTED
        and entry_epoch == 0
    )
    if command.producer_id != txn.producer_id and not is_overflow_retry:
        return other_producer_rejection(txn, command.producer_id, "end.v5.wrong-pid")
    is_bump_retry = entry_epoch == request_epoch + 1
    state = txn.state
    if state in PREPARED_STATES:
        if release_rules.prepared_ends_are_concurrent:
            return concurrent_rejection(txn, "end.v5.prepared")
        if not is_bump_retry:
            return fencing_rejection(txn, command.producer_epoch, "end.v5.prepared")
        if _has_asked_outcome(txn, command):
            return concurrent_rejection(txn, "end.v5.prepared")
        return _invalid_state(txn, command, "end.v5.prepared")
    is_complete = state is not _ONGOING and state is not _EMPTY
    if is_complete and (is_bump_retry or is_overflow_retry):
        return _decide_retry(txn, command, release_rules, is_overflow=is_overflow_retry)
    if request_epoch != entry_epoch:
        return fencing_rejection(txn, command.producer_epoch, _wrong_epoch_rule(state))
    rule_id = (_V2_COMMIT_RULE_IDS if command.committed else _V2_ABORT_RULE_IDS)[state]
    ends_nothing = command.committed and state is not _ONGOING
    needs_transaction = not release_rules.empty_commits_are_ended
    if ends_nothing and needs_transaction:
        return _invalid_state(txn, command, rule_id)
    if entry_epoch == PRODUCER_EPOCH_MAX and (
        command.committed or _last_epoch_is_stuck(release_rules)
    ):
        return _no_epoch_left(txn)
    return _end_decision_v2(
        txn,
        is_commit=command.committed,
        now_ms=now_ms,
        fresh_producer_id=fresh_producer_id,
        rule_id=rule_id,
    )


def _decide_retry(
    txn: TxnMetadata, command: EndTxn, release_rules: Rules, *, is_overflow: bool
) -> EndDecision | Rejection:
    """Decide about a repeated EndTxn, of a producer that did not get the reply and still has the
    old epoch.
    """
    rule_id = (
        "end.v5.overflow-retry" if is_overflow else _V2_RETRY_RULE_IDS[txn.state, command.committed]
    )
    if _has_asked_outcome(txn, command):
        return Decision(reply=_producer_identity(txn), rule=rule_id)
    if command.committed and release_rules.late_commit_is_fenced:
        # KAFKA-20785: the timeout came first
        return fencing_rejection(txn, command.producer_epoch, rule_id)
    return _invalid_state(txn, command, rule_id)


def _wrong_epoch_rule(state: TransactionState) -> str:
    if state is _ONGOING:
        return "end.v5.open-wrong-epoch"
    return "end.v5.empty-wrong-epoch" if state is _EMPTY else "end.v5.complete-wrong-epoch"


def _last_epoch_is_stuck(release_rules: Rules) -> bool:
    """Whether an abort at the last epoch fails, as before KAFKA-20090."""
    return not release_rules.last_epoch_recovers


def _fence_twice(
    txn: TxnMetadata, now_ms: int, release_rules: Rules, rule_id: str
) -> EndDecision | Rejection:
    """Abort as before KAFKA-19367: the fence raises the epoch, and the end after it raises it
    again.
    """
    fence_epoch = fence_epoch_of(txn, release_rules)
    if fence_epoch == PRODUCER_EPOCH_MAX:
        return _no_epoch_left(txn)
    return _end_decision(
        to_prepared_v2(
            txn, is_commit=False, fresh_producer_id=None, now_ms=now_ms, fence_epoch=fence_epoch
        ),
        rule_id,
    )


def _end_decision_v2(
    txn: TxnMetadata,
    *,
    is_commit: bool,
    now_ms: int,
    fresh_producer_id: ProducerId | None,
    rule_id: str,
) -> EndDecision | NeedsProducerId:
    if is_epoch_exhausted(txn.producer_epoch):
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        rule_id = "end.v5.overflow" if txn.state is _ONGOING else "end.v5.overflow-empty-abort"
    else:
        fresh_producer_id = None
    return _end_decision(
        to_prepared_v2(
            txn, is_commit=is_commit, fresh_producer_id=fresh_producer_id, now_ms=now_ms
        ),
        rule_id,
    )


# Answers


def _end_decision(transition: TxnTransition, rule_id: str) -> EndDecision:
    """Log the end. The reply has the producer id and epoch that apply when the transaction is
    complete.
    """
    if transition.next_producer_id != NO_PRODUCER_ID:
        reply = ProducerIdAndEpoch(
            producer_id=transition.next_producer_id, producer_epoch=ProducerEpoch(0)
        )
    else:
        reply = ProducerIdAndEpoch(
            producer_id=transition.producer_id, producer_epoch=transition.producer_epoch
        )
    return Decision(records=(transition,), reply=reply, effects=MARKERS_OWED, rule=rule_id)


def _producer_identity(txn: TxnMetadata) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id=txn.producer_id, producer_epoch=txn.producer_epoch)


def _has_asked_outcome(txn: TxnMetadata, command: EndTxn) -> bool:
    """Whether the transaction was ended as the request asks: commit or abort."""
    is_commit = txn.state is TransactionState.PREPARE_COMMIT or txn.state is _COMPLETE_COMMIT
    return is_commit == command.committed


def _no_epoch_left(txn: TxnMetadata) -> Rejection:
    """The error if no epoch is left. A real broker throws an IllegalStateException; the client gets
    this error code.
    """
    return Rejection(
        error=ErrorCode.unknown_server_error,
        reason=f"{txn.transactional_id}: no epoch is left after {txn.producer_epoch}",
        rule="end.v5.overflow",
    )


def _invalid_state(txn: TxnMetadata, command: EndTxn, rule_id: str) -> Rejection:
    outcome = "commit" if command.committed else "abort"
    return Rejection(
        error=ErrorCode.invalid_txn_state,
        reason=f"{txn.transactional_id}: no {outcome} from {txn.state.wire_name} "
        f"at epoch {txn.producer_epoch} by epoch {command.producer_epoch}",
        rule=rule_id,
    )
