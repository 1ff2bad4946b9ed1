"""The transaction coordinator's machine: every cell, allowed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.txn_entries import FOO_0, FOO_1, FRESH, NOW_MS, STATES, TID, entry, rows
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.settings import Settings
from txnsim.txn.commands import (
    MARKERS_OWED,
    NEEDS_PRODUCER_ID,
    PARTITIONS_ADDED,
    AddPartitions,
    DescribedTxn,
    EndTxn,
    InitProducerId,
    NeedsProducerId,
    PartitionsVerified,
    VerifyPartitions,
)
from txnsim.txn.machine import (
    decide_add_partitions,
    decide_expiry,
    decide_verify,
    describe,
    is_timed_out,
)
from txnsim.txn.machine_end import EndDecision, decide_end_txn, decide_fence
from txnsim.txn.machine_init import InitDecision, check_init_producer_id, decide_init_producer_id
from txnsim.txn.state import TIMEOUT_NEVER_MS, Tombstone, TransactionState, TxnMetadata
from txnsim.types import (
    Decision,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

# EndTxn under both protocols: every cell, allowed and refused.


TV_0, TV_1, TV_2 = TransactionVersion


def end_command(
    producer_id: int, epoch: int, *, committed: bool, version: TransactionVersion = TV_2
) -> EndTxn:
    return EndTxn(
        transactional_id=TID,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        committed=committed,
        transaction_version=version,
    )


def outcome_as_cell(outcome: EndDecision | Rejection | NeedsProducerId) -> str:
    """An outcome as a cell: an error, a repeated success, or the state that is written."""
    if isinstance(outcome, Rejection):
        return outcome.error.name
    assert not isinstance(outcome, NeedsProducerId)
    identity_text = f"{outcome.reply.producer_id}:{outcome.reply.producer_epoch}"
    if not outcome.records:
        assert outcome.effects == ()
        return f"again {identity_text}"
    (record,) = outcome.records
    assert outcome.effects == MARKERS_OWED
    return f"{record.state.wire_name} e{record.producer_epoch} {identity_text}"


def rule_of(outcome: EndDecision | Rejection | NeedsProducerId) -> str:
    """The rule id of docs/rules.md that an outcome names."""
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
            producer_id=int(pid or 7),
            epoch=int(epoch or 5),
            pending_state=STATES[pending] if pending else None,
        )
    for committed, expected_text, rule in ((True, commit, commit_rule), (False, abort, abort_rule)):
        command = end_command(7, 5, committed=committed, version=version)
        outcome = decide_end_txn(txn, command, now_ms=NOW_MS, release_rules=LATEST_RULES)
        assert outcome_as_cell(outcome) == expected_text
        assert rule_of(outcome) == f"end.v4.{rule}"


def test_an_end_under_version_1_is_logged_with_version_0_and_its_epochs() -> None:
    txn = entry(TransactionState.ONGOING, last_epoch=4, next_producer_id=9)
    outcome = decide_end_txn(
        txn,
        end_command(7, 5, committed=True, version=TV_1),
        now_ms=NOW_MS,
        release_rules=LATEST_RULES,
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
    """The decisions on a commit, its retry, an abort and its retry in a state."""
    txn = None if state == "absent" else entry(STATES[state])
    return [
        decide_end_txn(
            txn,
            end_command(7, epoch, committed=committed),
            now_ms=NOW_MS,
            release_rules=LATEST_RULES,
        )
        for committed in (True, False)
        for epoch in (5, 4)
    ]


@pytest.mark.parametrize(("state", "commit", "commit_retry", "abort", "abort_retry"), rows(V2))
def test_every_cell_of_version_2(
    state: str, commit: str, commit_retry: str, abort: str, abort_retry: str
) -> None:
    assert [outcome_as_cell(outcome) for outcome in ends_of(state)] == [
        commit,
        commit_retry,
        abort,
        abort_retry,
    ]


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
    rules = [f"end.v5.{suffix}" for suffix in (commit, commit_retry, abort, abort_retry)]
    assert [rule_of(outcome) for outcome in ends_of(state)] == rules


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
@pytest.mark.parametrize(
    ("state", "pid", "epoch", "pending", "result_text", "rule"), rows(V2_REFUSED)
)
def test_pending_then_producer_id_then_epoch(
    state: str, pid: str, epoch: str, pending: str, result_text: str, rule: str, *, committed: bool
) -> None:
    txn = entry(STATES[state], pending_state=STATES[pending] if pending else None)
    command = end_command(int(pid), int(epoch), committed=committed)
    outcome = decide_end_txn(txn, command, now_ms=NOW_MS, release_rules=LATEST_RULES)
    assert outcome_as_cell(outcome) == result_text
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
    txn = entry(STATES[state], producer_id=1000, epoch=0, previous_producer_id=7)
    for committed, expected_text in ((True, commit), (False, abort)):
        outcome = decide_end_txn(
            txn,
            end_command(7, 32_766, committed=committed),
            now_ms=NOW_MS,
            release_rules=LATEST_RULES,
        )
        assert outcome_as_cell(outcome) == expected_text
        if state.startswith("Complete"):
            assert rule_of(outcome) == "end.v5.overflow-retry"


@pytest.mark.parametrize(
    ("txn", "producer_id", "epoch"),
    [
        (
            entry(
                TransactionState.COMPLETE_COMMIT, producer_id=1000, epoch=0, previous_producer_id=7
            ),
            7,
            32_765,
        ),
        (
            entry(
                TransactionState.COMPLETE_COMMIT, producer_id=1000, epoch=1, previous_producer_id=7
            ),
            7,
            32_766,
        ),
        (
            entry(
                TransactionState.COMPLETE_COMMIT, producer_id=1000, epoch=0, previous_producer_id=6
            ),
            7,
            32_766,
        ),
    ],
)
def test_nothing_else_passes_for_a_retry_over_the_overflow(
    txn: TxnMetadata, producer_id: int, epoch: int
) -> None:
    outcome = decide_end_txn(
        txn,
        end_command(producer_id, epoch, committed=True),
        now_ms=NOW_MS,
        release_rules=LATEST_RULES,
    )
    assert outcome_as_cell(outcome) == "invalid_producer_id_mapping"


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
    command = end_command(7, 32_766, committed=committed)
    assert (
        decide_end_txn(txn, command, now_ms=NOW_MS, release_rules=LATEST_RULES) is NEEDS_PRODUCER_ID
    )
    outcome = decide_end_txn(
        txn, command, now_ms=NOW_MS, fresh_producer_id=FRESH, release_rules=LATEST_RULES
    )
    result_text = "PrepareCommit" if committed else "PrepareAbort"
    assert outcome_as_cell(outcome) == f"{result_text} e32767 1000:0"
    is_open = state is TransactionState.ONGOING
    assert rule_of(outcome) == ("end.v5.overflow" if is_open else "end.v5.overflow-empty-abort")


def test_a_fresh_id_that_is_not_needed_is_not_used() -> None:
    txn = entry(TransactionState.ONGOING)
    outcome = decide_end_txn(
        txn,
        end_command(7, 5, committed=True),
        now_ms=NOW_MS,
        fresh_producer_id=FRESH,
        release_rules=LATEST_RULES,
    )
    assert outcome_as_cell(outcome) == "PrepareCommit e6 7:6"


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


@pytest.mark.parametrize(
    ("level", "epoch", "failed_fence", "written_epoch", "next_pid"), rows(FENCE)
)
def test_a_fence_follows_the_level_of_the_cluster(
    level: str, epoch: str, failed_fence: str, written_epoch: str, next_pid: str
) -> None:
    version = TransactionVersion(int(level[-1]))
    txn = entry(TransactionState.ONGOING, epoch=int(epoch), has_failed_fence=bool(failed_fence))
    outcome = decide_fence(
        txn, finalized_version=version, now_ms=NOW_MS, release_rules=LATEST_RULES
    )
    if int(next_pid) > 0:
        assert isinstance(outcome, NeedsProducerId)
        outcome = decide_fence(
            txn,
            finalized_version=version,
            now_ms=NOW_MS,
            fresh_producer_id=FRESH,
            release_rules=LATEST_RULES,
        )
    assert not isinstance(outcome, NeedsProducerId)
    (record,) = outcome.records
    assert record.state is TransactionState.PREPARE_ABORT
    assert record.producer_epoch == int(written_epoch)
    assert record.next_producer_id == int(next_pid)
    assert record.fences_epoch is (version < TV_2)
    assert record.last_producer_epoch == (-1 if version < TV_2 else int(epoch))
    assert outcome.effects == MARKERS_OWED


@pytest.mark.parametrize(
    ("transaction_version", "by_timeout", "rule"),
    [
        (TV_1, False, "end.v4.fence"),
        (TV_1, True, "timeout.fences-v1"),
        (TV_2, False, "end.v5.fence"),
        (TV_2, True, "timeout.bumps-v2"),
    ],
)
def test_a_fence_names_its_rule(
    transaction_version: TransactionVersion, rule: str, *, by_timeout: bool
) -> None:
    txn = entry(TransactionState.ONGOING)
    outcome = decide_fence(
        txn,
        finalized_version=transaction_version,
        now_ms=NOW_MS,
        is_timeout=by_timeout,
        release_rules=LATEST_RULES,
    )
    assert rule_of(outcome) == rule


def test_replies_are_the_identity_to_go_on_with() -> None:
    outcome = decide_end_txn(
        entry(TransactionState.ONGOING, epoch=32_766),
        end_command(7, 32_766, committed=True),
        now_ms=NOW_MS,
        fresh_producer_id=FRESH,
        release_rules=LATEST_RULES,
    )
    assert not isinstance(outcome, Rejection | NeedsProducerId)
    assert outcome.reply == ProducerIdAndEpoch(producer_id=FRESH, producer_epoch=ProducerEpoch(0))


# InitProducerId: who gets which identity.


def command(
    expected_text: str = "", *, timeout_ms: int = 1_000, enables_two_phase_commit: bool = False
) -> InitProducerId:
    producer_identity = None
    if expected_text:
        pid, epoch = expected_text.split(":")
        producer_identity = ProducerIdAndEpoch(
            producer_id=ProducerId(int(pid)), producer_epoch=ProducerEpoch(int(epoch))
        )
    return InitProducerId(
        transactional_id=TID,
        timeout_ms=timeout_ms,
        expected_identity=producer_identity,
        enable_two_phase_commit=enables_two_phase_commit,
    )


def decide(
    txn: TxnMetadata | None,
    command: InitProducerId,
    *,
    transaction_version: TransactionVersion = TransactionVersion.TV_2,
) -> tuple[InitDecision | Rejection, bool]:
    """Decide an InitProducerId; return the outcome, and whether it used up a producer id."""
    outcome = decide_init_producer_id(
        txn,
        command,
        finalized_version=transaction_version,
        now_ms=NOW_MS,
        release_rules=LATEST_RULES,
    )
    if not isinstance(outcome, NeedsProducerId):
        return outcome, False
    outcome = decide_init_producer_id(
        txn,
        command,
        finalized_version=transaction_version,
        now_ms=NOW_MS,
        fresh_producer_id=FRESH,
        release_rules=LATEST_RULES,
    )
    assert not isinstance(outcome, NeedsProducerId)
    return outcome, True


# Validation, before ownership


@pytest.mark.parametrize(
    ("command", "is_enabled", "error"),
    [
        (InitProducerId(transactional_id=TransactionalId(""), timeout_ms=0), False, 42),
        (command(enables_two_phase_commit=True, timeout_ms=0), False, 53),
        (command(enables_two_phase_commit=True, timeout_ms=0), True, None),
        (InitProducerId(transactional_id=TID, timeout_ms=0, keeps_prepared=True), True, 35),
        (command(timeout_ms=0), False, 50),
        (command(timeout_ms=-1), False, 50),
        (command(timeout_ms=900_001), False, 50),
        (command(timeout_ms=900_000), False, None),
        (command(timeout_ms=1), False, None),
    ],
)
def test_validation_in_order(command: InitProducerId, is_enabled: bool, error: int | None) -> None:
    settings = Settings(transaction_two_phase_commit_enable=is_enabled)
    rejection = check_init_producer_id(command, settings, keeps_prepared=False)
    assert (None if rejection is None else rejection.error) == error


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
@pytest.mark.parametrize(("epoch", "expected_text", "result_text", "rule"), rows(IDLE))
def test_every_row_from_an_idle_state(
    state: str, epoch: str, expected_text: str, result_text: str, rule: str
) -> None:
    txn = entry(STATES[state], epoch=int(epoch), last_epoch=3, previous_producer_id=6)
    outcome, took_id = decide(txn, command(expected_text))
    assert outcome.rule == rule
    if isinstance(outcome, Rejection):
        assert outcome.error.name == result_text
        return
    (record,) = outcome.records
    identity_text = f"{record.producer_id}:{record.producer_epoch}"
    assert f"{identity_text} last {record.last_producer_epoch}" == result_text
    assert took_id is (record.producer_id == FRESH)
    assert outcome.reply == ProducerIdAndEpoch(
        producer_id=record.producer_id, producer_epoch=record.producer_epoch
    )
    assert outcome.effects == ()
    assert (record.state, record.txn_timeout_ms) == (TransactionState.EMPTY, 1_000)
    assert record.prev_producer_id == 7


@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_a_retry_of_a_rotation_is_known_by_the_former_producer_id(epoch: int) -> None:
    rotated_metadata = entry(producer_id=1000, epoch=0, last_epoch=epoch, previous_producer_id=7)
    outcome, _ = decide(rotated_metadata, command(f"7:{epoch}"))
    assert not isinstance(outcome, Rejection)
    assert outcome.rule == "init.rotated-retry"
    assert outcome.reply == ProducerIdAndEpoch(producer_id=FRESH, producer_epoch=ProducerEpoch(0))
    # Its own record makes the new producer id the former one: a second retry is fenced
    second_decision, _ = decide(
        entry(producer_id=1000, epoch=0, last_epoch=epoch, previous_producer_id=1000),
        command(f"7:{epoch}"),
    )
    assert isinstance(second_decision, Rejection)
    assert second_decision.error is ErrorCode.producer_fenced


def test_a_new_id_starts_with_a_fresh_producer_id_at_epoch_0() -> None:
    outcome, took_id = decide(None, command("9:9"))
    assert took_id
    assert not isinstance(outcome, Rejection)
    assert outcome.rule == "init.new"
    (record,) = outcome.records
    assert (record.producer_id, record.prev_producer_id, record.producer_epoch) == (1000, 1000, 0)


def test_two_phase_commit_never_times_out() -> None:
    outcome, _ = decide(entry(), command(enables_two_phase_commit=True))
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


@pytest.mark.parametrize(("state", "pending", "expected_text", "error", "rule"), rows(BUSY))
def test_pending_then_identity_then_state(
    state: str, pending: str, expected_text: str, error: str, rule: str
) -> None:
    txn = entry(STATES[state], pending_state=STATES[pending] if pending else None)
    outcome, _ = decide(txn, command(expected_text))
    assert isinstance(outcome, Rejection)
    assert (outcome.error.name, outcome.rule) == (error, rule)


@pytest.mark.parametrize("expected_text", ["", "7:5", "7:1"])
@pytest.mark.parametrize("transaction_version", TransactionVersion)
def test_an_open_transaction_is_aborted_first_even_by_a_stale_epoch(
    transaction_version: TransactionVersion, expected_text: str
) -> None:
    outcome, took_id = decide(
        entry(TransactionState.ONGOING),
        command(expected_text),
        transaction_version=transaction_version,
    )
    assert not took_id
    assert not isinstance(outcome, Rejection)
    (record,) = outcome.records
    assert (record.state, record.producer_epoch) == (TransactionState.PREPARE_ABORT, 6)
    assert record.client_version == (2 if transaction_version == TransactionVersion.TV_2 else 0)
    assert outcome.effects == MARKERS_OWED
    assert isinstance(outcome.reply, Rejection)
    assert (outcome.rule, outcome.reply.rule) == ("init.open", "init.open")
    assert outcome.reply.error is ErrorCode.concurrent_transactions


def test_fencing_an_exhausted_epoch_takes_a_producer_id_under_version_2() -> None:
    txn = entry(TransactionState.ONGOING, epoch=32_766)
    outcome = decide_init_producer_id(
        txn,
        command(),
        finalized_version=TransactionVersion.TV_2,
        now_ms=NOW_MS,
        release_rules=LATEST_RULES,
    )
    assert outcome is NEEDS_PRODUCER_ID
    fence_decision, _ = decide(txn, command())
    assert not isinstance(fence_decision, Rejection)
    assert fence_decision.records[0].next_producer_id == FRESH


# Adding and verifying partitions, the timers, descriptions.


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


def entry_in_state(state: str, pending: str, pid: str, epoch: str) -> TxnMetadata | None:
    if state == "absent":
        return None
    return entry(
        STATES[state],
        pending_state=STATES[pending] if pending else None,
        producer_id=int(pid or 7),
        epoch=int(epoch or 5),
    )


@pytest.mark.parametrize(
    ("comes_pending_first", "rule"), [(True, "add.pending"), (False, "add.wrong-pid")]
)
def test_a_pending_change_is_seen_before_or_behind_the_identity(
    comes_pending_first: bool, rule: str
) -> None:
    """The pending change is that of an epoch overflow (KAFKA-18660)."""
    outcome = decide_add_partitions(
        entry(TransactionState.ONGOING, pending_state=TransactionState.PREPARE_COMMIT),
        AddPartitions(
            transactional_id=TID,
            producer_id=ProducerId(8),
            producer_epoch=ProducerEpoch(5),
            partitions=frozenset({FOO_0}),
            transaction_version=TransactionVersion.TV_2,
        ),
        now_ms=NOW_MS,
        release_rules=Rules(pending_comes_before_identity=comes_pending_first),
    )
    assert outcome.rule == rule


@pytest.mark.parametrize(
    ("state", "pending", "pid", "epoch", "partitions", "result_text", "rule"), rows(ADD)
)
def test_adding_partitions(
    state: str, pending: str, pid: str, epoch: str, partitions: str, result_text: str, rule: str
) -> None:
    command = AddPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(5),
        partitions=ASKED[partitions],
        transaction_version=TransactionVersion.TV_2,
    )
    outcome = decide_add_partitions(
        entry_in_state(state, pending, pid, epoch),
        command,
        now_ms=NOW_MS,
        release_rules=LATEST_RULES,
    )
    assert outcome.rule == rule
    if isinstance(outcome, Rejection):
        assert outcome.error.name == result_text
        return
    assert outcome.reply is PARTITIONS_ADDED
    assert outcome.effects == ()
    if result_text == "nothing written":
        assert outcome == Decision(reply=PARTITIONS_ADDED, rule=rule)
        return
    (record,) = outcome.records
    assert record.state is TransactionState.ONGOING
    assert sorted(str(partition) for partition in record.partitions) == result_text.split()
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


@pytest.mark.parametrize(("state", "pending", "pid", "epoch", "result_text", "rule"), rows(VERIFY))
def test_verifying_partitions(
    state: str, pending: str, pid: str, epoch: str, result_text: str, rule: str
) -> None:
    command = VerifyPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(5),
        partitions=(FOO_0, FOO_1),
    )
    outcome = decide_verify(
        entry_in_state(state, pending, pid, epoch), command, release_rules=LATEST_RULES
    )
    if isinstance(outcome, Rejection):
        assert outcome.error.name == result_text
        return
    first_error, second_error = (ErrorCode[name] for name in result_text.split())
    assert outcome == PartitionsVerified(
        partition_errors=((FOO_0, first_error), (FOO_1, second_error))
    )


# Timers


@pytest.mark.parametrize("state", TransactionState)
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    txn = entry(state, start_ms=NOW_MS, timeout_ms=10)
    assert is_timed_out(txn, now_ms=NOW_MS + 11, release_rules=LATEST_RULES) is (
        state is TransactionState.ONGOING
    )


@pytest.mark.parametrize(("late_ms", "has_timed_out"), [(-1, False), (0, False), (1, True)])
def test_a_transaction_lives_for_all_of_its_timeout(late_ms: int, *, has_timed_out: bool) -> None:
    txn = entry(TransactionState.ONGOING, start_ms=NOW_MS, timeout_ms=10)
    assert (
        is_timed_out(txn, now_ms=NOW_MS + 10 + late_ms, release_rules=LATEST_RULES) is has_timed_out
    )


def test_a_pending_move_keeps_the_timeout_away() -> None:
    ending_metadata = entry(TransactionState.ONGOING, pending_state=TransactionState.PREPARE_COMMIT)
    assert not is_timed_out(ending_metadata, now_ms=NOW_MS + 10**9, release_rules=LATEST_RULES)


# A millisecond less is a timeout like any other.
@pytest.mark.parametrize(
    ("timeout_ms", "has_timed_out"), [(TIMEOUT_NEVER_MS, False), (TIMEOUT_NEVER_MS - 1, True)]
)
def test_the_longest_timeout_is_never_over(timeout_ms: int, *, has_timed_out: bool) -> None:
    txn = entry(TransactionState.ONGOING, start_ms=NOW_MS, timeout_ms=timeout_ms)
    assert is_timed_out(txn, now_ms=NOW_MS + 10**12, release_rules=LATEST_RULES) is has_timed_out


@pytest.mark.parametrize(
    ("state", "pending_state", "age_ms", "has_expired"),
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
    state: TransactionState,
    pending_state: TransactionState | None,
    age_ms: int,
    *,
    has_expired: bool,
) -> None:
    txn = entry(state, pending_state=pending_state, update_ms=NOW_MS - age_ms)
    tombstone = decide_expiry(txn, now_ms=NOW_MS, expiration_ms=100)
    assert tombstone == (Tombstone(transactional_id=TID) if has_expired else None)


# Descriptions


def test_a_description_shows_committed_fields_whatever_is_pending() -> None:
    txn = entry(
        TransactionState.ONGOING,
        partitions=frozenset({FOO_1, FOO_0}),
        pending_state=TransactionState.PREPARE_COMMIT,
    )
    assert describe(txn, TID) == DescribedTxn(
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
