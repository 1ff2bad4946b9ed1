"""The event that shows what judges have found, and where two runs of a story differ first."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from tests.support.traces import recording_of_run
from txnsim.verdict.judge import VerdictState, judge_cluster
from txnsim_lab.trace._story_steps import step_at, story_steps
from txnsim_lab.trace.findings import findings
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.run_difference import run_difference


@pytest.mark.parametrize(
    ("name", "run_name", "rule", "state"),
    [
        ("z01", "V-", "stuck-last-stable-offset", VerdictState.HANGS),
        ("z02", "V-", "aborted-read", VerdictState.WRONG_DATA),
        ("z04", "V-", "stuck-last-stable-offset", VerdictState.HANGS),
    ],
)
def test_the_event_that_shows_a_finding_lies_before_its_cure(
    name: str, run_name: str, rule: str, state: VerdictState
) -> None:
    recording = recording_of_run(name, run_name, "armed")
    finding_by_rule = {finding.rule: finding for finding in findings(recording)}
    finding = finding_by_rule[rule]
    assert finding.shown_by is not None
    assert finding.shown_by < finding.at
    facts = FollowedTrace.of_recording(recording, at=finding.shown_by).facts()
    assert judge_cluster(facts).state is state


def test_a_healthy_run_has_no_findings() -> None:
    assert findings(recording_of_run("z01", "TV2", "armed")) == ()


def test_steps_lie_behind_each_other() -> None:
    recording = recording_of_run("z01", "V-", "armed")
    steps = story_steps(recording)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert all(
        earlier_step.last + 1 == later_step.first for earlier_step, later_step in pairwise(steps)
    )
    assert step_at(steps, steps[0].first - 1) is None
    assert step_at(steps, steps[2].last) == steps[2]


def test_a_sentence_of_another_shape_is_a_step_without_text() -> None:
    recording = recording_of_run("z01", "V-", "armed")
    sound_steps = story_steps(recording)
    payloads: tuple[object, ...] = (0, None, "text", ["text"], {})
    for payload in payloads:
        events = [
            msgspec.structs.replace(event, d=payload) if event.i == sound_steps[0].first else event
            for event in recording.events
        ]
        foreign_recording = msgspec.structs.replace(recording, events=tuple(events))
        steps = story_steps(foreign_recording)
        assert steps[0].text == ""
        assert steps[1:] == sound_steps[1:]


def test_two_runs_differ_first_where_one_hangs() -> None:
    left_recording, right_recording = (
        recording_of_run("z01", run_name, "armed") for run_name in ("V-", "TV2")
    )
    compared = run_difference(left_recording, right_recording)
    assert all(row.left is None or row.right is None or row.text for row in compared.rows)
    assert compared.first is not None
    assert compared.rows[compared.first.row].text.startswith("The held request is released.")
    assert (
        compared.first.left
        == "A transaction of app hangs on payments-0: readers get nothing from offset 1 on."
    )
    assert compared.first.right == "Produce is refused with INVALID_PRODUCER_EPOCH."
    assert run_difference(left_recording, left_recording).first is None
