"""Stories in a test."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim_lab.testing.scenarios import run_scenario


def test_a_run_in_virtual_time_is_judged_and_repeats() -> None:
    first_result = run_scenario("z01", run="V-", seed=3)
    assert first_result.as_declared
    assert first_result.verdict.observed == ("stuck-last-stable-offset",)
    assert first_result.trace == run_scenario("z01", run="V-", seed=3).trace


def test_inputs_are_done_at_their_steps_and_repeat() -> None:
    inputs = [{"before": 4, "step": {"cluster": {"do": "kill", "broker": 3}}}]
    first_result = run_scenario("z01", run="V-", inputs=inputs)
    assert b'"do":"step"' in first_result.trace
    assert first_result.trace == run_scenario("z01", run="V-", inputs=inputs).trace
    with pytest.raises(ConfigError, match="not one over TCP"):
        run_scenario("z01", run="V-", inputs=inputs, over_tcp=True)


def test_without_its_fault_nothing_is_wrong() -> None:
    assert run_scenario("z01", run="V-", take="disarmed").verdict.observed == ()


def test_a_run_has_to_be_said_where_there_are_several() -> None:
    with pytest.raises(ConfigError, match=r"say which run; there are V-, V\+, TV2"):
        run_scenario("z01")
    with pytest.raises(ConfigError, match="no run 'V0'"):
        run_scenario("z01", run="V0")
    with pytest.raises(ConfigError, match="z0"):
        run_scenario("z0", run="V-")


@pytest.mark.slow
def test_over_tcp_it_comes_to_the_same() -> None:
    result = run_scenario("z01", run="V-", player="own")
    assert result.players == ("own client",)
    assert result.as_declared
