"""Streams groups from the outside: when members are answered, timers, loads, other protocols."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.consumer_groups import GROUP
from tests.support.group_world import HOME, GroupWorld, run_groups
from tests.support.streams_groups import codes, counting_image, heartbeat, tasks
from tests.support.within_environment import within
from txnsim.coordinators.group._streams_trace import TOLD_MAX
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.streams.commands import StreamsReply
from txnsim.group.streams.group import StreamsGroup
from txnsim.group.streams.tasks import Tasks
from txnsim.group.streams.topology import Status
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.wire.batch import read_records

E = ErrorCode
ALL = Tasks(active=tasks("0_0", "0_1", "1_0", "1_1"))
_OTHER = Rejection(error=E.group_id_not_found, reason=f"Group {GROUP} is not a streams group.")


async def beat(
    world: GroupWorld, member_id: str, epoch: int = 0, **fields: Any
) -> StreamsReply | Rejection:
    """A heartbeat at the coordinator."""
    return await world.groups.streams_heartbeat(heartbeat(member_id, epoch, **fields))


async def beat_reply(
    world: GroupWorld, member_id: str, epoch: int = 0, **fields: Any
) -> StreamsReply:
    """The answer to one that must not be refused."""
    reply = await beat(world, member_id, epoch, **fields)
    assert isinstance(reply, StreamsReply), reply
    return reply


def assign_at_once(world: GroupWorld) -> None:
    world.image = counting_image()
    world.settings = world.settings.__class__(
        offsets_topic_num_partitions=world.settings.offsets_topic_num_partitions,
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
    )


def group_of(world: GroupWorld) -> StreamsGroup:
    group = world.group()
    assert isinstance(group, StreamsGroup)
    return group


@within(run_groups)
async def test_a_member_is_answered_when_its_records_are_replicated(world: GroupWorld) -> None:
    assign_at_once(world)
    world.log.is_held = True
    joined = world.later(beat(world, "a"))
    await world.pass_ms(1)
    assert not joined.done()
    world.log.release()
    reply = await joined
    assert isinstance(reply, StreamsReply)
    assert reply.tasks == ALL
    count = len(world.log.batches)
    await beat_reply(world, "a", reply.member_epoch)
    assert len(world.log.batches) == count, "nothing new, nothing written"


@within(run_groups)
async def test_a_log_that_does_not_take_it_fails_the_heartbeat(world: GroupWorld) -> None:
    assign_at_once(world)
    world.log.refusal = E.not_enough_replicas
    refused = await beat(world, "a")
    assert isinstance(refused, Rejection)
    assert refused.error is E.coordinator_not_available
    assert isinstance(world.groups.find(GROUP), Rejection), "there is no group"
    world.log.refusal = None
    world.log.is_held = True
    joined = world.later(beat(world, "a"))
    await world.pass_ms(1)
    world.log.release(E.request_timed_out)
    refused = await joined
    assert isinstance(refused, Rejection)


@within(run_groups)
async def test_the_first_assignment_waits(world: GroupWorld) -> None:
    world.image = counting_image()
    assert codes(await beat_reply(world, "a")) == [Status.ASSIGNMENT_DELAYED]
    assert codes(await beat_reply(world, "b")) == [Status.ASSIGNMENT_DELAYED]
    await world.pass_ms(3_100)
    reply = await beat_reply(world, "a", 1)
    assert reply.tasks == Tasks(active=tasks("0_1", "1_1"))


@within(run_groups)
async def test_a_silent_member_is_removed(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    await beat_reply(world, "b")
    await world.pass_ms(30_000)
    await beat_reply(world, "a", 2, owned=Tasks())
    await world.pass_ms(20_000)
    assert set(group_of(world).members) == {"a"}
    await beat_reply(world, "a", LEFT_EPOCH)
    await world.pass_ms(60_000)
    assert group_of(world).is_empty


@within(run_groups)
async def test_a_removal_that_the_log_refuses_is_left_to_the_next_load(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    world.log.refusal = E.not_enough_replicas
    await world.pass_ms(46_000)
    assert set(group_of(world).members) == {"a"}
    world.log.refusal = None
    world.load()
    await world.pass_ms(46_000)
    assert group_of(world).is_empty


@within(run_groups)
async def test_a_coordinator_that_loads_goes_on_with_sessions_and_revocations(
    world: GroupWorld,
) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    await beat_reply(world, "b")
    await beat_reply(world, "a", 2)
    world.load()
    group = group_of(world)
    assert set(group.members) == {"a", "b"}
    assert group.memory.configured is None
    await world.pass_ms(1_100)
    assert set(group_of(world).members) == {"b"}, "its rebalance timeout is a second"
    await beat_reply(world, "b", 3)
    assert group_of(world).memory.configured is not None


@within(run_groups)
async def test_timers_of_a_group_that_has_moved_mean_nothing(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    shard = next(iter(shard for shard in world.groups.shards() if shard.partition == HOME))
    timer = world.groups.streams.protocol.session_timer(GROUP, "a")
    world.unload()
    world.groups.streams._fire(shard, [timer])
    refused = await beat(world, "a", 2)
    assert isinstance(refused, Rejection)
    assert refused.error is E.not_coordinator


@within(run_groups)
async def test_who_names_no_group_that_there_is(world: GroupWorld) -> None:
    for epoch in (3, LEFT_EPOCH):
        refused = await beat(world, "a", epoch)
        assert isinstance(refused, Rejection)
        assert refused.error is E.group_id_not_found
    invalid = await beat(world, "", 3)
    assert isinstance(invalid, Rejection)
    assert invalid.error is E.invalid_request
    world.groups.is_running = False
    stopped = await beat(world, "a")
    assert isinstance(stopped, Rejection)
    assert stopped.error is E.coordinator_not_available


@within(run_groups)
async def test_a_refused_leaver_is_told_why(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a", instance_id="i")
    refused = await beat(world, "b", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")
    assert isinstance(refused, Rejection)
    assert refused.error is E.fenced_instance_id
    await beat_reply(world, "a", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")


@within(run_groups)
async def test_a_group_has_one_protocol_as_long_as_it_has_members(world: GroupWorld) -> None:
    assign_at_once(world)
    await world.consume("m")
    world.load()
    assert await beat(world, "a") == _OTHER
    assert await beat(world, "a", LEFT_EPOCH) == _OTHER
    await world.consume("m", LEFT_EPOCH)
    assert await beat(world, "a") == _OTHER, "an empty group of the consumer protocol stays one"


@within(run_groups)
async def test_members_of_other_protocols_are_refused(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    consumer = await world.consume("m")
    assert isinstance(consumer, Rejection)
    assert consumer.error is E.group_id_not_found
    assert (await world.join()).error is E.inconsistent_group_protocol


@within(run_groups)
async def test_an_empty_group_becomes_classic_and_back(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    await beat_reply(world, "a", LEFT_EPOCH)
    joined = await world.join()
    assert joined.error is E.none
    assert isinstance(world.group(), ClassicGroup)
    assert await beat(world, "a") == _OTHER
    await world.leave(joined.member_id)
    await world.pass_ms(1)
    assert (await beat_reply(world, "a")).tasks == ALL


@within(run_groups)
async def test_topics_that_can_t_be_made_are_told_for_a_while(world: GroupWorld) -> None:
    members = world.groups.streams
    members.keep_topic_problem("counts", "no", 1_000)
    assert members.topic_problems(["counts", "other"]) == {"counts": "no"}
    world.env.clock.advance(1_000)
    assert members.topic_problems(["counts"]) == {}


@within(run_groups)
async def test_what_waits_for_the_log_is_decided_again(world: GroupWorld) -> None:
    assign_at_once(world)
    answers: list[Rejection | None] = [
        Rejection(error=E.not_coordinator, reason="the log is gone"),
        None,
        None,
        None,
    ]
    joins = False
    moves = False

    async def wait() -> Rejection | None:
        nonlocal joins
        answer = answers.pop(0)
        if joins:
            joins = False
            await beat_reply(world, "x", instance_id="i")
        if moves:
            world.unload()
        return answer

    world.log.admit = lambda *_: wait()  # type: ignore[assignment, return-value, method-assign]
    refused = await beat(world, "a")
    assert refused == Rejection(error=E.not_coordinator, reason="the log is gone")
    joins = True
    rejection = await beat(world, "a", instance_id="i")
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.unreleased_instance_id, "another has joined meanwhile"
    moves = True
    moved = await beat(world, "b")
    assert isinstance(moved, Rejection)
    assert moved.error is E.not_coordinator


def many(world: GroupWorld) -> None:
    """Assignments take several slices."""
    assign_at_once(world)
    world.image = counting_image(words=1_500, by_word=1_500, counts=1_500)


@within(run_groups)
async def test_a_large_decision_is_made_in_slices(world: GroupWorld) -> None:
    many(world)
    joins = world.later(beat(world, "a"))
    await asyncio.sleep(0)
    assert not joins.done()
    assert world.log.batches == []
    reply = await joins
    assert isinstance(reply, StreamsReply)
    assert len(reply.tasks.active) == 3_000
    assert len(world.log.batches) == 1


@within(run_groups)
async def test_a_first_assignment_of_many_tasks_is_made_in_slices(world: GroupWorld) -> None:
    world.image = counting_image(words=1_500, by_word=1_500, counts=1_500)
    for member_id in ("a", "b"):
        assert not (await beat_reply(world, member_id)).tasks.active
    appended, slices = len(world.log.batches), 0
    await world.pass_ms(3_000)
    while world.groups.streams.timers.lines.is_busy(HOME, GROUP):
        slices += 1
        await asyncio.sleep(0)
    assert slices > 1
    assert len(world.log.batches) == appended + 1
    assert {len(group_of(world).target[name].active) for name in ("a", "b")} == {1_500}


@within(run_groups)
async def test_who_comes_between_the_slices_of_a_large_decision_is_in_it(
    world: GroupWorld,
) -> None:
    many(world)
    first_reply, second = world.later(beat(world, "a")), world.later(beat(world, "b"))
    assert isinstance(await first_reply, StreamsReply)
    assert isinstance(await second, StreamsReply)
    group = group_of(world)
    assert set(group.members) == {"a", "b"}
    assert {len(group.target[name].active) for name in ("a", "b")} == {1_500}


@within(run_groups)
async def test_what_many_records_make_of_a_group_is_what_its_log_says(world: GroupWorld) -> None:
    assign_at_once(world)
    world.image = counting_image(words=80, by_word=80, counts=80)
    for number in range(80):
        await beat_reply(world, f"m{number}")
    living = group_of(world)
    epoch, target, members = living.epoch, living.target, living.members
    assert max(len(read_records(batch)) for batch in world.log.batches) > 64, "one append"
    world.unload()
    world.load()
    loaded = group_of(world)
    assert loaded is not living
    assert (loaded.epoch, loaded.target, loaded.members) == (epoch, target, members)


@within(run_groups)
async def test_a_large_decision_about_a_group_that_moves_is_sent_away(world: GroupWorld) -> None:
    many(world)
    joins = world.later(beat(world, "a"))
    await asyncio.sleep(0)
    world.unload()
    refused = await joins
    assert isinstance(refused, Rejection)
    assert refused.error is E.not_coordinator
    assert world.log.batches == []


@within(run_groups)
async def test_the_trace_tells_what_members_have_where_somebody_is_told(world: GroupWorld) -> None:
    assign_at_once(world)
    await beat_reply(world, "a")
    trace = world.groups.streams.trace
    tracer = trace.tracer = Tracer(lambda: 0, level=TraceLevel.FULL, strict=True)
    await beat_reply(world, "b")
    await beat_reply(world, "a", 2)
    await beat_reply(world, "a", 2, owned=Tasks(active=tasks("0_0", "1_0")))
    await beat_reply(world, "b", LEFT_EPOCH)
    world.unload()
    world.load()
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
async def test_of_very_many_tasks_the_trace_tells_the_first_ones(world: GroupWorld) -> None:
    many(world)
    trace = world.groups.streams.trace
    tracer = trace.tracer = Tracer(lambda: 0, level=TraceLevel.FULL, strict=True)
    await beat_reply(world, "a")
    (event,) = tracer.events()
    assert event.d["active"][:2] == ["0_0", "0_1"]
    assert len(event.d["active"]) == TOLD_MAX
