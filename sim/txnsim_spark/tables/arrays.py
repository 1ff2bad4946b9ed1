"""Arrow arrays from values, built from their buffers.

``pyarrow.array`` and ``pyarrow.scalar`` load pandas, if it is installed, to see whether a value is
one of pandas': a third of a second of CPU in each process that reads a table, on workers of Spark
too. The arrays made here are the same (docs/format/Columnar.rst of Apache Arrow).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

_BYTES_MAX: Final = (1 << 31) - 1
"""Maximum size of all texts in an array: its offsets are numbers of 32 bits."""
_TIME_MAX_MS: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
_REPEATED_KEPT: Final = 32
"""Number of constant columns that are kept for reuse: thousands of rows of a segment share each."""


def of_numbers(numbers: Any, kind: pa.DataType, *, absent: Any = None) -> pa.Array:
    """An Arrow array of integers or times from numpy numbers, in the width of the type; null where
    ``absent`` is true.
    """
    as_integers = np.ascontiguousarray(numbers, dtype=f"<i{kind.bit_width // 8}")
    return _array(kind, len(as_integers), absent, as_integers)


def as_times(milliseconds: pa.Array, kind: pa.DataType) -> pa.Array:
    """Milliseconds since 1970 as times in microseconds. Times outside of the calendar are null,
    since Spark can't pass them to Python.
    """
    validity, data = milliseconds.buffers()
    begin, end = milliseconds.offset, milliseconds.offset + len(milliseconds)
    numbers = np.frombuffer(data, dtype=np.int64)[begin:end]
    absent = (numbers < 0) | (numbers > _TIME_MAX_MS)
    if milliseconds.null_count:
        bits = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little")
        absent |= bits[begin:end] == 0
    return of_numbers(np.where(absent, 0, numbers) * 1_000, kind, absent=absent)


def of_truths(truths: Any, kind: pa.DataType, *, absent: Any = None) -> pa.Array:
    """An Arrow array from numpy booleans; null where ``absent`` is true."""
    return _array(kind, len(truths), absent, _bits(truths))


def of_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array from Python values, null for None: texts, bytes, booleans, integers, times in
    the unit of the type, sequences of values, and mappings for structs.

    Args:
        values: One per row.
        kind: The type.

    Raises:
        OverflowError: A number does not fit, or there is too much text.
        TypeError: The type is another one, or a value is not of it.
    """
    absent = np.fromiter((value is None for value in values), np.bool_, len(values))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_texts(values, kind, absent)
    if pa.types.is_boolean(kind):
        truths = np.fromiter((value is True for value in values), np.bool_, len(values))
        return of_truths(truths, kind, absent=absent)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        width = f"<i{kind.bit_width // 8}"
        numbers = np.array([0 if value is None else value for value in values], dtype=np.int64)
        if (numbers.astype(width) != numbers).any():
            raise OverflowError(f"a number that is no {kind}")
        return of_numbers(numbers, kind, absent=absent)
    if pa.types.is_list(kind):
        sequences = [() if value is None else value for value in values]
        inner = of_values(list(chain.from_iterable(sequences)), kind.value_type)
        return _array(kind, len(values), absent, _places(sequences), children=[inner])
    if pa.types.is_struct(kind):
        parts = [
            of_values(
                [None if value is None else value[field.name] for value in values], field.type
            )
            for field in kind
        ]
        return _array(kind, len(values), absent, children=parts)
    raise TypeError(f"no array of {kind} is made here")


def of_pieces(buffer: Any, begins: Any, sizes: Any, kind: pa.DataType) -> pa.Array:
    """An Arrow array of bytes or texts from pieces of a buffer; in texts, bytes that are no UTF-8
    are replaced.

    Args:
        buffer: The buffer.
        begins: Start of each piece; in order, after the end of the previous one.
        sizes: Size of each piece; negative for null.
        kind: The type.

    Raises:
        OverflowError: The pieces are too large together.
    """
    count = len(sizes)
    if len(buffer) > _BYTES_MAX:
        raise OverflowError(f"{len(buffer)} bytes in one array")
    if not count:
        return of_values((), kind)
    places = np.empty(2 * count, dtype="<i4")
    places[0::2], places[1::2] = begins, begins + np.maximum(sizes, 0)
    # Pieces and what lies between them: Arrow copies every other one.
    all_of_it = _array(pa.binary(), 2 * count - 1, None, places, buffer)
    piece_numbers = of_numbers(np.arange(0, 2 * count, 2), pa.int32(), absent=sizes < 0)
    taken_pieces = all_of_it.take(piece_numbers)
    try:
        return taken_pieces.cast(kind)
    except pa.ArrowInvalid:  # no UTF-8
        pieces = taken_pieces.to_pylist()
        texts = [None if piece is None else piece.decode("utf-8", "replace") for piece in pieces]
        return of_values(texts, kind)


def of_lists(inner: pa.Array, counts: Any, kind: pa.DataType) -> pa.Array:
    """An Arrow array of lists over the values ``inner``; ``counts`` holds the length
    of each list.
    """
    return _array(kind, len(counts), None, _offsets_of_sizes(counts), children=[inner])


def of_struct(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """An Arrow array of structs from columns; none of the structs is null."""
    return _array(kind, len(parts[0]), None, children=parts)


@lru_cache(_REPEATED_KEPT)
def repeat_value(value: Hashable, count: int, kind: pa.DataType) -> pa.Array:
    """An Arrow array of one repeated value."""
    return pa.repeat(of_values([value], kind)[0], count)


def _of_texts(texts: Sequence[Any], kind: pa.DataType, absent: Any) -> pa.Array:
    if pa.types.is_string(kind):
        parts = [b"" if text is None else str.encode(text) for text in texts]
    else:
        parts = [b"" if text is None else text for text in texts]
    return _array(kind, len(texts), absent, _places(parts), b"".join(parts))


def _places(parts: Sequence[Any]) -> Any:
    """Offsets of concatenated parts: the start of each, then the end of the last one."""
    return _offsets_of_sizes(np.fromiter(map(len, parts), np.int64, len(parts)))


def _offsets_of_sizes(sizes: Any) -> Any:
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    if ends[-1] > _BYTES_MAX:
        raise OverflowError(f"{ends[-1]} bytes or values in one array")
    return ends.astype("<i4")


def _array(
    kind: pa.DataType, count: int, absent: Any, *data: Any, children: Sequence[pa.Array] = ()
) -> pa.Array:
    missing = absent is not None and absent.any()
    buffers = [pa.py_buffer(_bits(~absent)) if missing else None, *map(pa.py_buffer, data)]
    return pa.Array.from_buffers(kind, count, buffers, children=list(children) or None)


def _bits(truths: Any) -> Any:
    return np.packbits(truths, bitorder="little")
