"""What the processes of a search have together."""

from __future__ import annotations

import os

import pytest

from txnsim_lab.exploration._shared import Counters, Lanes, SeenStates


def test_a_state_is_new_once_also_where_others_lie_in_its_place() -> None:
    states = SeenStates(2)
    assert [states.add(fingerprint) for fingerprint in (1, 5, 9, 5, 1)] == [
        *(True, True, True),
        *(False, False),
    ]


def test_a_full_table_is_an_error_and_no_loop() -> None:
    states = SeenStates(1)
    assert states.add(1)
    assert states.add(2)
    with pytest.raises(MemoryError, match="2 states"):
        states.add(3)


def test_what_a_child_adds_and_counts_its_parent_sees() -> None:
    states, counters = SeenStates(4), Counters(2)
    counters.count("ends", 0)
    child_pid = os.fork()
    if child_pid == 0:
        states.add(7)
        counters.count("ends", 1)
        counters.stop()
        os._exit(0)
    os.waitpid(child_pid, 0)
    assert not states.add(7)
    assert (counters.totals()["ends"], counters.totals()["states"]) == (2, 0)
    assert counters.is_stopped


def test_a_lane_is_taken_by_one_until_it_is_given_back() -> None:
    lanes = Lanes(3)
    taken_lanes = [lanes.take() for _ in range(3)]
    assert taken_lanes == [1, 2, None], "lane 0 is the first process's"
    lanes.give_back(2)
    assert lanes.take() == 2
