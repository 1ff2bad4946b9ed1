"""Share groups from the outside: when members are answered, what share coordinators are asked."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.consumer_groups import image, topic_id
from tests.support.group_world import GROUP, HOME, PARTITIONS, GroupBench, run_groups
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


def group_of(group_bench: GroupBench) -> ShareGroup:
    group = group_bench.group()
    assert isinstance(group, ShareGroup)
    return group


def initialized_indexes(group_bench: GroupBench) -> list[int]:
    topics = group_of(group_bench).initialized.values()
    return [partition_index for topic in topics for partition_index in topic.partitions]


async def make_empty_group(group_bench: GroupBench) -> None:
    """A group whose topic is initialised, without members."""
    await group_bench.share("a")
    await group_bench.pass_ms(1)
    await group_bench.share("a", LEFT_EPOCH)
    group_bench.shares.commands.clear()
    assert initialized_indexes(group_bench) == [0, 1, 2]


# Heartbeats


@within(run_groups)
async def test_a_member_is_assigned_what_share_coordinators_have_initialised(
    group_bench: GroupBench,
) -> None:
    group_bench.shares.is_held = True
    join_reply = await group_bench.share("a")
    assert (join_reply.member_epoch, join_reply.assignment) == (2, ())
    await group_bench.pass_ms(1)
    assert group_bench.shares.commands == [
        InitializeShareState(key=key(index), state_epoch=2, start_offset=-1) for index in range(3)
    ]
    await group_bench.pass_ms(2_000)
    assert (await group_bench.share("a", 2)).assignment is None
    group_bench.shares.release()
    await group_bench.pass_ms(1)
    heartbeat_reply = await group_bench.share("a", 2)
    assert heartbeat_reply.member_epoch == 3
    assert heartbeat_reply.assignment == tuple((ORDERS, index) for index in range(3))


@within(run_groups)
async def test_a_heartbeat_is_answered_when_its_records_are_replicated(
    group_bench: GroupBench,
) -> None:
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.share("a"))
    await group_bench.pass_ms(1_000)
    assert not waits_task.done()
    assert not group_bench.shares.commands
    group_bench.log.release()
    assert (await waits_task).member_epoch == 2
    await group_bench.pass_ms(1)
    assert len(group_bench.shares.commands) == 3
    batch_count_before = len(group_bench.log.batches)
    await group_bench.share("a", 2, "orders")  # brings another target
    await group_bench.share("a", 3)
    assert len(group_bench.log.batches) == batch_count_before + 1


@within(run_groups)
async def test_what_the_log_refuses_asks_no_share_coordinator(group_bench: GroupBench) -> None:
    group_bench.log.refusal = E.not_enough_replicas
    assert (await group_bench.share("a")).error is E.coordinator_not_available
    group_bench.log.refusal = None
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.share("a"))
    await group_bench.pass_ms(1)
    group_bench.log.release(E.request_timed_out)
    assert (await waits_task).error is E.coordinator_not_available
    assert group_bench.shares.commands == []


@within(run_groups)
async def test_who_may_not_send_a_heartbeat(group_bench: GroupBench) -> None:
    missing_rejection = Rejection(
        error=E.group_id_not_found, reason=f"Share group {GROUP} not found."
    )
    assert await group_bench.share("a", 3) == missing_rejection
    rejection = Rejection(error=E.group_id_not_found, reason=f"Group {GROUP} not found.")
    assert await group_bench.share("a", LEFT_EPOCH) == rejection
    assert (await group_bench.share("", 0)).error is E.invalid_request
    await group_bench.consume("a")
    assert await group_bench.share("a") == REFUSED
    assert await group_bench.share("a", LEFT_EPOCH) == REFUSED
    group_bench.unload()
    assert (await group_bench.share("a")).error is E.not_coordinator
    group_bench.groups.is_running = False
    assert (await group_bench.share("a")).error is E.coordinator_not_available


@within(run_groups)
async def test_a_silent_member_is_removed(group_bench: GroupBench) -> None:
    await group_bench.share("a")
    await group_bench.pass_ms(44_000)
    await group_bench.share("a", 2)
    await group_bench.pass_ms(44_000)
    assert not group_of(group_bench).is_empty
    group_bench.log.refusal = E.not_enough_replicas
    await group_bench.pass_ms(1_001)
    assert not group_of(group_bench).is_empty, "the log has refused it"
    group_bench.log.refusal = None
    group_bench.load()
    await group_bench.pass_ms(45_001)
    assert group_of(group_bench).is_empty
    assert (await group_bench.share("a", 2)).error is E.unknown_member_id


@within(run_groups)
async def test_who_leaves_has_no_session(group_bench: GroupBench) -> None:
    await group_bench.share("a")
    leave_reply = await group_bench.share("a", LEFT_EPOCH)
    assert (leave_reply.member_epoch, leave_reply.assignment) == (LEFT_EPOCH, None)
    batch_count_before = len(group_bench.log.batches)
    await group_bench.pass_ms(60_000)
    assert len(group_bench.log.batches) <= batch_count_before + 1, (
        "what was initialised, and no more"
    )


@within(run_groups)
async def test_sessions_go_by_the_config_of_the_group(group_bench: GroupBench) -> None:
    configs = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "7000"}
    group_bench.image = msgspec.structs.replace(group_bench.image, group_configs={GROUP: configs})
    assert (await group_bench.share("a")).heartbeat_interval_ms == 7_000
    await group_bench.pass_ms(49_000)
    assert not group_of(group_bench).is_empty
    await group_bench.pass_ms(1_001)
    assert group_of(group_bench).is_empty


@within(run_groups)
async def test_a_heartbeat_that_waits_for_the_log_is_decided_again(group_bench: GroupBench) -> None:
    answers = iter([Rejection(error=E.not_leader_or_follower, reason="no"), None, None])

    async def wait() -> Rejection | None:
        rejection = next(answers)
        if rejection is None and is_moving:
            group_bench.unload()
        return rejection

    is_moving = False
    group_bench.log.admit = lambda *_: wait()  # type: ignore[assignment, return-value, method-assign]
    assert (await group_bench.share("a")).error is E.not_coordinator
    assert (await group_bench.share("a")).member_epoch == 2
    is_moving = True
    assert (await group_bench.share("b")).error is E.not_coordinator


# Initialising


@within(run_groups)
async def test_what_a_share_coordinator_refuses_is_asked_for_with_the_next_heartbeat(
    group_bench: GroupBench,
) -> None:
    group_bench.shares.error = E.coordinator_not_available
    await group_bench.share("a")
    await group_bench.pass_ms(1)
    group = group_of(group_bench)
    assert (group.initializing, group.initialized) == ({}, {})
    group_bench.shares.error = E.none
    await group_bench.share("a", 2)
    await group_bench.pass_ms(1)
    assert initialized_indexes(group_bench) == [0, 1, 2]


@within(run_groups)
async def test_what_the_log_refuses_is_as_if_nobody_had_been_asked(group_bench: GroupBench) -> None:
    group_bench.shares.is_held = True
    await group_bench.share("a")
    await group_bench.pass_ms(1)
    group_bench.log.refusal = E.not_enough_replicas
    group_bench.shares.release()
    await group_bench.pass_ms(1)
    group = group_of(group_bench)
    assert (len(group.initializing), group.initialized) == (1, {}), "the log refuses that, too"
    group_bench.log.refusal = None


@pytest.mark.parametrize("is_moving", [False, True])
def test_answers_for_a_group_that_is_gone_change_nothing(is_moving: bool) -> None:
    async def story(group_bench: GroupBench) -> None:
        group_bench.shares.is_held = True
        await group_bench.share("a")
        await group_bench.pass_ms(1)
        await group_bench.share("a", LEFT_EPOCH)
        if is_moving:
            group_bench.unload()
        else:
            deleted_task = group_bench.later(group_bench.groups.delete(GROUP))
            await group_bench.pass_ms(1)
            assert not deleted_task.done(), "its share state goes first"
            del deleted_task
            (shard,) = (shard for shard in group_bench.groups.shards() if shard.partition == HOME)
            del shard.groups[GROUP]
        batch_count_before = len(group_bench.log.batches)
        group_bench.shares.release()
        await group_bench.pass_ms(1)
        assert len(group_bench.log.batches) == batch_count_before

    run_groups(story)


# Offsets


@within(run_groups)
async def test_offsets_are_altered_when_share_coordinators_say_so(group_bench: GroupBench) -> None:
    alter_result = await group_bench.groups.alter_share_offsets(GROUP, [("orders", [(0, 5)])])
    assert alter_result == (
        TopicOutcome(topic_name="orders", topic_id=ORDERS, partitions=((0, NO_PARTITION_ERROR),)),
    )
    assert group_bench.shares.commands == [
        InitializeShareState(key=key(0), state_epoch=1, start_offset=5),
    ]
    await group_bench.pass_ms(1)
    assert initialized_indexes(group_bench) == [0]
    group_bench.shares.error = E.network_exception
    partition_error = PartitionError(error=E.network_exception, message="no")
    (topic,) = await group_bench.groups.alter_share_offsets(GROUP, [("orders", [(1, 5), (9, 1)])])
    assert topic.partitions[0] == (1, partition_error)
    assert topic.partitions[1][1].error is E.unknown_topic_or_partition
    (topic,) = await group_bench.groups.alter_share_offsets(GROUP, [("missing", [(1, 5)])])
    assert topic.partitions[0][1].error is E.unknown_topic_or_partition
    assert initialized_indexes(group_bench) == [0]


@within(run_groups)
async def test_offsets_are_deleted_when_share_coordinators_say_so(group_bench: GroupBench) -> None:
    await make_empty_group(group_bench)
    group_bench.shares.error = E.network_exception
    (failed_deletion,) = await group_bench.groups.delete_share_offsets(GROUP, ["orders"])
    assert failed_deletion.outcome.error is E.network_exception
    assert list(group_of(group_bench).deleting) == [ORDERS]
    group_bench.shares.error = E.none
    deleted = await group_bench.groups.delete_share_offsets(GROUP, ["orders", "missing"])
    assert [(deletion.topic_name, deletion.outcome.error) for deletion in deleted] == [
        ("orders", E.none),
        ("missing", E.unknown_topic_or_partition),
    ]
    assert group_of(group_bench).deleting == {}
    assert group_bench.shares.commands[:3] == [
        DeleteShareState(key=key(index)) for index in range(3)
    ]


@within(run_groups)
async def test_very_many_share_partitions_are_asked_for_in_slices(group_bench: GroupBench) -> None:
    waits_task = group_bench.later(
        group_bench.groups.describe_share_offsets(GROUP, [("orders", range(1_000))])
    )
    await asyncio.sleep(0)
    assert 0 < len(group_bench.shares.commands) < 1_000
    ((_, _, offsets),) = await waits_task
    assert [offset.partition for offset in offsets] == list(range(1_000))
    assert [read_command.key.partition for read_command in group_bench.shares.commands] == list(
        range(1_000)
    )


@within(run_groups)
async def test_a_group_that_somebody_joins_while_its_deletion_waits_stays(
    group_bench: GroupBench,
) -> None:
    await group_bench.share("a")
    await group_bench.pass_ms(1)  # share state is initialised
    await group_bench.share("a", -1)
    released_event = asyncio.Event()

    async def wait() -> Rejection | None:
        group_bench.log.admission = None
        await released_event.wait()
        return None

    group_bench.log.admission = wait
    deletes_task = group_bench.later(group_bench.groups.delete(GROUP))
    await group_bench.pass_ms(1)
    await group_bench.share("b")
    released_event.set()
    assert (await deletes_task).error is E.non_empty_group
    assert set(group_bench.group().members) == {"b"}


@within(run_groups)
async def test_whose_offsets_may_not_be_changed(group_bench: GroupBench) -> None:
    groups = group_bench.groups
    assert (await groups.alter_share_offsets("", [])).error is E.invalid_group_id
    assert (await groups.delete_share_offsets("", [])).error is E.invalid_group_id
    assert (await groups.delete_share_offsets(GROUP, [])).error is E.group_id_not_found
    await group_bench.share("a")
    assert (await groups.alter_share_offsets(GROUP, [])).error is E.non_empty_group
    assert (await groups.delete_share_offsets(GROUP, [])).error is E.non_empty_group
    assert (await groups.delete(GROUP)).error is E.non_empty_group
    group_bench.unload()
    assert (await groups.alter_share_offsets(GROUP, [])).error is E.not_coordinator
    assert (await groups.delete_share_offsets(GROUP, [])).error is E.not_coordinator
    assert (await groups.describe_share_offsets(GROUP, None)).error is E.not_coordinator
    groups.is_running = False
    assert (await groups.describe_share_offsets(GROUP, None)).error is E.coordinator_not_available


@pytest.mark.parametrize("indexes", [(-1,), (0, -1), ()])
@within(run_groups)
async def test_a_partition_below_0_beside_any_others_fails_the_whole_question(
    group_bench: GroupBench, indexes: tuple[int, ...]
) -> None:
    group_bench.image = image(orders=3, payments=3)
    for topics in ([("orders", (0,)), ("payments", indexes)], [("orders", indexes)]):
        refusal = await group_bench.groups.describe_share_offsets(GROUP, topics)
        assert isinstance(refusal, Rejection)
        assert refusal.error is E.unknown_server_error
    assert group_bench.shares.commands == []


@within(run_groups)
async def test_other_groups_have_no_share_offsets(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    assert await group_bench.groups.alter_share_offsets(GROUP, []) == REFUSED
    assert await group_bench.groups.delete_share_offsets(GROUP, []) == REFUSED
    assert await group_bench.groups.describe_share_offsets(GROUP, None) == ()


@within(run_groups)
async def test_a_lag_is_what_is_not_delivered_yet(group_bench: GroupBench) -> None:
    await make_empty_group(group_bench)
    group_bench.latest = 10
    group_bench.shares.summaries = {
        0: ShareStateSummary(key=key(0), leader_epoch=4, start_offset=3, delivery_complete_count=2),
        1: ShareStateSummary(key=key(1), leader_epoch=4, start_offset=3),
    }
    assert await group_bench.groups.describe_share_offsets(GROUP, None) == (
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
    group_bench.latest = Rejection(error=E.leader_not_available, reason="no")
    asked_partitions = [("missing", [7]), ("orders", [0])]
    assert await group_bench.groups.describe_share_offsets("other", asked_partitions) == (
        (
            "orders",
            ORDERS,
            (ShareOffset(partition=0, start_offset=0, error=E.leader_not_available),),
        ),
        ("missing", None, (ShareOffset(partition=7),)),
    )
    group_bench.shares.error = E.network_exception
    assert await group_bench.groups.describe_share_offsets(GROUP, [("orders", [0])]) == (
        ("orders", ORDERS, (ShareOffset(partition=0),)),
    )


# The end of a group, and of a topic


@within(run_groups)
async def test_a_group_is_deleted_after_its_share_state(group_bench: GroupBench) -> None:
    await make_empty_group(group_bench)
    group_bench.shares.error = E.network_exception
    rejection = await group_bench.groups.delete(GROUP)
    assert rejection is not None
    assert rejection.error is E.network_exception
    assert list(group_of(group_bench).deleting) == [ORDERS]
    group_bench.shares.error = E.none
    assert await group_bench.groups.delete(GROUP) is None
    assert group_bench.shares.commands[3:] == [
        DeleteShareState(key=key(index)) for index in range(3)
    ]
    assert isinstance(group_bench.groups.find(GROUP), Rejection)
    group_bench.load()
    assert isinstance(group_bench.groups.find(GROUP), Rejection)


@within(run_groups)
async def test_who_joins_while_share_state_goes_keeps_the_group(group_bench: GroupBench) -> None:
    await make_empty_group(group_bench)
    group_bench.shares.is_held = True
    deleted_task = group_bench.later(group_bench.groups.delete(GROUP))
    await group_bench.pass_ms(1)
    await group_bench.share("b")
    group_bench.shares.release()
    refused_deletion = await deleted_task
    assert refused_deletion.error is E.non_empty_group


@within(run_groups)
async def test_deleted_topics_are_forgotten(group_bench: GroupBench) -> None:
    await make_empty_group(group_bench)
    group_bench.image = image(2)
    group_bench.log.refusal = E.not_enough_replicas
    group_bench.groups.topics_deleted({"orders": ORDERS})
    assert initialized_indexes(group_bench) == [0, 1, 2]
    group_bench.log.refusal = None
    batch_count_before = len(group_bench.log.batches)
    group_bench.groups.topics_deleted({"orders": topic_id("other")})
    assert len(group_bench.log.batches) == batch_count_before
    group_bench.groups.topics_deleted({"orders": ORDERS})
    assert initialized_indexes(group_bench) == []


@pytest.mark.parametrize("is_moving", [False, True])
def test_very_many_groups_forget_a_deleted_topic_in_slices(
    is_moving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_turns, "LOOKS", 1)
    all_names = [
        group_id
        for group_id in map(str, range(1_000))
        if partition_for(group_id, PARTITIONS) == HOME
    ]
    some_names = all_names[: 3 * FORGOTTEN_AT_ONCE]

    def knowing(group_bench: GroupBench) -> int:
        groups = [group_bench.groups.find(group_id) for group_id in some_names]
        return sum(bool(group.initialized) for group in groups if isinstance(group, ShareGroup))

    async def main(group_bench: GroupBench) -> None:
        for group_id in some_names:
            await group_bench.share("a", group_id=group_id)
        await group_bench.share("a", LEFT_EPOCH, group_id=some_names[-1])
        await group_bench.pass_ms(1)
        assert knowing(group_bench) == len(some_names)
        batch_count_before = len(group_bench.log.batches)
        group_bench.groups.topics_deleted({"orders": ORDERS})
        assert len(group_bench.log.batches) == batch_count_before + 1
        assert knowing(group_bench) == len(some_names) - FORGOTTEN_AT_ONCE
        if is_moving:
            group_bench.unload()
        else:
            assert await group_bench.groups.delete(some_names[-1]) is None
        await group_bench.pass_ms(1)
        if is_moving:
            assert len(group_bench.log.batches) == batch_count_before + 1
        else:
            assert knowing(group_bench) == 0
            assert isinstance(group_bench.groups.find(some_names[-1]), Rejection)

    run_groups(main)
