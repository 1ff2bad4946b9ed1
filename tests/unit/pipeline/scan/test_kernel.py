"""The compiled walk over headers, held against ``txnsim.wire``, which reads batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, act, acts, segment_of
from txnsim.pipeline.scan import kernel
from txnsim.pipeline.scan.kernel import compiled
from txnsim.storage.log_file import BATCH_BYTES_MAX
from txnsim.wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    iter_batches,
    read_control_record,
)


def thrice(value: int) -> int:
    return 3 * value


def test_a_compiled_function_answers_as_the_function_does() -> None:
    assert compiled(thrice)(14) == thrice(14)


def test_without_a_place_for_machine_code_a_function_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def njit(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'thrice': no locator available")
        return numba.njit(**options)

    monkeypatch.setattr("txnsim.pipeline.scan.kernel.njit", njit)
    made = compiled(thrice)
    assert isinstance(made, numba.core.dispatcher.Dispatcher)
    assert made(14) == thrice(14)


def test_without_room_for_machine_code_a_function_answers_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its OSError was taken for one of the segment that was read, which had no row then."""
    asked: list[object] = []

    def full(signature: object, _code: object) -> None:
        asked.append(signature)
        raise OSError(28, "No space left on device")

    made: Any = compiled(thrice)
    monkeypatch.setattr(made._cache._cache, "load_overload", lambda *_: None)
    monkeypatch.setattr(made._cache._cache, "save_overload", full)
    assert made(14) == thrice(14)
    assert asked


NUMBERS = st.integers(0, 255)


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), dtype=np.uint8)


def scan(
    data: bytes,
    *,
    start: int = 0,
    end: int | None = None,
    file_end: int | None = None,
    room: int = 64,
) -> tuple[list[list[int]], int, int]:
    """Rows, where the walk stopped and why."""
    rows = np.empty((kernel.BATCH_COLUMNS, room), dtype=np.int64)
    file_end = len(data) if file_end is None else file_end
    count, at, why = kernel.scan_batches(
        array(data), start, len(data) if end is None else end, file_end, 0, rows, 0
    )
    return rows[:, :count].T.tolist(), at, why


def expected_rows(data: bytes) -> list[list[int]]:
    made = []
    for position, header in iter_batches(data):
        control = read_control_record(data, position) if header.is_control else None
        made.append(
            [
                position,
                header.size,
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.crc,
                header.attributes,
                header.base_timestamp_ms,
                header.max_timestamp_ms,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.records_count,
                kernel.NO_CONTROL if control is None else control.type,
                -1 if control is None else control.coordinator_epoch,
            ]
        )
    return made


@pytest.mark.parametrize("bits", [0, 1, 0x7F, 0x80, 0xFF])
def test_numbers_are_read_as_signed_and_big_endian(bits: int) -> None:
    data = bytes([1, bits, 2, 3, bits, 5, 6, 7, bits])
    for at in range(2):
        assert kernel.be16(array(data), at) == int.from_bytes(data[at : at + 2], signed=True)
        assert kernel.be32(array(data), at) == int.from_bytes(data[at : at + 4], signed=True)
        assert kernel.be64(array(data), at) == int.from_bytes(data[at : at + 8], signed=True)


@given(st.lists(NUMBERS, min_size=8, max_size=8))
def test_every_int64_is_read_as_it_was_written(numbers: Sequence[int]) -> None:
    data = bytes(numbers)
    assert kernel.be64(array(data), 0) == int.from_bytes(data, signed=True)


@pytest.mark.parametrize(
    ("data", "behind"),
    [(b"\x00\x05", 1), (b"\x80\x01\x05", 2), (b"\x80\x80", 2), (b"", 0)],
    ids=["one byte", "two bytes", "no end", "nothing"],
)
def test_a_varint_is_passed_over_up_to_the_end(data: bytes, behind: int) -> None:
    assert kernel.skip_varint(array(data), 0, len(data)) == behind


@given(acts())
def test_a_row_says_what_the_header_says(history: list[Act]) -> None:
    data = segment_of(history)
    assert scan(data) == (expected_rows(data), len(data), kernel.AT_END)


@given(acts(), st.data())
def test_wherever_the_buffer_ends_the_walk_goes_on_from_there(
    history: list[Act], draw: st.DataObject
) -> None:
    data = segment_of(history)
    rows: list[list[int]] = []
    at = 0
    while at < len(data):
        end = draw.draw(st.integers(min(at + kernel.CONTROL_BYTES, len(data)), len(data)))
        some, at, why = scan(data, start=at, end=end)
        assert why == kernel.AT_END
        rows += some
    assert rows == expected_rows(data)


@given(acts(), st.integers(1, 5))
def test_a_full_table_loses_nothing(history: list[Act], room: int) -> None:
    data = segment_of(history)
    rows: list[list[int]] = []
    at, why = 0, kernel.FULL
    while why == kernel.FULL:
        some, at, why = scan(data, start=at, room=room)
        assert len(some) == room or why == kernel.AT_END
        rows += some
    assert rows == expected_rows(data)


def test_the_rest_of_a_large_batch_need_not_be_in_the_buffer() -> None:
    data = segment_of([act(value_bytes=10_000)])
    rows, at, why = scan(data, end=HEADER_SIZE)
    assert (rows, at, why) == (expected_rows(data), len(data), kernel.AT_END)


def test_a_header_that_goes_on_behind_the_buffer_waits_for_more_of_it() -> None:
    data = segment_of([act(), act()])
    second = expected_rows(data)[1][kernel.POSITION]
    rows, at, why = scan(data, end=second + HEADER_SIZE - 1)
    assert (len(rows), at, why) == (1, second, kernel.AT_END)


def test_a_marker_whose_record_goes_on_behind_the_buffer_waits_for_it() -> None:
    data = segment_of([act("commit")])
    assert scan(data, end=len(data) - 1) == ([], 0, kernel.AT_END)


@pytest.mark.parametrize("kind", ["commit", "abort", "emptied", "other", "data"])
@given(cut=st.integers(HEADER_SIZE, 200))
def test_a_batch_that_the_file_cuts_off_is_no_batch(kind: str, cut: int) -> None:
    data = segment_of([act(kind)])
    whole = cut >= len(data)
    rows, at, why = scan(data[:cut])
    assert len(rows) == whole
    assert at == (len(data) if whole else 0)
    assert why == (kernel.AT_END if whole else kernel.CUT_OFF)


@pytest.mark.parametrize(
    ("length", "why"),
    [
        (0, kernel.BAD_LENGTH),
        (HEADER_SIZE - LOG_OVERHEAD - 1, kernel.BAD_LENGTH),
        (-1, kernel.BAD_LENGTH),
        (-(1 << 31), kernel.BAD_LENGTH),
        ((1 << 31) - 1, kernel.BAD_LENGTH),
        (BATCH_BYTES_MAX, kernel.BAD_LENGTH),
        (1 << 20, kernel.CUT_OFF),
    ],
)
def test_the_walk_stops_at_an_impossible_length(length: int, why: int) -> None:
    sound = segment_of([act()])
    damaged = bytearray(segment_of([act()]))
    damaged[8:12] = length.to_bytes(4, signed=True)
    rows, at, reason = scan(sound + damaged + sound)
    assert (rows, at, reason) == (expected_rows(sound), len(sound), why)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_the_walk_stops_at_another_format(magic: int) -> None:
    sound = segment_of([act()])
    damaged = bytearray(sound)
    damaged[16] = magic
    rows, at, why = scan(sound + damaged)
    assert (rows, at, why) == (expected_rows(sound), len(sound), kernel.BAD_FORMAT)


def test_a_file_that_ends_in_zeros_ends_there() -> None:
    """Preallocated segments do after an unclean stop (log.preallocate)."""
    sound = segment_of([act()])
    rows, at, why = scan(sound + bytes(1_000))
    assert (rows, at, why) == (expected_rows(sound), len(sound), kernel.BAD_LENGTH)


def test_less_than_a_header_is_left_behind_a_length_that_is_too_small() -> None:
    data = bytearray(segment_of([act()]))
    data[8:12] = (len(data) - LOG_OVERHEAD - 7).to_bytes(4)
    rows, at, why = scan(bytes(data))
    assert (len(rows), at, why) == (1, len(data) - 7, kernel.AT_END)


@given(st.binary(max_size=17))
def test_a_control_record_that_makes_no_sense_is_no_marker(record: bytes) -> None:
    data = bytearray(segment_of([act("commit")]))
    data[HEADER_SIZE : HEADER_SIZE + len(record)] = record
    rows, at, why = scan(bytes(data))
    assert (len(rows), at, why) == (1, len(data), kernel.AT_END)


@given(acts(), st.data())
def test_damage_anywhere_ends_in_an_answer(history: list[Act], draw: st.DataObject) -> None:
    data = bytearray(segment_of(history))
    for _ in range(draw.draw(st.integers(0, 4)) if data else 0):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(NUMBERS)
    rows, at, why = scan(bytes(data))
    assert 0 <= at <= len(data)
    is_torn = why == kernel.AT_END and len(data) - at < HEADER_SIZE
    is_named = why in (kernel.CUT_OFF, kernel.BAD_FORMAT, kernel.BAD_LENGTH)
    assert at == len(data) or is_torn or is_named
    assert [row[kernel.POSITION] for row in rows] == sorted({row[kernel.POSITION] for row in rows})
