"""Encodes messages: an encoder and a constructor per message class, compiled on first use.

Kafka's counterparts are the generated ``write`` methods. Tagged fields with their default are left
out, the others follow in ascending order (KIP-482). Large messages have a second set of encoders:
generators, which stop after some elements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache
from struct import Struct
from struct import pack as pack_values
from typing import Any, Final, cast

from txnsim.wire._codegen import CodeSource, twin_of
from txnsim.wire._schema import ENTITY, FIXED_WIDTH_CODES, REQUIRED, EntityRows, FieldRow, describe
from txnsim.wire.values import Batches, duration_ms, time_ms, uuid_bytes
from txnsim.wire.varint import SMALL_VARINTS, uvarint

PutBytes = Callable[[bytes], object]
Writer = Callable[[Any, PutBytes], None]
"""(value, function that takes its bytes)."""

_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "timedelta_i32": duration_ms,
    "timedelta_i64": duration_ms,
    "datetime_i64": time_ms,
    "uuid": uuid_bytes,
}
StepWriter = Callable[[Any, PutBytes], Generator[int, None, None]]
"""An encoder in steps; yields the number of elements since the last break."""
STEP_ELEMENTS: Final = 64
STEP_STRINGS: Final = 256
"""Number of strings between two breaks. They are quick to encode, so they count as
``STEP_ELEMENTS``.
"""

_writers: dict[Any, Writer] = {}
_step_writers: dict[Any, StepWriter] = {}


def writer(cls: Any) -> Writer:
    """The encoder of a message class."""
    compiled_writer = _writers.get(cls)
    if compiled_writer is None:
        compiled_writer = _writers[cls] = _compile_writer(describe(cls), has_steps=False)
    return compiled_writer


def write_in_steps(message: Any, write_bytes: PutBytes) -> Generator[int, None, None]:
    """Encode a large message; yields the number of elements since the last break."""
    cls = message.__class__
    if _has_arrays(cls):
        yield from _step_writer(cls)(message, write_bytes)
    else:
        writer(cls)(message, write_bytes)


def _step_writer(cls: Any) -> StepWriter:
    step_writer = _step_writers.get(cls)
    if step_writer is None:
        compiled_writer = _compile_writer(describe(cls), has_steps=True)
        step_writer = _step_writers[cls] = cast(StepWriter, compiled_writer)
    return step_writer


@cache
def _has_arrays(cls: Any) -> bool:
    """Whether a message has arrays whose elements are encoded one by one; tagged fields do not
    count.
    """
    return any(
        (row.array and not _is_packed(row))
        or (row.kind == ENTITY and not row.array and _has_arrays(row.entity))
        for row in describe(cls).plain
    )


def _is_packed(row: FieldRow) -> bool:
    """Whether the numbers of an array are packed together."""
    return row.kind in FIXED_WIDTH_CODES and row.kind not in _CONVERTERS


def maker(cls: Any, on_dropped: Callable[[Any, dict[str, object]], None]) -> Callable[..., Any]:
    """A constructor of a message class, several times faster than its own.

    Args:
        cls: The message class.
        on_dropped: Called with the class and the values for which it has no field.
    """
    entity_rows = describe(cls)
    code_source = CodeSource()
    code_source.names |= {"Twin": twin_of(cls), "Cls": cls, "on_dropped": on_dropped}
    field_rows = (*entity_rows.plain, *entity_rows.tagged)
    parameter_texts = [
        row.name
        if row.default is REQUIRED
        else f"{row.name}={code_source.bind(row.default, 'default')}"
        for row in field_rows
    ]
    keyword_only = ["*", *parameter_texts] if field_rows else []
    code_source.enter_block(f"def make({', '.join([*keyword_only, '**dropped'])}):")
    code_source.add_line("o = Twin()")
    for row in field_rows:
        code_source.add_line(f"o.{row.name} = {row.name}")
    code_source.enter_block("if dropped:")
    code_source.add_line("on_dropped(Cls, dropped)")
    code_source.leave_blocks()
    code_source.add_line("o.__class__ = Cls")
    code_source.add_line("return o")
    make: Callable[..., Any] = code_source.compile_function(
        "make", code_name=f"constructor of {cls.__name__}"
    )
    return make


class _FixedWidthRun:
    """Adjacent values of fixed size, packed together, with the lengths that follow them."""

    def __init__(self, code_source: CodeSource) -> None:
        self._source = code_source
        self._codes: list[str] = []
        self._values: list[str] = []

    def add(self, struct_code: str, value_expression: str | None) -> None:
        """Append a value; None for padding."""
        self._codes.append(struct_code)
        if value_expression is not None:
            self._values.append(value_expression)

    def flush(self) -> None:
        """Add the line that packs the collected values."""
        if not self._codes:
            return
        struct_codes = "".join(self._codes)
        if self._values:
            pack_name = self._source.bind(Struct(">" + struct_codes).pack, "pack")
            self._source.add_line(f"put({pack_name}({', '.join(self._values)}))")
        else:
            self._source.add_line(f"put({bytes(len(struct_codes))!r})")
        self._codes.clear()
        self._values.clear()


class _EncoderSource(CodeSource):
    """Lines of Python that encode one message, as they are put together."""

    def __init__(self, *, has_steps: bool = False) -> None:
        super().__init__()
        self.has_steps = has_steps

    def writes(self, cls: Any) -> str:
        """The expression that calls the encoder of a class."""
        if self.has_steps and _has_arrays(cls):
            return f"yield from {self.bind(_step_writer(cls), 'write')}"
        return self.bind(writer(cls), "write")


def _compile_writer(entity_rows: EntityRows, *, has_steps: bool) -> Writer:
    code_source = _new_source(has_steps=has_steps)
    code_source.enter_block("def write(o, put):")
    fixed_width_run = _FixedWidthRun(code_source)
    for row in entity_rows.plain:
        _emit_field(
            code_source, fixed_width_run, row, f"o.{row.name}", is_flexible=entity_rows.flexible
        )
    if entity_rows.tagged:
        fixed_width_run.flush()
        default_expressions = [
            code_source.bind(row.default, "default") for row in entity_rows.tagged
        ]
        code_source.enter_block(
            "if "
            + " and ".join(
                f"(o.{row.name} is {default} or o.{row.name} == {default})"
                for row, default in zip(entity_rows.tagged, default_expressions, strict=True)
            )
            + ":"
        )
        code_source.add_line("put(b'\\0')")
        code_source.leave_blocks()
        code_source.enter_block("else:")
        code_source.add_line("tags = []")
        for row, default in zip(entity_rows.tagged, default_expressions, strict=True):
            code_source.enter_block(f"if o.{row.name} != {default}:")
            write_tag = code_source.bind(_value_writer(row, is_flexible=True), "write")
            code_source.add_line(f"tags.append(({row.tag}, o.{row.name}, {write_tag}))")
            code_source.leave_blocks()
        code_source.add_line("put_tags(tags, put)")
        code_source.leave_blocks()
    elif entity_rows.flexible:
        fixed_width_run.add("x", None)
    fixed_width_run.flush()
    code_source.add_line("pass")
    write_message: Writer = code_source.compile_function(
        "write", code_name=f"encoder of {entity_rows.cls.__name__}"
    )
    return write_message


def _new_source(*, has_steps: bool = False) -> _EncoderSource:
    code_source = _EncoderSource(has_steps=has_steps)
    code_source.names |= {
        "SMALL": SMALL_VARINTS,
        "uvarint": uvarint,
        "put_tags": _put_tags,
        "put_all": _put_pieces,
        "has_repeats": _has_repeats,
        "write_repeats": _write_repeats,
        "Batches": Batches,
        "pack_values": pack_values,
    }
    return code_source


def _emit_field(
    code_source: _EncoderSource,
    fixed_width_run: _FixedWidthRun,
    row: FieldRow,
    value_expression: str,
    *,
    is_flexible: bool,
) -> None:
    if row.kind in FIXED_WIDTH_CODES and not row.array:
        if row.kind in _CONVERTERS:
            value_expression = (
                f"{code_source.bind(_CONVERTERS[row.kind], 'convert')}({value_expression})"
            )
        fixed_width_run.add(FIXED_WIDTH_CODES[row.kind][0], value_expression)
    elif row.kind == ENTITY and not row.array:
        _emit_entity(code_source, fixed_width_run, row, value_expression)
    else:
        _emit_sized(code_source, fixed_width_run, row, value_expression, is_flexible=is_flexible)


def _emit_entity(
    code_source: _EncoderSource,
    fixed_width_run: _FixedWidthRun,
    row: FieldRow,
    value_expression: str,
) -> None:
    encoder_expression = code_source.writes(row.entity)
    if row.nullable:
        # A nullable struct has a byte before it: 1, or -1 for null (KIP-893); 0 in a tagged field.
        null_marker = -1 if row.tag is None else 0
        fixed_width_run.add("b", f"{null_marker} if {value_expression} is None else 1")
        fixed_width_run.flush()
        code_source.enter_block(f"if {value_expression} is not None:")
        code_source.add_line(f"{encoder_expression}({value_expression}, put)")
        code_source.leave_blocks()
    else:
        fixed_width_run.flush()
        code_source.add_line(f"{encoder_expression}({value_expression}, put)")


def _emit_sized(
    code_source: _EncoderSource,
    fixed_width_run: _FixedWidthRun,
    row: FieldRow,
    value_expression: str,
    *,
    is_flexible: bool,
) -> None:
    """Adds lines for strings, bytes and arrays: a length, then the content."""
    variable = f"v_{row.name}"
    if row.kind == "string" and not row.array:
        encoded_expression = f"{value_expression}.encode()"
        if row.nullable:
            encoded_expression = f"None if {value_expression} is None else {encoded_expression}"
        code_source.add_line(f"{variable} = {encoded_expression}")
    else:
        code_source.add_line(f"{variable} = {value_expression}")
    if is_flexible:
        fixed_width_run.flush()
        length_expression = f"len({variable}) + 1"
        if row.nullable:
            length_expression = f"0 if {variable} is None else {length_expression}"
        code_source.add_line(f"n = {length_expression}")
        code_source.add_line(f"put(SMALL[n] if n < {len(SMALL_VARINTS)} else uvarint(n))")
    else:
        length_expression = f"len({variable})"
        if row.nullable:
            length_expression = f"-1 if {variable} is None else {length_expression}"
        fixed_width_run.add(
            "i" if row.array or row.kind in ("bytes", "records") else "h", length_expression
        )
        fixed_width_run.flush()
    if row.array:
        _emit_elements(code_source, row, variable, is_flexible=is_flexible)
        return
    code_source.enter_block(f"if {variable}:")
    if row.kind == "records":
        code_source.enter_block(f"if {variable}.__class__ is Batches:")
        code_source.add_line(f"put_all({variable}.pieces, put)")
        code_source.leave_blocks()
        code_source.enter_block("else:")
    code_source.add_line(f"put({variable})")
    code_source.leave_blocks(2 if row.kind == "records" else 1)


def _emit_elements(
    code_source: _EncoderSource, row: FieldRow, variable: str, *, is_flexible: bool
) -> None:
    """Adds lines for the elements of an array."""
    code_source.enter_block(f"if {variable}:")
    if _is_packed(row):
        format_letter = FIXED_WIDTH_CODES[row.kind][0]
        code_source.add_line(
            f"put(pack_values(f'>{{len({variable})}}{format_letter}', *{variable}))"
        )
        code_source.leave_blocks()
        return
    if row.kind == ENTITY:
        encoder = code_source.writes(row.entity)
    else:
        encoder = code_source.bind(_value_writer(row.element, is_flexible=is_flexible), "write")
    if code_source.has_steps and row.kind != ENTITY:
        code_source.enter_block(f"for first in range(0, len({variable}), {STEP_STRINGS}):")
        code_source.enter_block(f"for item in {variable}[first : first + {STEP_STRINGS}]:")
        code_source.add_line(f"{encoder}(item, put)")
        code_source.leave_blocks()
        code_source.add_line(f"yield {STEP_ELEMENTS}")
        code_source.leave_blocks(2)
        return
    if code_source.has_steps:
        code_source.enter_block(f"if has_repeats({variable}):")
        code_source.add_line(f"yield from write_repeats({variable}, put)")
        code_source.leave_blocks()
        code_source.enter_block("else:")
        code_source.enter_block(f"for at, item in enumerate({variable}, 1):")
        code_source.add_line(f"{encoder}(item, put)")
        code_source.enter_block(f"if not at % {STEP_ELEMENTS}:")
        code_source.add_line(f"yield {STEP_ELEMENTS}")
        code_source.leave_blocks(2)
        code_source.add_line(f"yield len({variable}) % {STEP_ELEMENTS}")
        code_source.leave_blocks(2)
        return
    code_source.enter_block(f"for item in {variable}:")
    code_source.add_line(f"{encoder}(item, put)")
    code_source.leave_blocks(2)


def _value_writer(row: FieldRow, *, is_flexible: bool) -> Writer:
    """An encoder of a single value, for array elements and tagged fields."""
    code_source = _new_source()
    code_source.enter_block("def write(o, put):")
    fixed_width_run = _FixedWidthRun(code_source)
    _emit_field(code_source, fixed_width_run, row, "o", is_flexible=is_flexible)
    fixed_width_run.flush()
    write_value: Writer = code_source.compile_function("write", code_name=f"encoder of {row.name}")
    return write_value


def _has_repeats(elements: Sequence[object]) -> bool:
    """Whether an element occurs twice: one that a request names again is the same object. Elements
    of ``LazyRows`` have no identity.
    """
    return elements.__class__ is tuple and len(set(map(id, elements))) < len(elements)


def _write_repeats(elements: Sequence[Any], write_bytes: PutBytes) -> Generator[int, None, None]:
    """Encode each distinct element once, and write its bytes for every repetition."""
    bytes_by_id: dict[int, bytes] = {}
    for element in elements:
        element_bytes = bytes_by_id.get(id(element))
        if element_bytes is None:
            pieces: list[bytes] = []
            yield from write_in_steps(element, pieces.append)
            element_bytes = bytes_by_id[id(element)] = b"".join(pieces)
        write_bytes(element_bytes)
        yield 1


def _put_pieces(pieces: tuple[bytes, ...], write_bytes: PutBytes) -> None:
    for piece in pieces:
        write_bytes(piece)


def _put_tags(tagged_fields: list[tuple[int, Any, Writer]], write_bytes: PutBytes) -> None:
    """Encode the tagged fields that do not have their default."""
    write_bytes(uvarint(len(tagged_fields)))
    for tag, value, write_value in tagged_fields:
        value_pieces: list[bytes] = []
        write_value(value, value_pieces.append)
        encoded_value = b"".join(value_pieces)
        write_bytes(uvarint(tag))
        write_bytes(uvarint(len(encoded_value)))
        write_bytes(encoded_value)
