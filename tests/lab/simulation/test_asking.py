"""What comes of the questions of somebody curious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.support.plans import leaderless_plan
from txnsim_lab.simulation._curiosity import CURIOUS
from txnsim_lab.simulation._plan import Act, Plan, Track
from txnsim_lab.simulation._story import pytest_of, story_of
from txnsim_lab.simulation.differential import difference, other_plan
from txnsim_lab.simulation.drawing import draw
from txnsim_lab.simulation.play import play


def plans() -> Iterator[Plan]:
    return (plan for plan in map(draw, range(400)) if CURIOUS in plan.features)


@pytest.mark.costly
@pytest.mark.slow
def test_every_question_can_be_put_and_most_are_answered() -> None:
    outcomes: Counter[str] = Counter()
    for plan in list(plans())[:12]:
        played = play(plan)
        assert [one for one in played.findings if one.kind == "crash"] == []
        outcomes += Counter(one.error for one in played.done if "ask" in one.step)
    assert outcomes["NONE"] > sum(outcomes.values()) / 4
    assert len(outcomes) > 30


def asking(api: str, version: int, to: dict[str, Any], **fields: Any) -> Plan:
    """A plan in which somebody asks for one thing."""
    plan = leaderless_plan(as_version="4.4")
    asked = {"api": api, "version": version, "to": to, "fields": fields}
    act = Act({"ask": asked}, 0, 1, CURIOUS)
    return msgspec.structs.replace(plan, tracks=(Track(CURIOUS, (act,)),))


def test_an_answer_with_the_same_error_is_told_apart() -> None:
    resource = {"resource_type": 2, "resource_name": "missing", "configuration_keys": None}
    topic = {
        **resource,
        "resource_name": next(iter(leaderless_plan(as_version="4.4").world.topics)),
    }
    flags = {"include_synonyms": False, "include_documentation": False}
    for asked, is_told in ((topic, True), (resource, False)):
        plan = asking("DescribeConfigs", 4, {"broker": 1}, resources=[asked], **flags)
        found = difference(plan, other_plan(plan, ["4.3"]))
        assert found.is_none is not is_told
        if is_told:
            assert "when somebody curious asks for DescribeConfigs" in found.sentence
            assert "both answer NONE, and do not say the same." in found.sentence


def test_what_he_was_told_is_what_he_says_next() -> None:
    told = {"told": "member_epoch", "of": "own-group m1"}
    heartbeat = {
        "group_id": "own-group",
        "member_id": "m1",
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["own"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    to = {"group": "own-group"}
    plan = asking("ConsumerGroupHeartbeat", 1, to, **heartbeat, member_epoch=told)
    (track,) = plan.tracks
    (act,) = track.acts
    early = {**act.step["ask"], "fields": {**heartbeat, "member_epoch": {**told, "plus": 5}}}
    acts = (act, act, Act({"ask": early}, 0, 1, CURIOUS))
    plan = msgspec.structs.replace(plan, tracks=(msgspec.structs.replace(track, acts=acts),))
    errors = [one.error for one in play(plan).done]
    assert errors == ["NONE", "NONE", "FENCED_MEMBER_EPOCH"]


def test_his_questions_are_no_steps_of_a_story_but_of_a_test() -> None:
    plan = next(plans())
    assert Plan.from_json(plan.to_json()) == plan
    played = play(plan)
    assert play(Plan.from_json(plan.to_json())).digest == played.digest
    assert story_of(plan, msgspec.structs.replace(played, done=played.done[:3])) is None
    assert "Plan.from_json" in pytest_of(plan)
