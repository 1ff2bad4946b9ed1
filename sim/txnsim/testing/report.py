"""What a failing test shows of its cluster: the story up to there, the last events, the faults.

Bounded, whatever has happened: a report is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.runtime.trace import Event, Tracer
from txnsim.testing.faults import FaultState
from txnsim.testing.rebuilt_cluster import ONLOOKER
from txnsim.trace.story import Sentence, place, story

SENTENCES_MAX: Final = 40
EVENTS_MAX: Final = 25
EVENTS_TOLD_MAX: Final = 5_000
"""The story is told of so many of the newest events."""
LINE_CHARACTERS_MAX: Final = 160

LOOKING: Final = f"client/{ONLOOKER}"
FETCH_KEY: Final = 1
"""Of requests between brokers a trace names the key."""

Section = tuple[str, str]
"""Title and text."""


def sections(tracer: Tracer, faults: Iterable[FaultState], *, since: int = 0) -> list[Section]:
    """What there is to show.

    Args:
        tracer: What happened.
        faults: The rules of the test.
        since: Where the trace stood when the test began.
    """
    start = max(since, len(tracer) - EVENTS_TOLD_MAX, tracer.first)
    events = [event for event in tracer.events(start) if not _is_noise(event)]
    found = [
        ("txnsim: what happened", _story(story(events, tracer.nodes))),
        ("txnsim: last events", _events(events[-EVENTS_MAX:], tracer.nodes)),
        ("txnsim: faults", _faults(faults)),
    ]
    if not tracer.on:
        found.append(("txnsim", 'nothing was recorded: trace is "off" for this cluster'))
    return [(title, text) for title, text in found if text]


def _is_noise(event: Event) -> bool:
    """Whether it is the test's own looking, or a follower that fetches as it always does."""
    if not event.k.startswith("msg.") or not isinstance(event.d, Mapping):
        return False
    return event.d.get("peer") == LOOKING or event.d.get("api") == FETCH_KEY


def _story(sentences: Sequence[Sentence]) -> str:
    lines = [
        _cut(f"{sentence.at_ms:>7} ms  {sentence.who}: {sentence.text}")
        for sentence in sentences[-SENTENCES_MAX:]
    ]
    left_out = len(sentences) - len(lines)
    return "\n".join([f"… {left_out} sentences before", *lines] if left_out else lines)


def _events(events: Iterable[Event], nodes: Sequence[str]) -> str:
    lines = []
    for event in events:
        payload = "" if event.d is None else msgspec.json.encode(event.d).decode()
        words = f"{event.t // 1000:>7} ms  {event.k:<18} {place(nodes[event.n])}  {payload}"
        lines.append(_cut(words))
    return "\n".join(lines)


def _faults(states: Iterable[FaultState]) -> str:
    return "\n".join(
        _cut(
            f"{state.rule.id}: {state.matched} matched, {state.struck} struck, {state.held} held, "
            f"{state.released} released{'' if state.in_force else ', disarmed'}"
            f"{'' if state.failure is None else f', failed ({state.failure})'}: "
            f"{msgspec.json.encode(state.rule).decode()}"
        )
        for state in states
    )


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS_MAX else f"{line[:LINE_CHARACTERS_MAX]}…"
