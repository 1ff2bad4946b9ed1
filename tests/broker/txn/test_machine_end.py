"""EndTxn under both protocols: every cell, allowed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.txn_entries import FRESH, NOW_MS, STATES, TID, entry, rows
from txnsim.errors import Rejection
from txnsim.releases.rules import LATEST
from txnsim.txn.commands import MARKERS_OWED, NEEDS_PRODUCER_ID, EndTxn, NeedsProducerId
from txnsim.txn.machine_end import EndDecision, decide_end_txn, decide_fence
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import (
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TransactionVersion,
)

TV_0, TV_1, TV_2 = TransactionVersion


def asked(pid: int, epoch: int, *, committed: bool, version: TransactionVersion = TV_2) -> EndTxn:
    return EndTxn(
        transactional_id=TID,
        producer_id=ProducerId(pid),
        producer_epoch=ProducerEpoch(epoch),
        committed=committed,
        transaction_version=version,
    )


def told(outcome: EndDecision | Rejection | NeedsProducerId) -> str:
    """An outcome as a cell: an error, a repeated success, or the state that is written."""
    if isinstance(outcome, Rejection):
        return outcome.error.name
    assert not isinstance(outcome, NeedsProducerId)
    identity = f"{outcome.reply.producer_id}:{outcome.reply.producer_epoch}"
    if not outcome.records:
        assert outcome.effects == ()
        return f"again {identity}"
    (record,) = outcome.records
    assert outcome.effects == MARKERS_OWED
    return f"{record.state.wire_name} e{record.producer_epoch} {identity}"


def rule_of(outcome: EndDecision | Rejection | NeedsProducerId) -> str:
    """The row of docs/rules.md that it names."""
    assert not isinstance(outcome, NeedsProducerId)
    return outcome.rule


# Versions 0 and 1; rules without ``end.v4.``. The request is from producer 7 at epoch 5.
V1 = """
state          | pid | epoch | pending        | commit                      | abort                       | commit rule      | abort rule
absent         |     |       |                | invalid_producer_id_mapping | invalid_producer_id_mapping | unknown-id       | unknown-id
Ongoing        | 8   | 6     | PrepareCommit  | invalid_producer_id_mapping | invalid_producer_id_mapping | wrong-pid        | wrong-pid
Ongoing        |     | 6     | PrepareCommit  | producer_fenced             | producer_fenced             | wrong-epoch      | wrong-epoch
Ongoing        |     | 4     |                | producer_fenced             | producer_fenced             | wrong-epoch      | wrong-epoch
Ongoing        |     |       | Ongoing        | concurrent_transactions     | concurrent_transactions     | pending          | pending
PrepareCommit  |     |       | CompleteCommit | concurrent_transactions     | concurrent_transactions     | pending          | pending
CompleteCommit |     |       | Dead           | concurrent_transactions     | concurrent_transactions     | pending          | pending
Empty          |     |       |                | invalid_txn_state           | invalid_txn_state           | empty-commit     | empty-abort
Ongoing        |     |       |                | PrepareCommit e5 7:5        | PrepareAbort e5 7:5         | commit           | abort
PrepareCommit  |     |       |                | concurrent_transactions     | invalid_txn_state           | prepared-commit  | prepared-commit
PrepareAbort   |     |       |                | invalid_txn_state           | concurrent_transactions     | prepared-abort   | prepared-abort
CompleteCommit |     |       |                | again 7:5                   | invalid_txn_state           | committed-commit | committed-abort
CompleteAbort  |     |       |                | invalid_txn_state           | again 7:5                   | aborted-commit   | aborted-abort
"""  # noqa: E501 - a table


@pytest.mark.parametrize("version", [TV_0, TV_1])
@pytest.mark.parametrize(
    ("state", "pid", "epoch", "pending", "commit", "abort", "commit_rule", "abort_rule"), rows(V1)
)
def test_every_cell_of_versions_0_and_1(
    version: TransactionVersion,
    state: str,
    pid: str,
    epoch: str,
    pending: str,
    commit: str,
    abort: str,
    commit_rule: str,
    abort_rule: str,
) -> None:
    txn = None
    if state != "absent":
        txn = entry(
            STATES[state],
            pid=int(pid or 7),
            epoch=int(epoch or 5),
            pending=STATES[pending] if pending else None,
        )
    for committed, expected, rule in ((True, commit, commit_rule), (False, abort, abort_rule)):
        command = asked(7, 5, committed=committed, version=version)
        outcome = decide_end_txn(txn, command, now_ms=NOW_MS, rules=LATEST)
        assert told(outcome) == expected
        assert rule_of(outcome) == f"end.v4.{rule}"


def test_an_end_under_version_1_is_logged_with_version_0_and_its_epochs() -> None:
    txn = entry(TransactionState.ONGOING, last_epoch=4, next_pid=9)
    outcome = decide_end_txn(
        txn, asked(7, 5, committed=True, version=TV_1), now_ms=NOW_MS, rules=LATEST
    )
    assert not isinstance(outcome, Rejection | NeedsProducerId)
    (record,) = outcome.records
    assert (record.client_version, record.last_producer_epoch, record.next_producer_id) == (
        0,
        4,
        -1,
    )


# Version 2. The entry is producer 7 at epoch 5; "retry" asks with epoch 4, as before the last bump.
V2 = """
state          | commit                      | commit retry            | abort                      | abort retry
absent         | invalid_producer_id_mapping | invalid_producer_id_mapping | invalid_producer_id_mapping | invalid_producer_id_mapping
Empty          | invalid_txn_state           | producer_fenced         | PrepareAbort e6 7:6        | producer_fenced
Ongoing        | PrepareCommit e6 7:6        | producer_fenced         | PrepareAbort e6 7:6        | producer_fenced
PrepareCommit  | producer_fenced             | concurrent_transactions | producer_fenced            | invalid_txn_state
PrepareAbort   | producer_fenced             | invalid_txn_state       | producer_fenced            | concurrent_transactions
CompleteCommit | invalid_txn_state           | again 7:5               | PrepareAbort e6 7:6        | invalid_txn_state
CompleteAbort  | invalid_txn_state           | invalid_txn_state       | PrepareAbort e6 7:6        | again 7:5
"""  # noqa: E501 - a table


def ends_of(state: str) -> list[Any]:
    """Commit, its retry, abort, its retry, all decided in that state."""
    txn = None if state == "absent" else entry(STATES[state])
    return [
        decide_end_txn(txn, asked(7, epoch, committed=committed), now_ms=NOW_MS, rules=LATEST)
        for committed in (True, False)
        for epoch in (5, 4)
    ]


@pytest.mark.parametrize(("state", "commit", "commit_retry", "abort", "abort_retry"), rows(V2))
def test_every_cell_of_version_2(
    state: str, commit: str, commit_retry: str, abort: str, abort_retry: str
) -> None:
    assert [told(one) for one in ends_of(state)] == [commit, commit_retry, abort, abort_retry]


# The same cells: rules without ``end.v5.``
V2_RULES = """
state          | commit           | commit retry           | abort           | abort retry
absent         | unknown-id       | unknown-id             | unknown-id      | unknown-id
Empty          | empty-commit     | empty-wrong-epoch      | empty-abort     | empty-wrong-epoch
Ongoing        | commit           | open-wrong-epoch       | abort           | open-wrong-epoch
PrepareCommit  | prepared         | prepared               | prepared        | prepared
PrepareAbort   | prepared         | prepared               | prepared        | prepared
CompleteCommit | committed-commit | committed-commit-retry | committed-abort | committed-abort-retry
CompleteAbort  | aborted-commit   | aborted-commit-retry   | aborted-abort   | aborted-abort-retry
"""


@pytest.mark.parametrize(
    ("state", "commit", "commit_retry", "abort", "abort_retry"), rows(V2_RULES)
)
def test_every_cell_of_version_2_names_its_rule(
    state: str, commit: str, commit_retry: str, abort: str, abort_retry: str
) -> None:
    rules = [f"end.v5.{one}" for one in (commit, commit_retry, abort, abort_retry)]
    assert [rule_of(one) for one in ends_of(state)] == rules


V2_REFUSED = """
state          | pid | epoch | pending        | result                      | rule
Ongoing        | 8   | 9     | PrepareCommit  | concurrent_transactions     | end.v5.pending
PrepareCommit  | 8   | 0     | CompleteCommit | concurrent_transactions     | end.v5.pending
Empty          | 7   | 5     | Empty          | concurrent_transactions     | end.v5.pending
CompleteAbort  | 7   | 5     | Dead           | concurrent_transactions     | end.v5.pending
Ongoing        | 8   | 5     |                | invalid_producer_id_mapping | end.v5.wrong-pid
CompleteCommit | 8   | 4     |                | invalid_producer_id_mapping | end.v5.wrong-pid
Empty          | 7   | 3     |                | producer_fenced             | end.v5.empty-wrong-epoch
Ongoing        | 7   | 6     |                | producer_fenced             | end.v5.open-wrong-epoch
PrepareCommit  | 7   | 3     |                | producer_fenced             | end.v5.prepared
PrepareAbort   | 7   | 6     |                | producer_fenced             | end.v5.prepared
CompleteCommit | 7   | 3     |                | producer_fenced             | end.v5.complete-wrong-epoch
CompleteAbort  | 7   | 6     |                | producer_fenced             | end.v5.complete-wrong-epoch
"""  # noqa: E501 - a table


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(("state", "pid", "epoch", "pending", "result", "rule"), rows(V2_REFUSED))
def test_pending_then_producer_id_then_epoch(
    state: str, pid: str, epoch: str, pending: str, result: str, rule: str, *, committed: bool
) -> None:
    txn = entry(STATES[state], pending=STATES[pending] if pending else None)
    command = asked(int(pid), int(epoch), committed=committed)
    outcome = decide_end_txn(txn, command, now_ms=NOW_MS, rules=LATEST)
    assert told(outcome) == result
    assert rule_of(outcome) == rule


# Overflow: producer 7 ended at epoch 32766, producer 1000 goes on at epoch 0.
OVERFLOW_RETRY = """
state          | commit            | abort
Empty          | producer_fenced   | producer_fenced
Ongoing        | producer_fenced   | producer_fenced
PrepareCommit  | producer_fenced   | producer_fenced
PrepareAbort   | producer_fenced   | producer_fenced
CompleteCommit | again 1000:0      | invalid_txn_state
CompleteAbort  | invalid_txn_state | again 1000:0
"""


@pytest.mark.parametrize(("state", "commit", "abort"), rows(OVERFLOW_RETRY))
def test_a_retry_over_the_overflow_is_known_by_the_former_producer_id(
    state: str, commit: str, abort: str
) -> None:
    txn = entry(STATES[state], pid=1000, epoch=0, prev_pid=7)
    for committed, expected in ((True, commit), (False, abort)):
        outcome = decide_end_txn(
            txn, asked(7, 32_766, committed=committed), now_ms=NOW_MS, rules=LATEST
        )
        assert told(outcome) == expected
        if state.startswith("Complete"):
            assert rule_of(outcome) == "end.v5.overflow-retry"


@pytest.mark.parametrize(
    ("txn", "pid", "epoch"),
    [
        (entry(TransactionState.COMPLETE_COMMIT, pid=1000, epoch=0, prev_pid=7), 7, 32_765),
        (entry(TransactionState.COMPLETE_COMMIT, pid=1000, epoch=1, prev_pid=7), 7, 32_766),
        (entry(TransactionState.COMPLETE_COMMIT, pid=1000, epoch=0, prev_pid=6), 7, 32_766),
    ],
)
def test_nothing_else_passes_for_a_retry_over_the_overflow(
    txn: TxnMetadata, pid: int, epoch: int
) -> None:
    outcome = decide_end_txn(txn, asked(pid, epoch, committed=True), now_ms=NOW_MS, rules=LATEST)
    assert told(outcome) == "invalid_producer_id_mapping"


@pytest.mark.parametrize(
    ("state", "committed"),
    [
        (TransactionState.ONGOING, True),
        (TransactionState.ONGOING, False),
        (TransactionState.EMPTY, False),
        (TransactionState.COMPLETE_COMMIT, False),
    ],
)
def test_an_exhausted_epoch_needs_the_next_producer_id(
    state: TransactionState, *, committed: bool
) -> None:
    txn = entry(state, epoch=32_766)
    command = asked(7, 32_766, committed=committed)
    assert decide_end_txn(txn, command, now_ms=NOW_MS, rules=LATEST) is NEEDS_PRODUCER_ID
    outcome = decide_end_txn(txn, command, now_ms=NOW_MS, fresh=FRESH, rules=LATEST)
    result = "PrepareCommit" if committed else "PrepareAbort"
    assert told(outcome) == f"{result} e32767 1000:0"
    is_open = state is TransactionState.ONGOING
    assert rule_of(outcome) == ("end.v5.overflow" if is_open else "end.v5.overflow-empty-abort")


def test_a_fresh_id_that_is_not_needed_is_not_used() -> None:
    txn = entry(TransactionState.ONGOING)
    outcome = decide_end_txn(
        txn, asked(7, 5, committed=True), now_ms=NOW_MS, fresh=FRESH, rules=LATEST
    )
    assert told(outcome) == "PrepareCommit e6 7:6"


# Fences

FENCE = """
level | epoch | failed before | written | next pid
TV0   | 5     |               | 6       | -1
TV1   | 5     |               | 6       | -1
TV0   | 6     | yes           | 6       | -1
TV1   | 32766 |               | 32767   | -1
TV1   | 32767 |               | 32767   | -1
TV2   | 5     |               | 6       | -1
TV2   | 32766 |               | 32767   | 1000
TV2   | 32767 |               | 32767   | 1000
"""


@pytest.mark.parametrize(("level", "epoch", "failed", "written", "next_pid"), rows(FENCE))
def test_a_fence_follows_the_level_of_the_cluster(
    level: str, epoch: str, failed: str, written: str, next_pid: str
) -> None:
    version = TransactionVersion(int(level[-1]))
    txn = entry(TransactionState.ONGOING, epoch=int(epoch), failed_fence=bool(failed))
    outcome = decide_fence(txn, finalized=version, now_ms=NOW_MS, rules=LATEST)
    if int(next_pid) > 0:
        assert isinstance(outcome, NeedsProducerId)
        outcome = decide_fence(txn, finalized=version, now_ms=NOW_MS, fresh=FRESH, rules=LATEST)
    assert not isinstance(outcome, NeedsProducerId)
    (record,) = outcome.records
    assert record.state is TransactionState.PREPARE_ABORT
    assert record.producer_epoch == int(written)
    assert record.next_producer_id == int(next_pid)
    assert record.fences_epoch is (version < TV_2)
    assert record.last_producer_epoch == (-1 if version < TV_2 else int(epoch))
    assert outcome.effects == MARKERS_OWED


@pytest.mark.parametrize(
    ("level", "by_timeout", "rule"),
    [
        (TV_1, False, "end.v4.fence"),
        (TV_1, True, "timeout.fences-v1"),
        (TV_2, False, "end.v5.fence"),
        (TV_2, True, "timeout.bumps-v2"),
    ],
)
def test_a_fence_names_its_rule(level: TransactionVersion, rule: str, *, by_timeout: bool) -> None:
    txn = entry(TransactionState.ONGOING)
    outcome = decide_fence(txn, finalized=level, now_ms=NOW_MS, by_timeout=by_timeout, rules=LATEST)
    assert rule_of(outcome) == rule


def test_replies_are_the_identity_to_go_on_with() -> None:
    outcome = decide_end_txn(
        entry(TransactionState.ONGOING, epoch=32_766),
        asked(7, 32_766, committed=True),
        now_ms=NOW_MS,
        fresh=FRESH,
        rules=LATEST,
    )
    assert not isinstance(outcome, Rejection | NeedsProducerId)
    assert outcome.reply == ProducerIdAndEpoch(producer_id=FRESH, producer_epoch=ProducerEpoch(0))
