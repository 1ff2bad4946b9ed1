"""The compiled walk over batches and records, beside the plain one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import crc32c
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, act, segment_of
from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.kernel import compile_function
from txnsim_spark.scan.kernel_crc import CRC_TABLES, HAS_INSTRUCTION, check_by_tables, check_crcs

# Where the compiled walk over headers stops; what it reads is in test_walk.


def thrice(value: int) -> int:
    return 3 * value


def test_a_compiled_function_answers_as_the_function_does() -> None:
    assert compile_function(thrice)(14) == thrice(14)


def test_without_a_place_for_machine_code_a_function_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def njit(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'thrice': no locator available")
        return numba.njit(**options)

    monkeypatch.setattr("txnsim_spark.scan.kernel.njit", njit)
    compiled_function = compile_function(thrice)
    assert isinstance(compiled_function, numba.core.dispatcher.Dispatcher)
    assert compiled_function(14) == thrice(14)


def test_without_room_for_machine_code_a_function_answers_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[object] = []

    def full(signature: object, _code: object) -> None:
        calls.append(signature)
        raise OSError(28, "No space left on device")

    compiled: Any = compile_function(thrice)
    monkeypatch.setattr(compiled._cache._cache, "load_overload", lambda *_: None)
    monkeypatch.setattr(compiled._cache._cache, "save_overload", full)
    assert compiled(14) == thrice(14)
    assert calls


def array(log_bytes: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(log_bytes), dtype=np.uint8)


def scan(log_bytes: bytes) -> tuple[list[list[int]], int, int]:
    """The rows of the scanned batches, the position where the scan stopped, and the reason."""
    rows = np.empty((kernel.BATCH_COLUMNS, 64), dtype=np.int64)
    count, position, stop_reason = kernel.scan_batches(
        array(log_bytes), 0, len(log_bytes), len(log_bytes), 0, rows, 0
    )
    return rows[:, :count].T.tolist(), position, stop_reason


@given(st.binary(min_size=8, max_size=8))
def test_numbers_are_read_as_signed_and_big_endian(data: bytes) -> None:
    for read, size in ((kernel.be16, 2), (kernel.be32, 4), (kernel.be64, 8)):
        assert read(array(data), 0) == int.from_bytes(data[:size], signed=True)


@pytest.mark.parametrize(
    ("log_bytes", "next_position"),
    [(b"\x00\x05", 1), (b"\x80\x01\x05", 2), (b"\x80\x80", 2), (b"", 0)],
    ids=["one byte", "two bytes", "no end", "nothing"],
)
def test_a_varint_is_passed_over_up_to_the_end(log_bytes: bytes, next_position: int) -> None:
    assert kernel.skip_varint(array(log_bytes), 0, len(log_bytes)) == next_position


def with_bytes(position: int, log_bytes: bytes) -> bytes:
    compiled = bytearray(segment_of([act()]))
    compiled[position : position + len(log_bytes)] = log_bytes
    return bytes(compiled)


@pytest.mark.parametrize(
    ("damaged_bytes", "stop_reason"),
    [
        *(
            (with_bytes(8, length.to_bytes(4, signed=True)), kernel.BAD_LENGTH)
            for length in (
                *(0, -1, -(1 << 31), (1 << 31) - 1),
                *(BatchHeader.SIZE - BatchHeader.OVERHEAD - 1, BatchHeader.BYTES_MAX),
            )
        ),
        (with_bytes(8, (1 << 20).to_bytes(4)), kernel.BATCH_CUT_OFF),
        *((with_bytes(16, bytes([magic])), kernel.BAD_FORMAT) for magic in (0, 1, 3, 255)),
        # Preallocated segments end so after an unclean stop (log.preallocate).
        (bytes(1_000), kernel.BAD_LENGTH),
    ],
)
def test_the_walk_stops_where_no_batch_can_be(damaged_bytes: bytes, stop_reason: int) -> None:
    sound_bytes = segment_of([act()])
    rows, position, reason = scan(sound_bytes + damaged_bytes + sound_bytes)
    assert (len(rows), position, reason) == (1, len(sound_bytes), stop_reason)


def test_less_than_a_header_is_left_behind_a_length_that_is_too_small() -> None:
    segment_bytes = bytearray(segment_of([act()]))
    segment_bytes[8:12] = (len(segment_bytes) - BatchHeader.OVERHEAD - 7).to_bytes(4)
    rows, position, stop_reason = scan(bytes(segment_bytes))
    assert (len(rows), position, stop_reason) == (1, len(segment_bytes) - 7, kernel.AT_BUFFER_END)


@given(st.binary(max_size=17))
def test_a_control_record_that_makes_no_sense_is_no_marker(record: bytes) -> None:
    segment_bytes = bytearray(segment_of([act("commit")]))
    segment_bytes[BatchHeader.SIZE : BatchHeader.SIZE + len(record)] = record
    rows, position, stop_reason = scan(bytes(segment_bytes))
    assert (len(rows), position, stop_reason) == (1, len(segment_bytes), kernel.AT_BUFFER_END)


# The compiled CRC against the library's.


WITHOUT: Final = """
import numpy as np
from txnsim_spark.scan.kernel_crc import HAS_INSTRUCTION, check_crcs

one = np.array([9], dtype=np.int64)
valid = np.zeros(1, dtype=np.bool_)
stated = np.array([0xE3069283], dtype=np.int64)
check_crcs(np.frombuffer(b"123456789", dtype=np.uint8), one * 0, one, stated, valid)
print(HAS_INSTRUCTION, valid)
"""


def test_a_processor_with_the_instruction_is_noticed() -> None:
    flags_file = Path("/proc/cpuinfo")
    if platform.machine() == "x86_64" and flags_file.exists():
        assert HAS_INSTRUCTION is ("sse4_2" in flags_file.read_text())


@pytest.mark.costly
@pytest.mark.slow
def test_a_processor_without_the_instruction_takes_tables() -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == "False [ True]\n", process.stderr


def check_both_ways(log_bytes: bytes, byte_ranges: list[tuple[int, int, int]]) -> list[bool]:
    """Check each piece (start, size, stated CRC) by the instruction and by the tables."""
    starts, sizes, stated = np.array(byte_ranges, dtype=np.int64).reshape(-1, 3).T.copy()
    valid = np.zeros(len(byte_ranges), dtype=np.bool_)
    buffer = np.frombuffer(log_bytes, dtype=np.uint8)
    check_by_tables(buffer, starts, sizes, stated, CRC_TABLES, valid)
    by_tables = np.zeros(len(byte_ranges), dtype=np.bool_)
    check_crcs(buffer, starts, sizes, stated, by_tables)
    assert (by_tables == valid).all()
    return [bool(flag) for flag in valid]


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=5))
def test_right_crcs_are_right_at_any_length_and_place(pieces: list[bytes]) -> None:
    data, placed = b"", []
    for piece in pieces:
        placed.append((len(data), len(piece), crc32c.crc32c(piece)))
        data += piece
    assert check_both_ways(data or b"\0", placed) == [True] * len(pieces)


@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_bit_that_differs_is_noticed(piece: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(piece) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    damaged_piece = piece[:position] + bytes([piece[position] ^ bit]) + piece[position + 1 :]
    assert check_both_ways(damaged_piece, [(0, len(piece), crc32c.crc32c(piece))]) == [False]


def test_one_that_is_wrong_leaves_the_others_alone() -> None:
    data = b"123456789" * 3
    right_crc = crc32c.crc32c(b"123456789")
    assert right_crc == 0xE3069283  # the check value that is published with the polynomial
    assert check_both_ways(
        data, [(0, 9, right_crc), (9, 9, right_crc ^ 1), (18, 9, right_crc)]
    ) == [
        True,
        False,
        True,
    ]


# What is told of places, sequences and epochs; all else that producers did is in test_walk.


def fold_producer(log_bytes: bytes, file_position: int = 0) -> list[int]:
    """The fragment of the only producer."""
    fragments = np.empty((1, fk.FRAGMENT_COLUMNS), dtype=np.int64)
    count, _, position, stop_reason = fk.scan_fragments(
        np.frombuffer(bytearray(log_bytes), dtype=np.uint8),
        0,
        len(log_bytes),
        len(log_bytes),
        np.full(2, -1, dtype=np.int64),
        fragments,
        0,
        np.empty((fk.ENDING_COLUMNS, 9), dtype=np.int64),
        np.array([file_position, -1], dtype=np.int64),
    )
    assert (count, position, stop_reason) == (1, len(log_bytes), kernel.AT_BUFFER_END)
    return fragments[0].tolist()  # type: ignore[no-any-return]


def test_the_place_of_an_open_transaction_is_told_where_a_search_would_end_there() -> None:
    first_segment, second_segment = (
        segment_of([act()], base_offset=5),
        segment_of([act()], base_offset=3),
    )
    earlier_segment = segment_of([act(), act("commit")])
    assert fold_producer(earlier_segment + first_segment, 1_000)[fk.OPEN_POSITION] == 1_000 + len(
        earlier_segment
    )
    row = fold_producer(first_segment + segment_of([act("commit")], base_offset=7) + second_segment)
    assert (row[fk.OPEN_OFFSET], row[fk.OPEN_POSITION]) == (3, -1)


def test_sequences_begin_anew_behind_the_largest() -> None:
    act_history = [
        Act(
            kind="data",
            producer=7,
            epoch=0,
            sequence=position,
            records=2,
            value_bytes=5,
            timestamp_ms=1,
        )
        for position in ((1 << 31) - 2, 0)
    ]
    row = fold_producer(segment_of(act_history))
    assert (row[fk.SEQUENCE_GAPS], row[fk.LAST_SEQUENCE]) == (0, 1)


def test_an_epoch_that_a_marker_has_begun_begins_with_sequence_0() -> None:
    """Under transactions v2 a producer does so after each transaction (KIP-890)."""

    def history(sequence: int) -> list[Act]:
        return [
            Act(
                kind=kind,
                producer=7,
                epoch=epoch,
                sequence=position,
                records=1,
                value_bytes=1,
                timestamp_ms=1,
            )
            for kind, epoch, position in [("data", 0, 5), ("commit", 1, 9), ("data", 1, sequence)]
        ]

    for sequence, gaps in ((0, 0), (6, 1)):
        assert fold_producer(segment_of(history(sequence)))[fk.SEQUENCE_GAPS] == gaps
