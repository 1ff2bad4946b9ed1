"""What campaigns have come to, as one HTML file: anomalies by release and protocol, the growth of
coverage, what each kind of finding has cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.extensions import borrowed
from txnsim.releases import REFERENCE
from txnsim_lab.campaigns import FOUND, Folder, Place, group_of, places_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REPORT: Final = "`campaign report`"
REMARK: Final = "Made by txnsim campaign report."
POINTS_MAX: Final = 500
"""Of a curve."""
LINES: Final = ("-", "--", ":", "-.")
_COLUMNS: Final = (
    *("seed", "mode", "verdict", "anomalies", "causes"),
    *("virtual_ms", "cpu_ms"),
)


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign."""

    name: str
    """Its release and switches."""
    rows: Sequence[Mapping[str, Any]]
    """By seed."""
    places: Sequence[int]
    """Number of distinct places visited up to each seed."""


def played_in(path: Path) -> Played:
    """Read a campaign.

    Raises:
        BadInputError: There is none.
    """
    folder = Folder.opened(path)
    wanted = folder.wanted
    turned = [f"{name} {'on' if on else 'off'}" for name, on in sorted(wanted.rules.items())]
    name = ", ".join(
        [wanted.as_version or REFERENCE.name, *turned, *filter(None, [wanted.workload])]
    )
    rows, sizes = [], []
    known: set[Place] = set()
    for row in folder.records((*_COLUMNS, "places")):
        known |= places_of(row)
        sizes.append(len(known))
        rows.append({column: row[column] for column in _COLUMNS})
    return Played(name=name, rows=rows, places=sizes)


def page(campaigns: Sequence[Played]) -> str:
    """The page.

    Raises:
        MissingExtraError: ``txnsim_spark``, which has its templates and figures, is not installed.
    """
    figures = borrowed("txnsim_spark.figures", REPORT)
    rendering = borrowed("txnsim_spark.report_page.rendering", REPORT)
    growth = "Growth of coverage: different places of state × API × outcome"
    curves = figures.figure(growth, lambda axes: _curves(axes, campaigns, figures.COLORS))
    text: str = rendering.rendered(
        "campaigns.html",
        title=f"Campaigns: {sum(len(one.rows) for one in campaigns)} seeds",
        remark=REMARK,
        totals=[*map(_totals, campaigns)],
        columns=[f"{one}, {mode}" for one, mode in _columns(campaigns)],
        by_mode=list(_by_mode(campaigns)),
        costs=[row for one in campaigns for row in _costs(one)],
        growth=[(growth, curves)],
    )
    return text


def _totals(one: Played) -> tuple[str, ...]:
    cpu_ms = sum(row["cpu_ms"] for row in one.rows)
    virtual_ms = sum(row["virtual_ms"] for row in one.rows)
    found = sum(row["verdict"] == FOUND for row in one.rows)
    return (
        one.name,
        str(len(one.rows)),
        str(found),
        f"{virtual_ms / 3_600_000:.1f}",
        f"{cpu_ms / 3_600_000:.3f}",
        f"{virtual_ms / max(1, cpu_ms):.0f}",
    )


def _columns(campaigns: Sequence[Played]) -> list[tuple[str, str]]:
    found = {(one.name, row["mode"]): None for one in campaigns for row in one.rows}
    return sorted(found)


def _by_mode(campaigns: Sequence[Played]) -> Iterator[tuple[str, ...]]:
    counts = Counter(
        (kind, one.name, row["mode"])
        for one in campaigns
        for row in one.rows
        for kind in row["anomalies"]
    )
    seeds = Counter((one.name, row["mode"]) for one in campaigns for row in one.rows)
    yield ("(seeds)", *(str(seeds[at]) for at in _columns(campaigns)))
    for kind in sorted({kind for kind, _, _ in counts}):
        yield (kind, *(str(counts[kind, *at] or "–") for at in _columns(campaigns)))


def _costs(one: Played) -> Iterator[tuple[str, ...]]:
    spent_ms, seeds = 0, Counter[tuple[str, ...]]()
    firsts: dict[tuple[str, ...], tuple[int, int]] = {}
    for row in one.rows:
        spent_ms += row["cpu_ms"]
        if row["verdict"] == FOUND:
            kinds = group_of(row)
            firsts.setdefault(kinds, (row["seed"], spent_ms))
            seeds[kinds] += 1
    for kinds, (seed, until_ms) in firsts.items():
        each = spent_ms / seeds[kinds] / 1_000
        numbers = (str(seed), f"{until_ms / 1_000:.1f}", str(seeds[kinds]), f"{each:.1f}")
        yield (one.name, ", ".join(kinds), *numbers)


def _curves(axes: Axes, campaigns: Sequence[Played], colors: Sequence[str]) -> None:
    for number, one in enumerate(campaigns):
        step = max(1, len(one.places) // POINTS_MAX)
        seeds = range(1, len(one.places) + 1)[::step]
        color = colors[number % len(colors)]
        line = LINES[number % len(LINES)]  # equal curves lie on each other
        axes.plot([*seeds], [*one.places[::step]], color=color, linestyle=line, label=one.name)
    axes.set_xlabel("seeds")
    axes.set_ylabel("places")
