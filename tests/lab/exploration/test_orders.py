"""Of two steps that commute one order is played."""

from __future__ import annotations

from contextlib import closing

import pytest

from txnsim_lab.exploration._shared import Counters, Lanes, SeenStates
from txnsim_lab.exploration.search import _Forking, _LastChoice

START, BETWEEN = 1, 2
"""Fingerprints of two states."""


@pytest.mark.parametrize(
    ("first", "second", "deviations_max", "is_due"),
    [
        ({"broker/1"}, {"broker/2", "client/p"}, None, False),
        ({"broker/1", "client/p"}, {"broker/2", "client/p"}, None, True),
        (None, {"broker/2"}, None, True),
        ({"broker/1"}, None, None, True),
        ({"broker/1"}, {"broker/2"}, 3, True),
    ],
)
def test_the_other_order_is_not_due_where_the_steps_have_no_node_in_common(
    first: set[str] | None, second: set[str] | None, deviations_max: int | None, *, is_due: bool
) -> None:
    with closing(Lanes(1)) as lanes:
        forking = _Forking(SeenStates(4), SeenStates(4), Counters(1), lanes, 0, deviations_max)
        touched = None if first is None else frozenset(first)
        forking._before_last = _LastChoice(START, "first", touched)
        forking._last = _LastChoice(BETWEEN, "second")
        forking._note_order(None if second is None else frozenset(second))
        forking._last = _LastChoice(START, "second")
        assert forking._is_due("first") is is_due
        assert forking._is_due("third")
        forking._last = _LastChoice(BETWEEN, "second")
        assert forking._is_due("first"), "from another state nothing is known of them"
