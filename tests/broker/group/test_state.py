"""The table of a classic group's moves (ClassicGroupState.validPreviousStates)."""

from __future__ import annotations

import pytest

from txnsim.errors import InvariantViolation
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.state import VALID_PREVIOUS_STATES, ClassicGroupState

ALLOWED = """
                     Empty  PreparingRebalance  CompletingRebalance  Stable  Dead
Empty                -      x                   -                    -       x
PreparingRebalance   x      -                   x                    -       x
CompletingRebalance  -      x                   -                    x       x
Stable               -      x                   -                    -       x
Dead                 -      -                   -                    -       x
"""
"""Row: from; column: to."""

ROWS = [line.split() for line in ALLOWED.strip().splitlines()]
CELLS = [
    (row[0], ROWS[0][column], cell == "x")
    for row in ROWS[1:]
    for column, cell in enumerate(row[1:])
]


@pytest.mark.parametrize(("before", "after", "is_allowed"), CELLS)
def test_every_move_is_allowed_or_refused(before: str, after: str, is_allowed: bool) -> None:
    group = ClassicGroup("g", state=ClassicGroupState(before), now_ms=1)
    if is_allowed:
        group.move_to(ClassicGroupState(after), now_ms=2)
        assert (group.state.value, group.previous_state.value) == (after, before)
        assert group.state_timestamp_ms == 2
    else:
        with pytest.raises(InvariantViolation):
            group.move_to(ClassicGroupState(after), now_ms=2)
        assert (group.state.value, group.state_timestamp_ms) == (before, 1)


def test_the_table_has_every_state() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(ClassicGroupState)
