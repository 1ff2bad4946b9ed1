"""What is drawn for somebody curious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from txnsim_lab.simulation._curiosity import CURIOUS, GROUPS, IDS, MISSING, TOPICS
from txnsim_lab.simulation._plan import Plan
from txnsim_lab.simulation.drawing import draw

SEEDS = range(400)
LOOKS = ("Describe", "List", "Fetch", "Find", "Metadata", "OffsetF", "ConsumerGroupD")
OWN = {*TOPICS, *GROUPS, *IDS, *MISSING}


def plans() -> Iterator[Plan]:
    return (plan for plan in map(draw, SEEDS) if CURIOUS in plan.features)


def questions(plan: Plan) -> list[dict[str, Any]]:
    return [one.step["ask"] for one in plan.acts if "ask" in one.step]


def texts(said: Any) -> Iterator[tuple[str, str]]:
    """The texts in a message, with the names of their fields."""
    if isinstance(said, dict):
        for name, value in said.items():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str):
                    yield name, one
                else:
                    yield from texts(one)


def test_a_tenth_of_the_seeds_has_him_and_he_asks_for_most_apis() -> None:
    curious = list(plans())
    assert 20 < len(curious) < 60
    apis = Counter(one["api"] for plan in curious for one in questions(plan))
    assert len(apis) > 40
    assert apis.keys().isdisjoint(("UnregisterBroker", "UpdateFeatures", "SaslAuthenticate"))


def test_what_he_changes_is_his_own() -> None:
    named = {
        *("name", "topic", "topic_name", "topic_names", "group_id", "groups_names"),
        *("transactional_id", "transactional_ids", "resource_name"),
    }
    seen = 0
    for plan in plans():
        for asked in questions(plan):
            if asked["api"].startswith(LOOKS):
                continue
            for name, text in texts(asked["fields"]):
                if name in named and (text in plan.world.topics or text in ("__consumer_offsets",)):
                    raise AssertionError((plan.seed, asked))
                seen += text in OWN
    assert seen > 500
