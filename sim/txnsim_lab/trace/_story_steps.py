"""The steps of a story in the trace of its run: each begins with a sentence of the narrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from txnsim.trace.story import NARRATOR
from txnsim.trace.trace_file import Recording


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a story, by indices of the trace's events."""

    number: int
    """From 1 on."""
    text: str
    first: int
    """Its narrator's sentence."""
    last: int
    """The event before the next step, or the last one of the trace."""


def story_steps(recording: Recording) -> list[StoryStep]:
    """The steps of a run, in order; none if no story was told."""
    note_positions = [
        index
        for index, event in enumerate(recording.events)
        if event.k == "note" and recording.nodes[event.n] == NARRATOR
    ]
    last_positions = [
        *(note_position - 1 for note_position in note_positions[1:]),
        len(recording.events) - 1,
    ]
    return [
        StoryStep(number=number, text=_text_of(recording.events[first].d), first=first, last=last)
        for number, (first, last) in enumerate(
            zip(note_positions, last_positions, strict=False), start=1
        )
    ]


def step_at(steps: list[StoryStep], index: int) -> StoryStep | None:
    """The step that an event lies in; None before the first one."""
    return next((step for step in reversed(steps) if step.first <= index), None)


def _text_of(payload: Any) -> str:
    return str(payload.get("text", "")).strip() if isinstance(payload, Mapping) else ""
