"""Traces for tests of readers. Each run of the zoo is played once."""

from __future__ import annotations

from functools import cache

from txnsim.runtime.trace import TraceLevel
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time


@cache
def trace_of_run(
    name: str = "z01",
    run_name: str = "V-",
    take_name: str = "armed",
    trace_level: TraceLevel = TraceLevel.BRIEF,
) -> bytes:
    """The trace of a run as the bytes of its file."""
    scenario_run = ScenarioRun(scenario=catalog.find(name)[1], run=run_name, take=take_name)
    return run_in_virtual_time(scenario_run, trace_level=trace_level).trace


def recording_of_run(
    name: str = "z01",
    run_name: str = "V-",
    take_name: str = "armed",
    trace_level: TraceLevel = TraceLevel.BRIEF,
) -> Recording:
    return Recording.from_lines(
        name, trace_of_run(name, run_name, take_name, trace_level).splitlines()
    )


def hung_at(recording: Recording) -> int:
    """The event after which the transaction of Z01 hangs and readers stop."""
    return next(event.i for event in recording.events if event.k == "client.deliver") - 1
