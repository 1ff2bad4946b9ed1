"""The share coordinator of a broker: when it answers, what it does by itself, loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Final

import msgspec
from structlog.testing import capture_logs

from tests.support.at_once import load_whole
from tests.support.consumer_groups import image
from tests.support.group_world import ListLog
from tests.support.within_environment import in_virtual_time, within
from txnsim.coordinators.share.service import UPKEEP_RECORDS, ShareCoordinator
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import (
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareState,
    ShareStateError,
    StateBatch,
    WriteShareState,
)
from txnsim.node.peers import (
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    WRITE_SHARE_GROUP_STATE,
    ShareAnswer,
    ShareCommand,
)
from txnsim.releases import LATEST
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.settings import Settings
from txnsim.share_state.shard import ShareStateShard
from txnsim.types import BrokerId, CoordinatorEpoch, partition_for, uuid_text
from txnsim.wire.batch import read_batch_header

E = ErrorCode
PARTITIONS: Final = 3
IMAGE: Final = image(orders=40)
TOPIC_ID: Final = uuid_text(IMAGE.topics["orders"].topic_id)
KEY: Final = ShareKey("g", TOPIC_ID, 0)
HOME: Final = partition_for(KEY.coordinator_key, PARTITIONS)
READING: Final = ReadShareState(key=KEY, leader_epoch=0)
NOT_IT: Final = "This is not the correct coordinator."
COLD_MS: Final = 300_000


class ShareLog(ListLog):
    """The same, where an append may be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.admission: Awaitable[Rejection | None] | None = None

    def admit(self, *_: Any) -> Awaitable[Rejection | None] | None:  # type: ignore[override]
        """``CoordinatorLog.admit``."""
        return self.admission


class World:
    """The coordinator of a broker that leads all partitions."""

    def __init__(self, env: VirtualEnvironment) -> None:
        self.env = env
        self.log = ShareLog()
        self.pruned: list[tuple[int, int]] = []
        self.refusal: Rejection | None = None
        self.coordinator = ShareCoordinator(
            broker_id=BrokerId(1),
            clock=env.clock,
            settings=Settings(share_coordinator_state_topic_num_partitions=PARTITIONS),
            release_rules=LATEST,
            tasks=env.tasks,
            log=self.log,
            image=lambda: IMAGE,
            delete_records=self.delete_records,
        )
        self.coordinator.is_running = True
        for partition in range(PARTITIONS):
            load_whole(self.coordinator, partition, CoordinatorEpoch(0), ())

    async def delete_records(self, partition: int, offset: int) -> Rejection | None:
        self.pruned.append((partition, offset))
        return self.refusal

    @property
    def shard(self) -> ShareStateShard:
        (shard,) = (shard for shard in self.coordinator.shards() if shard.partition == HOME)
        return shard

    async def ask(self, api_key: int, *commands: ShareCommand) -> ShareAnswer:
        """The last answer."""
        return (await self.coordinator.answer(api_key, commands))[-1]

    async def initialize(self, *keys: ShareKey) -> ShareAnswer:
        commands = [
            InitializeShareState(key=key, state_epoch=0, start_offset=0) for key in keys or [KEY]
        ]
        return await self.ask(INITIALIZE_SHARE_GROUP_STATE, *commands)

    async def write(self, offset: int = 0) -> ShareAnswer:
        command = WriteShareState(
            key=KEY,
            state_epoch=0,
            leader_epoch=0,
            batches=(StateBatch(offset, offset, 2, 1),),
        )
        return await self.ask(WRITE_SHARE_GROUP_STATE, command)

    async def read(self) -> ShareAnswer:
        return await self.ask(READ_SHARE_GROUP_STATE, READING)

    async def begun(self, call: Coroutine[Any, Any, ShareAnswer]) -> asyncio.Task[ShareAnswer]:
        """A request that has got as far as it can."""
        task = asyncio.get_running_loop().create_task(call)
        for _ in range(5):
            await asyncio.sleep(0)
        return task


run = in_virtual_time(World)


@within(run)
async def test_who_is_not_the_coordinator_says_so(world: World) -> None:
    world.coordinator.begin_load(HOME, CoordinatorEpoch(1))
    loading = await world.initialize()
    assert loading.error is E.coordinator_load_in_progress
    assert loading.message == (
        "Unable to initialize share group state: "
        "The coordinator is loading and hence can't process requests."
    )
    world.coordinator.unload(HOME)
    away = await world.read()
    assert away == ShareState(
        key=KEY,
        error=E.not_coordinator,
        message=f"Unable to read share group state: {NOT_IT}",
        start_offset=0,
    )
    world.coordinator.stop()
    stopped = await world.write()
    assert (stopped.error, stopped.message) == (
        E.coordinator_not_available,
        "Share coordinator is not available.",
    )


@within(run)
async def test_answers_wait_for_replicas_also_of_what_was_written_before(world: World) -> None:
    await world.initialize()
    world.log.is_held = True
    written = await world.begun(world.write(3))
    read = await world.begun(world.read())
    refused = await world.begun(
        world.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=-1))
    )
    assert not written.done()
    assert not read.done()
    assert not refused.done()
    world.log.release()
    assert await written == ShareStateError(key=KEY)
    state = await read
    assert isinstance(state, ShareState)
    assert state.batches == (StateBatch(3, 3, 2, 1),)
    assert (await refused).error is E.invalid_request


@within(run)
async def test_what_a_load_has_brought_is_not_waited_for(world: World) -> None:
    await world.initialize()
    world.log.high_watermark = 0
    load_whole(world.coordinator, HOME, CoordinatorEpoch(1), world.log.batches)
    assert (await world.read()).error == 0


@within(run)
async def test_replicas_that_do_not_follow_are_a_timeout(world: World) -> None:
    await world.initialize()
    world.log.is_held = True
    written = await world.begun(world.write())
    world.log.release(E.request_timed_out)
    answer = await written
    assert answer.error is E.coordinator_not_available
    assert answer.message == (
        "Unable to write share group state: "
        "CoordinatorWriteEvent(name=write-share-group-state) timed out after 5000ms"
    )
    assert world.shard.states[KEY].batches  # it may still be replicated


@within(run)
async def test_a_coordinator_that_moved_meanwhile_answers_for_nothing(world: World) -> None:
    await world.initialize()
    world.log.is_held = True
    written = await world.begun(world.write())
    world.coordinator.unload(HOME)
    world.log.release()
    answer = await written
    assert (answer.error, answer.message) == (
        E.not_coordinator,
        f"Unable to write share group state: {NOT_IT}",
    )


@within(run)
async def test_what_the_log_refuses_does_not_take_effect(world: World) -> None:
    await world.initialize()
    world.log.refusal = E.not_enough_replicas
    answer = await world.write()
    assert (answer.error, answer.message) == (
        E.coordinator_not_available,
        "Unable to write share group state: "
        "Messages are rejected since there are fewer in-sync replicas than required.",
    )
    assert world.shard.states[KEY].batches == ()


@within(run)
async def test_after_a_wait_for_the_log_it_is_decided_anew(world: World) -> None:
    await world.initialize()

    async def admit_after(meanwhile: str) -> Rejection | None:
        world.log.admission = None
        match meanwhile:
            case "fenced":
                await world.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=5))
            case "moved":
                world.coordinator.unload(HOME)
            case "refused":
                return Rejection(error=E.kafka_storage_error, reason="")
        return None

    world.log.admission = admit_after("nothing")
    assert (await world.write(1)).error == 0
    world.log.admission = admit_after("refused")
    assert (await world.write(1)).error is E.not_coordinator
    world.log.admission = admit_after("fenced")
    assert (await world.write(1)).error is E.fenced_leader_epoch
    world.log.admission = admit_after("moved")
    assert (
        await world.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=9))
    ).error is E.not_coordinator


@within(run)
async def test_a_large_request_has_breaks(world: World) -> None:
    keys = [ShareKey(f"g{number}", TOPIC_ID, number % 40) for number in range(400)]
    commands = [InitializeShareState(key=key, state_epoch=0) for key in keys]
    answer_task = asyncio.get_running_loop().create_task(
        world.coordinator.answer(INITIALIZE_SHARE_GROUP_STATE, commands)
    )
    await asyncio.sleep(0)
    assert 0 < len(world.log.batches) < len(keys)
    answers = await answer_task
    assert [answer.key for answer in answers] == keys
    assert not any(answer.error for answer in answers)


@within(run)
async def test_who_comes_between_the_slices_of_a_long_state_stays_in_it(world: World) -> None:
    await world.initialize()
    batches = tuple(StateBatch(offset, offset, 0, 1 + offset % 2) for offset in range(20_000))
    long = WriteShareState(key=KEY, state_epoch=0, leader_epoch=0, start_offset=0, batches=batches)
    answer_task = asyncio.get_running_loop().create_task(
        world.coordinator.answer(WRITE_SHARE_GROUP_STATE, [long])
    )
    await asyncio.sleep(0)
    assert not answer_task.done()
    short = msgspec.structs.replace(long, batches=(StateBatch(20_000, 20_000, 2, 1),))
    assert not (await world.ask(WRITE_SHARE_GROUP_STATE, short)).error
    (answer,) = await answer_task
    assert not answer.error
    state = await world.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=0))
    assert state.batches == (*batches, *short.batches)


@within(run)
async def test_pruning_deletes_what_is_below_the_last_snapshots_once(world: World) -> None:
    world.coordinator.prune()
    assert world.pruned == []
    await world.initialize()
    await world.write()
    await world.initialize()
    for _ in range(2):
        world.coordinator.prune()
        assert world.pruned == [(HOME, 2)]
    await world.initialize()
    world.refusal = Rejection(error=E.request_timed_out, reason="late")
    with capture_logs() as lines:
        world.coordinator.prune()
    assert [line["event"] for line in lines] == ["share.upkeep-refused"]
    world.refusal = None
    world.coordinator.prune()
    assert world.pruned == [(HOME, 2), (HOME, 3), (HOME, 3)]


@within(run)
async def test_nothing_is_pruned_that_is_not_replicated(world: World) -> None:
    await world.initialize()
    world.log.is_held = True
    second_answer = await world.begun(world.initialize())
    world.coordinator.prune()
    assert world.pruned == []
    world.log.release(E.request_timed_out)
    assert (await second_answer).error
    await asyncio.sleep(0.01)
    assert world.pruned == []
    world.log.release()
    world.coordinator.prune()
    await asyncio.sleep(0.01)
    assert world.pruned == [(HOME, 1)]


@within(run)
async def test_cold_states_are_written_again_in_small_batches(world: World) -> None:
    keys = [ShareKey("g", TOPIC_ID, partition) for partition in range(40)]
    await world.initialize(*keys)
    appended = len(world.log.batches)
    world.coordinator.snapshot_cold()
    assert len(world.log.batches) == appended
    world.env.clock.advance(COLD_MS)
    world.coordinator.snapshot_cold()
    sizes = [read_batch_header(batch).records_count for batch in world.log.batches[appended:]]
    assert sum(sizes) == len(keys)
    assert max(sizes) <= UPKEEP_RECORDS
    assert world.shard.states[KEY].snapshot_epoch == 1
    world.env.clock.advance(COLD_MS)
    world.coordinator.snapshot_cold()  # all of them are cold by now
    assert world.shard.states[KEY].snapshot_epoch == 1


@within(run)
async def test_states_of_deleted_topics_go(world: World) -> None:
    keys = [ShareKey("g", TOPIC_ID, partition) for partition in range(40)]
    await world.initialize(*keys)
    world.coordinator.topics_deleted({"A" * 22})
    assert sum(len(shard.states) for shard in world.coordinator.shards()) == 40
    world.coordinator.topics_deleted({TOPIC_ID})
    assert sum(len(shard.states) for shard in world.coordinator.shards()) == 0


@within(run)
async def test_upkeep_that_the_log_refuses_is_told_once(world: World) -> None:
    await world.initialize()
    world.log.refusal = E.not_enough_replicas
    with capture_logs() as lines:
        world.coordinator.topics_deleted({TOPIC_ID})
        world.coordinator.topics_deleted({TOPIC_ID})
    assert [line["event"] for line in lines] == ["share.upkeep-refused"]
    assert KEY in world.shard.states


@within(run)
async def test_a_log_that_can_be_read_in_part_only_is_counted(world: World) -> None:
    await world.initialize()
    broken = [*world.log.batches, world.log.batches[0][:-1] + b"\1"]
    with capture_logs() as lines:
        load_whole(world.coordinator, HOME, CoordinatorEpoch(1), broken)
    assert [line["event"] for line in lines] == ["share.load-stopped"]
    assert world.coordinator.load_problems_total == 1
    assert KEY in world.shard.states


@within(run)
async def test_a_load_that_was_called_off_owns_nothing(world: World) -> None:
    world.coordinator.begin_load(HOME, CoordinatorEpoch(1))
    steps = world.coordinator.read(HOME, CoordinatorEpoch(1), ())
    world.coordinator.unload(HOME)
    assert list(steps) == []
    assert (await world.read()).error is E.not_coordinator
