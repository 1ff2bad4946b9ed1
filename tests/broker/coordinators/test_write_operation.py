"""The one way in which coordinators write, without any coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Sequence

import msgspec
import pytest

from tests.support.within_environment import within
from txnsim.coordinators._write_operation import DECISIONS_MAX, DecisionLocks, WriteOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, LOOKS, Pace
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

MOVED = Rejection(error=ErrorCode.not_coordinator, reason="the shard has moved")
REFUSAL = Rejection(error=ErrorCode.not_enough_replicas, reason="a fault")
LARGE = LOOKS * LOOK_ELEMENTS


class NumberedDecision(msgspec.Struct, frozen=True):
    number: int
    records: tuple[str, ...]


class Shard:
    """A stand-in for a coordinator's shard that counts the steps of a write."""

    def __init__(self) -> None:
        self.decided = 0
        self.prepared = 0
        self.appended: list[Sequence[str]] = []
        self.rejection: Rejection | None = None
        self.log_error: Rejection | None = None
        self.admission: asyncio.Future[Rejection | None] | None = None
        self.is_moved = False
        self.inputs = 0
        self.changes = 0
        """How many of the next decisions meet other inputs at their end."""
        self.lines = DecisionLocks()

    def decide(self, records: tuple[str, ...]) -> NumberedDecision | Rejection:
        self.decided += 1
        if self.changes:
            self.changes -= 1
            self.inputs += 1
        return self.rejection or NumberedDecision(self.decided, records)

    def append(self, _: NumberedDecision, records: Sequence[str]) -> int | Rejection | None:
        if self.log_error is not None:
            return self.log_error
        self.appended.append(records)
        return len(self.appended) if records else None

    def write(self, *records: str, element_count: int = 0) -> ShardWrite:
        return ShardWrite(
            shard=self,
            decide=lambda: self.decide(records),
            append=self.append,
            element_count=element_count,
        )


class ShardWrite(WriteOperation[NumberedDecision, tuple[str, ...]], frozen=True, kw_only=True):
    shard: Shard

    def prepare(self, decision: NumberedDecision) -> Generator[int, None, tuple[str, ...]]:
        self.shard.prepared += 1
        yield 1
        return (f"prepared {decision.number}",)

    def read_inputs(self) -> object:
        return self.shard.inputs

    def admit(self) -> Awaitable[Rejection | None] | None:
        return self.shard.admission

    def refuse_moved(self) -> Rejection | None:
        return MOVED if self.shard.is_moved else None

    def lock(self) -> asyncio.Lock:
        return self.shard.lines.lock_of(0, "")


def paced(env: VirtualEnvironment) -> Pace:
    return Pace(env.tasks.turns, env.clock.stopwatch_ns)


def held(shard: Shard) -> asyncio.Future[Rejection | None]:
    """Make appends wait; the returned future ends the wait."""
    shard.admission = asyncio.get_running_loop().create_future()
    return shard.admission


@within(run_virtual, seed=1)
async def test_a_small_write_is_one_step(env: VirtualEnvironment) -> None:
    shard = Shard()
    assert await shard.write("r").run() == (NumberedDecision(1, ("r",)), 1)
    assert (shard.prepared, shard.appended) == (0, [("r",)])


@within(run_virtual, seed=1)
async def test_without_records_the_faults_are_not_asked(env: VirtualEnvironment) -> None:
    shard = Shard()
    held(shard)
    assert await shard.write().run() == (NumberedDecision(1, ()), None)


@within(run_virtual, seed=1)
async def test_a_rejected_decision_appends_nothing(env: VirtualEnvironment) -> None:
    shard = Shard()
    shard.rejection = REFUSAL
    assert await shard.write("r").run() is REFUSAL
    assert shard.appended == []


@within(run_virtual, seed=1)
async def test_the_error_of_the_log_is_returned(env: VirtualEnvironment) -> None:
    shard = Shard()
    shard.log_error = REFUSAL
    assert await shard.write("r").run() is REFUSAL


@pytest.mark.parametrize("element_count", [0, LARGE])
@within(run_virtual, seed=1)
async def test_a_held_write_is_decided_again_and_nothing_prepared_is_appended(
    env: VirtualEnvironment, element_count: int
) -> None:
    shard = Shard()
    admission_future = held(shard)
    write = shard.write("r", element_count=element_count)
    answer_task = env.tasks.spawn(write.run(paced(env) if element_count else None), name="write")
    await asyncio.sleep(1)
    assert (shard.decided, shard.appended) == (1, [])
    admission_future.set_result(None)
    assert await answer_task == (NumberedDecision(2, ("r",)), 1)
    assert shard.appended == [("r",)]


@within(run_virtual, seed=1)
async def test_a_held_write_that_is_rejected_afterwards_appends_nothing(
    env: VirtualEnvironment,
) -> None:
    shard = Shard()
    admission_future = held(shard)
    answer_task = env.tasks.spawn(shard.write("r").run(), name="write")
    await asyncio.sleep(1)
    shard.rejection = REFUSAL
    admission_future.set_result(None)
    assert await answer_task is REFUSAL
    assert (shard.decided, shard.appended) == (2, [])


@within(run_virtual, seed=1)
async def test_a_held_write_whose_shard_moves_appends_nothing(env: VirtualEnvironment) -> None:
    shard = Shard()
    admission_future = held(shard)
    answer_task = env.tasks.spawn(shard.write("r").run(), name="write")
    await asyncio.sleep(1)
    shard.is_moved = True
    admission_future.set_result(None)
    assert await answer_task is MOVED
    assert (shard.decided, shard.appended) == (1, [])


@within(run_virtual, seed=1)
async def test_a_write_that_a_fault_refuses_is_not_decided_again(env: VirtualEnvironment) -> None:
    shard = Shard()
    held(shard).set_result(REFUSAL)
    assert await shard.write("r").run() is REFUSAL
    assert (shard.decided, shard.appended) == (1, [])


@within(run_virtual, seed=1)
async def test_a_large_write_is_prepared_in_slices(env: VirtualEnvironment) -> None:
    shard = Shard()
    pace = paced(env)
    assert await shard.write("r", element_count=LARGE).run(pace) == (NumberedDecision(1, ("r",)), 1)
    assert (pace.has_rested, shard.appended) == (True, [("prepared 1",)])


@within(run_virtual, seed=1)
async def test_a_large_write_whose_shard_moves_in_a_break_appends_nothing(
    env: VirtualEnvironment,
) -> None:
    shard = Shard()
    answer_task = env.tasks.spawn(
        shard.write("r", element_count=LARGE).run(paced(env)), name="write"
    )
    await asyncio.sleep(0)
    shard.is_moved = True
    assert await answer_task is MOVED
    assert shard.appended == []


@pytest.mark.parametrize("changes", range(DECISIONS_MAX + 2))
@within(run_virtual, seed=1)
async def test_a_large_write_is_decided_again_while_its_inputs_change(
    env: VirtualEnvironment, changes: int
) -> None:
    """The last decision has no breaks, so that a busy shard does not keep a write for ever."""
    shard = Shard()
    shard.changes = changes
    write_result = await shard.write("r", element_count=LARGE).run(paced(env))
    decisions = min(changes, DECISIONS_MAX) + 1
    assert write_result == (NumberedDecision(decisions, ("r",)), 1)
    in_slices = changes < DECISIONS_MAX
    assert shard.appended == [(f"prepared {decisions}",) if in_slices else ("r",)]


@within(run_virtual, seed=1)
async def test_large_writes_about_one_thing_are_decided_one_after_the_other(
    env: VirtualEnvironment,
) -> None:
    shard = Shard()
    writes = [shard.write(f"{write_number}", element_count=LARGE) for write_number in range(5)]
    await asyncio.gather(*(write.run(paced(env)) for write in writes))
    assert (shard.decided, len(shard.appended)) == (5, 5), "none was made anew"
