"""InitProducerId: who gets which identity."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FRESH, NOW_MS, STATES, TID, entry, rows
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST
from txnsim.settings import Settings
from txnsim.txn.commands import (
    MARKERS_OWED,
    NEEDS_PRODUCER_ID,
    InitProducerId,
    NeedsProducerId,
)
from txnsim.txn.machine_init import (
    InitDecision,
    check_init_producer_id,
    decide_init_producer_id,
)
from txnsim.txn.state import TIMEOUT_NEVER_MS, TransactionState, TxnMetadata
from txnsim.types import (
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TransactionalId,
    TransactionVersion,
)


def command(
    expected: str = "", *, timeout_ms: int = 1_000, two_phase: bool = False
) -> InitProducerId:
    identity = None
    if expected:
        pid, epoch = expected.split(":")
        identity = ProducerIdAndEpoch(
            producer_id=ProducerId(int(pid)), producer_epoch=ProducerEpoch(int(epoch))
        )
    return InitProducerId(
        transactional_id=TID,
        timeout_ms=timeout_ms,
        expected=identity,
        enable_two_phase_commit=two_phase,
    )


def decide(
    txn: TxnMetadata | None,
    asked: InitProducerId,
    *,
    level: TransactionVersion = TransactionVersion.TV_2,
) -> tuple[InitDecision | Rejection, bool]:
    """The outcome, and whether it took a producer id."""
    outcome = decide_init_producer_id(txn, asked, finalized=level, now_ms=NOW_MS, rules=LATEST)
    if not isinstance(outcome, NeedsProducerId):
        return outcome, False
    outcome = decide_init_producer_id(
        txn, asked, finalized=level, now_ms=NOW_MS, fresh=FRESH, rules=LATEST
    )
    assert not isinstance(outcome, NeedsProducerId)
    return outcome, True


# Validation, before ownership


@pytest.mark.parametrize(
    ("asked", "enabled", "error"),
    [
        (InitProducerId(transactional_id=TransactionalId(""), timeout_ms=0), False, 42),
        (command(two_phase=True, timeout_ms=0), False, 53),
        (command(two_phase=True, timeout_ms=0), True, None),
        (InitProducerId(transactional_id=TID, timeout_ms=0, keep_prepared=True), True, 35),
        (command(timeout_ms=0), False, 50),
        (command(timeout_ms=-1), False, 50),
        (command(timeout_ms=900_001), False, 50),
        (command(timeout_ms=900_000), False, None),
        (command(timeout_ms=1), False, None),
    ],
)
def test_validation_in_order(asked: InitProducerId, enabled: bool, error: int | None) -> None:
    settings = Settings(transaction_two_phase_commit_enable=enabled)
    refusal = check_init_producer_id(asked, settings)
    assert (None if refusal is None else refusal.error) == error


# Idle states. The entry is producer 7, last epoch 3, former producer 6.
IDLE = """
epoch | expected | result               | rule
5     |          | 7:6 last -1          | init.bump
0     |          | 7:1 last -1          | init.bump
-1    |          | 7:0 last -1          | init.no-epoch-yet
-1    | 9:9      | 7:0 last -1          | init.no-epoch-yet
5     | 7:5      | 7:6 last 5           | init.expected-current
5     | 7:3      | 7:5 last 3           | init.expected-last
5     | 7:4      | producer_fenced      | init.expected-wrong
5     | 7:6      | producer_fenced      | init.expected-wrong
5     | 8:5      | producer_fenced      | init.other-identity
5     | 6:5      | producer_fenced      | init.other-identity
5     | 6:32765  | producer_fenced      | init.other-identity
5     | 6:32766  | producer_fenced      | init.expected-wrong
32765 |          | 7:32766 last -1      | init.bump
32765 | 7:32765  | 7:32766 last 32765   | init.expected-current
32766 |          | 1000:0 last -1       | init.exhausted
32767 |          | 1000:0 last -1       | init.exhausted
32766 | 7:32766  | 1000:0 last 32766    | init.exhausted-expected
32767 | 7:32767  | 1000:0 last 32767    | init.exhausted-expected
32766 | 7:3      | unknown_server_error | init.exhausted-wrong
32766 | 7:32765  | unknown_server_error | init.exhausted-wrong
"""


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
@pytest.mark.parametrize(("epoch", "expected", "result", "rule"), rows(IDLE))
def test_every_row_from_an_idle_state(
    state: str, epoch: str, expected: str, result: str, rule: str
) -> None:
    txn = entry(STATES[state], epoch=int(epoch), last_epoch=3, prev_pid=6)
    outcome, took_id = decide(txn, command(expected))
    assert outcome.rule == rule
    if isinstance(outcome, Rejection):
        assert outcome.error.name == result
        return
    (record,) = outcome.records
    identity = f"{record.producer_id}:{record.producer_epoch}"
    assert f"{identity} last {record.last_producer_epoch}" == result
    assert took_id is (record.producer_id == FRESH)
    assert outcome.reply == ProducerIdAndEpoch(
        producer_id=record.producer_id, producer_epoch=record.producer_epoch
    )
    assert outcome.effects == ()
    assert (record.state, record.txn_timeout_ms) == (TransactionState.EMPTY, 1_000)
    assert record.prev_producer_id == 7


@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_a_retry_of_a_rotation_is_known_by_the_former_producer_id(epoch: int) -> None:
    rotated = entry(pid=1000, epoch=0, last_epoch=epoch, prev_pid=7)
    outcome, _ = decide(rotated, command(f"7:{epoch}"))
    assert not isinstance(outcome, Rejection)
    assert outcome.rule == "init.rotated-retry"
    assert outcome.reply == ProducerIdAndEpoch(producer_id=FRESH, producer_epoch=ProducerEpoch(0))
    # Its own record makes the new producer id the former one: a second retry is fenced
    again, _ = decide(
        entry(pid=1000, epoch=0, last_epoch=epoch, prev_pid=1000), command(f"7:{epoch}")
    )
    assert isinstance(again, Rejection)
    assert again.error is ErrorCode.producer_fenced


def test_a_new_id_starts_with_a_fresh_producer_id_at_epoch_0() -> None:
    outcome, took_id = decide(None, command("9:9"))
    assert took_id
    assert not isinstance(outcome, Rejection)
    assert outcome.rule == "init.new"
    (record,) = outcome.records
    assert (record.producer_id, record.prev_producer_id, record.producer_epoch) == (1000, 1000, 0)


def test_two_phase_commit_never_times_out() -> None:
    outcome, _ = decide(entry(), command(two_phase=True))
    assert not isinstance(outcome, Rejection)
    assert outcome.records[0].txn_timeout_ms == TIMEOUT_NEVER_MS


# Other states

BUSY = """
state          | pending        | expected | error                   | rule
Empty          | Empty          | 8:5      | concurrent_transactions | init.pending
Ongoing        | Ongoing        |          | concurrent_transactions | init.pending
CompleteCommit | Dead           |          | concurrent_transactions | init.pending
PrepareCommit  | CompleteCommit | 8:5      | concurrent_transactions | init.pending
PrepareCommit  |                | 8:5      | producer_fenced         | init.other-identity
PrepareAbort   |                | 8:5      | producer_fenced         | init.other-identity
Ongoing        |                | 8:5      | producer_fenced         | init.other-identity
PrepareCommit  |                |          | concurrent_transactions | init.prepared
PrepareAbort   |                | 7:4      | concurrent_transactions | init.prepared
"""


@pytest.mark.parametrize(("state", "pending", "expected", "error", "rule"), rows(BUSY))
def test_pending_then_identity_then_state(
    state: str, pending: str, expected: str, error: str, rule: str
) -> None:
    txn = entry(STATES[state], pending=STATES[pending] if pending else None)
    outcome, _ = decide(txn, command(expected))
    assert isinstance(outcome, Rejection)
    assert (outcome.error.name, outcome.rule) == (error, rule)


@pytest.mark.parametrize("expected", ["", "7:5", "7:1"])
@pytest.mark.parametrize("level", TransactionVersion)
def test_an_open_transaction_is_aborted_first_even_by_a_stale_epoch(
    level: TransactionVersion, expected: str
) -> None:
    outcome, took_id = decide(entry(TransactionState.ONGOING), command(expected), level=level)
    assert not took_id
    assert not isinstance(outcome, Rejection)
    (record,) = outcome.records
    assert (record.state, record.producer_epoch) == (TransactionState.PREPARE_ABORT, 6)
    assert record.client_version == (2 if level == TransactionVersion.TV_2 else 0)
    assert outcome.effects == MARKERS_OWED
    assert isinstance(outcome.reply, Rejection)
    assert (outcome.rule, outcome.reply.rule) == ("init.open", "init.open")
    assert outcome.reply.error is ErrorCode.concurrent_transactions


def test_fencing_an_exhausted_epoch_takes_a_producer_id_under_version_2() -> None:
    txn = entry(TransactionState.ONGOING, epoch=32_766)
    outcome = decide_init_producer_id(
        txn, command(), finalized=TransactionVersion.TV_2, now_ms=NOW_MS, rules=LATEST
    )
    assert outcome is NEEDS_PRODUCER_ID
    fenced, _ = decide(txn, command())
    assert not isinstance(fenced, Rejection)
    assert fenced.records[0].next_producer_id == FRESH
