"""A group of the consumer protocol: replay, and what others ask of it (ConsumerGroup)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.consumer_groups import ConsumerDriver, parts, topic_id
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_group import LEFT_EPOCH, ConsumerGroup
from txnsim.group.consumer_records import (
    ClassicMetadata,
    CurrentAssignmentDeleted,
    CurrentAssignmentStored,
    EpochDeleted,
    EpochStored,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochStored,
    TargetStored,
)
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.state import Group, GroupType
from txnsim.releases import LATEST_RULES, Rules

E = ErrorCode


def error(rejection: Rejection | None) -> ErrorCode:
    return E.none if rejection is None else rejection.error


def subscription_record(member_id: str, **record_fields: Any) -> SubscriptionStored:
    return SubscriptionStored(
        group_id="g",
        member_id=member_id,
        client_id="c",
        client_host="/h",
        topic_names=("t",),
        **record_fields,
    )


def with_members(rules: Rules = LATEST_RULES) -> ConsumerGroup:
    group = ConsumerGroup("g", rules)
    for member_id, classic in (
        ("new", None),
        ("old", ClassicMetadata(session_timeout_ms=1, protocols=())),
    ):
        group.apply(subscription_record(member_id, classic=classic))
        group.apply(
            CurrentAssignmentStored(
                group_id="g",
                member_id=member_id,
                member_epoch=5,
                previous_member_epoch=4,
                state=0,
                assigned=((topic_id(member_id), 0, 3),),
            )
        )
    return group


COMMITS = """
member  instance  epoch  version  plain                transactional
new     -         5      9        none                 none
new     -         5      8        unsupported_version  none
new     -         4      9        none                 none
new     -         6      9        stale_member_epoch   stale_member_epoch
old     -         5      8        none                 none
old     -         6      8        illegal_generation   illegal_generation
x       -         5      9        unknown_member_id    unknown_member_id
-       -         -1     9        unknown_member_id    none
-       i         -1     9        unknown_member_id    unknown_member_id
"""


@pytest.mark.parametrize("row", COMMITS.strip().splitlines()[1:])
def test_who_may_commit(row: str) -> None:
    member, instance_id, epoch, version, *expected = row.split()
    for is_transactional, name in zip((False, True), expected, strict=True):
        command = CommitOffsets(
            group_id="g",
            positions=(),
            member_id="" if member == "-" else member,
            group_instance_id=None if instance_id == "-" else instance_id,
            generation=int(epoch),
            is_transactional=is_transactional,
            api_version=int(version),
        )
        rejection = with_members().check_offset_commit(command)
        assert error(rejection) is ErrorCode[name], (row, is_transactional)


def test_anybody_may_commit_for_a_group_without_members() -> None:
    command = CommitOffsets(group_id="g", positions=(), api_version=8)
    assert ConsumerGroup("g").check_offset_commit(command) is None


def test_a_member_behind_may_commit_what_it_has_had_since_then() -> None:
    group = with_members()
    new_partition = (topic_id("new"), 0)
    for generation, partition, expected_error in (
        (5, (topic_id("new"), 9), E.none),
        (4, new_partition, E.none),
        (3, new_partition, E.none),
        (2, new_partition, E.stale_member_epoch),
        (4, (topic_id("new"), 9), E.stale_member_epoch),
    ):
        command = CommitOffsets(group_id="g", positions=(), member_id="new", generation=generation)
        rejection = group.check_position(command, partition)
        assert error(rejection) is expected_error
    nobody_commit = CommitOffsets(group_id="g", positions=())
    assert group.check_position(nobody_commit, new_partition) is None


def test_before_kip_1251_a_member_behind_may_commit_nothing() -> None:
    older_rules = Rules(members_behind_may_commit=False)
    for epoch, expected_error in (
        (5, E.none),
        (4, E.stale_member_epoch),
        (6, E.stale_member_epoch),
    ):
        command = CommitOffsets(
            group_id="g", positions=(), member_id="new", generation=epoch, api_version=9
        )
        assert error(with_members(older_rules).check_offset_commit(command)) is expected_error


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected_error"),
    [
        (None, -1, E.none),
        ("new", 5, E.none),
        ("x", 5, E.unknown_member_id),
        (None, 5, E.unknown_server_error),  # a real broker looks for the member null
        ("new", 4, E.stale_member_epoch),
        ("old", 4, E.illegal_generation),
    ],
)
def test_who_may_read(member_id: str | None, epoch: int, expected_error: ErrorCode) -> None:
    command = FetchOffsets(group_id="g", partitions=None, member_id=member_id, member_epoch=epoch)
    assert error(with_members().check_offset_fetch(command)) is expected_error


def test_it_is_a_group_like_any_other() -> None:
    group: Group = with_members()
    assert group.type is GroupType.CONSUMER
    assert group.protocol_type_or_empty == "consumer"
    assert not group.is_empty
    assert group.check_offset_delete() is None
    assert error(group.check_delete()) is E.non_empty_group
    assert ConsumerGroup("g").check_delete() is None
    assert ConsumerGroup("g").is_empty
    assert group.has_subscriber("t")
    base_of = group.offsets_expire_from()
    assert base_of is not None
    assert base_of(7) == 7


def test_its_tombstones_take_away_all_that_the_log_has() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t", topic_regex="t")
    driver.look_up()
    replayed_group = driver.replay_log()
    for record in driver.group.tombstones():
        if not isinstance(record, EpochDeleted):
            replayed_group.apply(record)
    assert (replayed_group.members, replayed_group.target, replayed_group.resolved) == ({}, {}, {})
    assert replayed_group.assignment_epoch == -1


def test_tombstones_of_what_is_not_there_mean_nothing() -> None:
    group = ConsumerGroup("g")
    group.apply(CurrentAssignmentDeleted(group_id="g", member_id="x"))
    group.apply(TargetDeleted(group_id="g", member_id="x"))
    group.apply(SubscriptionDeleted(group_id="g", member_id="x"))
    group.apply(EpochDeleted(group_id="g"))
    group.apply(TargetEpochDeleted(group_id="g"))
    assert group.members == {}


def test_a_member_between_its_tombstones_has_nothing() -> None:
    group = with_members()
    group.apply(CurrentAssignmentDeleted(group_id="g", member_id="new"))
    member = group.members["new"]
    assert (member.member_epoch, member.assigned) == (LEFT_EPOCH, {})
    assert group.owner_of((topic_id("new"), 0)) is None


def test_who_has_a_partition_follows_from_the_last_record() -> None:
    group = ConsumerGroup("g")
    partition = next(iter(parts("t", 0)))
    for member_id in ("a", "b"):
        group.apply(
            CurrentAssignmentStored(
                group_id="g",
                member_id=member_id,
                member_epoch=1,
                previous_member_epoch=0,
                state=0,
                assigned=((*partition, 1),),
            )
        )
    assert group.owner_of(partition) == "b"
    group.apply(SubscriptionDeleted(group_id="g", member_id="a"))
    assert group.owner_of(partition) == "b"


def test_an_instance_taken_over_is_not_lost_with_its_last_member() -> None:
    group = ConsumerGroup("g")
    for member_id in ("a", "b"):
        group.apply(
            SubscriptionStored(
                group_id="g",
                member_id=member_id,
                instance_id="i",
                client_id="c",
                client_host="/h",
            )
        )
    group.apply(SubscriptionDeleted(group_id="g", member_id="a"))
    assert group.static_members == {"i": "b"}
    group.apply(SubscriptionDeleted(group_id="g", member_id="b"))
    assert group.static_members == {}
    assert group.static_member("i") is None


def test_a_group_looked_at_ahead_stays_as_it_is() -> None:
    group = with_members()
    group.apply(EpochStored(group_id="g", group_epoch=5))
    group.apply(TargetEpochStored(group_id="g", assignment_epoch=5))
    later_group = group.with_records(
        [
            SubscriptionDeleted(group_id="g", member_id="new"),
            TargetStored(group_id="g", member_id="z"),
        ]
    )
    assert list(later_group.members) == ["old"]
    assert list(group.members) == ["new", "old"]
    assert group.target == {}
    assert group.state_name == "Stable"
    assert [consumer_member.member_id for consumer_member in group.members_with(None)] == [
        "new",
        "old",
    ]


def test_of_assignors_with_as_many_votes_that_of_the_first_member_wins() -> None:
    group = ConsumerGroup("g")
    for member_id, assignor in (("a", None), ("b", "uniform"), ("c", "range")):
        group.apply(subscription_record(member_id, server_assignor=assignor))
    assert group.preferred_assignor() == "uniform"
