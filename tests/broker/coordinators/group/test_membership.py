"""Members of classic groups from the outside: who waits, which timer fires, what is written."""

from __future__ import annotations

from tests.support.group_world import GROUP, HOME, GroupWorld, run_groups
from tests.support.within import within
from txnsim.errors import ErrorCode
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import LeaveGroup

E = ErrorCode


@within(run_groups)
async def test_a_generation_is_answered_when_its_assignment_is_replicated(
    world: GroupWorld,
) -> None:
    member = (await world.join()).member_id
    world.log.held = True
    waits = world.later(world.sync(member, given={member: b"mine"}))
    await world.pass_ms(1_000)
    assert not waits.done()
    assert world.group().state_name == "CompletingRebalance"
    world.log.release()
    assert (await waits).assignment == b"mine"
    assert world.group().state_name == "Stable"
    assert not world.groups.members._waiting


@within(run_groups)
async def test_an_assignment_that_is_not_replicated_starts_a_rebalance(world: GroupWorld) -> None:
    member = (await world.join()).member_id
    world.log.held = True
    waits = world.later(world.sync(member, given={member: b"mine"}))
    await world.pass_ms(10)
    world.log.release(E.request_timed_out)
    assert (await waits).error is E.coordinator_not_available
    assert world.group().state_name == "PreparingRebalance"


@within(run_groups)
async def test_an_assignment_that_the_log_refuses_starts_a_rebalance(world: GroupWorld) -> None:
    member = (await world.join()).member_id
    world.log.refusal = E.not_enough_replicas
    assert (await world.sync(member, given={member: b""})).error is E.coordinator_not_available
    assert world.group().state_name == "PreparingRebalance"


@within(run_groups)
async def test_a_failed_write_of_a_new_group_is_the_answer(world: GroupWorld) -> None:
    world.log.refusal = E.not_leader_or_follower
    joined = await world.join(member_id_required=True)
    assert joined.error is E.not_coordinator


@within(run_groups)
async def test_a_new_group_is_written_before_its_id_is_answered(world: GroupWorld) -> None:
    joined = await world.join(member_id_required=True)
    assert joined.error is E.member_id_required
    assert len(world.log.batches) == 1


@within(run_groups)
async def test_who_is_silent_for_its_session_is_removed(world: GroupWorld) -> None:
    member = await world.stable()
    await world.pass_ms(9_000)
    assert world.heartbeat(member) is E.none
    await world.pass_ms(9_000)
    assert world.group().state_name == "Stable"
    await world.pass_ms(1_001)
    assert world.group().is_empty
    assert world.heartbeat(member) is E.unknown_member_id


@within(run_groups)
async def test_advancing_the_cluster_clock_expels_no_member(world: GroupWorld) -> None:
    member = await world.stable()
    world.env.clock.advance(3_600_000)
    assert world.heartbeat(member) is E.none


@within(run_groups)
async def test_a_commit_of_positions_is_a_sign_of_life(world: GroupWorld) -> None:
    member = await world.stable()
    for _ in range(3):
        await world.pass_ms(6_000)
        await world.commit(1, member_id=member, generation=1)
    assert world.heartbeat(member) is E.none


@within(run_groups)
async def test_who_has_joined_and_does_not_sync_is_removed(world: GroupWorld) -> None:
    member = (await world.join(rebalance_timeout_ms=7_000)).member_id
    await world.pass_ms(6_000)
    assert world.heartbeat(member) is E.none
    await world.pass_ms(1_001)
    assert world.heartbeat(member) is E.unknown_member_id


@within(run_groups)
async def test_who_does_not_join_again_in_time_is_left_behind(world: GroupWorld) -> None:
    old = await world.stable(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    waits = world.later(world.join())
    await world.pass_ms(19_000)
    assert world.heartbeat(old) is E.rebalance_in_progress
    assert not waits.done()
    await world.pass_ms(1_001)
    assert (await waits).generation == 2
    assert world.heartbeat(old, 2) is E.unknown_member_id


@within(run_groups, group_initial_rebalance_delay_ms=3_000)
async def test_a_first_rebalance_waits_for_more_members(world: GroupWorld) -> None:
    first = world.later(world.join())
    await world.pass_ms(2_000)
    second = world.later(world.join())
    await world.pass_ms(1_500)
    assert not first.done()  # somebody came, so the delay began anew
    await world.pass_ms(2_000)
    assert {(await first).generation, (await second).generation} == {1}


@within(run_groups)
async def test_who_waits_when_the_partition_moves_is_sent_away(world: GroupWorld) -> None:
    leader = await world.stable()
    joins = world.later(world.join())
    await world.pass_ms(1)
    world.unload()
    assert (await joins).error is E.not_coordinator
    world.load()
    assert world.heartbeat(leader) is E.none

    joins = world.later(world.join())
    await world.pass_ms(1)
    await world.join(leader)
    follower = (await joins).member_id
    syncs = world.later(world.sync(follower, 2))
    await world.pass_ms(1)
    world.unload()
    assert (await syncs).error is E.not_coordinator


@within(run_groups)
async def test_nothing_fires_for_a_group_that_has_moved_or_was_deleted(world: GroupWorld) -> None:
    await world.stable()
    world.unload()
    await world.pass_ms(60_000)
    world.load()
    member = next(iter(_members(world)))
    world.leave(member)
    assert await world.groups.delete(GROUP) is None
    await world.pass_ms(600_000)
    assert world.groups.list() == ()


@within(run_groups)
async def test_members_of_a_loaded_group_have_a_session_to_show_themselves(
    world: GroupWorld,
) -> None:
    member = await world.stable()
    world.unload()
    world.load()
    assert tuple(_members(world)) == (member,)
    await world.pass_ms(10_001)
    assert world.group().is_empty


@within(run_groups)
async def test_a_write_that_ends_after_the_partition_has_moved_changes_nothing(
    world: GroupWorld,
) -> None:
    member = (await world.join()).member_id
    world.log.held = True
    waits = world.later(world.sync(member, given={member: b"mine"}))
    await world.pass_ms(1)
    world.unload()
    assert (await waits).error is E.not_coordinator
    world.load()
    world.log.release()
    await world.pass_ms(1)
    assert world.group().state_name == "Stable"  # the record was there when it was loaded


@within(run_groups)
async def test_a_static_member_whose_new_id_can_not_be_written_keeps_the_old_one(
    world: GroupWorld,
) -> None:
    member = await world.stable(group_instance_id="i")
    world.log.refusal = E.not_enough_replicas
    back = await world.join(group_instance_id="i")
    assert back.error is E.coordinator_not_available
    world.log.refusal = None
    assert tuple(_members(world)) == (member,)


@within(run_groups)
async def test_a_group_of_another_protocol_has_no_classic_members(world: GroupWorld) -> None:
    await world.consume("a")
    assert world.heartbeat("a") is E.unknown_member_id
    assert (await world.sync("a")).error is E.unknown_member_id
    assert world.leave("b").members[0][2] is E.unknown_member_id
    unknown = world.groups.leave(LeaveGroup(group_id="missing", members=(("m", None),)))
    assert unknown.members == (("m", None, E.unknown_member_id),)


@within(run_groups)
async def test_the_log_of_a_generation_is_what_a_new_coordinator_finds(world: GroupWorld) -> None:
    member = await world.stable()
    before = world.group()
    world.unload()
    world.load()
    after = world.group()
    assert isinstance(before, ClassicGroup)
    assert isinstance(after, ClassicGroup)
    assert after.stored() == before.stored()
    assert (await world.sync(member)).assignment == b"assigned"
    assert HOME in range(3)


def _members(world: GroupWorld) -> dict[str, object]:
    group = world.group()
    assert isinstance(group, ClassicGroup)
    return dict(group.members)
