"""The one way in which a group coordinator writes: decide, admit, decide again, append, wait."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.group_world import GROUP, HOME, GroupBench, run_groups
from tests.support.streams_groups import counting_image, heartbeat
from tests.support.within_environment import within
from txnsim.coordinators._write_operation import DecisionLocks
from txnsim.coordinators.group._group_timers import RETRY_MS
from txnsim.coordinators.group._group_writes import GroupWrite, GroupWrites
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.records import GroupRecord, OffsetDeleted
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, LOOKS, Pace
from txnsim.types import TopicPartition

RECORD = OffsetDeleted(group_id=GROUP, topic_partition=TopicPartition("orders", 0))
MOVED = Rejection(error=ErrorCode.not_coordinator, reason="the group has moved")
REFUSAL = Rejection(error=ErrorCode.not_enough_replicas, reason="a fault")
SESSION_MS = 45_000


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    records: tuple[GroupRecord, ...] = ()


class GroupWriter:
    """Write operations on the shard of a group, which count their decisions."""

    def __init__(self, group_bench: GroupBench) -> None:
        self.group_bench = group_bench
        self.decided = 0
        self.appended: list[int] = []
        self.is_current = True
        self.rejection: Rejection | None = None
        self.shard = group_bench.groups._ownership.owned[HOME]
        self.writes = GroupWrites(
            writer=group_bench.groups._writer,
            image=lambda: group_bench.image,
            refuse_moved=lambda _: None if self.is_current else MOVED,
            lines=DecisionLocks(),
        )

    def operation(
        self, records: tuple[GroupRecord, ...] = (RECORD,), element_count: int = 0
    ) -> GroupWrite[Decision]:
        def decide() -> Decision | Rejection:
            self.decided += 1
            return self.rejection or Decision(number=self.decided, records=records)

        def append(decision: Decision, records: object) -> int | Rejection | None:
            self.appended.append(decision.number)
            if not decision.records:
                return None
            return self.writes.writer.append(self.shard, decision.records)

        return GroupWrite(
            writes=self.writes,
            shard=self.shard,
            group_id=GROUP,
            decide=decide,
            element_count=element_count,
            append=append,
        )

    async def write(self, operation: GroupWrite[Decision]) -> Decision | Rejection:
        return await operation.run_and_wait()

    def pace(self) -> Pace:
        return Pace(self.group_bench.env.tasks.turns, self.group_bench.env.clock.stopwatch_ns)


class Hold:
    """A fault that holds appends until it is released, with an answer."""

    def __init__(self, group_bench: GroupBench) -> None:
        self.held = 0
        self._answer: asyncio.Future[Rejection | None] = asyncio.get_running_loop().create_future()
        group_bench.log.admission = self._admit

    async def _admit(self) -> Rejection | None:
        self.held += 1
        return await self._answer

    def release(self, rejection: Rejection | None = None) -> None:
        self._answer.set_result(rejection)


@within(run_groups)
async def test_a_write_is_answered_when_it_is_replicated(group_bench: GroupBench) -> None:
    group_writer = GroupWriter(group_bench)
    group_bench.log.is_held = True
    answer_task = group_bench.later(group_writer.write(group_writer.operation()))
    await group_bench.pass_ms(1)
    assert (group_writer.appended, answer_task.done()) == ([1], False)
    group_bench.log.release()
    assert await answer_task == Decision(number=1, records=(RECORD,))


@within(run_groups)
async def test_a_write_that_is_not_replicated_in_time_is_refused_though_appended(
    group_bench: GroupBench,
) -> None:
    group_writer = GroupWriter(group_bench)
    group_bench.log.is_held = True
    answer_task = group_bench.later(group_writer.write(group_writer.operation()))
    await group_bench.pass_ms(1)
    group_bench.log.release(ErrorCode.request_timed_out)
    refusal = await answer_task
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.coordinator_not_available
    assert group_writer.appended == [1]


@within(run_groups)
async def test_a_decision_without_records_waits_for_nothing(group_bench: GroupBench) -> None:
    group_writer = GroupWriter(group_bench)
    hold = Hold(group_bench)
    group_bench.log.is_held = True
    assert await group_writer.write(group_writer.operation(records=())) == Decision(number=1)
    assert (hold.held, group_writer.appended, group_bench.log.end) == (0, [1], 0)


@within(run_groups)
async def test_a_rejected_decision_appends_nothing(group_bench: GroupBench) -> None:
    group_writer = GroupWriter(group_bench)
    group_writer.rejection = REFUSAL
    assert await group_writer.write(group_writer.operation()) is REFUSAL
    assert (group_writer.appended, group_bench.log.end) == ([], 0)


@within(run_groups)
async def test_a_held_write_is_decided_again_when_the_log_lets_it(group_bench: GroupBench) -> None:
    group_writer = GroupWriter(group_bench)
    hold = Hold(group_bench)
    answer_task = group_bench.later(group_writer.write(group_writer.operation()))
    await group_bench.pass_ms(1)
    assert (hold.held, group_writer.decided, group_writer.appended) == (1, 1, [])
    hold.release()
    assert await answer_task == Decision(number=2, records=(RECORD,))
    assert group_writer.appended == [2]


@within(run_groups)
async def test_a_held_write_that_is_rejected_afterwards_appends_nothing(
    group_bench: GroupBench,
) -> None:
    group_writer = GroupWriter(group_bench)
    hold = Hold(group_bench)
    answer_task = group_bench.later(group_writer.write(group_writer.operation()))
    await group_bench.pass_ms(1)
    group_writer.rejection = REFUSAL
    hold.release()
    assert await answer_task is REFUSAL
    assert (group_writer.decided, group_writer.appended) == (2, [])


@within(run_groups)
async def test_a_write_whose_group_moves_while_it_is_held_appends_nothing(
    group_bench: GroupBench,
) -> None:
    group_writer = GroupWriter(group_bench)
    hold = Hold(group_bench)
    answer_task = group_bench.later(group_writer.write(group_writer.operation()))
    await group_bench.pass_ms(1)
    group_writer.is_current = False
    hold.release()
    assert await answer_task is MOVED
    assert (group_writer.decided, group_writer.appended) == (1, [])


@within(run_groups)
async def test_a_write_that_a_fault_refuses_is_not_decided_again(group_bench: GroupBench) -> None:
    group_writer = GroupWriter(group_bench)
    hold = Hold(group_bench)
    answer_task = group_bench.later(group_writer.write(group_writer.operation()))
    await group_bench.pass_ms(1)
    hold.release(REFUSAL)
    refusal = await answer_task
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.coordinator_not_available
    assert (group_writer.decided, group_writer.appended) == (1, [])


@within(run_groups)
async def test_decisions_of_a_group_that_take_slices_are_made_one_after_the_other(
    group_bench: GroupBench,
) -> None:
    group_writer = GroupWriter(group_bench)
    operation = group_writer.operation(element_count=LOOKS * LOOK_ELEMENTS)

    async def write() -> None:
        pace = group_writer.pace()
        await operation.run_and_wait(pace)
        assert pace.has_rested

    await asyncio.gather(*(write() for _ in range(5)))
    assert (group_writer.decided, group_writer.appended) == (5, [1, 2, 3, 4, 5]), (
        "none was made anew"
    )


@within(run_groups)
async def test_a_decision_in_slices_whose_group_moves_in_a_break_appends_nothing(
    group_bench: GroupBench,
) -> None:
    group_writer = GroupWriter(group_bench)
    operation = group_writer.operation(element_count=LOOKS * LOOK_ELEMENTS)
    answer_task = group_bench.later(operation.run_and_wait(group_writer.pace()))
    await asyncio.sleep(0)
    group_writer.is_current = False
    assert await answer_task is MOVED
    assert group_writer.appended == []


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
@within(run_groups)
async def test_an_expired_session_waits_for_the_log_and_tries_again_when_refused(
    group_bench: GroupBench, protocol: str
) -> None:
    """A timer writes as a request does: CoordinatorTimerImpl schedules a write operation."""
    match protocol:
        case "consumer":
            await group_bench.consume("m")
        case "share":
            await group_bench.share("m")
        case _:
            group_bench.image = counting_image()
            await group_bench.groups.streams_heartbeat(heartbeat("m", 0))
    await group_bench.pass_ms(1)  # share state is initialised
    end_offset = group_bench.log.end
    hold = Hold(group_bench)
    await group_bench.pass_ms(SESSION_MS + 1)
    assert (hold.held, group_bench.log.end) == (1, end_offset)
    hold.release(REFUSAL)
    await group_bench.pass_ms(1)
    assert group_bench.log.end == end_offset
    assert "m" in group_bench.group().members
    group_bench.log.admission = None
    await group_bench.pass_ms(RETRY_MS)
    assert group_bench.log.end > end_offset
    assert "m" not in group_bench.group().members


@within(run_groups)
async def test_a_classic_group_that_a_fault_keeps_out_of_the_log_is_forgotten(
    group_bench: GroupBench,
) -> None:
    hold = Hold(group_bench)
    answers = [group_bench.later(group_bench.join()) for _ in range(2)]
    await asyncio.sleep(0)
    hold.release(REFUSAL)
    for answer_task in answers:
        assert (await answer_task).error is ErrorCode.coordinator_not_available
    assert group_bench.groups.list() == ()


@within(run_groups)
async def test_a_classic_group_that_other_records_tell_of_is_not_forgotten(
    group_bench: GroupBench,
) -> None:
    group_writer = GroupWriter(group_bench)
    hold = Hold(group_bench)
    answer_task = group_bench.later(group_bench.join())
    await asyncio.sleep(0)
    group_bench.log.admission = None
    await group_writer.write(group_writer.operation())
    hold.release(REFUSAL)
    await answer_task
    assert len(group_bench.groups.list()) == 1
