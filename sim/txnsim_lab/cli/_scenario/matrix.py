"""The matrix of ``txnsim scenario matrix``: a row for each anomaly, a column for each mode of the
protocol, and in each cell the verdict of the armed runs. If runs differ by a fix or a release, a
cell has several runs, each with its label. Verdicts that differ from the file are marked, with the
expected one. Disarmed runs and controls, which must all be healthy, are counted below.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from txnsim_lab.cli._scenario.output import findings, kinds, reasons

if TYPE_CHECKING:
    from txnsim_lab.scenario.runner import RunResult

COLUMNS: Final = ("V-", "V+", "TV2", "TV2+")
HEADERS: Final = ("Scenario", *COLUMNS)
GAP: Final = "  "


def matrix_of(results: Sequence[RunResult]) -> str:
    """The matrix, and the number of runs with the declared verdict."""
    armed: dict[str, dict[str, list[RunResult]]] = {}
    for result in results:
        if result.take == "armed":
            row = armed.setdefault(result.scenario, {})
            row.setdefault(result.mode, []).append(result)
    rows = [[_name(row), *(_cell(row.get(mode, [])) for mode in COLUMNS)] for row in armed.values()]
    return "\n".join([*_grid(rows), "", *_counts(results), *reasons(results)])


def _name(row: dict[str, list[RunResult]]) -> list[str]:
    first_result = next(iter(row.values()))[0]
    return [line for line in (first_result.anomaly, first_result.scenario) if line]


def _cell(results: Sequence[RunResult]) -> list[str]:
    lines = []
    for result in results:
        label = result.run.removeprefix(result.mode).strip("/")
        if label:
            lines.append(f"{label}:")
        lines += [*result.verdict.observed] or [kinds(())]
        for finding in findings(result):
            if not finding.as_declared:
                lines.append(f"≠ {kinds(finding.expected)}")
    return lines or ["–"]


def _grid(rows: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    widths = [
        max(len(header), *(len(line) for row in rows for line in row[column]), 0)
        for column, header in enumerate(HEADERS)
    ]
    rule = GAP.join("─" * width for width in widths)
    lines = [_line(HEADERS, widths)]
    for row in rows:
        lines.append(rule)
        lines += [_line(cells, widths) for cells in zip_longest(*row, fillvalue="")]
    return lines


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return GAP.join(padded).rstrip()


def _counts(results: Sequence[RunResult]) -> list[str]:
    """Number of runs with the declared verdict, by take."""
    lines = []
    for take, verdict_kind in (
        ("armed", "with the fault"),
        ("disarmed", "without the fault, healthy"),
        ("control", "controls, healthy"),
    ):
        of_take = [result for result in results if result.take == take]
        if of_take:
            good = sum(result.as_declared for result in of_take)
            lines.append(f"{good} of {len(of_take)} runs {verdict_kind}: as declared")
    return lines
