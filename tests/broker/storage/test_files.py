"""Files of a log directory: segments, indexes, checkpoints, snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from struct import Struct

import crc32c
import pytest

from tests.support.log_dirs import sound_batches
from tests.support.logs import LogDriver
from txnsim.errors import CorruptLogRecordError
from txnsim.log.config import LogConfig
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import checkpoints, txn_index
from txnsim.storage._indexes import encode_indexes_in_steps
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.storage.producer_snapshot import decode, encode_in_steps
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, assign, build_batch
from txnsim.wire.codec import run_to_end

# Reading segments, torn and whole.


def batch(offset: int, size: int = 10) -> bytes:
    batch_data = build_batch([Record(key=b"k", value=b"v" * size)], timestamp_ms=5)
    return assign(batch_data, base_offset=offset, leader_epoch=0)


def changed(file_bytes: bytes, position: int, value: bytes) -> bytes:
    return file_bytes[:position] + value + file_bytes[position + len(value) :]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def test_batches_come_in_order_with_their_places(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnsim.storage.log_file.CHUNK_BYTES", 1_000)
    stored = [batch(0), batch(1, 5_000), batch(2)]
    path.write_bytes(b"".join(stored))
    torn_tails: list[TornTail] = []
    stored_batches = list(read_log_file(path, on_torn=torn_tails.append))
    assert [stored_batch.batch_bytes for stored_batch in stored_batches] == stored
    assert [stored_batch.position for stored_batch in stored_batches] == [
        0,
        len(stored[0]),
        len(stored[0] + stored[1]),
    ]
    assert [stored_batch.header.base_offset for stored_batch in stored_batches] == [0, 1, 2]
    assert torn_tails == []


def test_an_empty_segment_has_no_batches(path: Path) -> None:
    path.touch()
    assert sound_batches(path) == ([], None)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0" * 20, "20 bytes, less than a header"),
        (batch(1)[:-1], "bytes of a batch of"),
        (changed(batch(1), 16, b"\1"), "a batch of format 1, only 2 is read"),
        (changed(batch(1), 8, b"\0\0\0\1"), "a batch that claims 13 bytes"),
        (changed(batch(1), 8, b"\x7f\0\0\0"), "a batch that claims"),
        (changed(batch(1), 70, b"\xff\xff"), "the batch of offset 1 has another CRC"),
    ],
    ids=["front", "cut", "format", "small", "huge", "crc"],
)
def test_what_an_unclean_stop_leaves_is_cut_off_and_reported(
    path: Path, tail: bytes, reason: str
) -> None:
    path.write_bytes(batch(0) + tail)
    batches, torn_tail = sound_batches(path)
    assert batches == [batch(0)]
    assert torn_tail is not None
    assert (torn_tail.position, torn_tail.size_bytes) == (len(batch(0)), len(tail))
    assert reason in torn_tail.reason


def test_who_does_not_ask_for_crcs_gets_damaged_records(path: Path) -> None:
    damaged_batch = changed(batch(0), 70, b"\xff\xff")
    path.write_bytes(damaged_batch)
    torn_tails: list[TornTail] = []
    stored_batches = list(read_log_file(path, on_torn=torn_tails.append, checks_crc=False))
    assert ([stored_batch.batch_bytes for stored_batch in stored_batches], torn_tails) == (
        [damaged_batch],
        [],
    )


# Sparse indexes of a segment.


def batches(*stamps: int, base_offset: int = 100) -> list[bytes]:
    """Batches of one record, each of at least 100 bytes."""
    return [
        assign(
            build_batch([Record(key=b"k", value=b"v" * 30)], timestamp_ms=timestamp_ms),
            base_offset=base_offset + stamp_number,
            leader_epoch=0,
        )
        for stamp_number, timestamp_ms in enumerate(stamps)
    ]


def offsets(file_bytes: bytes) -> list[tuple[int, ...]]:
    return list(Struct(">ii").iter_unpack(file_bytes))


def times(file_bytes: bytes) -> list[tuple[int, ...]]:
    return list(Struct(">qi").iter_unpack(file_bytes))


def write_indexes(
    stored_batches: list[bytes], *, base_offset: int, index_interval_bytes: int
) -> tuple[bytes, bytes]:
    return run_to_end(
        encode_indexes_in_steps(
            stored_batches, base_offset=base_offset, index_interval_bytes=index_interval_bytes
        )
    )


def test_a_batch_is_indexed_once_enough_was_written_since_the_last_one() -> None:
    stored_batches = batches(5, 6, 7, 8, 9)
    index_interval_bytes = len(stored_batches[0])
    index, time_index = write_indexes(
        stored_batches, base_offset=100, index_interval_bytes=index_interval_bytes
    )
    # The entry stands for a batch's last offset and for where it begins.
    assert offsets(index) == [(2, 2 * index_interval_bytes), (4, 4 * index_interval_bytes)]
    assert times(time_index) == [(7, 2), (9, 4)]


def test_the_largest_timestamp_is_noted_with_the_batch_that_brought_it() -> None:
    stored_batches = batches(50, 6, 7, 8)
    index_interval_bytes = len(stored_batches[0])
    index, time_index = write_indexes(
        stored_batches, base_offset=100, index_interval_bytes=index_interval_bytes
    )
    assert len(offsets(index)) == 1
    assert times(time_index) == [(50, 0)]


def test_the_end_of_a_segment_is_noted_in_the_time_index_alone() -> None:
    index, time_index = write_indexes(batches(5, 6), base_offset=100, index_interval_bytes=4096)
    assert (offsets(index), times(time_index)) == ([], [(6, 1)])


def test_an_empty_segment_has_empty_indexes() -> None:
    assert write_indexes([], base_offset=0, index_interval_bytes=4096) == (b"", b"")


# Files of producer state: those that Apache Kafka 4.3.1 wrote, and those that are broken.


OPEN_TRANSACTION = bytes.fromhex(
    "0001 586078bb 00000001"
    "0000000000000002 0000 00000000 0000000000000000 00000000 0000018bcfe56800"
    "ffffffff 0000000000000000"
)
ENDED_TRANSACTION = bytes.fromhex(
    "0001f14cbb29000000010000000000000004000000000003000000000000000600000000000001a1f83947b4"
    "00000000ffffffffffffffff"
)


def test_a_file_with_an_open_transaction() -> None:
    (entry,) = decode(OPEN_TRANSACTION)
    assert (entry.producer_id, entry.producer_epoch, entry.txn_first_offset) == (2, 0, 0)
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (0, 0, 0)
    assert (entry.timestamp, entry.coordinator_epoch) == (1_700_000_000_000, -1)


def test_a_file_after_the_end_of_a_transaction() -> None:
    (entry,) = decode(ENDED_TRANSACTION)
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (4, 3, 6)
    assert (entry.coordinator_epoch, entry.txn_first_offset) == (0, -1)


def write_snapshot(entries: Sequence[SnapshotEntry]) -> bytes:
    return run_to_end(encode_in_steps(entries))


@pytest.mark.parametrize("file_bytes", [OPEN_TRANSACTION, ENDED_TRANSACTION], ids=["open", "ended"])
def test_what_is_read_is_written_the_same(file_bytes: bytes) -> None:
    assert write_snapshot(decode(file_bytes)) == file_bytes


def test_snapshots_of_our_own_logs_go_through_a_file() -> None:
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200))
    driver.txn(0, producer_id=1)
    driver.data(0, producer_id=2, count=3)
    driver.end(committed=True, producer_id=3, epoch=4)
    driver.data(3, producer_id=2)
    snapshots = driver.log.producers.snapshots.all_snapshots()
    assert snapshots
    for _, entries in snapshots:
        assert decode(write_snapshot(entries)) == entries
    assert decode(write_snapshot(())) == ()


@pytest.mark.parametrize(
    ("file_bytes", "expected_reason"),
    [
        (b"", "of 0 bytes"),
        (OPEN_TRANSACTION[:9], "of 9 bytes"),
        (b"\0\2" + OPEN_TRANSACTION[2:], "version 2"),
        (OPEN_TRANSACTION[:-1] + b"\1", "computed"),
        (OPEN_TRANSACTION + b"\0", "computed"),
    ],
)
def test_a_broken_file_differs_from_a_whole_one(file_bytes: bytes, expected_reason: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=expected_reason):
        decode(file_bytes)


def test_a_file_with_bytes_left_over_is_broken_whatever_its_crc() -> None:
    longer = write_snapshot(decode(OPEN_TRANSACTION) * 2)
    covered_bytes = (1).to_bytes(4, "big") + longer[10:]
    data = b"\0\1" + crc32c.crc32c(covered_bytes).to_bytes(4, "big") + covered_bytes
    with pytest.raises(CorruptLogRecordError, match="1 producers"):
        decode(data)


# Checkpoint files.


def test_leader_epochs_are_written_as_kafka_writes_them_and_read_back() -> None:
    text = checkpoints.encode_leader_epochs([(0, 0), (4, 17)])
    assert text == "0\n2\n0 0\n4 17\n"
    assert checkpoints.decode_leader_epochs(text, error_prefix="here") == ((0, 0), (4, 17))


def test_offsets_are_written_by_partition_and_read_back() -> None:
    offset_by_partition = {
        TopicPartition("b", 1): 7,
        TopicPartition("a", 10): 3,
        TopicPartition("a", 2): 0,
    }
    text = checkpoints.encode_offsets(offset_by_partition)
    assert text == "0\n3\na 2 0\na 10 3\nb 1 7\n"
    assert checkpoints.decode_offsets(text, error_prefix="here") == offset_by_partition


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0\n", "dir/f: 1 lines"),
        ("1\n0\n", "dir/f: version '1', expected 0"),
        ("0\n2\n0 0\n", "dir/f: 1 entries, but it announces '2'"),
        ("0\n1\n0\n", "dir/f:3: '0' is no entry"),
        ("0\n2\n0 0\n1 x\n", "dir/f:4: '1 x' is no entry"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=complaint):
        checkpoints.decode_leader_epochs(text, error_prefix="dir/f")


def test_an_offset_of_no_partition_is_refused() -> None:
    with pytest.raises(CorruptLogRecordError, match="f:3: 'a b 3' is no entry"):
        checkpoints.decode_offsets("0\n1\na b 3\n", error_prefix="f")


def test_a_file_that_was_made_and_not_filled_notes_nothing() -> None:
    """LogCleaner creates its checkpoint file before it has cleaned anything."""
    assert checkpoints.decode_offsets("", error_prefix="f") == {}
    assert checkpoints.decode_leader_epochs("", error_prefix="f") == ()


# Files of aborted transactions.


def aborted(last_offset: int) -> AbortedTxn:
    return AbortedTxn(
        producer_id=7, first_offset=3, last_offset=last_offset, last_stable_offset=last_offset + 1
    )


def test_entries_are_34_bytes_each_and_read_back() -> None:
    index_bytes = txn_index.encode([aborted(9), aborted(12)])
    assert len(index_bytes) == 2 * 34
    assert index_bytes[:34].hex() == (
        "0000000000000000000700000000000000030000000000000009000000000000000a"
    )
    assert tuple(txn_index.decode(index_bytes, error_prefix="f")) == (aborted(9), aborted(12))


def test_damage_is_reported_with_its_place() -> None:
    index_bytes = txn_index.encode([aborted(9), aborted(12)])
    with pytest.raises(CorruptLogRecordError, match="f, byte 34: 33 bytes too many"):
        tuple(txn_index.decode(index_bytes[:-1], error_prefix="f"))
    with pytest.raises(CorruptLogRecordError, match=r"f, byte 0: .* version 1"):
        tuple(txn_index.decode(b"\0\1" + index_bytes[2:], error_prefix="f"))
    with pytest.raises(CorruptLogRecordError, match="f, byte 34: the marker at 9 comes behind"):
        tuple(txn_index.decode(index_bytes[:34] * 2, error_prefix="f"))


@pytest.mark.parametrize(
    "entry", ["t 2147483648 0", "t 0 9223372036854775808", "t 0 9999999999999999999"]
)
def test_a_checkpoint_has_numbers_of_a_broker(entry: str) -> None:
    with pytest.raises(CorruptLogRecordError, match="is no entry"):
        checkpoints.decode_offsets(f"0\n1\n{entry}\n", error_prefix="f")
    with pytest.raises(CorruptLogRecordError, match="is no entry"):
        checkpoints.decode_leader_epochs(f"0\n1\n{entry[2:]}\n", error_prefix="f")
