"""The explanations at each moment of a trace, computed in advance for a page in a file, which can't
ask for them. They equal those of ``explain`` at that event. Only the moments at which they change
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from txnsim.trace.trace_file import Recording
from txnsim.verdict.judge import Verdict, judge_cluster
from txnsim_lab.trace.explain import (
    LsoExplanation,
    Mismatch,
    explained_partitions,
    lso_explanation,
    mismatches,
)
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.picture_words import PictureWords, picture_words
from txnsim_lab.trace.state import ASSIGNED_KINDS, TraceState

ANSWERS_MAX: Final = 100_000
"""Limit of partitions times events that are explained, which takes some seconds; the last events
are taken.
"""

JUDGED_KINDS: Final = ASSIGNED_KINDS | {
    "client.result",
    "msg.send",
    "reader.end",
    "reader.wait",
    "trace.off",
}
"""Kinds of events after which a verdict may be another one."""

EVENTS_PER_REPORT: Final = 10_000
"""Number of events between reports of progress, which take about a tenth of a second."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The explanations from one event until the next moment."""

    at: int
    """Position of the event."""
    partitions: tuple[LsoExplanation, ...]
    open: tuple[Mismatch, ...]
    verdict: Verdict
    """What the judge says of the whole cluster."""
    words: PictureWords
    """What a picture has to say of it."""


def moments(
    recording: Recording,
    *,
    report_progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[Moment]:
    """Moments at which the explanations of ``explained_partitions`` change."""
    nodes = recording.nodes
    named_partitions = {
        topic_partition
        for event in recording.events
        if (topic_partition := _named_partition(event.d)) is not None
    }
    first_index = len(recording.events) - ANSWERS_MAX // max(1, len(named_partitions))
    followed_trace = FollowedTrace(state=TraceState(level=recording.level))
    last_moment: Moment | None = None
    for index, event in enumerate(recording.events):
        if index % EVENTS_PER_REPORT == 0 and index:
            report_progress(index, len(recording.events))
        followed_trace.follow(event, nodes)
        if index < first_index or event.k not in JUDGED_KINDS:
            continue
        moment = _explain_moment(followed_trace)
        if last_moment is None or _without_position(moment) != _without_position(last_moment):
            yield moment
            last_moment = moment


def _explain_moment(followed_trace: FollowedTrace) -> Moment:
    cluster_facts = followed_trace.facts()
    verdict = judge_cluster(cluster_facts)
    if cluster_facts.ignorance is not None:
        # What was known last is kept; the headline says that it is not known any more.
        known_verdict = judge_cluster(msgspec.structs.replace(cluster_facts, ignorance=None))
    else:
        known_verdict = verdict
    by_name = {partition.partition: partition for partition in known_verdict.partitions}
    open_transactions = tuple(mismatches(known_verdict, followed_trace))
    return Moment(
        at=followed_trace.position,
        partitions=tuple(
            lso_explanation(followed_trace, by_name[name], cluster_facts.ignorance)
            for name in explained_partitions(followed_trace.state, open_transactions)
            if name in by_name
        ),
        open=open_transactions,
        verdict=verdict,
        words=picture_words(followed_trace, cluster_facts, known_verdict.partitions),
    )


def _without_position(moment: Moment) -> Moment:
    return msgspec.structs.replace(
        moment,
        at=0,
        verdict=msgspec.structs.replace(moment.verdict, at_ms=0),
        partitions=tuple(
            msgspec.structs.replace(explanation, at=0) for explanation in moment.partitions
        ),
    )


def _named_partition(payload: object) -> str | None:
    if not isinstance(payload, dict):
        return None
    topic_partition = payload.get("tp")
    return (
        topic_partition
        if isinstance(topic_partition, str) and not topic_partition.startswith("__")
        else None
    )
