"""What a log has to know of a stored batch."""

from __future__ import annotations

import pytest

from tests.support.logs import NOW, LogDriver, batch, plain
from txnsim.errors import CorruptBatchError
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_coordinator
from txnsim.log.replicated import describe_batch
from txnsim.wire.batch import assign, read_batch_header


def driver_with_followers() -> LogDriver:
    driver = LogDriver()
    driver.log.local.keep_tail()
    driver.txn(0, producer_id=1, count=2)
    driver.data(0, producer_id=3, count=3)
    driver.end(committed=True, producer_id=1)
    driver.end(committed=False, producer_id=2, epoch=1, transaction_version=2)
    return driver


def test_what_the_leader_knows_is_what_the_bytes_say() -> None:
    driver = driver_with_followers()
    handed_batches = driver.log.local.batches_for_follower(0, max_bytes=1 << 20, max_batches=100)
    assert handed_batches == tuple(
        describe_batch(batch_data) for batch_data in driver.log.batches()
    )
    assert [batch.is_marker for batch in handed_batches] == [False, False, True, True]
    assert [batch.committed for batch in handed_batches] == [False, False, True, False]
    stored_batches = tuple(driver.log.batches())
    assert all(
        batch.batch_bytes is data
        for batch, data in zip(handed_batches, stored_batches, strict=True)
    ), "no copies"


def test_so_it_is_of_a_batch_of_a_coordinator() -> None:
    driver = LogDriver()
    driver.log.local.keep_tail()
    for record_count in (1, 3):
        answer = append_coordinator(driver.log, plain(record_count), now_ms=NOW)
        assert isinstance(answer, Appended)
        assert answer.last_offset == driver.log.log_end_offset - 1
    handed_batches = driver.log.local.batches_for_follower(0, max_bytes=1 << 20, max_batches=100)
    assert handed_batches == tuple(
        describe_batch(batch_data) for batch_data in driver.log.batches()
    )
    assert [batch.last_offset for batch in handed_batches] == [0, 3]


def test_a_header_that_was_read_is_not_read_again() -> None:
    batch_data = assign(batch(0, producer_id=4), base_offset=7, leader_epoch=2)
    assert describe_batch(batch_data, read_batch_header(batch_data)) == describe_batch(batch_data)
    assert describe_batch(batch_data).base_offset == 7


def test_bytes_that_are_no_batch_are_refused() -> None:
    with pytest.raises(CorruptBatchError):
        describe_batch(b"abc")
