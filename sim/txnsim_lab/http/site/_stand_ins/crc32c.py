"""CRC-32C by a table. It replaces the library ``crc32c``, which has no wheel for WebAssembly."""

from __future__ import annotations

from typing import Final

from typing_extensions import Buffer

_REVERSED_POLYNOMIAL: Final = 0x82F63B78


def _table_entry(crc: int) -> int:
    for _ in range(8):
        crc = (crc >> 1) ^ (_REVERSED_POLYNOMIAL if crc & 1 else 0)
    return crc


_CRC_TABLE: Final = tuple(_table_entry(value) for value in range(256))


def crc32c(data: Buffer, value: int = 0) -> int:
    """The checksum of ``data``, continued from the checksum ``value`` of the data before it."""
    value ^= 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF
