"""Adding and verifying partitions, the timers, descriptions."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FOO_0, FOO_1, NOW_MS, STATES, TID, entry, rows
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST
from txnsim.txn.commands import (
    PARTITIONS_ADDED,
    AddPartitions,
    PartitionsVerified,
    TransactionDescription,
    VerifyPartitions,
)
from txnsim.txn.machine import (
    decide_add_partitions,
    decide_expiry,
    decide_verify,
    describe,
    is_timed_out,
)
from txnsim.txn.state import TIMEOUT_NEVER_MS, Tombstone, TransactionState, TxnMetadata
from txnsim.types import (
    Decision,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionVersion,
)

# Requests come from producer 7 at epoch 5, which is what the entry has unless the row says other.
ADD = """
state          | pending        | pid | epoch | partitions | result                      | rule
absent         |                |     |       | new        | invalid_producer_id_mapping | add.unknown-id
Empty          | Empty          | 8   | 9     | new        | concurrent_transactions     | add.pending
Ongoing        | PrepareCommit  |     |       | known      | concurrent_transactions     | add.pending
PrepareCommit  | CompleteCommit | 8   |       | new        | concurrent_transactions     | add.pending
CompleteCommit | Dead           |     |       | new        | concurrent_transactions     | add.pending
Empty          |                | 8   |       | new        | invalid_producer_id_mapping | add.wrong-pid
PrepareAbort   |                | 8   | 9     | new        | invalid_producer_id_mapping | add.wrong-pid
Ongoing        |                |     | 6     | new        | producer_fenced             | add.wrong-epoch
Ongoing        |                |     | 4     | known      | producer_fenced             | add.wrong-epoch
PrepareCommit  |                |     | 6     | new        | producer_fenced             | add.wrong-epoch
PrepareCommit  |                |     |       | known      | concurrent_transactions     | add.prepared
PrepareAbort   |                |     |       | known      | concurrent_transactions     | add.prepared
Ongoing        |                |     |       | known      | nothing written             | add.again
Ongoing        |                |     |       | none       | nothing written             | add.again
Ongoing        |                |     |       | new        | foo-0 foo-1                 | add.more
Ongoing        |                |     |       | both       | foo-0 foo-1                 | add.more
Empty          |                |     |       | new        | foo-1                       | add.opens
CompleteCommit |                |     |       | new        | foo-1                       | add.opens-after-commit
CompleteAbort  |                |     |       | both       | foo-0 foo-1                 | add.opens-after-abort
Empty          |                |     |       | none       |                             | add.nothing
"""  # noqa: E501 - a table
ASKED: dict[str, frozenset[TopicPartition]] = {
    "none": frozenset(),
    "known": frozenset({FOO_0}),
    "new": frozenset({FOO_1}),
    "both": frozenset({FOO_0, FOO_1}),
}


def found(state: str, pending: str, pid: str, epoch: str) -> TxnMetadata | None:
    if state == "absent":
        return None
    return entry(
        STATES[state],
        pending=STATES[pending] if pending else None,
        pid=int(pid or 7),
        epoch=int(epoch or 5),
    )


@pytest.mark.parametrize(
    ("state", "pending", "pid", "epoch", "partitions", "result", "rule"), rows(ADD)
)
def test_adding_partitions(
    state: str, pending: str, pid: str, epoch: str, partitions: str, result: str, rule: str
) -> None:
    command = AddPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(5),
        partitions=ASKED[partitions],
        transaction_version=TransactionVersion.TV_2,
    )
    outcome = decide_add_partitions(
        found(state, pending, pid, epoch), command, now_ms=NOW_MS, rules=LATEST
    )
    assert outcome.rule == rule
    if isinstance(outcome, Rejection):
        assert outcome.error.name == result
        return
    assert outcome.reply is PARTITIONS_ADDED
    assert outcome.effects == ()
    if result == "nothing written":
        assert outcome == Decision(reply=PARTITIONS_ADDED, rule=rule)
        return
    (record,) = outcome.records
    assert record.state is TransactionState.ONGOING
    assert sorted(str(partition) for partition in record.partitions) == result.split()
    assert record.client_version is TransactionVersion.TV_2


VERIFY = """
state          | pending        | pid | epoch | result                                      | rule
absent         |                |     |       | invalid_producer_id_mapping                 | check.unknown-id
Ongoing        |                | 8   | 6     | invalid_producer_id_mapping                 | check.wrong-pid
Ongoing        |                |     | 6     | producer_fenced                             | check.wrong-epoch
Ongoing        |                |     | 4     | producer_fenced                             | check.wrong-epoch
PrepareCommit  | CompleteCommit |     |       | concurrent_transactions                     | check.prepared
PrepareAbort   |                |     |       | concurrent_transactions                     | check.prepared
Ongoing        |                |     |       | none transaction_abortable                  |
Ongoing        | PrepareCommit  |     |       | none transaction_abortable                  |
Empty          |                |     |       | transaction_abortable transaction_abortable |
CompleteCommit |                |     |       | transaction_abortable transaction_abortable |
CompleteAbort  | Ongoing        |     |       | transaction_abortable transaction_abortable |
"""  # noqa: E501 - a table


@pytest.mark.parametrize(("state", "pending", "pid", "epoch", "result", "rule"), rows(VERIFY))
def test_verifying_partitions(
    state: str, pending: str, pid: str, epoch: str, result: str, rule: str
) -> None:
    command = VerifyPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(5),
        partitions=(FOO_0, FOO_1),
    )
    outcome = decide_verify(found(state, pending, pid, epoch), command, rules=LATEST)
    if isinstance(outcome, Rejection):
        assert outcome.error.name == result
        return
    first, second = (ErrorCode[name] for name in result.split())
    assert outcome == PartitionsVerified(results=((FOO_0, first), (FOO_1, second)))


# Timers


@pytest.mark.parametrize("state", TransactionState)
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    txn = entry(state, start_ms=NOW_MS, timeout_ms=10)
    assert is_timed_out(txn, now_ms=NOW_MS + 11, rules=LATEST) is (
        state is TransactionState.ONGOING
    )


@pytest.mark.parametrize(("late_ms", "timed_out"), [(-1, False), (0, False), (1, True)])
def test_a_transaction_lives_for_all_of_its_timeout(late_ms: int, *, timed_out: bool) -> None:
    txn = entry(TransactionState.ONGOING, start_ms=NOW_MS, timeout_ms=10)
    assert is_timed_out(txn, now_ms=NOW_MS + 10 + late_ms, rules=LATEST) is timed_out


def test_a_pending_move_and_two_phase_commit_keep_the_timeout_away() -> None:
    ending = entry(TransactionState.ONGOING, pending=TransactionState.PREPARE_COMMIT)
    patient = entry(TransactionState.ONGOING, timeout_ms=TIMEOUT_NEVER_MS)
    assert not is_timed_out(ending, now_ms=NOW_MS + 10**9, rules=LATEST)
    assert not is_timed_out(patient, now_ms=NOW_MS + 10**12, rules=LATEST)


@pytest.mark.parametrize(
    ("state", "pending", "age_ms", "expires"),
    [
        (TransactionState.EMPTY, None, 100, True),
        (TransactionState.COMPLETE_COMMIT, None, 100, True),
        (TransactionState.COMPLETE_ABORT, None, 100, True),
        (TransactionState.EMPTY, None, 99, False),
        (TransactionState.EMPTY, TransactionState.EMPTY, 100, False),
        (TransactionState.ONGOING, None, 100, False),
        (TransactionState.PREPARE_COMMIT, None, 100, False),
        (TransactionState.PREPARE_ABORT, None, 100, False),
    ],
)
def test_idle_ids_expire(
    state: TransactionState, pending: TransactionState | None, age_ms: int, *, expires: bool
) -> None:
    txn = entry(state, pending=pending, update_ms=NOW_MS - age_ms)
    tombstone = decide_expiry(txn, now_ms=NOW_MS, expiration_ms=100)
    assert tombstone == (Tombstone(transactional_id=TID) if expires else None)


# Descriptions


def test_a_description_shows_committed_fields_whatever_is_pending() -> None:
    txn = entry(
        TransactionState.ONGOING,
        partitions=frozenset({FOO_1, FOO_0}),
        pending=TransactionState.PREPARE_COMMIT,
    )
    assert describe(txn, TID) == TransactionDescription(
        transactional_id=TID,
        state="Ongoing",
        timeout_ms=60_000,
        start_timestamp_ms=NOW_MS - 1_000,
        last_update_timestamp_ms=NOW_MS - 500,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(5),
        partitions=(FOO_0, FOO_1),
    )


def test_an_unknown_id_is_not_described() -> None:
    outcome = describe(None, TID)
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.transactional_id_not_found
