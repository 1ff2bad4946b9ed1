"""A classic group: what is asked of it by those who are no members (ClassicGroup)."""

from __future__ import annotations

import struct
import uuid

import pytest

from tests.support.groups import NOW, ClassicDriver
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.records import ClassicGroupDeleted, ClassicGroupStored, StoredMember
from txnsim.group.state import ClassicGroupState, Group, GroupType

E = ErrorCode
S = ClassicGroupState

SUBSCRIPTION = struct.pack("!hih", 0, 1, 1) + b"t"


def stored_group(
    *,
    member_count: int = 1,
    protocol_type: str = "consumer",
    protocol: str | None = "range",
    subscription: bytes = SUBSCRIPTION,
    rebalance_ms: int = -1,
) -> ClassicGroupStored:
    return ClassicGroupStored(
        group_id="g",
        protocol_type=protocol_type,
        generation=3,
        protocol=protocol,
        leader="m0" if member_count else None,
        state_timestamp_ms=77,
        members=tuple(
            StoredMember(
                member_id=f"m{member_index}",
                group_instance_id="i" if member_index == 0 else None,
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=rebalance_ms,
                session_timeout_ms=6,
                subscription=subscription,
                assignment=b"a",
            )
            for member_index in range(member_count)
        ),
    )


def error(rejection: Rejection | None) -> ErrorCode:
    return E.none if rejection is None else rejection.error


def test_a_group_is_loaded_as_it_was_stored() -> None:
    record = stored_group(member_count=2, rebalance_ms=9)
    group = ClassicGroup.from_record(record)
    assert group.state is S.STABLE
    assert group.to_record() == record
    assert group.static_members == {"i": "m0"}
    assert (group.protocol_type_or_empty, group.type) == ("consumer", GroupType.CLASSIC)
    assert group.state_name == "Stable"
    like_any_group: Group = group
    assert not like_any_group.is_empty


def test_members_of_old_records_have_the_session_s_time_to_rebalance() -> None:
    assert ClassicGroup.from_record(stored_group()).rebalance_timeout_ms == 6


def test_an_empty_group_is_loaded_empty() -> None:
    group = ClassicGroup.from_record(ClassicGroupStored(group_id="g"))
    assert group.is_empty
    assert group.protocol_type is None
    assert group.state_timestamp_ms is None
    assert group.to_record() == ClassicGroupStored(group_id="g")
    assert group.rebalance_timeout_ms == 0
    assert not group.elect_joined_leader()
    assert group.tombstones() == (ClassicGroupDeleted(group_id="g"),)


SHORT = {"not_available": "coordinator_not_available"}

COMMITS = """
state                member  instance  generation  plain                      transactional
Empty                -       -         -1          none                       none
Empty                m0      -         -1          none                       none
Empty                -       -         3           unknown_member_id          unknown_member_id
Stable               -       -         -1          unknown_member_id          none
Stable               m0      -         3           none                       none
Stable               m0      i         3           none                       none
Stable               m1      i         3           fenced_instance_id         fenced_instance_id
Stable               m0      nobody    3           unknown_member_id          unknown_member_id
Stable               x       -         3           unknown_member_id          unknown_member_id
Stable               m0      -         2           illegal_generation         illegal_generation
Stable               -       i         -1          fenced_instance_id         fenced_instance_id
PreparingRebalance   m0      -         3           none                       none
CompletingRebalance  m0      -         3           rebalance_in_progress      none
Dead                 m0      -         3           coordinator_not_available  not_available
"""


@pytest.mark.parametrize("row", COMMITS.strip().splitlines()[1:])
def test_who_may_commit(row: str) -> None:
    state, member, instance_id, generation, *expected = row.split()
    group = ClassicGroup.from_record(stored_group(member_count=0 if state == "Empty" else 2))
    group.state = ClassicGroupState(state)
    for is_transactional, name in zip((False, True), expected, strict=True):
        command = CommitOffsets(
            group_id="g",
            positions=(),
            member_id="" if member == "-" else member,
            group_instance_id=None if instance_id == "-" else instance_id,
            generation=int(generation),
            is_transactional=is_transactional,
            api_version=9,
        )
        rejection = group.check_offset_commit(command)
        assert error(rejection) is ErrorCode[SHORT.get(name, name)], (row, is_transactional)


@pytest.mark.parametrize(
    ("state", "fetch_error", "delete_offsets_error", "delete_error"),
    [
        (S.EMPTY, E.none, E.none, E.none),
        (S.STABLE, E.none, E.none, E.non_empty_group),
        (S.PREPARING_REBALANCE, E.none, E.none, E.non_empty_group),
        (S.DEAD, E.group_id_not_found, E.group_id_not_found, E.group_id_not_found),
    ],
)
def test_who_may_read_and_delete(
    state: ClassicGroupState,
    fetch_error: ErrorCode,
    delete_offsets_error: ErrorCode,
    delete_error: ErrorCode,
) -> None:
    group = ClassicGroup.from_record(stored_group())
    group.state = state
    assert (
        error(group.check_offset_fetch(FetchOffsets(group_id="g", partitions=None))) is fetch_error
    )
    assert error(group.check_offset_delete()) is delete_offsets_error
    assert error(group.check_delete()) is delete_error


def test_positions_of_a_live_group_that_is_not_of_consumers_can_t_be_deleted() -> None:
    group = ClassicGroup.from_record(stored_group(protocol_type="connect"))
    assert error(group.check_offset_delete()) is E.non_empty_group
    assert not group.has_subscriber("t")


def test_subscriptions_are_those_of_all_members() -> None:
    group = ClassicGroup.from_record(stored_group(member_count=2))
    assert group.has_subscriber("t")
    assert not group.has_subscriber("other")
    assert not ClassicGroup.from_record(stored_group(member_count=0)).has_subscriber("t")


def test_a_subscription_that_can_t_be_read_may_be_of_any_topic() -> None:
    assert ClassicGroup.from_record(stored_group(subscription=b"?")).has_subscriber("whatever")
    group = ClassicGroup.from_record(stored_group(protocol=None))
    assert group.has_subscriber("whatever")


def test_when_retention_counts_from() -> None:
    simple_group = ClassicGroup("g", now_ms=NOW)
    base_of = simple_group.offsets_expire_from()
    assert base_of is not None
    assert base_of(5) == 5
    expires_from = ClassicGroup.from_record(stored_group(member_count=0)).offsets_expire_from()
    assert expires_from is not None
    assert expires_from(5) == 77
    old_group = ClassicGroup.from_record(stored_group(member_count=0))
    old_group.state_timestamp_ms = None
    base_of = old_group.offsets_expire_from()
    assert base_of is not None
    assert base_of(5) == 5
    live = ClassicGroup.from_record(stored_group()).offsets_expire_from()
    assert live is not None
    assert live(5) == 5
    assert ClassicGroup.from_record(stored_group(subscription=b"?")).offsets_expire_from() is None
    assert (
        ClassicGroup.from_record(stored_group(protocol_type="connect")).offsets_expire_from()
        is None
    )


def test_a_protocol_that_a_member_does_not_know_is_a_bug() -> None:
    driver = ClassicDriver()
    (member,) = driver.stable(None)
    with pytest.raises(InvariantViolation):
        driver.group.members[member].metadata("unknown")
    with pytest.raises(InvariantViolation):
        driver.group.members[member].vote(frozenset())


def test_a_group_without_members_supports_nothing_in_common() -> None:
    group = ClassicGroup.from_record(stored_group(member_count=0))
    group.state = S.PREPARING_REBALANCE
    assert not group.supports("consumer", [("range", b"")])


def test_removing_an_unknown_member_changes_nothing() -> None:
    group = ClassicGroup.from_record(stored_group())
    assert group.remove("x") is None
    assert list(group.members) == ["m0"]


def test_a_generation_of_unreadable_consumers_without_protocol() -> None:
    group = ClassicGroup.from_record(stored_group(protocol_type=""))
    assert group.protocol_type_or_empty == ""
    assert not group.has_subscriber("t")


def test_positions_are_not_judged_one_by_one() -> None:
    partition = (uuid.UUID(int=1), 0)
    group = ClassicGroup.from_record(stored_group())
    command = CommitOffsets(group_id="g", positions=(), member_id="x", generation=0)
    assert group.check_position(command, partition) is None
