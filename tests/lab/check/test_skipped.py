"""skipped-input, one thing at a time; whole stories are in tests/lab/checkers/histories."""

from __future__ import annotations

import pytest

from tests.support.told import Told
from txnsim_lab.check._skipped import skipped_input
from txnsim_lab.check.observations import Outcome, Position


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


def of(offset: int) -> tuple[Position, ...]:
    return (Position(topic="in", partition=0, offset=offset),)


def polled_in_an_abort(*, redone: str | None = None, outcome: Outcome = Outcome.OK) -> Told:
    """in-0@0 is polled in T1, which is aborted; T2 does in-0@1 and commits the position behind."""
    told = Told()
    place = {"topic": "in", "partition": 0, "who": "p"}
    told.read(0, {0: "a"}, 1, **place, transaction="T1")
    told.wrote("T1", "A", of=of(0))
    told.aborted("T1")
    told.read(1, {1: "b"}, 2, **place, transaction="T2")
    told.wrote("T2", "B", of=of(1))
    if redone is not None:
        told.wrote(redone, "A again", outcome=outcome, of=of(0))
    told.sent("T2", 2)
    told.committed("T2")
    told.read(0, {0: "a", 1: "b"}, 2, topic="in", partition=0)
    return told


def test_an_input_of_an_abort_needs_its_output_where_outputs_name_their_inputs() -> None:
    (anomaly,) = skipped_input(polled_in_an_abort().history)
    assert anomaly.because == (
        "the position of g on in-0 was 2, and no member of the group has processed 0"
    )
    assert anomaly.evidence == (0, 5)
    refused = polled_in_an_abort(redone="T2", outcome=Outcome.FAILED)
    assert len(skipped_input(refused.history)) == 1


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_an_output_that_may_be_there_shows_that_the_work_was_done(outcome: Outcome) -> None:
    assert skipped_input(polled_in_an_abort(redone="T2", outcome=outcome).history) == ()


def test_outputs_of_another_group_say_nothing_of_this_one() -> None:
    told = Told()
    place = {"topic": "in", "partition": 0, "who": "p"}
    told.read(0, {0: "a"}, 1, **place, transaction="T1")
    told.aborted("T1")
    told.sent("T2", 1)
    told.committed("T2")
    told.wrote("T3", "A", of=of(7), who="q")
    told.read(0, {0: "a"}, 1, topic="in", partition=0)
    assert skipped_input(told.history) == ()
