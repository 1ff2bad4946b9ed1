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

_declare_function: Final[Any] = cgutils.get_or_insert_function
_BYTE_TYPE: Final = ir.IntType(8)
_INT32_TYPE: Final = ir.IntType(32)
_INT64_TYPE: Final = ir.IntType(64)

CrcStep = Callable[[Any, Any, Any], Any]
"""(CRC so far, buffer of uint8, index) -> CRC with the bytes at that index; no bound is checked."""


def _crc_step(instruction_name: str, crc_type: Any, piece_type: Any) -> Any:
    """Code of one step for LLVM: load some bytes, aligned or not, and pass them to the processor's
    instruction.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        crc_so_far, buffer, position = args
        data = context.make_array(signature.args[1])(context, builder, buffer).data
        address = builder.bitcast(builder.gep(data, [position]), piece_type.as_pointer())
        function_type = ir.FunctionType(crc_type, [crc_type, piece_type])
        return builder.call(
            _declare_function(builder.module, function_type, instruction_name),
            [crc_so_far, builder.load(address, align=1)],
        )

    return lower


def _step_of_eight_bytes(_typing_context: Any, _crc: Any, buffer: Any, _position: Any) -> Any:
    lower = _crc_step("llvm.x86.sse42.crc32.64.64", _INT64_TYPE, _INT64_TYPE)
    return types.uint64(types.uint64, buffer, types.int64), lower


def _step_of_one_byte(_typing_context: Any, _crc: Any, buffer: Any, _position: Any) -> Any:
    lower = _crc_step("llvm.x86.sse42.crc32.32.8", _INT32_TYPE, _BYTE_TYPE)
    return types.uint32(types.uint32, buffer, types.int64), lower


crc_with_eight_bytes: Final = cast("CrcStep", intrinsic(_step_of_eight_bytes))
"""A step over eight bytes; the CRC is a uint64."""
crc_with_one_byte: Final = cast("CrcStep", intrinsic(_step_of_one_byte))
"""A step over one byte; the CRC is a uint32."""


POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's polynomial, with its bits in the order of the wire."""
LANES: Final = 8


def _crc_tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
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


CRC_TABLES: Final = _crc_tables()


def check_crcs(
    buffer: Any, starts: Ints, sizes: Ints, stated_crcs: Ints, crc_is_right: Any
) -> None:
    """Fill ``crc_is_right`` with whether each batch's CRC is the one that it states."""
    if HAS_INSTRUCTION:
        check_by_instruction(buffer, starts, sizes, stated_crcs, crc_is_right)
    else:
        check_by_tables(buffer, starts, sizes, stated_crcs, CRC_TABLES, crc_is_right)


@compile_function
def check_by_instruction(
    buffer: Any, starts: Ints, sizes: Ints, stated_crcs: Ints, crc_is_right: Any
) -> None:
    """``check_crcs`` by the processor's instruction."""
    for row in range(len(starts)):
        position = starts[row]
        end = position + sizes[row]
        wide_crc = np.uint64(0xFFFFFFFF)
        while position + 8 <= end:
            wide_crc = crc_with_eight_bytes(wide_crc, buffer, position)
            position += 8
        crc = np.uint32(wide_crc)
        while position < end:
            crc = crc_with_one_byte(crc, buffer, position)
            position += 1
        crc_is_right[row] = (crc ^ np.uint32(0xFFFFFFFF)) == np.uint32(stated_crcs[row])


@compile_function
def check_by_tables(
    buffer: Any, starts: Ints, sizes: Ints, stated_crcs: Ints, tables: Any, crc_is_right: Any
) -> None:
    """``check_crcs`` on any processor; ``tables`` are ``CRC_TABLES``."""
    for row in range(len(starts)):
        position = starts[row]
        end = position + sizes[row]
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
        crc_is_right[row] = (crc ^ np.uint32(0xFFFFFFFF)) == np.uint32(stated_crcs[row])
