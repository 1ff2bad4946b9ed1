"""CRC-32C by a table. It replaces the library ``crc32c``, which has no wheel for WebAssembly."""

from __future__ import annotations

from typing import Final

from typing_extensions import Buffer

_REVERSED_POLYNOMIAL: Final = 0x82F63B78


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (_REVERSED_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE: Final = tuple(_entry(value) for value in range(256))


def crc32c(data: Buffer, value: int = 0) -> int:
    """The checksum of ``data``, continued from the checksum ``value`` of the data before it."""
    value ^= 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF
