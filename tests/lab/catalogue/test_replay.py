"""A run is told again from the header of its trace alone, event by event."""

from __future__ import annotations

import pytest

from txnsim.runtime.trace import TraceLevel
from txnsim.trace.reading import recording
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

SEED = 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "take", "level"),
    [
        ("late-marker", "armed", TraceLevel.BRIEF),
        ("late-marker", "disarmed", TraceLevel.FULL),
        ("z05", "control", TraceLevel.BRIEF),
    ],
)
def test_a_header_is_all_that_a_replay_needs(scenario: str, take: str, level: TraceLevel) -> None:
    told = catalog.find(scenario)[1]
    take = take if take in told.takes else "armed"
    run = list(told.runs)[-1]
    first = run_in_virtual_time(
        ScenarioRun(scenario=told, run=run, take=take), seed=SEED, trace_level=level
    ).trace
    header = recording("first", first.splitlines()).header
    again = ScenarioRun(
        scenario=catalog.find(header["scenario"])[1], run=header["run"], take=header["take"]
    )
    assert header["mode"] == again.mode
    replayed = run_in_virtual_time(
        again, seed=header["seed"], trace_level=TraceLevel(header["level"])
    ).trace
    assert recording("replay", replayed.splitlines()).trailer["hash"].startswith("sha256:")
    assert replayed == first
    other = run_in_virtual_time(again, seed=SEED + 1, trace_level=level).trace
    assert other != first, "the seed matters, so that equal traces mean something"
