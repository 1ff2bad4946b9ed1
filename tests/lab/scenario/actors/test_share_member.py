"""Members of share groups in stories."""

from __future__ import annotations

from typing import Any

from tests.support.stories import call, failure, observations_of, play_steps
from txnsim_lab.check.observations import (
    AcknowledgeType,
    Isolation,
    Outcome,
    ShareAcknowledged,
    ShareFetched,
    ShareLeft,
)
from txnsim_lab.scenario.actors._share_member import ShareMemberActor  # noqa: F401 - whose tests


def story(*steps: dict[str, Any]) -> Any:
    """Told with two members of one group, which reads the partition of ``in`` from its start."""
    part = {"plays": "share-member", "group": "g"}
    configs = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "3"}
    group_configs = [
        call("configure-group", "operator", group="g", name=config_name, value=config_value)
        for config_name, config_value in configs.items()
    ]
    actors = {"a": part, "b": part}
    return play_steps(
        [*group_configs, *steps], run_name="TV2", actors=actors, topics={"t": 1, "in": 1}
    )


def append(*values: str) -> dict[str, Any]:
    return call("append", "bystander", partition="in-0", values=[*values])


def test_a_member_says_what_becomes_of_records() -> None:
    result = story(
        append("r1", "r2", "r3"),
        call("subscribe", "a", topics="in", assigned="in-0"),
        call("poll", "a", reads=["r1", "r2", "r3"]),
        call("acknowledge", "a", values=["r2"], **{"as": "renew"}),
        call("acknowledge", "a", values=["r1"]),
        call("acknowledge", "a", **{"as": "release"}),
        call("poll", "a", reads=["r2", "r3"]),
    )
    acknowledged_types = [
        (observation.first, observation.type)
        for observation in observations_of(result, ShareAcknowledged)
    ]
    assert acknowledged_types == [
        (1, AcknowledgeType.RENEW),
        (0, AcknowledgeType.ACCEPT),
        (1, AcknowledgeType.RELEASE),
        (2, AcknowledgeType.RELEASE),
    ]
    given_answers = [
        observation for observation in observations_of(result, ShareFetched) if observation.records
    ]
    assert [record.delivery_count for record in given_answers[1].records] == [2, 2]
    assert {observation.isolation for observation in given_answers} == {Isolation.READ_UNCOMMITTED}
    assert {(observation.delivery_limit, observation.lock_ms) for observation in given_answers} == {
        (3, 30_000)
    }


def test_who_dies_or_leaves_gives_up_its_records() -> None:
    result = story(
        append("r1"),
        call("subscribe", "a", topics="in", assigned="in-0"),
        call("poll", "a", reads=["r1"]),
        call("die", "a"),
        call("subscribe", "b", topics="in", assigned="in-0"),
        call("poll", "b", reads=["r1"]),
        call("leave", "b"),
        call("subscribe", "b", topics="in", assigned="in-0"),
        call("poll", "b", reads=["r1"]),
    )
    assert [observation.who for observation in observations_of(result, ShareLeft)][:2] == ["a", "b"]


def test_an_answer_that_is_lost_proves_nothing() -> None:
    lost_step = {
        "arm": {
            "id": "lost",
            "point": "client.response",
            "api": "ShareFetch",
            "limit": 1,
            "action": {"do": "disconnect"},
        }
    }
    result = story(
        append("r1"),
        call("subscribe", "a", topics="in", assigned="in-0"),
        lost_step,
        call("poll", "a", error="any"),
    )
    outcomes = [observation.outcome for observation in observations_of(result, ShareFetched)]
    assert outcomes[0] is Outcome.UNKNOWN


def test_what_a_member_can_not_do_is_told() -> None:
    assert "has to subscribe" in failure(story(call("poll", "a")))
    never_steps = call("subscribe", "a", topics="in"), call("acknowledge", "a", values=["r1"])
    assert "does not hold 'r1'" in failure(story(*never_steps))
    other_steps = (
        append("r1"),
        call("subscribe", "a", topics="in", assigned="in-0"),
        call("poll", "a", reads=["r2"]),
    )
    assert "is given r1, expected r2" in failure(story(*other_steps))
