"""Kafka's two server-side assignors: balance, stickiness, ranges."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.call_counts import count_calls_by_function as counts_of
from benchmarks.call_counts import make_call_profile
from txnsim.group import assignors
from txnsim.group.assignors import (
    ASSIGNORS,
    RANGE,
    UNIFORM,
    AssignableMember,
    TargetAssignment,
    assign_simple,
)

A, B, C = (uuid.UUID(int=number) for number in (1, 2, 3))
PARTITIONS = {A: 3, B: 3, C: 2}


def member(
    member_id: str,
    *topics: uuid.UUID,
    owned: set[tuple[uuid.UUID, int]] | frozenset[tuple[uuid.UUID, int]] = frozenset(),
    instance_id: str | None = None,
) -> AssignableMember:
    return AssignableMember(
        member_id=member_id,
        instance_id=instance_id,
        topics=frozenset(topics),
        previous_partitions=frozenset(owned),
    )


@st.composite
def drawn_subscribers(draw: st.DrawFn) -> list[AssignableMember]:
    """Members that subscribe to different topics; no two members own the same partition."""
    free_partitions = draw(
        st.permutations([(topic, index) for topic in (A, B, C) for index in range(4)])
    )
    members = []
    for member_number in range(draw(st.integers(1, 5))):
        owned_count = draw(st.integers(0, 4))
        topics = draw(st.frozensets(st.sampled_from((A, B, C)), max_size=3))
        members.append(
            member(f"m{member_number}", *topics, owned=frozenset(free_partitions[:owned_count]))
        )
        free_partitions = free_partitions[owned_count:]
    return members


def assign(assignor_name: str, *members: AssignableMember) -> TargetAssignment:
    return ASSIGNORS[assignor_name](list(members), PARTITIONS)


@pytest.mark.parametrize("name", [UNIFORM, RANGE])
def test_without_members_nothing_is_assigned(name: str) -> None:
    assert assign(name) == {}


def test_uniform_gives_members_numbers_that_differ_by_one_at_most() -> None:
    target = assign(UNIFORM, member("x", A, C), member("y", A, C))
    assert [len(target[member_id]) for member_id in "xy"] == [2, 3]


def test_uniform_moves_no_more_than_it_must() -> None:
    owned_partitions = {(A, 0), (A, 1), (A, 2), (B, 0)}
    target = assign(UNIFORM, member("x", A, B, owned=owned_partitions), member("y", A, B))
    assert len(target["x"]) == len(target["y"]) == 3
    assert target["x"] <= owned_partitions


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
    all_partitions = {(topic, index) for topic in (A, B) for index in range(3)}
    target = assign(UNIFORM, member("x", A, B, owned=all_partitions), member("y", B))
    assert (len(target["x"]), len(target["y"])) == (3, 3)


def test_range_gives_neighbours_and_the_same_of_equal_topics() -> None:
    target = assign(RANGE, member("y", A, B), member("x", A, B))
    assert target["x"] == {(A, 0), (A, 1), (B, 0), (B, 1)}
    assert target["y"] == {(A, 2), (B, 2)}


def test_range_takes_static_members_first_and_by_instance() -> None:
    target = assign(
        RANGE, member("a", A), member("z", A, instance_id="2"), member("y", A, instance_id="1")
    )
    assert target == {"y": {(A, 0)}, "z": {(A, 1)}, "a": {(A, 2)}}


def test_range_leaves_the_last_of_many_members_without_any() -> None:
    target = assign(RANGE, *(member(member_id, C) for member_id in "wxyz"))
    assert target == {"w": {(C, 0)}, "x": {(C, 1)}, "y": set(), "z": set()}


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
    name: str, drawn_members: list[tuple[frozenset[uuid.UUID], list[tuple[uuid.UUID, int]]]]
) -> None:
    taken_partitions: set[tuple[uuid.UUID, int]] = set()
    members = []
    for member_number, (topics, owned_partitions) in enumerate(drawn_members):
        still_owned = frozenset(
            partition for partition in owned_partitions if partition not in taken_partitions
        )
        taken_partitions |= still_owned
        members.append(
            AssignableMember(
                member_id=f"m{member_number}", topics=topics, previous_partitions=still_owned
            )
        )
    target = ASSIGNORS[name](members, PARTITIONS)
    given_out = [partition for partitions in target.values() for partition in partitions]
    subscribed_topics = {topic for topics, _ in drawn_members for topic in topics}
    assert sorted(given_out) == sorted(
        (t, i) for t in subscribed_topics for i in range(PARTITIONS[t])
    )
    for subscribed_member in members:
        assert {
            topic for topic, _ in target[subscribed_member.member_id]
        } <= subscribed_member.topics
    if name == UNIFORM and len({topics for topics, _ in drawn_members}) == 1:
        sizes = [len(partitions) for partitions in target.values()]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("assignor_name", [UNIFORM, RANGE])
def test_many_members_are_assigned_in_few_steps(assignor_name: str) -> None:
    count_by_id = {A: 5_000, B: 4_000}
    members = [
        member(f"m{member_number:04}", *(A, B)[: 1 + member_number % 2])
        for member_number in range(1_000)
    ]
    steps = []
    for _ in range(2):
        profile = make_call_profile()
        profile.enable()
        target = ASSIGNORS[assignor_name](members, count_by_id)
        profile.disable()
        steps.append(sum(counts_of(profile).values()))
        members = [
            member(each.member_id, *each.topics, owned=target[each.member_id]) for each in members
        ]
    assert sum(map(len, target.values())) == 9_000
    assert max(steps) < 80_000, "a look at all members for each partition would be 9,000,000"


@given(drawn_subscribers())
def test_uniform_is_the_same_as_by_a_look_at_all_takers(members: list[AssignableMember]) -> None:
    partition_by_id = dict.fromkeys((A, B, C), 4)
    assert ASSIGNORS[UNIFORM](members, partition_by_id) == by_looking_at_all(
        members, partition_by_id
    )


def by_looking_at_all(
    members: list[AssignableMember], partitions: dict[uuid.UUID, int]
) -> TargetAssignment:
    """The plain algorithm, which compares all members for each partition."""
    if len({member.topics for member in members}) == 1:
        return ASSIGNORS[UNIFORM](members, partitions)
    target = {
        member.member_id: {
            partition for partition in member.previous_partitions if partition[0] in member.topics
        }
        for member in members
    }
    takers_by_id: dict[uuid.UUID, list[str]] = {}
    for member in members:
        for topic in member.topics:
            takers_by_id.setdefault(topic, []).append(member.member_id)
    assigned_partitions = {partition for partitions in target.values() for partition in partitions}
    for topic in sorted(
        takers_by_id, key=lambda topic_key: (len(takers_by_id[topic_key]), topic_key)
    ):
        for index in range(partitions[topic]):
            if (topic, index) not in assigned_partitions:
                least = min(takers_by_id[topic], key=lambda member_id: len(target[member_id]))
                target[least].add((topic, index))
    has_moved = True
    while has_moved:
        has_moved = False
        for giver in sorted(target, key=lambda member_id: -len(target[member_id])):
            for partition in sorted(target[giver]):
                taker = min(
                    takers_by_id[partition[0]], key=lambda member_id: len(target[member_id])
                )
                if len(target[giver]) - len(target[taker]) > 1:
                    target[giver].remove(partition)
                    target[taker].add(partition)
                    has_moved = True
    return {member_id: frozenset(partitions) for member_id, partitions in target.items()}


# The assignor of share groups: balance, sharing, stickiness.

ALL = {A: (0, 1, 2), B: (0, 1)}
Part = tuple[uuid.UUID, int]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], {}),
        ([member("x", owned={(A, 0)})], {"x": set()}),
        ([member("x", A)], {"x": {(A, 0), (A, 1), (A, 2)}}),
        ([member("x", A, owned={(B, 0)})], {"x": {(A, 0), (A, 1), (A, 2)}}),
        ([member("x", A), member("y", A)], {"x": {(A, 0), (A, 2)}, "y": {(A, 1)}}),
        (
            [member(member_id, B) for member_id in "xyz"],
            {"x": {(B, 0), (B, 1)}, "y": {(B, 0)}, "z": {(B, 1)}},
        ),
        (
            [member("x", A, owned={(A, 0), (A, 1), (A, 2)}), member("y", A)],
            {"x": {(A, 1), (A, 2)}, "y": {(A, 0)}},
        ),
        (
            [member(member_id, B, owned={(B, 0)}) for member_id in "wxyz"],
            {"w": {(B, 1)}, "x": {(B, 1)}, "y": {(B, 0)}, "z": {(B, 0)}},
        ),
        (  # x lacks a second one, and has the only one that is not full
            [member("x", B), *(member(member_id, B, owned={(B, 0)}) for member_id in "yz")],
            {"x": {(B, 1)}, "y": {(B, 0)}, "z": {(B, 0)}},
        ),
        (
            [member("x", A, owned={(B, 1)}), member("y", A, B)],
            {"x": {(A, 0), (A, 2)}, "y": {(A, 1), (B, 0), (B, 1)}},
        ),
        (
            [member("x", A, owned={(uuid.UUID(int=9), 1)}), member("y", B)],
            {
                "x": {(A, 0), (A, 1), (A, 2), (uuid.UUID(int=9), 1)},
                "y": {(B, 0), (B, 1)},
            },
        ),
    ],
)
def test_who_gets_what(members: list[AssignableMember], expected: dict[str, set[Part]]) -> None:
    assert assign_simple(members, ALL) == expected


def test_what_is_not_initialised_goes_to_nobody() -> None:
    assert assign_simple([member("x", A, B)], {A: (1,)}) == {"x": {(A, 1)}}


def test_what_is_kept_counts_though_it_is_not_initialised() -> None:
    target = assign_simple([member("x", A), member("y", A, owned={(A, 1)})], {A: (0,)})
    assert target == {"x": {(A, 0)}, "y": {(A, 1)}}


@given(
    st.lists(
        st.frozensets(st.tuples(st.just(A), st.integers(0, 2)), max_size=3), min_size=1, max_size=7
    )
)
def test_every_partition_is_shared_by_about_as_many(owned_by_member: list[frozenset[Part]]) -> None:
    members = [
        member(f"m{member_number}", A, owned=owned_partitions)
        for member_number, owned_partitions in enumerate(owned_by_member)
    ]
    target = assign_simple(members, ALL)
    sizes = [len(partitions) for partitions in target.values()]
    assert max(sizes) - min(sizes) <= 1
    holders = [
        sum((A, holder_index) in partitions for partitions in target.values())
        for holder_index in range(3)
    ]
    assert max(holders) <= -(-len(members) // 3)


TANGLED = [
    member("a", A, owned=frozenset((A, index) for index in range(9))),
    member("b", A, B),
    member("c", B, owned=frozenset((B, index) for index in range(1))),
]


@pytest.mark.parametrize(("limit", "at_most"), [("_ROUNDS_MAX", 0), ("_STEPS_MAX", -1)])
def test_evening_out_ends_after_so_many_rounds_and_steps(
    monkeypatch: pytest.MonkeyPatch, limit: str, at_most: int
) -> None:
    count_by_id = {A: 9, B: 1}
    even = ASSIGNORS[UNIFORM](TANGLED, count_by_id)
    assert len(even["a"]) - len(even["b"]) <= 1
    monkeypatch.setattr(assignors, limit, at_most)
    uneven = ASSIGNORS[UNIFORM](TANGLED, count_by_id)
    assert len(uneven["a"]) - len(uneven["b"]) > 1
    assert sum(map(len, uneven.values())) == 10
