"""The table of moves, and what may change in each."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FOO_0, FOO_1, NOW_MS, STATES, VERSIONS, entry, rows
from txnsim.errors import InvariantViolation
from txnsim.txn.state import VALID_PREVIOUS_STATES, TransactionState, TxnTransition
from txnsim.txn.transitions import (
    begin,
    check_complete,
    is_epoch_exhausted,
    to_complete,
    to_empty,
    to_ongoing,
    to_prepared_v2,
)
from txnsim.types import NO_PRODUCER_EPOCH, ProducerEpoch, ProducerId, TransactionVersion

# y: allowed; 2: only under version 2 of the protocol
MOVES = """
to \\ from         | Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | Dead | PrepareEpochFence
Empty             |   y   |         |               |              |       y        |       y       |      |
Ongoing           |   y   |    y    |               |              |       y        |       y       |      |
PrepareCommit     |       |    y    |               |              |                |               |      |
PrepareAbort      |   2   |    y    |               |              |       2        |       2       |      |         y
CompleteCommit    |       |         |       y       |              |                |               |      |
CompleteAbort     |       |         |               |      y       |                |               |      |
Dead              |   y   |         |               |              |       y        |       y       |      |
PrepareEpochFence |       |    y    |               |              |                |               |      |
"""  # noqa: E501 - a table
COLUMNS = [
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort",
    "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
]  # fmt: skip
CELLS = [
    (version, target, source, cell == "y" or (cell == "2" and version == "TV2"))
    for version in VERSIONS
    for target, *cells in rows(MOVES)
    for source, cell in zip(COLUMNS, cells, strict=True)
]


def transition(state: TransactionState, **fields: object) -> TxnTransition:
    transition_fields: dict[str, object] = {
        "transactional_id": "txn-1",
        "producer_id": 7,
        "prev_producer_id": 7,
        "next_producer_id": -1,
        "producer_epoch": 5,
        "last_producer_epoch": -1,
        "txn_timeout_ms": 60_000,
        "state": state,
        "partitions": frozenset(),
        "start_timestamp_ms": -1,
        "last_update_timestamp_ms": NOW_MS,
        "client_version": TransactionVersion.TV_2,
        **fields,
    }
    return TxnTransition(**transition_fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "target", "source", "is_allowed"), CELLS)
def test_every_cell_of_the_table(
    version: str, target: str, source: str, *, is_allowed: bool
) -> None:
    move = transition(STATES[target], client_version=VERSIONS[version])
    assert (
        STATES[source] in VALID_PREVIOUS_STATES[VERSIONS[version]][STATES[target]]
    ) is is_allowed
    if is_allowed:
        begin(entry(STATES[source]), move, now_ms=NOW_MS)
    else:
        with pytest.raises(InvariantViolation, match=f"no move from {source} to {target}"):
            begin(entry(STATES[source]), move, now_ms=NOW_MS)


def test_states_have_the_ids_and_names_of_the_log() -> None:
    assert [(state.value, state.wire_name) for state in TransactionState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


@pytest.mark.parametrize(
    ("epoch", "is_exhausted"), [(32_765, False), (32_766, True), (32_767, True)]
)
def test_an_epoch_is_exhausted_one_before_the_last(epoch: int, *, is_exhausted: bool) -> None:
    assert is_epoch_exhausted(epoch) is is_exhausted


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"producer_id": -1}, "illegal new producer id -1"),
        ({"producer_epoch": -1}, "illegal new producer epoch -1"),
    ],
)
def test_a_move_needs_an_identity(fields: dict[str, int], complaint: str) -> None:
    with pytest.raises(InvariantViolation, match=complaint):
        begin(entry(), transition(TransactionState.EMPTY, **fields), now_ms=NOW_MS)


def test_a_move_is_refused_while_another_is_pending() -> None:
    with pytest.raises(InvariantViolation, match="cannot begin Empty while Ongoing is pending"):
        begin(
            entry(pending_state=TransactionState.ONGOING),
            transition(TransactionState.EMPTY),
            now_ms=NOW_MS,
        )


# Completion: what each target may differ in

OPEN = entry(TransactionState.ONGOING, pending_state=TransactionState.ONGOING)
ENDING = entry(TransactionState.ONGOING, pending_state=TransactionState.PREPARE_COMMIT)
ABORTING_IDLE = entry(
    TransactionState.COMPLETE_COMMIT, pending_state=TransactionState.PREPARE_ABORT
)
ENDED = entry(
    TransactionState.PREPARE_COMMIT,
    epoch=6,
    last_epoch=5,
    pending_state=TransactionState.COMPLETE_COMMIT,
)
NEW_SESSION = entry(TransactionState.COMPLETE_COMMIT, pending_state=TransactionState.EMPTY)

_ONGOING = {"partitions": frozenset({FOO_0}), "start_timestamp_ms": NOW_MS - 1_000}
_PREPARE = {**_ONGOING, "producer_epoch": 6, "last_producer_epoch": 5}
_V1 = {**_ONGOING, "client_version": TransactionVersion.TV_0}
_COMPLETE = {"start_timestamp_ms": NOW_MS, "producer_epoch": 6, "last_producer_epoch": 5}
_OVERFLOW = {**_COMPLETE, "producer_id": 1000, "producer_epoch": 0}
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(
    ("txn", "state", "fields"),
    [
        (NEW_SESSION, EMPTY, {}),
        (NEW_SESSION, EMPTY, {"producer_epoch": 6}),
        (NEW_SESSION, EMPTY, {"producer_id": 9, "producer_epoch": 0}),
        (OPEN, ONGOING, _ONGOING),
        (OPEN, ONGOING, {**_ONGOING, "partitions": frozenset({FOO_0, FOO_1})}),
        (ENDING, PREPARE_COMMIT, _PREPARE),
        (ENDING, PREPARE_COMMIT, _V1),
        (ABORTING_IDLE, PREPARE_ABORT, {"producer_epoch": 6, "last_producer_epoch": 5}),
        (ENDED, COMPLETE_COMMIT, _COMPLETE),
        (ENDED, COMPLETE_COMMIT, _OVERFLOW),
    ],
)
def test_sound_completions_pass(
    txn: object, state: TransactionState, fields: dict[str, object]
) -> None:
    check_complete(txn, transition(state, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("txn", "state", "fields"),
    [
        (NEW_SESSION, EMPTY, {"producer_epoch": 7}),
        (NEW_SESSION, EMPTY, {"producer_id": 9, "producer_epoch": 1}),
        (NEW_SESSION, EMPTY, {"partitions": frozenset({FOO_0})}),
        (NEW_SESSION, EMPTY, {"start_timestamp_ms": NOW_MS}),
        (OPEN, ONGOING, {**_ONGOING, "producer_id": 8}),
        (OPEN, ONGOING, {**_ONGOING, "producer_epoch": 6}),
        (OPEN, ONGOING, {**_ONGOING, "txn_timeout_ms": 1}),
        (OPEN, ONGOING, {**_ONGOING, "partitions": frozenset({FOO_1})}),
        (ENDING, PREPARE_COMMIT, {**_PREPARE, "producer_id": 8}),
        (ENDING, PREPARE_COMMIT, {**_PREPARE, "last_producer_epoch": 6}),
        (ENDING, PREPARE_COMMIT, {**_PREPARE, "partitions": frozenset({FOO_1})}),
        (ENDING, PREPARE_COMMIT, {**_PREPARE, "txn_timeout_ms": 1}),
        (ENDING, PREPARE_COMMIT, {**_PREPARE, "start_timestamp_ms": NOW_MS}),
        (ENDING, PREPARE_COMMIT, {**_V1, "producer_epoch": 6}),
        (ABORTING_IDLE, PREPARE_ABORT, {"client_version": TransactionVersion.TV_1}),
        (ENDED, COMPLETE_COMMIT, {**_COMPLETE, "start_timestamp_ms": -1}),
        (ENDED, COMPLETE_COMMIT, {**_COMPLETE, "txn_timeout_ms": 1}),
        (ENDED, COMPLETE_COMMIT, {**_COMPLETE, "producer_epoch": 5}),
        (ENDED, COMPLETE_COMMIT, {**_COMPLETE, "producer_id": 1000}),
        (ENDED, COMPLETE_COMMIT, {**_OVERFLOW, "prev_producer_id": 1000}),
        (ENDED, COMPLETE_COMMIT, {**_OVERFLOW, "last_producer_epoch": 6}),
        (ENDED, COMPLETE_COMMIT, {**_OVERFLOW, "client_version": TransactionVersion.TV_1}),
    ],
)
def test_unsound_completions_are_breaches(
    txn: object, state: TransactionState, fields: dict[str, object]
) -> None:
    with pytest.raises(InvariantViolation, match="unsound completion"):
        check_complete(txn, transition(state, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE])
def test_states_that_are_only_pending_are_never_completed(state: TransactionState) -> None:
    with pytest.raises(InvariantViolation, match="unsound completion"):
        check_complete(entry(pending_state=state), transition(state))


def test_only_the_pending_move_is_completed() -> None:
    with pytest.raises(InvariantViolation, match="completing Empty, but pending is None"):
        check_complete(entry(), transition(EMPTY))


def test_what_the_targets_compute_passes_both_checks() -> None:
    txn = entry(EMPTY, epoch=32_766)
    session = to_empty(
        entry(COMPLETE_COMMIT),
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(6),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=1_000,
        now_ms=NOW_MS,
    )
    check_complete(begin(entry(COMPLETE_COMMIT), session, now_ms=NOW_MS), session)
    open_transition = to_ongoing(
        txn, partitions=frozenset({FOO_0}), client_version=TransactionVersion.TV_2, now_ms=NOW_MS
    )
    check_complete(begin(txn, open_transition, now_ms=NOW_MS), open_transition)
    open_metadata = entry(ONGOING, epoch=32_766)
    end_transition = to_prepared_v2(
        open_metadata, is_commit=True, fresh_producer_id=ProducerId(1000), now_ms=NOW_MS
    )
    check_complete(begin(open_metadata, end_transition, now_ms=NOW_MS), end_transition)
    prepared_txn = entry(PREPARE_COMMIT, epoch=32_767, last_epoch=32_766, next_producer_id=1000)
    complete_transition = to_complete(prepared_txn, now_ms=NOW_MS)
    check_complete(begin(prepared_txn, complete_transition, now_ms=NOW_MS), complete_transition)
