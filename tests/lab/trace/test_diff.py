from __future__ import annotations

import pytest

from tests.support.small_trace import small
from tests.support.traces import told_run
from txnsim_lab.trace.diff import DIFFED_MAX, diff

NODES = ("broker/1", "broker/2")


@pytest.mark.slow
def test_the_same_run_twice_has_no_difference() -> None:
    assert diff(told_run(), told_run()) is None


def test_two_takes_part_where_the_fault_is_felt() -> None:
    found = diff(told_run(), told_run(take="disarmed"))
    assert found is not None
    assert found.settings["take"] == ("armed", "disarmed")
    assert found.sentence.startswith("They part at client late-producer: A tells ")
    assert found.left.at is not None
    assert found.left.context[-1] == found.left.at
    assert found.only_left > 0


def test_times_positions_and_the_order_of_roles_make_no_difference() -> None:
    one = ("broker/1", "note", (), "", {"text": "a"})
    other = ("broker/2", "note", (), "", {"text": "b"})
    assert diff(small(NODES, one, other), small(NODES, other, one)) is None


def test_a_run_that_tells_nothing_more_is_said_so() -> None:
    one = ("broker/1", "note", (), "", {"text": "a"})
    found = diff(small(NODES, one, one), small(NODES, one))
    assert found is not None
    assert found.right.at is None
    assert "B tells nothing more" in found.sentence
    assert (found.only_left, found.only_right) == (1, 0)


def test_roles_with_very_many_events_are_not_matched_one_by_one() -> None:
    many = [("broker/1", "note", (), "", {"text": "a"})] * (DIFFED_MAX + 1)
    other = ("broker/1", "note", (), "", {"text": "b"})
    found = diff(small(NODES, other, *many), small(NODES, *many))
    assert found is not None
    assert found.only_left == DIFFED_MAX + 2
