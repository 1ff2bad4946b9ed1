"""Fetch: sizes, offsets and epochs, and when a reader is kept waiting (DelayedFetch)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.support.images import cluster, partition, topic
from tests.support.leader_bench import P0, P1, UNKNOWN, LeaderBench, part, produce, settle
from tests.support.logs import NOW
from tests.support.markers import append_marker
from txnsim.broker.fetch import CONSUMER_REPLICA_ID, FUTURE_REPLICA_ID, FetchCommand, Outcomes
from txnsim.errors import ErrorCode
from txnsim.log.leader_append import append_client, start_verification
from txnsim.replica.fetch_values import FetchPartition, Naming
from txnsim.runtime.loop_turns import Pace
from txnsim.types import IsolationLevel, TopicPartition

E = ErrorCode
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@pytest.fixture
async def leader() -> LeaderBench:
    return LeaderBench(transaction_partition_verification_enable=False)


def fetch_partition(
    topic_partition: TopicPartition = P0, offset: int = 0, **request_fields: Any
) -> FetchPartition:
    return FetchPartition(
        topic_partition=topic_partition,
        fetch_offset=offset,
        max_bytes=request_fields.pop("max_bytes", 1 << 20),
        **request_fields,
    )


def fetch(
    *partitions: FetchPartition,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: IsolationLevel = UNCOMMITTED,
    reads_leader_only: bool = False,
    replica_id: int = CONSUMER_REPLICA_ID,
) -> FetchCommand:
    return FetchCommand(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation=isolation,
        partitions=partitions or (fetch_partition(),),
        reads_leader_only=reads_leader_only or replica_id >= 0,
        replica_id=replica_id,
    )


async def test_a_consumer_gets_the_beginning_of_the_batch_at_the_size_limit() -> None:
    """Kafka sends a slice of its file to consumers; replicas get whole batches here."""
    leader = LeaderBench()
    await append(leader)
    await append(leader)
    (uncut_outcome,) = await leader.fetching.fetch(fetch())
    limit = len(uncut_outcome.records[0]) + 9
    (cut_outcome,) = await leader.fetching.fetch(fetch(fetch_partition(max_bytes=limit)))
    assert cut_outcome.records == (uncut_outcome.records[0], uncut_outcome.records[1][:9])
    assert cut_outcome.size_bytes == limit
    (replica_outcome,) = await leader.fetching.fetch(
        fetch(fetch_partition(max_bytes=limit), replica_id=FUTURE_REPLICA_ID)
    )
    assert replica_outcome.records == uncut_outcome.records[:1]


def start(leader: LeaderBench, command: FetchCommand) -> asyncio.Task[Outcomes]:
    return asyncio.get_running_loop().create_task(leader.fetching.fetch(command))


async def append(
    leader: LeaderBench, topic_partition: TopicPartition = P0, **batch_fields: Any
) -> None:
    outcome_by_partition = await leader.producing.produce(
        produce(part(topic_partition, **batch_fields))
    )
    assert outcome_by_partition[topic_partition].error is E.none


def open_transaction(leader: LeaderBench, sequence: int = 0) -> None:
    log = leader.log()
    guard = start_verification(
        log,
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        supports_epoch_bump=False,
        now_ms=NOW,
    )
    assert isinstance(guard, int)
    batch = part(P0, sequence, is_transactional=True)
    append_client(log, batch.batch, guard=guard, now_ms=NOW)
    log.advance_high_watermark(log.log_end_offset)
    leader.purgatory.touch(P0)


def end_transaction(leader: LeaderBench, *, committed: bool = True) -> None:
    log = leader.log()
    append_marker(
        log,
        producer_id=7,
        producer_epoch=0,
        committed=committed,
        coordinator_epoch=0,
        transaction_version=0,
        now_ms=NOW,
    )
    log.advance_high_watermark(log.log_end_offset)
    leader.purgatory.touch(P0)


# Reading


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (fetch_partition(TopicPartition("", 0), naming=Naming.NO_NAME), E.unknown_topic_id),
        (
            fetch_partition(P0, naming=Naming.OTHER_TOPIC, current_leader_epoch=9),
            E.inconsistent_topic_id,
        ),
        (fetch_partition(UNKNOWN, naming=Naming.OTHER_TOPIC), E.unknown_topic_or_partition),
    ],
)
async def test_a_topic_id_without_its_name_is_refused(
    leader: LeaderBench, row: FetchPartition, error: ErrorCode
) -> None:
    (outcome,) = await leader.fetching.fetch(fetch(row, max_wait_ms=1_000))
    assert outcome.error is error


@pytest.mark.parametrize(
    ("replica_id", "epoch", "error"),
    [
        (3, -1, E.not_leader_or_follower),
        (3, 0, E.unknown_leader_epoch),
        (1, -1, E.not_leader_or_follower),
        (2, -1, E.none),
        (2, 0, E.none),
    ],
)
async def test_who_fetches_as_a_follower_must_be_one(
    replica_id: int, epoch: int, error: ErrorCode
) -> None:
    followed_topic = topic("orders", partition(1, replicas=(1, 2)))
    leader = LeaderBench(cluster().with_topic(followed_topic))
    row = fetch_partition(P0, current_leader_epoch=epoch)
    (outcome,) = await leader.fetching.fetch(fetch(row, replica_id=replica_id))
    assert outcome.error is error


async def test_followers_read_what_is_not_replicated_yet() -> None:
    leader = LeaderBench(cluster().with_topic(topic("orders", partition(1, replicas=(1, 2)))))
    await leader.producing.produce(produce(part(), acks=1))
    for replica_id, read in ((CONSUMER_REPLICA_ID, 0), (2, 1), (FUTURE_REPLICA_ID, 1)):
        command = fetch(replica_id=replica_id, isolation=COMMITTED)
        (outcome,) = await leader.fetching.fetch(command)
        assert (len(outcome.records), outcome.high_watermark) == (read, 0)
    task = start(leader, fetch(fetch_partition(P0, 1), replica_id=2, max_wait_ms=500))
    await settle()
    await leader.producing.produce(produce(part(), acks=1))
    leader.purgatory.touch(P0)
    assert len((await task)[0].records) == 1


async def test_the_brokers_limit_caps_the_clients(leader: LeaderBench) -> None:
    for topic_partition in (P0, P1):
        await append(leader, topic_partition, record_value=b"x" * 500)
    leader.set(fetch_max_bytes=600)
    outcomes = await leader.fetching.fetch(fetch(fetch_partition(P0), fetch_partition(P1)))
    assert [len(outcome.records) for outcome in outcomes] == [1, 0]


@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging", "error"),
    [
        (0, 2, None, E.none),
        (0, 4, (0, 3), E.none),  # epoch 0 ended at 3
        (1, 3, (0, 3), E.none),  # epoch 1 never was
        (2, 4, None, E.none),
        (9, 4, None, E.offset_out_of_range),
    ],
)
async def test_a_reader_that_has_diverged_learns_where(
    leader: LeaderBench,
    last_epoch: int,
    offset: int,
    diverging: tuple[int, int] | None,
    error: ErrorCode,
) -> None:
    await append(leader, count=3)
    leader.apply(leader.image.with_partition(P0, partition(1, replicas=(1,), epoch=2)))
    await append(leader, count=2)
    row = fetch_partition(P0, offset, last_fetched_epoch=last_epoch)
    outcome = (await leader.fetching.fetch(fetch(row, max_wait_ms=1_000)))[0]
    assert outcome.diverging_epoch == diverging
    assert outcome.error is error
    assert bool(outcome.records) == (diverging is None and error is E.none)
    if diverging is not None:
        assert outcome.high_watermark == 5


# Waiting


async def test_a_reader_waits_for_min_bytes_and_reads_again(leader: LeaderBench) -> None:
    task = start(leader, fetch(max_wait_ms=500, min_bytes=100))
    await settle()
    await append(leader, record_value=b"")
    await settle()
    assert not task.done(), "some bytes, not enough"
    await append(leader, record_value=b"x" * 50)
    assert len((await task)[0].records) == 2


async def test_waiting_ends_at_max_wait_of_monotonic_time(leader: LeaderBench) -> None:
    task = start(leader, fetch(max_wait_ms=500))
    await settle()
    leader.clock.advance(3_600_000)
    await settle()
    assert not task.done(), "an advance of the cluster clock does not end a long poll"
    leader.clock.pass_ms(500)
    assert (await task)[0].records == ()


@pytest.mark.parametrize("rest", [3, 4, 6])
async def test_what_is_written_between_the_slices_of_a_wait_is_not_missed(
    leader: LeaderBench, rest: int
) -> None:
    """Behind the first read, once it is known what is wanted, and when P0 has been looked at."""

    class InterruptedPace:
        """A pace that breaks at each partition of the first read, behind it, behind the list of
        what is wanted, and at each partition that is looked at.
        """

        def __init__(self) -> None:
            self.rests = 0

        def has_done(self, _elements: int) -> bool:
            return True

        async def yield_turn(self) -> None:
            self.rests += 1
            if self.rests == rest:
                await append(leader)

    command = fetch(fetch_partition(), fetch_partition(P1), max_wait_ms=1_000)
    first_outcome, second_outcome = await leader.fetching.fetch(
        command, cast(Pace, InterruptedPace())
    )
    assert (first_outcome.size_bytes > 0, second_outcome.size_bytes) == (True, 0)
    assert len(leader.purgatory) == 0


async def test_read_committed_is_woken_by_the_last_stable_offset_and_not_by_an_append(
    leader: LeaderBench,
) -> None:
    task = start(leader, fetch(max_wait_ms=500, isolation=COMMITTED))
    await settle()
    open_transaction(leader)
    await settle()
    assert not task.done()
    end_transaction(leader)
    assert len((await task)[0].records) == 2


async def test_bytes_over_all_partitions_count_each_up_to_its_own_limit(
    leader: LeaderBench,
) -> None:
    rows = (fetch_partition(P0, max_bytes=40), fetch_partition(P1, max_bytes=40))
    task = start(leader, fetch(*rows, max_wait_ms=500, min_bytes=60))
    await settle()
    await append(leader, P0, record_value=b"x" * 500)
    await settle()
    assert not task.done(), "40 of 60"
    await append(leader, P1, record_value=b"x" * 500)
    assert [bool(outcome.records) for outcome in await task] == [True, False]


async def test_a_reader_is_woken_when_leadership_goes(leader: LeaderBench) -> None:
    task = start(leader, fetch(max_wait_ms=500, reads_leader_only=True))
    await settle()
    leader.apply(leader.image.with_partition(P0, partition(2, replicas=(2, 1), epoch=1)))
    leader.purgatory.touch(P0)
    assert (await task)[0].error is E.not_leader_or_follower


async def test_a_reader_is_woken_when_its_offset_falls_out_of_the_log(leader: LeaderBench) -> None:
    task = start(leader, fetch(fetch_partition(P0, 0), max_wait_ms=500, min_bytes=1_000_000))
    await settle()
    await append(leader, count=3)
    leader.log().delete_records_before(2)
    leader.purgatory.touch(P0)
    assert (await task)[0].error is E.offset_out_of_range


async def test_a_reader_is_answered_when_its_topic_is_deleted(leader: LeaderBench) -> None:
    task = start(leader, fetch(max_wait_ms=500))
    await settle()
    leader.apply(leader.image.without_topic("orders"))
    leader.purgatory.release(P0)
    assert (await task)[0].error is E.unknown_topic_or_partition
