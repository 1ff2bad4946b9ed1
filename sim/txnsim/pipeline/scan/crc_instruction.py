"""The processor's own instruction for CRC-32C (x86: SSE 4.2), for compiled loops.

numba has no function for it, so it is put in as LLVM's intrinsic. A loop that uses it must not be
compiled where ``HAS_INSTRUCTION`` is false: LLVM would end the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

_FEATURES: Final[str] = cpu_target.target_context.codegen().magic_tuple()[2]
"""What numba compiles for: the processor's, or less where ``NUMBA_CPU_NAME`` says so."""
HAS_INSTRUCTION: Final = "+sse4.2" in _FEATURES.split(",")

_function: Final[Any] = cgutils.get_or_insert_function
_BYTE: Final = ir.IntType(8)
_FOUR: Final = ir.IntType(32)
_EIGHT: Final = ir.IntType(64)

Step = Callable[[Any, Any, Any], Any]
"""(CRC so far, buffer of uint8, index in it) -> CRC with what lies there; no bound is checked."""


def _step(name: str, crc: Any, piece: Any) -> Any:
    """How a call is put into a compiled function: load a piece, which need not be aligned, and give
    it to the instruction.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        so_far, buffer, at = args
        data = context.make_array(signature.args[1])(context, builder, buffer).data
        place = builder.bitcast(builder.gep(data, [at]), piece.as_pointer())
        kind = ir.FunctionType(crc, [crc, piece])
        return builder.call(
            _function(builder.module, kind, name), [so_far, builder.load(place, align=1)]
        )

    return lower


def _eight_bytes(_typing: Any, _crc: Any, buffer: Any, _at: Any) -> Any:
    lower = _step("llvm.x86.sse42.crc32.64.64", _EIGHT, _EIGHT)
    return types.uint64(types.uint64, buffer, types.int64), lower


def _one_byte(_typing: Any, _crc: Any, buffer: Any, _at: Any) -> Any:
    lower = _step("llvm.x86.sse42.crc32.32.8", _FOUR, _BYTE)
    return types.uint32(types.uint32, buffer, types.int64), lower


with_eight_bytes: Final = cast("Step", intrinsic(_eight_bytes))
"""For a CRC as uint64."""
with_one_byte: Final = cast("Step", intrinsic(_one_byte))
"""For a CRC as uint32."""
