"""The wall clock without an event loop."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from txnsim.runtime.wall_clock import wall_ms


def test_it_needs_no_event_loop() -> None:
    before_ms = time.time_ns() // 1_000_000
    assert before_ms <= wall_ms() <= time.time_ns() // 1_000_000


@pytest.mark.slow
def test_a_search_loads_no_event_loop() -> None:
    program = (
        "import sys, txnsim_spark.forensics.find_hanging, txnsim.runtime.wall_clock;"
        "sys.exit('structlog' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
