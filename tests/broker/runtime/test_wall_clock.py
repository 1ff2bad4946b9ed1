"""The wall clock without an event loop."""

from __future__ import annotations

import time

from txnsim.runtime.wall_clock import wall_ms


def test_it_needs_no_event_loop() -> None:
    before_ms = time.time_ns() // 1_000_000
    assert before_ms <= wall_ms() <= time.time_ns() // 1_000_000
