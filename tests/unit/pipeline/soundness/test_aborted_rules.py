"""Aborted transactions against their index."""

from __future__ import annotations

from txnsim.log.txn_index import AbortedTxn
from txnsim.pipeline.soundness.aborted_rules import judge_aborted
from txnsim.pipeline.soundness.violations import Invariant


def aborted(first: int, marker: int, stable: int = 0, producer_id: int = 7) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer_id,
        first_offset=first,
        last_offset=marker,
        last_stable_offset=stable or marker + 1,
    )


def rules(
    index: list[AbortedTxn], expected: list[AbortedTxn], blind_below: int = 0
) -> list[Invariant]:
    return [
        one.rule
        for one in judge_aborted(index, expected, file="f.txnindex", blind_below=blind_below)
    ]


def test_an_index_has_what_was_aborted() -> None:
    assert rules([aborted(3, 5)], [aborted(3, 5)]) == []
    assert rules([], [aborted(3, 5)]) == [Invariant.ABORTED_MISSING]
    assert rules([aborted(3, 5)], []) == [Invariant.ABORTED_EXTRA]
    assert rules([aborted(3, 5, 4)], [aborted(3, 5)]) == [Invariant.ABORTED_DIFFERS]
    assert rules([aborted(3, 5, producer_id=8)], [aborted(3, 5)]) == [Invariant.ABORTED_DIFFERS]


def test_what_reaches_back_to_where_nobody_knows_is_left_alone() -> None:
    assert rules([aborted(3, 15)], [], 10) == []
    assert rules([aborted(12, 15, 9)], [aborted(12, 15)], 10) == []
    assert rules([aborted(12, 15)], [], 10) == [Invariant.ABORTED_EXTRA]
