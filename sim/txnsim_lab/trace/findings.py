"""What judges have found in a run, each with the event that shows it: behind the step in which the
place that they name is as they say, before it is cured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.story import transactional_id_of
from txnsim.trace.trace_file import Recording
from txnsim.verdict.judge import VerdictState, judge_cluster
from txnsim_lab.trace._story_steps import StoryStep, step_at, story_steps
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.state import TraceState

VIOLATION_KIND: Final = "check.violation"
_STATE_RE: Final = re.compile(r"(?P<id>\S+) has been (?P<state>\w+) for ")
_OFFSET_RE: Final = re.compile(r"(?P<tp>[\w.-]+-\d+)@(?P<offset>\d+)")
_OPEN_RE: Final = re.compile(r"(?P<tp>[\w.-]+-\d+): .* open since (?P<offset>\d+)")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of the judges."""

    rule: str
    found: str
    at: int
    """Position of the judges' event."""
    shown_by: int | None
    """Position of the event that shows it; None if it names no place in the trace."""


def findings(recording: Recording) -> tuple[Finding, ...]:
    """The findings in a run, in order; each once, though it is told before its cure and after."""
    steps = story_steps(recording)
    findings_by_text: dict[tuple[str, str], Finding] = {}
    for index, event in enumerate(recording.events):
        if event.k != VIOLATION_KIND:
            continue
        payload = msgspec.convert(event.d, dict[str, object])
        rule, text = str(payload["rule"]), str(payload["found"])
        shown_position = _index_that_shows(recording, steps, text, index)
        findings_by_text[rule, text] = Finding(
            rule=rule,
            found=text,
            at=event.i,
            shown_by=None if shown_position is None else recording.events[shown_position].i,
        )
    return tuple(findings_by_text.values())


def _index_that_shows(
    recording: Recording, steps: list[StoryStep], text: str, told_position: int
) -> int | None:
    state_match = _STATE_RE.match(text)
    if state_match is not None:
        transactional_id, state_name = state_match["id"], state_match["state"]
        move_positions = [
            index
            for index, event in enumerate(recording.events)
            if event.k == "txn.complete" and transactional_id_of(event.tx) == transactional_id
        ]
        reached_position = next(
            (
                move_position
                for move_position in reversed(move_positions)
                if _payload_of(recording.events[move_position])["state"] == state_name
            ),
            None,
        )
        if reached_position is not None:  # before the step in which it moves on
            cured_position = next(
                (
                    move_position
                    for move_position in move_positions
                    if move_position > reached_position
                ),
                told_position,
            )
            step = step_at(steps, cured_position)
            return max(reached_position, (cured_position if step is None else step.first) - 1)
    place_match = _OFFSET_RE.search(text) or _OPEN_RE.match(text)
    if place_match is None:
        return None
    partition, offset = place_match["tp"], int(place_match["offset"])
    written_position = _first_position(
        recording, 0, lambda event: _is_append_of(event, partition, offset)
    )
    if written_position is None:
        return None
    if "open since" in text:
        return _hanging_at(recording, steps, partition, offset, written_position)
    ended_at = _first_position(
        recording,
        written_position + 1,
        lambda event: event.k == "marker.written" and _payload_of(event)["tp"] == partition,
    )
    settled_position = written_position if ended_at is None else ended_at
    step = step_at(steps, settled_position)
    return written_position if step is None else step.last


def _payload_of(event: Event) -> Mapping[str, Any]:
    return event.d if isinstance(event.d, Mapping) else {}


def _first_position(
    recording: Recording, start: int, is_sought: Callable[[Event], bool]
) -> int | None:
    return next(
        (
            index
            for index in range(start, len(recording.events))
            if is_sought(recording.events[index])
        ),
        None,
    )


def _is_append_of(event: Event, partition: str, offset: int) -> bool:
    return (
        event.k == "log.append"
        and _payload_of(event)["tp"] == partition
        and _payload_of(event)["base"] <= offset <= _payload_of(event)["last"]
    )


def _hanging_at(
    recording: Recording, steps: list[StoryStep], partition: str, offset: int, written_at: int
) -> int:
    """The end of the first step after which the transaction hangs; without one, the first move of a
    coordinator after which it does.
    """
    move_positions = {
        index
        for index, event in enumerate(recording.events)
        if index >= written_at and event.k == "txn.complete"
    }
    last_positions = {step.last for step in steps if step.last >= written_at}
    followed_trace = FollowedTrace(state=TraceState(level=recording.level))
    first_move_position = None
    for index, event in enumerate(recording.events):
        followed_trace.follow(event, recording.nodes)
        if index not in last_positions and (
            index not in move_positions or first_move_position is not None
        ):
            continue
        if not _hangs(followed_trace, partition, offset):
            continue
        if index in last_positions:
            return index
        first_move_position = index
    step = step_at(steps, written_at)
    if first_move_position is not None:
        return first_move_position
    return written_at if step is None else step.last


def _hangs(followed_trace: FollowedTrace, partition: str, offset: int) -> bool:
    verdict = judge_cluster(followed_trace.facts(partition))
    return any(
        open_txn.state is VerdictState.HANGS and open_txn.first_offset == offset
        for partition_verdict in verdict.partitions
        for open_txn in partition_verdict.open_txns
    )
