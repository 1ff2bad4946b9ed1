"""Topics of one name; whole stories are in tests/lab/checkers/histories."""

from __future__ import annotations

import pytest

from tests.support.hand_made_histories import FAILED, T0, UNKNOWN, HistoryBuilder
from txnsim.types import TopicPartition
from txnsim_lab.check._topics import deleted_topics, with_distinct_topics
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import (
    Described,
    Outcome,
    PartitionObservation,
    Position,
    PositionsRead,
)


def topics(history: History) -> list[str]:
    return [
        observation.topic
        for observation in with_distinct_topics(history)
        if isinstance(observation, PartitionObservation)
    ]


def test_a_history_without_a_deletion_stays_as_it_is() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 0)
    assert with_distinct_topics(history_builder.history) is history_builder.history
    history_builder.delete(asked_ms=1_500, outcome=FAILED, error="TOPIC_DELETION_DISABLED")
    assert with_distinct_topics(history_builder.history) is history_builder.history
    assert deleted_topics(history_builder.history) == frozenset()


def test_each_topic_of_a_name_gets_a_name_of_its_own() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 0)
    history_builder.delete(asked_ms=1_500)
    history_builder.write(None, "r2", 0, asked_ms=2_500)
    history_builder.read(0, {0: "r2"}, 1, asked_ms=3_500)
    history_builder.delete(asked_ms=4_500)
    history_builder.write(None, "r3", 0, asked_ms=5_500)
    history_builder.write(None, "r4", 0, topic="another")
    distinct_history = with_distinct_topics(history_builder.history)
    assert topics(history_builder.history) == ["t", "t#2", "t#2", "t#3", "another"]
    assert deleted_topics(distinct_history) == {"t", "t#2"}


@pytest.mark.parametrize(
    ("asked_ms", "outcome"),
    [(None, Outcome.OK), (700, Outcome.OK), (1_000, Outcome.OK), (1_500, UNKNOWN)],
    ids=["when unknown", "before", "as it was answered", "of an unknown deletion"],
)
def test_what_may_be_of_either_stands_alone(asked_ms: int | None, outcome: Outcome) -> None:
    history_builder = HistoryBuilder()
    history_builder.delete(asked_ms=500, outcome=outcome)
    history_builder.write(None, "r1", 0, asked_ms=asked_ms)
    history_builder.write(None, "r2", 0, asked_ms=asked_ms)
    assert topics(history_builder.history) == ["t#?1", "t#?2"]


def test_an_answer_that_came_while_the_deletion_was_under_way_is_in_doubt() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 0)
    history_builder.write(None, "r2", 1)
    history_builder.delete(asked_ms=1_000)
    assert topics(history_builder.history) == ["t", "t#?1"]


def test_positions_inputs_and_what_coordinators_list_are_renamed_too() -> None:
    history_builder = HistoryBuilder()
    history_builder.delete("in", asked_ms=500)
    history_builder.delete(asked_ms=1_500)
    history_builder.positions(5, asked_ms=2_500)
    history_builder.write(
        "T1", "r1", 0, of=(Position(topic="in", partition=0, offset=4),), asked_ms=3_500
    )
    history_builder.describe("Ongoing", T0)
    _, _, positions, write, description = with_distinct_topics(history_builder.history)
    assert isinstance(positions, PositionsRead)
    assert isinstance(description, Described)
    assert [position.topic for position in positions.positions] == ["in#2"]
    assert [input_position.topic for input_position in getattr(write, "of", ())] == ["in#2"]
    assert description.partitions == (T0, TopicPartition("t#2", 0))


def test_a_key_of_a_record_in_doubt_excuses_the_cleaner() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 0, key="k")
    history_builder.read(0, {}, 1)
    history_builder.write(None, "r2", 1, key="k")
    assert str(judge(history_builder.history)) == "healthy"
    history_builder.delete(asked_ms=2_500)
    assert topics(history_builder.history) == ["t", "t", "t#?2"]
    assert str(judge(history_builder.history)) == "healthy"


def test_a_value_may_be_used_again_in_the_next_topic() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 0)
    history_builder.delete(asked_ms=1_500)
    history_builder.write(None, "r1", 1, asked_ms=2_500)
    assert str(judge(history_builder.history)) == "healthy"


def test_an_acknowledged_deletion_ends_the_doubt_about_an_unknown_one() -> None:
    history_builder = HistoryBuilder()
    history_builder.delete(asked_ms=500, outcome=UNKNOWN)
    history_builder.write(None, "r1", 0, asked_ms=1_500)
    history_builder.delete(asked_ms=2_500)
    history_builder.write(None, "r2", 0, asked_ms=3_500)
    assert topics(history_builder.history) == ["t#?1", "t#3"]
