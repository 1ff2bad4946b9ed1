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
from txnsim.txn.refusals import concurrent, fencing_rejection, other_producer, unknown_id
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

_UNKNOWN_V1: Final = unknown_id("end.v4.unknown-id")
_UNKNOWN_V2: Final = unknown_id("end.v5.unknown-id")

_V1_COMMIT_RULES: Final = {
    TransactionState.EMPTY: "end.v4.empty-commit",
    TransactionState.ONGOING: "end.v4.commit",
    TransactionState.PREPARE_COMMIT: "end.v4.prepared-commit",
    TransactionState.PREPARE_ABORT: "end.v4.prepared-abort",
    TransactionState.COMPLETE_COMMIT: "end.v4.committed-commit",
    TransactionState.COMPLETE_ABORT: "end.v4.aborted-commit",
}
"""State before a commit -> row of docs/rules.md, under protocol versions 0 and 1."""
_V1_ABORT_RULES: Final = {
    TransactionState.EMPTY: "end.v4.empty-abort",
    TransactionState.ONGOING: "end.v4.abort",
    TransactionState.PREPARE_COMMIT: "end.v4.prepared-commit",
    TransactionState.PREPARE_ABORT: "end.v4.prepared-abort",
    TransactionState.COMPLETE_COMMIT: "end.v4.committed-abort",
    TransactionState.COMPLETE_ABORT: "end.v4.aborted-abort",
}
_V2_COMMIT_RULES: Final = {
    TransactionState.EMPTY: "end.v5.empty-commit",
    TransactionState.ONGOING: "end.v5.commit",
    TransactionState.COMPLETE_COMMIT: "end.v5.committed-commit",
    TransactionState.COMPLETE_ABORT: "end.v5.aborted-commit",
}
"""State before a commit at the present epoch -> row of docs/rules.md, under protocol version 2."""
_V2_ABORT_RULES: Final = {
    TransactionState.EMPTY: "end.v5.empty-abort",
    TransactionState.ONGOING: "end.v5.abort",
    TransactionState.COMPLETE_COMMIT: "end.v5.committed-abort",
    TransactionState.COMPLETE_ABORT: "end.v5.aborted-abort",
}
_V2_RETRY_RULES: Final = {
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
    fresh: ProducerId | None = None,
    rules: Rules,
) -> EndDecision | Rejection | NeedsProducerId:
    """Decide about an EndTxn: commit or abort, as the producer asks.

    Args:
        txn: The entry; None if there is none.
        command: The request.
        now_ms: Cluster time.
        fresh: An unused producer id, on the second call after ``NeedsProducerId``.
        rules: Rules of the broker's release.
    """
    if txn is None:
        return _UNKNOWN_V2 if command.transaction_version >= _TV_2 else _UNKNOWN_V1
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        return decide_end_kept(txn, command, now_ms=now_ms, fresh=fresh)
    if command.transaction_version >= _TV_2:
        return _decide_v2(txn, command, now_ms, fresh, rules)
    return _decide_v1(txn, command, now_ms, rules)


def decide_fence(
    txn: TxnMetadata,
    *,
    finalized: TransactionVersion,
    now_ms: int,
    fresh: ProducerId | None = None,
    by_timeout: bool = False,
    rules: Rules,
) -> EndDecision | Rejection | NeedsProducerId:
    """Abort an open transaction against its producer's will, and fence the producer.

    Kafka raises the epoch first (PrepareEpochFence) and runs EndTxn on itself afterwards; here both
    are one step, so no client can get in between. The protocol is that of the cluster's finalized
    level, whatever the producer uses.

    Args:
        txn: The entry: Ongoing, nothing pending.
        finalized: Finalized level of ``transaction.version``.
        now_ms: Cluster time.
        fresh: An unused producer id, on the second call after ``NeedsProducerId``.
        by_timeout: Whether the reason is the timeout, and not a new producer.
        rules: Rules of the broker's release.
    """
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        return end_kept(txn, committed=False, now_ms=now_ms, fresh=fresh)
    if txn.producer_epoch == PRODUCER_EPOCH_MAX and _is_stuck(rules):
        return _no_epoch_left(txn)
    if finalized < _TV_2:
        bumps = rules.timeout_bumps_epoch or not by_timeout
        fence_epoch = fence_epoch_of(txn, rules) if bumps else None
        transition = to_prepared_v1(txn, committed=False, now_ms=now_ms, fence_epoch=fence_epoch)
        if not bumps:
            return _end(transition, "timeout.aborts")
        return _end(transition, "timeout.fences-v1" if by_timeout else "end.v4.fence")
    rule = "timeout.bumps-v2" if by_timeout else "end.v5.fence"
    if rules.fence_bumps_once:
        if rules.fence_rotates_exhausted_id:
            return _end_v2(txn, committed=False, now_ms=now_ms, fresh=fresh, rule=rule)
        return _end(to_prepared_v2(txn, committed=False, fresh=None, now_ms=now_ms), rule)
    return _fence_twice(txn, now_ms, rules, rule)


# Versions 0 and 1


def _decide_v1(
    txn: TxnMetadata, command: EndTxn, now_ms: int, rules: Rules
) -> EndDecision | Rejection:
    if command.producer_id != txn.producer_id:
        return other_producer(txn, command.producer_id, "end.v4.wrong-pid")
    is_future = command.producer_epoch > txn.producer_epoch
    takes_future = is_future and not rules.end_needs_exact_epoch
    if command.producer_epoch != txn.producer_epoch and not takes_future:
        return fencing_rejection(txn, command.producer_epoch, "end.v4.wrong-epoch")
    if txn.pending_state is not None:
        return concurrent(txn, "end.v4.pending")
    rule = (_V1_COMMIT_RULES if command.committed else _V1_ABORT_RULES)[txn.state]
    if txn.state is _ONGOING:
        end = _end(to_prepared_v1(txn, committed=command.committed, now_ms=now_ms), rule)
        return _stuck(txn, command, end) if is_future else end
    if txn.state is _EMPTY or not _agrees(txn, command):
        return _invalid_state(txn, command, rule)
    if txn.state in PREPARED_STATES:
        return concurrent(txn, rule)
    return Decision(reply=_identity(txn), rule=rule)


def _stuck(txn: TxnMetadata, command: EndTxn, end: EndDecision) -> EndDecision:
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
    return Decision(records=end.records, reply=refusal, rule="end.v4.wrong-epoch")


# Version 2


def _decide_v2(
    txn: TxnMetadata, command: EndTxn, now_ms: int, fresh: ProducerId | None, rules: Rules
) -> EndDecision | Rejection | NeedsProducerId:
    # KAFKA-18464: before any check of identity, as the identity is about to change
    if txn.pending_state is not None:
        return concurrent(txn, "end.v5.pending")
    asked_epoch, epoch = command.producer_epoch, txn.producer_epoch
    overflow_retry = (
        txn.prev_producer_id == command.producer_id
        and asked_epoch == EPOCH_EXHAUSTED
        and epoch == 0
    )
    if command.producer_id != txn.producer_id and not overflow_retry:
        return other_producer(txn, command.producer_id, "end.v5.wrong-pid")
    bump_retry = epoch == asked_epoch + 1
    state = txn.state
    if state in PREPARED_STATES:
        if not bump_retry:
            return fencing_rejection(txn, command.producer_epoch, "end.v5.prepared")
        if _agrees(txn, command):
            return concurrent(txn, "end.v5.prepared")
        return _invalid_state(txn, command, "end.v5.prepared")
    is_complete = state is not _ONGOING and state is not _EMPTY
    if is_complete and (bump_retry or overflow_retry):
        return _decide_retry(txn, command, rules, is_overflow=overflow_retry)
    if asked_epoch != epoch:
        return fencing_rejection(txn, command.producer_epoch, _wrong_epoch(state))
    rule = (_V2_COMMIT_RULES if command.committed else _V2_ABORT_RULES)[state]
    if command.committed and state is not _ONGOING:
        return _invalid_state(txn, command, rule)
    if epoch == PRODUCER_EPOCH_MAX and (command.committed or _is_stuck(rules)):
        return _no_epoch_left(txn)
    return _end_v2(txn, committed=command.committed, now_ms=now_ms, fresh=fresh, rule=rule)


def _decide_retry(
    txn: TxnMetadata, command: EndTxn, rules: Rules, *, is_overflow: bool
) -> EndDecision | Rejection:
    """Decide about a repeated EndTxn, of a producer that did not get the reply and still has the
    old epoch.
    """
    rule = "end.v5.overflow-retry" if is_overflow else _V2_RETRY_RULES[txn.state, command.committed]
    if _agrees(txn, command):
        return Decision(reply=_identity(txn), rule=rule)
    if command.committed and rules.late_commit_is_fenced:
        # KAFKA-20785: the timeout came first
        return fencing_rejection(txn, command.producer_epoch, rule)
    return _invalid_state(txn, command, rule)


def _wrong_epoch(state: TransactionState) -> str:
    if state is _ONGOING:
        return "end.v5.open-wrong-epoch"
    return "end.v5.empty-wrong-epoch" if state is _EMPTY else "end.v5.complete-wrong-epoch"


def _is_stuck(rules: Rules) -> bool:
    """Whether an abort at the last epoch fails, as before KAFKA-20090."""
    return not rules.last_epoch_recovers


def _fence_twice(txn: TxnMetadata, now_ms: int, rules: Rules, rule: str) -> EndDecision | Rejection:
    """Abort as before KAFKA-19367: the fence raises the epoch, and the end after it raises it
    again.
    """
    fence_epoch = fence_epoch_of(txn, rules)
    if fence_epoch == PRODUCER_EPOCH_MAX:
        return _no_epoch_left(txn)
    return _end(
        to_prepared_v2(txn, committed=False, fresh=None, now_ms=now_ms, fence_epoch=fence_epoch),
        rule,
    )


def _end_v2(
    txn: TxnMetadata,
    *,
    committed: bool,
    now_ms: int,
    fresh: ProducerId | None,
    rule: str,
) -> EndDecision | NeedsProducerId:
    if is_epoch_exhausted(txn.producer_epoch):
        if fresh is None:
            return NEEDS_PRODUCER_ID
        rule = "end.v5.overflow" if txn.state is _ONGOING else "end.v5.overflow-empty-abort"
    else:
        fresh = None
    return _end(to_prepared_v2(txn, committed=committed, fresh=fresh, now_ms=now_ms), rule)


# Answers


def _end(transition: TxnTransition, rule: str) -> EndDecision:
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
    return Decision(records=(transition,), reply=reply, effects=MARKERS_OWED, rule=rule)


def _identity(txn: TxnMetadata) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id=txn.producer_id, producer_epoch=txn.producer_epoch)


def _agrees(txn: TxnMetadata, command: EndTxn) -> bool:
    """Whether the transaction was ended as the request asks: commit or abort."""
    commits = txn.state is TransactionState.PREPARE_COMMIT or txn.state is _COMPLETE_COMMIT
    return commits == command.committed


def _no_epoch_left(txn: TxnMetadata) -> Rejection:
    """The error if no epoch is left. A real broker throws an IllegalStateException; the client gets
    this error code.
    """
    return Rejection(
        error=ErrorCode.unknown_server_error,
        reason=f"{txn.transactional_id}: no epoch is left after {txn.producer_epoch}",
        rule="end.v5.overflow",
    )


def _invalid_state(txn: TxnMetadata, command: EndTxn, rule: str) -> Rejection:
    result = "commit" if command.committed else "abort"
    return Rejection(
        error=ErrorCode.invalid_txn_state,
        reason=f"{txn.transactional_id}: no {result} from {txn.state.wire_name} "
        f"at epoch {txn.producer_epoch} by epoch {command.producer_epoch}",
        rule=rule,
    )
