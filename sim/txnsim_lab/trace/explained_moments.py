"""The explanations at each moment of a trace, computed in advance for a page in a file, which can't
ask for them. They equal those of ``explain`` at that event. Only the moments at which they change
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from txnsim.trace.trace_file import Recording
from txnsim.verdict.judge import judge_cluster
from txnsim_lab.trace.explain import (
    LsoExplanation,
    Mismatch,
    explained_partitions,
    lso_of,
    mismatches,
)
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.state import ASSIGNED_KINDS, TraceState

ANSWERS_MAX: Final = 100_000
"""Limit of partitions times events that are explained, which takes some seconds; the last events
are taken.
"""

EVENTS_PER_REPORT: Final = 10_000
"""Number of events between reports of progress, which take about a tenth of a second."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The explanations from one event until the next moment."""

    at: int
    """Position of the event."""
    partitions: tuple[LsoExplanation, ...]
    open: tuple[Mismatch, ...]


def moments(
    run: Recording,
    *,
    report_progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[Moment]:
    """Moments at which the explanations of ``explained_partitions`` change."""
    nodes = run.nodes
    named_partitions = {
        topic_partition
        for event in run.events
        if (topic_partition := _named_partition(event.d)) is not None
    }
    first_index = len(run.events) - ANSWERS_MAX // max(1, len(named_partitions))
    followed = FollowedTrace(state=TraceState(level=run.level))
    last_findings: tuple[tuple[LsoExplanation, ...], tuple[Mismatch, ...]] | None = None
    for index, event in enumerate(run.events):
        if index % EVENTS_PER_REPORT == 0 and index:
            report_progress(index, len(run.events))
        followed.follow(event, nodes)
        if index < first_index or event.k not in ASSIGNED_KINDS:
            continue
        verdict = judge_cluster(followed.facts())
        open_transactions = tuple(mismatches(verdict, followed))
        findings = (
            tuple(
                lso_of(followed, partition)
                for partition in explained_partitions(followed.state, open_transactions)
            ),
            open_transactions,
        )
        if last_findings is None or _without_position(findings) != _without_position(last_findings):
            yield Moment(at=event.i, partitions=findings[0], open=findings[1])
            last_findings = findings


def _without_position(
    findings: tuple[tuple[LsoExplanation, ...], tuple[Mismatch, ...]],
) -> tuple[object, ...]:
    return tuple(
        msgspec.structs.replace(explanation, at=0) for explanation in findings[0]
    ), findings[1]


def _named_partition(payload: object) -> str | None:
    if not isinstance(payload, dict):
        return None
    topic_partition = payload.get("tp")
    return (
        topic_partition
        if isinstance(topic_partition, str) and not topic_partition.startswith("__")
        else None
    )
