"""Records in batches, written and read."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import mmap
import sys
import time  # noqa: TID251 - measures the CPU time of a pure function
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from txnsim.errors import CorruptBatchError, MissingExtraError, UnpacksTooLargeError
from txnsim.wire.batch_header import (
    BatchHeader,
    crc_is_valid,
    iter_batches,
    pack_batch,
    read_batch_header,
)
from txnsim.wire.compression import (
    AT_ONCE_MAX,
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    PackedRecords,
    compress,
    decompress,
    decompress_at_once,
)
from txnsim.wire.records import (
    Record,
    build_batch,
    encode_record,
    in_batches,
    only_record,
    payload_of,
    read_records,
    timestamps_in,
)

BYTES = st.one_of(st.none(), st.binary(max_size=40))


def record_lists(*, time_min_ms: int, time_max_ms: int) -> st.SearchStrategy[list[Record]]:
    record = st.builds(
        Record,
        key=BYTES,
        value=st.one_of(BYTES, st.binary(min_size=100, max_size=200)),
        timestamp_ms=st.integers(time_min_ms, time_max_ms),
        headers=st.lists(st.tuples(st.text(max_size=10), BYTES), max_size=3).map(tuple),
    )
    return st.lists(record, min_size=1, max_size=8)


RECORDS = record_lists(time_min_ms=-1, time_max_ms=2**62)


def pack_around(payload: bytes, record_count: int = 1, **changes: int) -> bytes:
    """Return a batch around bytes that the test has written as records."""
    values = {
        "base_offset": 10,
        "leader_epoch": 0,
        "attributes": 0,
        "last_offset_delta": 0,
        "base_timestamp_ms": 1000,
        "max_timestamp_ms": 1000,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
    }
    return pack_batch(payload, records_count=record_count, **{**values, **changes})


def corrupt(payload: bytes, count: int = 1) -> str:
    with pytest.raises(CorruptBatchError) as error_info:
        read_records(pack_around(payload, count))
    return str(error_info.value)


# Building and reading


@given(
    records=RECORDS, compression=st.sampled_from([NONE, GZIP]), base_offset=st.integers(0, 2**62)
)
def test_records_come_back_as_they_were_built(
    records: list[Record], compression: int, base_offset: int
) -> None:
    built = build_batch(records, timestamp_ms=5, compression=compression, base_offset=base_offset)
    read = read_records(built)
    assert [record.offset for record in read] == [base_offset + i for i in range(len(records))]
    for record, record_read in zip(records, read, strict=True):
        assert (
            record_read.key,
            record_read.value,
            record_read.timestamp_ms,
            record_read.headers,
        ) == (
            record.key,
            record.value,
            record.timestamp_ms,
            record.headers,
        )
    header = read_batch_header(built)
    assert crc_is_valid(built, header)
    assert header.max_timestamp_ms == max(record.timestamp_ms or 0 for record in read)


@pytest.mark.slow
@given(records=record_lists(time_min_ms=0, time_max_ms=2**40))
def test_an_independent_reader_sees_the_same(records: list[Record]) -> None:
    """The independent reader is kio, without timestamps, which it rounds down to seconds."""
    built = build_batch(records, timestamp_ms=5, producer_id=9, producer_epoch=2, base_sequence=4)
    independent_batch, size_bytes = read_batch(built, 0)
    assert size_bytes == len(built)
    assert (
        independent_batch.producer_id,
        independent_batch.producer_epoch,
        independent_batch.base_sequence,
    ) == (9, 2, 4)
    assert [
        (record.key, record.value, [(header.key, header.value) for header in record.headers])
        for record in independent_batch.records
    ] == [
        (
            record.key,
            record.value,
            [(key.encode(), header_value) for key, header_value in record.headers],
        )
        for record in records
    ]


def test_times_default_to_that_of_the_batch() -> None:
    built = build_batch([Record(), Record(timestamp_ms=7)], timestamp_ms=1700000000123)
    assert [record.timestamp_ms for record in read_records(built)] == [1700000000123, 7]
    assert read_batch_header(built).max_timestamp_ms == 1700000000123


def test_log_append_time_is_the_time_of_every_record() -> None:
    built = build_batch(
        [Record(timestamp_ms=1), Record(timestamp_ms=99)], timestamp_ms=50, has_log_append_time=True
    )
    assert read_batch_header(built).max_timestamp_ms == 50
    assert [record.timestamp_ms for record in read_records(built)] == [50, 50]


@pytest.mark.parametrize(("has_append_time", "stamps"), [(False, [1, 99]), (True, [50, 50])])
def test_stamps_are_those_of_the_records_or_of_the_append(
    has_append_time: bool, stamps: list[int]
) -> None:
    built = build_batch(
        [Record(timestamp_ms=1), Record(timestamp_ms=99)],
        timestamp_ms=50,
        has_log_append_time=has_append_time,
    )
    header = read_batch_header(built)
    stamps_found = list(timestamps_in(payload_of(built, header), header))
    assert stamps_found == list(zip(stamps, (0, 1), strict=True))
    with pytest.raises(CorruptBatchError, match="batch at offset 0: a record is cut off"):
        list(timestamps_in(b"", header))


def test_attributes_say_what_was_asked_for() -> None:
    header = read_batch_header(
        build_batch([Record()], timestamp_ms=0, is_transactional=True, compression=GZIP)
    )
    assert header.is_transactional
    assert header.compression == GZIP
    assert not header.is_log_append_time


def test_batch_without_records_can_not_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([], timestamp_ms=0)


def test_offsets_may_have_gaps_after_compaction() -> None:
    built = pack_around(bytes([12, 0, 0, 10, 1, 1, 0]), last_offset_delta=9)
    assert read_records(built)[0].offset == 15


def test_batch_emptied_by_compaction_has_no_records() -> None:
    assert read_records(pack_around(b"", 0)) == []


# What can't be read


def test_batch_that_is_cut_off() -> None:
    built = build_batch([Record(value=b"v")], timestamp_ms=0)
    with pytest.raises(CorruptBatchError, match="only 68 there"):
        read_records(built[:-1])


@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (bytes([12, 0, 0, 0, 1, 1, 0]), 2, "2 records do not fit in 7 bytes"),
        (bytes([12, 0, 0, 0, 1, 1, 0]), -1, "-1 records do not fit"),
        (bytes([12, 0, 0, 0, 1, 1, 0]), 2**31 - 1, "do not fit"),
        (bytes([12, 0, 0, 0, 1, 1, 0, 9]), 1, "1 bytes after the last record"),
        (bytes([14, 0, 0, 0, 1, 1, 0]), 1, "7 bytes, 6 are left"),
        (bytes([1, 0, 0, 0, 1, 1, 0]), 1, "-1 bytes"),
        (bytes([14, 0, 0, 0, 1, 1, 0, 9]), 1, "its size says 8"),
        (bytes([12, 0, 0, 0, 1, 1, 2]), 1, "1 headers in 0 bytes"),
        (bytes([12, 0, 0, 0, 1, 1, 1]), 1, "-1 headers"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1, "a header without key"),
        (bytes([12, 0, 0, 0, 20, 1, 0]), 1, "10 bytes at byte 5"),
        (bytes([12, 0, 0, 0, 1, 1, 128]), 1, "record 0 is cut off"),
        (bytes([255] * 6 + [1]), 1, "more than 5 bytes"),
        (bytes([24, 0] + [255] * 10 + [1]), 1, "more than 10 bytes"),
    ],
)
def test_broken_records_are_refused(payload: bytes, count: int, reason: str) -> None:
    assert reason in corrupt(payload, count)


def test_header_key_of_invalid_utf8_is_mended() -> None:
    payload = bytes([18, 0, 0, 0, 1, 1, 2, 2, 0xFF, 1])
    assert read_records(pack_around(payload))[0].headers == (("\ufffd", None),)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    payload=st.lists(st.sampled_from([0, 1, 2, 4, 12, 14, 128, 255]), max_size=60).map(bytes),
    count=st.integers(min_value=0, max_value=9),
)
def test_arbitrary_records_are_read_or_refused(payload: bytes, count: int) -> None:
    with contextlib.suppress(CorruptBatchError):
        read_records(pack_around(payload, count))


@given(records=RECORDS, position=st.integers(min_value=0), value=st.integers(0, 255))
def test_changed_byte_is_noticed_or_harmless(
    records: list[Record], position: int, value: int
) -> None:
    built = bytearray(build_batch(records, timestamp_ms=0))
    built[BatchHeader.SIZE + position % (len(built) - BatchHeader.SIZE)] = value
    changed_bytes: Any = bytes(built)
    with contextlib.suppress(CorruptBatchError):
        assert len(read_records(changed_bytes)) == len(records)
        assert len(list(iter_batches(changed_bytes))) == 1


@pytest.mark.slow
@given(st.data())
def test_only_record_is_what_read_records_reads_or_nothing(data: st.DataObject) -> None:
    records = data.draw(record_lists(time_min_ms=0, time_max_ms=1_000))
    batch = bytearray(build_batch(records, timestamp_ms=5))
    if data.draw(st.booleans()):
        batch[data.draw(st.integers(BatchHeader.SIZE, len(batch) - 1))] ^= data.draw(
            st.integers(1, 255)
        )
    key_and_value = only_record(bytes(batch), read_batch_header(batch))
    if key_and_value is not None:
        (record,) = read_records(batch)
        assert key_and_value == (record.key, record.value)
        assert record.offset == 0


@pytest.mark.parametrize("record_value", [None, b"", b"v" * 20, b"v" * 5_000])
@pytest.mark.parametrize("key", [b"", b"key", b"k" * 300])
def test_only_record_reads_what_coordinators_write(key: bytes, record_value: bytes | None) -> None:
    batch = build_batch([Record(key=key, value=record_value)], timestamp_ms=5)
    assert only_record(batch, read_batch_header(batch)) == (key, record_value)


def test_only_record_leaves_to_others_what_coordinators_do_not_write() -> None:
    headed = build_batch([Record(key=b"k", value=b"v", headers=(("h", b""),))], timestamp_ms=1)
    assert only_record(headed, read_batch_header(headed)) is None
    long_batch = build_batch([Record(key=b"k", value=bytes(20_000))], timestamp_ms=1)
    assert only_record(long_batch, read_batch_header(long_batch)) is None
    cut_batch = bytearray(
        build_batch([Record(key=b"k", value=b"v")], timestamp_ms=1)[: BatchHeader.SIZE]
    )
    cut_batch[8:12] = (BatchHeader.SIZE - 12).to_bytes(
        4, "big"
    )  # its size: nothing is missing, by that
    assert only_record(bytes(cut_batch), read_batch_header(cut_batch)) is None


@given(
    sizes=st.lists(st.integers(min_value=0, max_value=400), max_size=30),
    limit=st.integers(min_value=0, max_value=1_500),
)
def test_records_are_shared_out_in_order_over_batches_that_are_full(
    sizes: list[int], limit: int
) -> None:
    """No batch exceeds the limit, unless it has only one record (MemoryRecordsBuilder)."""

    def encode(size: int, offset_delta: int) -> bytes:
        return encode_record(
            Record(key=b"k" * size), offset_delta=offset_delta, timestamp_delta_ms=0
        )

    def bytes_of(items: list[int]) -> int:
        return BatchHeader.SIZE + sum(
            len(encode(size, offset_delta)) for offset_delta, size in enumerate(items)
        )

    batches = list(in_batches(sizes, encode, batch_bytes_max=limit))
    assert [size for items, _ in batches for size in items] == sizes
    following_ones = [*batches[1:], None] if batches else []
    for (items, encoded_items), next_items in zip(batches, following_ones, strict=True):
        assert encoded_items == [encode(size, number) for number, size in enumerate(items)]
        assert bytes_of(items) <= limit or len(items) == 1
        assert next_items is None or bytes_of([*items, next_items[0][0]]) > limit


needs_cramjam = pytest.mark.skipif(
    importlib.util.find_spec("cramjam") is None, reason="cramjam has snappy, lz4 and zstd"
)
CODECS = [
    NONE,
    GZIP,
    *(pytest.param(codec, marks=needs_cramjam) for codec in (SNAPPY, LZ4, ZSTD)),
]


@pytest.mark.parametrize("codec", CODECS)
@given(
    batch_data=st.one_of(st.binary(max_size=100), st.binary(max_size=20).map(lambda b: b * 5000))
)
def test_data_comes_back(codec: int, batch_data: bytes) -> None:
    assert decompress(codec, compress(codec, batch_data)) == batch_data


@pytest.mark.parametrize("codec", CODECS[1:])
def test_equal_data_gives_equal_bytes(codec: int) -> None:
    assert compress(codec, b"abc" * 100) == compress(codec, b"abc" * 100)


@pytest.mark.parametrize("codec", CODECS[1:])
@given(batch_data=st.binary(max_size=60))
def test_arbitrary_bytes_are_decompressed_or_refused(codec: int, batch_data: bytes) -> None:
    try:
        decompress(codec, batch_data)
    except CorruptBatchError as error:
        assert CODEC_NAMES[codec] in str(error)  # noqa: PT017 - not raising is right, too


@pytest.mark.parametrize("codec", CODECS[1:])
def test_cut_off_data_is_refused(codec: int) -> None:
    whole_data = compress(codec, bytes(range(256)) * 10)
    with pytest.raises(CorruptBatchError, match=CODEC_NAMES[codec]):
        decompress(codec, whole_data[:-1])


@pytest.mark.parametrize("codec", CODECS[1:])
def test_bomb_is_refused_before_it_fills_the_memory(codec: int) -> None:
    bomb = compress(codec, bytes(8 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(UnpacksTooLargeError, match="1048576 bytes"):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_as_much_as_is_allowed_is_decompressed_and_not_a_byte_more(codec: int) -> None:
    data = bytes(range(256)) * 1_000
    whole_data = compress(codec, data)
    assert decompress(codec, whole_data, len(data)) == data
    with pytest.raises(
        UnpacksTooLargeError, match=f"{CODEC_NAMES[codec]}: .* {len(data) - 1} bytes"
    ):
        decompress(codec, whole_data, len(data) - 1)


def test_empty_gzip_members_are_not_copied_quadratically() -> None:
    compressed_bytes = compress(GZIP, b"") * 52_000 + compress(GZIP, b"records")
    began = time.process_time()
    assert decompress(GZIP, compressed_bytes) == b"records"
    assert time.process_time() - began < 5


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_is_little_work_is_done_at_once(codec: int) -> None:
    data = bytes(range(256)) * 100
    assert decompress_at_once(codec, compress(codec, data)) == data
    unpacked = bytes(AT_ONCE_MAX)
    assert decompress_at_once(codec, compress(codec, unpacked)) == unpacked
    assert decompress_at_once(codec, compress(codec, bytes(AT_ONCE_MAX + 1))) is None
    assert decompress_at_once(codec, bytes(AT_ONCE_MAX + 1)) is None
    with pytest.raises(CorruptBatchError, match=CODEC_NAMES[codec]):
        decompress_at_once(codec, compress(codec, data)[:-1])


def test_many_members_of_gzip_are_not_little_work() -> None:
    assert decompress_at_once(GZIP, compress(GZIP, b"") * 200 + compress(GZIP, b"one")) is None
    assert decompress_at_once(GZIP, compress(GZIP, b"") * 20 + compress(GZIP, b"one")) == b"one"


@needs_cramjam
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_much_work_is_done_in_a_room(codec: int) -> None:
    data = bytes(range(256)) * 8_000
    packed_records = PackedRecords(codec, compress(codec, data), len(data))
    with mmap.mmap(-1, packed_records.room_bytes) as buffer:
        for _ in range(2):  # whatever was there before
            with packed_records.unpack(buffer) as unpacked:
                assert unpacked == data
        with pytest.raises(UnpacksTooLargeError, match=f"{len(data) - 1} bytes"):
            packed_records._replace(bytes_max=len(data) - 1).unpack(buffer)
        with pytest.raises(CorruptBatchError, match=CODEC_NAMES[codec]):
            packed_records._replace(data=packed_records.data[:-1]).unpack(buffer)
        if codec == GZIP:
            with packed_records._replace(
                data=packed_records.data * 2, bytes_max=len(data) * 2
            ).unpack(mmap.mmap(-1, 2 * len(data) + 1)) as unpacked:
                assert unpacked == data * 2
            with pytest.raises(CorruptBatchError):
                packed_records._replace(data=packed_records.data + b"rest").unpack(buffer)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"compression {codec} is unknown"):
        decompress(codec, b"")
    with pytest.raises(ValueError, match=f"compression {codec} is unknown"):
        compress(codec, b"")


def test_gzip_members_may_follow_each_other() -> None:
    assert decompress(GZIP, compress(GZIP, b"one") + compress(GZIP, b"two")) == b"onetwo"


# snappy-java's framing


@needs_cramjam
def test_bare_snappy_block_is_understood() -> None:
    snappy: Any = importlib.import_module("cramjam").snappy
    assert decompress(SNAPPY, bytes(snappy.compress_raw(b"librdkafka" * 9))) == b"librdkafka" * 9


@needs_cramjam
def test_a_bare_snappy_block_that_is_cut_off_is_refused() -> None:
    snappy: Any = importlib.import_module("cramjam").snappy
    with pytest.raises(CorruptBatchError, match="snappy: "):
        decompress(SNAPPY, bytes(snappy.compress_raw(b"librdkafka" * 9))[:-1])


@needs_cramjam
def test_snappy_is_written_in_blocks_of_snappy_java() -> None:
    snappy_bytes = compress(SNAPPY, bytes(70_000))
    assert snappy_bytes.startswith(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01")
    sizes = []
    position = 16
    while position < len(snappy_bytes):
        sizes.append(int.from_bytes(snappy_bytes[position : position + 4], "big"))
        position += 4 + sizes[-1]
    assert len(sizes) == 3
    assert position == len(snappy_bytes)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0\0", "length of a block is cut off"),
        (b"\0\0\0\x09abc", "a block of 9 bytes, 3 are left"),
        (b"\xff\xff\xff\xff", "a block of -1 bytes"),
    ],
)
def test_broken_blocks_of_snappy_java_are_refused(tail: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        decompress(SNAPPY, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01" + tail)


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD])
def test_a_missing_library_is_named_with_its_pip_line(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for convert in (compress, decompress):
        with pytest.raises(MissingExtraError, match=f"{CODEC_NAMES[codec]}.*pip install cramjam"):
            convert(codec, b"x")


@needs_cramjam
def test_an_lz4_frame_has_independent_blocks_and_linked_ones_are_refused() -> None:
    # Kafka's Lz4BlockInputStream reads no others, and cramjam's own frames are linked.
    noise = bytes(range(256)) * 512
    frame = compress(LZ4, noise)
    assert frame[:7].hex() == "04224d18604082"
    assert decompress(LZ4, frame) == noise
    linked = bytes(importlib.import_module("cramjam").lz4.compress(noise))
    with pytest.raises(CorruptBatchError, match="linked blocks"):
        decompress(LZ4, linked)


@needs_cramjam
def test_what_lz4_can_not_make_smaller_is_stored() -> None:
    assert compress(LZ4, b"x")[7:] == b"\1\0\0\x80x\0\0\0\0"
    assert decompress(LZ4, compress(LZ4, b"x")) == b"x"
