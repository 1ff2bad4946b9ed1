from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.wire.varint import read_uvarint, uvarint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    assert read_uvarint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(value=st.integers(min_value=0, max_value=2**32 - 1), prefix=st.binary(max_size=3))
def test_reads_back_what_was_written(value: int, prefix: bytes) -> None:
    encoded = uvarint(value)
    assert read_uvarint(prefix + encoded + b"\xff", len(prefix)) == (
        value,
        len(prefix) + len(encoded),
    )


def test_bits_above_thirty_two_are_dropped_as_java_does() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x7f", 0) == (2**32 - 1, 5)


def test_sixth_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="more than five bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x01", 0)


def test_cut_off_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80", 0)
