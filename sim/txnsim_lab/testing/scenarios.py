"""Runs a scenario in a test: ``run_scenario("z01", run="V-")``.

It uses the runner of ``txnsim scenario run``, so the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime import real_world
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.repeated_inputs import GivenInputs, inputs_of
from txnsim_lab.scenario.runner import (
    SEED_DEFAULT,
    RunResult,
    ScenarioRun,
    run_in_real_time,
    run_in_virtual_time,
)


def run_scenario(
    name: str,
    *,
    run: str | None = None,
    take: str = "armed",
    seed: int = SEED_DEFAULT,
    over_tcp: bool = False,
    player: str | None = None,
    inputs: Iterable[Mapping[str, Any]] = (),
) -> RunResult:
    """Run a scenario once and judge it.

    Args:
        name: Its name or alias, or a YAML file.
        run: The name of the run; not needed if there is only one.
        take: ``armed``, ``disarmed`` (without the fault) or ``control`` (a healthy run that looks
            similar).
        seed: Seed of all randomness in virtual time.
        over_tcp: Whether to run in real time and over TCP, not in virtual time.
        player: The client of the application, ``own`` or ``kafka-python``; implies ``over_tcp``.
        inputs: Additional acts on the run, in the form of the page: ``{"before": 3, "step":
            {"release": "late"}}``; in virtual time.

    Returns:
        The result: the observed and the expected verdict, ``as_declared``, ``story``.

    Raises:
        ConfigError: There is no such scenario or run, or no client that can play it.
        MissingExtraError: The client is not installed.
    """
    _scenario_path, scenario = find(name)
    scenario_run = ScenarioRun(scenario=scenario, run=_chosen_run_name(scenario, run), take=take)
    read_inputs = inputs_of(msgspec.json.encode(list(inputs)).decode())
    if over_tcp or player is not None:
        if read_inputs:
            raise ConfigError("inputs repeat a run in virtual time, not one over TCP")
        return real_world.run(run_in_real_time(scenario_run, Casting(player=player)))
    return run_in_virtual_time(
        scenario_run, seed=seed, pace=GivenInputs(read_inputs) if read_inputs else None
    )


def _chosen_run_name(scenario: Scenario, run_name: str | None) -> str:
    run_names = list(scenario.runs)
    if run_name is None and len(run_names) == 1:
        return run_names[0]
    if run_name not in run_names:
        problem = "say which run" if run_name is None else f"no run {run_name!r}"
        raise ConfigError(f"scenario {scenario.name}: {problem}; there are {', '.join(run_names)}")
    return run_name
