"""Snapshots and indexes of aborted transactions against the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txnsim.log.producer_state import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim_spark.soundness._kept_rules import judge_aborted, judge_snapshot
from txnsim_spark.soundness.violations import Invariant

DAY_MS = 86_400_000


def aborted(first: int, marker: int, stable: int = 0, producer_id: int = 7) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer_id,
        first_offset=first,
        last_offset=marker,
        last_stable_offset=stable or marker + 1,
    )


@pytest.mark.parametrize(
    ("index", "expected", "blind_below", "rules"),
    [
        ([aborted(3, 5)], [aborted(3, 5)], 0, []),
        ([], [aborted(3, 5)], 0, [Invariant.ABORTED_MISSING]),
        ([aborted(3, 5)], [], 0, [Invariant.ABORTED_EXTRA]),
        ([aborted(3, 5, 4)], [aborted(3, 5)], 0, [Invariant.ABORTED_DIFFERS]),
        ([aborted(3, 5, producer_id=8)], [aborted(3, 5)], 0, [Invariant.ABORTED_DIFFERS]),
        # What reaches back to where nobody knows is left alone.
        ([aborted(3, 15)], [], 10, []),
        ([aborted(12, 15, 9)], [aborted(12, 15)], 10, []),
        ([aborted(12, 15)], [], 10, [Invariant.ABORTED_EXTRA]),
    ],
)
def test_an_index_has_what_was_aborted(
    index: list[AbortedTxn], expected: list[AbortedTxn], blind_below: int, rules: list[Invariant]
) -> None:
    found = judge_aborted(index, expected, file="f.txnindex", blind_below=blind_below)
    assert [one.rule for one in found] == rules


def entry(producer_id: int = 7, *, opened: int = -1, at_ms: int = 50) -> SnapshotEntry:
    return SnapshotEntry(
        producer_id=producer_id,
        producer_epoch=1,
        last_sequence=4,
        last_offset=20,
        offset_delta=1,
        timestamp=at_ms,
        coordinator_epoch=0,
        txn_first_offset=opened,
    )


EMPTIED = SnapshotEntry(
    producer_id=9,
    producer_epoch=-1,
    last_sequence=-1,
    last_offset=-1,
    offset_delta=0,
    timestamp=-1,
    coordinator_epoch=-1,
    txn_first_offset=-1,
)
NONE = "producer 7: no such producer"


@pytest.mark.parametrize(
    ("entries", "expected", "judged_from", "found"),
    [
        ([entry()], [entry()], 0, []),
        ([entry(opened=3)], [entry()], 0, ["producer 7: txn_first_offset 3"]),
        ([entry(opened=3)], [entry()], 21, []),
        # A producer that is missing may have expired, unless its transaction is open.
        ([], [entry(at_ms=0)], 0, []),
        ([], [entry(at_ms=1)], 0, [NONE]),
        ([], [entry(at_ms=DAY_MS + 1)], 0, []),  # the file was copied without its time
        ([], [entry(at_ms=0, opened=3)], 0, [NONE]),
        # What only the snapshot knows was deleted.
        ([entry()], [], 21, []),
        ([entry()], [], 20, ["producer 7 with a batch at offset 20"]),
        ([EMPTIED], [], 0, []),
    ],
)
def test_a_snapshot_says_what_the_log_leads_to(
    tmp_path: Path,
    entries: list[SnapshotEntry],
    expected: list[SnapshotEntry],
    judged_from: int,
    found: list[str],
) -> None:
    path = tmp_path / "00000000000000000030.snapshot"
    path.touch()
    os.utime(path, (DAY_MS // 1_000, DAY_MS // 1_000))
    told = judge_snapshot(
        entries,
        expected,
        {7: 20},
        offset=30,
        path=path,
        judged_from=judged_from,
        expiration_ms=DAY_MS,
    )
    assert [broken.found for broken in told] == found
