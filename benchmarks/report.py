"""Samples to medians, ratios and verdicts, and these to a table: pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.figures import FIGURES, Figure, Preference

BASELINE: Final = "apache"
SUBJECT: Final = "txnsim"

SamplesByServer = Mapping[str, Mapping[str, Sequence[float]]]
"""Server name -> figure key -> one value per repetition."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Median, range and samples of one figure on one server."""

    median: float
    least: float
    most: float
    samples: tuple[float, ...]


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one figure on all servers."""

    figure: Figure
    spreads: dict[str, Spread]
    ratios: dict[str, float]
    """By server: how many times better than Apache Kafka."""
    met: bool | None
    """Whether the simulator meets its target; None where there is none, or nothing to judge by."""


def spread_of(samples: Sequence[float]) -> Spread:
    """Compute median and range of at least one sample."""
    return Spread(
        median=statistics.median(samples),
        least=min(samples),
        most=max(samples),
        samples=tuple(samples),
    )


def ratio_to_baseline(figure: Figure, *, value: float, baseline_value: float) -> float | None:
    """Compute how many times better a value is than the baseline's; None where one of them is 0.

    CPU time below the clock tick of /proc is 0, which nobody can compare.
    """
    numerator, denominator = (
        (value, baseline_value) if figure.better is Preference.MORE else (baseline_value, value)
    )
    return numerator / denominator if numerator > 0 and denominator > 0 else None


def meets_target(figure: Figure, *, value: float, ratio: float | None) -> bool | None:
    """Say whether a value and its ratio meet the figure's target."""
    target = figure.target
    if target is None or ratio is None:
        return None
    is_below_bound = target.value_below is None or value < target.value_below
    return is_below_bound and ratio >= target.ratio_min


def compare_figures(samples_by_server: SamplesByServer) -> list[ComparedFigure]:
    """Compare each figure that any server has samples of, in the order of ``FIGURES``."""
    compared_figures = []
    for figure in FIGURES:
        spread_by_server = {
            server: spread_of(samples_by_key[figure.key])
            for server, samples_by_key in samples_by_server.items()
            if samples_by_key.get(figure.key)
        }
        if spread_by_server:
            compared_figures.append(_compare_figure(figure, spread_by_server))
    return compared_figures


def _compare_figure(figure: Figure, spread_by_server: dict[str, Spread]) -> ComparedFigure:
    baseline_spread = spread_by_server.get(BASELINE)
    ratio_by_server: dict[str, float] = {}
    if baseline_spread is not None:
        for server, server_spread in spread_by_server.items():
            server_ratio = ratio_to_baseline(
                figure, value=server_spread.median, baseline_value=baseline_spread.median
            )
            if server != BASELINE and server_ratio is not None:
                ratio_by_server[server] = server_ratio
    meets_figure_target = None
    if SUBJECT in spread_by_server:
        meets_figure_target = meets_target(
            figure, value=spread_by_server[SUBJECT].median, ratio=ratio_by_server.get(SUBJECT)
        )
    return ComparedFigure(
        figure=figure, spreads=spread_by_server, ratios=ratio_by_server, met=meets_figure_target
    )


# The table


def format_table(compared_figures: Sequence[ComparedFigure], server_names: Sequence[str]) -> str:
    """Write a table for people: medians with their range, ratios, targets."""
    compared_server_names = [server_name for server_name in server_names if server_name != BASELINE]
    head_cells = [
        "figure",
        "unit",
        *server_names,
        *(f"{server_name} ×" for server_name in compared_server_names),
        "target",
        "",
    ]
    body_rows = [
        _row_cells(compared_figure, server_names, compared_server_names)
        for compared_figure in compared_figures
    ]
    column_widths = [
        max(len(line[column]) for line in [head_cells, *body_rows])
        for column in range(len(head_cells))
    ]
    left_aligned_columns = {0, 1, len(head_cells) - 2, len(head_cells) - 1}
    ruler = "  ".join("-" * width for width in column_widths).rstrip()
    head_lines = [_format_line(head_cells, column_widths, left_aligned_columns), ruler]
    return (
        "\n".join(
            [
                *head_lines,
                *(_format_line(cells, column_widths, left_aligned_columns) for cells in body_rows),
            ]
        )
        + "\n"
    )


def _row_cells(
    compared_figure: ComparedFigure,
    server_names: Sequence[str],
    compared_server_names: Sequence[str],
) -> list[str]:
    verdict_by_met = {None: "", True: "met", False: "MISSED"}
    return [
        compared_figure.figure.title,
        compared_figure.figure.unit,
        *(_spread_text(compared_figure.spreads.get(server_name)) for server_name in server_names),
        *(
            _ratio_text(compared_figure.ratios.get(server_name))
            for server_name in compared_server_names
        ),
        _target_text(compared_figure.figure),
        verdict_by_met[compared_figure.met],
    ]


def _format_line(
    cells: Sequence[str], column_widths: Sequence[int], left_aligned_columns: set[int]
) -> str:
    padded_cells = [
        cell.ljust(width) if column in left_aligned_columns else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, column_widths, strict=True))
    ]
    return "  ".join(padded_cells).rstrip()


def _spread_text(spread: Spread | None) -> str:
    if spread is None:
        return "–"
    if len(spread.samples) == 1:
        return number_text(spread.median)
    return f"{number_text(spread.median)} ({number_text(spread.least)}–{number_text(spread.most)})"


def _ratio_text(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _target_text(figure: Figure) -> str:
    if figure.target is None:
        return ""
    target_text = f"≥ {figure.target.ratio_min:g}×"
    if figure.target.value_below is not None:
        target_text += f", < {figure.target.value_below:g} {figure.unit}"
    return target_text


def number_text(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
