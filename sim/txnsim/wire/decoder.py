"""The decoding of messages: a decoder per message class, compiled on first use.

This package has its own decoder. kio's native reader reserves memory for as many elements as an
array claims to have, so that a false claim of twenty bytes crashes the whole process. As in Kafka's
generated ``read`` methods, an array may not claim more elements than there are bytes left, invalid
UTF-8 is replaced and unknown tagged fields are skipped.

An element takes a hundred times as much memory as its bytes. So a second set of decoders reads
large frames and counts the elements of all arrays of a message: one event loop can do less than a
Java heap. They are generators, which stop after some elements, so that other work can be done while
a large message is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from datetime import timedelta
from enum import Enum
from functools import cache, partial
from struct import Struct, unpack_from
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any, Final, cast

from txnsim.wire._codegen import CodeSource, twin_of
from txnsim.wire._schema import ENTITY, FIXED_WIDTH_CODES, EntityRows, FieldRow, describe
from txnsim.wire.values import to_duration, to_error_code, to_time, to_uuid
from txnsim.wire.varint import read_uvarint

DEVIATIONS: Final = (
    "A request with more than 20,000 elements in all of its arrays can't be read: its connection is"
    " closed. Apache Kafka has no bound but the size of a frame.",
)

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""(buffer, position, end of buffer) -> (value, position after it)."""

Steps = Generator[int, None, tuple[Any, int]]
"""A decoder in steps; yields the number of elements since the last break."""
StepReader = Callable[[bytes, int, int], Steps]

STEP_ELEMENTS: Final = 64
"""Number of array elements between two breaks."""
STRING_BYTES_MAX: Final = 0x7FFF
"""A string of a request has no more bytes, as in the classes that Kafka generates."""
COPIED_RECORDS_MAX: Final = 1 << 20
"""Size of a request's records above which they are a view of its frame: a copy of the largest ones
takes 50 ms. A topic accepts a little more unless its ``max.message.bytes`` is set.
"""

_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "error_code": to_error_code,
    # 32 bits of milliseconds are always a duration.
    "timedelta_i32": partial(timedelta, 0, 0, 0),
    "timedelta_i64": to_duration,
    "datetime_i64": to_time,
    "uuid": to_uuid,
}


class _ReaderKind(Enum):
    """What a decoder does besides decoding."""

    PLAIN = "nothing"
    COUNTS = "it counts elements"
    STEPS = "it counts elements, and is a generator that yields after some of them"


_readers: dict[tuple[Any, _ReaderKind], Reader] = {}


_elements_left: Final[ContextVar[list[int]]] = ContextVar("elements")
"""Number of elements that the current message may still have; separate for each thread."""


class DecodeFaultError(Exception):
    """A body does not fit its schema; ``position`` is where this was noticed."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


def reader(cls: Any) -> Reader:
    """The decoder of a message class, which returns an instance of that class.

    It raises DecodeFaultError, and nothing else, on bytes that do not fit.
    """
    return _reader(cls, _ReaderKind.PLAIN)


def _reader(cls: Any, kind: _ReaderKind) -> Reader:
    reader = _readers.get((cls, kind))
    if reader is None:
        reader = _readers[cls, kind] = _compile_reader(describe(cls), kind)
    return reader


def read_in_steps(
    cls: Any, buffer: bytes, position: int, *, elements_max: int
) -> Generator[int, None, Any]:
    """Decode a message with many elements, in slices; its arrays and tagged fields may have at most
    ``elements_max`` in total.

    Yields the number of elements since the last break.

    Returns:
        The message.

    Raises:
        DecodeFaultError: The bytes do not fit the schema, or there are too many elements.
    """
    elements_left = [elements_max]
    _elements_left.set(elements_left)
    end = len(buffer)
    if not _has_loops(cls):
        return _reader(cls, _ReaderKind.COUNTS)(buffer, position, end)[0]
    read_message = cast(StepReader, _reader(cls, _ReaderKind.STEPS))
    steps = read_message(buffer, position, end)
    while True:
        try:
            elements_done = next(steps)
        except StopIteration as finished:
            return finished.value[0]
        yield elements_done
        _elements_left.set(elements_left)  # others read in between


@cache
def _has_loops(cls: Any) -> bool:
    """Whether elements are decoded one by one; tagged fields do not count."""
    return any(
        (row.array and not _is_packed(row)) or (row.kind == ENTITY and _has_loops(row.entity))
        for row in describe(cls).plain
    )


def _is_packed(row: FieldRow) -> bool:
    """Whether an array's elements are unpacked together."""
    return row.kind in FIXED_WIDTH_CODES and row.kind not in _CONVERTERS


def _count_elements(element_count: int, position: int) -> None:
    elements_left = _elements_left.get()
    elements_left[0] -= element_count
    if elements_left[0] < 0:
        raise DecodeFaultError("more elements than a request may have", position)


def _compile_reader(entity_rows: EntityRows, kind: _ReaderKind) -> Reader:
    class_name = entity_rows.cls.__name__
    code_source = _DecoderSource(kind, is_request=entity_rows.cls.__module__.endswith(".request"))
    code_source.enter_block("def read(b, p, end):")
    _emit_message(code_source, entity_rows, "o")
    code_source.add_line("return o, p")
    read_message: Reader = code_source.compile_function(
        "read", code_name=f"decoder of {class_name}"
    )
    return read_message


def _emit_message(
    code_source: _DecoderSource, entity_rows: EntityRows, target_expression: str
) -> None:
    """Adds lines that decode all fields of a message into ``target_expression``."""
    name, reader_kind = entity_rows.cls.__name__, code_source.kind
    code_source.add_line(
        f"{target_expression} = {code_source.bind(twin_of(entity_rows.cls), 'Twin')}()"
    )
    code_source.enter_block("try:")
    _emit_plain(code_source, entity_rows, target_expression)
    if entity_rows.flexible:
        code_source.add_line("n = b[p]")
        code_source.add_line("p += 1")
        if entity_rows.tagged:
            for row in entity_rows.tagged:
                code_source.add_line(
                    f"{target_expression}.{row.name} = {code_source.bind(row.default, 'default')}"
                )
        code_source.enter_block("if n:")
        reader_by_tag = {
            row.tag: (row.name, _value_reader(code_source, row, is_flexible=True))
            for row in entity_rows.tagged
        }
        read_tags = code_source.bind(
            _tags_reader(reader_by_tag, name, counts_elements=reader_kind is not _ReaderKind.PLAIN),
            "tags",
        )
        code_source.add_line(f"p = {read_tags}({target_expression}, b, p - 1, end)")
        code_source.leave_blocks()
    code_source.add_line("pass")
    code_source.leave_blocks()
    code_source.enter_block("except (IndexError, StructError):")
    code_source.add_line(f"raise Fault('{name} is cut off', p) from None")
    code_source.leave_blocks()
    code_source.enter_block("except ValueError as error:")
    code_source.add_line(f"raise Fault(f'{name}: {{error}}', p) from None")
    code_source.leave_blocks()
    code_source.add_line(
        f"{target_expression}.__class__ = {code_source.bind(entity_rows.cls, 'Cls')}"
    )


class _DecoderSource(CodeSource):
    """Lines of Python that decode one message, as they are put together."""

    def __init__(self, kind: _ReaderKind, *, is_request: bool = False) -> None:
        super().__init__()
        self.names |= {
            "Fault": DecodeFaultError,
            "StructError": StructError,
            "unpack_from": unpack_from,
            "uvarint": read_uvarint,
        }
        self.kind = kind
        self.is_request = is_request

    def reads(self, cls: Any) -> str:
        """The expression that calls the decoder of a class."""
        kind = self.kind
        if kind is _ReaderKind.STEPS:
            if _has_loops(cls):
                return f"yield from {self.bind(_reader(cls, kind), 'read')}"
            kind = _ReaderKind.COUNTS
        return self.bind(_reader(cls, kind), "read")


def _emit_plain(
    code_source: _DecoderSource, entity_rows: EntityRows, target_expression: str
) -> None:
    """Adds lines for the untagged fields; adjacent fields of fixed size are unpacked together."""
    fixed_width_rows: list[FieldRow] = []
    for row in entity_rows.plain:
        if row.kind in FIXED_WIDTH_CODES and not row.array:
            fixed_width_rows.append(row)
            continue
        _emit_run(code_source, fixed_width_rows, target_expression)
        fixed_width_rows = []
        _emit_field(
            code_source, row, f"{target_expression}.{row.name}", is_flexible=entity_rows.flexible
        )
    _emit_run(code_source, fixed_width_rows, target_expression)


def _emit_run(
    code_source: _DecoderSource, fixed_width_rows: list[FieldRow], target_expression: str
) -> None:
    if not fixed_width_rows:
        return
    struct = Struct(">" + "".join(FIXED_WIDTH_CODES[row.kind][0] for row in fixed_width_rows))
    unpack_name = code_source.bind(struct.unpack_from, "unpack")
    targets = [
        f"v{index}" if row.kind in _CONVERTERS else f"{target_expression}.{row.name}"
        for index, row in enumerate(fixed_width_rows)
    ]
    code_source.add_line(f"{', '.join(targets)}, = {unpack_name}(b, p)")
    code_source.add_line(f"p += {struct.size}")
    for target_variable, row in zip(targets, fixed_width_rows, strict=True):
        if row.kind in _CONVERTERS:
            converter_name = code_source.bind(_CONVERTERS[row.kind], "convert")
            code_source.add_line(
                f"{target_expression}.{row.name} = {converter_name}({target_variable})"
            )


def _emit_field(
    code_source: _DecoderSource, row: FieldRow, target_expression: str, *, is_flexible: bool
) -> None:
    """Adds lines for one field of variable size, or an array."""
    if row.kind == ENTITY and not row.array:
        _emit_entity(code_source, row, target_expression)
        return
    has_wide_length = row.array or row.kind in ("bytes", "records")
    if is_flexible:
        code_source.add_line("n = b[p]")
        code_source.add_line("p += 1")
        code_source.enter_block("if n > 127:")
        code_source.enter_block(
            "if b[p] < 128:"
        )  # two bytes, the commonest length of more than one
        code_source.add_line("n = n & 127 | b[p] << 7")
        code_source.add_line("p += 1")
        code_source.leave_blocks()
        code_source.enter_block("else:")
        code_source.add_line("n, p = uvarint(b, p - 1)")
        if row.kind == "string" and not row.array and code_source.is_request:
            code_source.enter_block(f"if n > {STRING_BYTES_MAX + 1}:")
            code_source.add_line(
                f"raise Fault(f'{row.name} has {{n - 1}} bytes, too many for a string', p)"
            )
            code_source.leave_blocks()
        code_source.leave_blocks()
        code_source.leave_blocks()
        code_source.add_line("n -= 1")
    else:
        struct_code, length_size = ("i", 4) if has_wide_length else ("h", 2)
        code_source.add_line(
            f"n, = {code_source.bind(Struct('>' + struct_code).unpack_from, 'unpack')}(b, p)"
        )
        code_source.add_line(f"p += {length_size}")
    code_source.enter_block("if n < 0:")
    if row.nullable:
        code_source.add_line(f"{target_expression} = None")
    else:
        code_source.add_line(f"raise Fault('{row.name} may not be null', p)")
    code_source.leave_blocks()
    code_source.enter_block("else:")
    if row.array:
        _emit_array(code_source, row, target_expression, is_flexible=is_flexible)
    else:
        code_source.add_line("e = p + n")
        code_source.enter_block("if e > end:")
        code_source.add_line(f"raise Fault(f'{row.name} of {{n}} bytes ends after the frame', p)")
        code_source.leave_blocks()
        value_expression = "b[p:e].decode('utf-8', 'replace')" if row.kind == "string" else "b[p:e]"
        if row.kind == "records" and code_source.is_request:
            value_expression += f" if n <= {COPIED_RECORDS_MAX} else memoryview(b)[p:e]"
        code_source.add_line(f"{target_expression} = {value_expression}")
        code_source.add_line("p = e")
    code_source.leave_blocks()


def _emit_entity(code_source: _DecoderSource, row: FieldRow, target_expression: str) -> None:
    decoder_expression = code_source.reads(row.entity)
    if not row.nullable:
        code_source.add_line(f"{target_expression}, p = {decoder_expression}(b, p, end)")
        return
    # A nullable struct has a byte before it: negative for null (KIP-893); 0 in a tagged field.
    code_source.add_line("n = b[p]")
    code_source.add_line("p += 1")
    code_source.enter_block("if n > 127:" if row.tag is None else "if n == 0:")
    code_source.add_line(f"{target_expression} = None")
    code_source.leave_blocks()
    code_source.enter_block("else:")
    code_source.add_line(f"{target_expression}, p = {decoder_expression}(b, p, end)")
    code_source.leave_blocks()


def _emit_array(
    code_source: _DecoderSource, row: FieldRow, target_expression: str, *, is_flexible: bool
) -> None:
    code_source.enter_block("if n > end - p:")
    code_source.add_line(
        f"raise Fault(f'{row.name} claims {{n}} elements in {{end - p}} bytes', p)"
    )
    code_source.leave_blocks()
    if code_source.kind is not _ReaderKind.PLAIN:
        code_source.add_line(f"{code_source.bind(_count_elements, 'count')}(n, p)")
    if _is_packed(row):
        struct_code, element_size = FIXED_WIDTH_CODES[row.kind]
        code_source.add_line(f"{target_expression} = unpack_from(f'>{{n}}{struct_code}', b, p)")
        code_source.add_line(f"p += n * {element_size}")
        return
    if row.kind == ENTITY and code_source.kind is not _ReaderKind.STEPS:
        # Written out: a call for each element costs as much as a few of its fields.
        element_variable = target_expression.partition(".")[0] + "i"
        code_source.add_line(f"{element_variable}s = []")
        code_source.enter_block("for _ in range(n):")
        _emit_message(code_source, describe(row.entity), element_variable)
        code_source.add_line(f"{element_variable}s.append({element_variable})")
        code_source.leave_blocks()
        code_source.add_line(f"{target_expression} = tuple({element_variable}s)")
        return
    if row.kind == ENTITY:
        reader_name = code_source.reads(row.entity)
    else:
        element_reader = _value_reader(code_source, row.element, is_flexible=is_flexible)
        reader_name = code_source.bind(element_reader, "read")
    # One element is the commonest number of all.
    code_source.enter_block("if n == 1:")
    code_source.add_line(f"item, p = {reader_name}(b, p, end)")
    code_source.add_line(f"{target_expression} = (item,)")
    code_source.leave_blocks()
    code_source.enter_block("else:")
    code_source.add_line("items = []")
    has_steps = code_source.kind is _ReaderKind.STEPS
    code_source.enter_block("for at in range(1, n + 1):" if has_steps else "for _ in range(n):")
    code_source.add_line(f"item, p = {reader_name}(b, p, end)")
    code_source.add_line("items.append(item)")
    if has_steps:
        code_source.enter_block(f"if not at % {STEP_ELEMENTS}:")
        code_source.add_line(f"yield {STEP_ELEMENTS}")
        code_source.leave_blocks()
    code_source.leave_blocks()
    if has_steps:
        code_source.add_line(f"yield n % {STEP_ELEMENTS}")
    code_source.add_line(f"{target_expression} = tuple(items)")
    code_source.leave_blocks()


def _value_reader(message_source: _DecoderSource, row: FieldRow, *, is_flexible: bool) -> Reader:
    """A decoder of a single value of a message, for array elements and tagged fields; it has no
    steps.
    """
    code_source = _DecoderSource(
        _ReaderKind.COUNTS if message_source.kind is _ReaderKind.STEPS else message_source.kind,
        is_request=message_source.is_request,
    )
    code_source.enter_block("def read(b, p, end):")
    if row.kind in FIXED_WIDTH_CODES and not row.array:
        struct_code, value_size = FIXED_WIDTH_CODES[row.kind]
        code_source.add_line(
            f"v, = {code_source.bind(Struct('>' + struct_code).unpack_from, 'unpack')}(b, p)"
        )
        if row.kind in _CONVERTERS:
            code_source.add_line(f"v = {code_source.bind(_CONVERTERS[row.kind], 'convert')}(v)")
        code_source.add_line(f"p += {value_size}")
    else:
        _emit_field(code_source, row, "v", is_flexible=is_flexible)
    code_source.add_line("return v, p")
    read_value: Reader = code_source.compile_function("read", code_name=f"decoder of {row.name}")
    return read_value


def _tags_reader(
    reader_by_tag: dict[int | None, tuple[str, Reader]], class_name: str, *, counts_elements: bool
) -> Callable[[Any, bytes, int, int], int]:
    """A decoder of the tagged fields of a class: they are rare, so it is an ordinary loop."""

    def read_tags(entity: Any, buffer: bytes, position: int, end: int) -> int:
        tag_count, position = read_uvarint(buffer, position)
        if counts_elements:
            _count_elements(tag_count, position)
        for _ in range(tag_count):
            tag, position = read_uvarint(buffer, position)
            tag_size, position = read_uvarint(buffer, position)
            if tag_size > end - position:
                raise DecodeFaultError(f"{class_name}: tag {tag} ends after the frame", position)
            name_and_reader = reader_by_tag.get(tag)
            if name_and_reader is None:
                position += tag_size
            else:
                tag_value, position = name_and_reader[1](buffer, position, end)
                setattr(entity, name_and_reader[0], tag_value)
        return position

    return read_tags
