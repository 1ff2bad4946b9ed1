"""CRC-32C of many small batches at once, compiled.

For a batch of 90 bytes the call of a library costs more than the computation. The loop takes eight
bytes at a time, by the processor's instruction if it has one, else through a table for each byte
("slicing by 8"). The library computes large batches (``recovery`` chooses). Kafka's counterpart:
Crc32C.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from txnsim.pipeline.scan.compiled import compiled
from txnsim.pipeline.scan.crc_instruction import HAS_INSTRUCTION, with_eight_bytes, with_one_byte
from txnsim.pipeline.scan.pieces import Ints

POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, its bits in the order of the wire."""
LANES: Final = 8


def _tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Table k: what a byte does to the CRC when k more bytes follow it."""
    tables = np.zeros((LANES, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for lane in range(1, LANES):
        before = tables[lane - 1]
        tables[lane] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(0xFF)]
    return tables


TABLES: Final = _tables()


def check_crcs(buffer: Any, starts: Ints, sizes: Ints, stated: Ints, valid: Any) -> None:
    """Compare CRCs with what the batches state.

    Args:
        buffer: Bytes, as an array of uint8.
        starts: Where what each CRC covers begins in it.
        sizes: How many bytes each covers.
        stated: The CRCs.
        valid: Booleans to be filled.
    """
    if HAS_INSTRUCTION:
        check_by_instruction(buffer, starts, sizes, stated, valid)
    else:
        check_by_tables(buffer, starts, sizes, stated, TABLES, valid)


@compiled
def check_by_instruction(buffer: Any, starts: Ints, sizes: Ints, stated: Ints, valid: Any) -> None:
    """``check_crcs`` where the processor has the instruction."""
    for number in range(len(starts)):
        at = starts[number]
        end = at + sizes[number]
        wide = np.uint64(0xFFFFFFFF)
        while at + 8 <= end:
            wide = with_eight_bytes(wide, buffer, at)
            at += 8
        crc = np.uint32(wide)
        while at < end:
            crc = with_one_byte(crc, buffer, at)
            at += 1
        valid[number] = (crc ^ np.uint32(0xFFFFFFFF)) == np.uint32(stated[number])


@compiled
def check_by_tables(
    buffer: Any, starts: Ints, sizes: Ints, stated: Ints, tables: Any, valid: Any
) -> None:
    """``check_crcs`` on any processor; ``tables`` are ``TABLES``."""
    for number in range(len(starts)):
        at = starts[number]
        end = at + sizes[number]
        crc = np.uint32(0xFFFFFFFF)
        while at + 8 <= end:
            crc ^= (
                np.uint32(buffer[at])
                | (np.uint32(buffer[at + 1]) << np.uint32(8))
                | (np.uint32(buffer[at + 2]) << np.uint32(16))
                | (np.uint32(buffer[at + 3]) << np.uint32(24))
            )
            crc = (
                tables[7, crc & np.uint32(0xFF)]
                ^ tables[6, (crc >> np.uint32(8)) & np.uint32(0xFF)]
                ^ tables[5, (crc >> np.uint32(16)) & np.uint32(0xFF)]
                ^ tables[4, crc >> np.uint32(24)]
                ^ tables[3, buffer[at + 4]]
                ^ tables[2, buffer[at + 5]]
                ^ tables[1, buffer[at + 6]]
                ^ tables[0, buffer[at + 7]]
            )
            at += 8
        while at < end:
            crc = tables[0, (crc ^ np.uint32(buffer[at])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
            at += 1
        valid[number] = (crc ^ np.uint32(0xFFFFFFFF)) == np.uint32(stated[number])
