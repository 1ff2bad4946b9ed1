from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.traces import trace_of_run
from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.driver_commands import Input
from txnsim_lab.scenario.repeated_inputs import GivenInputs, inputs_of
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

KILL = '[{"before": 2, "step": {"cluster": {"do": "kill", "broker": 3}}}]'


def test_without_inputs_a_run_is_the_same_as_without_a_pace() -> None:
    scenario_run = ScenarioRun(scenario=find("z01")[1], run="V-")
    assert run_in_virtual_time(scenario_run, pace=GivenInputs(())).trace == trace_of_run()


def test_inputs_are_read_from_what_the_page_gives() -> None:
    step = {"cluster": {"do": "kill", "broker": 3}}
    assert inputs_of(KILL) == (Input(before=2, step=step),)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("nonsense", "expected"),
        ('[{"before": "x", "step": {}}]', "before"),
        ('[{"before": 1, "step": {"nonsense": 1}}]', "no field 'nonsense'"),
    ],
)
def test_what_is_no_input_is_refused(text: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        inputs_of(text)


def test_a_command_repeats_a_run_with_its_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["scenario", "run", "z01", "--mode", "V-", "--quiet", "--trace", str(tmp_path)]
    assert main([*arguments, "--armed", "--inputs", KILL]) in (0, 1)
    (trace_file,) = tmp_path.iterdir()
    assert b'"do":"step"' in trace_file.read_bytes()
    assert main([*arguments, "--inputs", KILL]) == 2
    assert "one run and one take" in capsys.readouterr().err
