"""Unsigned varints, the encoding of lengths and tags in flexible messages (KIP-482,
``ByteUtils``).
"""

from __future__ import annotations

from typing import Final


def uvarint(number: int) -> bytes:
    """Encode an unsigned varint."""
    if number < len(SMALL_VARINTS):
        return SMALL_VARINTS[number]
    return encode_uvarint(number)


def encode_uvarint(number: int) -> bytes:
    """Encode a value that is not in ``SMALL_VARINTS``."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


SMALL_VARINTS: Final = tuple(encode_uvarint(value) for value in range(1024))
"""The encodings of the smallest values, computed in advance: nearly every length is among them."""


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint.

    Returns:
        (value of 32 bits, position after it).

    Raises:
        IndexError: The buffer ends first.
        ValueError: It has more than five bytes (as in ``ByteUtils.readUnsignedVarint``).
    """
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
    raise ValueError("an unsigned varint has more than five bytes")
