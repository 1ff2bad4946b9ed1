"""Samples to medians, ratios and verdicts, and these to a table: pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.figures import FIGURES, Better, Figure

BASELINE: Final = "apache"
SUBJECT: Final = "txnsim"

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Server name -> figure key -> one value per repetition."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The repetitions of one figure on one server."""

    median: float
    least: float
    most: float
    samples: tuple[float, ...]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure on all servers."""

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
    over, under = (value, baseline) if figure.better is Better.MORE else (baseline, value)
    return over / under if over > 0 and under > 0 else None


def verdict(figure: Figure, *, value: float, ratio: float | None) -> bool | None:
    """Whether a value and its ratio meet the figure's target."""
    target = figure.target
    if target is None or ratio is None:
        return None
    bounded = target.value_below is None or value < target.value_below
    return bounded and ratio >= target.ratio_min


def rows(samples: Samples) -> list[Row]:
    """One row for each figure that any server has samples of, in the order of ``FIGURES``."""
    made = []
    for figure in FIGURES:
        spreads = {
            server: spread(by_key[figure.key])
            for server, by_key in samples.items()
            if by_key.get(figure.key)
        }
        if spreads:
            made.append(_row(figure, spreads))
    return made


def _row(figure: Figure, spreads: dict[str, Spread]) -> Row:
    baseline = spreads.get(BASELINE)
    ratios: dict[str, float] = {}
    if baseline is not None:
        for server, own in spreads.items():
            times = ratio(figure, value=own.median, baseline=baseline.median)
            if server != BASELINE and times is not None:
                ratios[server] = times
    met = None
    if SUBJECT in spreads:
        met = verdict(figure, value=spreads[SUBJECT].median, ratio=ratios.get(SUBJECT))
    return Row(figure=figure, spreads=spreads, ratios=ratios, met=met)


# The table


def table(made: Sequence[Row], servers: Sequence[str]) -> str:
    """Lines for people: medians with their range, ratios, targets."""
    others = [server for server in servers if server != BASELINE]
    head = ["figure", "unit", *servers, *(f"{server} ×" for server in others), "target", ""]
    body = [_cells(row, servers, others) for row in made]
    widths = [max(len(line[at]) for line in [head, *body]) for at in range(len(head))]
    left = {0, 1, len(head) - 2, len(head) - 1}
    rule = "  ".join("-" * width for width in widths).rstrip()
    lines = [_line(head, widths, left), rule]
    return "\n".join([*lines, *(_line(cells, widths, left) for cells in body)]) + "\n"


def _cells(row: Row, servers: Sequence[str], others: Sequence[str]) -> list[str]:
    marks = {None: "", True: "met", False: "MISSED"}
    return [
        row.figure.title,
        row.figure.unit,
        *(_spread_text(row.spreads.get(server)) for server in servers),
        *(_ratio_text(row.ratios.get(server)) for server in others),
        _target_text(row.figure),
        marks[row.met],
    ]


def _line(cells: Sequence[str], widths: Sequence[int], left: set[int]) -> str:
    padded = [
        cell.ljust(width) if at in left else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _spread_text(own: Spread | None) -> str:
    if own is None:
        return "–"
    if len(own.samples) == 1:
        return number(own.median)
    return f"{number(own.median)} ({number(own.least)}–{number(own.most)})"


def _ratio_text(times: float | None) -> str:
    return "–" if times is None else f"{times:.2f}"


def _target_text(figure: Figure) -> str:
    if figure.target is None:
        return ""
    text = f"≥ {figure.target.ratio_min:g}×"
    if figure.target.value_below is not None:
        text += f", < {figure.target.value_below:g} {figure.unit}"
    return text


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
