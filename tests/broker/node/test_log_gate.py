"""The gate before a broker's logs: who may append, and what of an append reaches the disk."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.gates import Gates
from tests.support.logs import LogDriver, make_log, plain
from tests.support.within import in_virtual_time, within
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Drop, Fail, Hold
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.injector import Injector
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import FOLLOWER, MARKER
from txnsim.releases.rules import LATEST
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.types import IsolationLevel

SOMETHING = Subject()
BY_TWO = LogConfig(rules=LATEST, roll_bytes=2 * len(plain()), retention_ms=-1)
"""Two batches of one record fill a segment."""


class World:
    def __init__(self, env: VirtualEnvironment) -> None:
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        self.gates = Gates(env.tasks, interceptor=self.injector)
        self.gate = self.gates.log
        self.tasks = env.tasks

    def arm(self, action: Action, point: FaultPoint, **more: Any) -> None:
        self.injector.arm(FaultRule(id="f", point=point, action=action, **more))

    def append(self, made: LogDriver, *, aborts: bool = False) -> PartitionLog:
        """One batch, or an abort, with the gate told of it."""
        log = made.log
        before, end = self.gate.durable(log), log.log_end_offset
        if aborts:
            made.end(committed=False)
        else:
            made.append(plain())
        self.gate.appended(log, before, aborted_at=end if aborts else None)
        return log


run = in_virtual_time(World)


@within(run)
async def test_the_gate_is_open_while_no_rule_is_armed(world: World) -> None:
    def is_open() -> bool:
        return world.gate.is_open

    assert is_open()
    assert await world.gate.admit(SOMETHING, kind=MARKER) is None
    world.gates.disk.is_full = True
    assert not is_open()
    world.gates.disk.is_full = False
    world.arm(Hold(), FaultPoint.CLIENT_REQUEST)
    assert not is_open()


@within(run)
async def test_a_full_disk_takes_the_directory_offline_with_the_first_write(world: World) -> None:
    assert world.gate.refuse_full() is None
    world.gates.disk.is_full = True
    assert world.gates.failures == 0
    error = await world.gate.admit(SOMETHING, kind=MARKER)
    assert error is ErrorCode.kafka_storage_error
    assert world.gates.failures == 1


@within(run)
async def test_a_rule_refuses_what_it_names(world: World) -> None:
    world.arm(Fail(error="NOT_ENOUGH_REPLICAS"), FaultPoint.LOG_APPEND, role="follower")
    admit = world.gate.admit
    assert await admit(SOMETHING, kind=MARKER) is None
    error = await admit(SOMETHING, kind=MARKER, role=FOLLOWER)
    assert error is ErrorCode.not_enough_replicas


@within(run)
async def test_who_is_held_while_its_broker_stops_appends_nothing(world: World) -> None:
    world.arm(Hold(), FaultPoint.LOG_APPEND)
    waiting = world.tasks.spawn(world.gate.admit(SOMETHING, kind=MARKER), name="append")
    await asyncio.sleep(0)
    world.gates.crossings.stop()
    world.injector.release("f")
    assert await waiting is ErrorCode.not_leader_or_follower


# Behind an append


def two_segments(world: World) -> LogDriver:
    made = LogDriver(BY_TWO)
    for _ in range(3):
        world.append(made)
    return made


@within(run)
async def test_a_segment_that_ends_is_flushed_and_its_producers_are_noted(world: World) -> None:
    world.arm(Hold(), FaultPoint.CLIENT_REQUEST)
    log = two_segments(world).log
    assert (log.local.recovery_point, log.producers.newest_snapshot_offset) == (2, 2)


@within(run)
async def test_without_anybody_to_ask_it_is_the_same(world: World) -> None:
    log = two_segments(world).log
    assert (log.local.recovery_point, log.producers.newest_snapshot_offset) == (2, 2)


@within(run)
async def test_a_flush_that_is_lost_leaves_more_to_be_lost(world: World) -> None:
    world.arm(Drop(), FaultPoint.LOG_FLUSH)
    assert two_segments(world).log.local.recovery_point == 0


@within(run)
async def test_a_flush_that_waits_is_done_later(world: World) -> None:
    world.arm(Hold(), FaultPoint.LOG_FLUSH)
    log = two_segments(world).log
    assert log.local.recovery_point == 0
    world.injector.release("f")
    await asyncio.sleep(0.001)
    assert log.local.recovery_point == 2


@within(run)
async def test_a_flush_that_fails_takes_the_directory_offline(world: World) -> None:
    world.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_FLUSH)
    assert two_segments(world).log.local.recovery_point == 0
    assert world.gates.failures == 1


@within(run)
async def test_a_snapshot_that_is_lost_is_not_there(world: World) -> None:
    world.arm(Drop(), FaultPoint.LOG_INDEX, kind="producer-snapshot")
    log = two_segments(world).log
    assert log.producers.newest_snapshot_offset is None
    assert log.local.recovery_point == 2


@within(run)
async def test_a_lost_note_of_an_abort_hides_it_from_readers(world: World) -> None:
    world.arm(Drop(), FaultPoint.LOG_INDEX, kind="aborted-range", limit=1)
    made = LogDriver()
    for sequence in range(2):
        made.txn(sequence)
        world.append(made, aborts=True)
    read = made.log.read(0, max_bytes=10_000, isolation=IsolationLevel.READ_COMMITTED)
    assert [one.first_offset for one in getattr(read, "aborted", ())] == [2]


def test_what_is_no_longer_there_can_be_lost_again() -> None:
    log = make_log()
    log.local.index.remove(7)
    log.producers.snapshots.remove(7)
    log.local.lose_flush(7)
    log.local.flush_up_to(7)
    assert 7 not in log.local.index
    assert (log.producers.newest_snapshot_offset, log.local.recovery_point) == (None, 0)
