from __future__ import annotations

import pytest

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim_lab.trace.diff import COMPARED_EVENTS_MAX, diff

NODES = ("broker/1", "broker/2")


@pytest.mark.slow
def test_the_same_run_twice_has_no_difference() -> None:
    assert diff(recording_of_run(), recording_of_run()) is None


def test_two_takes_part_where_the_fault_is_felt() -> None:
    divergence = diff(recording_of_run(), recording_of_run(take_name="disarmed"))
    assert divergence is not None
    assert divergence.settings["take"] == ("armed", "disarmed")
    assert divergence.sentence.startswith("They part at client late-producer: A tells ")
    assert divergence.left.at is not None
    assert divergence.left.context[-1] == divergence.left.at
    assert divergence.only_left > 0


def test_times_positions_and_the_order_of_roles_make_no_difference() -> None:
    note_of_1 = ("broker/1", "note", (), "", {"text": "a"})
    note_of_2 = ("broker/2", "note", (), "", {"text": "b"})
    assert diff(small(NODES, note_of_1, note_of_2), small(NODES, note_of_2, note_of_1)) is None


def test_a_run_that_tells_nothing_more_is_said_so() -> None:
    note = ("broker/1", "note", (), "", {"text": "a"})
    divergence = diff(small(NODES, note, note), small(NODES, note))
    assert divergence is not None
    assert divergence.right.at is None
    assert "B tells nothing more" in divergence.sentence
    assert (divergence.only_left, divergence.only_right) == (1, 0)


def test_roles_with_very_many_events_are_not_matched_one_by_one() -> None:
    many_events = [("broker/1", "note", (), "", {"text": "a"})] * (COMPARED_EVENTS_MAX + 1)
    other_note = ("broker/1", "note", (), "", {"text": "b"})
    divergence = diff(small(NODES, other_note, *many_events), small(NODES, *many_events))
    assert divergence is not None
    assert divergence.only_left == COMPARED_EVENTS_MAX + 2
