"""refused-producer, one thing at a time; whole stories are in tests/lab/checkers/histories."""

from __future__ import annotations

import pytest

from tests.support.hand_made_histories import FAILED, OK, UNKNOWN, HistoryBuilder
from txnsim_lab.check._refusals import refused_producers
from txnsim_lab.check.observations import Outcome

LOST = "INVALID_PRODUCER_ID_MAPPING"


def story_of_refused(error: str = LOST) -> HistoryBuilder:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    history_builder.add_partitions()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T1", "r2", outcome=FAILED, error=error)
    return history_builder


def test_a_producer_that_kept_the_rules_is_refused_for_good() -> None:
    (anomaly,) = refused_producers(story_of_refused().history)
    assert anomaly.evidence == (1, 4)
    assert LOST in anomaly.because


@pytest.mark.parametrize("outcome", [OK, UNKNOWN])
def test_who_is_granted_something_later_is_not_stopped(outcome: Outcome) -> None:
    history_builder = story_of_refused()
    history_builder.write("T1", "r3", 1, outcome=outcome)
    assert refused_producers(history_builder.history) == ()


def test_other_errors_are_other_judges_affair() -> None:
    assert refused_producers(story_of_refused("PRODUCER_FENCED").history) == ()
    assert refused_producers(story_of_refused("NOT_LEADER_OR_FOLLOWER").history) == ()


def test_positions_of_a_group_that_was_not_added_are_refused_rightly() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    history_builder.add_partitions()  # a partition: this producer adds by itself
    history_builder.send_offsets("T1", 5, outcome=FAILED, error=LOST)
    assert refused_producers(history_builder.history) == ()
