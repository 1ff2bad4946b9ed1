"""Which markers a cleaner may drop, and whose records."""

from __future__ import annotations

import pytest

from tests.support.logs import batch
from txnsim.log.cleaned_txns import CleanedTxns
from txnsim.log.txn_index import AbortedTxn
from txnsim.wire.batch import (
    ABORT,
    COMMIT,
    BatchHeader,
    ControlRecord,
    read_batch_header,
)


def data(offset: int, *, pid: int = 7, transactional: bool = True) -> BatchHeader:
    header = read_batch_header(batch(0, pid=pid, transactional=transactional))
    fields = {name: getattr(header, name) for name in header.__struct_fields__}
    return BatchHeader(**{**fields, "base_offset": offset})


def marker(kind: int) -> ControlRecord:
    return ControlRecord(type=kind, version=0, coordinator_epoch=0)


def aborted(first: int, last: int, *, pid: int = 7) -> AbortedTxn:
    return AbortedTxn(
        producer_id=pid, first_offset=first, last_offset=last, last_stable_offset=last + 1
    )


def test_records_of_an_aborted_transaction_go_and_its_marker_stays_once() -> None:
    txns = CleanedTxns()
    entry = aborted(2, 5)
    txns.expect([entry])
    assert not txns.on_data(data(1, pid=8))
    assert txns.on_data(data(2))
    assert txns.on_data(data(3))
    assert not txns.on_data(data(4, pid=8))
    assert not txns.on_control(data(5), marker(ABORT))
    assert txns.kept == [entry]
    assert not txns.on_data(data(6)), "the next transaction of the producer was committed"
    assert not txns.on_control(data(7), marker(COMMIT))


def test_the_marker_of_an_aborted_transaction_without_batches_may_go() -> None:
    txns = CleanedTxns()
    txns.expect([aborted(2, 5)])
    assert txns.on_control(data(5), marker(ABORT))
    assert txns.kept == []
    assert txns.on_control(data(9), marker(ABORT)), "nobody knows of this one"


def test_the_marker_of_a_committed_transaction_stays_with_its_batches() -> None:
    txns = CleanedTxns()
    assert not txns.on_data(data(0))
    assert not txns.on_control(data(1), marker(COMMIT))
    assert txns.on_control(data(2), marker(COMMIT))


def test_batches_outside_of_transactions_belong_to_none() -> None:
    txns = CleanedTxns()
    txns.expect([aborted(0, 5)])
    assert not txns.on_data(data(1, transactional=False))
    assert txns.on_control(data(5), marker(ABORT))


def test_an_entry_that_is_named_twice_counts_once() -> None:
    txns = CleanedTxns()
    txns.expect([aborted(2, 9)])
    assert txns.on_data(data(2))
    txns.expect([aborted(2, 9)])
    assert txns.on_data(data(6))
    assert not txns.on_control(data(9), marker(ABORT))
    assert len(txns.kept) == 1
    assert not txns.on_data(data(10))


def test_what_was_emptied_may_go() -> None:
    assert CleanedTxns().on_control(data(3), None)


@pytest.mark.parametrize("kind", [2, 9])
def test_control_records_that_end_nothing_stay(kind: int) -> None:
    assert not CleanedTxns().on_control(data(3), marker(kind))
