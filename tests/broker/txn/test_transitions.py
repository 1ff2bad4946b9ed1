"""Begin, apply, withdraw, acknowledge; and the targets of moves."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FOO_0, FOO_1, FRESH, NOW_MS, TID, entry
from txnsim.errors import InvariantViolation
from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.state import Tombstone, TransactionState, TxnRecord
from txnsim.txn.transitions import (
    acknowledge_markers,
    apply,
    begin,
    fence_epoch_of,
    to_complete,
    to_empty,
    to_first,
    to_ongoing,
    to_prepared_v1,
    to_prepared_v2,
    withdraw,
)
from txnsim.types import ProducerEpoch, ProducerId, TopicPartition, TransactionVersion

BURIED = Tombstone(transactional_id=TID)
FIRST = to_first(TID, producer_id=ProducerId(7), timeout_ms=60_000, now_ms=NOW_MS)
OPEN = entry(TransactionState.ONGOING)


# Begin and withdraw


def test_beginning_the_first_session_inserts_an_entry_without_an_epoch() -> None:
    pending_metadata = begin(None, FIRST, now_ms=NOW_MS)
    assert pending_metadata == entry(
        epoch=-1,
        previous_producer_id=-1,
        update_ms=NOW_MS,
        pending_state=TransactionState.EMPTY,
        client_version=TransactionVersion.TV_0,
    )


def test_beginning_changes_nothing_but_what_is_pending() -> None:
    transition = to_prepared_v2(OPEN, is_commit=True, fresh_producer_id=None, now_ms=NOW_MS)
    expected_metadata = entry(
        TransactionState.ONGOING, pending_state=TransactionState.PREPARE_COMMIT
    )
    assert begin(OPEN, transition, now_ms=NOW_MS) == expected_metadata
    assert withdraw(expected_metadata, transition) == OPEN


def test_a_fence_of_version_1_takes_hold_before_it_is_logged_and_is_remembered() -> None:
    fencing_transition = to_prepared_v1(
        OPEN, is_commit=False, now_ms=NOW_MS, fence_epoch=ProducerEpoch(6)
    )
    pending_metadata = begin(OPEN, fencing_transition, now_ms=NOW_MS)
    assert (pending_metadata.producer_epoch, pending_metadata.last_producer_epoch) == (6, -1)
    failed_txn = withdraw(pending_metadata, fencing_transition)
    assert failed_txn == entry(TransactionState.ONGOING, epoch=6, has_failed_fence=True)
    # KAFKA-9666: not raised again
    assert fence_epoch_of(failed_txn, release_rules=LATEST_RULES) == 6


def test_a_withdrawn_move_keeps_the_memory_of_a_failed_fence() -> None:
    failed_txn = entry(TransactionState.ONGOING, has_failed_fence=True)
    transition = to_prepared_v2(failed_txn, is_commit=False, fresh_producer_id=None, now_ms=NOW_MS)
    assert withdraw(begin(failed_txn, transition, now_ms=NOW_MS), transition) == failed_txn


@pytest.mark.parametrize(("epoch", "fence"), [(0, 1), (32_766, 32_767), (32_767, 32_767)])
def test_a_fence_raises_the_epoch_by_one_up_to_the_last(epoch: int, fence: int) -> None:
    assert (
        fence_epoch_of(entry(TransactionState.ONGOING, epoch=epoch), release_rules=LATEST_RULES)
        == fence
    )


@pytest.mark.parametrize(
    "state",
    [
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    ],
)
def test_idle_ids_can_expire(state: TransactionState) -> None:
    pending_metadata = begin(entry(state), BURIED, now_ms=NOW_MS)
    assert pending_metadata == entry(state, pending_state=TransactionState.DEAD)
    assert withdraw(pending_metadata, BURIED) == entry(state)
    assert apply(pending_metadata, BURIED, release_rules=LATEST_RULES) is None


@pytest.mark.parametrize(
    "txn",
    [None, OPEN, entry(pending_state=TransactionState.EMPTY)],
    ids=["absent", "open", "pending"],
)
def test_what_is_not_idle_cannot_expire(txn: object) -> None:
    with pytest.raises(InvariantViolation, match="cannot expire"):
        begin(txn, BURIED, now_ms=NOW_MS)  # type: ignore[arg-type]


# Apply


def test_live_and_loaded_entries_differ_only_in_what_is_not_logged() -> None:
    transition = to_prepared_v2(OPEN, is_commit=False, fresh_producer_id=None, now_ms=NOW_MS)
    live_metadata = apply(
        begin(OPEN, transition, now_ms=NOW_MS), transition, release_rules=LATEST_RULES
    )
    assert live_metadata == apply(None, transition, release_rules=LATEST_RULES)
    assert live_metadata is not None
    assert (
        live_metadata.state,
        live_metadata.producer_epoch,
        live_metadata.last_producer_epoch,
    ) == (
        TransactionState.PREPARE_ABORT,
        6,
        5,
    )


def test_applying_without_a_beginning_is_a_breach() -> None:
    with pytest.raises(InvariantViolation, match="but pending is None"):
        apply(
            OPEN,
            to_prepared_v2(OPEN, is_commit=True, fresh_producer_id=None, now_ms=NOW_MS),
            release_rules=LATEST_RULES,
        )


@pytest.mark.parametrize("is_completion", [False, True])
def test_only_a_completion_forgets_a_failed_fence(*, is_completion: bool) -> None:
    if is_completion:
        txn = entry(TransactionState.PREPARE_ABORT, has_failed_fence=True)
        transition = to_complete(txn, now_ms=NOW_MS)
    else:
        txn = entry(TransactionState.ONGOING, has_failed_fence=True)
        transition = to_prepared_v2(txn, is_commit=False, fresh_producer_id=None, now_ms=NOW_MS)
    applied_metadata = apply(
        begin(txn, transition, now_ms=NOW_MS), transition, release_rules=LATEST_RULES
    )
    assert applied_metadata is not None
    assert applied_metadata.has_failed_epoch_fence is not is_completion


def test_a_commit_too_forgets_a_failed_fence() -> None:
    txn = entry(TransactionState.PREPARE_COMMIT, has_failed_fence=True)
    transition = to_complete(txn, now_ms=NOW_MS)
    applied_metadata = apply(
        begin(txn, transition, now_ms=NOW_MS), transition, release_rules=LATEST_RULES
    )
    assert applied_metadata is not None
    assert not applied_metadata.has_failed_epoch_fence


@pytest.mark.parametrize(
    ("txn", "record"),
    [
        (OPEN, FIRST),
        (entry(TransactionState.PREPARE_COMMIT), FIRST),
        (
            entry(),
            to_prepared_v1(OPEN, is_commit=False, now_ms=NOW_MS),
        ),
    ],
    ids=["open", "prepared", "abort from Empty under version 1"],
)
def test_an_illegal_move_leaves_no_trace(txn: object, record: TxnRecord) -> None:
    repr_before = repr(txn)
    with pytest.raises(InvariantViolation, match="no move from"):
        begin(txn, record, now_ms=NOW_MS)  # type: ignore[arg-type]
    assert repr(txn) == repr_before


# Acknowledgements


@pytest.mark.parametrize(
    ("state", "pending_state"),
    [
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
        (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
    ],
)
def test_acknowledged_partitions_are_taken_off(
    state: TransactionState, pending_state: TransactionState
) -> None:
    both_partitions = frozenset({FOO_0, FOO_1})
    metadata_after = acknowledge_markers(
        entry(state, partitions=both_partitions, pending_state=pending_state), frozenset({FOO_0})
    )
    assert metadata_after == entry(
        state, partitions=frozenset({FOO_1}), pending_state=pending_state
    )


def test_an_unexpected_acknowledgement_is_a_breach() -> None:
    with pytest.raises(InvariantViolation, match="marker acknowledged, none owed"):
        acknowledge_markers(entry(TransactionState.PREPARE_COMMIT), frozenset({FOO_0}))


# Targets


def test_a_new_session_has_neither_partitions_nor_a_start() -> None:
    target_transition = to_empty(
        entry(TransactionState.COMPLETE_COMMIT),
        producer_id=FRESH,
        producer_epoch=ProducerEpoch(0),
        last_producer_epoch=ProducerEpoch(5),
        timeout_ms=1,
        now_ms=NOW_MS,
    )
    assert apply(None, target_transition, release_rules=LATEST_RULES) == entry(
        producer_id=1000,
        previous_producer_id=7,
        epoch=0,
        last_epoch=5,
        timeout_ms=1,
        update_ms=NOW_MS,
    )


@pytest.mark.parametrize(
    ("state", "start_ms", "partitions"),
    [
        (TransactionState.EMPTY, NOW_MS, {FOO_1}),
        (TransactionState.COMPLETE_COMMIT, NOW_MS, {FOO_1}),
        (TransactionState.COMPLETE_ABORT, NOW_MS, {FOO_1}),
        (TransactionState.ONGOING, NOW_MS - 1_000, {FOO_0, FOO_1}),
    ],
)
def test_the_first_partition_starts_the_transaction(
    state: TransactionState, start_ms: int, partitions: set[TopicPartition]
) -> None:
    target_transition = to_ongoing(
        entry(state),
        partitions=frozenset({FOO_1}),
        client_version=TransactionVersion.TV_0,
        now_ms=NOW_MS,
    )
    assert (target_transition.start_timestamp_ms, target_transition.partitions) == (
        start_ms,
        frozenset(partitions),
    )
    assert target_transition.client_version is TransactionVersion.TV_0


@pytest.mark.parametrize(
    ("epoch", "committed", "fresh_id", "to_epoch", "next_producer_id"),
    [
        (5, True, None, 6, -1),
        (5, False, None, 6, -1),
        (32_766, True, FRESH, 32_767, 1000),
        (32_766, False, FRESH, 32_767, 1000),
        (32_767, False, FRESH, 32_767, 1000),
    ],
)
def test_an_end_under_version_2_bumps_the_epoch(
    epoch: int, committed: bool, fresh_id: ProducerId | None, to_epoch: int, next_producer_id: int
) -> None:
    target_transition = to_prepared_v2(
        entry(TransactionState.ONGOING, epoch=epoch),
        is_commit=committed,
        fresh_producer_id=fresh_id,
        now_ms=NOW_MS,
    )
    assert target_transition.producer_epoch == to_epoch
    assert target_transition.last_producer_epoch == epoch
    assert target_transition.next_producer_id == next_producer_id


def test_an_empty_abort_starts_when_it_ends() -> None:
    target_transition = to_prepared_v2(
        entry(), is_commit=False, fresh_producer_id=None, now_ms=NOW_MS
    )
    assert target_transition.start_timestamp_ms == NOW_MS


def test_completion_keeps_the_start_and_hands_over_on_overflow() -> None:
    prepared_txn = entry(
        TransactionState.PREPARE_ABORT, epoch=32_767, last_epoch=32_766, next_producer_id=1000
    )
    completed_metadata = apply(
        None, to_complete(prepared_txn, now_ms=NOW_MS), release_rules=LATEST_RULES
    )
    assert completed_metadata == entry(
        TransactionState.COMPLETE_ABORT,
        producer_id=1000,
        previous_producer_id=7,
        epoch=0,
        last_epoch=32_766,
        update_ms=NOW_MS,
    )


def test_a_next_producer_id_means_nothing_under_version_1() -> None:
    prepared_txn = entry(
        TransactionState.PREPARE_COMMIT,
        next_producer_id=1000,
        client_version=TransactionVersion.TV_0,
    )
    assert to_complete(prepared_txn, now_ms=NOW_MS).producer_id == 7


def test_only_a_prepared_transaction_is_completed() -> None:
    with pytest.raises(InvariantViolation, match="cannot complete Ongoing"):
        to_complete(OPEN, now_ms=NOW_MS)


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_under_version_1_keeps_the_epoch_before(committed: bool) -> None:
    txn = entry(TransactionState.ONGOING, epoch=5, last_epoch=4)
    end_transition = to_prepared_v1(txn, is_commit=committed, now_ms=NOW_MS)
    assert (end_transition.producer_epoch, end_transition.last_producer_epoch) == (5, 4)
    assert end_transition.state is (
        TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    )
    fenced_transition = to_prepared_v1(
        txn, is_commit=False, now_ms=NOW_MS, fence_epoch=ProducerEpoch(6)
    )
    assert (fenced_transition.producer_epoch, fenced_transition.last_producer_epoch) == (6, -1)
    assert (end_transition.fences_epoch, fenced_transition.fences_epoch) == (False, True)


def test_a_lost_fence_is_remembered() -> None:
    """A later record that could not be written does not clear ``has_failed_epoch_fence``."""
    txn = entry(TransactionState.ONGOING, pending_state=TransactionState.PREPARE_ABORT)
    end_transition = to_prepared_v1(txn, is_commit=False, now_ms=NOW_MS)
    fenced_transition = to_prepared_v1(
        txn, is_commit=False, now_ms=NOW_MS, fence_epoch=ProducerEpoch(6)
    )
    tombstone = Tombstone(transactional_id=TID)
    for record, knows_fence in (
        (end_transition, False),
        (tombstone, False),
        (fenced_transition, True),
    ):
        withdrawn_metadata = withdraw(txn, record)
        assert (withdrawn_metadata.pending_state, withdrawn_metadata.has_failed_epoch_fence) == (
            None,
            knows_fence,
        )
    metadata_after_fence = withdraw(txn, fenced_transition)
    for record in (end_transition, tombstone):
        assert withdraw(metadata_after_fence, record).has_failed_epoch_fence
