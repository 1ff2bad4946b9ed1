"""Members of groups from the outside: when they are answered, which timers fire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.consumer_groups import image, parts
from tests.support.group_api import SUBSCRIPTION
from tests.support.group_world import GROUP, HOME, GroupBench, run_groups
from tests.support.within_environment import within
from txnsim.coordinators._ownership import Ownership
from txnsim.coordinators.group._group_timers import DECIDED_TOGETHER, TURN_TIMERS, GroupTimers
from txnsim.coordinators.group._offset_trace import OffsetTrace, PositionNow
from txnsim.coordinators.group._writer import coordinator_error
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.group._offsets import NO_RECORD_LIMIT
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import LeaveGroup, TimerCancelled, TimerKind, TimerSet
from txnsim.group.consumer_group import LEFT_EPOCH, ConsumerGroup
from txnsim.group.consumer_records import ShareEpochStored
from txnsim.group.offset_commands import CommitOffsets, CommittingProducer, NewPosition
from txnsim.group.records import OffsetCommitted
from txnsim.group.shard import GroupShard
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.subscription import write_assignment
from txnsim.interbroker.transactions import TxnMarker
from txnsim.releases import Rules
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

# ``consumer_membership``: Members of the consumer protocol from the outside: when they are
# answered, which timers fire.


E = ErrorCode


def consumers(group_bench: GroupBench) -> ConsumerGroup:
    group = group_bench.group()
    assert isinstance(group, ConsumerGroup)
    return group


@within(run_groups)
async def test_a_heartbeat_is_answered_when_its_records_are_replicated(
    group_bench: GroupBench,
) -> None:
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.consume("a"))
    await group_bench.pass_ms(1_000)
    assert not waits_task.done()
    group_bench.log.release()
    assert (await waits_task).member_epoch == 2
    batch_count_before = len(group_bench.log.batches)
    assert (await group_bench.consume("a", 2)).member_epoch == 2
    assert (
        len(group_bench.log.batches) == batch_count_before
    )  # nothing has changed, nothing to wait for


@within(run_groups)
async def test_records_that_are_refused_or_not_replicated_are_an_error(
    group_bench: GroupBench,
) -> None:
    group_bench.log.refusal = E.not_enough_replicas
    assert (await group_bench.consume("a")).error is E.coordinator_not_available
    group_bench.log.refusal = None
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.consume("a"))
    await group_bench.pass_ms(1)
    group_bench.log.release(E.request_timed_out)
    assert (await waits_task).error is E.coordinator_not_available


@within(run_groups)
async def test_a_silent_member_is_fenced(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    await group_bench.pass_ms(44_000)
    assert (await group_bench.consume("a", 2)).member_epoch == 2
    await group_bench.pass_ms(44_000)
    assert not consumers(group_bench).is_empty
    await group_bench.pass_ms(1_001)
    assert consumers(group_bench).is_empty
    assert (await group_bench.consume("a", 2)).error is E.unknown_member_id


@within(run_groups)
async def test_who_gives_nothing_up_in_time_is_fenced(group_bench: GroupBench) -> None:
    await group_bench.consume("a", rebalance_timeout_ms=20_000)
    await group_bench.pass_ms(1_500)  # target assignments are made once a second at most
    await group_bench.consume("b")
    heartbeat_reply = await group_bench.consume("a", 2)
    assert len(heartbeat_reply.assignment) == 2
    for _ in range(3):
        await group_bench.pass_ms(6_000)
        await group_bench.consume("a", 2)
    assert set(consumers(group_bench).members) == {"a", "b"}
    await group_bench.pass_ms(2_001)
    assert set(consumers(group_bench).members) == {"b"}


@within(run_groups)
async def test_who_gives_up_in_time_goes_on(group_bench: GroupBench) -> None:
    await group_bench.consume("a", rebalance_timeout_ms=20_000)
    await group_bench.pass_ms(1_500)
    await group_bench.consume("b")
    heartbeat_reply = await group_bench.consume("a", 2)
    still_owned = frozenset(heartbeat_reply.assignment)
    move_reply = await group_bench.consume("a", 2, owned_partitions=still_owned)
    assert move_reply.member_epoch == 3
    for epoch in (3, 3, 3):
        await group_bench.pass_ms(15_000)
        assert (await group_bench.consume("a", epoch)).member_epoch == 3
        await group_bench.consume("b", consumers(group_bench).members["b"].member_epoch)
    assert (len(still_owned), len(parts("orders", 0, 1, 2) - still_owned)) == (2, 1)


@within(run_groups)
async def test_regular_expressions_are_looked_up_after_the_heartbeat(
    group_bench: GroupBench,
) -> None:
    regex: dict[str, Any] = {"topic_names": None, "topic_regex": "ord.*"}
    join_reply = await group_bench.consume("a", **regex)
    assert join_reply.assignment == ()
    await group_bench.pass_ms(1_500)
    heartbeat_reply = await group_bench.consume("a", join_reply.member_epoch)
    assert frozenset(heartbeat_reply.assignment) == parts("orders", 0, 1, 2)


@within(run_groups)
async def test_the_log_may_refuse_a_write_without_a_waiting_request(
    group_bench: GroupBench,
) -> None:
    await group_bench.consume("a")
    group_bench.log.refusal = E.not_enough_replicas
    await group_bench.pass_ms(45_001)  # the session is over, but that could not be written
    group_bench.log.refusal = None
    assert (await group_bench.consume("a", 2)).member_epoch == 2


@within(run_groups)
async def test_a_new_coordinator_gives_each_member_a_session(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    group_bench.unload()
    await group_bench.pass_ms(100_000)
    group_bench.load()
    assert (await group_bench.consume("a", 2)).member_epoch == 2
    await group_bench.pass_ms(45_001)
    assert consumers(group_bench).is_empty


@within(run_groups)
async def test_a_deleted_group_has_no_timers(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    assert isinstance(await group_bench.groups.delete(GROUP), Rejection)
    await group_bench.consume("a", -1)
    assert await group_bench.groups.delete(GROUP) is None
    await group_bench.pass_ms(600_000)
    assert group_bench.groups.list() == ()


@within(run_groups)
async def test_a_group_that_is_not_there_is_only_joined(group_bench: GroupBench) -> None:
    assert (await group_bench.consume("a", 2)).error is E.group_id_not_found
    await group_bench.commit(5)  # a group without members, so it may become one of consumers
    assert (await group_bench.consume("a")).member_epoch == 2
    assert consumers(group_bench).state_name == "Stable"
    assert await group_bench.fetch() == 5
    group_bench.unload()
    group_bench.load()
    assert consumers(group_bench).state_name == "Stable"


@within(run_groups)
async def test_new_partitions_are_assigned_with_a_new_epoch(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    await group_bench.pass_ms(1_500)
    group_bench.image = image(offset=2, orders=4)
    heartbeat_reply = await group_bench.consume("a", 2)
    assert (heartbeat_reply.member_epoch, len(heartbeat_reply.assignment)) == (3, 4)


# A write that waits while the group becomes another one


class HeldAppend:
    """Holds the next append until the test releases it; later appends go through."""

    def __init__(self, group_bench: GroupBench) -> None:
        self.is_waiting = False
        self._released = asyncio.Event()
        self._group_bench = group_bench
        group_bench.log.admission = self._wait

    async def _wait(self) -> Rejection | None:
        self.is_waiting = True
        self._group_bench.log.admission = None
        await self._released.wait()
        return None

    def release(self) -> None:
        self._released.set()


@within(run_groups)
async def test_a_classic_member_does_not_replace_consumers_that_have_joined_meanwhile(
    group_bench: GroupBench,
) -> None:
    await group_bench.consume("a")
    await group_bench.consume("a", LEFT_EPOCH)
    held = HeldAppend(group_bench)
    joins_task = group_bench.later(group_bench.join())
    await group_bench.pass_ms(1)
    assert held.is_waiting
    await group_bench.consume("b")
    held.release()
    assert (await joins_task).error is E.inconsistent_group_protocol
    assert set(consumers(group_bench).members) == {"b"}


@within(run_groups)
async def test_an_empty_group_whose_deletion_is_refused_is_not_joined(
    group_bench: GroupBench,
) -> None:
    await group_bench.consume("a")
    await group_bench.consume("a", LEFT_EPOCH)
    group_bench.log.refusal = E.not_enough_replicas
    join_reply = await group_bench.join("m")
    assert (join_reply.error, join_reply.member_id) == (E.coordinator_not_available, "m")
    assert consumers(group_bench).is_empty


@within(run_groups)
async def test_a_classic_member_that_leaves_what_is_a_classic_group_meanwhile_comes_again(
    group_bench: GroupBench,
) -> None:
    await group_bench.consume("a")
    member_id = (await group_bench.join(protocols=(("range", SUBSCRIPTION),))).member_id
    held = HeldAppend(group_bench)
    leaves_task = group_bench.later(group_bench.leave(member_id))
    await group_bench.pass_ms(1)
    assert held.is_waiting
    await group_bench.consume("a", LEFT_EPOCH)
    assert isinstance(group_bench.group(), ClassicGroup)
    held.release()
    assert (await leaves_task).error is E.coordinator_not_available
    assert member_id in group_bench.group().members


@pytest.mark.parametrize(
    ("session_timeout_ms", "error"),
    [
        (5_999, E.invalid_session_timeout),
        (6_000, E.none),
        (1_800_000, E.none),
        (1_800_001, E.invalid_session_timeout),
    ],
)
@within(run_groups)
async def test_a_session_lasts_neither_too_short_nor_too_long(
    group_bench: GroupBench, session_timeout_ms: int, error: ErrorCode
) -> None:
    join_reply = await group_bench.join(session_timeout_ms=session_timeout_ms)
    assert join_reply.error is error
    refused_reply = await group_bench.join("m", session_timeout_ms=5_999)
    assert (refused_reply.error, refused_reply.member_id) == (E.invalid_session_timeout, "m")


@within(run_groups)
async def test_members_of_a_group_that_is_not_there_are_unknown(group_bench: GroupBench) -> None:
    join_reply = await group_bench.join("m")
    assert (join_reply.error, join_reply.member_id) == (E.unknown_member_id, "m")
    assert (await group_bench.sync("m")).error is E.unknown_member_id
    assert group_bench.heartbeat("m") is E.unknown_member_id
    assert (await group_bench.leave("m")).members == (("m", None, E.unknown_member_id),)
    assert group_bench.groups.list() == ()


@within(run_groups)
async def test_a_classic_group_that_can_not_be_converted_stays_as_it_is(
    group_bench: GroupBench,
) -> None:
    await group_bench.stable(protocol_type="connect")
    log_end_offset = group_bench.log.end
    assert isinstance(await group_bench.consume("a"), Rejection)
    assert isinstance(group_bench.group(), ClassicGroup)
    assert group_bench.log.end == log_end_offset


def test_an_assignor_in_the_background_writes_what_the_next_heartbeat_tells() -> None:
    async def main(group_bench: GroupBench) -> None:
        join_reply = await group_bench.consume("a")
        assert not join_reply.assignment
        await group_bench.pass_ms(1)
        reply = await group_bench.consume("a", join_reply.member_epoch)
        assert frozenset(reply.assignment) == parts("orders", 0, 1, 2)

    run_groups(main, rules=Rules(assignors_run_in_background=True))


@pytest.mark.usefixtures("all_levels")
@pytest.mark.parametrize("is_moved", [True, False])
def test_an_assignor_in_the_background_may_be_refused_or_come_too_late(is_moved: bool) -> None:
    async def main(group_bench: GroupBench) -> None:
        waits_task = group_bench.later(group_bench.consume("a"))
        group_bench.log.is_held = True
        await asyncio.sleep(0)
        log_end_offset = group_bench.log.end
        assert log_end_offset
        if is_moved:
            group_bench.unload()
        else:
            group_bench.log.refusal = E.not_enough_replicas
        with capture_logs() as lines:
            await group_bench.pass_ms(1)
        assert group_bench.log.end == log_end_offset
        refused_groups = [line["group"] for line in lines if line["event"] == "group.write-refused"]
        assert refused_groups == ([] if is_moved else [GROUP])
        group_bench.log.refusal = None
        group_bench.log.release()
        assert isinstance(await waits_task, Rejection) is is_moved

    run_groups(main, rules=Rules(assignors_run_in_background=True))


# Configs of the group


def configure_group(group_bench: GroupBench, **configs: str) -> None:
    own_configs = {
        config_name.replace("_", "."): config_value for config_name, config_value in configs.items()
    }
    group_bench.image = group_bench.image.with_group_configs(GROUP, own_configs)


@within(run_groups)
async def test_a_share_group_takes_no_member_of_another_protocol(group_bench: GroupBench) -> None:
    (shard,) = (shard for shard in group_bench.groups.shards() if shard.partition == HOME)
    stored_epoch = ShareEpochStored(group_id=GROUP, group_epoch=3)
    shard.apply(stored_epoch, record_offset=shard.end_offset)
    assert await group_bench.consume("a") == Rejection(
        error=ErrorCode.group_id_not_found, reason=f"Group {GROUP} is not a consumer group."
    )
    assert (await group_bench.join()).error is ErrorCode.inconsistent_group_protocol
    assert isinstance(group_bench.group(), ShareGroup)


@within(run_groups)
async def test_a_group_has_its_own_intervals(group_bench: GroupBench) -> None:
    configure_group(
        group_bench, consumer_session_timeout_ms="60000", consumer_heartbeat_interval_ms="9000"
    )
    join_reply = await group_bench.consume("a")
    assert join_reply.heartbeat_interval_ms == 9_000
    await group_bench.pass_ms(59_999)
    assert not consumers(group_bench).is_empty
    await group_bench.pass_ms(2)
    assert consumers(group_bench).is_empty
    configure_group(group_bench)
    join_reply = await group_bench.consume("b")
    assert join_reply.heartbeat_interval_ms == 5_000
    await group_bench.pass_ms(45_001)
    assert consumers(group_bench).is_empty


@within(run_groups)
async def test_a_group_may_be_assigned_at_every_change(group_bench: GroupBench) -> None:
    configure_group(group_bench, consumer_assignment_interval_ms="0")
    await group_bench.consume("a")
    await group_bench.consume("b")
    assert consumers(group_bench).assignment_epoch == consumers(group_bench).epoch
    configure_group(group_bench, consumer_assignment_interval_ms="15000")
    await group_bench.consume("c")
    assert consumers(group_bench).assignment_epoch < consumers(group_bench).epoch


# Policies of the broker


@within(run_groups, group_consumer_assignors="range")
async def test_the_assignors_of_the_broker_are_those_that_there_are(
    group_bench: GroupBench,
) -> None:
    refused_reply = await group_bench.consume("a", server_assignor="uniform")
    assert refused_reply.error is E.unsupported_assignor
    assert refused_reply.reason.endswith("Supported assignors: range.")
    assert not isinstance(await group_bench.consume("a", server_assignor="range"), Rejection)


@pytest.mark.parametrize(
    ("policy", "is_upgraded"),
    [("bidirectional", True), ("Upgrade", True), ("downgrade", False), ("disabled", False)],
)
def test_a_classic_group_is_upgraded_where_the_policy_allows_it(
    policy: str, *, is_upgraded: bool
) -> None:
    async def main(group_bench: GroupBench) -> None:
        join_reply = await group_bench.join(protocols=(("range", SUBSCRIPTION),))
        assignments = {join_reply.member_id: write_assignment(0, {"orders": [0, 1, 2]})}
        await group_bench.sync(join_reply.member_id, join_reply.generation, assignments=assignments)
        answer = await group_bench.consume("a")
        assert isinstance(group_bench.group(), ConsumerGroup) is is_upgraded
        if not is_upgraded:
            assert answer.error is E.group_id_not_found
            assert answer.reason.endswith("because online upgrade is disabled.")

    run_groups(main, group_consumer_migration_policy=policy)


@within(run_groups)
async def test_an_upgrade_that_the_log_refused_for_a_while_is_tried_again(
    group_bench: GroupBench,
) -> None:
    join_reply = await group_bench.join(protocols=(("range", SUBSCRIPTION),))
    assignments = {join_reply.member_id: write_assignment(0, {"orders": [0, 1, 2]})}
    await group_bench.sync(join_reply.member_id, join_reply.generation, assignments=assignments)
    group_bench.log.refusal = E.not_enough_replicas
    assert (await group_bench.consume("a")).error is E.coordinator_not_available
    assert isinstance(group_bench.group(), ClassicGroup)
    group_bench.log.refusal = None
    assert not isinstance(await group_bench.consume("a"), Rejection)
    assert isinstance(group_bench.group(), ConsumerGroup)


@pytest.mark.parametrize(
    ("policy", "can_join", "is_downgraded"),
    [
        ("bidirectional", True, True),
        ("downgrade", True, True),
        ("upgrade", True, False),
        ("disabled", False, False),
    ],
)
def test_a_consumer_group_is_mixed_and_downgraded_where_the_policy_allows_it(
    policy: str, *, can_join: bool, is_downgraded: bool
) -> None:
    async def main(group_bench: GroupBench) -> None:
        await group_bench.consume("a")
        join_reply = await group_bench.join(protocols=(("range", SUBSCRIPTION),))
        expected_error = E.none if can_join else E.inconsistent_group_protocol
        assert join_reply.error is expected_error
        await group_bench.consume("a", LEFT_EPOCH)
        assert isinstance(group_bench.group(), ClassicGroup) is is_downgraded

    run_groups(main, group_consumer_migration_policy=policy)


# Members of classic groups from the outside: who waits, which timer fires, what is written.


@within(run_groups)
async def test_a_generation_is_answered_when_its_assignment_is_replicated(
    group_bench: GroupBench,
) -> None:
    member = (await group_bench.join()).member_id
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.sync(member, assignments={member: b"mine"}))
    await group_bench.pass_ms(1_000)
    assert not waits_task.done()
    assert group_bench.group().state_name == "CompletingRebalance"
    group_bench.log.release()
    assert (await waits_task).assignment == b"mine"
    assert group_bench.group().state_name == "Stable"
    assert not group_bench.groups.members._waiting_answers


@within(run_groups)
async def test_an_assignment_that_is_not_replicated_starts_a_rebalance(
    group_bench: GroupBench,
) -> None:
    member = (await group_bench.join()).member_id
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.sync(member, assignments={member: b"mine"}))
    await group_bench.pass_ms(10)
    group_bench.log.release(E.request_timed_out)
    assert (await waits_task).error is E.coordinator_not_available
    assert group_bench.group().state_name == "PreparingRebalance"


@within(run_groups)
async def test_an_assignment_that_the_log_refuses_starts_a_rebalance(
    group_bench: GroupBench,
) -> None:
    member = (await group_bench.join()).member_id
    group_bench.log.refusal = E.not_enough_replicas
    assert (
        await group_bench.sync(member, assignments={member: b""})
    ).error is E.coordinator_not_available
    assert group_bench.group().state_name == "PreparingRebalance"


@within(run_groups)
async def test_a_failed_write_of_a_new_group_is_the_answer_to_who_waits(
    group_bench: GroupBench,
) -> None:
    group_bench.log.refusal = E.not_leader_or_follower
    assert (await group_bench.join()).error is E.not_coordinator
    assert (await group_bench.join(member_id_required=True)).error is E.member_id_required
    assert group_bench.groups.list() == ()


@within(run_groups)
async def test_a_new_group_is_written_before_its_id_is_answered(group_bench: GroupBench) -> None:
    join_reply = await group_bench.join(member_id_required=True)
    assert join_reply.error is E.member_id_required
    assert len(group_bench.log.batches) == 1


@within(run_groups)
async def test_who_is_silent_for_its_session_is_removed(group_bench: GroupBench) -> None:
    member = await group_bench.stable()
    await group_bench.pass_ms(9_000)
    assert group_bench.heartbeat(member) is E.none
    await group_bench.pass_ms(9_000)
    assert group_bench.group().state_name == "Stable"
    await group_bench.pass_ms(1_001)
    assert group_bench.group().is_empty
    assert group_bench.heartbeat(member) is E.unknown_member_id


@within(run_groups)
async def test_advancing_the_cluster_clock_expels_no_member(group_bench: GroupBench) -> None:
    member = await group_bench.stable()
    group_bench.env.clock.advance(3_600_000)
    assert group_bench.heartbeat(member) is E.none


@within(run_groups)
async def test_a_commit_of_positions_is_a_sign_of_life(group_bench: GroupBench) -> None:
    member = await group_bench.stable()
    for _ in range(3):
        await group_bench.pass_ms(6_000)
        await group_bench.commit(1, member_id=member, generation=1)
    assert group_bench.heartbeat(member) is E.none


@within(run_groups)
async def test_who_has_joined_and_does_not_sync_is_removed(group_bench: GroupBench) -> None:
    member = (await group_bench.join(rebalance_timeout_ms=7_000)).member_id
    await group_bench.pass_ms(6_000)
    assert group_bench.heartbeat(member) is E.none
    await group_bench.pass_ms(1_001)
    assert group_bench.heartbeat(member) is E.unknown_member_id


@within(run_groups)
async def test_who_does_not_join_again_in_time_is_left_behind(group_bench: GroupBench) -> None:
    old_member = await group_bench.stable(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    waits_task = group_bench.later(group_bench.join())
    await group_bench.pass_ms(19_000)
    assert group_bench.heartbeat(old_member) is E.rebalance_in_progress
    assert not waits_task.done()
    await group_bench.pass_ms(1_001)
    assert (await waits_task).generation == 2
    assert group_bench.heartbeat(old_member, 2) is E.unknown_member_id


@within(run_groups, group_initial_rebalance_delay_ms=3_000)
async def test_a_first_rebalance_waits_for_more_members(group_bench: GroupBench) -> None:
    first_join_task = group_bench.later(group_bench.join())
    await group_bench.pass_ms(2_000)
    second_join_task = group_bench.later(group_bench.join())
    await group_bench.pass_ms(1_500)
    assert not first_join_task.done()  # somebody came, so the delay began anew
    await group_bench.pass_ms(2_000)
    assert {(await first_join_task).generation, (await second_join_task).generation} == {1}


@within(run_groups)
async def test_who_waits_when_the_partition_moves_is_sent_away(group_bench: GroupBench) -> None:
    leader = await group_bench.stable()
    joins_task = group_bench.later(group_bench.join())
    await group_bench.pass_ms(1)
    group_bench.unload()
    assert (await joins_task).error is E.not_coordinator
    group_bench.load()
    assert group_bench.heartbeat(leader) is E.none

    joins_task = group_bench.later(group_bench.join())
    await group_bench.pass_ms(1)
    await group_bench.join(leader)
    follower = (await joins_task).member_id
    syncs_task = group_bench.later(group_bench.sync(follower, 2))
    await group_bench.pass_ms(1)
    group_bench.unload()
    assert (await syncs_task).error is E.not_coordinator


@within(run_groups)
async def test_nothing_fires_for_a_group_that_has_moved_or_was_deleted(
    group_bench: GroupBench,
) -> None:
    await group_bench.stable()
    group_bench.unload()
    await group_bench.pass_ms(60_000)
    group_bench.load()
    member = next(iter(_members(group_bench)))
    await group_bench.leave(member)
    assert await group_bench.groups.delete(GROUP) is None
    await group_bench.pass_ms(600_000)
    assert group_bench.groups.list() == ()


@within(run_groups)
async def test_members_of_a_loaded_group_have_a_session_to_show_themselves(
    group_bench: GroupBench,
) -> None:
    member = await group_bench.stable()
    group_bench.unload()
    group_bench.load()
    assert tuple(_members(group_bench)) == (member,)
    await group_bench.pass_ms(10_001)
    assert group_bench.group().is_empty


@within(run_groups)
async def test_a_write_that_ends_after_the_partition_has_moved_changes_nothing(
    group_bench: GroupBench,
) -> None:
    member = (await group_bench.join()).member_id
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.sync(member, assignments={member: b"mine"}))
    await group_bench.pass_ms(1)
    group_bench.unload()
    assert (await waits_task).error is E.not_coordinator
    group_bench.load()
    group_bench.log.release()
    await group_bench.pass_ms(1)
    assert group_bench.group().state_name == "Stable"  # the record was there when it was loaded


@within(run_groups)
async def test_a_write_that_ends_after_the_partition_was_loaded_again_moves_no_timer(
    group_bench: GroupBench,
) -> None:
    """Timers belong to a partition: one of the shard before would take the place of one that is
    needed, and do nothing when it is due.
    """
    member = (
        await group_bench.join(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    ).member_id
    group_bench.log.is_held = True
    syncs_task = group_bench.later(group_bench.sync(member, assignments={member: b"mine"}))
    await group_bench.pass_ms(1)
    group_bench.unload()
    assert (await syncs_task).error is E.not_coordinator
    group_bench.load()
    joins_task = group_bench.later(group_bench.join(rebalance_timeout_ms=20_000))
    await group_bench.pass_ms(1)
    group_bench.log.release()
    await group_bench.pass_ms(20_000)
    assert joins_task.done(), "the rebalance has ended without the silent member"


@within(run_groups)
async def test_a_static_member_whose_new_id_can_not_be_written_keeps_the_old_one(
    group_bench: GroupBench,
) -> None:
    member = await group_bench.stable(group_instance_id="i")
    group_bench.log.refusal = E.not_enough_replicas
    back = await group_bench.join(group_instance_id="i")
    assert back.error is E.coordinator_not_available
    group_bench.log.refusal = None
    assert tuple(_members(group_bench)) == (member,)


@within(run_groups)
async def test_a_group_of_another_protocol_has_no_classic_members(group_bench: GroupBench) -> None:
    await group_bench.consume("a")
    assert group_bench.heartbeat("a") is E.unknown_member_id
    assert (await group_bench.sync("a")).error is E.unknown_member_id
    assert (await group_bench.leave("b")).members[0][2] is E.unknown_member_id
    unknown_reply = await group_bench.groups.leave(
        LeaveGroup(group_id="missing", members=(("m", None),))
    )
    assert unknown_reply.members == (("m", None, E.unknown_member_id),)


@within(run_groups)
async def test_the_log_of_a_generation_is_what_a_new_coordinator_finds(
    group_bench: GroupBench,
) -> None:
    member = await group_bench.stable()
    group_before = group_bench.group()
    group_bench.unload()
    group_bench.load()
    group_after = group_bench.group()
    assert isinstance(group_before, ClassicGroup)
    assert isinstance(group_after, ClassicGroup)
    assert group_after.to_record() == group_before.to_record()
    assert (await group_bench.sync(member)).assignment == b"assigned"
    assert HOME in range(3)


def _members(group_bench: GroupBench) -> dict[str, object]:
    group = group_bench.group()
    assert isinstance(group, ClassicGroup)
    return dict(group.members)


# Positions of transactions in the trace.


T_PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
PID = ProducerId(7)


def owner() -> Ownership[GroupShard]:
    return Ownership(
        topic=CONSUMER_OFFSETS_TOPIC,
        kind="group",
        broker_id=BrokerId(2),
        partition_count=9,
    )


def test_a_snapshot_has_positions_and_what_waits() -> None:
    shard = GroupShard(partition=5, coordinator_epoch=0)
    partition_owner = owner()
    partition_owner.owned[5] = shard
    trace = OffsetTrace(Tracer(lambda: 0), partition_owner)
    for topic_partition, offset, pid in ((T_PARTITIONS[0], 3, None), (T_PARTITIONS[1], 4, PID)):
        record = OffsetCommitted(
            group_id="g", topic_partition=topic_partition, position=offset, commit_timestamp_ms=0
        )
        shard.offsets.apply_commits(
            (record,),
            base_offset=offset,
            producer_id=pid,
            high_watermark=NO_RECORD_LIMIT,
        )
    node_name = "broker/2/group/5"
    assert list(trace.positions()) == [
        PositionNow(node=node_name, group="g", tp="t-0", offset=3),
        PositionNow(node=node_name, group="g", tp="t-1", offset=4, pid=PID),
    ]


def test_positions_wait_for_the_marker_that_decides_them() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    trace, shard = OffsetTrace(tracer, owner()), GroupShard(partition=5, coordinator_epoch=0)
    trace.trace_pending(
        shard,
        CommitOffsets(
            group_id="g",
            positions=tuple(
                NewPosition(topic_partition=topic_partition, offset=3)
                for topic_partition in T_PARTITIONS
            ),
        ),
        CommittingProducer(
            transactional_id=TransactionalId("app"),
            producer_id=PID,
            producer_epoch=ProducerEpoch(1),
        ),
        ((T_PARTITIONS[0], ErrorCode.none), (T_PARTITIONS[1], ErrorCode.offset_metadata_too_large)),
    )
    record = OffsetCommitted(
        group_id="g", topic_partition=T_PARTITIONS[0], position=3, commit_timestamp_ms=0
    )
    shard.offsets.apply_commits(
        (record,),
        base_offset=0,
        producer_id=PID,
        high_watermark=NO_RECORD_LIMIT,
    )
    for committed in (True, False):
        marker = TxnMarker(
            producer_id=PID,
            producer_epoch=ProducerEpoch(1),
            committed=committed,
            coordinator_epoch=CoordinatorEpoch(0),
            transaction_version=2,
            partitions=(),
        )
        trace.trace_decision(shard, marker)
    position_fields = {"group": "g", "tp": "t-0", "offset": 3, "pid": 7}
    events = list(tracer.events())
    assert [(event.k, event.tx, event.d) for event in events] == [
        ("group.offset_pending", "app/7:1", position_fields),
        ("group.offset_commit", "", position_fields),
        ("group.offset_abort", "", position_fields),
    ]
    assert tracer.nodes == ("broker/2/group/5",)


# Timers of groups: one per kind, group and member, and none of what is gone.


class ArmedTimers:
    """Timers of one shard; the members whose timer fired, in order."""

    def __init__(self, group_bench: GroupBench) -> None:
        self.timers = GroupTimers(clock=group_bench.env.clock, tasks=group_bench.env.tasks)
        self.shard = GroupShard(partition=3, coordinator_epoch=0)
        self.fired: list[str] = []
        self.together: list[int] = []
        self.after_first: Callable[[], object] = lambda: None

    def arm(
        self, member_id: str, delay_ms: int, *, group_id: str = "g", keeps_first: bool = False
    ) -> None:
        timer = TimerSet(
            kind=TimerKind.HEARTBEAT,
            group_id=group_id,
            member_id=member_id,
            delay_ms=delay_ms,
            keeps_first=keeps_first,
        )
        self.timers.arm(self.shard, timer, self._due)

    def disarm(self, member_id: str) -> None:
        cancelled = TimerCancelled(kind=TimerKind.HEARTBEAT, group_id="g", member_id=member_id)
        self.timers.disarm(self.shard, cancelled)

    def _due(self, shard: GroupShard, timers: Sequence[TimerSet]) -> None:
        assert shard is self.shard
        if not self.together:
            self.after_first()
        self.together.append(len(timers))
        self.fired += [timer.member_id for timer in timers]


@within(run_groups)
async def test_a_timer_that_is_armed_again_is_moved_unless_the_first_one_counts(
    group_bench: GroupBench,
) -> None:
    armed = ArmedTimers(group_bench)
    armed.arm("a", 10)
    armed.arm("a", 30)
    armed.arm("b", 20)
    armed.arm("b", 40, keeps_first=True)
    await asyncio.sleep(0.025)
    assert armed.fired == ["b"]
    await asyncio.sleep(0.025)
    assert armed.fired == ["b", "a"]
    armed.arm("b", 10, keeps_first=True)
    await asyncio.sleep(0.011)
    assert armed.fired == ["b", "a", "b"]


@within(run_groups)
async def test_what_is_gone_does_not_fire(group_bench: GroupBench) -> None:
    armed = ArmedTimers(group_bench)
    for member, group in (("a", "g"), ("b", "g"), ("c", "h")):
        armed.arm(member, 10, group_id=group)
    armed.disarm("a")
    armed.timers.disarm(armed.shard, TimerCancelled(kind=TimerKind.SYNC, group_id="g"))
    armed.timers.forget(armed.shard, "g")
    await asyncio.sleep(0.011)
    assert armed.fired == ["c"]
    armed.arm("d", 10)
    armed.timers.unload(armed.shard)
    armed.timers.unload(armed.shard)
    await asyncio.sleep(0.011)
    assert armed.fired == ["c"]


@within(run_groups)
async def test_many_that_are_due_together_run_in_slices_each_group_s_as_one(
    group_bench: GroupBench,
) -> None:
    armed = ArmedTimers(group_bench)
    members = [f"m{member_number}" for member_number in range(5 * DECIDED_TOGETHER)]
    for member in members:
        armed.arm(member, 10)
        armed.arm(member, 10, group_id="h")
    await asyncio.sleep(0.011)
    assert len(armed.fired) == 2 * len(members)
    assert armed.together[:TURN_TIMERS] == [1] * TURN_TIMERS
    assert max(armed.together) == DECIDED_TOGETHER
    assert len(armed.together) == TURN_TIMERS + 2 * 5
    for member in members[:3]:
        armed.arm(member, 10)
    await asyncio.sleep(0.011)
    assert sorted(armed.fired[-3:]) == members[:3], "a new turn has room"
    assert armed.together[-3:] == [1, 1, 1]


@within(run_groups)
async def test_who_shows_itself_while_its_timer_waits_for_a_turn_stays(
    group_bench: GroupBench,
) -> None:
    armed = ArmedTimers(group_bench)
    members = [f"m{timer_number}" for timer_number in range(TURN_TIMERS + 4)]
    for member in members:
        armed.arm(member, 10)
    waiting_members: list[str] = []

    def meanwhile() -> None:
        waiting_members[:] = [member for member in members if member not in armed.fired]
        armed.disarm(waiting_members[0])
        armed.arm(waiting_members[1], 50)

    armed.after_first = lambda: group_bench.env.tasks.run_soon(meanwhile)
    await asyncio.sleep(0.02)
    assert len(waiting_members) == 4
    assert sorted(armed.fired[TURN_TIMERS:]) == waiting_members[2:]
    await asyncio.sleep(0.05)
    assert armed.fired[-1] == waiting_members[1]


@within(run_groups)
async def test_timers_that_wait_for_a_turn_end_with_their_shard(group_bench: GroupBench) -> None:
    armed = ArmedTimers(group_bench)
    for timer_number in range(TURN_TIMERS + 4):
        armed.arm(f"m{timer_number}", 10)
    armed.after_first = lambda: group_bench.env.tasks.run_soon(
        lambda: armed.timers.unload(armed.shard)
    )
    await asyncio.sleep(0.02)
    assert len(armed.fired) == TURN_TIMERS


@within(run_groups)
async def test_timers_wait_for_a_decision_about_their_group_that_takes_slices(
    group_bench: GroupBench,
) -> None:
    armed = ArmedTimers(group_bench)
    members = [f"m{member_number}" for member_number in range(3 * DECIDED_TOGETHER + 2)]
    for member in members:
        armed.arm(member, 10)
    armed.arm("other", 10, group_id="h")
    async with armed.timers.lines.lock_of(3, "g"):
        await asyncio.sleep(0.02)
        assert armed.fired == ["other"]
        armed.disarm(members[0])
        armed.arm(members[1], 50)
    await asyncio.sleep(0.02)
    assert sorted(armed.fired) == sorted(["other", *members[2:]])
    assert armed.together == [1] + [DECIDED_TOGETHER] * 3
    await asyncio.sleep(0.05)
    assert armed.fired[-1] == members[1]
    async with armed.timers.lines.lock_of(3, "g"):
        armed.arm("last", 10)
        await asyncio.sleep(0.02)
        armed.disarm("last")
    await asyncio.sleep(0.02)
    assert armed.fired[-1] == members[1], "it has shown itself meanwhile"


@within(run_groups)
async def test_hundreds_of_silent_members_leave_in_few_decisions(group_bench: GroupBench) -> None:
    for member_number in range(200):
        await group_bench.consume(f"m{member_number}")
    batches_before = len(group_bench.log.batches)
    await asyncio.sleep(60)
    group = group_bench.groups.find(GROUP)
    assert not isinstance(group, Rejection)
    assert group.is_empty
    assert len(group_bench.log.batches) - batches_before < 30, "records of the leavers"


@within(run_groups)
async def test_a_generation_of_hundreds_answers_all_and_nobody_passes_another(
    group_bench: GroupBench,
) -> None:
    joins = [group_bench.later(group_bench.join()) for _ in range(300)]
    replies = [await join_task for join_task in joins]
    assert {reply.error for reply in replies} == {E.none}
    assert {reply.generation for reply in replies} == {1}
    leader = next(reply for reply in replies if reply.members)
    assert len(leader.members) == 300
    for reply in replies:
        assert group_bench.heartbeat(reply.member_id, generation=1) is E.none


# What the log or the transaction's coordinator refuses, in the words of a group coordinator.


@pytest.mark.parametrize(
    ("coordinator_error_code", "errors"),
    [
        (
            E.coordinator_not_available,
            [
                E.unknown_topic_or_partition,
                E.not_enough_replicas,
                E.not_enough_replicas_after_append,
                E.request_timed_out,
            ],
        ),
        (E.not_coordinator, [E.not_leader_or_follower, E.kafka_storage_error]),
        (
            E.unknown_server_error,
            [E.message_too_large, E.record_list_too_large, E.invalid_fetch_size],
        ),
        (E.coordinator_load_in_progress, [E.network_exception, E.coordinator_load_in_progress]),
    ],
)
def test_errors_of_a_log_become_states_of_the_coordinator(
    coordinator_error_code: ErrorCode, errors: list[ErrorCode]
) -> None:
    assert {coordinator_error(error) for error in errors} == {coordinator_error_code}


@pytest.mark.parametrize(
    "error",
    [
        E.none,
        E.transaction_abortable,
        E.concurrent_transactions,
        E.invalid_txn_state,
        E.invalid_producer_id_mapping,
        E.invalid_producer_epoch,
        E.coordinator_not_available,
        E.not_coordinator,
    ],
)
def test_other_errors_stay_as_they_are(error: ErrorCode) -> None:
    assert coordinator_error(error) is error


MEMBER_NAMES = tuple(f"name-{name_number}" for name_number in range(5_000))


def consumes(group_bench: GroupBench, member_id: str, pace: Pace | None = None) -> Any:
    return group_bench.consume(member_id, pace=pace, topic_names=MEMBER_NAMES)


def shares(group_bench: GroupBench, member_id: str, pace: Pace | None = None) -> Any:
    return group_bench.share(member_id, 0, *MEMBER_NAMES, pace=pace)


@pytest.mark.parametrize("joins", [consumes, shares])
@within(run_groups)
async def test_a_heartbeat_with_many_names_is_the_same_in_slices(
    group_bench: GroupBench, joins: Callable[..., Any]
) -> None:
    reply_at_once = await joins(group_bench, "a")
    at_once = group_bench.log.batches.pop()
    group_bench.unload()
    group_bench.load()
    group_bench.log.end = 0
    waits_task = group_bench.later(joins(group_bench, "a", group_bench.pace()))
    await asyncio.sleep(0)
    assert group_bench.log.batches == []
    assert await waits_task == reply_at_once
    assert group_bench.log.batches == [at_once]


@pytest.mark.parametrize("joins", [consumes, shares])
@within(run_groups)
async def test_who_comes_between_the_slices_of_a_heartbeat_is_in_its_group(
    group_bench: GroupBench, joins: Callable[..., Any]
) -> None:
    waits_task = group_bench.later(joins(group_bench, "a", group_bench.pace()))
    await asyncio.sleep(0)
    assert (await joins(group_bench, "b")).member_id == "b"
    assert (await waits_task).member_id == "a"
    assert set(group_bench.group().members) == {"a", "b"}


@pytest.mark.parametrize("joins", [consumes, shares])
@within(run_groups)
async def test_a_heartbeat_whose_partition_moves_between_its_slices_is_sent_away(
    group_bench: GroupBench, joins: Callable[..., Any]
) -> None:
    waits_task = group_bench.later(joins(group_bench, "a", group_bench.pace()))
    await asyncio.sleep(0)
    group_bench.unload()
    assert (await waits_task).error is E.not_coordinator
    assert group_bench.log.batches == []


@within(run_groups)
async def test_a_small_heartbeat_that_assigns_many_members_has_breaks(
    group_bench: GroupBench,
) -> None:
    members = [f"m{member_number:04}" for member_number in range(1_100)]
    for member_id in members:
        await group_bench.consume(member_id)
    await group_bench.pass_ms(2_000)  # the interval between two assignments
    batch_count_before = len(group_bench.log.batches)
    waits_task = group_bench.later(group_bench.consume("last"))
    await asyncio.sleep(0)
    assert len(group_bench.log.batches) == batch_count_before
    assert (await waits_task).member_epoch == group_bench.group().assignment_epoch
    assert len(group_bench.log.batches) == batch_count_before + 1
    assert set(group_bench.group().target) == {*members, "last"}


FOREIGN_TIMERS = [
    *(("classic", kind) for kind in (TimerKind.ASSIGNMENT, TimerKind.REVOCATION)),
    *(("share", kind) for kind in TimerKind if kind is not TimerKind.HEARTBEAT),
    *(("streams", kind) for kind in (TimerKind.JOIN, TimerKind.SYNC)),
]
"""Types of groups and the timers that they do not have."""


@pytest.mark.parametrize(("group_type", "kind"), FOREIGN_TIMERS)
def test_a_timer_that_a_group_does_not_have_is_a_bug(group_type: str, kind: TimerKind) -> None:
    async def fire(group_bench: GroupBench) -> None:
        await group_bench.join()
        shard = group_bench.groups._shard_of(GROUP)
        assert isinstance(shard, GroupShard)
        groups = group_bench.groups
        on_fire = {
            "classic": groups.members._on_due_timers,
            "share": groups.shares._remove_silent_members,
            "streams": groups.streams._on_due_timers,
        }[group_type]
        timer = TimerSet(kind=kind, group_id=GROUP, member_id="a", delay_ms=1_000)
        reason = f"the {group_type} group {GROUP} has no timer {kind.name}"
        with pytest.raises(InvariantViolation, match=reason):
            on_fire(shard, (timer,))

    run_groups(fire)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (Rules(), E.coordinator_not_available),
        (Rules(last_leaver_waits_for_log=False), E.none),
    ],
)
def test_the_last_member_that_leaves_waits_for_the_log_since_4_0(
    rules: Rules, error: ErrorCode
) -> None:
    async def main(group_bench: GroupBench) -> None:
        member_id = await group_bench.stable()
        group_bench.log.refusal = E.not_enough_replicas
        assert (await group_bench.leave(member_id)).error is error
        assert group_bench.heartbeat(member_id) is E.unknown_member_id

    run_groups(main, rules=rules)


@pytest.mark.parametrize(
    ("rules", "is_deleted"),
    [(Rules(), False), (Rules(deletion_waits_for_log=False), True)],
)
def test_a_group_is_deleted_behind_what_was_written_before_since_4_1(
    rules: Rules, is_deleted: bool
) -> None:
    async def main(group_bench: GroupBench) -> None:
        member_id = await group_bench.stable()
        group_bench.log.is_held = True
        leaving_task = group_bench.later(group_bench.leave(member_id))
        await group_bench.pass_ms(1)
        deleting_task = group_bench.later(group_bench.groups.delete(GROUP))
        await group_bench.pass_ms(1)
        group_bench.log.release(E.request_timed_out)
        refusal = await deleting_task
        assert refusal is not None
        assert refusal.error is E.coordinator_not_available
        assert (await leaving_task).error is E.coordinator_not_available
        assert isinstance(group_bench.groups.find(GROUP), Rejection) is is_deleted

    run_groups(main, rules=rules)
