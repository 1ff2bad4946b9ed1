"""From a log to entries."""

from __future__ import annotations

from tests.support.txn_entries import FOO_0, NOW_MS, TID, entry
from txnsim.releases.rules import LATEST
from txnsim.txn.log_format import encode_batch, encode_key
from txnsim.txn.log_reader import LoadedLog, read_log
from txnsim.txn.state import Tombstone, TransactionState
from txnsim.txn.transitions import apply, to_complete, to_first, to_ongoing
from txnsim.types import (
    ProducerId,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch import build_batch, control_batch
from txnsim.wire.records import Record

TV_2 = TransactionVersion.TV_2
OTHER = TransactionalId("other")
FIRST = to_first(TID, producer_id=ProducerId(7), timeout_ms=1_000, now_ms=NOW_MS)
OPENED = to_ongoing(
    entry(epoch=0, timeout_ms=1_000), partitions=frozenset({FOO_0}), client_version=TV_2, now_ms=1
)
ELSE = to_first(OTHER, producer_id=ProducerId(8), timeout_ms=1_000, now_ms=NOW_MS)


def batch(*records: object) -> bytes:
    return encode_batch(records, level=TV_2, now_ms=NOW_MS, rules=LATEST)  # type: ignore[arg-type]


def test_the_last_record_of_each_id_stays() -> None:
    loaded = read_log([batch(FIRST) + batch(ELSE), batch(OPENED)], rules=LATEST)
    assert loaded == LoadedLog(
        entries={TID: apply(None, OPENED, rules=LATEST), OTHER: apply(None, ELSE, rules=LATEST)}
    )  # type: ignore[dict-item]


def test_a_compacted_log_may_begin_anywhere() -> None:
    done = to_complete(entry(TransactionState.PREPARE_COMMIT), now_ms=NOW_MS)
    assert (
        read_log([batch(done)], rules=LATEST).entries[TID].state is TransactionState.COMPLETE_COMMIT
    )


def test_tombstones_remove_what_is_there_and_what_is_not() -> None:
    log = [batch(FIRST, ELSE), batch(Tombstone(transactional_id=TID))]
    assert list(read_log(log, rules=LATEST).entries) == [OTHER]
    assert read_log([batch(Tombstone(transactional_id=TID))], rules=LATEST).entries == {}


def test_what_is_not_known_and_markers_are_skipped() -> None:
    unknown_key = build_batch([Record(key=b"\x00\x09\x00\x00", value=b"")], timestamp_ms=NOW_MS)
    marker = control_batch(
        producer_id=7,
        producer_epoch=0,
        committed=True,
        coordinator_epoch=0,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
    )
    loaded = read_log([unknown_key, marker, batch(FIRST)], rules=LATEST)
    assert (list(loaded.entries), loaded.problem) == ([TID], None)


def test_damage_ends_the_reading_and_keeps_what_was_read() -> None:
    damaged = build_batch([Record(key=encode_key(OTHER), value=b"\x00")], timestamp_ms=NOW_MS)
    loaded = read_log([batch(FIRST), damaged, batch(OPENED)], rules=LATEST)
    assert loaded.entries == {TID: apply(None, FIRST, rules=LATEST)}
    assert loaded.problem is not None


def test_a_record_without_a_key_is_damage() -> None:
    keyless = build_batch([Record(key=None, value=b"")], timestamp_ms=NOW_MS)
    assert "has no key" in str(read_log([keyless], rules=LATEST).problem)
