from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch_header import pack_batch, read_batch_header
from txnsim.wire.control import ControlRecord, control_batch, read_control_record
from txnsim.wire.records import Record, build_batch


def marker(*, committed: bool = True, **changes: int) -> bytes:
    values = {
        "producer_id": 4711,
        "producer_epoch": 3,
        "coordinator_epoch": 21,
        "base_offset": 100,
        "leader_epoch": 7,
        "timestamp_ms": 1700000000123,
    }
    return control_batch(is_commit=committed, **{**values, **changes})


def control(key: bytes | None, record_value: bytes | None) -> bytes:
    """A control batch of one record with this key and value."""
    plain_batch = build_batch([Record(key=key, value=record_value)], timestamp_ms=0)
    return holding(plain_batch[61:], records_count=1)


def holding(records: bytes, *, records_count: int) -> bytes:
    """A control batch that has these bytes as its records."""
    return pack_batch(
        records,
        base_offset=100,
        leader_epoch=0,
        attributes=0x30,
        last_offset_delta=0,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=-1,
        records_count=records_count,
    )


@given(
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    coordinator_epoch=st.integers(-(2**31), 2**31 - 1),
    committed=st.booleans(),
)
def test_marker_reads_back_and_has_78_bytes(
    *, producer_id: int, producer_epoch: int, coordinator_epoch: int, committed: bool
) -> None:
    batch = marker(
        committed=committed,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )
    assert len(batch) == 78
    record = read_control_record(batch)
    assert record == ControlRecord(
        type=int(committed), version=0, coordinator_epoch=coordinator_epoch
    )
    assert record.is_marker
    header = read_batch_header(batch)
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)


def test_marker_takes_one_offset_and_no_sequence() -> None:
    header = read_batch_header(marker())
    assert (header.base_offset, header.last_offset) == (100, 100)
    assert (header.base_sequence, header.last_sequence) == (-1, -1)
    assert header.is_control
    assert header.is_transactional
    assert header.base_timestamp_ms == header.max_timestamp_ms == 1700000000123


def test_marker_is_found_in_the_middle_of_a_log() -> None:
    record = read_control_record(marker() + marker(committed=False), 78)
    assert record is not None
    assert record.type == 0


def test_marker_emptied_by_compaction_says_nothing() -> None:
    assert read_control_record(holding(b"", records_count=0)) is None


def test_other_types_are_no_markers() -> None:
    record = read_control_record(control(bytes.fromhex("00000002"), None))
    assert record == ControlRecord(type=2, version=0, coordinator_epoch=-1)
    assert not record.is_marker


def test_higher_version_is_read_as_far_as_the_first_goes() -> None:
    key, record_value = bytes.fromhex("000500010000"), bytes.fromhex("000700000015ffff")
    record = read_control_record(control(key, record_value))
    assert record == ControlRecord(type=1, version=5, coordinator_epoch=21)


@pytest.mark.parametrize(
    ("key", "record_value", "reason"),
    [
        (None, b"", "key None"),
        (b"\0\0\0", b"", "key"),
        (bytes.fromhex("ffff0001"), bytes(6), "version -1"),
        (bytes.fromhex("00000001"), None, "value None"),
        (bytes.fromhex("00000001"), bytes(5), "value"),
        (bytes.fromhex("00000001"), bytes.fromhex("ffff00000000"), "marker .* version -1"),
    ],
)
def test_what_can_not_be_understood_is_refused(
    key: bytes | None, record_value: bytes | None, reason: str
) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        read_control_record(control(key, record_value))


def test_data_batch_is_no_control_batch() -> None:
    with pytest.raises(CorruptBatchError, match="no control batch"):
        read_control_record(build_batch([Record()], timestamp_ms=0))
