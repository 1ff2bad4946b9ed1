"""Whether the processor has an instruction for CRC-32C; what it computes: test_kernel_crc.py."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from txnsim.pipeline.scan.crc_instruction import HAS_INSTRUCTION

WITHOUT: Final = """
import numpy as np
from txnsim.pipeline.scan.kernel_crc import HAS_INSTRUCTION, check_crcs

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


@pytest.mark.slow
def test_a_processor_without_the_instruction_takes_tables() -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "False [ True]\n", done.stderr
