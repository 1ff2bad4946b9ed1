"""Fetch sessions: what each request does to them, what is news, and who is evicted (KIP-227)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from txnsim.errors import ErrorCode
from txnsim.replica.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    LARGE_SESSION_PARTITIONS,
    SHARD_COUNT,
    CachedPartition,
    FetchSessions,
    IncrementalPlan,
    OpeningPlan,
    SessionlessPlan,
    SessionRequest,
    SessionResponse,
    next_session_epoch,
)
from txnsim.replica.fetch_values import FetchOutcome, FetchPartition, Naming, PartitionKey
from txnsim.types import TopicPartition

E = ErrorCode
A, B, C = ("t", 0), ("t", 1), ("t", 2)
ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
TOPIC_NAMES = {ID: "t"}
IDLE = FetchOutcome(high_watermark=5, last_stable_offset=5, log_start_offset=0)
FETCH_OUTCOME = FetchOutcome(
    high_watermark=5, last_stable_offset=5, log_start_offset=0, records=(b"x",), size_bytes=1
)


def fetch_partition_of(
    key: PartitionKey, offset: int = 0, naming: Naming = Naming.NAMED
) -> FetchPartition:
    name = key[0] if isinstance(key[0], str) else "t"
    return FetchPartition(
        topic_partition=TopicPartition("" if naming is Naming.NO_NAME else name, key[1]),
        fetch_offset=offset,
        max_bytes=1000,
        naming=naming,
    )


def in_turn() -> Callable[[int, int], int]:
    """Numbers as a random source would draw them, but in order."""
    steps = count()
    return lambda low, high: low + next(steps) % (high - low)


def sessions(slot_count: int = 1000) -> FetchSessions:
    return FetchSessions(slot_count=slot_count, draw_number=in_turn())


class Reader:
    """A client that keeps fetch sessions at one broker."""

    def __init__(
        self, fetch_sessions: FetchSessions, *, by_ids: bool = False, is_follower: bool = False
    ):
        self.cache = fetch_sessions
        self.by_ids = by_ids
        self.follower = is_follower
        self.session_id = 0
        self.epoch = INITIAL_EPOCH
        self.names = TOPIC_NAMES
        self.now_ms = 0

    def plan(
        self, *keys: PartitionKey | FetchPartition, forget: Sequence[PartitionKey] = ()
    ) -> SessionlessPlan | OpeningPlan | IncrementalPlan | ErrorCode:
        asked_partitions = {}
        for key in keys:
            if isinstance(key, FetchPartition):
                asked_partitions[self.key(key)] = key
            else:
                asked_partitions[key] = fetch_partition_of(key)
        request = SessionRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            partitions=asked_partitions,
            forgotten_keys=tuple(forget),
            names_topics_by_id=self.by_ids,
            is_privileged=self.follower,
        )
        return self.cache.plan(request, name_by_topic_id=self.names, now_ms=self.now_ms)

    def key(self, fetch_partition: FetchPartition) -> PartitionKey:
        topic_partition = fetch_partition.topic_partition
        return (ID if self.by_ids else topic_partition.topic, topic_partition.partition)

    def fetch(
        self,
        *keys: PartitionKey | FetchPartition,
        forget: Sequence[PartitionKey] = (),
        outcome: FetchOutcome = IDLE,
        **outcomes: FetchOutcome,
    ) -> SessionResponse:
        """Send a Fetch; ``p0=...`` gives the outcome of the first partition."""
        plan = self.plan(*keys, forget=forget)
        assert not isinstance(plan, ErrorCode), plan
        outcomes_of_plan = [outcomes.get(f"p{index}", outcome) for _, index in plan.keys]
        conclusion = self.cache.conclude(plan, outcomes_of_plan, now_ms=self.now_ms)
        if conclusion.session_id:
            self.session_id = conclusion.session_id
            self.epoch = next_session_epoch(self.epoch)
        return conclusion


def result_indexes(conclusion: SessionResponse) -> list[int]:
    return [index for (_, index), _ in conclusion.results]


# Epochs


@pytest.mark.parametrize(
    ("epoch", "next_epoch"), [(0, 1), (1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)]
)
def test_epochs_wrap_to_one(epoch: int, next_epoch: int) -> None:
    assert next_session_epoch(epoch) == next_epoch


def test_a_session_goes_on_after_the_last_epoch() -> None:
    reader = Reader(sessions())
    reader.fetch(A)
    session = reader.cache.find(reader.session_id)
    assert session is not None
    session.epoch = reader.epoch = 2**31 - 1
    reader.fetch()
    assert (reader.epoch, session.epoch) == (1, 1)
    reader.fetch()
    assert session.epoch == 2


# Requests: the table of FetchManager.newContext


def test_the_final_epoch_reads_everything_without_a_session() -> None:
    reader = Reader(sessions())
    reader.epoch = FINAL_EPOCH
    conclusion = reader.fetch(A, B)
    assert (conclusion.error, conclusion.session_id, result_indexes(conclusion)) == (
        E.none,
        0,
        [0, 1],
    )
    assert len(reader.cache) == 0


def test_the_first_epoch_opens_a_session_and_reads_everything() -> None:
    reader = Reader(sessions())
    conclusion = reader.fetch(B, A)
    assert conclusion.session_id > 0
    assert result_indexes(conclusion) == [1, 0]
    assert len(reader.cache) == 1


@pytest.mark.parametrize(("epoch", "sessions_left"), [(INITIAL_EPOCH, 1), (FINAL_EPOCH, 0)])
def test_a_full_fetch_closes_the_session_that_it_names(epoch: int, sessions_left: int) -> None:
    reader = Reader(sessions())
    first_id = reader.fetch(A).session_id
    reader.epoch = epoch
    reader.fetch(A)
    assert reader.cache.find(first_id) is None
    assert len(reader.cache) == sessions_left


@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_a_full_fetch_may_name_a_session_that_is_gone(epoch: int) -> None:
    reader = Reader(sessions())
    reader.session_id, reader.epoch = 99, epoch
    assert result_indexes(reader.fetch(A)) == [0]


@pytest.mark.parametrize("epoch", [1, 5, -5])
@pytest.mark.parametrize("session_id", [0, 99, -5])
def test_an_unknown_session_is_an_error(session_id: int, epoch: int) -> None:
    reader = Reader(sessions())
    reader.session_id, reader.epoch = session_id, epoch
    assert reader.plan(A) is E.fetch_session_id_not_found


@pytest.mark.parametrize("session_id", [2**31 - 1, 2**31 - 8, -(2**31), -(2**28) + 1])
@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH, 1])
def test_an_id_beyond_all_shards_trips_the_broker(session_id: int, epoch: int) -> None:
    reader = Reader(sessions())
    reader.session_id, reader.epoch = session_id, epoch
    assert reader.plan(A) is E.unknown_server_error
    assert reader.cache.find(session_id) is None


@pytest.mark.parametrize("epoch", [2, -5, 2**31 - 1])
def test_a_wrong_epoch_is_an_error_and_changes_nothing(epoch: int) -> None:
    reader = Reader(sessions())
    reader.fetch(A)
    reader.epoch = epoch
    assert reader.plan(B) is E.invalid_fetch_session_epoch
    reader.epoch = 1
    plan = reader.plan()
    assert isinstance(plan, IncrementalPlan)
    assert plan.keys == (A,)


@pytest.mark.parametrize("by_ids", [False, True])
def test_names_and_ids_do_not_mix(by_ids: bool) -> None:
    reader = Reader(sessions(), by_ids=by_ids)
    reader.fetch((ID, 0) if by_ids else A)
    reader.by_ids = not by_ids
    assert reader.plan() is E.fetch_session_topic_id_error
    reader.epoch += 1
    assert reader.plan() is E.invalid_fetch_session_epoch, "the epoch is judged first"


def test_an_incremental_fetch_reads_what_was_listed_before_and_now() -> None:
    reader = Reader(sessions())
    reader.fetch(A, B)
    plan = reader.plan(fetch_partition_of(B, 7), C)
    assert isinstance(plan, IncrementalPlan)
    assert plan.keys == (A, B, C)
    assert [partition.fetch_offset for partition in plan.partitions] == [0, 7, 0]


def test_what_is_listed_and_forgotten_is_forgotten() -> None:
    reader = Reader(sessions())
    reader.fetch(A, B)
    plan = reader.plan(A, C, forget=[A, C, ("gone", 3)])
    assert isinstance(plan, IncrementalPlan)
    assert plan.keys == (B,)


def test_a_session_without_partitions_is_closed() -> None:
    reader = Reader(sessions())
    reader.fetch(A)
    conclusion = reader.fetch(B, forget=[A, B])
    assert (conclusion.error, conclusion.session_id) == (E.none, 0)
    assert result_indexes(conclusion) == [1], "read all the same"
    assert len(reader.cache) == 0


def test_a_session_may_be_opened_for_nothing_and_is_closed_next() -> None:
    reader = Reader(sessions())
    assert reader.fetch().session_id > 0
    assert reader.fetch().session_id == 0


def test_an_answer_that_was_overtaken_is_refused() -> None:
    reader = Reader(sessions())
    reader.fetch(A)
    slow_plan = reader.plan()
    assert isinstance(slow_plan, IncrementalPlan)
    reader.epoch += 1
    reader.fetch()
    late_conclusion = reader.cache.conclude(slow_plan, [FETCH_OUTCOME], now_ms=0)
    assert (late_conclusion.error, late_conclusion.session_id, late_conclusion.results) == (
        E.invalid_fetch_session_epoch,
        reader.session_id,
        [],
    )


def test_a_session_that_was_closed_meanwhile_still_answers() -> None:
    reader = Reader(sessions())
    reader.fetch(A)
    slow_plan = reader.plan()
    assert isinstance(slow_plan, IncrementalPlan)
    reader.epoch += 1
    reader.fetch(forget=[A])
    late_conclusion = reader.cache.conclude(slow_plan, [FETCH_OUTCOME], now_ms=0)
    assert (late_conclusion.error, late_conclusion.session_id, late_conclusion.results) == (
        0,
        reader.session_id,
        [],
    )


# What an incremental answer lists


@pytest.mark.parametrize(
    ("outcome", "is_news"),
    [
        (IDLE, False),
        (FETCH_OUTCOME, True),
        (FetchOutcome(high_watermark=6, last_stable_offset=5, log_start_offset=0), True),
        (FetchOutcome(high_watermark=5, last_stable_offset=5, log_start_offset=1), True),
        (FetchOutcome(high_watermark=5, last_stable_offset=3, log_start_offset=0), False),
        (
            FetchOutcome(
                high_watermark=5, last_stable_offset=5, log_start_offset=0, diverging_epoch=(0, 2)
            ),
            True,
        ),
        (FetchOutcome(error=E.not_leader_or_follower), True),
    ],
)
def test_what_is_news(outcome: FetchOutcome, is_news: bool) -> None:
    reader = Reader(sessions())
    reader.fetch(A, B)
    assert result_indexes(reader.fetch(p0=outcome)) == ([0] if is_news else [])
    repeats = outcome.size_bytes > 0 or outcome.error or outcome.diverging_epoch
    assert result_indexes(reader.fetch(p0=outcome)) == ([0] if repeats else [])


def test_a_partition_that_is_new_to_the_session_is_listed() -> None:
    reader = Reader(sessions())
    reader.fetch(A)
    assert result_indexes(reader.fetch(B)) == [1]
    assert result_indexes(reader.fetch()) == []


def test_after_an_error_the_watermark_is_sent_again() -> None:
    failed_outcome = FetchOutcome(error=E.unknown_leader_epoch)
    cached = CachedPartition(fetch_partition_of(A))
    cached.note_outcome(IDLE)
    assert cached.note_outcome(failed_outcome)
    assert cached.high_watermark == -1
    assert cached.note_outcome(IDLE)
    assert not cached.note_outcome(IDLE)


def test_an_error_at_the_opening_is_listed_again_once_it_is_over() -> None:
    reader = Reader(sessions())
    reader.fetch(A, outcome=FetchOutcome(error=E.unknown_leader_epoch))
    assert result_indexes(reader.fetch()) == [0]
    assert result_indexes(reader.fetch()) == []


def test_a_partition_that_had_records_is_read_last_next_time() -> None:
    reader = Reader(sessions())
    reader.fetch(A, B, C)
    reader.fetch(p0=FETCH_OUTCOME)
    plan = reader.plan()
    assert isinstance(plan, IncrementalPlan)
    assert plan.keys == (B, C, A)
    conclusion = reader.cache.conclude(plan, [IDLE, FETCH_OUTCOME, FETCH_OUTCOME], now_ms=0)
    assert result_indexes(conclusion) == [2, 0]
    reader.epoch += 1
    plan = reader.plan(fetch_partition_of(B, 3))
    assert isinstance(plan, IncrementalPlan)
    assert plan.keys == (B, C, A), "what is listed keeps its place"


def test_the_plan_of_an_idle_session_is_not_made_anew() -> None:
    reader = Reader(sessions())
    reader.fetch(A, B)
    first_plan = reader.plan()
    reader.epoch += 1
    second_plan = reader.plan()
    assert isinstance(first_plan, IncrementalPlan)
    assert isinstance(second_plan, IncrementalPlan)
    assert first_plan.partitions is second_plan.partitions


# Partitions that do not exist


def test_missing_partitions_come_last_and_unknown_ids_before_unknown_partitions() -> None:
    reader = Reader(sessions())
    outcome_without_id, outcome_without_topic = (
        FetchOutcome(error=E.unknown_topic_id),
        FetchOutcome(error=E.unknown_topic_or_partition),
    )
    conclusion = reader.fetch(A, B, C, p0=outcome_without_topic, p1=outcome_without_id)
    assert result_indexes(conclusion) == [2, 1, 0]
    plan = reader.plan()
    assert isinstance(plan, IncrementalPlan)
    assert plan.keys == (C, B, A), "the session has the order of the answer"


def test_an_unknown_id_stays_in_the_session_until_it_has_a_name() -> None:
    reader = Reader(sessions(), by_ids=True)
    reader.names = {}
    reader.fetch(fetch_partition_of((ID, 0), naming=Naming.NO_NAME))
    plan = reader.plan(fetch_partition_of((ID, 0), 4, naming=Naming.NO_NAME))
    assert isinstance(plan, IncrementalPlan)
    assert plan.partitions[0].naming is Naming.NO_NAME
    reader.epoch += 1
    reader.names = {ID: "t"}
    plan = reader.plan()
    assert isinstance(plan, IncrementalPlan)
    (partition,) = plan.partitions
    assert (partition.naming, partition.topic_partition, partition.fetch_offset) == (
        Naming.NAMED,
        TopicPartition("t", 0),
        4,
    )


def test_a_name_that_was_found_stays_and_may_mean_another_topic() -> None:
    reader = Reader(sessions(), by_ids=True)
    reader.fetch((ID, 0))
    reader.names = {OTHER_ID: "t"}
    for listing in ((), (fetch_partition_of((ID, 0), naming=Naming.NO_NAME),)):
        plan = reader.plan(*listing)
        assert isinstance(plan, IncrementalPlan)
        (partition,) = plan.partitions
        assert (partition.naming, partition.topic_partition) == (
            Naming.OTHER_TOPIC,
            TopicPartition("t", 0),
        )
        reader.epoch += 1


def test_the_zero_id_has_no_name() -> None:
    reader = Reader(sessions(), by_ids=True)
    zero_partition = FetchPartition(
        topic_partition=TopicPartition("", 0), fetch_offset=0, max_bytes=1, naming=Naming.NO_NAME
    )
    request = SessionRequest(
        session_id=0,
        session_epoch=0,
        partitions={(None, 0): zero_partition},
        names_topics_by_id=True,
        is_privileged=False,
    )
    plan = reader.cache.plan(request, name_by_topic_id=TOPIC_NAMES, now_ms=0)
    assert isinstance(plan, OpeningPlan)
    failed_outcome = FetchOutcome(error=E.unknown_topic_id)
    reader.session_id = reader.cache.conclude(plan, [failed_outcome], now_ms=0).session_id
    reader.epoch = 1
    second_plan = reader.plan()
    assert isinstance(second_plan, IncrementalPlan)
    assert second_plan.partitions[0].naming is Naming.NO_NAME


# The cache


def fill(
    fetch_sessions: FetchSessions, reader_count: int, *keys: PartitionKey, **fields: bool
) -> list[Reader]:
    readers_made = [Reader(fetch_sessions, **fields) for _ in range(reader_count)]
    for reader in readers_made:
        reader.fetch(*keys)
    return readers_made


@pytest.mark.parametrize(
    ("slot_count", "sessions_kept"), [(0, 0), (7, 0), (8, 8), (15, 8), (16, 16)]
)
def test_slots_are_split_evenly_among_the_shards(slot_count: int, sessions_kept: int) -> None:
    fetch_sessions = sessions(slot_count)
    readers = fill(fetch_sessions, 20, A)
    assert len(fetch_sessions) == sessions_kept
    assert [reader.session_id > 0 for reader in readers] == [n < sessions_kept for n in range(20)]


def test_ids_are_positive_distinct_and_drawn_again_when_taken() -> None:
    fetch_sessions = FetchSessions(slot_count=1000, draw_number=iter_draw([1, 1, 1, 2]))
    (first_reader, *_, second_reader) = fill(fetch_sessions, SHARD_COUNT + 1, A)
    assert (first_reader.session_id, second_reader.session_id) == (1, 2)


def iter_draw(of_first_shard: list[int]) -> Callable[[int, int], int]:
    """Draws these from the first shard's ids, and the lowest of every other shard."""
    numbers = iter(of_first_shard)
    return lambda low, _high: next(numbers) if low == 1 else low


def test_sessions_are_bounded_by_what_they_hold() -> None:
    fetch_sessions = FetchSessions(slot_count=1000, draw_number=in_turn(), partition_count=5)
    first_reader, second_reader = Reader(fetch_sessions), Reader(fetch_sessions)
    first_reader.fetch(A, B, C)
    assert first_reader.session_id > 0
    assert second_reader.fetch(A, B, C).session_id == 0
    late_reader = Reader(fetch_sessions)
    late_reader.now_ms = EVICTION_MS + 1
    assert late_reader.fetch(A, B, C).session_id > 0
    assert len(fetch_sessions) == 1


def test_a_session_that_grows_over_the_bound_ends() -> None:
    fetch_sessions = FetchSessions(
        slot_count=1000, draw_number=in_turn(), partition_count=LARGE_SESSION_PARTITIONS + 1
    )
    reader = Reader(fetch_sessions)
    reader.fetch(*(("t", partition_number) for partition_number in range(LARGE_SESSION_PARTITIONS)))
    assert reader.session_id > 0
    reader.fetch(("t", LARGE_SESSION_PARTITIONS))
    assert len(fetch_sessions) == 1
    assert reader.plan(("t", LARGE_SESSION_PARTITIONS + 1)) is E.fetch_session_id_not_found
    assert len(fetch_sessions) == 0


def test_a_consumer_does_not_evict_a_young_session() -> None:
    fetch_sessions = sessions(SHARD_COUNT)
    fill(fetch_sessions, SHARD_COUNT, A)
    late_reader = Reader(fetch_sessions)
    late_reader.now_ms = EVICTION_MS
    assert late_reader.fetch(A, B, C).session_id == 0
    assert len(fetch_sessions) == SHARD_COUNT


def test_the_session_that_was_idle_longest_is_evicted() -> None:
    fetch_sessions = sessions(2 * SHARD_COUNT)
    idle_reader, *other_readers = fill(fetch_sessions, 2 * SHARD_COUNT, A)
    for reader in other_readers:
        reader.now_ms = 1
        reader.fetch()
    late_reader = Reader(fetch_sessions)
    late_reader.now_ms = EVICTION_MS + 1
    assert late_reader.fetch(A).session_id > 0
    assert fetch_sessions.find(idle_reader.session_id) is None
    assert len(fetch_sessions) == 2 * SHARD_COUNT


@pytest.mark.parametrize(("size", "must_evict"), [(1, False), (2, False), (3, True)])
def test_an_old_session_gives_way_to_a_larger_one(
    size: int,
    must_evict: bool,
) -> None:
    fetch_sessions = sessions(SHARD_COUNT)
    readers = fill(fetch_sessions, SHARD_COUNT, A, B)
    for reader in readers:
        reader.now_ms = EVICTION_MS + 1
        reader.fetch()
    late_reader = Reader(fetch_sessions)
    late_reader.now_ms = EVICTION_MS + 2
    assert (late_reader.fetch(*(A, B, C)[:size]).session_id > 0) is must_evict
    assert (fetch_sessions.find(readers[0].session_id) is None) is must_evict


def test_of_old_sessions_the_smallest_gives_way() -> None:
    fetch_sessions = sessions(2 * SHARD_COUNT)
    large_reader = fill(fetch_sessions, SHARD_COUNT, A, B)[0]
    small_reader = fill(fetch_sessions, SHARD_COUNT, A)[0]
    for reader in (small_reader, large_reader):
        reader.now_ms = EVICTION_MS + 1
        reader.fetch()
    small_reader.fetch(B)
    small_reader.fetch(forget=[B])
    late_reader = Reader(fetch_sessions)
    late_reader.now_ms = EVICTION_MS + 2
    late_reader.fetch(A, B, C)
    assert fetch_sessions.find(small_reader.session_id) is None
    assert fetch_sessions.find(large_reader.session_id) is not None


def test_a_follower_evicts_any_consumer_but_only_old_smaller_followers() -> None:
    fetch_sessions = sessions(SHARD_COUNT)
    fill(fetch_sessions, SHARD_COUNT, A, B, C)
    followers = fill(fetch_sessions, SHARD_COUNT, A, is_follower=True)
    assert all(reader.session_id for reader in followers)
    (refused_reader,) = fill(fetch_sessions, 1, A, B, is_follower=True)
    assert refused_reader.session_id == 0, "nobody old enough"
    fill(fetch_sessions, SHARD_COUNT - 1, A)
    for reader in followers:
        reader.now_ms = EVICTION_MS + 1
        reader.fetch()
    consumer, follower_reader = Reader(fetch_sessions), Reader(fetch_sessions, is_follower=True)
    for reader in (consumer, *fill_turns(fetch_sessions), follower_reader):
        reader.now_ms = EVICTION_MS + 2
        reader.fetch(A, B)
    assert consumer.session_id == 0, "worth less than any follower"
    assert follower_reader.session_id > 0


def fill_turns(fetch_sessions: FetchSessions) -> list[Reader]:
    """Readers who take the turns of the other shards, so that the next one meets the first."""
    return [Reader(fetch_sessions) for _ in range(SHARD_COUNT - 1)]


def test_a_closed_session_frees_its_slot() -> None:
    fetch_sessions = sessions(SHARD_COUNT)
    readers = fill(fetch_sessions, SHARD_COUNT, A)
    readers[0].fetch(forget=[A])
    (new_reader,) = fill(fetch_sessions, 1, A)
    assert new_reader.session_id > 0
