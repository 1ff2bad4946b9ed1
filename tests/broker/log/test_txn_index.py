"""TransactionIndex: which aborted transactions a read has to know."""

from __future__ import annotations

import pytest

from txnsim.log.txn_index import AbortedTxn, TxnIndex


def aborted(pid: int, first: int, last: int, stable: int | None = None) -> AbortedTxn:
    return AbortedTxn(
        producer_id=pid,
        first_offset=first,
        last_offset=last,
        last_stable_offset=last + 1 if stable is None else stable,
    )


A = aborted(1, 0, 10)
B = aborted(2, 12, 15)
C = aborted(3, 11, 20)
D = aborted(2, 30, 35)


def index() -> TxnIndex:
    made = TxnIndex()
    for entry in (A, B, C, D):
        made.append(entry)
    return made


@pytest.mark.parametrize(
    ("start", "upper", "found"),
    [
        (0, 100, (A, B, C, D)),
        (0, 5, (A,)),  # its stable offset lies behind the read: the search stops
        (10, 11, (A,)),
        (11, 12, (C,)),  # B begins behind the read, but its stable offset does not allow to stop
        (11, 13, (B, C)),
        (16, 30, (C,)),
        (21, 30, ()),
        (36, 99, ()),
    ],
)
def test_lookup(start: int, upper: int, found: tuple[AbortedTxn, ...]) -> None:
    made = TxnIndex()
    for entry in (A, aborted(2, 12, 15, stable=11), C, D):
        made.append(entry)
    assert [entry.producer_id for entry in made.lookup(start, upper)] == [
        entry.producer_id for entry in found
    ]


@pytest.mark.parametrize(
    ("offset", "kept"), [(36, (A, B, C, D)), (35, (A, B, C)), (15, (A,)), (0, ())]
)
def test_truncation_drops_markers_at_or_above(offset: int, kept: tuple[AbortedTxn, ...]) -> None:
    made = index()
    made.truncate_to(offset)
    assert made.entries() == kept
    assert made.lookup(0, 100) == kept


@pytest.mark.parametrize(("offset", "kept"), [(10, (A, B, C, D)), (11, (B, C, D)), (36, ())])
def test_a_raised_start_drops_markers_below(offset: int, kept: tuple[AbortedTxn, ...]) -> None:
    made = index()
    made.drop_before(offset)
    assert made.entries() == kept
    assert made.lookup(offset, 100) == kept


def test_one_entry_can_be_lost() -> None:
    made = index()
    made.remove(15)
    made.remove(16)
    assert made.entries() == (A, C, D)
    assert [offset for offset in (10, 15, 20, 36) if offset in made] == [10, 20]
    assert made.lookup(0, 100) == (A, C, D)
