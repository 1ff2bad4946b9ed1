"""Play every story on real brokers, and keep the results in ``verdicts.jsonl``: ``make stage``.

A release takes 12 to 28 minutes on two quiet cores, a JDK 17 and Maven. Each result is kept at
once, so ``--missing`` goes on with a run that was broken off. A story that did not come about is
played once more::

    python -m tests.real.stage apache-4.3.1,apache-3.5.2
    python -m tests.real.stage apache-4.3.1 --story z27 --story z28
    python -m tests.docs --write --page tests/real/RESULTS.md

Exit status: 0 every verdict is the simulator's or its difference is explained, 1 one is not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.real import verdicts
from txnsim.cli.event_log import set_up_logs
from txnsim.runtime import real_world
from txnsim.runtime.wall_clock import wall_ms
from txnsim_lab.scenario.catalog import find, scenarios
from txnsim_lab.scenario.model import HEALTHY, Scenario
from txnsim_lab.scenario.on_real.comparison import (
    ComparedRun,
    run_on_apache,
    simulate_beforehand,
    why_not,
)
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun
from txnsim_lab.target.jars import version_of

PLAYED: Final = ("3.1.0", "3.5.2", "3.9.2", "4.0.2", "4.4.0")
"""One release of each generation from the page. Others are played by name."""
NEWEST: Final = PLAYED[-1]
FAILED: Final = "story-failed"
"""The verdict of a story that could not be played to its end."""


def tonight(day: int) -> list[str]:
    """The releases that ``make nightly`` plays: the newest, and one of the others in turn.

    Args:
        day: Its number; a day later it is the next one's turn.
    """
    older_releases = PLAYED[:-1]
    return [older_releases[day % len(older_releases)], NEWEST]


def plan_of(chosen_scenarios: Sequence[Scenario], version: str) -> list[ScenarioRun]:
    """Every story, run and take that real brokers of a release can play."""
    all_runs = [
        ScenarioRun(scenario=scenario, run=run_name, take=take_name)
        for scenario in sorted(
            chosen_scenarios, key=lambda scenario: (scenario.anomaly, scenario.name)
        )
        for run_name in scenario.runs
        for take_name in scenario.takes
    ]
    return [scenario_run for scenario_run in all_runs if why_not(scenario_run, version) is None]


def play(version: str, plan: Sequence[ScenarioRun]) -> list[dict[str, Any]]:
    """Play all runs of the plan, keep each result at once, and print the progress.

    Returns:
        A row each.
    """
    simulated = simulate_beforehand(plan, version)
    played_rows: list[dict[str, Any]] = []

    def keep(compared_run: ComparedRun) -> None:
        number = len(played_rows) + 1
        head_text = f"{version} {number}/{len(plan)} {compared_run.scenario_run}"
        row = row_of(
            msgspec.structs.replace(
                compared_run, simulated=simulated[str(compared_run.scenario_run)]
            )
        )
        played_rows.append(row)
        verdicts.keep([row])
        is_equal = row["simulated"] == row["real"]
        agreement = "agrees" if is_equal else f"differs from the simulator: {row['simulated']}"
        print(f"{head_text}: {row['real']}: {agreement}", flush=True)
        for judges_result in (
            ()
            if is_equal or compared_run.real is None
            else (compared_run.real.verdict, compared_run.real.cured)
        ):
            for because in () if judges_result is None else judges_result.because:
                print(f"    {because}", flush=True)
        for line in compared_run.left:
            print(f"    could not be cleaned: {line}", flush=True)

    real_world.run(
        run_on_apache(
            version, plan, Casting(player="own"), report_progress=print, on_compared_run=keep
        )
    )
    return played_rows


def row_of(compared_run: ComparedRun) -> dict[str, Any]:
    """The row of a played story in the recorded results."""
    scenario_run = compared_run.scenario_run
    assert compared_run.simulated is not None
    return {
        "on": compared_run.on,
        "animal": scenario_run.scenario.anomaly,
        "scenario": scenario_run.scenario.name,
        "run": scenario_run.run,
        "take": scenario_run.take,
        "simulated": _verdicts(compared_run.simulated),
        "real": f"not played: {compared_run.why_not}"
        if compared_run.real is None
        else _verdicts(compared_run.real),
    }


def _verdicts(result: RunResult) -> str:
    observed_kinds = ", ".join(result.verdict.observed) or HEALTHY
    if result.cured is None:
        return observed_kinds
    return f"{observed_kinds}; cured: {', '.join(result.cured.observed) or HEALTHY}"


def has_explanation(row: Mapping[str, Any]) -> bool:
    """Whether both sides agree, or the reason of the difference is known."""
    key = (row["scenario"], row["run"], row["on"])
    return row["simulated"] == row["real"] or key in verdicts.DIFFERENCES


def _key(version: str, scenario_run: ScenarioRun) -> tuple[str, str, str, str]:
    """The key of a run's row, as ``verdicts.key_of`` makes it."""
    return version, scenario_run.scenario.name, scenario_run.run, scenario_run.take


def main(arguments: Sequence[str] | None = None) -> int:
    """Play stories on the releases that are named, and compare or record the verdicts."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.stage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "places",
        nargs="?",
        default=",".join(f"apache-{release}" for release in PLAYED),
        help=f"releases, such as apache-4.3.1,apache-3.5.2 (default: {', '.join(PLAYED)})",
    )
    parser.add_argument(
        "--story", action="append", metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument(
        "--tonight", action="store_true", help="the newest release, and another one each day"
    )
    parser.add_argument(
        "--missing", action="store_true", help="only what was not kept yet, or did not come about"
    )
    options = parser.parse_args(arguments)
    set_up_logs(level="error")
    chosen_scenarios = [find(name)[1] for name in options.story or ()] or list(scenarios().values())
    rows: list[dict[str, Any]] = []
    versions = [version_of(target) for target in options.places.split(",")]
    if options.tonight:
        versions = tonight(wall_ms() // 86_400_000)
    for version in versions:
        planned_runs = plan_of(chosen_scenarios, version)
        if options.missing:
            kept_keys = {
                verdicts.key_of(row) for row in verdicts.rows() if FAILED not in row["real"]
            }
            planned_runs = [
                scenario_run
                for scenario_run in planned_runs
                if _key(version, scenario_run) not in kept_keys
            ]
        row_by_key = {verdicts.key_of(row): row for row in play(version, planned_runs)}
        failed_runs = [
            scenario_run
            for scenario_run in planned_runs
            if FAILED in row_by_key[_key(version, scenario_run)]["real"]
        ]
        if failed_runs:
            print("once more, as brokers of a busy machine may have been late:", flush=True)
            row_by_key |= {verdicts.key_of(row): row for row in play(version, failed_runs)}
        rows += row_by_key.values()
    agree = sum(row["simulated"] == row["real"] for row in rows)
    unexplained = [row for row in rows if not has_explanation(row)]
    print(f"{agree} of {len(rows)} results agree with the simulator")
    for row in unexplained:
        print(f"unexplained: {row['scenario']} {row['run']} {row['take']} on {row['on']}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
