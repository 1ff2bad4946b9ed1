"""Batches that are changed as bytes: codec, records, header."""

from __future__ import annotations

import contextlib
import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    BatchHeader,
    Record,
    build_batch,
    control_batch,
    crc_is_valid,
    read_batch_header,
    read_control_record,
    read_records,
)
from txnsim.wire.batch_header import assign, crc_of, iter_batches, pack_batch, restamp
from txnsim.wire.batch_rewrite import (
    ScannedRecord,
    batch_keys,
    filtering_batch,
    recoded_batch,
    scan_records,
)
from txnsim.wire.codec import run_to_end
from txnsim.wire.records import encode_record, payload_of

# Batches with fewer records, another codec, or none: what stays as it was.


CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
RECORDS = (
    Record(key=b"a", value=b"1", timestamp_ms=100),
    Record(key=b"b", value=None, timestamp_ms=90, headers=(("h", b"x"), ("n", None))),
    Record(key=None, value=b"3", timestamp_ms=110),
    Record(key=b"", value=b"", timestamp_ms=105),
)


def filtered_batch(
    header: BatchHeader, records: list[Record], *, delete_horizon_ms: int | None
) -> bytes:
    return run_to_end(filtering_batch(header, records, delete_horizon_ms=delete_horizon_ms))


def batch_of_records(
    *, codec: int = NONE, has_append_time: bool = False, is_transactional: bool = False
) -> bytes:
    return build_batch(
        RECORDS,
        timestamp_ms=200,
        producer_id=7,
        producer_epoch=2,
        base_sequence=5,
        is_transactional=is_transactional,
        compression=codec,
        has_log_append_time=has_append_time,
        base_offset=40,
        leader_epoch=3,
    )


# Looking


@pytest.mark.parametrize("codec", CODECS)
def test_keys_of_a_batch(codec: int) -> None:
    batch = batch_of_records(codec=codec)
    assert list(batch_keys(batch, read_batch_header(batch))) == [
        (40, b"a", True),
        (41, b"b", False),
        (42, None, True),
        (43, b"", True),
    ]


@pytest.mark.parametrize(
    ("key", "record_value"),
    [(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b""), (b"k" * 300, b"v")],
)
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_the_key_of_an_only_record(
    key: bytes | None, record_value: bytes | None, codec: int
) -> None:
    batch = build_batch(
        [Record(key=key, value=record_value)], timestamp_ms=5, base_offset=9, compression=codec
    )
    assert list(batch_keys(batch, read_batch_header(batch))) == [(9, key, record_value is not None)]


def test_the_key_of_an_only_record_with_a_long_timestamp() -> None:
    batch = build_batch([Record(key=b"k", timestamp_ms=100)], timestamp_ms=0, base_offset=9)
    header = read_batch_header(batch)
    moved_batch = filtered_batch(header, read_records(batch), delete_horizon_ms=1 << 40)
    assert list(batch_keys(moved_batch, read_batch_header(moved_batch))) == [(9, b"k", False)]


def test_a_single_record_that_is_not_the_first_of_its_batch() -> None:
    batch = batch_of_records()
    last_record = filtered_batch(
        read_batch_header(batch), read_records(batch)[3:], delete_horizon_ms=None
    )
    assert list(batch_keys(last_record, read_batch_header(last_record))) == [(43, b"", True)]
    odd_batch = bytearray(build_batch([Record(key=b"k")], timestamp_ms=5, base_offset=9))
    odd_batch[64] = 2  # the delta of its offset: nobody has checked it
    assert list(batch_keys(bytes(odd_batch), read_batch_header(odd_batch))) == [(10, b"k", False)]


def test_the_key_of_a_record_that_is_cut_off_can_not_be_read() -> None:
    header = read_batch_header(made_of_one := build_batch([Record(key=b"k")], timestamp_ms=200))
    with pytest.raises(CorruptBatchError, match="only 67 there"):
        list(batch_keys(made_of_one[:-4] + b"\xff" * 2, header))


def test_records_are_scanned_without_being_made() -> None:
    batch = batch_of_records()
    payload = payload_of(batch, read_batch_header(batch))
    assert list(scan_records(payload, 4)) == [
        ScannedRecord(0, 0, b"a", 1),
        ScannedRecord(-10, 1, b"b", -1),
        ScannedRecord(10, 2, None, 1),
        ScannedRecord(5, 3, b"", 0),
    ]


def payload_with(**changes: int) -> bytes:
    """The payload of one record, with bytes at named places replaced."""
    batch = build_batch(
        [Record(key=b"k", value=b"v", headers=(("h", b"x"),))], timestamp_ms=5, base_offset=9
    )
    payload = bytearray(payload_of(batch, read_batch_header(batch)))
    positions = {
        "length": 0,
        "key": 4,
        "value": 6,
        "headers": 8,
        "header_key": 9,
        "header_value": 11,
    }
    for field_name, byte in changes.items():
        payload[positions[field_name]] = byte
    return bytes(payload)


@pytest.mark.parametrize(
    "payload",
    [
        payload_with(length=99),
        payload_with(length=1),
        payload_with(key=40),
        payload_with(value=40),
        payload_with(headers=3),
        payload_with(headers=40),
        payload_with(header_key=1),
        payload_with(header_value=40),
        payload_with() + b"\0",
        payload_with()[:-1],
        b"\xff" * 7,
    ],
)
def test_what_lengths_do_not_bear_out_is_no_record(payload: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        list(scan_records(payload, 1))


@pytest.mark.parametrize("count", [-1, 0, 2])
def test_a_wrong_count_is_found(count: int) -> None:
    with pytest.raises(CorruptBatchError):
        list(scan_records(payload_with(), count))


def test_a_record_that_ends_the_payload_in_a_length_is_cut_off() -> None:
    # A record of six bytes whose last length says that it goes on.
    with pytest.raises(CorruptBatchError, match="cut off"):
        list(scan_records(b"\x0c\0\0\0\1\1\x80", 1))


def test_records_are_scanned_where_they_lie() -> None:
    batch = batch_of_records()
    assert [record.key for record in scan_records(batch[BatchHeader.SIZE :], 4)] == [
        b"a",
        b"b",
        None,
        b"",
    ]


# Filtering


@pytest.mark.parametrize("codec", CODECS)
def test_some_records_remain_at_their_offsets(codec: int) -> None:
    batch = batch_of_records(codec=codec, is_transactional=True)
    header = read_batch_header(batch)
    records_kept = [record for record in read_records(batch) if record.offset in (41, 43)]
    filtered = filtered_batch(header, records_kept, delete_horizon_ms=None)
    filtered_header = read_batch_header(filtered)
    assert read_records(filtered) == records_kept
    assert crc_is_valid(filtered, filtered_header)
    assert (
        filtered_header.base_offset,
        filtered_header.last_offset,
        filtered_header.leader_epoch,
    ) == (40, 43, 3)
    assert (
        filtered_header.producer_id,
        filtered_header.producer_epoch,
        filtered_header.base_sequence,
    ) == (7, 2, 5)
    assert filtered_header.last_sequence == header.last_sequence
    assert (filtered_header.base_timestamp_ms, filtered_header.max_timestamp_ms) == (90, 105)
    assert filtered_header.records_count == 2
    assert filtered_header.attributes == header.attributes


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = batch_of_records()
    records = read_records(batch)
    horizon = filtered_batch(read_batch_header(batch), records, delete_horizon_ms=1_000_000)
    header_with_horizon = read_batch_header(horizon)
    assert header_with_horizon.has_delete_horizon
    assert header_with_horizon.base_timestamp_ms == 1_000_000
    assert header_with_horizon.max_timestamp_ms == 110
    assert read_records(horizon) == records
    filtered_again = filtered_batch(header_with_horizon, records[1:], delete_horizon_ms=None)
    assert not read_batch_header(filtered_again).has_delete_horizon


def test_append_time_stays_the_time_of_all() -> None:
    batch = batch_of_records(has_append_time=True)
    filtered = filtered_batch(
        read_batch_header(batch), read_records(batch)[:1], delete_horizon_ms=None
    )
    filtered_header = read_batch_header(filtered)
    assert filtered_header.is_log_append_time
    assert filtered_header.max_timestamp_ms == 200
    assert [record.timestamp_ms for record in read_records(filtered)] == [200]


def test_a_marker_with_a_horizon_says_the_same() -> None:
    marker = control_batch(
        producer_id=7,
        producer_epoch=2,
        is_commit=True,
        coordinator_epoch=4,
        base_offset=40,
        leader_epoch=0,
        timestamp_ms=100,
    )
    dated = filtered_batch(
        read_batch_header(marker), read_records(marker), delete_horizon_ms=1 << 41
    )
    dated_header = read_batch_header(dated)
    assert dated_header.is_control
    assert dated_header.is_transactional
    assert dated_header.has_delete_horizon
    assert read_control_record(dated) == read_control_record(marker)
    assert dated_header.max_timestamp_ms == 100


# Another codec


def recode(batch: bytes, codec: int, *, codec_level: int | None = None) -> bytes:
    header = read_batch_header(batch)
    rewritten_batch = recoded_batch(
        header, payload_of(batch, header), codec=codec, level=codec_level, size_max=1 << 30
    )
    assert isinstance(rewritten_batch, bytes)
    assert crc_is_valid(rewritten_batch, read_batch_header(rewritten_batch))
    return rewritten_batch


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("codec_level", [None, 1])
def test_a_batch_in_another_codec(codec: int, codec_level: int | None) -> None:
    batch = batch_of_records(codec=GZIP, is_transactional=True)
    rewritten_batch = recode(batch, codec, codec_level=codec_level)
    recoded_header = read_batch_header(rewritten_batch)
    assert recoded_header.compression == codec
    assert read_records(rewritten_batch) == read_records(batch)
    assert recoded_header.is_transactional
    assert (
        recoded_header.producer_id,
        recoded_header.base_sequence,
        recoded_header.max_timestamp_ms,
    ) == (7, 5, 110)


def test_a_recoded_batch_numbers_its_records_anew() -> None:
    batch = batch_of_records(has_append_time=True)
    header, records = read_batch_header(batch), read_records(batch)
    payload = b"".join(
        encode_record(records[record_index], offset_delta=7, timestamp_delta_ms=-record_index)
        for record_index in (1, 0)
    )
    batch = pack_batch(
        payload,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=2,
    )
    rewritten_batch = recode(batch, NONE)
    assert not read_batch_header(rewritten_batch).is_log_append_time
    assert [record.offset for record in read_records(rewritten_batch)] == [40, 41]
    assert [record.key for record in read_records(rewritten_batch)] == [b"b", b"a"]


@pytest.mark.parametrize("codec", CODECS)
def test_large_records_are_recoded_among_small_ones(codec: int) -> None:
    large_value = bytes(range(256)) * 8_000
    records = [
        Record(key=b"k", value=value) for value in (b"a", large_value, b"c", None, b"d" * 70_000)
    ]
    records += [Record(headers=(("h", None), ("", b"x" * 300)))]
    batch = build_batch(records, timestamp_ms=200)
    assert read_records(recode(batch, codec)) == read_records(batch)


def test_lengths_in_more_bytes_than_they_need_are_written_in_fewer() -> None:
    batch = build_batch([Record(key=b"k", value=b"v")], timestamp_ms=200)
    header, payload = read_batch_header(batch), payload_of(batch, read_batch_header(batch))
    for short_length, long_length in (
        (b"\x02k", b"\x82\x00k"),
        (b"\x02v", b"\x82\x00v"),
        (b"v\x00", b"v\x80\x00"),
    ):
        wasteful = payload.replace(short_length, long_length)
        wasteful = bytes((wasteful[0] + 2,)) + wasteful[1:]
        assert recoded_batch(header, wasteful, codec=NONE, size_max=1_000) == batch


def test_of_a_batch_that_becomes_too_large_the_size_alone_is_found() -> None:
    batch = build_batch([Record(value=b"x" * 200_000)], timestamp_ms=200, compression=GZIP)
    header = read_batch_header(batch)
    payload = payload_of(batch, header)
    whole_size = len(recode(batch, NONE))
    assert recoded_batch(header, payload, codec=NONE, size_max=whole_size - 1) == whole_size
    assert isinstance(recoded_batch(header, payload, codec=NONE, size_max=whole_size), bytes)


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
    prefix=st.binary(max_size=5),
)
def test_header_reads_back_what_was_packed(
    values: dict[str, int], payload: bytes, prefix: bytes
) -> None:
    packed_batch = pack_batch(payload, **values)
    header = read_batch_header(prefix + packed_batch, len(prefix))
    assert (
        values.items() <= {field_name: getattr(header, field_name) for field_name in values}.items()
    )
    assert header.magic == 2
    assert header.size == len(packed_batch) == 61 + len(payload)
    assert header.crc == crc_of(packed_batch) == crc32c.crc32c(packed_batch[21:])
    assert crc_is_valid(prefix + packed_batch, header, len(prefix))


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


def test_a_wrong_crc_is_told_with_the_offset_of_its_batch() -> None:
    complaint = read_batch_header(batch(base_offset=7)).wrong_crc
    assert complaint == "the batch of offset 7 has another CRC"


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
    old_batch = bytearray(batch())
    old_batch[16] = magic & 0xFF
    with pytest.raises(CorruptBatchError, match=f"magic {magic} is not 2"):
        read_batch_header(old_batch)


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_length_below_the_least_is_refused(length: int) -> None:
    short_batch = bytearray(batch())
    struct.pack_into(">i", short_batch, 8, length)
    with pytest.raises(CorruptBatchError, match=f"length {length} is below 49"):
        read_batch_header(short_batch)
    with pytest.raises(CorruptBatchError, match=f"length {length} is below 49"):
        list(iter_batches(short_batch))
    # Seen even where the header itself is cut off.
    with pytest.raises(CorruptBatchError, match=f"length {length} is below 49"):
        list(iter_batches(short_batch[:20]))


# Walking


def test_walk_gives_position_and_header() -> None:
    log = batch(b"one") + batch(b"", base_offset=200) + batch(b"three", base_offset=300)
    assert [(position, header.base_offset) for position, header in iter_batches(log)] == [
        (0, 100),
        (64, 200),
        (125, 300),
    ]
    assert [position for position, _ in iter_batches(log, 64)] == [64, 125]


@pytest.mark.parametrize("bytes_kept", [0, 11, 12, 60, 61, 67])
def test_partial_batch_at_the_end_stops_the_walk(bytes_kept: int) -> None:
    log = batch() + batch()[:bytes_kept]
    assert [position for position, _ in iter_batches(log)] == [0]


@given(batch_data=st.binary(max_size=200))
def test_arbitrary_bytes_are_walked_or_refused(batch_data: bytes) -> None:
    with contextlib.suppress(CorruptBatchError):
        assert sum(header.size for _, header in iter_batches(batch_data)) <= len(batch_data)


# Patching


def test_assigning_keeps_everything_but_offset_and_epoch() -> None:
    header_before = read_batch_header(batch())
    assigned = assign(batch(), base_offset=2**40, leader_epoch=9)
    header_after = read_batch_header(assigned)
    assert crc_is_valid(assigned, header_after)
    expected = {**as_dict(header_before), "base_offset": 2**40, "leader_epoch": 9}
    assert as_dict(header_after) == expected
    assert assigned[61:] == batch()[61:]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_assigning_takes_any_buffer(kind: type[bytes]) -> None:
    assert assign(kind(batch()), base_offset=100, leader_epoch=7) == batch()


@pytest.mark.parametrize("attributes", [0x10, 0x18])
@pytest.mark.parametrize("has_append_time", [False, True])
def test_restamping_sets_time_type_and_crc(attributes: int, has_append_time: bool) -> None:
    batch_before = batch(attributes=attributes)
    stamped = restamp(batch_before, max_timestamp_ms=9000, has_log_append_time=has_append_time)
    header = read_batch_header(stamped)
    assert crc_is_valid(stamped, header)
    assert as_dict(header) == {
        **as_dict(read_batch_header(batch_before)),
        "max_timestamp_ms": 9000,
        "attributes": 0x18 if has_append_time else 0x10,
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
    return {field_name: getattr(header, field_name) for field_name in header.__struct_fields__}
