"""Members that speak the classic protocol within a group of the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.consumer_groups import parts
from tests.support.group_api import SUBSCRIPTION
from tests.support.group_world import GROUP, GroupBench, run_groups
from tests.support.within_environment import within
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import LeaveGroup, SyncGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.subscription import read_assignment, write_assignment
from txnsim.releases.rules import LATEST_RULES, Rules

E = ErrorCode
PROTOCOLS = (("range", SUBSCRIPTION),)
NOW_DECIDED = {"group_consumer_assignment_interval_ms": 0}


def consumers(group_bench: GroupBench) -> ConsumerGroup:
    group = group_bench.group()
    assert isinstance(group, ConsumerGroup)
    return group


async def mixed_group(group_bench: GroupBench, **group_fields: Any) -> tuple[str, int]:
    """A group of ``a``, which speaks the consumer protocol, and a classic member: its id and
    generation.
    """
    await group_bench.consume("a")
    join_reply = await group_bench.join(protocols=PROTOCOLS, **group_fields)
    assert join_reply.error is E.none, join_reply
    return join_reply.member_id, join_reply.generation


def assigned_indexes(sync_reply: Any) -> set[int]:
    assignment = read_assignment(sync_reply.assignment)
    assert assignment is not None
    return {index for _, index in assignment.partitions}


@pytest.mark.parametrize(
    ("rules", "refused_error"),
    [
        (LATEST_RULES, E.inconsistent_group_protocol),
        # before KAFKA-20662
        (Rules(malformed_subscription_is_inconsistent=False), E.unknown_server_error),
    ],
)
def test_a_subscription_that_cannot_be_read(rules: Rules, refused_error: ErrorCode) -> None:
    async def main(group_bench: GroupBench) -> None:
        await group_bench.consume("a")
        join_reply = await group_bench.join(protocols=(("range", b"\x00"),))
        assert join_reply.error is refused_error

    run_groups(main, rules=rules)


def test_a_classic_member_follows_and_gets_what_others_give_up() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench)
        assert generation == consumers(group_bench).epoch
        sync_reply = await group_bench.sync(member, generation)
        assert (sync_reply.error, assigned_indexes(sync_reply)) == (E.none, set())
        assert group_bench.heartbeat(member, generation) is E.none  # it has to wait for ``a``
        still_owned = frozenset((await group_bench.consume("a", 2)).assignment)
        await group_bench.consume("a", 2, owned_partitions=still_owned)
        assert group_bench.heartbeat(member, generation) is E.rebalance_in_progress
        second_join = await group_bench.join(member, protocols=PROTOCOLS)
        assert (second_join.leader, second_join.members, second_join.protocol) == ("", (), "range")
        assert len(assigned_indexes(await group_bench.sync(member, second_join.generation))) == 1
        assert group_bench.heartbeat(member, second_join.generation) is E.none

    run_groups(main, **NOW_DECIDED)


@within(run_groups)
async def test_a_new_dynamic_member_asks_twice(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    first_answer = await group_bench.join(protocols=PROTOCOLS, member_id_required=True)
    assert first_answer.error is E.member_id_required
    assert (await group_bench.join(first_answer.member_id, protocols=PROTOCOLS)).error is E.none


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect", "protocols": PROTOCOLS},
        {"protocols": ()},
        {"protocols": (("other", SUBSCRIPTION),)},
        {"protocols": (("range", b""),)},
    ],
)
@within(run_groups)
async def test_protocols_that_do_not_fit(group_bench: GroupBench, fields: dict[str, Any]) -> None:
    await mixed_group(group_bench)
    assert (await group_bench.join(**fields)).error is E.inconsistent_group_protocol


@within(run_groups, group_consumer_max_size=1)
async def test_a_full_group_takes_no_new_member(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    join_reply = await group_bench.join(protocols=PROTOCOLS)
    assert join_reply.error is E.group_max_size_reached


def test_static_members_are_fenced_by_their_next_life() -> None:
    async def main(group_bench: GroupBench) -> None:
        old_member_id, _ = await mixed_group(group_bench, group_instance_id="i")
        back = await group_bench.join(protocols=PROTOCOLS, group_instance_id="i")
        assert back.error is E.none
        assert back.member_id != old_member_id
        fenced_reply = await group_bench.join(
            old_member_id, protocols=PROTOCOLS, group_instance_id="i"
        )
        assert fenced_reply.error is E.fenced_instance_id
        unknown_reply = await group_bench.join(
            old_member_id, protocols=PROTOCOLS, group_instance_id="j"
        )
        assert unknown_reply.error is E.unknown_member_id
        repeated_join = await group_bench.join(
            back.member_id, protocols=PROTOCOLS, group_instance_id="i"
        )
        assert (repeated_join.error, repeated_join.member_id) == (E.none, back.member_id)

    run_groups(main, **NOW_DECIDED)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 9}, E.illegal_generation),
        ({"member_id": "nobody"}, E.unknown_member_id),
        ({"member_id": "a"}, E.unknown_member_id),
        ({"protocol_type": "connect"}, E.inconsistent_group_protocol),
        ({"protocol": "other"}, E.inconsistent_group_protocol),
    ],
)
def test_what_sync_refuses(fields: dict[str, Any], error: ErrorCode) -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench)
        values = {"member_id": member, "generation": generation, **fields}
        reply = await group_bench.groups.sync(SyncGroup(group_id=GROUP, **values))
        assert reply is not None
        assert reply.error is error

    run_groups(main, **NOW_DECIDED)


def test_a_new_target_sends_members_back_to_join() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench)
        await group_bench.consume("b")
        assert (await group_bench.sync(member, generation)).error is E.rebalance_in_progress
        assert group_bench.heartbeat(member, generation) is E.rebalance_in_progress
        assert group_bench.heartbeat(member, generation + 5) is E.illegal_generation
        assert group_bench.heartbeat("a", generation) is E.unknown_member_id

    run_groups(main, **NOW_DECIDED)


def test_who_does_not_join_again_in_time_is_taken_off() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench, rebalance_timeout_ms=15_000)
        await group_bench.sync(member, generation)
        await group_bench.consume("b")
        for _ in range(3):
            assert group_bench.heartbeat(member, generation) is E.rebalance_in_progress
            await group_bench.pass_ms(4_900)
        assert member in consumers(group_bench).members
        await group_bench.pass_ms(400)
        assert member not in consumers(group_bench).members

    run_groups(main, **NOW_DECIDED)


def test_who_does_not_sync_in_time_is_taken_off() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench, rebalance_timeout_ms=7_000)
        await group_bench.pass_ms(6_000)
        group_bench.heartbeat(member, generation)
        await group_bench.pass_ms(1_001)
        assert member not in consumers(group_bench).members

    run_groups(main, **NOW_DECIDED)


def test_its_session_is_its_own() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench)
        await group_bench.sync(member, generation)
        await group_bench.pass_ms(10_001)
        assert set(consumers(group_bench).members) == {"a"}

    run_groups(main, **NOW_DECIDED)


def test_the_last_consumer_that_leaves_makes_the_group_classic_again() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, generation = await mixed_group(group_bench)
        await group_bench.sync(member, generation)
        epoch = consumers(group_bench).epoch
        await group_bench.consume("a", -1)
        group = group_bench.group()
        assert isinstance(group, ClassicGroup)
        assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
        assert group_bench.heartbeat(member, epoch) is E.rebalance_in_progress
        join_reply = await group_bench.join(member, protocols=PROTOCOLS)
        assert (join_reply.generation, join_reply.leader) == (epoch + 1, member)
        await group_bench.sync(member, join_reply.generation, assignments={member: b"mine"})
        group_bench.unload()
        group_bench.load()
        assert group_bench.group().state_name == "Stable"
        await group_bench.pass_ms(10_001)
        assert group_bench.group().is_empty

    run_groups(main, **NOW_DECIDED)


def test_members_leave_by_id_or_instance_whatever_they_speak() -> None:
    async def main(group_bench: GroupBench) -> None:
        member, _ = await mixed_group(group_bench, group_instance_id="i")
        epoch, log_end_offset = consumers(group_bench).epoch, group_bench.log.end
        unknown_reply = await group_bench.groups.leave(
            LeaveGroup(group_id=GROUP, members=(("nobody", None),))
        )
        assert unknown_reply.members == (("nobody", None, E.unknown_member_id),)
        assert (consumers(group_bench).epoch, group_bench.log.end) == (epoch, log_end_offset)
        leave_reply = await group_bench.groups.leave(
            LeaveGroup(
                group_id=GROUP,
                members=(("x", "i"), ("nobody", None), ("", "j"), ("a", None), ("", "i")),
            )
        )
        assert [error for _, _, error in leave_reply.members] == [
            E.fenced_instance_id,
            E.unknown_member_id,
            E.unknown_member_id,
            E.none,
            E.none,
        ]
        assert group_bench.group().is_empty
        assert group_bench.heartbeat(member) is E.unknown_member_id
        nobody_reply = await group_bench.groups.leave(
            LeaveGroup(group_id=GROUP, members=(("a", None),))
        )
        assert nobody_reply.members == (("a", None, E.unknown_member_id),)

    run_groups(main, **NOW_DECIDED)


def test_a_consumer_that_joins_a_classic_group_takes_its_members_along() -> None:
    async def main(group_bench: GroupBench) -> None:
        member = (await group_bench.join(protocols=PROTOCOLS)).member_id
        await group_bench.sync(
            member, assignments={member: write_assignment(0, {"orders": [0, 1, 2]})}
        )
        classic_join_task = group_bench.later(group_bench.join(protocols=PROTOCOLS))
        await group_bench.pass_ms(1)
        join_reply = await group_bench.consume("a")
        assert not isinstance(join_reply, Rejection)
        assert (await classic_join_task).error is E.rebalance_in_progress
        assert group_bench.heartbeat(member, 1) is E.rebalance_in_progress
        assert set(consumers(group_bench).members) >= {member, "a"}
        group_bench.unload()
        group_bench.load()
        assert set(consumers(group_bench).members) >= {member, "a"}
        assert consumers(group_bench).topics_of(consumers(group_bench).members[member]) == {
            "orders"
        }
        assert set(consumers(group_bench).members[member].assigned) == parts("orders", 0, 1, 2)

    run_groups(main, **NOW_DECIDED)


def test_an_empty_group_of_consumers_may_become_a_classic_one() -> None:
    async def main(group_bench: GroupBench) -> None:
        await group_bench.consume("a")
        await group_bench.consume("a", -1)
        group_bench.log.refusal = E.not_enough_replicas
        refused_reply = await group_bench.join(protocols=PROTOCOLS)
        assert refused_reply.error is E.coordinator_not_available
        group_bench.log.refusal = None
        join_reply = await group_bench.join(protocols=PROTOCOLS)
        assert (join_reply.error, join_reply.generation) == (E.none, 1)
        assert isinstance(group_bench.group(), ClassicGroup)

    run_groups(main, **NOW_DECIDED)


def test_a_failed_write_is_the_answer() -> None:
    async def main(group_bench: GroupBench) -> None:
        await mixed_group(group_bench)
        group_bench.log.refusal = E.not_leader_or_follower
        assert (await group_bench.join(protocols=PROTOCOLS)).error is E.not_coordinator
        assert (await group_bench.leave("a")).error is E.not_coordinator

    run_groups(main, **NOW_DECIDED)
