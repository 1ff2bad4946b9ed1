from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, failure, seen, sentences, told, transaction
from txnsim_lab.check.observations import PositionsRead, Read, SentOffsets

PROTOCOLS = ("classic", "consumer")
both = pytest.mark.parametrize("protocol", PROTOCOLS)


def story(steps: list[dict[str, Any]], protocol: str = "classic", **more: Any) -> Any:
    """Told with two members of one group, which reads the two partitions of ``in``."""
    part = {"plays": "member", "group": "g", "group-protocol": protocol, **more}
    actors = {"P": {"plays": "wire", "transactional-id": "app"}, "a": part, "b": part}
    settings = {"group.initial.rebalance.delay.ms": 0}
    return told(steps, actors=actors, topics={"t": 1, "in": 2}, settings=settings)


def append(*values: str, partition: str = "in-0") -> list[dict[str, Any]]:
    return [call("append", "bystander", partition=partition, value=one) for one in values]


ALL = ["in-0", "in-1"]
JOIN = call("subscribe", "a", topics="in", assigned=ALL)


@both
def test_a_member_reads_on_where_its_group_stands(protocol: str) -> None:
    steps = [
        *append("r1", "r2"),
        JOIN,
        call("poll", "a", reads=["r1", "r2"]),
        call("poll", "a", reads=[]),
        call("seek", "a", partition="in-0", from_=1),
        call("poll", "a", reads=["r2"]),
        call("commit-offsets", "a", offsets={"in-0": 1}),
        call("leave", "a"),
        JOIN,
        call("poll", "a", reads=["r2"]),
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict
    assert "a: polls r1, r2" in sentences(result)
    (sent,) = seen(result, SentOffsets)
    assert (sent.who, sent.transaction, sent.position) == ("a", None, 1)
    found = [one.positions[0].offset for one in seen(result, PositionsRead) if one.who == "a"]
    assert found == [-1, 1]
    assert {one.asked for one in seen(result, Read) if one.who == "a"} == {0, 1, 2}


@both
def test_positions_of_an_open_transaction_are_waited_for(protocol: str) -> None:
    steps = [
        *append("r1"),
        JOIN,
        call("init-producer-id"),
        call("poll", "a", reads=["r1"]),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="out of r1"),
        call("add-offsets", group="g"),
        call("commit-offsets", member="a"),
        call("leave", "a"),
        call("subscribe", "b", topics="in", assigned=ALL),
        call("poll", "b", error="UNSTABLE_OFFSET_COMMIT"),
        call("poll", "b", background="polling", reads=[]),
        call("commit"),
        {"await": "polling"},
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict
    sent = seen(result, SentOffsets)
    assert {(one.who, one.member) for one in sent} == {("P", "a")}
    assert sorted(one.position for one in sent) == [0, 1]


@pytest.mark.slow
def test_what_a_member_may_not_do_fails_the_story() -> None:
    early = [call("poll", "a")]
    assert failure(story(early)) == "a is no member now: it has to subscribe"
    unknown = [*transaction()[:2], call("commit-offsets", member="a")]
    assert failure(story([call("init-producer-id"), *unknown])) == "a has not subscribed yet"
    wrong = [*append("r1"), JOIN, call("poll", "a", reads=["r2"])]
    assert failure(story(wrong)) == "a polls r1, expected r2"
    never = [call("subscribe", "a", topics="in", assigned=["in-1"])]
    assert failure(story(never)) == "a: assigned is in-0, in-1 after 60000 ms, expected in-1"
    dead = [JOIN, call("die", "a"), call("commit-offsets", "a")]
    assert failure(story(dead)) == "a is no member now: it has to subscribe"
    strange = [call("subscribe", "a", topics="in", error="GROUP_MAX_SIZE_REACHED")]
    assert "is answered NONE, expected GROUP_MAX_SIZE_REACHED" in failure(story(strange))


def test_a_member_that_is_taken_over_is_fenced() -> None:
    take_over = call("subscribe", "b", topics="in", assigned=ALL)
    steps = [
        JOIN,
        call("poll", "a"),
        take_over,
        call("commit-offsets", "a", error="FENCED_INSTANCE_ID"),
        call("poll", "a", error="FENCED_INSTANCE_ID"),
    ]
    result = story(steps, **{"instance-id": "one"})
    assert result.as_declared, result.verdict


@both
def test_a_generation_has_the_name_that_a_step_has_given_it(protocol: str) -> None:
    steps = [
        *append("r1"),
        call("init-producer-id"),
        call("subscribe", "a", topics="in", assigned=ALL, generation="alone"),
        call("poll", "a", reads=["r1"]),
        call("subscribe", "b", topics="in", background="joining"),
        call("poll", "a", assigned="in-0", generation="with b"),
        {"await": "joining"},
        call("begin"),
        call("add-offsets", group="g"),
        call(
            "commit-offsets",
            member="a",
            offsets={"in-1": 0},
            generation="alone",
            error="ILLEGAL_GENERATION",
        ),
        call("abort"),
        call("begin"),
        call("add-offsets", group="g"),
        call("commit-offsets", member="a", offsets={"in-0": 1}, generation="with b"),
        call("commit"),
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict


@both
def test_a_program_may_commit_for_what_a_member_was_before(protocol: str) -> None:
    steps = [
        *append("r1"),
        call("init-producer-id"),
        call("subscribe", "a", topics="in", assigned=ALL, generation="first life"),
        call("poll", "a", reads=["r1"]),
        call("leave", "a"),
        call("subscribe", "a", topics="in", assigned=ALL),
        call("begin"),
        call("add-offsets", group="g"),
        call(
            "commit-offsets",
            member="a",
            offsets={"in-0": 1},
            generation="first life",
            member_id="first life",
            error="UNKNOWN_MEMBER_ID",
        ),
        call("commit-offsets", member="a", offsets={"in-0": 1}),
        call("commit"),
    ]
    result = story(steps, protocol)
    assert result.as_declared, result.verdict
