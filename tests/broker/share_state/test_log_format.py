"""Records of ``__share_group_state``, against the bytes of Kafka's own classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec
import pytest

from txnsim.errors import CorruptLogRecordError
from txnsim.interbroker.share_state import ShareKey, StateBatch
from txnsim.share_state.log_format import (
    decode_record,
    encode_batch,
    encode_batch_in_steps,
    encode_record,
)
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.wire.batch import read_batch_header, read_records
from txnsim.wire.codec import run_to_end

GOLDEN: Final = Path(__file__).parents[1] / "codec" / "golden" / "share_state.jsonl"
LINES: Final = [
    line for line in map(json.loads, GOLDEN.read_text("utf-8").splitlines()) if "record" in line
]
KEY: Final = ShareKey("g", "qHBm7qF0QeCvHxCmWtCZ2w", 3)
BATCHES: Final = (
    StateBatch(5, 9, 2, 1),
    StateBatch(12, 12, 0, 300),
    StateBatch(1 << 40, (1 << 40) + 1, 4, 5),
)
RECORDS: Final[tuple[ShareRecord, ...]] = (
    ShareSnapshot(
        key=KEY,
        start_offset=-1,
        delivery_complete_count=-1,
        create_timestamp_ms=1,
        write_timestamp_ms=1,
    ),
    ShareUpdate(
        key=KEY, snapshot_epoch=0, leader_epoch=0, start_offset=-1, delivery_complete_count=-1
    ),
    ShareSnapshot(
        key=KEY,
        snapshot_epoch=3,
        state_epoch=2,
        leader_epoch=7,
        start_offset=5,
        delivery_complete_count=6,
        create_timestamp_ms=1_700_000_000_000,
        write_timestamp_ms=1_700_000_300_000,
        batches=BATCHES,
    ),
    ShareUpdate(
        key=KEY,
        snapshot_epoch=3,
        leader_epoch=7,
        start_offset=5,
        delivery_complete_count=6,
        batches=BATCHES,
    ),
    ShareDeleted(key=KEY),
)
SNAPSHOT: Final = bytes.fromhex(LINES[0]["key"])
VALUE: Final = bytes.fromhex(LINES[0]["value"])


@pytest.mark.parametrize(
    ("record", "line"),
    list(zip(RECORDS, LINES, strict=True)),
    ids=[f"{number} {line['record']}" for number, line in enumerate(LINES)],
)
def test_a_record_has_kafkas_bytes(record: ShareRecord, line: dict[str, str]) -> None:
    key = bytes.fromhex(line["key"])
    record_value = None if line["value"] is None else bytes.fromhex(line["value"])
    assert encode_record(record) == (key, record_value)
    assert decode_record(key, record_value) == record


def test_a_batch_has_its_records_in_order() -> None:
    batch = encode_batch(RECORDS, now_ms=1_700_000_000_000)
    header = read_batch_header(batch)
    assert (header.records_count, header.producer_id, header.base_sequence) == (5, -1, 0)
    read = [decode_record(record.key or b"", record.value) for record in read_records(batch, 0)]
    assert tuple(read) == RECORDS


def test_the_id_of_zeroes_is_an_id() -> None:
    record = ShareDeleted(key=ShareKey("g", "A" * 22, 0))
    key, record_value = encode_record(record)
    assert bytes(16) in key
    assert decode_record(key, record_value) == record


@pytest.mark.parametrize(
    ("key", "record_value"),
    [
        (b"\0\2" + SNAPSHOT[2:], VALUE),  # a kind that comes later
        (SNAPSHOT, b"\0\1" + VALUE[2:]),  # a version that comes later
        (b"\0\1" + SNAPSHOT[2:], None),  # an update is never deleted
    ],
)
def test_what_is_not_known_is_skipped(key: bytes, record_value: bytes | None) -> None:
    assert decode_record(key, record_value) is None


@pytest.mark.parametrize(
    ("key", "record_value"),
    [(b"", VALUE), (SNAPSHOT[:-1], VALUE), (SNAPSHOT, VALUE[:-3]), (SNAPSHOT, b"")],
)
def test_damaged_bytes_are_told(key: bytes, record_value: bytes) -> None:
    with pytest.raises(CorruptLogRecordError, match="__share_group_state"):
        decode_record(key, record_value)


def test_a_snapshot_epoch_that_can_t_be_raised_is_named() -> None:
    key, record_value = encode_record(msgspec.structs.replace(RECORDS[0], snapshot_epoch=2**31 - 1))
    with pytest.raises(CorruptLogRecordError, match="snapshot epoch 2147483647, which leaves"):
        decode_record(key, record_value)


def test_a_batch_that_is_made_with_breaks_has_the_same_bytes() -> None:
    long_batches = tuple(StateBatch(offset, offset, 0, 1 + offset % 2) for offset in range(200))
    records = (*RECORDS, msgspec.structs.replace(RECORDS[3], batches=long_batches))
    assert len([*encode_batch_in_steps(records, now_ms=5)]) > 3, "200 batches are not one step"
    assert run_to_end(encode_batch_in_steps(records, now_ms=5)) == encode_batch(records, now_ms=5)
