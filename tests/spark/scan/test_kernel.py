"""Where the compiled walk over headers stops; what it reads is in test_walk."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import act, segment_of
from txnsim.storage.log_file import BATCH_BYTES_MAX
from txnsim.wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
)
from txnsim_spark.scan import kernel
from txnsim_spark.scan.kernel import compiled


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

    monkeypatch.setattr("txnsim_spark.scan.kernel.njit", njit)
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


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), dtype=np.uint8)


def scan(data: bytes) -> tuple[list[list[int]], int, int]:
    """Rows, where the walk stopped and why."""
    rows = np.empty((kernel.BATCH_COLUMNS, 64), dtype=np.int64)
    count, at, why = kernel.scan_batches(array(data), 0, len(data), len(data), 0, rows, 0)
    return rows[:, :count].T.tolist(), at, why


@given(st.binary(min_size=8, max_size=8))
def test_numbers_are_read_as_signed_and_big_endian(data: bytes) -> None:
    for read, size in ((kernel.be16, 2), (kernel.be32, 4), (kernel.be64, 8)):
        assert read(array(data), 0) == int.from_bytes(data[:size], signed=True)


@pytest.mark.parametrize(
    ("data", "behind"),
    [(b"\x00\x05", 1), (b"\x80\x01\x05", 2), (b"\x80\x80", 2), (b"", 0)],
    ids=["one byte", "two bytes", "no end", "nothing"],
)
def test_a_varint_is_passed_over_up_to_the_end(data: bytes, behind: int) -> None:
    assert kernel.skip_varint(array(data), 0, len(data)) == behind


def with_bytes(at: int, data: bytes) -> bytes:
    """A batch in which some bytes are others."""
    made = bytearray(segment_of([act()]))
    made[at : at + len(data)] = data
    return bytes(made)


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        *(
            (with_bytes(8, length.to_bytes(4, signed=True)), kernel.BAD_LENGTH)
            for length in (
                *(0, -1, -(1 << 31), (1 << 31) - 1),
                *(HEADER_SIZE - LOG_OVERHEAD - 1, BATCH_BYTES_MAX),
            )
        ),
        (with_bytes(8, (1 << 20).to_bytes(4)), kernel.CUT_OFF),
        *((with_bytes(16, bytes([magic])), kernel.BAD_FORMAT) for magic in (0, 1, 3, 255)),
        # Preallocated segments end so after an unclean stop (log.preallocate).
        (bytes(1_000), kernel.BAD_LENGTH),
    ],
)
def test_the_walk_stops_where_no_batch_can_be(damaged: bytes, why: int) -> None:
    sound = segment_of([act()])
    rows, at, reason = scan(sound + damaged + sound)
    assert (len(rows), at, reason) == (1, len(sound), why)


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
