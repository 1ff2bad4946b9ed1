"""The story of a finding, as text. That each story makes its finding again:
tests/spark/cli/logs/test_decision_story.py.
"""

from __future__ import annotations

import msgspec
import pytest

from txnsim.txn.decision_audit import AuditState
from txnsim.txn.decision_report import DecisionFinding, DecisionPlace
from txnsim.txn.finding_facts import FindingFacts
from txnsim.types import TopicPartition
from txnsim_lab.scenario.finding_story import FindingStory, NoStory, story_of
from txnsim_lab.scenario.scenario_reader import read

FINDING = DecisionFinding(
    id="no-marker:orders-1:decision-0-9",
    state=AuditState.NO_MARKER,
    transactional_id="shop",
    producer_id=77,
    producer_epoch=5,
    topic="orders",
    partition=1,
    decision=DecisionPlace(offset=9, partition=0, at_ms=1, outcome="commit"),
    markers=(),
    first_offset=17,
    last_offset=18,
    records=2,
    reads_as="unread: readers stop at offset 17",
    explained_by="KAFKA-20734",
    explanation="the partition got a new leader",
    advice="",
)


def story(
    *other_partitions: TopicPartition, is_v2: bool = True, **story_fields: object
) -> FindingStory:
    facts = FindingFacts(
        finding=msgspec.structs.replace(FINDING, **story_fields),
        is_v2=is_v2,
        other_partitions=other_partitions,
    )
    finding_story = story_of(facts)
    assert isinstance(finding_story, FindingStory)
    return finding_story


def test_it_is_a_scenario_with_the_verdict_and_the_guesses() -> None:
    finding_story = story(TopicPartition("payments", 2))
    text = finding_story.to_yaml(("lost-write", "torn-transaction"))
    scenario = read("found.yaml", text)
    assert scenario.name == "found-no-marker-orders-1-decision-0-9"
    assert scenario.runs["as-found"].verdict == ("lost-write", "torn-transaction")
    assert {name: topic.partitions for name, topic in scenario.topics.items()} == {
        "orders": 2,
        "payments": 3,
    }
    assert scenario.topics["orders"].replication_factor == 1, "its only replica dies"
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    assert comments[0] == f"# It makes the finding {FINDING.id} of `txnsim logs decisions` again."
    assert comments[1:] == [f"# Guessed: {guess}." for guess in finding_story.guesses]
    assert read("found.yaml", finding_story.to_yaml()).runs["as-found"].verdict == ()


@pytest.mark.parametrize(
    ("is_v2", "explained_by", "mode"),
    [
        (True, "KAFKA-20734", "TV2"),
        (False, "KAFKA-20734", "V+"),
        (True, None, "TV2"),
        (False, None, "V-"),
    ],
)
def test_the_mode_is_that_of_the_producer(is_v2: bool, explained_by: str | None, mode: str) -> None:
    run = story(is_v2=is_v2, explained_by=explained_by).document["runs"]["as-found"]
    assert run["mode"] == mode
    assert run.get("as-version") == ("4.3" if explained_by else None), "4.2 keeps the marker"


def test_partitions_that_a_story_can_not_have_are_left_out_and_said() -> None:
    others = (TopicPartition("__consumer_offsets", 3), TopicPartition("payments", 100))
    finding_story = story(*others)
    assert list(finding_story.document["topics"]) == ["orders"]
    assert any("2 of the decision's other partitions" in guess for guess in finding_story.guesses)


def test_positions_of_groups_are_no_story() -> None:
    finding = msgspec.structs.replace(FINDING, topic="__consumer_offsets")
    no_story = story_of(FindingFacts(finding=finding, is_v2=False))
    assert isinstance(no_story, NoStory)
    assert "__consumer_offsets-1 keeps positions" in no_story.why
