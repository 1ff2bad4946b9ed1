from __future__ import annotations

from tests.lab.cli.scenario.test_scenario import finding, result
from txnsim_lab.cli._scenario.matrix import matrix_of


def test_an_anomaly_is_a_row_and_a_mode_a_column() -> None:
    lines = matrix_of(
        [
            result(run="V-/before"),
            result(run="V-/fixed", verdict=finding(())),
            result(run="TV2", mode="TV2", verdict=finding((), expected=("duplicate",))),
            result(take="disarmed", verdict=finding(())),
            result(scenario="other", anomaly="", run="TV2+", mode="TV2+", verdict=finding(())),
        ]
    ).splitlines()
    assert lines[0].split() == ["Scenario", "V-", "V+", "TV2", "TV2+"]
    assert [line.split() for line in lines[2:6]] == [
        ["Z01", "before:", "–", "healthy", "–"],
        ["late", "lost-write", "≠", "duplicate"],
        ["fixed:"],
        ["healthy"],
    ]
    assert [line.split() for line in lines[7:8]] == [["other", "–", "–", "–", "healthy"]]
    assert lines[-3:] == [
        "3 of 4 runs with the fault: as declared",
        "1 of 1 runs without the fault, healthy: as declared",
        "late TV2, armed, seed 7: nothing was found",
    ]
