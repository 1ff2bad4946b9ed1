"""What groups count of their members, against a look at all of them."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.support.consumer_groups import image
from txnsim.errors import ErrorCode
from txnsim.group._member_counts import NAMES_MAX, MemberTally
from txnsim.group._topics_hash import TopicsHash, topics_hash
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    CurrentAssignmentStored,
    RegexDeleted,
    RegexStored,
    SubscriptionDeleted,
    SubscriptionStored,
)
from txnsim.group.sharing.share_group import ShareGroupMember
from txnsim.metadata.image import ClusterImage

TOPIC_NAMES = ["a", "b", "c", "gone"]
names = st.lists(st.sampled_from(TOPIC_NAMES), max_size=3, unique=True).map(tuple)
ids = st.sampled_from(["m1", "m2", "m3"])
regexes = st.sampled_from(["x.*", "y.*"])
subscriptions = st.builds(
    SubscriptionStored,
    group_id=st.just("g"),
    member_id=ids,
    client_id=st.just("c"),
    client_host=st.just("/h"),
    topic_names=names,
    topic_regex=st.none() | regexes,
    server_assignor=st.sampled_from([None, "uniform", "range"]),
    classic=st.none()
    | st.just(ClassicMetadata(session_timeout_ms=1, protocols=(("range", b""), ("range", b"")))),
)
records = st.one_of(
    subscriptions,
    st.builds(SubscriptionDeleted, group_id=st.just("g"), member_id=ids),
    st.builds(
        CurrentAssignmentStored,
        group_id=st.just("g"),
        member_id=ids,
        member_epoch=st.integers(0, 2),
        previous_member_epoch=st.just(0),
        state=st.sampled_from([0, 1]),
    ),
    st.builds(
        RegexStored,
        group_id=st.just("g"),
        regex=regexes,
        topics=names,
        version=st.integers(0, 3),
        timestamp_ms=st.integers(0, 9),
    ),
    st.builds(RegexDeleted, group_id=st.just("g"), regex=regexes),
)
IMAGES = [image(a=1, b=2), image(offset=2, a=1, b=3, c=1), image(offset=3)]


@given(st.lists(st.tuples(records, st.sampled_from(IMAGES)), max_size=12))
def test_counts_are_those_of_a_look_at_all_members(
    steps: list[tuple[ConsumerRecord, ClusterImage]],
) -> None:
    group = ConsumerGroup("g")
    for record, seen_image in steps:
        group = group.with_records([record]) if len(steps) % 2 else group
        group.apply(record)
        members = group.members.values()
        consumed_topics = {name for member in members for name in group.topics_of(member)}
        assert [group.has_subscriber(name) for name in TOPIC_NAMES] == [
            n in consumed_topics for n in TOPIC_NAMES
        ]
        assert group.tally.topics_hash(seen_image) == topics_hash(consumed_topics, seen_image)
        topics_without_m1 = {n for m in members if m.member_id != "m1" for n in group.topics_of(m)}
        leaving_members = [member for member in members if member.member_id == "m1"]
        hash_without_m1 = group.tally.topics_hash(seen_image, leaving_members=leaving_members)
        assert hash_without_m1 == topics_hash(topics_without_m1, seen_image)
        for epoch in range(3):
            are_settled = [
                m.member_epoch == epoch and m.state is MemberState.STABLE for m in members
            ]
            assert group.tally.settled_count(epoch) == sum(are_settled)
        assert group.tally.classic == sum(member.uses_classic_protocol for member in members)
        assert group.tally.classic_protocols["range"] == group.tally.classic
        regexes = [member.topic_regex for member in members if member.topic_regex]
        assert group.tally.regexes == {regex: regexes.count(regex) for regex in regexes}
        votes = [member.server_assignor for member in members if member.server_assignor]
        most_voted = max(votes, key=votes.count, default=None)
        assert group.preferred_assignor() == most_voted
        distinct = {member.topic_names for member in members}
        assert group.tally.names_total == sum(map(len, distinct))


def test_equal_subscriptions_count_once_and_the_rest_is_bounded() -> None:
    tally = MemberTally()
    most_names = frozenset(str(number) for number in range(NAMES_MAX))
    for member_id in range(3):
        tally.recount_member(None, ConsumerMember(member_id=str(member_id), topic_names=most_names))
    assert tally.subscription_refusal(frozenset(most_names)) is None
    assert tally.subscription_refusal(frozenset()) is None
    rejection = tally.subscription_refusal(frozenset({"one more"}))
    assert rejection is not None
    assert rejection.error is ErrorCode.group_max_size_reached


def test_where_other_topics_changed_nothing_is_counted_anew() -> None:
    image_before = image(a=1, b=2)
    counted_hash = TopicsHash()
    counted_hash.refresh({"a": 1}, image_before)
    expected_hash = topics_hash({"a"}, image_before)
    image_of_same_topics = msgspec.structs.replace(image_before, offset=image_before.offset + 1)
    image_with_other_topic = msgspec.structs.replace(
        image_before, topics={**image_before.topics, "c": image_before.topics["b"]}
    )
    for later_image in (image_of_same_topics, image_with_other_topic):
        counted_hash.refresh({"a": 1}, later_image)
        assert counted_hash.value_with((), (), later_image) == expected_hash


@given(st.lists(st.tuples(ids, names), max_size=12), ids, names)
def test_topics_after_a_change_are_those_that_somebody_subscribes_to_then(
    changes: list[tuple[str, tuple[str, ...]]], member_id: str, wanted_topics: tuple[str, ...]
) -> None:
    topics = image(a=1, b=3, c=4)
    tally, members = MemberTally(), dict[str, ShareGroupMember]()
    for name, subscribed in changes:
        new_member = ShareGroupMember(
            member_id=name, topic_names=tally.shared_names(frozenset(subscribed))
        )
        tally.recount_member(members.get(name), new_member)
        members[name] = new_member
    new_member = ShareGroupMember(
        member_id=member_id, topic_names=tally.shared_names(frozenset(wanted_topics))
    )
    leaving_members = [members[member_id]] if member_id in members else []
    topics_after = tally.topics_after(
        topics, leaving_members=leaving_members, joining_members=[new_member]
    )
    members_after = {**members, member_id: new_member}
    consumed_topics = {
        topic_name for member in members_after.values() for topic_name in member.topic_names
    }
    assert topics_after == consumed_topics & topics.topics.keys()
