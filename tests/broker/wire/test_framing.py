from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import MalformedFrameError
from txnsim.wire.codec import FrameReader


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def feed(reader: FrameReader, chunks: Iterable[bytes]) -> list[bytes]:
    return [frame for chunk in chunks for frame in reader.receive_data(chunk)]


def test_chunk_of_whole_frames_gives_them_in_order() -> None:
    reader = FrameReader(100)
    assert reader.receive_data(framed(b"one") + framed(b"") + framed(b"three")) == [
        b"one",
        b"",
        b"three",
    ]
    assert reader.buffered_bytes == 0


def test_frame_comes_out_when_its_last_byte_is_there() -> None:
    reader = FrameReader(100)
    data = framed(b"hello")
    for size in range(1, len(data)):
        assert reader.receive_data(data[size - 1 : size]) == []
        assert reader.buffered_bytes == size
    assert reader.receive_data(data[-1:]) == [b"hello"]
    assert reader.buffered_bytes == 0


def test_rest_of_a_chunk_waits_for_more() -> None:
    reader = FrameReader(100)
    assert reader.receive_data(framed(b"whole") + framed(b"half")[:6]) == [b"whole"]
    assert reader.buffered_bytes == 6
    assert reader.receive_data(b"lf" + framed(b"next")) == [b"half", b"next"]


@pytest.mark.parametrize("cut", [2, 4, 7])
def test_a_frame_that_will_never_be_whole_is_thrown_away(cut: int) -> None:
    reader = FrameReader(100)
    reader.receive_data(bytes([0, 0, 0, 5, 1, 2, 3, 4, 5])[:cut])
    assert reader.buffered_bytes == cut
    reader.forget()
    assert reader.buffered_bytes == 0
    assert reader.receive_data(bytes([0, 0, 0, 1, 9])) == [bytes([9])]


def test_empty_chunk_changes_nothing() -> None:
    reader = FrameReader(100)
    assert reader.receive_data(b"") == []
    reader.receive_data(b"\0\0")
    assert reader.receive_data(b"") == []
    assert reader.receive_data(b"\0\1x") == [b"x"]


def test_frame_of_exactly_the_limit_is_accepted() -> None:
    assert FrameReader(5).receive_data(framed(b"12345")) == [b"12345"]


def test_the_limit_may_change_between_frames() -> None:
    reader = FrameReader(5)
    reader.limit = 6
    assert reader.receive_data(framed(b"123456")) == [b"123456"]
    reader.limit = 5
    with pytest.raises(MalformedFrameError):
        reader.receive_data(framed(b"123456"))


@pytest.mark.parametrize("size", [6, 0x7FFFFFFF, -1, -(2**31), 0x47455420])
def test_absurd_size_is_refused_with_size_and_limit(size: int) -> None:
    reader = FrameReader(5)
    with pytest.raises(MalformedFrameError, match=rf"{size} is outside 0\.\.5"):
        reader.receive_data(size.to_bytes(4, "big", signed=True))


def test_a_client_of_tls_is_called_one() -> None:
    with pytest.raises(MalformedFrameError, match="TLS"):
        FrameReader(5).receive_data(b"\x16\x03\x01\x02\x00\x01")


def test_size_is_refused_before_anything_is_stored_for_it() -> None:
    reader = FrameReader(5)
    assert reader.receive_data(b"\x7f\xff\xff") == []
    with pytest.raises(MalformedFrameError):
        reader.receive_data(b"\xff")
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("chunk", [1000, 1024])
def test_large_frame_in_small_chunks_is_joined_once(chunk: int) -> None:
    """Each chunk is looked at once; joining at every chunk would take minutes here."""
    payload = bytes(32 << 20)
    data = framed(payload)
    reader = FrameReader(len(payload))
    chunks = (data[start : start + chunk] for start in range(0, len(data), chunk))
    assert feed(reader, chunks) == [payload]


def test_trickle_of_single_bytes_takes_little_more_than_their_number() -> None:
    size = 20_000
    reader = FrameReader(size)
    reader.receive_data(framed(bytes(size))[:4])
    tracemalloc.start()
    try:
        for _ in range(size - 1):
            reader.receive_data(b"x")
        assert tracemalloc.get_traced_memory()[0] < 2 * size + 1000
    finally:
        tracemalloc.stop()
    assert reader.buffered_bytes == size + 3
    assert reader.receive_data(b"x") == [b"x" * size]


@given(
    payloads=st.lists(st.binary(max_size=50), max_size=6),
    cuts=st.lists(st.integers(min_value=0, max_value=400), max_size=20),
)
def test_frames_do_not_depend_on_where_the_stream_is_cut(
    payloads: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(framed(payload) for payload in payloads)
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[start:end] for start, end in pairwise(ends)]
    reader = FrameReader(50)
    assert feed(reader, chunks) == payloads
    assert reader.buffered_bytes == 0


@given(chunks=st.lists(st.binary(max_size=30), max_size=20))
def test_arbitrary_bytes_are_frames_or_refused(chunks: list[bytes]) -> None:
    reader = FrameReader(1 << 20)
    received = 0
    with contextlib.suppress(MalformedFrameError):
        for chunk in chunks:
            received += len(chunk)
            for frame in reader.receive_data(chunk):
                received -= len(frame) + 4
            assert reader.buffered_bytes == received


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"POST /api/v1/faults", b"PRI * HTTP/2"])
def test_http_is_named_as_such(start: bytes) -> None:
    with pytest.raises(MalformedFrameError, match="HTTP begins: this is a Kafka listener"):
        FrameReader(100_000_000).receive_data(start)


def test_what_is_neither_is_only_too_large() -> None:
    with pytest.raises(MalformedFrameError, match=r"outside 0\.\.5$"):
        FrameReader(5).receive_data(b"\x16\x02\x01\x02\x00\x01")
