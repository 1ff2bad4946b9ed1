"""CRC-32C of many small batches at once, compiled.

For a batch of 90 bytes the call of a library costs more than the computation. The loop takes eight
bytes at a time, by the processor's instruction if it has one, else through a table for each byte
("slicing by 8"). The instruction (x86: SSE 4.2) is put in as LLVM's intrinsic, as numba has no
function for it. A loop that uses it must not be compiled where ``HAS_INSTRUCTION`` is false: LLVM
would end the process. The library computes large batches (``crcs`` chooses). Kafka's
counterpart: Crc32C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from txnsim_spark.scan.kernel import compile_function
from txnsim_spark.scan.pieces import Ints

_FEATURES: Final[str] = cpu_target.target_context.codegen().magic_tuple()[2]
"""The processor's features that numba compiles for: all, or those of ``NUMBA_CPU_NAME``."""
HAS_INSTRUCTION: Final = "+sse4.2" in _FEATURES.split(",")

_function: Final[Any] = cgutils.get_or_insert_function
_BYTE: Final = ir.IntType(8)
_FOUR: Final = ir.IntType(32)
_EIGHT: Final = ir.IntType(64)

Step = Callable[[Any, Any, Any], Any]
"""(CRC so far, buffer of uint8, index) -> CRC with the bytes at that index; no bound is checked."""


def _step(name: str, crc: Any, piece: Any) -> Any:
    """Code of one step for LLVM: load some bytes, aligned or not, and pass them to the processor's
    instruction.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        so_far, buffer, position = args
        data = context.make_array(signature.args[1])(context, builder, buffer).data
        address = builder.bitcast(builder.gep(data, [position]), piece.as_pointer())
        kind = ir.FunctionType(crc, [crc, piece])
        return builder.call(
            _function(builder.module, kind, name), [so_far, builder.load(address, align=1)]
        )

    return lower


def _eight_bytes(_typing: Any, _crc: Any, buffer: Any, _at: Any) -> Any:
    lower = _step("llvm.x86.sse42.crc32.64.64", _EIGHT, _EIGHT)
    return types.uint64(types.uint64, buffer, types.int64), lower


def _one_byte(_typing: Any, _crc: Any, buffer: Any, _at: Any) -> Any:
    lower = _step("llvm.x86.sse42.crc32.32.8", _FOUR, _BYTE)
    return types.uint32(types.uint32, buffer, types.int64), lower


with_eight_bytes: Final = cast("Step", intrinsic(_eight_bytes))
"""A step over eight bytes; the CRC is a uint64."""
with_one_byte: Final = cast("Step", intrinsic(_one_byte))
"""A step over one byte; the CRC is a uint32."""


POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's polynomial, with its bits in the order of the wire."""
LANES: Final = 8


def _tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Table k: how a byte changes the CRC when k more bytes follow it."""
    tables = np.zeros((LANES, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for lane in range(1, LANES):
        lane_before = tables[lane - 1]
        tables[lane] = (lane_before >> np.uint32(8)) ^ tables[0][lane_before & np.uint32(0xFF)]
    return tables


TABLES: Final = _tables()


def check_crcs(buffer: Any, starts: Ints, sizes: Ints, stated: Ints, valid: Any) -> None:
    """Fill ``valid`` with whether each batch's CRC is the one that it states."""
    if HAS_INSTRUCTION:
        check_by_instruction(buffer, starts, sizes, stated, valid)
    else:
        check_by_tables(buffer, starts, sizes, stated, TABLES, valid)


@compile_function
def check_by_instruction(buffer: Any, starts: Ints, sizes: Ints, stated: Ints, valid: Any) -> None:
    """``check_crcs`` by the processor's instruction."""
    for number in range(len(starts)):
        position = starts[number]
        end = position + sizes[number]
        wide = np.uint64(0xFFFFFFFF)
        while position + 8 <= end:
            wide = with_eight_bytes(wide, buffer, position)
            position += 8
        crc = np.uint32(wide)
        while position < end:
            crc = with_one_byte(crc, buffer, position)
            position += 1
        valid[number] = (crc ^ np.uint32(0xFFFFFFFF)) == np.uint32(stated[number])


@compile_function
def check_by_tables(
    buffer: Any, starts: Ints, sizes: Ints, stated: Ints, tables: Any, valid: Any
) -> None:
    """``check_crcs`` on any processor; ``tables`` are ``TABLES``."""
    for number in range(len(starts)):
        position = starts[number]
        end = position + sizes[number]
        crc = np.uint32(0xFFFFFFFF)
        while position + 8 <= end:
            crc_before, crc = crc, np.uint32(0)
            for lane in range(4):
                index = buffer[position + lane] ^ np.uint8(crc_before >> np.uint32(8 * lane))
                crc ^= tables[7 - lane, index] ^ tables[3 - lane, buffer[position + 4 + lane]]
            position += 8
        while position < end:
            crc = tables[0, (crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)] ^ (
                crc >> np.uint32(8)
            )
            position += 1
        valid[number] = (crc ^ np.uint32(0xFFFFFFFF)) == np.uint32(stated[number])
