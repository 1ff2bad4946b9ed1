"""``txnsim txns why`` asks brokers, ``txnsim explain`` reads the trace: they say the same, also
what was decided about a transaction that hangs.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest

from txnsim.client.inspection.waiting_readers import explain
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.scenario import catalog, final_observation, runner
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.stage import Stage
from txnsim_lab.trace.explain import lso_of
from txnsim_lab.trace.faults_and_decisions import Remembered
from txnsim_lab.trace.state import state_at


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "run"), [("z01", "V-"), ("z11", "V-/before"), ("z21", "TV2"), ("z27", "TV2/4.3")]
)
def test_an_operator_and_a_reader_of_the_trace_hear_the_same(name: str, run: str) -> None:
    said: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    async def look(stage: Stage) -> None:
        await final_observation.look_twice(stage)
        environment = stage.environment
        tracer = environment.tracer
        for partition in stage.partitions:
            now_ms = environment.clock.now_ms()
            asked = await explain(await stage.operator.admin(), partition, now_ms=now_ms)
            state = state_at(tracer.events(0), tracer.nodes)
            state.at_us = (now_ms - state.wall_ms) * 1000
            remembered = Remembered.of(tracer.events(0))
            told = lso_of(state, str(partition), at=0, remembered=remembered)
            said.append((asked.sentences, told.sentences))

    scenario_run = ScenarioRun(scenario=catalog.find(name)[1], run=run, take="armed")
    with patch.object(runner, "look_twice", look):
        run_in_virtual_time(scenario_run, trace_level=TraceLevel.FULL)
    assert said
    for asked, told in said:
        assert told == asked
