"""Topics of one name; whole stories are in tests/lab/checkers/histories."""

from __future__ import annotations

import pytest

from tests.support.hand_made_histories import FAILED, T0, UNKNOWN, HistoryBuilder
from txnsim.types import TopicPartition
from txnsim_lab.check._topics import deleted_topics, with_distinct_topics
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import Described, OnPartition, Outcome, Position, PositionsRead


def topics(history: History) -> list[str]:
    return [
        observation.topic
        for observation in with_distinct_topics(history)
        if isinstance(observation, OnPartition)
    ]


def test_a_history_without_a_deletion_stays_as_it_is() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", 0)
    assert with_distinct_topics(story.history) is story.history
    story.delete(asked_ms=1_500, outcome=FAILED, error="TOPIC_DELETION_DISABLED")
    assert with_distinct_topics(story.history) is story.history
    assert deleted_topics(story.history) == frozenset()


def test_each_topic_of_a_name_gets_a_name_of_its_own() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", 0)
    story.delete(asked_ms=1_500)
    story.write(None, "r2", 0, asked_ms=2_500)
    story.read(0, {0: "r2"}, 1, asked_ms=3_500)
    story.delete(asked_ms=4_500)
    story.write(None, "r3", 0, asked_ms=5_500)
    story.write(None, "r4", 0, topic="another")
    distinct_history = with_distinct_topics(story.history)
    assert topics(story.history) == ["t", "t#2", "t#2", "t#3", "another"]
    assert deleted_topics(distinct_history) == {"t", "t#2"}


@pytest.mark.parametrize(
    ("asked_ms", "outcome"),
    [(None, Outcome.OK), (700, Outcome.OK), (1_000, Outcome.OK), (1_500, UNKNOWN)],
    ids=["when unknown", "before", "as it was answered", "of an unknown deletion"],
)
def test_what_may_be_of_either_stands_alone(asked_ms: int | None, outcome: Outcome) -> None:
    story = HistoryBuilder()
    story.delete(asked_ms=500, outcome=outcome)
    story.write(None, "r1", 0, asked_ms=asked_ms)
    story.write(None, "r2", 0, asked_ms=asked_ms)
    assert topics(story.history) == ["t#?1", "t#?2"]


def test_an_answer_that_came_while_the_deletion_was_under_way_is_in_doubt() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", 0)
    story.write(None, "r2", 1)
    story.delete(asked_ms=1_000)
    assert topics(story.history) == ["t", "t#?1"]


def test_positions_inputs_and_what_coordinators_list_are_renamed_too() -> None:
    story = HistoryBuilder()
    story.delete("in", asked_ms=500)
    story.delete(asked_ms=1_500)
    story.positions(5, asked_ms=2_500)
    story.write("T1", "r1", 0, of=(Position(topic="in", partition=0, offset=4),), asked_ms=3_500)
    story.describe("Ongoing", T0)
    _, _, positions, wrote, described = with_distinct_topics(story.history)
    assert isinstance(positions, PositionsRead)
    assert isinstance(described, Described)
    assert [position.topic for position in positions.positions] == ["in#2"]
    assert [input_position.topic for input_position in getattr(wrote, "of", ())] == ["in#2"]
    assert described.partitions == (T0, TopicPartition("t#2", 0))


def test_a_key_of_a_record_in_doubt_excuses_the_cleaner() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", 0, key="k")
    story.read(0, {}, 1)
    story.write(None, "r2", 1, key="k")
    assert str(judge(story.history)) == "healthy"
    story.delete(asked_ms=2_500)
    assert topics(story.history) == ["t", "t", "t#?2"]
    assert str(judge(story.history)) == "healthy"


def test_a_value_may_be_used_again_in_the_next_topic() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", 0)
    story.delete(asked_ms=1_500)
    story.write(None, "r1", 1, asked_ms=2_500)
    assert str(judge(story.history)) == "healthy"


def test_an_acknowledged_deletion_ends_the_doubt_about_an_unknown_one() -> None:
    story = HistoryBuilder()
    story.delete(asked_ms=500, outcome=UNKNOWN)
    story.write(None, "r1", 0, asked_ms=1_500)
    story.delete(asked_ms=2_500)
    story.write(None, "r2", 0, asked_ms=3_500)
    assert topics(story.history) == ["t#?1", "t#3"]
