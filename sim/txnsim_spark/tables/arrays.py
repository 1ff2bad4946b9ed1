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
_REPEATED_ARRAYS_MAX: Final = 32
"""Number of constant columns that are kept for reuse: thousands of rows of a segment share each."""


def number_array(values: Any, arrow_type: pa.DataType, *, absent_value: Any = None) -> pa.Array:
    """An Arrow array of integers or times from numpy numbers, in the width of the type; null where
    ``absent_value`` is true.
    """
    integers = np.ascontiguousarray(values, dtype=f"<i{arrow_type.bit_width // 8}")
    return _array_of_buffers(arrow_type, len(integers), absent_value, integers)


def time_array(milliseconds: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Milliseconds since 1970 as times in microseconds. Times outside of the calendar are null,
    since Spark can't pass them to Python.
    """
    validity_buffer, value_buffer = milliseconds.buffers()
    first_index, end_index = milliseconds.offset, milliseconds.offset + len(milliseconds)
    milliseconds_values = np.frombuffer(value_buffer, dtype=np.int64)[first_index:end_index]
    is_absent = (milliseconds_values < 0) | (milliseconds_values > _TIME_MAX_MS)
    if milliseconds.null_count:
        valid_bits = np.unpackbits(
            np.frombuffer(validity_buffer, dtype=np.uint8), bitorder="little"
        )
        is_absent |= valid_bits[first_index:end_index] == 0
    return number_array(
        np.where(is_absent, 0, milliseconds_values) * 1_000, arrow_type, absent_value=is_absent
    )


def boolean_array(truths: Any, arrow_type: pa.DataType, *, absent_value: Any = None) -> pa.Array:
    """An Arrow array from numpy booleans; null where ``absent_value`` is true."""
    return _array_of_buffers(arrow_type, len(truths), absent_value, _packed_bits(truths))


def value_array(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """An Arrow array from Python values, null for None: texts, bytes, booleans, integers, times in
    the unit of the type, sequences of values, and mappings for structs.

    Args:
        values: One per row.
        arrow_type: The type.

    Raises:
        OverflowError: A number does not fit, or there is too much text.
        TypeError: The type is another one, or a value is not of it.
    """
    is_absent = np.fromiter((value is None for value in values), np.bool_, len(values))
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return _of_texts(values, arrow_type, is_absent)
    if pa.types.is_boolean(arrow_type):
        truth_values = np.fromiter((value is True for value in values), np.bool_, len(values))
        return boolean_array(truth_values, arrow_type, absent_value=is_absent)
    if pa.types.is_integer(arrow_type) or pa.types.is_timestamp(arrow_type):
        number_format = f"<i{arrow_type.bit_width // 8}"
        number_values = np.array(
            [0 if value is None else value for value in values], dtype=np.int64
        )
        if (number_values.astype(number_format) != number_values).any():
            raise OverflowError(f"a number that is no {arrow_type}")
        return number_array(number_values, arrow_type, absent_value=is_absent)
    if pa.types.is_list(arrow_type):
        element_sequences = [() if value is None else value for value in values]
        inner_values = value_array(
            list(chain.from_iterable(element_sequences)), arrow_type.value_type
        )
        return _array_of_buffers(
            arrow_type,
            len(values),
            is_absent,
            _boundaries(element_sequences),
            children=[inner_values],
        )
    if pa.types.is_struct(arrow_type):
        field_arrays = [
            value_array(
                [None if value is None else value[type_field.name] for value in values],
                type_field.type,
            )
            for type_field in arrow_type
        ]
        return _array_of_buffers(arrow_type, len(values), is_absent, children=field_arrays)
    raise TypeError(f"no array of {arrow_type} is made here")


def piece_array(buffer: Any, begins: Any, sizes: Any, arrow_type: pa.DataType) -> pa.Array:
    """An Arrow array of bytes or texts from pieces of a buffer; in texts, bytes that are no UTF-8
    are replaced.

    Args:
        buffer: The buffer.
        begins: Start of each piece; in order, after the end of the previous one.
        sizes: Size of each piece; negative for null.
        arrow_type: The type.

    Raises:
        OverflowError: The pieces are too large together.
    """
    piece_count = len(sizes)
    if len(buffer) > _BYTES_MAX:
        raise OverflowError(f"{len(buffer)} bytes in one array")
    if not piece_count:
        return value_array((), arrow_type)
    boundaries = np.empty(2 * piece_count, dtype="<i4")
    boundaries[0::2], boundaries[1::2] = begins, begins + np.maximum(sizes, 0)
    # Pieces and what lies between them: Arrow copies every other one.
    pieces_and_gaps = _array_of_buffers(pa.binary(), 2 * piece_count - 1, None, boundaries, buffer)
    piece_numbers = number_array(
        np.arange(0, 2 * piece_count, 2), pa.int32(), absent_value=sizes < 0
    )
    taken_pieces = pieces_and_gaps.take(piece_numbers)
    try:
        return taken_pieces.cast(arrow_type)
    except pa.ArrowInvalid:  # no UTF-8
        pieces = taken_pieces.to_pylist()
        decoded_texts = [
            None if piece is None else piece.decode("utf-8", "replace") for piece in pieces
        ]
        return value_array(decoded_texts, arrow_type)


def list_array(inner_values: pa.Array, lengths: Any, arrow_type: pa.DataType) -> pa.Array:
    """An Arrow array of lists over the values ``inner_values``; ``lengths`` holds the length
    of each list.
    """
    return _array_of_buffers(
        arrow_type, len(lengths), None, _offsets_of_sizes(lengths), children=[inner_values]
    )


def struct_array(field_arrays: Sequence[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    """An Arrow array of structs from columns; none of the structs is null."""
    return _array_of_buffers(arrow_type, len(field_arrays[0]), None, children=field_arrays)


@lru_cache(_REPEATED_ARRAYS_MAX)
def repeat_value(value: Hashable, count: int, arrow_type: pa.DataType) -> pa.Array:
    return pa.repeat(value_array([value], arrow_type)[0], count)


def _of_texts(text_values: Sequence[Any], arrow_type: pa.DataType, is_absent: Any) -> pa.Array:
    if pa.types.is_string(arrow_type):
        encoded_texts = [b"" if text is None else str.encode(text) for text in text_values]
    else:
        encoded_texts = [b"" if text is None else text for text in text_values]
    return _array_of_buffers(
        arrow_type, len(text_values), is_absent, _boundaries(encoded_texts), b"".join(encoded_texts)
    )


def _boundaries(parts: Sequence[Any]) -> Any:
    """Offsets of concatenated parts: the start of each, then the end of the last one."""
    return _offsets_of_sizes(np.fromiter(map(len, parts), np.int64, len(parts)))


def _offsets_of_sizes(sizes: Any) -> Any:
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    if ends[-1] > _BYTES_MAX:
        raise OverflowError(f"{ends[-1]} bytes or values in one array")
    return ends.astype("<i4")


def _array_of_buffers(
    arrow_type: pa.DataType,
    count: int,
    absent_value: Any,
    *data: Any,
    children: Sequence[pa.Array] = (),
) -> pa.Array:
    has_nulls = absent_value is not None and absent_value.any()
    buffers = [
        pa.py_buffer(_packed_bits(~absent_value)) if has_nulls else None,
        *map(pa.py_buffer, data),
    ]
    return pa.Array.from_buffers(arrow_type, count, buffers, children=list(children) or None)


def _packed_bits(truths: Any) -> Any:
    return np.packbits(truths, bitorder="little")
