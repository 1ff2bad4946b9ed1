"""Kafka's two server-side assignors: balance, stickiness, ranges."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.group.assignors import ASSIGNORS, RANGE, UNIFORM, Subscriber, Target

A, B, C = (uuid.UUID(int=number) for number in (1, 2, 3))
PARTITIONS = {A: 3, B: 3, C: 2}


def member(
    member_id: str,
    *topics: uuid.UUID,
    owned: set[tuple[uuid.UUID, int]] | frozenset[tuple[uuid.UUID, int]] = frozenset(),
    instance: str | None = None,
) -> Subscriber:
    return Subscriber(
        member_id=member_id,
        instance_id=instance,
        topics=frozenset(topics),
        owned=frozenset(owned),
    )


def assign(name: str, *members: Subscriber) -> Target:
    return ASSIGNORS[name](list(members), PARTITIONS)


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
def test_without_members_nothing_is_assigned(name: str) -> None:
    assert assign(name) == {}


def test_uniform_gives_members_numbers_that_differ_by_one_at_most() -> None:
    target = assign(UNIFORM, member("x", A, C), member("y", A, C))
    assert [len(target[each]) for each in "xy"] == [2, 3]


def test_uniform_moves_no_more_than_it_must() -> None:
    owned = {(A, 0), (A, 1), (A, 2), (B, 0)}
    target = assign(UNIFORM, member("x", A, B, owned=owned), member("y", A, B))
    assert len(target["x"]) == len(target["y"]) == 3
    assert target["x"] <= owned


def test_uniform_keeps_an_extra_partition_where_it_is() -> None:
    target = assign(UNIFORM, member("x", A, owned={(A, 0)}), member("y", A, owned={(A, 1), (A, 2)}))
    assert target == {"x": {(A, 0)}, "y": {(A, 1), (A, 2)}}


def test_uniform_takes_back_what_is_not_subscribed_to_any_more() -> None:
    target = assign(UNIFORM, member("x", A, owned={(B, 0), (A, 2), (A, 7)}))
    assert target == {"x": {(A, 0), (A, 1), (A, 2)}}


def test_uniform_gives_topics_with_few_takers_first() -> None:
    target = assign(UNIFORM, member("x", A, B), member("y", B), member("z", B, C))
    assert target["x"] >= {(A, 0), (A, 1), (A, 2)}
    assert target["z"] >= {(C, 0), (C, 1)}
    assert sum(map(len, target.values())) == 8


def test_uniform_evens_out_what_came_together() -> None:
    everything = {(topic, index) for topic in (A, B) for index in range(3)}
    target = assign(UNIFORM, member("x", A, B, owned=everything), member("y", B))
    assert (len(target["x"]), len(target["y"])) == (3, 3)


def test_range_gives_neighbours_and_the_same_of_equal_topics() -> None:
    target = assign(RANGE, member("y", A, B), member("x", A, B))
    assert target["x"] == {(A, 0), (A, 1), (B, 0), (B, 1)}
    assert target["y"] == {(A, 2), (B, 2)}


def test_range_takes_static_members_first_and_by_instance() -> None:
    target = assign(
        RANGE, member("a", A), member("z", A, instance="2"), member("y", A, instance="1")
    )
    assert target == {"y": {(A, 0)}, "z": {(A, 1)}, "a": {(A, 2)}}


def test_range_of_members_with_different_topics() -> None:
    target = assign(RANGE, member("x", A), member("y", A, C))
    assert target == {"x": {(A, 0), (A, 1)}, "y": {(A, 2), (C, 0), (C, 1)}}


TOPIC_SETS = st.frozensets(st.sampled_from((A, B, C)))
OWNED = st.lists(st.tuples(st.sampled_from((A, B, C)), st.integers(0, 3)), max_size=6, unique=True)


@given(
    st.sampled_from((UNIFORM, RANGE)),
    st.lists(st.tuples(TOPIC_SETS, OWNED), min_size=1, max_size=5),
)
def test_every_partition_goes_to_exactly_one_of_its_subscribers(
    name: str, drawn: list[tuple[frozenset[uuid.UUID], list[tuple[uuid.UUID, int]]]]
) -> None:
    taken: set[tuple[uuid.UUID, int]] = set()
    members = []
    for number, (topics, owned) in enumerate(drawn):
        mine = frozenset(each for each in owned if each not in taken)
        taken |= mine
        members.append(Subscriber(member_id=f"m{number}", topics=topics, owned=mine))
    target = ASSIGNORS[name](members, PARTITIONS)
    given_out = [each for partitions in target.values() for each in partitions]
    wanted = {topic for topics, _ in drawn for topic in topics}
    assert sorted(given_out) == sorted((t, i) for t in wanted for i in range(PARTITIONS[t]))
    for subscriber in members:
        assert {topic for topic, _ in target[subscriber.member_id]} <= subscriber.topics
    if name == UNIFORM and len({topics for topics, _ in drawn}) == 1:
        sizes = [len(partitions) for partitions in target.values()]
        assert max(sizes) - min(sizes) <= 1
