"""A coordinator that loads a cleaned log starts with the same entries, and the log stays small."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnsim.log.answers import Appended
from txnsim.log.cleaner import clean, dirty_part_of
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_coordinator
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.log_format import encode_batch
from txnsim.txn.log_reader import read_log
from txnsim.txn.state import Tombstone, TxnRecord
from txnsim.txn.transitions import to_first
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

NOW_MS = 1_700_000_000_000
HORIZON_MS = 1_000
CONFIG = LogConfig(
    rules=LATEST_RULES,
    roll_bytes=2_000,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.5,
    delete_retention_ms=HORIZON_MS,
)
IDS = [TransactionalId(f"app-{id_number}") for id_number in range(6)]
MOVES = st.lists(st.tuples(st.sampled_from(IDS), st.booleans()), max_size=120)


def empty_log() -> PartitionLog:
    return PartitionLog(
        topic_partition=TopicPartition(TRANSACTION_STATE_TOPIC, 0), config=CONFIG, leader_epoch=0
    )


def write(log: PartitionLog, record: TxnRecord, now_ms: int) -> bytes:
    batch = encode_batch(
        [record],
        finalized_version=TransactionVersion.TV_2,
        now_ms=now_ms,
        release_rules=LATEST_RULES,
    )
    assert isinstance(append_coordinator(log, batch, now_ms=now_ms), Appended)
    log.advance_high_watermark(log.log_end_offset)
    return batch


def clean_up(log: PartitionLog, now_ms: int) -> bool:
    dirty_part = dirty_part_of(log, now_ms)
    if dirty_part is None:
        return False
    for _ in clean(log, dirty_part, now_ms):
        pass
    return True


@pytest.mark.slow
@given(rounds=st.lists(MOVES, min_size=1, max_size=6))
@settings(max_examples=60)
def test_a_cleaned_log_loads_as_the_whole_one(
    rounds: list[list[tuple[TransactionalId, bool]]],
) -> None:
    log, written_records = empty_log(), []
    now_ms = NOW_MS
    for moves in rounds:
        for transactional_id, forget in moves:
            now_ms += 100
            record: TxnRecord = (
                Tombstone(transactional_id=transactional_id)
                if forget
                else to_first(
                    transactional_id,
                    producer_id=ProducerId(now_ms % 10_000),
                    timeout_ms=9,
                    now_ms=now_ms,
                )
            )
            written_records.append(write(log, record, now_ms))
        clean_up(log, now_ms)
        log.check_invariants()
        assert read_log(log.batches(), release_rules=LATEST_RULES) == read_log(
            written_records, release_rules=LATEST_RULES
        )


def test_a_log_stays_small_however_long_it_is_written() -> None:
    log, sizes, now_ms = empty_log(), [], NOW_MS
    for number in range(5_000):
        now_ms += 10
        record = to_first(
            IDS[number % len(IDS)], producer_id=ProducerId(number), timeout_ms=9, now_ms=now_ms
        )
        write(log, record, now_ms)
        if number % 50 == 49:
            clean_up(log, now_ms)
            sizes.append(log.local.segments.size_bytes)
    assert max(sizes) < 4 * CONFIG.roll_bytes
    assert log.log_end_offset == 5_000
    assert set(read_log(log.batches(), release_rules=LATEST_RULES).entries) == set(IDS)
