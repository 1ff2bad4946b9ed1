"""skipped-input, one thing at a time; whole stories are in tests/checkers/histories."""

from __future__ import annotations

from tests.support.told import Told
from txnsim.check.skipped import skipped_input


def test_without_a_position_there_is_nothing_to_judge() -> None:
    told = Told()
    told.initialised()
    told.began()
    assert skipped_input(told.history) == ()


def test_a_position_whose_members_reads_are_not_told_convicts_nobody() -> None:
    told = Told()
    told.sent("T1", 20)
    told.committed()
    told.positions(20)
    assert skipped_input(told.history) == ()
