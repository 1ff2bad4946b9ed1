"""The matrix of ``txnsim scenario matrix``: a row for each anomaly, a column for each mode of the
protocol, and in each cell the verdict of the armed runs. If runs differ by a fix or a release, a
cell has several runs, each with its label. Verdicts that differ from the file are marked, with the
expected one. Disarmed runs and controls, which must all be healthy, are counted below.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from txnsim_lab.cli._scenario.output import findings, kinds_text, reasons

if TYPE_CHECKING:
    from txnsim_lab.scenario.runner import RunResult

MODES: Final = ("V-", "V+", "TV2", "TV2+")
HEADERS: Final = ("Scenario", *MODES)
COLUMN_GAP: Final = "  "


def matrix_of(run_results: Sequence[RunResult]) -> str:
    """The matrix, and the number of runs with the declared verdict."""
    armed_results: dict[str, dict[str, list[RunResult]]] = {}
    for result in run_results:
        if result.take == "armed":
            results_by_mode = armed_results.setdefault(result.scenario, {})
            results_by_mode.setdefault(result.mode, []).append(result)
    matrix_rows = [
        [
            _row_heading(results_by_mode),
            *(_cell_lines(results_by_mode.get(mode, [])) for mode in MODES),
        ]
        for results_by_mode in armed_results.values()
    ]
    return "\n".join(
        [*_grid_lines(matrix_rows), "", *_count_lines(run_results), *reasons(run_results)]
    )


def _row_heading(results_by_mode: dict[str, list[RunResult]]) -> list[str]:
    first_result = next(iter(results_by_mode.values()))[0]
    return [line for line in (first_result.anomaly, first_result.scenario) if line]


def _cell_lines(run_results: Sequence[RunResult]) -> list[str]:
    lines = []
    for result in run_results:
        run_label = result.run.removeprefix(result.mode).strip("/")
        if run_label:
            lines.append(f"{run_label}:")
        lines += [*result.verdict.observed] or [kinds_text(())]
        for judges_result in findings(result):
            if not judges_result.as_declared:
                lines.append(f"≠ {kinds_text(judges_result.expected)}")
    return lines or ["–"]


def _grid_lines(rows: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    widths = [
        max(len(header), *(len(line) for row in rows for line in row[column]), 0)
        for column, header in enumerate(HEADERS)
    ]
    ruler_line = COLUMN_GAP.join("─" * width for width in widths)
    lines = [_padded_line(HEADERS, widths)]
    for row in rows:
        lines.append(ruler_line)
        lines += [_padded_line(cells, widths) for cells in zip_longest(*row, fillvalue="")]
    return lines


def _padded_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded_cells = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return COLUMN_GAP.join(padded_cells).rstrip()


def _count_lines(run_results: Sequence[RunResult]) -> list[str]:
    """Number of runs with the declared verdict, by take."""
    lines = []
    for take, description in (
        ("armed", "with the fault"),
        ("disarmed", "without the fault, healthy"),
        ("control", "controls, healthy"),
    ):
        take_results = [result for result in run_results if result.take == take]
        if take_results:
            declared_count = sum(result.as_declared for result in take_results)
            lines.append(f"{declared_count} of {len(take_results)} runs {description}: as declared")
    return lines
