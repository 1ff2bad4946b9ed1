"""The group coordinator of a broker: whose group it is, when it answers, loads, expiry."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Callable
from itertools import pairwise
from unittest.mock import patch

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.at_once import load_whole, read_whole
from tests.support.group_world import (
    GROUP,
    HOME,
    PARTITIONS,
    PRODUCER,
    GroupBench,
    commit_of,
    run_groups,
)
from tests.support.streams_groups import heartbeat as streams_heartbeat
from tests.support.within_environment import within
from txnsim.coordinators.group import service
from txnsim.coordinators.group._writer import encode_records
from txnsim.coordinators.group.service import SLICE_POSITIONS
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.commands import SyncGroup
from txnsim.group.offset_commands import (
    CommitOffsets,
    CommittingProducer,
    DeleteOffsets,
    FetchOffsets,
    NewPosition,
    PartitionErrors,
)
from txnsim.group.records import OffsetCommitted
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.releases import Rules
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, LOOKS, Pace
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from txnsim.wire.batch import read_batch_header, read_records

E = ErrorCode
DAY_MS = 86_400_000
POSITIONS = TopicPartition(CONSUMER_OFFSETS_TOPIC, HOME)


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


async def pending(group_bench: GroupBench, offset: int = 9) -> None:
    """Commit a position in a transaction that has no marker yet."""
    command = commit_of(offset, is_transactional=True)
    outcomes = await group_bench.groups.commit_in_transaction(
        command, PRODUCER, verify=verify_as_agreed
    )
    assert not isinstance(outcomes, Rejection), outcomes


async def commit_unverified(
    group_bench: GroupBench, producer_id: int, epoch: int
) -> PartitionErrors | Rejection:
    """What a commit of that producer is answered where no coordinator is asked first."""

    async def unasked(_partition: int, _producer: CommittingProducer) -> int:
        return 42

    producer = msgspec.structs.replace(
        PRODUCER, producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(epoch)
    )
    command = commit_of(9, is_transactional=True)
    return await group_bench.groups.commit_in_transaction(command, producer, verify=unasked)


@within(run_groups)
async def test_many_groups_of_a_partition_that_is_given_up_are_released_in_slices(
    group_bench: GroupBench,
) -> None:
    shard = next(shard for shard in group_bench.groups.shards() if shard.partition == HOME)
    groups = [shard.classic_or_new(f"g-{number}", now_ms=1) for number in range(5_000)]
    with patch.object(service.ClassicGroups, "_refuse_waiting") as refuse_waiting:
        group_bench.unload()
    assert not refuse_waiting.called, "none has a member that could wait"
    del shard
    reference_counts: list[int] = []
    while not reference_counts or reference_counts[-1] > reference_counts[0] - len(groups):
        reference_counts.append(sum(map(sys.getrefcount, groups)))
        await asyncio.sleep(0)
        assert len(reference_counts) < 1_000
    released_counts = [
        before - after for before, after in pairwise(reference_counts) if before != after
    ]
    assert sum(released_counts) >= len(groups)
    assert max(released_counts) <= LOOKS * LOOK_ELEMENTS + LOOK_ELEMENTS


@within(run_groups)
async def test_every_request_of_a_group_elsewhere_is_sent_away(group_bench: GroupBench) -> None:
    group_bench.unload()
    not_coordinator_error = E.not_coordinator
    assert (await group_bench.join()).error is not_coordinator_error
    assert (await group_bench.sync("m")).error is not_coordinator_error
    assert group_bench.heartbeat("m") is not_coordinator_error
    assert (await group_bench.leave("m")).error is not_coordinator_error
    assert (await group_bench.consume("a")).error is not_coordinator_error
    assert (await group_bench.commit()).error is not_coordinator_error
    assert (await group_bench.fetch()).error is not_coordinator_error
    rejection = await group_bench.groups.commit_in_transaction(
        commit_of(), PRODUCER, verify=verify_as_agreed
    )
    assert isinstance(rejection, Rejection)
    assert rejection.error is not_coordinator_error
    deletion_rejection = await group_bench.groups.delete(GROUP)
    assert deletion_rejection is not None
    assert deletion_rejection.error is not_coordinator_error
    assert isinstance(group_bench.groups.find(GROUP), Rejection)
    assert isinstance(
        await group_bench.groups.delete_offsets(DeleteOffsets(group_id=GROUP, partitions=())),
        Rejection,
    )
    assert not group_bench.groups.owns(HOME)


@within(run_groups)
async def test_while_a_group_is_loaded_only_heartbeats_pass(group_bench: GroupBench) -> None:
    group_bench.groups.begin_load(HOME, CoordinatorEpoch(9))
    assert (await group_bench.join()).error is E.coordinator_load_in_progress
    assert group_bench.heartbeat("m") is E.none
    rejection = group_bench.groups.list()
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.coordinator_load_in_progress
    assert read_whole(group_bench.groups.read(HOME, CoordinatorEpoch(9), ()))
    assert group_bench.heartbeat("m") is E.unknown_member_id


@within(run_groups)
async def test_a_coordinator_that_is_stopped_is_not_available(group_bench: GroupBench) -> None:
    group_bench.groups.stop()
    assert group_bench.heartbeat("m") is E.coordinator_not_available
    assert (await group_bench.commit()).error is E.coordinator_not_available
    assert (await group_bench.consume("a")).error is E.coordinator_not_available
    rejection = group_bench.groups.list()
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.coordinator_not_available


async def errors_without_a_name(group_bench: GroupBench) -> dict[str, ErrorCode]:
    """The errors of requests without a group id, by request."""
    groups = group_bench.groups
    replies = {
        "JoinGroup": await group_bench.join(group_id=""),
        "SyncGroup": await groups.sync(SyncGroup(group_id="", generation=1, member_id="m")),
        "LeaveGroup": await group_bench.leave("m", group_id=""),
        "OffsetDelete": await groups.delete_offsets(DeleteOffsets(group_id="", partitions=())),
        "TxnOffsetCommit": await groups.commit_in_transaction(
            commit_of(group_id=""), PRODUCER, verify=verify_as_agreed
        ),
        "ConsumerGroupHeartbeat": await group_bench.consume("m", group_id=""),
        "ShareGroupHeartbeat": await group_bench.share("m", group_id=""),
        "StreamsGroupHeartbeat": await groups.streams_heartbeat(
            streams_heartbeat("m", 0, group_id="")
        ),
        "AlterShareGroupOffsets": await groups.alter_share_offsets("", []),
        "DeleteShareGroupOffsets": await groups.delete_share_offsets("", []),
    }
    errors = {request: reply.error for request, reply in replies.items()}
    return {**errors, "Heartbeat": group_bench.heartbeat("m", group_id="")}


@within(run_groups)
async def test_a_group_needs_a_name(group_bench: GroupBench) -> None:
    errors = await errors_without_a_name(group_bench)
    by_protocol = dict.fromkeys(
        ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"),
        E.invalid_request,
    )
    assert errors == {**dict.fromkeys(errors, E.invalid_group_id), **by_protocol}


@within(run_groups)
async def test_a_coordinator_that_is_stopped_does_not_look_at_the_name(
    group_bench: GroupBench,
) -> None:
    group_bench.groups.stop()
    errors = await errors_without_a_name(group_bench)
    assert errors == dict.fromkeys(errors, E.coordinator_not_available)
    rejection = await group_bench.groups.describe_share_offsets(GROUP, None)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.coordinator_not_available


@within(run_groups)
async def test_the_number_of_partitions_is_that_of_the_topic_if_there_is_one(
    group_bench: GroupBench,
) -> None:
    assert group_bench.groups.partitions == PARTITIONS
    assert GroupBench(group_bench.env, partitions=7).groups.partitions == 7


@within(run_groups)
async def test_a_load_that_was_called_off_owns_nothing(group_bench: GroupBench) -> None:
    group_bench.groups.begin_load(HOME, CoordinatorEpoch(5))
    group_bench.groups.unload(HOME, CoordinatorEpoch(6))
    assert not read_whole(group_bench.groups.read(HOME, CoordinatorEpoch(5), ()))
    assert not group_bench.groups.owns(HOME)
    group_bench.groups.begin_load(HOME, CoordinatorEpoch(8))
    group_bench.groups.unload(HOME, CoordinatorEpoch(7))  # older news than the load
    assert read_whole(group_bench.groups.read(HOME, CoordinatorEpoch(8), ()))
    group_bench.groups.begin_load(HOME, CoordinatorEpoch(10))
    group_bench.groups.unload(HOME)
    assert not read_whole(group_bench.groups.read(HOME, CoordinatorEpoch(10), ()))


@within(run_groups)
async def test_a_log_that_can_not_be_read_is_counted(group_bench: GroupBench) -> None:
    load_whole(group_bench.groups, HOME, CoordinatorEpoch(5), (b"\x00" * 61,))
    assert group_bench.groups.load_problems_total == 1
    assert group_bench.groups.owns(HOME)


@within(run_groups)
async def test_a_commit_is_answered_when_it_is_replicated_and_seen_then(
    group_bench: GroupBench,
) -> None:
    await group_bench.commit(3)
    group_bench.log.is_held = True
    waits_task = group_bench.later(group_bench.commit(5))
    await group_bench.pass_ms(1)
    assert not waits_task.done()
    assert await group_bench.fetch() == 3
    stable_fetch_task = group_bench.later(group_bench.fetch(require_stable=True))
    await group_bench.pass_ms(1)
    assert not stable_fetch_task.done()
    group_bench.log.release()
    assert (await waits_task) == ((TopicPartition("orders", 0), E.none),)
    assert (await stable_fetch_task, await group_bench.fetch()) == (5, 5)


@within(run_groups)
async def test_a_commit_that_is_not_replicated_is_refused_and_so_is_a_fetch_of_stable_ones(
    group_bench: GroupBench,
) -> None:
    group_bench.log.is_held = True
    commits_task = group_bench.later(group_bench.commit(5))
    reads_task = group_bench.later(group_bench.fetch(require_stable=True))
    await group_bench.pass_ms(1)
    group_bench.log.release(E.request_timed_out)
    assert (await commits_task).error is E.coordinator_not_available
    assert (await reads_task).error is E.not_coordinator


@within(run_groups)
async def test_errors_of_a_wait_reach_the_fetch_of_stable_positions(
    group_bench: GroupBench,
) -> None:
    group_bench.log.is_held = True
    group_bench.later(group_bench.commit(5))
    reads_task = group_bench.later(group_bench.fetch(require_stable=True))
    await group_bench.pass_ms(1)
    group_bench.log.release(E.message_too_large)
    assert (await reads_task).error is E.unknown_server_error


@within(run_groups)
async def test_a_refused_fetch_of_stable_positions_does_not_wait_for_the_log(
    group_bench: GroupBench,
) -> None:
    await group_bench.consume("a")
    group_bench.log.is_held = True
    group_bench.later(group_bench.consume("b"))
    await group_bench.pass_ms(1)
    reads_task = group_bench.later(
        group_bench.fetch(require_stable=True, member_id="nobody", member_epoch=1)
    )
    await group_bench.pass_ms(1)
    assert reads_task.done()
    assert (await reads_task).error is E.unknown_member_id


@within(run_groups)
async def test_who_commits_while_the_partition_moves_is_sent_away(group_bench: GroupBench) -> None:
    group_bench.log.is_held = True
    commits_task = group_bench.later(group_bench.commit(5))
    await group_bench.pass_ms(1)
    group_bench.unload()
    group_bench.log.release()
    assert (await commits_task).error is E.not_coordinator


@within(run_groups)
async def test_a_commit_that_the_log_refuses_or_the_group_does(group_bench: GroupBench) -> None:
    group_bench.log.refusal = E.not_leader_or_follower
    assert (await group_bench.commit(5)).error is E.not_coordinator
    assert (await group_bench.commit(5, generation=3)).error is E.group_id_not_found


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (Rules(), E.unknown_server_error),
        (Rules(large_positions_are_server_errors=False), E.invalid_commit_offset_size),
    ],
)
@pytest.mark.parametrize(
    "log_error", [E.message_too_large, E.record_list_too_large, E.invalid_fetch_size]
)
def test_positions_too_large_for_the_log_have_an_error_of_their_own_before_4_0(
    rules: Rules, error: ErrorCode, log_error: ErrorCode
) -> None:
    async def main(group_bench: GroupBench) -> None:
        group_bench.log.refusal = log_error
        assert (await group_bench.commit(5)).error is error
        assert (await group_bench.consume("a")).error is E.unknown_server_error

    run_groups(main, rules=rules)


@pytest.mark.parametrize(("character_count", "element_count"), [(0, 1), (1_024, 5)])
def test_a_large_record_counts_for_more_elements_as_it_is_encoded(
    character_count: int, element_count: int
) -> None:
    record = OffsetCommitted(
        group_id=GROUP,
        topic_partition=TopicPartition("orders", 0),
        position=5,
        metadata="m" * character_count,
        commit_timestamp_ms=0,
    )
    assert list(encode_records([record]))[-1] == element_count


def large_commit(count: int = 3_000) -> CommitOffsets:
    positions = tuple(
        NewPosition(topic_partition=TopicPartition("orders", index), offset=index)
        for index in range(count)
    )
    return commit_of(positions=positions)


@within(run_groups)
async def test_a_large_commit_is_one_append_whose_bytes_are_made_in_slices(
    group_bench: GroupBench,
) -> None:
    await group_bench.groups.commit(large_commit())
    at_once = group_bench.log.batches.pop()
    group_bench.log.end = 0
    pace = Pace(group_bench.env.tasks.turns, group_bench.env.clock.stopwatch_ns)
    waits_task = group_bench.later(group_bench.groups.commit(large_commit(), pace))
    await asyncio.sleep(0)
    assert (pace.has_rested, group_bench.log.batches) == (True, [])
    assert len(await waits_task) == 3_000
    assert group_bench.log.batches == [at_once]


@within(run_groups)
async def test_who_comes_between_the_slices_of_a_large_commit_decides_about_it(
    group_bench: GroupBench,
) -> None:
    pace = Pace(group_bench.env.tasks.turns, group_bench.env.clock.stopwatch_ns)
    waits_task = group_bench.later(group_bench.groups.commit(large_commit(), pace))
    await asyncio.sleep(0)
    join_reply = await group_bench.join()
    assert join_reply.error is E.none
    assert (await waits_task).error is E.unknown_member_id
    batches = [read_records(batch) for batch in group_bench.log.batches]
    assert all(len(records) < 3_000 for records in batches)


@within(run_groups)
async def test_a_large_commit_whose_partition_moves_between_its_slices_is_sent_away(
    group_bench: GroupBench,
) -> None:
    pace = Pace(group_bench.env.tasks.turns, group_bench.env.clock.stopwatch_ns)
    waits_task = group_bench.later(group_bench.groups.commit(large_commit(), pace))
    await asyncio.sleep(0)
    group_bench.unload()
    assert (await waits_task).error is E.not_coordinator
    assert group_bench.log.batches == []


@within(run_groups)
async def test_a_large_commit_in_a_transaction_is_one_append_too(group_bench: GroupBench) -> None:
    pace = Pace(group_bench.env.tasks.turns, group_bench.env.clock.stopwatch_ns)
    command = msgspec.structs.replace(large_commit(), is_transactional=True)
    outcomes = await group_bench.groups.commit_in_transaction(
        command, PRODUCER, verify=verify_as_agreed, pace=pace
    )
    assert not isinstance(outcomes, Rejection)
    assert (len(outcomes), pace.has_rested) == (3_000, True)
    (batch,) = group_bench.log.batches
    assert read_batch_header(batch).records_count == 3_000
    assert (group_bench.log.guards, await group_bench.fetch()) == ([42], -1)


@within(run_groups)
async def test_a_batch_of_a_producer_without_an_epoch_trips_the_coordinator(
    group_bench: GroupBench,
) -> None:
    """Without verification MemoryRecordsBuilder throws, as on a real 4.4.0."""
    for producer_id in (PRODUCER.producer_id, -2):
        rejection = await commit_unverified(group_bench, producer_id, -1)
        assert isinstance(rejection, Rejection)
        assert (rejection.error, group_bench.log.batches) == (E.unknown_server_error, [])


@within(run_groups)
async def test_a_commit_without_a_producer_is_an_ordinary_one(group_bench: GroupBench) -> None:
    """Where nothing verifies, as brokers of 3.6 do not: a real 3.6.2 and 4.3.1 take it at once.
    Any other negative id is a producer's.
    """
    assert not isinstance(await commit_unverified(group_bench, -1, 3), Rejection)
    assert (await group_bench.fetch(), await group_bench.fetch(require_stable=True)) == (9, 9)
    assert not isinstance(await commit_unverified(group_bench, -2, 0), Rejection)
    flags = [read_batch_header(batch).is_transactional for batch in group_bench.log.batches]
    pending_producer_ids = [
        producer_id
        for shard in group_bench.groups.shards()
        for producer_id in shard.offsets.pending_producers()
    ]
    assert (flags, pending_producer_ids) == ([False, True], [-2])


@within(run_groups)
async def test_pending_positions_end_with_the_marker(group_bench: GroupBench) -> None:
    for committed, expected_number in ((False, 3), (True, 9)):
        await group_bench.commit(3)
        await pending(group_bench)
        assert group_bench.log.guards[-1] == 42
        assert await group_bench.fetch() == 3
        group_bench.log.end += 1
        group_bench.log.high_watermark = group_bench.log.end
        group_bench.groups.marker_written(
            HOME, marker(committed=committed), group_bench.log.end - 1
        )
        assert await group_bench.fetch() == expected_number


@within(run_groups)
async def test_pending_positions_are_loaded_as_pending(group_bench: GroupBench) -> None:
    await pending(group_bench)
    group_bench.unload()
    group_bench.load()
    assert await group_bench.fetch() == -1
    group_bench.groups.marker_written(HOME, marker(committed=True), group_bench.log.end)
    group_bench.log.high_watermark = group_bench.log.end + 1
    assert await group_bench.fetch() == 9


def test_the_coordinator_of_the_transaction_is_asked_before_the_group() -> None:
    async def refuses(partition: int, producer: CommittingProducer) -> int | Rejection:
        return Rejection(error=E.network_exception, reason="cut")

    async def main(group_bench: GroupBench) -> None:
        async def moves(partition: int, producer: CommittingProducer) -> int | Rejection:
            group_bench.unload()
            return 1

        for command, verify, error in (
            (commit_of(group_id="", is_transactional=True), verify_as_agreed, E.invalid_group_id),
            (
                commit_of(generation=3, is_transactional=True),
                refuses,
                E.coordinator_load_in_progress,
            ),
            (
                commit_of(generation=3, is_transactional=True, names_missing_group=False),
                verify_as_agreed,
                E.illegal_generation,
            ),
            (commit_of(is_transactional=True), moves, E.not_coordinator),
        ):
            rejection = await group_bench.groups.commit_in_transaction(
                command, PRODUCER, verify=verify
            )
            assert isinstance(rejection, Rejection)
            assert rejection.error is error

    run_groups(main)


@within(run_groups)
async def test_positions_expire_with_the_cluster_clock_and_their_group_with_them(
    group_bench: GroupBench,
) -> None:
    await group_bench.commit(5)
    group_bench.env.clock.advance(6 * DAY_MS)
    group_bench.groups.expire()
    assert await group_bench.fetch() == 5
    group_bench.env.clock.advance(DAY_MS + 600_000)
    group_bench.groups.expire()
    assert await group_bench.fetch() == -1
    assert group_bench.groups.list() == ()


@within(run_groups)
async def test_a_position_that_a_transaction_may_change_does_not_expire(
    group_bench: GroupBench,
) -> None:
    await group_bench.commit(5)
    await pending(group_bench)
    group_bench.env.clock.advance(30 * DAY_MS)
    group_bench.groups.expire()
    assert await group_bench.fetch() == 5


@within(run_groups)
async def test_what_can_not_be_expired_now_is_tried_again(group_bench: GroupBench) -> None:
    await group_bench.commit(5)
    group_bench.log.refusal = E.not_enough_replicas
    group_bench.env.clock.advance(8 * DAY_MS)
    group_bench.groups.expire()
    assert await group_bench.fetch() == 5
    group_bench.log.refusal = None
    group_bench.groups.expire()
    assert await group_bench.fetch() == -1


@within(run_groups)
async def test_positions_go_with_their_topic(group_bench: GroupBench) -> None:
    await group_bench.commit(5)
    group_bench.groups.topics_deleted({"other": uuid.UUID(int=7)})
    assert await group_bench.fetch() == 5
    group_bench.groups.topics_deleted({"orders": uuid.UUID(int=7)})
    assert await group_bench.fetch() == -1


@within(run_groups)
async def test_positions_are_deleted_one_by_one_and_with_their_group(
    group_bench: GroupBench,
) -> None:
    orders_deletion = DeleteOffsets(group_id=GROUP, partitions=(TopicPartition("orders", 0),))
    await group_bench.commit(5)
    assert await group_bench.groups.delete_offsets(orders_deletion) == (
        (TopicPartition("orders", 0), E.none),
    )
    assert await group_bench.fetch() == -1
    await group_bench.commit(6)
    group_bench.log.refusal = E.not_enough_replicas
    rejection = await group_bench.groups.delete_offsets(orders_deletion)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.coordinator_not_available
    group_bench.log.refusal = None
    assert await group_bench.groups.delete(GROUP) is None
    missing_rejection = await group_bench.groups.delete(GROUP)
    assert missing_rejection is not None
    assert missing_rejection.error is E.group_id_not_found
    second_deletion = await group_bench.groups.delete_offsets(orders_deletion)
    assert isinstance(second_deletion, Rejection)
    nameless = await group_bench.groups.delete_offsets(DeleteOffsets(group_id="", partitions=()))
    assert isinstance(nameless, Rejection)


MANY = 60
"""Positions whose tombstones take several batches of ``LIMIT`` bytes."""
LIMIT = 700


async def commit_many(group_bench: GroupBench, group_id: str = GROUP) -> None:
    """Commit positions on ``MANY`` partitions."""
    positions = tuple(
        NewPosition(topic_partition=TopicPartition("orders", offset), offset=offset)
        for offset in range(MANY)
    )
    command = CommitOffsets(group_id=group_id, positions=positions)
    assert not isinstance(await group_bench.groups.commit(command), Rejection)


def count_positions(group_bench: GroupBench, group_id: str = GROUP) -> int:
    return sum(
        len(list(shard.offsets.committed_offsets(group_id)))
        for shard in group_bench.groups.shards()
    )


def refusing_admission(group_bench: GroupBench) -> None:
    """Refuse every append by a fault."""

    async def refuse() -> Rejection | None:
        return Rejection(error=E.not_enough_replicas, reason="a fault")

    group_bench.log.admission = refuse


@pytest.mark.usefixtures("all_levels")
@within(run_groups)
async def test_an_expiry_that_a_fault_refuses_is_told_once_and_tried_again(
    group_bench: GroupBench,
) -> None:
    await group_bench.commit(5)
    refusing_admission(group_bench)
    group_bench.env.clock.advance(8 * DAY_MS)
    with capture_logs() as lines:
        for _ in range(2):
            group_bench.groups.expire()
            await group_bench.pass_ms(1)
    assert [line["event"] for line in lines] == ["group.cleanup-refused"]
    assert await group_bench.fetch() == 5
    group_bench.log.admission = None
    group_bench.groups.expire()
    assert await group_bench.fetch() == -1


@pytest.mark.parametrize("moves_first", [True, False])
@within(run_groups)
async def test_nothing_expires_of_partitions_that_move_while_one_waits(
    group_bench: GroupBench, moves_first: bool
) -> None:
    for number in range(12):
        await group_bench.commit(5, group_id=f"g{number}")
    first_shard, *other_shards = group_bench.groups.shards()
    assert all(len(shard.groups) > 1 for shard in group_bench.groups.shards())
    log_end_offset = group_bench.log.end
    moving_shards = [first_shard] if moves_first else other_shards

    async def move() -> Rejection | None:
        group_bench.log.admission = None
        for shard in moving_shards:
            group_bench.groups.unload(shard.partition)
        return None

    group_bench.log.admission = move
    group_bench.env.clock.advance(8 * DAY_MS)
    group_bench.groups.expire()
    await group_bench.pass_ms(1)
    staying_shards = [first_shard, *other_shards]
    for shard in moving_shards:
        staying_shards.remove(shard)
        assert shard.groups, "the next coordinator sees to it"
    assert not any(shard.groups for shard in staying_shards)
    assert group_bench.log.end > log_end_offset


@within(run_groups)
async def test_a_deletion_of_positions_that_are_not_there_writes_nothing(
    group_bench: GroupBench,
) -> None:
    await group_bench.commit(5)
    log_end_offset = group_bench.log.end
    refusing_admission(group_bench)
    other_partition = TopicPartition("orders", 1)
    command = DeleteOffsets(group_id=GROUP, partitions=(other_partition,))
    assert await group_bench.groups.delete_offsets(command) == ((other_partition, E.none),)
    assert group_bench.log.end == log_end_offset


# What fault rules are told of a write


@within(run_groups)
async def test_fault_rules_hear_of_the_partition_and_of_the_producer(
    group_bench: GroupBench,
) -> None:
    subjects: list[Subject] = []

    def admit(_partition: int, subject: Callable[[TopicPartition], Subject]) -> None:
        subjects.append(subject(POSITIONS))

    group_bench.log.admit = admit  # type: ignore[method-assign] # a fault that only listens
    await group_bench.commit(5)
    await pending(group_bench)
    assert subjects == [
        Subject(partitions=(POSITIONS,)),
        Subject(
            transactional_id=PRODUCER.transactional_id,
            producer_id=PRODUCER.producer_id,
            partitions=(POSITIONS,),
        ),
    ]


@within(run_groups)
async def test_positions_expire_in_as_many_batches_as_it_takes(group_bench: GroupBench) -> None:
    """On a real 4.3.1 and 4.4.0, 60 positions expire with max.message.bytes=700."""
    await commit_many(group_bench)
    group_bench.log.limit = LIMIT
    batches_before = len(group_bench.log.batches)
    group_bench.env.clock.advance(8 * DAY_MS)
    group_bench.groups.expire()
    assert count_positions(group_bench) == 0
    assert group_bench.groups.list() == (), "the group goes in the last one"
    batches = group_bench.log.batches[batches_before:]
    assert len(batches) > 1
    assert all(LIMIT - 40 < len(batch) <= LIMIT for batch in batches[:-1]), "each is full"
    group_bench.load()
    assert count_positions(group_bench) == 0


@within(run_groups)
async def test_positions_of_a_topic_go_in_as_many_batches_as_it_takes(
    group_bench: GroupBench,
) -> None:
    """A position that stayed would count for the next topic of the same name."""
    await commit_many(group_bench)
    group_bench.log.limit = LIMIT
    group_bench.groups.topics_deleted({"orders": uuid.UUID(int=7)})
    assert count_positions(group_bench) == 0
    group_bench.load()
    assert count_positions(group_bench) == 0


@within(run_groups)
async def test_what_the_log_has_taken_of_a_cleanup_has_taken_effect(
    group_bench: GroupBench,
) -> None:
    await commit_many(group_bench)
    group_bench.log.limit = LIMIT
    group_bench.env.clock.advance(8 * DAY_MS)
    append, appends_succeed = group_bench.log.append, iter((True, True))

    def append_two(partition: int, batch: bytes, *, guard: int = 0) -> Appended | Rejection:
        if not next(appends_succeed, False):
            return Rejection(error=E.not_enough_replicas, reason="no more")
        return append(partition, batch, guard=guard)

    group_bench.log.append = append_two  # type: ignore[method-assign]
    group_bench.groups.expire()
    positions_left = count_positions(group_bench)
    assert 0 < positions_left < MANY
    group_bench.load()
    assert count_positions(group_bench) == positions_left
    group_bench.log.append = append  # type: ignore[method-assign]
    group_bench.groups.expire()
    assert count_positions(group_bench) == 0


@within(run_groups)
async def test_what_a_client_deletes_goes_as_a_whole_or_not_at_all(group_bench: GroupBench) -> None:
    await commit_many(group_bench)
    group_bench.log.limit = LIMIT
    all_partitions = tuple(TopicPartition("orders", partition) for partition in range(MANY))
    rejection = await group_bench.groups.delete_offsets(
        DeleteOffsets(group_id=GROUP, partitions=all_partitions)
    )
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.unknown_server_error
    refusal = await group_bench.groups.delete(GROUP)
    assert refusal is not None
    assert refusal.error is E.unknown_server_error
    assert count_positions(group_bench) == MANY


def test_before_4_0_memory_forgets_what_the_log_still_has() -> None:
    """A real 3.9.2: an expired or deleted position is gone at once whatever the log says, and is
    back when the group's partition has moved.
    """

    async def main(group_bench: GroupBench) -> None:
        all_partitions = tuple(TopicPartition("orders", partition) for partition in range(MANY))
        group_bench.env.clock.advance(8 * DAY_MS)

        async def delete_offsets() -> None:
            command = DeleteOffsets(group_id=GROUP, partitions=all_partitions)
            assert not isinstance(await group_bench.groups.delete_offsets(command), Rejection)

        async def delete_group() -> None:
            assert await group_bench.groups.delete(GROUP) is None

        async def delete_topic() -> None:
            group_bench.groups.topics_deleted({"orders": uuid.UUID(int=7)})

        async def expire() -> None:
            group_bench.env.clock.advance(8 * DAY_MS)
            group_bench.groups.expire()

        for take_away in (delete_offsets, delete_group, delete_topic, expire):
            group_bench.log.limit = 1_048_588
            await commit_many(group_bench)
            group_bench.log.limit = LIMIT
            await take_away()
            assert count_positions(group_bench) == 0, take_away
            group_bench.load()
            assert count_positions(group_bench) == MANY, take_away

    run_groups(main, rules=Rules(cleanup_takes_many_batches=False))


@pytest.mark.usefixtures("all_levels")
def test_a_cleanup_that_is_refused_for_ever_is_told_once() -> None:
    async def main(group_bench: GroupBench) -> None:
        await commit_many(group_bench)
        group_bench.log.limit = 80  # no room for one tombstone
        with capture_logs() as lines:
            for _ in range(3):
                group_bench.env.clock.advance(8 * DAY_MS)
                group_bench.groups.expire()
            assert [line["event"] for line in lines] == ["group.cleanup-refused"]
            assert lines[0]["error"] == "UNKNOWN_SERVER_ERROR"
            assert "bytes" in lines[0]["reason"]
            group_bench.log.limit = LIMIT
            group_bench.groups.expire()
            assert count_positions(group_bench) == 0
            assert len(lines) == 1

    run_groups(main)


# Very many positions.


async def committed(
    group_bench: GroupBench, topic: str, count: int, *, group_id: str = GROUP
) -> None:
    positions = tuple(
        NewPosition(topic_partition=TopicPartition(topic, partition_index), offset=1)
        for partition_index in range(count)
    )
    outcomes = await group_bench.groups.commit(
        CommitOffsets(group_id=group_id, positions=positions)
    )
    assert not isinstance(outcomes, Rejection), outcomes


async def committed_offset(group_bench: GroupBench, topic: str, partition_index: int) -> int:
    query = FetchOffsets(group_id=GROUP, partitions=(TopicPartition(topic, partition_index),))
    positions = await group_bench.groups.fetch(query)
    assert not isinstance(positions, Rejection)
    return positions[0].offset


@within(run_groups)
async def test_positions_of_a_deleted_topic_go_in_slices_and_are_told_of_no_other_topic(
    group_bench: GroupBench,
) -> None:
    await committed(group_bench, "gone", 3_000)
    await committed(group_bench, "stays", 2)
    batches_before = len(group_bench.log.batches)
    group_bench.groups.topics_deleted(dict.fromkeys(("gone", "unknown"), uuid.UUID(int=7)))
    assert [await committed_offset(group_bench, "gone", index) for index in (0, 2_999)] == [-1, -1]
    new_position = NewPosition(topic_partition=TopicPartition("gone", 2_999), offset=7)
    await group_bench.groups.commit(CommitOffsets(group_id=GROUP, positions=(new_position,)))
    assert await committed_offset(group_bench, "gone", 2_999) == 7, (
        "the new topic of that name has a position"
    )
    await asyncio.sleep(1)
    assert len(group_bench.log.batches) - batches_before >= 3_000 // SLICE_POSITIONS
    assert await committed_offset(group_bench, "gone", 2_999) == 7
    assert await committed_offset(group_bench, "stays", 1) == 1
    group_bench.unload()
    group_bench.load()
    assert [await committed_offset(group_bench, "gone", index) for index in (0, 2_998, 2_999)] == [
        -1,
        -1,
        7,
    ]


@within(run_groups)
async def test_pending_positions_of_a_deleted_topic_go_too_but_not_those_of_the_next_one(
    group_bench: GroupBench,
) -> None:
    await committed(group_bench, "orders", 1_000)
    await pending(group_bench, 9)
    group_bench.groups.topics_deleted({"orders": uuid.UUID(int=7)})
    group_bench.groups.marker_written(HOME, marker(committed=True), group_bench.log.end)
    assert await committed_offset(group_bench, "orders", 0) == -1
    await asyncio.sleep(1)
    await pending(group_bench, 10)
    group_bench.groups.marker_written(HOME, marker(committed=True), group_bench.log.end - 1)
    assert await committed_offset(group_bench, "orders", 0) == 10


@within(run_groups)
async def test_a_transaction_has_so_many_positions_and_no_more(group_bench: GroupBench) -> None:
    with patch.object(service, "PENDING_MAX", 1):
        await _one_position_at_most(group_bench)


async def _one_position_at_most(group_bench: GroupBench) -> None:
    await pending(group_bench, 9)
    rejection = await commit_unverified(group_bench, PRODUCER.producer_id, 0)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.invalid_commit_offset_size
    group_bench.groups.marker_written(HOME, marker(committed=False), group_bench.log.end)
    assert not isinstance(await commit_unverified(group_bench, PRODUCER.producer_id, 0), Rejection)


@within(run_groups)
async def test_a_group_with_too_many_positions_for_a_batch_is_refused_before_they_are_encoded(
    group_bench: GroupBench,
) -> None:
    await committed(group_bench, "orders", 2_000)
    group_bench.log.limit = 2_000 * 17
    rejection = await group_bench.groups.delete(GROUP)
    assert rejection is not None
    assert rejection.error is E.unknown_server_error
    assert "2000 tombstones" in rejection.reason
    assert await committed_offset(group_bench, "orders", 0) == 1
    group_bench.log.limit = 2_000 * 24 + 30
    rejection = await group_bench.groups.delete(GROUP)
    assert rejection is not None
    assert rejection.error is E.unknown_server_error
    group_bench.log.limit = 1_048_588
    assert await group_bench.groups.delete(GROUP) is None


@within(run_groups)
async def test_a_group_with_very_many_positions_expires_in_slices_and_goes_with_the_last(
    group_bench: GroupBench,
) -> None:
    await committed(group_bench, "orders", 1_001)
    batches_before = len(group_bench.log.batches)
    group_bench.env.clock.advance(8 * DAY_MS)
    await committed(group_bench, "stays", 1)
    group_bench.groups.expire()
    await asyncio.sleep(1)
    assert await committed_offset(group_bench, "orders", 1_000) == -1
    assert await committed_offset(group_bench, "stays", 0) == 1
    assert len(group_bench.log.batches) - batches_before > 1_001 // SLICE_POSITIONS
    group_bench.env.clock.advance(8 * DAY_MS)
    group_bench.groups.expire()
    await asyncio.sleep(1)
    assert isinstance(group_bench.groups.find(GROUP), Rejection)
