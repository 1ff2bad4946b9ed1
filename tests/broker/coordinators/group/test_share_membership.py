"""Share groups from the outside: when members are answered, what share coordinators are asked."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.consumer_groups import image, topic_id
from tests.support.group_world import GROUP, HOME, PARTITIONS, GroupWorld, run_groups
from tests.support.within_environment import within
from txnsim.coordinators.group._share_membership import FORGOTTEN_AT_ONCE
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_group import LEFT_EPOCH
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.sharing.share_topics import (
    NO_PARTITION_ERROR,
    PartitionError,
    ShareOffset,
    TopicOutcome,
)
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ShareKey,
    ShareStateSummary,
)
from txnsim.runtime import loop_turns
from txnsim.types import partition_for, uuid_text

E = ErrorCode
ORDERS = topic_id("orders")
REFUSED = Rejection(error=E.group_id_not_found, reason=f"Group {GROUP} is not a share group.")


def key(partition: int) -> ShareKey:
    return ShareKey(GROUP, uuid_text(ORDERS), partition)


def group_of(world: GroupWorld) -> ShareGroup:
    group = world.group()
    assert isinstance(group, ShareGroup)
    return group


def initialized_indexes(world: GroupWorld) -> list[int]:
    topics = group_of(world).initialized.values()
    return [partition_index for topic in topics for partition_index in topic.partitions]


async def make_empty_group(world: GroupWorld) -> None:
    """A group whose topic is initialised, without members."""
    await world.share("a")
    await world.pass_ms(1)
    await world.share("a", LEFT_EPOCH)
    world.shares.commands.clear()
    assert initialized_indexes(world) == [0, 1, 2]


# Heartbeats


@within(run_groups)
async def test_a_member_is_assigned_what_share_coordinators_have_initialised(
    world: GroupWorld,
) -> None:
    world.shares.is_held = True
    joined = await world.share("a")
    assert (joined.member_epoch, joined.assignment) == (2, ())
    await world.pass_ms(1)
    assert world.shares.commands == [
        InitializeShareState(key=key(index), state_epoch=2, start_offset=-1) for index in range(3)
    ]
    await world.pass_ms(2_000)
    assert (await world.share("a", 2)).assignment is None
    world.shares.release()
    await world.pass_ms(1)
    heartbeat_reply = await world.share("a", 2)
    assert heartbeat_reply.member_epoch == 3
    assert heartbeat_reply.assignment == tuple((ORDERS, index) for index in range(3))


@within(run_groups)
async def test_a_heartbeat_is_answered_when_its_records_are_replicated(world: GroupWorld) -> None:
    world.log.is_held = True
    waits = world.later(world.share("a"))
    await world.pass_ms(1_000)
    assert not waits.done()
    assert not world.shares.commands
    world.log.release()
    assert (await waits).member_epoch == 2
    await world.pass_ms(1)
    assert len(world.shares.commands) == 3
    written = len(world.log.batches)
    await world.share("a", 2, "orders")  # brings another target
    await world.share("a", 3)
    assert len(world.log.batches) == written + 1


@within(run_groups)
async def test_what_the_log_refuses_asks_no_share_coordinator(world: GroupWorld) -> None:
    world.log.refusal = E.not_enough_replicas
    assert (await world.share("a")).error is E.coordinator_not_available
    world.log.refusal = None
    world.log.is_held = True
    waits = world.later(world.share("a"))
    await world.pass_ms(1)
    world.log.release(E.request_timed_out)
    assert (await waits).error is E.coordinator_not_available
    assert world.shares.commands == []


@within(run_groups)
async def test_who_may_not_send_a_heartbeat(world: GroupWorld) -> None:
    missing = Rejection(error=E.group_id_not_found, reason=f"Share group {GROUP} not found.")
    assert await world.share("a", 3) == missing
    rejection = Rejection(error=E.group_id_not_found, reason=f"Group {GROUP} not found.")
    assert await world.share("a", LEFT_EPOCH) == rejection
    assert (await world.share("", 0)).error is E.invalid_request
    await world.consume("a")
    assert await world.share("a") == REFUSED
    assert await world.share("a", LEFT_EPOCH) == REFUSED
    world.unload()
    assert (await world.share("a")).error is E.not_coordinator
    world.groups.is_running = False
    assert (await world.share("a")).error is E.coordinator_not_available


@within(run_groups)
async def test_a_silent_member_is_removed(world: GroupWorld) -> None:
    await world.share("a")
    await world.pass_ms(44_000)
    await world.share("a", 2)
    await world.pass_ms(44_000)
    assert not group_of(world).is_empty
    world.log.refusal = E.not_enough_replicas
    await world.pass_ms(1_001)
    assert not group_of(world).is_empty, "the log has refused it"
    world.log.refusal = None
    world.load()
    await world.pass_ms(45_001)
    assert group_of(world).is_empty
    assert (await world.share("a", 2)).error is E.unknown_member_id


@within(run_groups)
async def test_who_leaves_has_no_session(world: GroupWorld) -> None:
    await world.share("a")
    leave_reply = await world.share("a", LEFT_EPOCH)
    assert (leave_reply.member_epoch, leave_reply.assignment) == (LEFT_EPOCH, None)
    written = len(world.log.batches)
    await world.pass_ms(60_000)
    assert len(world.log.batches) <= written + 1, "what was initialised, and no more"


@within(run_groups)
async def test_sessions_go_by_the_config_of_the_group(world: GroupWorld) -> None:
    configs = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    world.image = msgspec.structs.replace(world.image, group_configs={GROUP: configs})
    assert (await world.share("a")).heartbeat_interval_ms == 7_000
    await world.pass_ms(49_000)
    assert not group_of(world).is_empty
    await world.pass_ms(1_001)
    assert group_of(world).is_empty


@within(run_groups)
async def test_a_heartbeat_that_waits_for_the_log_is_decided_again(world: GroupWorld) -> None:
    answers = iter([Rejection(error=E.not_leader_or_follower, reason="no"), None, None])

    async def wait() -> Rejection | None:
        answer = next(answers)
        if answer is None and moves:
            world.unload()
        return answer

    moves = False
    world.log.admit = lambda *_: wait()  # type: ignore[assignment, return-value, method-assign]
    assert (await world.share("a")).error is E.not_coordinator
    assert (await world.share("a")).member_epoch == 2
    moves = True
    assert (await world.share("b")).error is E.not_coordinator


# Initialising


@within(run_groups)
async def test_what_a_share_coordinator_refuses_is_asked_for_with_the_next_heartbeat(
    world: GroupWorld,
) -> None:
    world.shares.error = E.coordinator_not_available
    await world.share("a")
    await world.pass_ms(1)
    group = group_of(world)
    assert (group.initializing, group.initialized) == ({}, {})
    world.shares.error = E.none
    await world.share("a", 2)
    await world.pass_ms(1)
    assert initialized_indexes(world) == [0, 1, 2]


@within(run_groups)
async def test_what_the_log_refuses_is_as_if_nobody_had_been_asked(world: GroupWorld) -> None:
    world.shares.is_held = True
    await world.share("a")
    await world.pass_ms(1)
    world.log.refusal = E.not_enough_replicas
    world.shares.release()
    await world.pass_ms(1)
    group = group_of(world)
    assert (len(group.initializing), group.initialized) == (1, {}), "the log refuses that, too"
    world.log.refusal = None


@pytest.mark.parametrize("moves", [False, True])
def test_answers_for_a_group_that_is_gone_change_nothing(moves: bool) -> None:
    async def story(world: GroupWorld) -> None:
        world.shares.is_held = True
        await world.share("a")
        await world.pass_ms(1)
        await world.share("a", LEFT_EPOCH)
        if moves:
            world.unload()
        else:
            deleted = world.later(world.groups.delete(GROUP))
            await world.pass_ms(1)
            assert not deleted.done(), "its share state goes first"
            del deleted
            (shard,) = (shard for shard in world.groups.shards() if shard.partition == HOME)
            del shard.groups[GROUP]
        written = len(world.log.batches)
        world.shares.release()
        await world.pass_ms(1)
        assert len(world.log.batches) == written

    run_groups(story)


# Offsets


@within(run_groups)
async def test_offsets_are_altered_when_share_coordinators_say_so(world: GroupWorld) -> None:
    altered = await world.groups.alter_share_offsets(GROUP, [("orders", [(0, 5)])])
    assert altered == (
        TopicOutcome(topic_name="orders", topic_id=ORDERS, partitions=((0, NO_PARTITION_ERROR),)),
    )
    assert world.shares.commands == [
        InitializeShareState(key=key(0), state_epoch=1, start_offset=5),
    ]
    await world.pass_ms(1)
    assert initialized_indexes(world) == [0]
    world.shares.error = E.network_exception
    failed = PartitionError(error=E.network_exception, message="no")
    (topic,) = await world.groups.alter_share_offsets(GROUP, [("orders", [(1, 5), (9, 1)])])
    assert topic.partitions[0] == (1, failed)
    assert topic.partitions[1][1].error is E.unknown_topic_or_partition
    (topic,) = await world.groups.alter_share_offsets(GROUP, [("missing", [(1, 5)])])
    assert topic.partitions[0][1].error is E.unknown_topic_or_partition
    assert initialized_indexes(world) == [0]


@within(run_groups)
async def test_offsets_are_deleted_when_share_coordinators_say_so(world: GroupWorld) -> None:
    await make_empty_group(world)
    world.shares.error = E.network_exception
    (failed,) = await world.groups.delete_share_offsets(GROUP, ["orders"])
    assert failed.outcome.error is E.network_exception
    assert list(group_of(world).deleting) == [ORDERS]
    world.shares.error = E.none
    deleted = await world.groups.delete_share_offsets(GROUP, ["orders", "missing"])
    assert [(deletion.topic_name, deletion.outcome.error) for deletion in deleted] == [
        ("orders", E.none),
        ("missing", E.unknown_topic_or_partition),
    ]
    assert group_of(world).deleting == {}
    assert world.shares.commands[:3] == [DeleteShareState(key=key(index)) for index in range(3)]


@within(run_groups)
async def test_very_many_share_partitions_are_asked_for_in_slices(world: GroupWorld) -> None:
    waits = world.later(world.groups.describe_share_offsets(GROUP, [("orders", range(1_000))]))
    await asyncio.sleep(0)
    assert 0 < len(world.shares.commands) < 1_000
    ((_, _, offsets),) = await waits
    assert [offset.partition for offset in offsets] == list(range(1_000))
    assert [read_command.key.partition for read_command in world.shares.commands] == list(
        range(1_000)
    )


@within(run_groups)
async def test_whose_offsets_may_not_be_changed(world: GroupWorld) -> None:
    groups = world.groups
    assert (await groups.alter_share_offsets("", [])).error is E.invalid_group_id
    assert (await groups.delete_share_offsets("", [])).error is E.invalid_group_id
    assert (await groups.delete_share_offsets(GROUP, [])).error is E.group_id_not_found
    await world.share("a")
    assert (await groups.alter_share_offsets(GROUP, [])).error is E.non_empty_group
    assert (await groups.delete_share_offsets(GROUP, [])).error is E.non_empty_group
    assert (await groups.delete(GROUP)).error is E.non_empty_group
    world.unload()
    assert (await groups.alter_share_offsets(GROUP, [])).error is E.not_coordinator
    assert (await groups.delete_share_offsets(GROUP, [])).error is E.not_coordinator
    assert (await groups.describe_share_offsets(GROUP, None)).error is E.not_coordinator
    groups.is_running = False
    assert (await groups.describe_share_offsets(GROUP, None)).error is E.coordinator_not_available


@within(run_groups)
async def test_other_groups_have_no_share_offsets(world: GroupWorld) -> None:
    await world.consume("a")
    assert await world.groups.alter_share_offsets(GROUP, []) == REFUSED
    assert await world.groups.delete_share_offsets(GROUP, []) == REFUSED
    assert await world.groups.describe_share_offsets(GROUP, None) == ()


@within(run_groups)
async def test_a_lag_is_what_is_not_delivered_yet(world: GroupWorld) -> None:
    await make_empty_group(world)
    world.latest = 10
    world.shares.summaries = {
        0: ShareStateSummary(key=key(0), leader_epoch=4, start_offset=3, delivery_complete_count=2),
        1: ShareStateSummary(key=key(1), leader_epoch=4, start_offset=3),
    }
    assert await world.groups.describe_share_offsets(GROUP, None) == (
        (
            "orders",
            ORDERS,
            (
                ShareOffset(partition=0, start_offset=3, leader_epoch=4, lag=5),
                ShareOffset(partition=1, start_offset=3, leader_epoch=4),
                ShareOffset(partition=2),
            ),
        ),
    )
    world.latest = Rejection(error=E.leader_not_available, reason="no")
    asked_partitions = [("missing", [7]), ("orders", [0])]
    assert await world.groups.describe_share_offsets("other", asked_partitions) == (
        (
            "orders",
            ORDERS,
            (ShareOffset(partition=0, start_offset=0, error=E.leader_not_available),),
        ),
        ("missing", None, (ShareOffset(partition=7),)),
    )
    world.shares.error = E.network_exception
    assert await world.groups.describe_share_offsets(GROUP, [("orders", [0])]) == (
        ("orders", ORDERS, (ShareOffset(partition=0),)),
    )


# The end of a group, and of a topic


@within(run_groups)
async def test_a_group_is_deleted_after_its_share_state(world: GroupWorld) -> None:
    await make_empty_group(world)
    world.shares.error = E.network_exception
    refused = await world.groups.delete(GROUP)
    assert refused is not None
    assert refused.error is E.network_exception
    assert list(group_of(world).deleting) == [ORDERS]
    world.shares.error = E.none
    assert await world.groups.delete(GROUP) is None
    assert world.shares.commands[3:] == [DeleteShareState(key=key(index)) for index in range(3)]
    assert isinstance(world.groups.find(GROUP), Rejection)
    world.load()
    assert isinstance(world.groups.find(GROUP), Rejection)


@within(run_groups)
async def test_who_joins_while_share_state_goes_keeps_the_group(world: GroupWorld) -> None:
    await make_empty_group(world)
    world.shares.is_held = True
    deleted = world.later(world.groups.delete(GROUP))
    await world.pass_ms(1)
    await world.share("b")
    world.shares.release()
    refused = await deleted
    assert refused.error is E.non_empty_group


@within(run_groups)
async def test_deleted_topics_are_forgotten(world: GroupWorld) -> None:
    await make_empty_group(world)
    world.image = image(2)
    world.log.refusal = E.not_enough_replicas
    world.groups.topics_deleted({"orders": ORDERS})
    assert initialized_indexes(world) == [0, 1, 2]
    world.log.refusal = None
    written = len(world.log.batches)
    world.groups.topics_deleted({"orders": topic_id("other")})
    assert len(world.log.batches) == written
    world.groups.topics_deleted({"orders": ORDERS})
    assert initialized_indexes(world) == []


@pytest.mark.parametrize("moves", [False, True])
def test_very_many_groups_forget_a_deleted_topic_in_slices(
    moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_turns, "LOOKS", 1)
    named = [
        group_id
        for group_id in map(str, range(1_000))
        if partition_for(group_id, PARTITIONS) == HOME
    ]
    some_names = named[: 3 * FORGOTTEN_AT_ONCE]

    def knowing(world: GroupWorld) -> int:
        groups = [world.groups.find(group_id) for group_id in some_names]
        return sum(bool(group.initialized) for group in groups if isinstance(group, ShareGroup))

    async def main(world: GroupWorld) -> None:
        for group_id in some_names:
            await world.share("a", group_id=group_id)
        await world.share("a", LEFT_EPOCH, group_id=some_names[-1])
        await world.pass_ms(1)
        assert knowing(world) == len(some_names)
        written = len(world.log.batches)
        world.groups.topics_deleted({"orders": ORDERS})
        assert len(world.log.batches) == written + 1
        assert knowing(world) == len(some_names) - FORGOTTEN_AT_ONCE
        if moves:
            world.unload()
        else:
            assert await world.groups.delete(some_names[-1]) is None
        await world.pass_ms(1)
        if moves:
            assert len(world.log.batches) == written + 1
        else:
            assert knowing(world) == 0
            assert isinstance(world.groups.find(some_names[-1]), Rejection)

    run_groups(main)
