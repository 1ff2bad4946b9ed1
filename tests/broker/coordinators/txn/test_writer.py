"""Subjects of records; how work ends without a waiting request."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.txn_entries import NOW_MS, entry
from txnsim.coordinators.txn._writer import settled, subject_of
from txnsim.faults.subjects import Subject
from txnsim.txn.state import Tombstone, TransactionState
from txnsim.txn.transitions import to_complete
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, TransactionalId


def test_records_name_their_subjects_to_fault_rules() -> None:
    where = TopicPartition(TRANSACTION_STATE_TOPIC, 3)
    aborted = to_complete(entry(TransactionState.PREPARE_ABORT), now_ms=NOW_MS)
    gone = TransactionalId("gone")
    told = subject_of((aborted, Tombstone(transactional_id=gone)), where)
    assert told.partitions == (where,)
    assert told.others == (
        Subject(
            transactional_id=aborted.transactional_id,
            producer_id=aborted.producer_id,
            partitions=(where,),
            committed=False,
        ),
        Subject(transactional_id=gone, partitions=(where,)),
    )


def test_an_end_and_a_cancellation_are_ignored() -> None:
    settled(None, None)
    settled(None, asyncio.CancelledError())


def test_a_bug_is_not_swallowed() -> None:
    with pytest.raises(ValueError, match="a bug"):
        settled(None, ValueError("a bug"))
