from __future__ import annotations

from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.commands import Input
from txnsim_lab.scenario.reading import read
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.saved_story import saved


def test_what_was_done_to_a_run_becomes_steps_where_it_was_done() -> None:
    hang, end = find("z01")[1], Input(before=12, step={"advance": "5m"})
    read_early = {"who": "reader", "do": "read", "partition": "payments-0", "reads": []}
    look = Input(before=1, step={"call": read_early})
    text = saved(hang, "V-", "armed", [end, look], name="mine", verdict="stuck-last-stable-offset")
    mine = read("mine.yaml", text)
    assert mine.steps[1].call is not None
    assert mine.steps[1].call.who == "reader"
    assert mine.steps[-1].advance == 300_000
    assert len(mine.steps) == 15
    for take in ("armed", "disarmed"):
        assert run_in_virtual_time(ScenarioRun(scenario=mine, run="V-", take=take)).as_declared


def test_what_is_said_of_other_runs_is_left_out_and_durations_are_kept() -> None:
    late = find("z23")[1]
    text = saved(late, "TV2/before", "armed", [Input(before=12, step={"advance": "1s"})],
                 name="mine", verdict="false-fencing")  # fmt: skip
    assert "V+" not in text
    assert "transaction-timeout: 60s" in text or "60000ms" not in text  # the default is left out
    assert run_in_virtual_time(
        ScenarioRun(scenario=read("mine.yaml", text), run="TV2/before")
    ).as_declared
