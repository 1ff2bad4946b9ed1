"""What must stay flat, sampled, judged and drawn as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

SETTLED_AT: Final = 0.35
"""Of the run: what comes before belongs to the start (caches, pools, first transactions)."""
ROWS: Final = 8
COLUMNS: Final = 72
MEBIBYTE: Final = 1 << 20


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the server at one moment."""

    at_s: float
    memory_mib: float
    held_mib: float = 0.0
    """The part that is held by design: batches of the logs and the trace (``holding``)."""
    own_mib: float = 0.0
    """The rest of the memory, less the highest ``held_mib`` so far, as a process keeps memory that
    becomes free.
    """
    segments: int = 0
    tasks: int
    files: int
    gap_ms: float
    """Longest gap of a 10 ms ticker in the second before."""
    busy_ms: float
    """The most CPU time of the loop's thread in one gap."""


class RestSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of the server without clients, before and after the run."""

    sample_before: Sample = msgspec.field(name="before")
    sample_after: Sample = msgspec.field(name="after")


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The growth allowed for a figure, from early in the run to its end."""

    figure: str
    share: float
    extra: float
    """Growth allowed besides the share, in the figure's unit."""
    is_peak: bool = False
    """Peaks are compared, not middles: the figure is lower while a broker is down."""
    at_rest: float | None = None
    """Growth allowed from before the clients came to after they have gone; None if that is not
    judged.
    """


BOUNDS: Final = (
    Bound(figure="own_mib", share=0.1, extra=12.0),
    Bound(figure="segments", share=0.25, extra=4, is_peak=True),
    Bound(figure="tasks", share=0.25, extra=20, at_rest=10),
    Bound(figure="files", share=0.1, extra=10, is_peak=True, at_rest=5),
)
"""Logs fill their segments before retention or cleaning begins, so memory grows for minutes by
design. Memory besides logs and trace has to stay flat, and so has the number of segments.

Most files of a server are connections of its clients, and a client has none to a broker that is
down: in two minutes that is a third of them for a third of the time. So of files peaks are compared
(the level while all brokers are up), and what is left when all clients have gone.
"""


def sample(process_id: int, counts_file: Path, at_s: float, held_before_mib: float = 0.0) -> Sample:
    """Look at a server.

    Args:
        pid: Its process.
        counts: The file of ``counting_server``.
        at_s: The time.
        held_before_mib: What it has held at most until now.

    Raises:
        OSError: It has ended.
    """
    status = Path(f"/proc/{process_id}/status").read_text()
    resident_kib = next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")
    )
    own_figures: dict[str, Any] = {"tasks": 0, "gap_ms": 0.0, "busy_ms": 0.0, "held": []}
    if counts_file.exists():
        own_figures = json.loads(counts_file.read_text())
    held_mib = (
        sum(
            cluster_counts["trace_bytes"] + cluster_counts["logs_bytes"]
            for cluster_counts in own_figures["held"]
        )
        / MEBIBYTE
    )
    return Sample(
        at_s=at_s,
        memory_mib=resident_kib / 1024,
        held_mib=held_mib,
        own_mib=resident_kib / 1024 - max(held_mib, held_before_mib),
        segments=max(
            (cluster_counts["segments"] for cluster_counts in own_figures["held"]), default=0
        ),
        tasks=own_figures["tasks"],
        files=len(list(Path(f"/proc/{process_id}/fd").iterdir())),
        gap_ms=own_figures["gap_ms"],
        busy_ms=own_figures["busy_ms"],
    )


def per_thousand(samples: Sequence[Sample], figure_name: str, transaction_count: int) -> float:
    """Growth of a figure per 1,000 transactions, from the first fifth of a run to its end."""
    early_value, late_value, _ = growth(samples, Bound(figure=figure_name, share=0.0, extra=0.0))
    part = 1 - SETTLED_AT - 0.2
    return (late_value - early_value) * 1000 / max(1.0, transaction_count * part)


def growth(samples: Sequence[Sample], bound: Bound) -> tuple[float, float, float]:
    """A figure's early level, its last level, and the highest last level allowed.

    Medians of a fifth of the run each: a broker that is down for a moment does not count. Of peaks
    the highest of the first half, and of the second.
    """
    values = [float(getattr(sample, bound.figure)) for sample in samples]
    if bound.is_peak:
        middle_index = max(1, len(values) // 2)
        early_value, late_value = max(values[:middle_index]), max(values[-middle_index:])
    else:
        fifth = max(1, len(values) // 5)
        start = int(len(values) * SETTLED_AT)
        early_value = median(values[start : start + fifth])
        late_value = median(values[-fifth:])
    return early_value, late_value, early_value * (1 + bound.share) + bound.extra


def grown_figures(samples: Sequence[Sample], rest_samples: RestSamples | None = None) -> list[str]:
    """Describe the figures that did not stay flat, or did not come down again."""
    findings = []
    for bound in BOUNDS:
        early_value, late_value, allowed = growth(samples, bound)
        if late_value > allowed:
            findings.append(
                f"{bound.figure}: {early_value:.0f}, then {late_value:.0f}; allowed {allowed:.0f}"
            )
    return findings if rest_samples is None else findings + figures_left_behind(rest_samples)


def figures_left_behind(rest_samples: RestSamples) -> list[str]:
    """Describe the figures that did not come down when the clients went."""
    findings = []
    for bound in BOUNDS:
        figure_before, figure_after = (
            getattr(sample, bound.figure)
            for sample in (rest_samples.sample_before, rest_samples.sample_after)
        )
        if bound.at_rest is not None and figure_after > figure_before + bound.at_rest:
            findings.append(
                f"{bound.figure}: {figure_before} before the clients came,"
                f" {figure_after} when they had gone;"
                f" allowed {figure_before + bound.at_rest:.0f}"
            )
    return findings


def has_come_to_rest(rest_samples: RestSamples) -> bool:
    return not figures_left_behind(rest_samples)


def plot(samples: Sequence[Sample], figure_name: str) -> list[str]:
    """A figure over time, as lines of text; each column is the greatest value of its time."""
    values = [float(getattr(sample, figure_name)) for sample in samples]
    width = min(COLUMNS, len(values))
    columns = [
        max(
            values[column * len(values) // width : max((column + 1) * len(values) // width, 1)]
            or [0.0]
        )
        for column in range(width)
    ]
    top = max(max(columns), 1.0)
    lines = [f"{figure_name}, 0 to {top:.0f}, {samples[-1].at_s:.0f} s"]
    for row in range(ROWS, 0, -1):
        filled = "".join(
            "█" if column_value / top * ROWS >= row - 0.5 else " " for column_value in columns
        )
        lines.append(f"{top * row / ROWS:8.0f} |{filled.rstrip()}")
    return [*lines, f"{'':8} +{'-' * width}"]
