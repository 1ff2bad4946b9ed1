"""What the share coordinator answers and writes: every check in its order, with Kafka's text."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    StateBatch,
    WriteShareState,
)
from txnsim.releases import Rules
from txnsim.share_state.decisions import BATCHES_MAX, ShareDecision, ShareStateDecisions
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.share_state.shard import ShareStateShard

E = ErrorCode
TOPIC = "qHBm7qF0QeCvHxCmWtCZ2w"
KEY, GONE, NEGATIVE = (ShareKey("g", TOPIC, partition) for partition in (0, 2, -1))
DELETED_TOPIC = ShareKey("g", "A" * 22, 0)
NOW_MS = 1_700_000_000_000
LEADER_OLDER = "The leader epoch in the request is older than the epoch on the broker."
STATE_OTHER = "The coordinator rejected the request because the state epoch did not match."
NO_TOPIC = "This server does not host this topic-partition."


class ShareStateBench:
    """A share state shard that applies each decision at once."""

    def __init__(self, update_count: int = 500, **rules: bool) -> None:
        self.shard = ShareStateShard(
            partition=0,
            coordinator_epoch=0,
            rules=Rules(**rules),
            updates_per_snapshot=update_count,
        )
        self.decisions = ShareStateDecisions(
            shard=self.shard,
            count_partitions=lambda topic_id: 2 if topic_id == TOPIC else 0,
            now_ms=NOW_MS,
        )

    def done(self, decision: ShareDecision | Rejection) -> ShareDecision:
        assert not isinstance(decision, Rejection), decision
        for record in decision.records:
            self.shard.apply(record, record_offset=self.shard.end_offset)
        return decision

    def initialize(self, state_epoch: int = 0, start: int = 5) -> ShareDecision:
        command = InitializeShareState(key=KEY, state_epoch=state_epoch, start_offset=start)
        return self.done(self.decisions.initialize(command))

    def write(self, *batches: StateBatch, **values: int) -> ShareRecord:
        (record,) = self.done(self.decisions.write(writing(*batches, **values))).records
        return record

    def read(self, leader_epoch: int) -> ShareDecision:
        return self.done(self.decisions.read(reading(leader_epoch)))


def writing(*batches: StateBatch, key: ShareKey = KEY, **values: int) -> WriteShareState:
    return WriteShareState(
        key=key,
        state_epoch=values.get("state", 0),
        leader_epoch=values.get("leader", 0),
        start_offset=values.get("start", -1),
        delivery_complete_count=values.get("complete", -1),
        batches=batches,
    )


def reading(leader_epoch: int = 0, key: ShareKey = KEY) -> ReadShareState:
    return ReadShareState(key=key, leader_epoch=leader_epoch)


def rejection_of(decision: ShareDecision | Rejection) -> tuple[ErrorCode, str]:
    assert isinstance(decision, Rejection), decision
    return decision.error, decision.reason


@pytest.fixture
def state_bench() -> ShareStateBench:
    return ShareStateBench()


# Refusals


@pytest.mark.parametrize("key", [GONE, DELETED_TOPIC])
def test_a_partition_that_is_not_there_has_no_state(
    state_bench: ShareStateBench, key: ShareKey
) -> None:
    answer = (E.unknown_topic_or_partition, NO_TOPIC)
    decisions = state_bench.decisions
    assert (
        rejection_of(decisions.initialize(InitializeShareState(key=key, state_epoch=0))) == answer
    )
    assert rejection_of(decisions.delete(DeleteShareState(key=key))) == answer
    assert rejection_of(decisions.summarize(reading(key=key))) == answer
    state_bench.shard.apply(
        ShareSnapshot(key=key, start_offset=0, delivery_complete_count=0), record_offset=0
    )
    assert rejection_of(decisions.read(reading(key=key))) == answer
    assert rejection_of(decisions.write(writing(key=key))) == answer


def test_numbers_are_not_negative(state_bench: ShareStateBench) -> None:
    decisions = state_bench.decisions
    partition = (E.invalid_request, "The partition id cannot be a negative number.")
    state = (E.invalid_request, "The state epoch cannot be a negative number.")
    leader = (E.invalid_request, "The leader epoch cannot be a negative number.")
    initialize_share_state = InitializeShareState(key=NEGATIVE, state_epoch=-1)
    assert rejection_of(decisions.initialize(initialize_share_state)) == partition
    assert (
        rejection_of(decisions.initialize(InitializeShareState(key=KEY, state_epoch=-1))) == state
    )
    assert rejection_of(decisions.read(reading(-1, NEGATIVE))) == partition
    assert rejection_of(decisions.read(reading(-1))) == leader
    assert rejection_of(decisions.write(writing(key=NEGATIVE, leader=-1))) == partition
    assert rejection_of(decisions.write(writing(leader=-1, state=-1))) == leader
    assert rejection_of(decisions.write(writing(state=-1))) == state
    assert rejection_of(decisions.delete(DeleteShareState(key=NEGATIVE))) == partition
    assert rejection_of(decisions.summarize(reading(-1, NEGATIVE))) == partition


def test_what_was_never_initialised_is_neither_read_nor_written(
    state_bench: ShareStateBench,
) -> None:
    text = "{} operation on uninitialized share partition not allowed."
    invalid_error = E.invalid_request
    assert rejection_of(state_bench.decisions.read(reading())) == (
        invalid_error,
        text.format("Read"),
    )
    assert rejection_of(state_bench.decisions.write(writing())) == (
        invalid_error,
        text.format("Write"),
    )
    state_bench.initialize()
    state_bench.done(state_bench.decisions.delete(DeleteShareState(key=KEY)))
    assert rejection_of(state_bench.decisions.read(reading())) == (
        invalid_error,
        text.format("Read"),
    )


def test_older_epochs_are_fenced(state_bench: ShareStateBench) -> None:
    state_bench.initialize(state_epoch=3)
    state_bench.read(4)
    decisions = state_bench.decisions
    older_command = InitializeShareState(key=KEY, state_epoch=2)
    assert rejection_of(decisions.initialize(older_command)) == (E.fenced_state_epoch, STATE_OTHER)
    assert rejection_of(decisions.read(reading(3))) == (E.fenced_leader_epoch, LEADER_OLDER)
    old_write = writing(leader=3, state=2)
    assert rejection_of(decisions.write(old_write)) == (E.fenced_leader_epoch, LEADER_OLDER)
    old_state = writing(leader=4, state=2)
    assert rejection_of(decisions.write(old_state)) == (E.fenced_state_epoch, STATE_OTHER)
    assert isinstance(state_bench.write(leader=9, state=9), ShareUpdate)  # a newer one passes


def test_up_to_4_3_a_fence_is_told_in_the_words_of_the_error() -> None:
    state_bench = ShareStateBench(share_state_fences_are_brief=False)
    state_bench.initialize(state_epoch=3)
    older_command = InitializeShareState(key=KEY, state_epoch=2)
    message = (
        "The share coordinator rejected the request because the share-group state epoch did not "
        "match."
    )
    assert rejection_of(state_bench.decisions.initialize(older_command)) == (
        E.fenced_state_epoch,
        message,
    )


def test_too_many_batches_are_refused_before_anything_is_combined(
    state_bench: ShareStateBench,
) -> None:
    state_bench.initialize()
    many_batches = [
        StateBatch(2 * batch_number, 2 * batch_number, 2, 1)
        for batch_number in range(BATCHES_MAX + 1)
    ]
    assert (
        rejection_of(state_bench.decisions.write(writing(*many_batches)))[0]
        is E.unknown_server_error
    )
    assert isinstance(state_bench.write(*many_batches[:-1]), ShareUpdate)


def test_a_batch_that_ends_before_it_begins_trips_what_is_beside_it(
    state_bench: ShareStateBench,
) -> None:
    state_bench.initialize()
    reversed_batch, sound_batch = StateBatch(9, 7, 2, 1), StateBatch(20, 21, 2, 1)
    assert (
        rejection_of(state_bench.decisions.write(writing(reversed_batch, sound_batch)))[0]
        is E.unknown_server_error
    )
    assert isinstance(state_bench.write(reversed_batch), ShareUpdate)
    error, text = rejection_of(state_bench.decisions.write(writing(sound_batch)))
    assert (error, "java.util.TreeMap.get" in text) == (E.unknown_server_error, True)


# What is written


def test_only_with_a_switch_a_state_outlives_a_second_first_request() -> None:
    written_batch = StateBatch(5, 6, 2, 1)
    for state_bench, batches in (
        (ShareStateBench(), ()),
        (ShareStateBench(share_states_are_made_once=True), (written_batch,)),
    ):
        state_bench.initialize(state_epoch=3)
        state_bench.write(written_batch, state=3)
        assert bool(state_bench.initialize(state_epoch=3).records) == (not batches)
        assert state_bench.shard.states[KEY].batches == batches
        assert state_bench.initialize(state_epoch=4).records
        assert state_bench.shard.states[KEY].batches == ()


def test_initialise_begins_anew_and_counts_the_snapshots(state_bench: ShareStateBench) -> None:
    first_decision = state_bench.initialize(start=-1)
    assert first_decision.reply == ShareStateError(key=KEY)
    (snapshot,) = first_decision.records
    assert isinstance(snapshot, ShareSnapshot)
    assert (snapshot.snapshot_epoch, snapshot.delivery_complete_count) == (0, -1)
    assert snapshot.create_timestamp_ms == snapshot.write_timestamp_ms == NOW_MS
    state_bench.write(StateBatch(5, 9, 2, 1), start=5)
    (snapshot,) = state_bench.initialize(state_epoch=1, start=7).records
    assert isinstance(snapshot, ShareSnapshot)
    assert (snapshot.snapshot_epoch, snapshot.state_epoch, snapshot.start_offset) == (1, 1, 7)
    assert (snapshot.delivery_complete_count, snapshot.batches) == (0, ())


def test_a_read_notes_another_leader_epoch(state_bench: ShareStateBench) -> None:
    state_bench.initialize(state_epoch=2)
    state_bench.write(StateBatch(6, 6, 2, 1), start=5, complete=1, state=2)
    state = ShareState(key=KEY, state_epoch=2, start_offset=5, batches=(StateBatch(6, 6, 2, 1),))
    second_read = state_bench.read(0)
    assert (second_read.reply, second_read.records) == (state, ())
    moved_read = state_bench.read(3)
    assert moved_read.reply == state
    assert moved_read.records == (
        ShareUpdate(
            key=KEY, snapshot_epoch=0, leader_epoch=3, start_offset=5, delivery_complete_count=1
        ),
    )
    assert state_bench.read(3).records == ()


@pytest.mark.parametrize(
    ("start", "complete", "expected_state"),
    [
        (5, 2, (5, 4)),  # the higher count stays
        (5, 6, (5, 6)),
        (-1, 9, (5, 4)),  # no start offset is lower than any
        (3, 9, (5, 4)),
        (8, 1, (8, 1)),  # a new start has a count of its own
    ],
)
def test_the_start_offset_never_goes_back(
    state_bench: ShareStateBench, start: int, complete: int, expected_state: tuple[int, int]
) -> None:
    state_bench.initialize()
    state_bench.write(start=5, complete=4)
    record = state_bench.write(StateBatch(2, 9, 2, 1), start=start, complete=complete)
    assert isinstance(record, ShareUpdate)
    assert (record.start_offset, record.delivery_complete_count) == expected_state
    assert record.batches == (StateBatch(expected_state[0], 9, 2, 1),)


def test_so_many_updates_make_a_snapshot() -> None:
    state_bench = ShareStateBench(update_count=2)
    state_bench.initialize()
    state_bench.read(7)
    state_bench.write(StateBatch(5, 5, 2, 1), leader=8, complete=1)
    record = state_bench.write(StateBatch(6, 6, 2, 1), leader=8, start=5, complete=2)
    assert record == ShareSnapshot(
        key=KEY,
        snapshot_epoch=1,
        leader_epoch=7,  # that of the last read
        start_offset=5,
        delivery_complete_count=2,
        create_timestamp_ms=NOW_MS,
        write_timestamp_ms=NOW_MS,
        batches=(StateBatch(5, 6, 2, 1),),
    )
    assert isinstance(state_bench.write(leader=8), ShareUpdate)
    (snapshot,) = state_bench.initialize(state_epoch=1).records
    assert isinstance(snapshot, ShareSnapshot)
    assert snapshot.snapshot_epoch == 2
    shard, missing_key = state_bench.shard, ShareKey("g", "t", 9)
    assert shard.cold_snapshots([KEY, missing_key], now_ms=NOW_MS + 4, age_ms=5) == []
    (snapshot,) = shard.cold_snapshots([KEY, missing_key], now_ms=NOW_MS + 5, age_ms=5)
    assert snapshot.snapshot_epoch == 3
    state_bench = ShareStateBench(update_count=1)
    state_bench.initialize()
    assert isinstance(state_bench.write(), ShareUpdate)
    assert isinstance(state_bench.write(), ShareSnapshot)


def test_without_updates_every_change_is_a_snapshot() -> None:
    state_bench = ShareStateBench(update_count=0)
    state_bench.initialize()
    assert isinstance(state_bench.write(), ShareSnapshot)
    assert isinstance(state_bench.write(), ShareSnapshot)


def test_delete_leaves_a_tombstone_where_there_was_something(state_bench: ShareStateBench) -> None:
    command = DeleteShareState(key=KEY)
    assert state_bench.done(state_bench.decisions.delete(command)).records == ()
    state_bench.initialize()
    deleted = state_bench.done(state_bench.decisions.delete(command))
    assert (deleted.records, deleted.reply) == ((ShareDeleted(key=KEY),), ShareStateError(key=KEY))


def test_a_summary_has_everything_but_batches(state_bench: ShareStateBench) -> None:
    assert state_bench.done(state_bench.decisions.summarize(reading())).reply == ShareStateSummary(
        key=KEY
    )
    state_bench.initialize(state_epoch=2)
    state_bench.read(3)
    state_bench.write(StateBatch(5, 6, 2, 1), leader=3, state=2, start=5, complete=2)
    assert state_bench.done(
        state_bench.decisions.summarize(reading(-5))
    ).reply == ShareStateSummary(
        key=KEY, state_epoch=2, leader_epoch=3, start_offset=5, delivery_complete_count=2
    )


# Older releases


def test_up_to_4_3_an_epoch_of_minus_1_asks_for_no_check() -> None:
    state_bench = ShareStateBench(share_epochs_are_checked=False)
    state_bench.initialize(state_epoch=3)
    state_bench.read(4)
    assert state_bench.read(-1).records == ()
    assert isinstance(state_bench.write(leader=-1, state=-1), ShareUpdate)
    assert rejection_of(state_bench.decisions.read(reading(-2)))[0] is E.fenced_leader_epoch
    state_bench.initialize(state_epoch=-1)
    assert state_bench.shard.state_epochs == {KEY: 3}
    assert state_bench.shard.states[KEY].state_epoch == -1


def test_before_4_3_1_a_read_without_epoch_is_fenced() -> None:
    state_bench = ShareStateBench(
        share_epochs_are_checked=False, share_reads_pass_without_epoch=False
    )
    state_bench.initialize()
    assert rejection_of(state_bench.decisions.read(reading(-1)))[0] is E.fenced_leader_epoch


def test_up_to_4_3_the_start_offset_is_what_the_last_write_says() -> None:
    state_bench = ShareStateBench(update_count=3, share_starts_never_go_back=False)
    state_bench.initialize()
    state_bench.write(start=8, complete=4)
    state_bench.write(StateBatch(2, 3, 2, 1), start=6, complete=1)
    assert (state_bench.shard.states[KEY].start_offset, state_bench.shard.states[KEY].batches) == (
        6,
        (),
    )
    state_bench.write(StateBatch(7, 7, 2, 1))
    share_snapshot = state_bench.shard.states[KEY]
    assert (share_snapshot.start_offset, share_snapshot.delivery_complete_count) == (6, -1)
    record = state_bench.write()
    assert isinstance(record, ShareSnapshot)
    assert (record.start_offset, record.batches) == (6, (StateBatch(7, 7, 2, 1),))
