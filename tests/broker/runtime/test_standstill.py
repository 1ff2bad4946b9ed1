"""What comes late tells that the process stood still."""

from __future__ import annotations

import pytest

from txnsim.runtime.clock import STANDSTILL_MS, stood_still


@pytest.mark.parametrize(
    ("late_ms", "stood"), [(-1, False), (STANDSTILL_MS - 1, False), (STANDSTILL_MS, True)]
)
def test_a_timer_that_comes_late(late_ms: int, stood: bool) -> None:
    assert stood_still(7_000.5 - 0.5, 7_000 + late_ms) is stood
