"""The compiled CRC against the library's."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim_spark.scan.kernel_crc import HAS_INSTRUCTION, TABLES, check_by_tables, check_crcs

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
    flags = Path("/proc/cpuinfo")
    if platform.machine() == "x86_64" and flags.exists():
        assert HAS_INSTRUCTION is ("sse4_2" in flags.read_text())


@pytest.mark.costly
@pytest.mark.slow
def test_a_processor_without_the_instruction_takes_tables() -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False [ True]\n", done.stderr


def checked(data: bytes, pieces: list[tuple[int, int, int]]) -> list[bool]:
    """By either way, for (start, size, stated CRC) of each piece."""
    starts, sizes, stated = np.array(pieces, dtype=np.int64).reshape(-1, 3).T.copy()
    valid = np.zeros(len(pieces), dtype=np.bool_)
    buffer = np.frombuffer(data, dtype=np.uint8)
    check_by_tables(buffer, starts, sizes, stated, TABLES, valid)
    again = np.zeros(len(pieces), dtype=np.bool_)
    check_crcs(buffer, starts, sizes, stated, again)
    assert (again == valid).all()
    return [bool(one) for one in valid]


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=5))
def test_right_crcs_are_right_at_any_length_and_place(pieces: list[bytes]) -> None:
    data, placed = b"", []
    for piece in pieces:
        placed.append((len(data), len(piece), crc32c.crc32c(piece)))
        data += piece
    assert checked(data or b"\0", placed) == [True] * len(pieces)


@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_bit_that_differs_is_noticed(piece: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(piece) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    damaged = piece[:at] + bytes([piece[at] ^ bit]) + piece[at + 1 :]
    assert checked(damaged, [(0, len(piece), crc32c.crc32c(piece))]) == [False]


def test_one_that_is_wrong_leaves_the_others_alone() -> None:
    data = b"123456789" * 3
    right = crc32c.crc32c(b"123456789")
    assert right == 0xE3069283  # the check value that is published with the polynomial
    assert checked(data, [(0, 9, right), (9, 9, right ^ 1), (18, 9, right)]) == [True, False, True]
