"""The periods of a broker's own work, each at the least value that a file may give it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from pydantic import ValidationError

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.config._model import settings_model
from txnsim.runtime.clock import LoopClock
from txnsim.settings import Settings

MODEL: Final = settings_model()
ADVANCE_MS: Final = 2_000
ADVANCE_TIMERS_MAX: Final = 500
"""Timers that an advance may arm; one that is always due would arm any number."""
WAIT_MS: Final = 100
TIMERS_PER_MS_MAX: Final = 30
"""Timers that one ms may arm: the one whose period it is, what that wakes, and all others."""


def least_value(name: str) -> int:
    for number in range(2):
        try:
            MODEL.model_validate({name: number})
        except ValidationError:
            continue
        return number
    return -1


PERIODS: Final = {
    name: least
    for name in Settings.__struct_fields__
    if name.endswith(("_ms", "_seconds")) and (least := least_value(name)) >= 0
}


@pytest.mark.parametrize("name", PERIODS)
def test_no_timer_is_always_due(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    armed_count = 0
    timers_max = ADVANCE_TIMERS_MAX
    arm_timer = LoopClock.call_at

    def count_timer(clock: LoopClock, deadline_ms: int, callback: Callable[[], object]) -> Any:
        nonlocal armed_count
        armed_count += 1
        assert armed_count <= timers_max
        return arm_timer(clock, deadline_ms, callback)

    async def story(cluster: VirtualCluster) -> None:
        nonlocal armed_count, timers_max
        monkeypatch.setattr(LoopClock, "call_at", count_timer)
        cluster.advance(ADVANCE_MS)
        armed_count, timers_max = 0, WAIT_MS * TIMERS_PER_MS_MAX
        await asyncio.sleep(WAIT_MS / 1_000)

    run_cluster(story, brokers=1, **{name: PERIODS[name]})
