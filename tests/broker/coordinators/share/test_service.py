"""The share coordinator of a broker: when it answers, what it does by itself, loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.at_once import load_whole, read_whole
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
from txnsim.releases import LATEST_RULES
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
    """A log of share states whose appends a test may hold up."""

    def __init__(self) -> None:
        super().__init__()
        self.admission: Awaitable[Rejection | None] | None = None

    def admit(self, *_: Any) -> Awaitable[Rejection | None] | None:  # type: ignore[override]
        """Stands for ``CoordinatorLog.admit``: it never delays or refuses."""
        return self.admission


class ShareCoordinatorBench:
    """The coordinator of a broker that leads all partitions."""

    def __init__(self, env: VirtualEnvironment, *, partitions: int | None = None) -> None:
        self.env = env
        self.log = ShareLog()
        self.pruned: list[tuple[int, int]] = []
        self.refusal: Rejection | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while records are deleted."""
        self.coordinator = ShareCoordinator(
            broker_id=BrokerId(1),
            clock=env.clock,
            settings=Settings(share_coordinator_state_topic_num_partitions=PARTITIONS),
            release_rules=LATEST_RULES,
            tasks=env.tasks,
            log=self.log,
            read_image=lambda: IMAGE,
            delete_records=self.delete_records,
            partition_count=partitions,
        )
        self.coordinator.is_running = True
        for partition in range(PARTITIONS):
            load_whole(self.coordinator, partition, CoordinatorEpoch(0), ())

    async def delete_records(self, partition: int, offset: int) -> Rejection | None:
        self.pruned.append((partition, offset))
        self.meanwhile()
        return self.refusal

    @property
    def shard(self) -> ShareStateShard:
        (shard,) = (shard for shard in self.coordinator.shards() if shard.partition == HOME)
        return shard

    async def ask(self, api_key: int, *commands: ShareCommand) -> ShareAnswer:
        """Send commands; return the answer to the last command."""
        return (await self.coordinator.answer(api_key, commands))[-1]

    async def initialize(self, *keys: ShareKey) -> ShareAnswer:
        initialize_commands = [
            InitializeShareState(key=key, state_epoch=0, start_offset=0) for key in keys or [KEY]
        ]
        return await self.ask(INITIALIZE_SHARE_GROUP_STATE, *initialize_commands)

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

    async def begun(
        self, call_coroutine: Coroutine[Any, Any, ShareAnswer]
    ) -> asyncio.Task[ShareAnswer]:
        """Begin a request, and let it run until it waits."""
        task = asyncio.get_running_loop().create_task(call_coroutine)
        for _ in range(5):
            await asyncio.sleep(0)
        return task


run = in_virtual_time(ShareCoordinatorBench)


@within(run)
async def test_who_is_not_the_coordinator_says_so(share_bench: ShareCoordinatorBench) -> None:
    share_bench.coordinator.begin_load(HOME, CoordinatorEpoch(1))
    loading = await share_bench.initialize()
    assert loading.error is E.coordinator_load_in_progress
    assert loading.message == (
        "Unable to initialize share group state: "
        "The coordinator is loading and hence can't process requests."
    )
    share_bench.coordinator.unload(HOME)
    away_state = await share_bench.read()
    assert away_state == ShareState(
        key=KEY,
        error=E.not_coordinator,
        message=f"Unable to read share group state: {NOT_IT}",
        start_offset=0,
    )
    assert share_bench.coordinator.shards()
    share_bench.coordinator.stop()
    assert share_bench.coordinator.shards() == ()
    stopped_reply = await share_bench.write()
    assert (stopped_reply.error, stopped_reply.message) == (
        E.coordinator_not_available,
        "Share coordinator is not available.",
    )


@within(run)
async def test_answers_wait_for_replicas_also_of_what_was_written_before(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    share_bench.log.is_held = True
    write_future = await share_bench.begun(share_bench.write(3))
    read_task = await share_bench.begun(share_bench.read())
    refusal_answer_task = await share_bench.begun(
        share_bench.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=-1))
    )
    assert not write_future.done()
    assert not read_task.done()
    assert not refusal_answer_task.done()
    share_bench.log.release()
    assert await write_future == ShareStateError(key=KEY)
    state = await read_task
    assert isinstance(state, ShareState)
    assert state.batches == (StateBatch(3, 3, 2, 1),)
    assert (await refusal_answer_task).error is E.invalid_request


@within(run)
async def test_what_a_load_has_brought_is_not_waited_for(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    share_bench.log.high_watermark = 0
    load_whole(share_bench.coordinator, HOME, CoordinatorEpoch(1), share_bench.log.batches)
    assert (await share_bench.read()).error == 0


@within(run)
async def test_replicas_that_do_not_follow_are_a_timeout(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    share_bench.log.is_held = True
    write_future = await share_bench.begun(share_bench.write())
    share_bench.log.release(E.request_timed_out)
    answer = await write_future
    assert answer.error is E.coordinator_not_available
    assert answer.message == (
        "Unable to write share group state: "
        "CoordinatorWriteEvent(name=write-share-group-state) timed out after 5000ms"
    )
    assert share_bench.shard.states[KEY].batches  # it may still be replicated


@within(run)
async def test_a_coordinator_that_moved_meanwhile_answers_for_nothing(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    share_bench.log.is_held = True
    write_future = await share_bench.begun(share_bench.write())
    share_bench.coordinator.unload(HOME)
    share_bench.log.release()
    answer = await write_future
    assert (answer.error, answer.message) == (
        E.not_coordinator,
        f"Unable to write share group state: {NOT_IT}",
    )


@within(run)
async def test_what_the_log_refuses_does_not_take_effect(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    share_bench.log.refusal = E.not_enough_replicas
    answer = await share_bench.write()
    assert (answer.error, answer.message) == (
        E.coordinator_not_available,
        "Unable to write share group state: "
        "Messages are rejected since there are fewer in-sync replicas than required.",
    )
    assert share_bench.shard.states[KEY].batches == ()


@within(run)
async def test_after_a_wait_for_the_log_it_is_decided_anew(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()

    async def admit_after(meanwhile: str) -> Rejection | None:
        share_bench.log.admission = None
        match meanwhile:
            case "fenced":
                await share_bench.ask(
                    READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=5)
                )
            case "moved":
                share_bench.coordinator.unload(HOME)
            case "refused":
                return Rejection(error=E.kafka_storage_error, reason="")
        return None

    share_bench.log.admission = admit_after("nothing")
    assert (await share_bench.write(1)).error == 0
    share_bench.log.admission = admit_after("refused")
    assert (await share_bench.write(1)).error is E.not_coordinator
    share_bench.log.admission = admit_after("fenced")
    assert (await share_bench.write(1)).error is E.fenced_leader_epoch
    share_bench.log.admission = admit_after("moved")
    assert (
        await share_bench.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=9))
    ).error is E.not_coordinator


@within(run)
async def test_a_large_request_has_breaks(share_bench: ShareCoordinatorBench) -> None:
    keys = [
        ShareKey(f"g{group_number}", TOPIC_ID, group_number % 40) for group_number in range(400)
    ]
    initialize_commands = [InitializeShareState(key=key, state_epoch=0) for key in keys]
    answer_task = asyncio.get_running_loop().create_task(
        share_bench.coordinator.answer(INITIALIZE_SHARE_GROUP_STATE, initialize_commands)
    )
    await asyncio.sleep(0)
    assert 0 < len(share_bench.log.batches) < len(keys)
    answers = await answer_task
    assert [answer.key for answer in answers] == keys
    assert not any(answer.error for answer in answers)


@within(run)
async def test_who_comes_between_the_slices_of_a_long_state_stays_in_it(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    batches = tuple(StateBatch(offset, offset, 0, 1 + offset % 2) for offset in range(20_000))
    long_write = WriteShareState(
        key=KEY, state_epoch=0, leader_epoch=0, start_offset=0, batches=batches
    )
    answer_task = asyncio.get_running_loop().create_task(
        share_bench.coordinator.answer(WRITE_SHARE_GROUP_STATE, [long_write])
    )
    await asyncio.sleep(0)
    assert not answer_task.done()
    short_write = msgspec.structs.replace(long_write, batches=(StateBatch(20_000, 20_000, 2, 1),))
    assert not (await share_bench.ask(WRITE_SHARE_GROUP_STATE, short_write)).error
    (answer,) = await answer_task
    assert not answer.error
    state = await share_bench.ask(READ_SHARE_GROUP_STATE, ReadShareState(key=KEY, leader_epoch=0))
    assert state.batches == (*batches, *short_write.batches)


@within(run)
async def test_pruning_deletes_what_is_below_the_last_snapshots_once(
    share_bench: ShareCoordinatorBench,
) -> None:
    share_bench.coordinator.prune()
    assert share_bench.pruned == []
    await share_bench.initialize()
    await share_bench.write()
    await share_bench.initialize()
    for _ in range(2):
        share_bench.coordinator.prune()
        assert share_bench.pruned == [(HOME, 2)]
    await share_bench.initialize()
    share_bench.refusal = Rejection(error=E.request_timed_out, reason="late")
    with capture_logs() as lines:
        share_bench.coordinator.prune()
    assert [line["event"] for line in lines] == ["share.upkeep-refused"]
    share_bench.refusal = None
    share_bench.coordinator.prune()
    assert share_bench.pruned == [(HOME, 2), (HOME, 3), (HOME, 3)]


@within(run)
async def test_nothing_is_pruned_that_is_not_replicated(share_bench: ShareCoordinatorBench) -> None:
    await share_bench.initialize()
    share_bench.log.is_held = True
    second_answer_task = await share_bench.begun(share_bench.initialize())
    share_bench.coordinator.prune()
    assert share_bench.pruned == []
    share_bench.log.release(E.request_timed_out)
    assert (await second_answer_task).error
    await asyncio.sleep(0.01)
    assert share_bench.pruned == []
    share_bench.log.release()
    share_bench.coordinator.prune()
    await asyncio.sleep(0.01)
    assert share_bench.pruned == [(HOME, 1)]


@within(run)
async def test_a_partition_that_moves_away_is_not_pruned(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    share_bench.log.is_held = True
    second_answer_task = await share_bench.begun(share_bench.initialize())
    share_bench.coordinator.prune()
    share_bench.coordinator.unload(HOME)
    share_bench.log.release()
    assert (await second_answer_task).error is E.not_coordinator
    await asyncio.sleep(0.01)
    assert share_bench.pruned == []


@within(run)
async def test_what_was_pruned_before_a_move_does_not_count_after_it(
    share_bench: ShareCoordinatorBench,
) -> None:
    def move_and_return() -> None:
        share_bench.coordinator.unload(HOME)
        load_whole(share_bench.coordinator, HOME, CoordinatorEpoch(1), share_bench.log.batches)

    await share_bench.initialize()
    await share_bench.initialize()
    share_bench.meanwhile = move_and_return
    share_bench.coordinator.prune()
    share_bench.meanwhile = lambda: None
    for _ in range(2):
        share_bench.coordinator.prune()
        assert share_bench.pruned == [(HOME, 1), (HOME, 1)]
    move_and_return()
    share_bench.coordinator.prune()
    assert share_bench.pruned == [(HOME, 1)] * 3


@within(run)
async def test_cold_states_are_written_again_in_small_batches(
    share_bench: ShareCoordinatorBench,
) -> None:
    keys = [ShareKey("g", TOPIC_ID, partition) for partition in range(40)]
    await share_bench.initialize(*keys)
    appended = len(share_bench.log.batches)
    share_bench.coordinator.snapshot_cold()
    assert len(share_bench.log.batches) == appended
    share_bench.env.clock.advance(COLD_MS)
    share_bench.coordinator.snapshot_cold()
    sizes = [read_batch_header(batch).records_count for batch in share_bench.log.batches[appended:]]
    assert sum(sizes) == len(keys)
    assert max(sizes) <= UPKEEP_RECORDS
    for shard in share_bench.coordinator.shards():
        assert shard.snapshot_offsets.redundant_below >= len(keys), "older records may go"
    assert share_bench.shard.states[KEY].snapshot_epoch == 1
    share_bench.env.clock.advance(COLD_MS)
    share_bench.coordinator.snapshot_cold()  # all of them are cold by now
    assert share_bench.shard.states[KEY].snapshot_epoch == 1


@within(run)
async def test_states_of_deleted_topics_go(share_bench: ShareCoordinatorBench) -> None:
    keys = [ShareKey("g", TOPIC_ID, partition) for partition in range(40)]
    await share_bench.initialize(*keys)
    share_bench.coordinator.topics_deleted({"A" * 22})
    assert sum(len(shard.states) for shard in share_bench.coordinator.shards()) == 40
    share_bench.coordinator.topics_deleted({TOPIC_ID})
    assert sum(len(shard.states) for shard in share_bench.coordinator.shards()) == 0


@within(run)
async def test_upkeep_writes_nothing_about_partitions_that_move_while_it_waits(
    share_bench: ShareCoordinatorBench,
) -> None:
    keys = [ShareKey("g", TOPIC_ID, partition) for partition in range(40)]
    await share_bench.initialize(*keys)
    first_shard, *other_shards = share_bench.coordinator.shards()
    state_counts = [len(shard.states) for shard in other_shards]
    assert all(state_counts)

    async def move_others() -> Rejection | None:
        share_bench.log.admission = None
        for shard in other_shards:
            share_bench.coordinator.unload(shard.partition)
        return None

    share_bench.log.admission = move_others()
    share_bench.coordinator.topics_deleted({TOPIC_ID})
    await asyncio.sleep(0.01)
    assert not first_shard.states
    assert [len(shard.states) for shard in other_shards] == state_counts


@within(run)
async def test_upkeep_ends_where_the_partition_moves_in_a_break(
    share_bench: ShareCoordinatorBench,
) -> None:
    keys = [ShareKey(f"g{group}", TOPIC_ID, group % 40) for group in range(600)]
    await share_bench.initialize(*keys)
    first_shard, *other_shards = share_bench.coordinator.shards()
    share_bench.coordinator.topics_deleted({TOPIC_ID})
    states_left = len(first_shard.states)
    assert 0 < states_left < 600
    share_bench.coordinator.unload(first_shard.partition)
    await asyncio.sleep(0.01)
    assert len(first_shard.states) == states_left
    assert not any(shard.states for shard in other_shards)


@within(run)
async def test_the_number_of_partitions_is_that_of_the_topic_if_there_is_one(
    share_bench: ShareCoordinatorBench,
) -> None:
    assert share_bench.coordinator.partitions == PARTITIONS
    assert ShareCoordinatorBench(share_bench.env, partitions=7).coordinator.partitions == 7


@pytest.mark.usefixtures("all_levels")
@within(run)
async def test_upkeep_that_the_log_refuses_is_told_once(share_bench: ShareCoordinatorBench) -> None:
    await share_bench.initialize()
    share_bench.log.refusal = E.not_enough_replicas
    with capture_logs() as lines:
        share_bench.coordinator.topics_deleted({TOPIC_ID})
        share_bench.coordinator.topics_deleted({TOPIC_ID})
    assert [line["event"] for line in lines] == ["share.upkeep-refused"]
    assert KEY in share_bench.shard.states


@within(run)
async def test_a_log_that_can_be_read_in_part_only_is_counted(
    share_bench: ShareCoordinatorBench,
) -> None:
    await share_bench.initialize()
    broken_batches = [*share_bench.log.batches, share_bench.log.batches[0][:-1] + b"\1"]
    with capture_logs() as lines:
        load_whole(share_bench.coordinator, HOME, CoordinatorEpoch(1), broken_batches)
    assert [line["event"] for line in lines] == ["share.load-stopped"]
    assert share_bench.coordinator.load_problems_total == 1
    assert KEY in share_bench.shard.states


@within(run)
async def test_a_load_that_was_called_off_owns_nothing(share_bench: ShareCoordinatorBench) -> None:
    share_bench.coordinator.begin_load(HOME, CoordinatorEpoch(1))
    steps = share_bench.coordinator.read(HOME, CoordinatorEpoch(1), ())
    share_bench.coordinator.unload(HOME)
    assert not read_whole(steps)
    assert (await share_bench.read()).error is E.not_coordinator
    share_bench.coordinator.begin_load(HOME, CoordinatorEpoch(2))
    assert read_whole(share_bench.coordinator.read(HOME, CoordinatorEpoch(2), ()))
