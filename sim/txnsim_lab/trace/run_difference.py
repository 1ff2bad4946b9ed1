"""Two runs of one story side by side: their steps aligned by their sentences, and the first step at
which the runs differ, in a sentence on each. What hangs counts most, then what was refused, then
the states of coordinators, then records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.trace_file import Recording
from txnsim.verdict.judge import PartitionVerdict, judge_cluster
from txnsim_lab.trace._story_steps import StoryStep, story_steps
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.state import TraceState

RETRIED_ERRORS: Final = frozenset(
    {
        "NONE", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)  # fmt: skip
"""Errors after which clients retry: they are no difference between two runs."""
_TXN_APIS: Final = frozenset(
    {
        "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce",
        "EndTxn", "WriteTxnMarkers",
    }
)  # fmt: skip
_REFUSING_APIS: Final = {"log.reject": "Produce", "marker.refused": "WriteTxnMarkers"}
_GRAVE_STATES: Final = frozenset({"hangs", "wrong-data", "no-leader"})


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step that both runs have, or one of them."""

    text: str
    left: int | None
    """Its number in the first run; None where that lacks it."""
    right: int | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first step at which the runs differ."""

    row: int
    """Index of its row."""
    left: str
    """What is so in the first run, as a sentence."""
    right: str


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs, compared."""

    rows: tuple[StepRow, ...]
    first: Difference | None
    """None if nothing that is compared differs."""


class _StepSigns(msgspec.Struct, frozen=True, kw_only=True):
    """What can tell two runs apart at a step."""

    grave_headlines: tuple[str, ...]
    """Headlines of what is grave at its end."""
    refusals: dict[str, str]
    """API and error -> the sentence on a request that was refused in it."""
    states: tuple[str, ...]
    records: tuple[str, ...]


def run_difference(left_recording: Recording, right_recording: Recording) -> RunDifference:
    """Compare two runs."""
    left_steps, right_steps = story_steps(left_recording), story_steps(right_recording)
    rows = _align_steps(left_steps, right_steps)
    left_signs, right_signs = (
        _signs_of_steps(left_recording, left_steps),
        _signs_of_steps(right_recording, right_steps),
    )
    signs_by_step = [
        (index, left_signs[row.left - 1], right_signs[row.right - 1])
        for index, row in enumerate(rows)
        if row.left is not None and row.right is not None
    ]
    for sentences in (_trouble_sentences, _refusal_sentences, _state_sentences, _record_sentences):
        for index, left_step_signs, right_step_signs in signs_by_step:
            differing_sentences = sentences(left_step_signs, right_step_signs)
            if differing_sentences is not None:
                first_difference = Difference(
                    row=index, left=differing_sentences[0], right=differing_sentences[1]
                )
                return RunDifference(rows=rows, first=first_difference)
    return RunDifference(rows=rows, first=None)


def _align_steps(
    left_steps: Sequence[StoryStep], right_steps: Sequence[StoryStep]
) -> tuple[StepRow, ...]:
    left_texts, right_texts = (
        [step.text for step in left_steps],
        [step.text for step in right_steps],
    )
    rows: list[StepRow] = []
    for opcode_word, left_start, left_end, right_start, right_end in SequenceMatcher(
        None, left_texts, right_texts, autojunk=False
    ).get_opcodes():
        if opcode_word == "equal":
            rows += (
                StepRow(text=left_texts[number], left=number + 1, right=right_number + 1)
                for number, right_number in zip(
                    range(left_start, left_end), range(right_start, right_end), strict=True
                )
            )
            continue
        rows += (
            StepRow(text=left_texts[number], left=number + 1, right=None)
            for number in range(left_start, left_end)
        )
        rows += (
            StepRow(text=right_texts[number], left=None, right=number + 1)
            for number in range(right_start, right_end)
        )
    return tuple(rows)


def _signs_of_steps(recording: Recording, steps: Sequence[StoryStep]) -> list[_StepSigns]:
    """The signs of each step, at its end."""
    followed_trace = FollowedTrace(state=TraceState(level=recording.level))
    events = iter(recording.events)
    step_signs = []
    done_count = 0
    for step in steps:
        step_events = []
        while done_count <= step.last:
            event = next(events)
            followed_trace.follow(event, recording.nodes)
            if done_count >= step.first:
                step_events.append(event)
            done_count += 1
        verdict, state = judge_cluster(followed_trace.facts()), followed_trace.state
        step_signs.append(
            _StepSigns(
                grave_headlines=tuple(
                    f"{partition_verdict.headline}."
                    for partition_verdict in verdict.partitions
                    if partition_verdict.state.value in _GRAVE_STATES
                ),
                refusals=dict(_refusals_in(step_events)),
                states=tuple(
                    sorted(
                        f"{transactional_id} is {transaction['state']}"
                        for transactional_id, transaction in state.transactions.items()
                    )
                ),
                records=tuple(sorted(map(_record_text, verdict.partitions))),
            )
        )
    return step_signs


def _record_text(partition_verdict: PartitionVerdict) -> str:
    return (
        f"{partition_verdict.partition} ends at {partition_verdict.high_watermark}, and readers get"
        f" to {partition_verdict.stands_at}"
    )


def _refusals_in(events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        payload = event.d if isinstance(event.d, dict) else {}
        api = _REFUSING_APIS.get(event.k)
        if event.k == "msg.send" and payload.get("response") and payload.get("api") in _TXN_APIS:
            api = payload["api"]
        error = payload.get("error")
        if api is None or not error or error in RETRIED_ERRORS:
            continue
        reason = f": {payload['reason']}" if payload.get("reason") else ""
        yield f"{api} {error}", f"{api} is refused with {error}{reason}."


def _trouble_sentences(left_signs: _StepSigns, right_signs: _StepSigns) -> tuple[str, str] | None:
    if bool(left_signs.grave_headlines) == bool(right_signs.grave_headlines):
        return None
    return _telling_sentence(left_signs, right_signs), _telling_sentence(right_signs, left_signs)


def _refusal_sentences(left_signs: _StepSigns, right_signs: _StepSigns) -> tuple[str, str] | None:
    if left_signs.refusals.keys() == right_signs.refusals.keys():
        return None
    return _telling_sentence(left_signs, right_signs), _telling_sentence(right_signs, left_signs)


def _telling_sentence(left_signs: _StepSigns, right_signs: _StepSigns) -> str:
    """The sentence that tells most about one side."""
    new_headlines = [
        headline
        for headline in left_signs.grave_headlines
        if headline not in right_signs.grave_headlines
    ]
    refusals = [
        left_signs.refusals[name]
        for name in sorted(left_signs.refusals.keys() - right_signs.refusals)
    ]
    return next(
        iter([*new_headlines, *refusals, *left_signs.grave_headlines]),
        "nothing hangs, and nothing is refused.",
    )


def _state_sentences(left_signs: _StepSigns, right_signs: _StepSigns) -> tuple[str, str] | None:
    return _listed_difference(left_signs.states, right_signs.states)


def _record_sentences(left_signs: _StepSigns, right_signs: _StepSigns) -> tuple[str, str] | None:
    return _listed_difference(left_signs.records, right_signs.records)


def _listed_difference(
    left_texts: Sequence[str], right_texts: Sequence[str]
) -> tuple[str, str] | None:
    if left_texts == right_texts:
        return None
    left_sentence, right_sentence = (
        f"{', '.join(listed_texts) or 'nothing is written'}."
        for listed_texts in (left_texts, right_texts)
    )
    return left_sentence, right_sentence
