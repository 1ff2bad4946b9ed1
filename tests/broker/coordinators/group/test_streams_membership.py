"""Streams groups from the outside: when members are answered, timers, loads, other protocols."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.consumer_groups import GROUP
from tests.support.group_world import HOME, GroupBench, run_groups
from tests.support.streams_groups import codes, counting_image, heartbeat, tasks
from tests.support.within_environment import within
from txnsim.coordinators.group._streams_trace import TOLD_MAX
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.streams.commands import StreamsReply
from txnsim.group.streams.group import StreamsGroup
from txnsim.group.streams.tasks import Tasks
from txnsim.group.streams.topology import TopologyStatus
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.wire.batch import read_records

E = ErrorCode
ALL = Tasks(active=tasks("0_0", "0_1", "1_0", "1_1"))
_OTHER = Rejection(error=E.group_id_not_found, reason=f"Group {GROUP} is not a streams group.")


async def send_heartbeat(
    group_bench: GroupBench, member_id: str, epoch: int = 0, **request_fields: Any
) -> StreamsReply | Rejection:
    """Send a heartbeat to the coordinator."""
    return await group_bench.groups.streams_heartbeat(heartbeat(member_id, epoch, **request_fields))


async def beat_reply(
    group_bench: GroupBench, member_id: str, epoch: int = 0, **request_fields: Any
) -> StreamsReply:
    """Send a heartbeat that must not be refused; return the reply."""
    reply = await send_heartbeat(group_bench, member_id, epoch, **request_fields)
    assert isinstance(reply, StreamsReply), reply
    return reply


def assign_at_once(group_bench: GroupBench) -> None:
    group_bench.image = counting_image()
    group_bench.settings = group_bench.settings.__class__(
        offsets_topic_num_partitions=group_bench.settings.offsets_topic_num_partitions,
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
    )


def group_of(group_bench: GroupBench) -> StreamsGroup:
    group = group_bench.group()
    assert isinstance(group, StreamsGroup)
    return group


@within(run_groups)
async def test_a_member_is_answered_when_its_records_are_replicated(
    group_bench: GroupBench,
) -> None:
    assign_at_once(group_bench)
    group_bench.log.is_held = True
    join_future = group_bench.later(send_heartbeat(group_bench, "a"))
    await group_bench.pass_ms(1)
    assert not join_future.done()
    group_bench.log.release()
    reply = await join_future
    assert isinstance(reply, StreamsReply)
    assert reply.tasks == ALL
    count = len(group_bench.log.batches)
    await beat_reply(group_bench, "a", reply.member_epoch)
    assert len(group_bench.log.batches) == count, "nothing new, nothing written"


@within(run_groups)
async def test_a_log_that_does_not_take_it_fails_the_heartbeat(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    group_bench.log.refusal = E.not_enough_replicas
    refusal = await send_heartbeat(group_bench, "a")
    assert isinstance(refusal, Rejection)
    assert refusal.error is E.coordinator_not_available
    assert isinstance(group_bench.groups.find(GROUP), Rejection), "there is no group"
    group_bench.log.refusal = None
    group_bench.log.is_held = True
    join_future = group_bench.later(send_heartbeat(group_bench, "a"))
    await group_bench.pass_ms(1)
    group_bench.log.release(E.request_timed_out)
    refusal = await join_future
    assert isinstance(refusal, Rejection)


@within(run_groups)
async def test_the_first_assignment_waits(group_bench: GroupBench) -> None:
    group_bench.image = counting_image()
    assert codes(await beat_reply(group_bench, "a")) == [TopologyStatus.ASSIGNMENT_DELAYED]
    assert codes(await beat_reply(group_bench, "b")) == [TopologyStatus.ASSIGNMENT_DELAYED]
    await group_bench.pass_ms(3_100)
    reply = await beat_reply(group_bench, "a", 1)
    assert reply.tasks == Tasks(active=tasks("0_1", "1_1"))


@within(run_groups)
async def test_a_silent_member_is_removed(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    await beat_reply(group_bench, "b")
    await group_bench.pass_ms(30_000)
    await beat_reply(group_bench, "a", 2, owned=Tasks())
    await group_bench.pass_ms(20_000)
    assert set(group_of(group_bench).members) == {"a"}
    await beat_reply(group_bench, "a", LEFT_EPOCH)
    await group_bench.pass_ms(60_000)
    assert group_of(group_bench).is_empty


@within(run_groups)
async def test_a_removal_that_the_log_refuses_is_left_to_the_next_load(
    group_bench: GroupBench,
) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    group_bench.log.refusal = E.not_enough_replicas
    await group_bench.pass_ms(46_000)
    assert set(group_of(group_bench).members) == {"a"}
    group_bench.log.refusal = None
    group_bench.load()
    await group_bench.pass_ms(46_000)
    assert group_of(group_bench).is_empty


@within(run_groups)
async def test_a_coordinator_that_loads_goes_on_with_sessions_and_revocations(
    group_bench: GroupBench,
) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    await beat_reply(group_bench, "b")
    await beat_reply(group_bench, "a", 2)
    group_bench.load()
    group = group_of(group_bench)
    assert set(group.members) == {"a", "b"}
    assert group.memory.configured_topology is None
    await group_bench.pass_ms(1_100)
    assert set(group_of(group_bench).members) == {"b"}, "its rebalance timeout is a second"
    await beat_reply(group_bench, "b", 3)
    assert group_of(group_bench).memory.configured_topology is not None


@within(run_groups)
async def test_timers_of_a_group_that_has_moved_mean_nothing(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    shard = next(iter(shard for shard in group_bench.groups.shards() if shard.partition == HOME))
    timer = group_bench.groups.streams.protocol.session_timer(GROUP, "a")
    group_bench.unload()
    group_bench.groups.streams._on_due_timers(shard, [timer])
    refusal = await send_heartbeat(group_bench, "a", 2)
    assert isinstance(refusal, Rejection)
    assert refusal.error is E.not_coordinator


@within(run_groups)
async def test_who_names_no_group_that_there_is(group_bench: GroupBench) -> None:
    for epoch in (3, LEFT_EPOCH):
        refusal = await send_heartbeat(group_bench, "a", epoch)
        assert isinstance(refusal, Rejection)
        assert refusal.error is E.group_id_not_found
    invalid = await send_heartbeat(group_bench, "", 3)
    assert isinstance(invalid, Rejection)
    assert invalid.error is E.invalid_request
    group_bench.groups.is_running = False
    stopped_reply = await send_heartbeat(group_bench, "a")
    assert isinstance(stopped_reply, Rejection)
    assert stopped_reply.error is E.coordinator_not_available


@within(run_groups)
async def test_a_refused_leaver_is_told_why(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a", instance_id="i")
    refusal = await send_heartbeat(group_bench, "b", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")
    assert isinstance(refusal, Rejection)
    assert refusal.error is E.fenced_instance_id
    await beat_reply(group_bench, "a", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")


@within(run_groups)
async def test_a_group_has_one_protocol_as_long_as_it_has_members(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    await group_bench.consume("m")
    group_bench.load()
    assert await send_heartbeat(group_bench, "a") == _OTHER
    assert await send_heartbeat(group_bench, "a", LEFT_EPOCH) == _OTHER
    await group_bench.consume("m", LEFT_EPOCH)
    assert await send_heartbeat(group_bench, "a") == _OTHER, (
        "an empty group of the consumer protocol stays one"
    )


@within(run_groups)
async def test_members_of_other_protocols_are_refused(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    consumer = await group_bench.consume("m")
    assert isinstance(consumer, Rejection)
    assert consumer.error is E.group_id_not_found
    assert (await group_bench.join()).error is E.inconsistent_group_protocol


@within(run_groups)
async def test_an_empty_group_becomes_classic_and_back(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    await beat_reply(group_bench, "a", LEFT_EPOCH)
    join_reply = await group_bench.join()
    assert join_reply.error is E.none
    assert isinstance(group_bench.group(), ClassicGroup)
    assert await send_heartbeat(group_bench, "a") == _OTHER
    await group_bench.leave(join_reply.member_id)
    await group_bench.pass_ms(1)
    assert (await beat_reply(group_bench, "a")).tasks == ALL


@within(run_groups)
async def test_topics_that_can_t_be_made_are_told_for_a_while(group_bench: GroupBench) -> None:
    streams_groups = group_bench.groups.streams
    streams_groups.keep_topic_problem("counts", "no", 1_000)
    assert streams_groups.topic_problems(["counts", "other"]) == {"counts": "no"}
    group_bench.env.clock.advance(1_000)
    assert streams_groups.topic_problems(["counts"]) == {}


@within(run_groups)
async def test_what_waits_for_the_log_is_decided_again(group_bench: GroupBench) -> None:
    assign_at_once(group_bench)
    answers: list[Rejection | None] = [
        Rejection(error=E.not_coordinator, reason="the log is gone"),
        None,
        None,
        None,
    ]
    is_joining = False
    is_moving = False

    async def wait() -> Rejection | None:
        nonlocal is_joining
        answer = answers.pop(0)
        if is_joining:
            is_joining = False
            await beat_reply(group_bench, "x", instance_id="i")
        if is_moving:
            group_bench.unload()
        return answer

    group_bench.log.admit = lambda *_: wait()  # type: ignore[assignment, return-value, method-assign]
    refusal = await send_heartbeat(group_bench, "a")
    assert refusal == Rejection(error=E.not_coordinator, reason="the log is gone")
    is_joining = True
    rejection = await send_heartbeat(group_bench, "a", instance_id="i")
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.unreleased_instance_id, "another has joined meanwhile"
    is_moving = True
    moved_rejection = await send_heartbeat(group_bench, "b")
    assert isinstance(moved_rejection, Rejection)
    assert moved_rejection.error is E.not_coordinator


def enlarge_assignments(group_bench: GroupBench) -> None:
    """Make the topics so large that an assignment takes several slices."""
    assign_at_once(group_bench)
    group_bench.image = counting_image(words=1_500, by_word=1_500, counts=1_500)


@within(run_groups)
async def test_a_large_decision_is_made_in_slices(group_bench: GroupBench) -> None:
    enlarge_assignments(group_bench)
    joins_task = group_bench.later(send_heartbeat(group_bench, "a"))
    await asyncio.sleep(0)
    assert not joins_task.done()
    assert group_bench.log.batches == []
    reply = await joins_task
    assert isinstance(reply, StreamsReply)
    assert len(reply.tasks.active) == 3_000
    assert len(group_bench.log.batches) == 1


@within(run_groups)
async def test_a_first_assignment_of_many_tasks_is_made_in_slices(group_bench: GroupBench) -> None:
    group_bench.image = counting_image(words=1_500, by_word=1_500, counts=1_500)
    for member_id in ("a", "b"):
        assert not (await beat_reply(group_bench, member_id)).tasks.active
    appended, slices = len(group_bench.log.batches), 0
    await group_bench.pass_ms(3_000)
    while group_bench.groups.streams.timers.lines.is_busy(HOME, GROUP):
        slices += 1
        await asyncio.sleep(0)
    assert slices > 1
    assert len(group_bench.log.batches) == appended + 1
    assert {len(group_of(group_bench).target[name].active) for name in ("a", "b")} == {1_500}


@within(run_groups)
async def test_who_comes_between_the_slices_of_a_large_decision_is_in_it(
    group_bench: GroupBench,
) -> None:
    enlarge_assignments(group_bench)
    first_reply_task, second_reply_task = (
        group_bench.later(send_heartbeat(group_bench, "a")),
        group_bench.later(send_heartbeat(group_bench, "b")),
    )
    assert isinstance(await first_reply_task, StreamsReply)
    assert isinstance(await second_reply_task, StreamsReply)
    group = group_of(group_bench)
    assert set(group.members) == {"a", "b"}
    assert {len(group.target[name].active) for name in ("a", "b")} == {1_500}


@within(run_groups)
async def test_what_many_records_make_of_a_group_is_what_its_log_says(
    group_bench: GroupBench,
) -> None:
    assign_at_once(group_bench)
    group_bench.image = counting_image(words=80, by_word=80, counts=80)
    for member_number in range(80):
        await beat_reply(group_bench, f"m{member_number}")
    living_group = group_of(group_bench)
    epoch, target, members = living_group.epoch, living_group.target, living_group.members
    assert max(len(read_records(batch)) for batch in group_bench.log.batches) > 64, "one append"
    group_bench.unload()
    group_bench.load()
    loaded_group = group_of(group_bench)
    assert loaded_group is not living_group
    assert (loaded_group.epoch, loaded_group.target, loaded_group.members) == (
        epoch,
        target,
        members,
    )


@within(run_groups)
async def test_a_large_decision_about_a_group_that_moves_is_sent_away(
    group_bench: GroupBench,
) -> None:
    enlarge_assignments(group_bench)
    joins_task = group_bench.later(send_heartbeat(group_bench, "a"))
    await asyncio.sleep(0)
    group_bench.unload()
    rejection = await joins_task
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.not_coordinator
    assert group_bench.log.batches == []


@within(run_groups)
async def test_the_trace_tells_what_members_have_where_somebody_is_told(
    group_bench: GroupBench,
) -> None:
    assign_at_once(group_bench)
    await beat_reply(group_bench, "a")
    trace = group_bench.groups.streams.trace
    tracer = trace.tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    await beat_reply(group_bench, "b")
    await beat_reply(group_bench, "a", 2)
    await beat_reply(group_bench, "a", 2, owned=Tasks(active=tasks("0_0", "1_0")))
    await beat_reply(group_bench, "b", LEFT_EPOCH)
    group_bench.unload()
    group_bench.load()
    kinds = [(event.k, event.d.get("member", "")) for event in tracer.events()]
    assert kinds == [
        ("streams.member", "b"),
        ("streams.member", "a"),
        ("streams.member", "a"),
        ("streams.left", "b"),
        ("streams.unload", ""),
        ("streams.member", "a"),
    ]
    assert [member["active"] for member in trace.members()] == [["0_0", "1_0"]]
    assert {tracer.nodes[event.n] for event in tracer.events()} == {f"broker/1/group/{HOME}"}


@within(run_groups)
async def test_of_very_many_tasks_the_trace_tells_the_first_ones(group_bench: GroupBench) -> None:
    enlarge_assignments(group_bench)
    trace = group_bench.groups.streams.trace
    tracer = trace.tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    await beat_reply(group_bench, "a")
    (event,) = tracer.events()
    assert event.d["active"][:2] == ["0_0", "0_1"]
    assert len(event.d["active"]) == TOLD_MAX
