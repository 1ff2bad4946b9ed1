"""The group coordinator of a broker: whose group it is, when it answers, loads, expiry."""

from __future__ import annotations

import asyncio
import uuid
from unittest.mock import patch

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.at_once import load_whole, read_whole
from tests.support.group_world import GROUP, HOME, PRODUCER, GroupWorld, commit_of, run_groups
from tests.support.within_environment import within
from txnsim.coordinators.group import service
from txnsim.coordinators.group.service import SLICE_POSITIONS
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.offset_commands import (
    CommitOffsets,
    CommittingProducer,
    DeleteOffsets,
    FetchOffsets,
    NewPosition,
    PartitionErrors,
)
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.releases import Rules
from txnsim.runtime.loop_turns import Pace
from txnsim.types import CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
from txnsim.wire.batch import read_batch_header, read_records

E = ErrorCode
DAY_MS = 86_400_000


def marker(*, committed: bool) -> TxnMarker:
    return TxnMarker(
        producer_id=PRODUCER.producer_id,
        producer_epoch=PRODUCER.producer_epoch,
        committed=committed,
        coordinator_epoch=CoordinatorEpoch(0),
        transaction_version=0,
        partitions=(),
    )


async def verify_as_agreed(partition: int, producer: CommittingProducer) -> int | Rejection:
    assert (partition, producer) == (HOME, PRODUCER)
    return 42


async def pending(world: GroupWorld, offset: int = 9) -> None:
    """A position that waits for its marker."""
    command = commit_of(offset, is_transactional=True)
    outcomes = await world.groups.commit_in_transaction(command, PRODUCER, verify=verify_as_agreed)
    assert not isinstance(outcomes, Rejection), outcomes


async def commit_unverified(
    world: GroupWorld, producer_id: int, epoch: int
) -> PartitionErrors | Rejection:
    """What a commit of that producer is answered where no coordinator is asked first."""

    async def unasked(_partition: int, _producer: CommittingProducer) -> int:
        return 42

    producer = msgspec.structs.replace(
        PRODUCER, producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(epoch)
    )
    command = commit_of(9, is_transactional=True)
    return await world.groups.commit_in_transaction(command, producer, verify=unasked)


@within(run_groups)
async def test_every_request_of_a_group_elsewhere_is_sent_away(world: GroupWorld) -> None:
    world.unload()
    away = E.not_coordinator
    assert (await world.join()).error is away
    assert (await world.sync("m")).error is away
    assert world.heartbeat("m") is away
    assert (await world.leave("m")).error is away
    assert (await world.consume("a")).error is away
    assert (await world.commit()).error is away
    assert (await world.fetch()).error is away
    rejection = await world.groups.commit_in_transaction(
        commit_of(), PRODUCER, verify=verify_as_agreed
    )
    assert isinstance(rejection, Rejection)
    assert rejection.error is away
    deleted = await world.groups.delete(GROUP)
    assert deleted is not None
    assert deleted.error is away
    assert isinstance(world.groups.find(GROUP), Rejection)
    assert isinstance(
        await world.groups.delete_offsets(DeleteOffsets(group_id=GROUP, partitions=())),
        Rejection,
    )
    assert not world.groups.owns(HOME)


@within(run_groups)
async def test_while_a_group_is_loaded_only_heartbeats_pass(world: GroupWorld) -> None:
    world.groups.begin_load(HOME, CoordinatorEpoch(9))
    assert (await world.join()).error is E.coordinator_load_in_progress
    assert world.heartbeat("m") is E.none
    listed = world.groups.list()
    assert isinstance(listed, Rejection)
    assert listed.error is E.coordinator_load_in_progress
    assert read_whole(world.groups.read(HOME, CoordinatorEpoch(9), ()))
    assert world.heartbeat("m") is E.unknown_member_id


@within(run_groups)
async def test_a_coordinator_that_is_stopped_is_not_available(world: GroupWorld) -> None:
    world.groups.stop()
    assert world.heartbeat("m") is E.coordinator_not_available
    assert (await world.commit()).error is E.coordinator_not_available
    assert (await world.consume("a")).error is E.coordinator_not_available
    listed = world.groups.list()
    assert isinstance(listed, Rejection)
    assert listed.error is E.coordinator_not_available


@within(run_groups)
async def test_a_load_that_was_called_off_owns_nothing(world: GroupWorld) -> None:
    world.groups.begin_load(HOME, CoordinatorEpoch(5))
    world.groups.unload(HOME, CoordinatorEpoch(6))
    assert not read_whole(world.groups.read(HOME, CoordinatorEpoch(5), ()))
    assert not world.groups.owns(HOME)
    world.groups.begin_load(HOME, CoordinatorEpoch(8))
    world.groups.unload(HOME, CoordinatorEpoch(7))  # older news than the load
    assert read_whole(world.groups.read(HOME, CoordinatorEpoch(8), ()))
    world.groups.begin_load(HOME, CoordinatorEpoch(10))
    world.groups.unload(HOME)
    assert not read_whole(world.groups.read(HOME, CoordinatorEpoch(10), ()))


@within(run_groups)
async def test_a_log_that_can_not_be_read_is_counted(world: GroupWorld) -> None:
    load_whole(world.groups, HOME, CoordinatorEpoch(5), (b"\x00" * 61,))
    assert world.groups.load_problems_total == 1
    assert world.groups.owns(HOME)


@within(run_groups)
async def test_a_commit_is_answered_when_it_is_replicated_and_seen_then(world: GroupWorld) -> None:
    await world.commit(3)
    world.log.is_held = True
    waits = world.later(world.commit(5))
    await world.pass_ms(1)
    assert not waits.done()
    assert await world.fetch() == 3
    stable = world.later(world.fetch(require_stable=True))
    await world.pass_ms(1)
    assert not stable.done()
    world.log.release()
    assert (await waits) == ((TopicPartition("orders", 0), E.none),)
    assert (await stable, await world.fetch()) == (5, 5)


@within(run_groups)
async def test_a_commit_that_is_not_replicated_is_refused_and_so_is_a_fetch_of_stable_ones(
    world: GroupWorld,
) -> None:
    world.log.is_held = True
    commits = world.later(world.commit(5))
    reads = world.later(world.fetch(require_stable=True))
    await world.pass_ms(1)
    world.log.release(E.request_timed_out)
    assert (await commits).error is E.coordinator_not_available
    assert (await reads).error is E.not_coordinator


@within(run_groups)
async def test_errors_of_a_wait_reach_the_fetch_of_stable_positions(
    world: GroupWorld,
) -> None:
    world.log.is_held = True
    world.later(world.commit(5))
    reads = world.later(world.fetch(require_stable=True))
    await world.pass_ms(1)
    world.log.release(E.message_too_large)
    assert (await reads).error is E.unknown_server_error


@within(run_groups)
async def test_who_commits_while_the_partition_moves_is_sent_away(world: GroupWorld) -> None:
    world.log.is_held = True
    commits = world.later(world.commit(5))
    await world.pass_ms(1)
    world.unload()
    world.log.release()
    assert (await commits).error is E.not_coordinator


@within(run_groups)
async def test_a_commit_that_the_log_refuses_or_the_group_does(world: GroupWorld) -> None:
    world.log.refusal = E.not_leader_or_follower
    assert (await world.commit(5)).error is E.not_coordinator
    assert (await world.commit(5, generation=3)).error is E.group_id_not_found


def large_commit(count: int = 3_000) -> CommitOffsets:
    positions = tuple(
        NewPosition(topic_partition=TopicPartition("orders", index), offset=index)
        for index in range(count)
    )
    return commit_of(positions=positions)


@within(run_groups)
async def test_a_large_commit_is_one_append_whose_bytes_are_made_in_slices(
    world: GroupWorld,
) -> None:
    await world.groups.commit(large_commit())
    at_once = world.log.batches.pop()
    world.log.end = 0
    pace = Pace(world.env.tasks.turns, world.env.clock.stopwatch_ns)
    waits = world.later(world.groups.commit(large_commit(), pace))
    await asyncio.sleep(0)
    assert (pace.has_rested, world.log.batches) == (True, [])
    assert len(await waits) == 3_000
    assert world.log.batches == [at_once]


@within(run_groups)
async def test_who_comes_between_the_slices_of_a_large_commit_decides_about_it(
    world: GroupWorld,
) -> None:
    pace = Pace(world.env.tasks.turns, world.env.clock.stopwatch_ns)
    waits = world.later(world.groups.commit(large_commit(), pace))
    await asyncio.sleep(0)
    joined = await world.join()
    assert joined.error is E.none
    assert (await waits).error is E.unknown_member_id
    batches = [read_records(batch) for batch in world.log.batches]
    assert all(len(records) < 3_000 for records in batches)


@within(run_groups)
async def test_a_large_commit_whose_partition_moves_between_its_slices_is_sent_away(
    world: GroupWorld,
) -> None:
    pace = Pace(world.env.tasks.turns, world.env.clock.stopwatch_ns)
    waits = world.later(world.groups.commit(large_commit(), pace))
    await asyncio.sleep(0)
    world.unload()
    assert (await waits).error is E.not_coordinator
    assert world.log.batches == []


@within(run_groups)
async def test_a_large_commit_in_a_transaction_is_one_append_too(world: GroupWorld) -> None:
    pace = Pace(world.env.tasks.turns, world.env.clock.stopwatch_ns)
    command = msgspec.structs.replace(large_commit(), is_transactional=True)
    outcomes = await world.groups.commit_in_transaction(
        command, PRODUCER, verify=verify_as_agreed, pace=pace
    )
    assert not isinstance(outcomes, Rejection)
    assert (len(outcomes), pace.has_rested) == (3_000, True)
    (batch,) = world.log.batches
    assert read_batch_header(batch).records_count == 3_000
    assert (world.log.guards, await world.fetch()) == ([42], -1)


@within(run_groups)
async def test_a_batch_of_a_producer_without_an_epoch_trips_the_coordinator(
    world: GroupWorld,
) -> None:
    """Where nothing verifies: MemoryRecordsBuilder throws, as seen on a real 4.4.0."""
    for producer_id in (PRODUCER.producer_id, -2):
        rejection = await commit_unverified(world, producer_id, -1)
        assert isinstance(rejection, Rejection)
        assert (rejection.error, world.log.batches) == (E.unknown_server_error, [])


@within(run_groups)
async def test_a_commit_without_a_producer_is_an_ordinary_one(world: GroupWorld) -> None:
    """Where nothing verifies, as brokers of 3.6 do not: a real 3.6.2 and 4.3.1 take it at once.
    Any other negative id is a producer's.
    """
    assert not isinstance(await commit_unverified(world, -1, 3), Rejection)
    assert (await world.fetch(), await world.fetch(require_stable=True)) == (9, 9)
    assert not isinstance(await commit_unverified(world, -2, 0), Rejection)
    flags = [read_batch_header(batch).is_transactional for batch in world.log.batches]
    pending = [pid for shard in world.groups.shards() for pid in shard.offsets.pending_producers()]
    assert (flags, pending) == ([False, True], [-2])


@within(run_groups)
async def test_pending_positions_end_with_the_marker(world: GroupWorld) -> None:
    for committed, expected in ((False, 3), (True, 9)):
        await world.commit(3)
        await pending(world)
        assert world.log.guards[-1] == 42
        assert await world.fetch() == 3
        world.log.end += 1
        world.log.high_watermark = world.log.end
        world.groups.marker_written(HOME, marker(committed=committed), world.log.end - 1)
        assert await world.fetch() == expected


@within(run_groups)
async def test_pending_positions_are_loaded_as_pending(world: GroupWorld) -> None:
    await pending(world)
    world.unload()
    world.load()
    assert await world.fetch() == -1
    world.groups.marker_written(HOME, marker(committed=True), world.log.end)
    world.log.high_watermark = world.log.end + 1
    assert await world.fetch() == 9


def test_the_coordinator_of_the_transaction_is_asked_before_the_group() -> None:
    async def refuses(partition: int, producer: CommittingProducer) -> int | Rejection:
        return Rejection(error=E.network_exception, reason="cut")

    async def main(world: GroupWorld) -> None:
        async def moves(partition: int, producer: CommittingProducer) -> int | Rejection:
            world.unload()
            return 1

        for command, verify, error in (
            (commit_of(group_id="", is_transactional=True), verify_as_agreed, E.invalid_group_id),
            (
                commit_of(generation=3, is_transactional=True),
                refuses,
                E.coordinator_load_in_progress,
            ),
            (
                commit_of(generation=3, is_transactional=True, missing_group_named=False),
                verify_as_agreed,
                E.illegal_generation,
            ),
            (commit_of(is_transactional=True), moves, E.not_coordinator),
        ):
            rejection = await world.groups.commit_in_transaction(command, PRODUCER, verify=verify)
            assert isinstance(rejection, Rejection)
            assert rejection.error is error

    run_groups(main)


@within(run_groups)
async def test_positions_expire_with_the_cluster_clock_and_their_group_with_them(
    world: GroupWorld,
) -> None:
    await world.commit(5)
    world.env.clock.advance(6 * DAY_MS)
    world.groups.expire()
    assert await world.fetch() == 5
    world.env.clock.advance(DAY_MS + 600_000)
    world.groups.expire()
    assert await world.fetch() == -1
    assert world.groups.list() == ()


@within(run_groups)
async def test_a_position_that_a_transaction_may_change_does_not_expire(world: GroupWorld) -> None:
    await world.commit(5)
    await pending(world)
    world.env.clock.advance(30 * DAY_MS)
    world.groups.expire()
    assert await world.fetch() == 5


@within(run_groups)
async def test_what_can_not_be_expired_now_is_tried_again(world: GroupWorld) -> None:
    await world.commit(5)
    world.log.refusal = E.not_enough_replicas
    world.env.clock.advance(8 * DAY_MS)
    world.groups.expire()
    assert await world.fetch() == 5
    world.log.refusal = None
    world.groups.expire()
    assert await world.fetch() == -1


@within(run_groups)
async def test_positions_go_with_their_topic(world: GroupWorld) -> None:
    await world.commit(5)
    world.groups.topics_deleted({"other": uuid.UUID(int=7)})
    assert await world.fetch() == 5
    world.groups.topics_deleted({"orders": uuid.UUID(int=7)})
    assert await world.fetch() == -1


@within(run_groups)
async def test_positions_are_deleted_one_by_one_and_with_their_group(world: GroupWorld) -> None:
    orders = DeleteOffsets(group_id=GROUP, partitions=(TopicPartition("orders", 0),))
    await world.commit(5)
    assert await world.groups.delete_offsets(orders) == ((TopicPartition("orders", 0), E.none),)
    assert await world.fetch() == -1
    await world.commit(6)
    world.log.refusal = E.not_enough_replicas
    refused = await world.groups.delete_offsets(orders)
    assert isinstance(refused, Rejection)
    assert refused.error is E.coordinator_not_available
    world.log.refusal = None
    assert await world.groups.delete(GROUP) is None
    missing = await world.groups.delete(GROUP)
    assert missing is not None
    assert missing.error is E.group_id_not_found
    second_deletion = await world.groups.delete_offsets(orders)
    assert isinstance(second_deletion, Rejection)
    nameless = await world.groups.delete_offsets(DeleteOffsets(group_id="", partitions=()))
    assert isinstance(nameless, Rejection)


MANY = 60
"""Positions whose tombstones take several batches of ``LIMIT`` bytes."""
LIMIT = 700


async def commit_many(world: GroupWorld, group_id: str = GROUP) -> None:
    """Positions on as many partitions."""
    positions = tuple(
        NewPosition(topic_partition=TopicPartition("orders", offset), offset=offset)
        for offset in range(MANY)
    )
    command = CommitOffsets(group_id=group_id, positions=positions)
    assert not isinstance(await world.groups.commit(command), Rejection)


def count_positions(world: GroupWorld, group_id: str = GROUP) -> int:
    """How many positions the group has."""
    return sum(
        len(list(shard.offsets.committed_offsets(group_id))) for shard in world.groups.shards()
    )


@within(run_groups)
async def test_positions_expire_in_as_many_batches_as_it_takes(world: GroupWorld) -> None:
    """A real 4.3.1 and 4.4.0: 60 positions at max.message.bytes=700, then none."""
    await commit_many(world)
    world.log.limit = LIMIT
    batches_before = len(world.log.batches)
    world.env.clock.advance(8 * DAY_MS)
    world.groups.expire()
    assert count_positions(world) == 0
    assert world.groups.list() == (), "the group goes in the last one"
    batches = world.log.batches[batches_before:]
    assert len(batches) > 1
    assert all(LIMIT - 40 < len(batch) <= LIMIT for batch in batches[:-1]), "each is full"
    world.load()
    assert count_positions(world) == 0


@within(run_groups)
async def test_positions_of_a_topic_go_in_as_many_batches_as_it_takes(world: GroupWorld) -> None:
    """Else they would be told of the next topic of that name."""
    await commit_many(world)
    world.log.limit = LIMIT
    world.groups.topics_deleted({"orders": uuid.UUID(int=7)})
    assert count_positions(world) == 0
    world.load()
    assert count_positions(world) == 0


@within(run_groups)
async def test_what_the_log_has_taken_of_a_cleanup_has_taken_effect(world: GroupWorld) -> None:
    await commit_many(world)
    world.log.limit = LIMIT
    world.env.clock.advance(8 * DAY_MS)
    append, appends_succeed = world.log.append, iter((True, True))

    def append_two(partition: int, batch: bytes, *, guard: int = 0) -> Appended | Rejection:
        if not next(appends_succeed, False):
            return Rejection(error=E.not_enough_replicas, reason="no more")
        return append(partition, batch, guard=guard)

    world.log.append = append_two  # type: ignore[method-assign]
    world.groups.expire()
    positions_left = count_positions(world)
    assert 0 < positions_left < MANY
    world.load()
    assert count_positions(world) == positions_left
    world.log.append = append  # type: ignore[method-assign]
    world.groups.expire()
    assert count_positions(world) == 0


@within(run_groups)
async def test_what_a_client_deletes_goes_as_a_whole_or_not_at_all(world: GroupWorld) -> None:
    await commit_many(world)
    world.log.limit = LIMIT
    every = tuple(TopicPartition("orders", partition) for partition in range(MANY))
    refused = await world.groups.delete_offsets(DeleteOffsets(group_id=GROUP, partitions=every))
    assert isinstance(refused, Rejection)
    assert refused.error is E.unknown_server_error
    refusal = await world.groups.delete(GROUP)
    assert refusal is not None
    assert refusal.error is E.unknown_server_error
    assert count_positions(world) == MANY


def test_before_4_0_memory_forgets_what_the_log_still_has() -> None:
    """A real 3.9.2: an expired or deleted position is gone at once whatever the log says, and is
    back when the group's partition has moved.
    """

    async def main(world: GroupWorld) -> None:
        every = tuple(TopicPartition("orders", partition) for partition in range(MANY))
        world.env.clock.advance(8 * DAY_MS)

        async def delete_offsets() -> None:
            command = DeleteOffsets(group_id=GROUP, partitions=every)
            assert not isinstance(await world.groups.delete_offsets(command), Rejection)

        async def delete_group() -> None:
            assert await world.groups.delete(GROUP) is None

        async def delete_topic() -> None:
            world.groups.topics_deleted({"orders": uuid.UUID(int=7)})

        async def expire() -> None:
            world.env.clock.advance(8 * DAY_MS)
            world.groups.expire()

        for take_away in (delete_offsets, delete_group, delete_topic, expire):
            world.log.limit = 1_048_588
            await commit_many(world)
            world.log.limit = LIMIT
            await take_away()
            assert count_positions(world) == 0, take_away
            world.load()
            assert count_positions(world) == MANY, take_away

    run_groups(main, rules=Rules(cleanup_takes_many_batches=False))


@pytest.mark.usefixtures("all_levels")
def test_a_cleanup_that_is_refused_for_ever_is_told_once() -> None:
    async def main(world: GroupWorld) -> None:
        await commit_many(world)
        world.log.limit = 80  # no room for one tombstone
        with capture_logs() as lines:
            for _ in range(3):
                world.env.clock.advance(8 * DAY_MS)
                world.groups.expire()
            assert [line["event"] for line in lines] == ["group.cleanup-refused"]
            assert lines[0]["error"] == "UNKNOWN_SERVER_ERROR"
            assert "bytes" in lines[0]["reason"]
            world.log.limit = LIMIT
            world.groups.expire()
            assert count_positions(world) == 0
            assert len(lines) == 1

    run_groups(main)


# Very many positions.


async def committed(world: GroupWorld, topic: str, count: int, *, group_id: str = GROUP) -> None:
    positions = tuple(
        NewPosition(topic_partition=TopicPartition(topic, partition_index), offset=1)
        for partition_index in range(count)
    )
    outcomes = await world.groups.commit(CommitOffsets(group_id=group_id, positions=positions))
    assert not isinstance(outcomes, Rejection), outcomes


async def committed_offset(world: GroupWorld, topic: str, partition_index: int) -> int:
    query = FetchOffsets(group_id=GROUP, partitions=(TopicPartition(topic, partition_index),))
    positions = await world.groups.fetch(query)
    assert not isinstance(positions, Rejection)
    return positions[0].offset


@within(run_groups)
async def test_positions_of_a_deleted_topic_go_in_slices_and_are_told_of_no_other_topic(
    world: GroupWorld,
) -> None:
    await committed(world, "gone", 3_000)
    await committed(world, "stays", 2)
    batches_before = len(world.log.batches)
    world.groups.topics_deleted(dict.fromkeys(("gone", "unknown"), uuid.UUID(int=7)))
    assert [await committed_offset(world, "gone", index) for index in (0, 2_999)] == [-1, -1]
    new = NewPosition(topic_partition=TopicPartition("gone", 2_999), offset=7)
    await world.groups.commit(CommitOffsets(group_id=GROUP, positions=(new,)))
    assert await committed_offset(world, "gone", 2_999) == 7, (
        "the new topic of that name has a position"
    )
    await asyncio.sleep(1)
    assert len(world.log.batches) - batches_before >= 3_000 // SLICE_POSITIONS
    assert await committed_offset(world, "gone", 2_999) == 7
    assert await committed_offset(world, "stays", 1) == 1
    world.unload()
    world.load()
    assert [await committed_offset(world, "gone", index) for index in (0, 2_998, 2_999)] == [
        -1,
        -1,
        7,
    ]


@within(run_groups)
async def test_pending_positions_of_a_deleted_topic_go_too_but_not_those_of_the_next_one(
    world: GroupWorld,
) -> None:
    await committed(world, "orders", 1_000)
    await pending(world, 9)
    world.groups.topics_deleted({"orders": uuid.UUID(int=7)})
    world.groups.marker_written(HOME, marker(committed=True), world.log.end)
    assert await committed_offset(world, "orders", 0) == -1
    await asyncio.sleep(1)
    await pending(world, 10)
    world.groups.marker_written(HOME, marker(committed=True), world.log.end - 1)
    assert await committed_offset(world, "orders", 0) == 10


@within(run_groups)
async def test_a_transaction_has_so_many_positions_and_no_more(world: GroupWorld) -> None:
    with patch.object(service, "PENDING_MAX", 1):
        await _one_position_at_most(world)


async def _one_position_at_most(world: GroupWorld) -> None:
    await pending(world, 9)
    refused = await commit_unverified(world, PRODUCER.producer_id, 0)
    assert isinstance(refused, Rejection)
    assert refused.error is E.invalid_commit_offset_size
    world.groups.marker_written(HOME, marker(committed=False), world.log.end)
    assert not isinstance(await commit_unverified(world, PRODUCER.producer_id, 0), Rejection)


@within(run_groups)
async def test_a_group_with_too_many_positions_for_a_batch_is_refused_before_they_are_encoded(
    world: GroupWorld,
) -> None:
    await committed(world, "orders", 2_000)
    world.log.limit = 2_000 * 17
    refused = await world.groups.delete(GROUP)
    assert refused is not None
    assert refused.error is E.unknown_server_error
    assert "2000 tombstones" in refused.reason
    assert await committed_offset(world, "orders", 0) == 1
    world.log.limit = 2_000 * 24 + 30
    refused = await world.groups.delete(GROUP)
    assert refused is not None
    assert refused.error is E.unknown_server_error
    world.log.limit = 1_048_588
    assert await world.groups.delete(GROUP) is None


@within(run_groups)
async def test_a_group_with_very_many_positions_expires_in_slices_and_goes_with_the_last(
    world: GroupWorld,
) -> None:
    await committed(world, "orders", 1_001)
    batches_before = len(world.log.batches)
    world.env.clock.advance(8 * DAY_MS)
    await committed(world, "stays", 1)
    world.groups.expire()
    await asyncio.sleep(1)
    assert await committed_offset(world, "orders", 1_000) == -1
    assert await committed_offset(world, "stays", 0) == 1
    assert len(world.log.batches) - batches_before > 1_001 // SLICE_POSITIONS
    world.env.clock.advance(8 * DAY_MS)
    world.groups.expire()
    await asyncio.sleep(1)
    assert isinstance(world.groups.find(GROUP), Rejection)
