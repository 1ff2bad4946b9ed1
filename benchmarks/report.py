"""Samples to medians, ratios and verdicts, and these to a table: pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.figures import FIGURES, Figure, Preference

BASELINE: Final = "apache"
SUBJECT: Final = "txnsim"

Samples = Mapping[str, Mapping[str, Sequence[float]]]
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


def spread(samples: Sequence[float]) -> Spread:
    """Median and range of at least one sample."""
    return Spread(
        median=statistics.median(samples),
        least=min(samples),
        most=max(samples),
        samples=tuple(samples),
    )


def ratio(figure: Figure, *, value: float, baseline: float) -> float | None:
    """How many times better ``value`` is than ``baseline``; None where one of them is 0.

    CPU time below the clock tick of /proc is 0, which nobody can compare.
    """
    numerator, denominator = (
        (value, baseline) if figure.better is Preference.MORE else (baseline, value)
    )
    return numerator / denominator if numerator > 0 and denominator > 0 else None


def verdict(figure: Figure, *, value: float, ratio: float | None) -> bool | None:
    """Whether a value and its ratio meet the figure's target."""
    target = figure.target
    if target is None or ratio is None:
        return None
    is_below_bound = target.value_below is None or value < target.value_below
    return is_below_bound and ratio >= target.ratio_min


def rows(samples: Samples) -> list[ComparedFigure]:
    """One row for each figure that any server has samples of, in the order of ``FIGURES``."""
    compared_figures = []
    for figure in FIGURES:
        spread_by_server = {
            server: spread(samples_by_key[figure.key])
            for server, samples_by_key in samples.items()
            if samples_by_key.get(figure.key)
        }
        if spread_by_server:
            compared_figures.append(_row(figure, spread_by_server))
    return compared_figures


def _row(figure: Figure, spread_by_server: dict[str, Spread]) -> ComparedFigure:
    baseline = spread_by_server.get(BASELINE)
    ratio_by_server: dict[str, float] = {}
    if baseline is not None:
        for server, server_spread in spread_by_server.items():
            server_ratio = ratio(figure, value=server_spread.median, baseline=baseline.median)
            if server != BASELINE and server_ratio is not None:
                ratio_by_server[server] = server_ratio
    is_met = None
    if SUBJECT in spread_by_server:
        is_met = verdict(
            figure, value=spread_by_server[SUBJECT].median, ratio=ratio_by_server.get(SUBJECT)
        )
    return ComparedFigure(
        figure=figure, spreads=spread_by_server, ratios=ratio_by_server, met=is_met
    )


# The table


def table(rows: Sequence[ComparedFigure], servers: Sequence[str]) -> str:
    """Lines for people: medians with their range, ratios, targets."""
    compared_servers = [server for server in servers if server != BASELINE]
    head_cells = [
        "figure",
        "unit",
        *servers,
        *(f"{server} ×" for server in compared_servers),
        "target",
        "",
    ]
    body_rows = [_cells(row, servers, compared_servers) for row in rows]
    widths = [
        max(len(line[column]) for line in [head_cells, *body_rows])
        for column in range(len(head_cells))
    ]
    left_columns = {0, 1, len(head_cells) - 2, len(head_cells) - 1}
    rule = "  ".join("-" * width for width in widths).rstrip()
    lines = [_line(head_cells, widths, left_columns), rule]
    return "\n".join([*lines, *(_line(cells, widths, left_columns) for cells in body_rows)]) + "\n"


def _cells(
    row: ComparedFigure, servers: Sequence[str], compared_servers: Sequence[str]
) -> list[str]:
    marks = {None: "", True: "met", False: "MISSED"}
    return [
        row.figure.title,
        row.figure.unit,
        *(_spread_text(row.spreads.get(server)) for server in servers),
        *(_ratio_text(row.ratios.get(server)) for server in compared_servers),
        _target_text(row.figure),
        marks[row.met],
    ]


def _line(cells: Sequence[str], widths: Sequence[int], left_columns: set[int]) -> str:
    padded_cells = [
        cell.ljust(width) if column in left_columns else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
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
    text = f"≥ {figure.target.ratio_min:g}×"
    if figure.target.value_below is not None:
        text += f", < {figure.target.value_below:g} {figure.unit}"
    return text


def number_text(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
