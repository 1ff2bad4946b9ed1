from __future__ import annotations

import contextlib
import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch_header import (
    BatchHeader,
    assign,
    crc_is_valid,
    crc_of,
    iter_batches,
    pack_batch,
    read_batch_header,
    restamp,
)

INT16 = st.integers(min_value=-(2**15), max_value=2**15 - 1)
INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def batch(payload: bytes = b"records", **changes: int) -> bytes:
    values = {
        "base_offset": 100,
        "leader_epoch": 7,
        "attributes": 0,
        "last_offset_delta": 2,
        "base_timestamp_ms": 1000,
        "max_timestamp_ms": 2000,
        "producer_id": 4711,
        "producer_epoch": 3,
        "base_sequence": 10,
        "records_count": 3,
    }
    return pack_batch(payload, **{**values, **changes})


@given(
    values=st.fixed_dictionaries(
        {
            "base_offset": INT64,
            "leader_epoch": INT32,
            "attributes": INT16,
            "last_offset_delta": INT32,
            "base_timestamp_ms": INT64,
            "max_timestamp_ms": INT64,
            "producer_id": INT64,
            "producer_epoch": INT16,
            "base_sequence": INT32,
            "records_count": INT32,
        }
    ),
    payload=st.binary(max_size=20),
    before=st.binary(max_size=5),
)
def test_header_reads_back_what_was_packed(
    values: dict[str, int], payload: bytes, before: bytes
) -> None:
    packed = pack_batch(payload, **values)
    header = read_batch_header(before + packed, len(before))
    assert values.items() <= {name: getattr(header, name) for name in values}.items()
    assert header.magic == 2
    assert header.size == len(packed) == 61 + len(payload)
    assert header.crc == crc_of(packed) == crc32c.crc32c(packed[21:])
    assert crc_is_valid(before + packed, header, len(before))


@pytest.mark.parametrize(
    ("base_sequence", "delta", "last_sequence"),
    [
        (-1, 5, -1),
        (0, 0, 0),
        (10, 2, 12),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 2, 5, 3),
    ],
)
def test_last_sequence_wraps_to_zero(base_sequence: int, delta: int, last_sequence: int) -> None:
    header = read_batch_header(batch(base_sequence=base_sequence, last_offset_delta=delta))
    assert header.last_sequence == last_sequence


@pytest.mark.parametrize(
    ("attributes", "true"),
    [
        (0x00, set()),
        (0x08, {"is_log_append_time"}),
        (0x10, {"is_transactional"}),
        (0x20, {"is_control"}),
        (0x40, {"has_delete_horizon"}),
        (0x78, {"is_log_append_time", "is_transactional", "is_control", "has_delete_horizon"}),
    ],
)
def test_attribute_bits(attributes: int, true: set[str]) -> None:
    header = read_batch_header(batch(attributes=attributes | 4))
    flags = ("is_log_append_time", "is_transactional", "is_control", "has_delete_horizon")
    assert {flag for flag in flags if getattr(header, flag)} == true
    assert header.compression == 4


def test_producer_id_zero_is_one() -> None:
    assert read_batch_header(batch(producer_id=0)).has_producer_id
    assert not read_batch_header(batch(producer_id=-1)).has_producer_id


def test_last_offset_counts_from_the_base() -> None:
    assert read_batch_header(batch(base_offset=100, last_offset_delta=2)).last_offset == 102


# What is no batch


def test_too_few_bytes_for_a_header() -> None:
    with pytest.raises(CorruptBatchError, match="batch at byte 3: 57 bytes are fewer"):
        read_batch_header(batch(b"")[:60], 3)
    with pytest.raises(CorruptBatchError, match="0 bytes are fewer"):
        read_batch_header(b"", 10)


@pytest.mark.parametrize("magic", [0, 1, 3, 127, -1])
def test_other_magic_is_refused_and_named(magic: int) -> None:
    old = bytearray(batch())
    old[16] = magic & 0xFF
    with pytest.raises(CorruptBatchError, match=f"magic {magic} is not 2"):
        read_batch_header(old)


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_length_below_the_least_is_refused(length: int) -> None:
    short = bytearray(batch())
    struct.pack_into(">i", short, 8, length)
    with pytest.raises(CorruptBatchError, match=f"length {length} is below 49"):
        read_batch_header(short)
    with pytest.raises(CorruptBatchError, match=f"length {length} is below 49"):
        list(iter_batches(short))
    # Seen even where the header itself is cut off.
    with pytest.raises(CorruptBatchError, match=f"length {length} is below 49"):
        list(iter_batches(short[:20]))


# Walking


def test_walk_gives_position_and_header() -> None:
    log = batch(b"one") + batch(b"", base_offset=200) + batch(b"three", base_offset=300)
    assert [(position, header.base_offset) for position, header in iter_batches(log)] == [
        (0, 100),
        (64, 200),
        (125, 300),
    ]
    assert [position for position, _ in iter_batches(log, 64)] == [64, 125]


@pytest.mark.parametrize("kept", [0, 11, 12, 60, 61, 67])
def test_partial_batch_at_the_end_stops_the_walk(kept: int) -> None:
    log = batch() + batch()[:kept]
    assert [position for position, _ in iter_batches(log)] == [0]


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_walked_or_refused(data: bytes) -> None:
    with contextlib.suppress(CorruptBatchError):
        assert sum(header.size for _, header in iter_batches(data)) <= len(data)


# Patching


def test_assigning_keeps_everything_but_offset_and_epoch() -> None:
    before = read_batch_header(batch())
    assigned = assign(batch(), base_offset=2**40, leader_epoch=9)
    after = read_batch_header(assigned)
    assert crc_is_valid(assigned, after)
    expected = {**as_dict(before), "base_offset": 2**40, "leader_epoch": 9}
    assert as_dict(after) == expected
    assert assigned[61:] == batch()[61:]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_assigning_takes_any_buffer(kind: type[bytes]) -> None:
    assert assign(kind(batch()), base_offset=100, leader_epoch=7) == batch()


@pytest.mark.parametrize("attributes", [0x10, 0x18])
@pytest.mark.parametrize("log_append_time", [False, True])
def test_restamping_sets_time_type_and_crc(attributes: int, log_append_time: bool) -> None:
    before = batch(attributes=attributes)
    stamped = restamp(before, max_timestamp_ms=9000, log_append_time=log_append_time)
    header = read_batch_header(stamped)
    assert crc_is_valid(stamped, header)
    assert as_dict(header) == {
        **as_dict(read_batch_header(before)),
        "max_timestamp_ms": 9000,
        "attributes": 0x18 if log_append_time else 0x10,
        "crc": header.crc,
    }


# CRC


def test_flipped_bit_is_found() -> None:
    header = read_batch_header(batch())
    for position in range(21, len(batch())):
        flipped = bytearray(batch())
        flipped[position] ^= 1
        assert not crc_is_valid(flipped, header)


def test_cut_off_batch_has_no_valid_crc() -> None:
    assert not crc_is_valid(batch()[:-1], read_batch_header(batch()))


def as_dict(header: BatchHeader) -> dict[str, int]:
    return {name: getattr(header, name) for name in header.__struct_fields__}
