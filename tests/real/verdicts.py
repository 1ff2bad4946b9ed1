"""What real releases came to, story by story, beside the simulator: kept in ``verdicts.jsonl``, and
made into ``RESULTS.md``. ``python -m tests.real.stage`` records them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from txnsim.releases import REFERENCE, Rules
from txnsim_lab.scenario.catalog import scenarios
from txnsim_lab.scenario.model import HEALTHY, Scenario
from txnsim_lab.scenario.on_real.comparison import only_simulated, why_not_there
from txnsim_lab.target.cluster import STARTED_ABILITIES

FILE: Final = Path(__file__).with_name("verdicts.jsonl")
RELEASES: Final = ("3.1.0", "3.5.2", "3.9.2", "4.0.2", "4.2.2", "4.3.1", "4.4.0")
Row = tuple[str, ...]

EXISTENCE: Final = """\
## Which releases have which anomaly

A release before 3.1 is not started: it needs ZooKeeper or an older Java. Some bugs were mended
before the release came out that would have had them. V- can be had from any release."""

LEGEND: Final = """\
In a cell: what the judges found on the real brokers with the fault. **✓** the simulator came to
the same, also without the fault and in the control where there is one. **≠** it did not; the
cause is below or in [DEVIATIONS.md](../../DEVIATIONS.md). *step N*: only a simulator can take that
step. – the release is not the world of this run: another generation of the protocol, or a bug
that it does not have. An empty cell was not asked yet."""


NO_UNCLEAN_LEADER: Final = (
    "comes to no verdict: the controller of that release elects no leader for `t-0` within the 60 s"
    " that the story waits, though its topic allows an unclean one. The jars of 3.5.2 do not know"
    " `unclean.leader.election.interval.ms`; those of 3.9.2 do. The simulator, which plays releases"
    " before 3.6 as 3.6, elects one."
)
DIFFERENCES: Final = {
    ("unclean-leader-without-the-marker", "V-", "3.5.2"): NO_UNCLEAN_LEADER,
    ("unclean-leader-without-the-marker", "V-", "3.1.0"): NO_UNCLEAN_LEADER,
}
"""Why a story's run on a release has another verdict than on the simulator."""


def sections(table_of: Callable[[Row, Iterable[Row]], str]) -> tuple[str, ...]:
    """The sections of the page below its title.

    Args:
        table_of: Makes a table of a head and rows.
    """
    return (
        EXISTENCE,
        table_of(*existence()),
        "## What came of it",
        LEGEND,
        summary(),
        table_of(*table()),
        differences(),
        "## What only a simulator can play",
        table_of(*obstacles()),
    )


def rows() -> list[dict[str, Any]]:
    """Every recorded result."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def table() -> tuple[Row, list[Row]]:
    """The table of results, with a row for each run and a column for each release."""
    rows_by_cell: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows():
        rows_by_cell.setdefault((row["scenario"], row["run"], row["on"]), []).append(row)
    body: list[Row] = [
        (
            scenario.anomaly,
            f"`{scenario.name}`",
            run_name,
            *(_cell(scenario, run_name, release, rows_by_cell) for release in RELEASES),
        )
        for scenario in sorted(
            scenarios().values(), key=lambda scenario: (scenario.anomaly, scenario.name)
        )
        for run_name in scenario.runs
    ]
    return ("Anomaly", "Story", "Run", *RELEASES), body


def _cell(
    scenario: Scenario,
    run_name: str,
    release: str,
    rows_by_cell: Mapping[tuple[str, str, str], list[dict[str, Any]]],
) -> str:
    if why_not_there(scenario, run_name, release) is not None:
        return "–"
    obstacle = only_simulated(scenario, run_name, "armed", abilities=STARTED_ABILITIES)
    if obstacle is not None:
        return f"*{obstacle.partition(':')[0]}*"
    cell_rows = rows_by_cell.get((scenario.name, run_name, release), [])
    armed = [row for row in cell_rows if row["take"] == "armed"]
    if not armed:
        return ""
    sign = "✓" if all(row["simulated"] == row["real"] for row in cell_rows) else "≠"
    return f"{sign} {armed[0]['real']}"


def existence() -> tuple[Row, list[Row]]:
    """Head and rows: what ended each anomaly, and the releases of the page that have it."""
    body: list[Row] = []
    all_scenarios = sorted(scenarios().values(), key=lambda scenario: scenario.anomaly)
    for anomaly, stories in groupby(all_scenarios, key=lambda scenario: scenario.anomaly):
        bad_stories = [
            (scenario, name)
            for scenario in stories
            for name, run in scenario.runs.items()
            if run.verdict
        ]
        mended_rules = dict.fromkeys(
            rule
            for scenario, name in bad_stories
            for rule, is_on in scenario.runs[name].rules.items()
            if not is_on
        )
        switches = [Rules.documentation()[rule] for rule in mended_rules]
        releases = [
            release
            for release in RELEASES
            if any(
                why_not_there(scenario, run_name, release) is None
                for scenario, run_name in bad_stories
            )
        ]
        ending_list = ", ".join(
            f"{switch.ticket} ({switch.came(REFERENCE.patch_release)})" for switch in switches
        )
        body.append((anomaly, ending_list, ", ".join(releases)))
    return ("Anomaly", "Mended by (in)", "Of these releases, in"), body


def summary() -> str:
    """How many results agree, and how many anomalies were seen on real brokers."""
    every = rows()
    agree = sum(row["simulated"] == row["real"] for row in every)
    anomalies = {
        row["animal"]
        for row in every
        if row["take"] == "armed"
        and row["simulated"] == row["real"]
        and row["real"].partition(";")[0] != HEALTHY
    }
    names = ", ".join(sorted(anomalies))
    return (
        f"{agree} of {len(every)} results on real brokers agree with the simulator. "
        f"{len(anomalies)} "
        f"anomalies were seen there with their declared verdict: {names}."
    )


def differences() -> str:
    """A line for each cell in which both sides are known to differ."""
    return "\n".join(
        f"- `{story}` {run_name} on {release}: {cause}"
        for (story, run_name, release), cause in DIFFERENCES.items()
    )


def obstacles() -> tuple[Row, list[Row]]:
    """Head and rows: each story that real brokers can't play, and the step that is in the way."""
    body: list[Row] = []
    for scenario in sorted(
        scenarios().values(), key=lambda scenario: (scenario.anomaly, scenario.name)
    ):
        whys = {
            only_simulated(scenario, run_name, "armed", abilities=STARTED_ABILITIES)
            for run_name in scenario.runs
        }
        body += [
            (scenario.anomaly, f"`{scenario.name}`", reason)
            for reason in sorted(filter(None, whys))
        ]
    return ("Anomaly", "Story", "Why"), body


def keep(results: Iterable[dict[str, Any]]) -> None:
    """Replace the rows of the same stories, and drop those of stories that no longer exist."""
    new_rows = {key_of(row): row for row in results}
    scenario_by_name = {scenario.name: scenario for scenario in scenarios().values()}
    rows_kept = [
        row
        for row in (rows() if FILE.exists() else [])
        if key_of(row) not in new_rows
        if (scenario := scenario_by_name.get(row["scenario"])) is not None
        and row["run"] in scenario.runs
        if why_not_there(scenario, row["run"], row["on"]) is None
    ]
    every = sorted(
        [*rows_kept, *new_rows.values()], key=lambda row: (row["on"], row["animal"], key_of(row))
    )
    partial_file = FILE.with_suffix(".partial")
    partial_file.write_text("".join(json.dumps(row) + "\n" for row in every), "utf-8")
    partial_file.rename(FILE)  # in one move: the run may be broken off at any time


def key_of(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Release, story, run and take: what a row is about."""
    return row["on"], row["scenario"], row["run"], row["take"]
