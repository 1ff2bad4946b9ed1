"""What producers do in a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.spark.soundness.walked import facts
from txnsim.log.txn_index import AbortedTxn
from txnsim_spark.scan import kernel
from txnsim_spark.soundness._producer_rules import Producers, Row
from txnsim_spark.soundness._segment_walk import with_what_goes_on
from txnsim_spark.soundness.violations import Findings, Invariant

DAY_MS = 86_400_000
ABORT, COMMIT = 0, 1


def data(
    offset: int, sequence: int, *, pid: int = 7, epoch: int = 0, at_ms: int = 0, txn: bool = True
) -> Row:
    return _row(offset, pid, epoch, at_ms, 0x10 if txn else 0, sequence, -1, -1)


def marker(
    offset: int, kind: int = COMMIT, *, pid: int = 7, epoch: int = 0, coordinator: int = 0
) -> Row:
    return _row(offset, pid, epoch, 0, 0x30, -1, kind, coordinator)


def _row(offset: int, pid: int, epoch: int, at_ms: int, attributes: int, *last: int) -> Row:
    sequence, kind, coordinator = last
    return [
        *(100 * offset, 100, offset, offset, 0, 0, attributes, at_ms, at_ms),
        *(pid, epoch, sequence, 1, kind, coordinator, 0),
    ]


CASES: list[tuple[str, list[Row], list[tuple[Invariant, int]]]] = [
    ("the first batch goes on from anywhere", [data(0, 17), marker(1)], []),
    ("sequences begin anew in an epoch", [data(0, 0), data(1, 1), data(2, 0, epoch=1)], []),
    ("a sequence is left out", [data(0, 0), data(1, 5)], [(Invariant.SEQUENCE, 1)]),
    (
        "a new epoch begins in the middle",
        [data(0, 0), data(1, 3, epoch=2)],
        [(Invariant.SEQUENCE, 1)],
    ),
    ("it was silent for a day", [data(0, 0), data(1, 7, at_ms=DAY_MS)], []),
    (
        "an epoch goes back",
        [data(0, 0, epoch=3), data(1, 1, epoch=2)],
        [(Invariant.PRODUCER_EPOCH, 1)],
    ),
    (
        "a marker of an older epoch",
        [data(0, 0, epoch=3), marker(1, epoch=2)],
        [(Invariant.PRODUCER_EPOCH, 1)],
    ),
    (
        "a coordinator's epoch goes back",
        [data(0, 0), marker(1, coordinator=9), data(2, 1), marker(3, coordinator=7)],
        [(Invariant.COORDINATOR_EPOCH, 3)],
    ),
    (
        "a batch outside of the open transaction",
        [data(0, 0), data(1, 1, txn=False)],
        [(Invariant.OUTSIDE_TRANSACTION, 1)],
    ),
    (
        "markers that end nothing",
        [marker(0), marker(1)],
        [(Invariant.IDLE_MARKER, 0), (Invariant.IDLE_MARKER, 1)],
    ),
    (
        "behind a marker of a new epoch sequences begin at 0",
        [data(0, 0), marker(1, epoch=2), data(2, 5, epoch=2)],
        [(Invariant.SEQUENCE, 2)],
    ),
    ("behind a marker of its epoch they go on", [data(0, 0), marker(1), data(2, 1)], []),
    (
        "also where what was written before is not known",
        [marker(0), data(1, 5), data(2, 9)],
        [(Invariant.IDLE_MARKER, 0), (Invariant.SEQUENCE, 2)],
    ),
]


@pytest.mark.parametrize(
    ("rows", "expected"), [one[1:] for one in CASES], ids=[c[0] for c in CASES]
)
def test_what_a_leader_would_have_refused_is_found(
    tmp_path: Path, rows: list[Row], expected: list[tuple[Invariant, int]]
) -> None:
    assert found(Producers(facts(tmp_path)), rows) == expected


def found(producers: Producers, rows: list[Row]) -> list[tuple[Invariant, int | None]]:
    broken = Findings("f.log")
    for row in rows:
        producers.take(row, broken)
    return [(one.rule, one.offset) for one in broken.all()]


def test_coordinators_write_without_sequences(tmp_path: Path) -> None:
    theirs = Producers(facts(tmp_path, topic="__consumer_offsets"))
    assert found(theirs, [data(0, 0), data(1, 0)]) == []


def test_where_the_past_is_not_known_a_first_marker_may_end_something(tmp_path: Path) -> None:
    blind = Producers(facts(tmp_path), is_blind=True)
    assert found(blind, [marker(0), marker(1)]) == [(Invariant.IDLE_MARKER, 1)]


def test_an_abort_knows_since_when_others_are_open(tmp_path: Path) -> None:
    producers = Producers(facts(tmp_path))
    opened = [data(0, 0, pid=1), data(1, 0, pid=2)]
    found(producers, [*opened, marker(2, ABORT, pid=1), marker(3, ABORT, pid=2)])
    found(producers, [marker(4, ABORT, pid=3)])
    assert producers.aborted == [
        AbortedTxn(producer_id=1, first_offset=0, last_offset=2, last_stable_offset=1),
        AbortedTxn(producer_id=2, first_offset=1, last_offset=3, last_stable_offset=4),
    ]


def test_a_state_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    rows = [data(0, 0), data(1, 1), marker(2), data(3, 2), data(4, 3)]
    whole, first = Producers(facts(tmp_path)), Producers(facts(tmp_path))
    assert found(whole, rows) == found(first, rows[:4]) == []
    second = Producers(facts(tmp_path), first.state.to_snapshot())
    assert found(second, rows[4:]) == []
    assert second.state.to_snapshot() == whole.state.to_snapshot()


def test_batches_that_go_on_one_after_the_other_are_known() -> None:
    rows = [
        *(data(0, 5), data(1, 0, pid=8), data(2, 6), data(3, 2, pid=8), data(4, 7, txn=False)),
        *(data(5, 8, epoch=1), marker(6), data(7, (1 << 31) - 1, pid=9), data(8, 0, pid=9)),
    ]
    table = np.array([row[: kernel.BATCH_COLUMNS] for row in rows], dtype=np.int64).T
    goes_on = with_what_goes_on(table)[-1]
    assert np.flatnonzero(goes_on).tolist() == [2, 8]
