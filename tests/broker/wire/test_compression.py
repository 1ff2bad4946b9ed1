from __future__ import annotations

import importlib
import importlib.util
import mmap
import sys
import time  # noqa: TID251 - measures the CPU time of a pure function
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import CorruptBatchError, MissingExtraError, UnpacksTooLargeError
from txnsim.wire.compression import (
    AT_ONCE_MAX,
    GZIP,
    LZ4,
    NAMES,
    NONE,
    SNAPPY,
    ZSTD,
    Packed,
    compress,
    decompress,
    decompress_at_once,
)

needs_cramjam = pytest.mark.skipif(
    importlib.util.find_spec("cramjam") is None, reason="cramjam has snappy, lz4 and zstd"
)
CODECS = [
    NONE,
    GZIP,
    *(pytest.param(codec, marks=needs_cramjam) for codec in (SNAPPY, LZ4, ZSTD)),
]


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.one_of(st.binary(max_size=100), st.binary(max_size=20).map(lambda b: b * 5000)))
def test_data_comes_back(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS[1:])
def test_equal_data_gives_equal_bytes(codec: int) -> None:
    assert compress(codec, b"abc" * 100) == compress(codec, b"abc" * 100)


@pytest.mark.parametrize("codec", CODECS[1:])
@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_decompressed_or_refused(codec: int, data: bytes) -> None:
    try:
        decompress(codec, data)
    except CorruptBatchError as error:
        assert NAMES[codec] in str(error)  # noqa: PT017 - not raising is right, too


@pytest.mark.parametrize("codec", CODECS[1:])
def test_cut_off_data_is_refused(codec: int) -> None:
    whole = compress(codec, bytes(range(256)) * 10)
    with pytest.raises(CorruptBatchError, match=NAMES[codec]):
        decompress(codec, whole[:-1])


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
    whole = compress(codec, data)
    assert decompress(codec, whole, len(data)) == data
    with pytest.raises(UnpacksTooLargeError, match=f"{NAMES[codec]}: .* {len(data) - 1} bytes"):
        decompress(codec, whole, len(data) - 1)


def test_empty_gzip_members_are_not_copied_quadratically() -> None:
    data = compress(GZIP, b"") * 52_000 + compress(GZIP, b"records")
    began = time.process_time()
    assert decompress(GZIP, data) == b"records"
    assert time.process_time() - began < 5


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_is_little_work_is_done_at_once(codec: int) -> None:
    data = bytes(range(256)) * 100
    assert decompress_at_once(codec, compress(codec, data)) == data
    whole = bytes(AT_ONCE_MAX)
    assert decompress_at_once(codec, compress(codec, whole)) == whole
    assert decompress_at_once(codec, compress(codec, bytes(AT_ONCE_MAX + 1))) is None
    assert decompress_at_once(codec, bytes(AT_ONCE_MAX + 1)) is None
    with pytest.raises(CorruptBatchError, match=NAMES[codec]):
        decompress_at_once(codec, compress(codec, data)[:-1])


def test_many_members_of_gzip_are_not_little_work() -> None:
    assert decompress_at_once(GZIP, compress(GZIP, b"") * 200 + compress(GZIP, b"one")) is None
    assert decompress_at_once(GZIP, compress(GZIP, b"") * 20 + compress(GZIP, b"one")) == b"one"


@needs_cramjam
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_much_work_is_done_in_a_room(codec: int) -> None:
    data = bytes(range(256)) * 8_000
    packed = Packed(codec, compress(codec, data), len(data))
    with mmap.mmap(-1, packed.room_bytes) as room:
        for _ in range(2):  # whatever was there before
            with packed.unpack(room) as found:
                assert found == data
        with pytest.raises(UnpacksTooLargeError, match=f"{len(data) - 1} bytes"):
            packed._replace(at_most=len(data) - 1).unpack(room)
        with pytest.raises(CorruptBatchError, match=NAMES[codec]):
            packed._replace(data=packed.data[:-1]).unpack(room)
        if codec == GZIP:
            with packed._replace(data=packed.data * 2, at_most=len(data) * 2).unpack(
                mmap.mmap(-1, 2 * len(data) + 1)
            ) as found:
                assert found == data * 2
            with pytest.raises(CorruptBatchError):
                packed._replace(data=packed.data + b"rest").unpack(room)


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
def test_snappy_is_written_in_blocks_of_snappy_java() -> None:
    written = compress(SNAPPY, bytes(70_000))
    assert written.startswith(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01")
    sizes = []
    position = 16
    while position < len(written):
        sizes.append(int.from_bytes(written[position : position + 4], "big"))
        position += 4 + sizes[-1]
    assert len(sizes) == 3
    assert position == len(written)


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
        with pytest.raises(MissingExtraError, match=f"{NAMES[codec]}.*pip install cramjam"):
            convert(codec, b"x")


@needs_cramjam
def test_an_lz4_frame_has_independent_blocks_and_linked_ones_are_refused() -> None:
    # Kafka's Lz4BlockInputStream reads no others, and cramjam's own frames are linked.
    noise = bytes(range(256)) * 512
    whole = compress(LZ4, noise)
    assert whole[:7].hex() == "04224d18604082"
    assert decompress(LZ4, whole) == noise
    linked = bytes(importlib.import_module("cramjam").lz4.compress(noise))
    with pytest.raises(CorruptBatchError, match="linked blocks"):
        decompress(LZ4, linked)


@needs_cramjam
def test_what_lz4_can_not_make_smaller_is_stored() -> None:
    assert compress(LZ4, b"x")[7:] == b"\1\0\0\x80x\0\0\0\0"
    assert decompress(LZ4, compress(LZ4, b"x")) == b"x"
