"""One partition's share partitions: replay, upkeep, what may be pruned."""

from __future__ import annotations

from txnsim.interbroker.share_state import ShareKey, StateBatch
from txnsim.share_state.log_format import encode_batch
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.share_state.shard import ShareStateShard
from txnsim.wire.batch_header import assign
from txnsim.wire.codec import run_to_end
from txnsim.wire.control import control_batch
from txnsim.wire.records import Record, build_batch

TOPIC, OTHER = "qHBm7qF0QeCvHxCmWtCZ2w", "A" * 22
A, B, C = ShareKey("g", TOPIC, 0), ShareKey("g", TOPIC, 1), ShareKey("h", OTHER, 0)
NOW_MS = 1_700_000_000_000


def shard(update_count: int = 500) -> ShareStateShard:
    return ShareStateShard(partition=0, coordinator_epoch=0, updates_per_snapshot=update_count)


def snapshot(key: ShareKey = A, *, written_ms: int = NOW_MS, **values: int) -> ShareSnapshot:
    return ShareSnapshot(
        key=key,
        snapshot_epoch=values.get("epoch", 0),
        state_epoch=values.get("state", 0),
        leader_epoch=values.get("leader", 0),
        start_offset=values.get("start", 5),
        delivery_complete_count=0,
        create_timestamp_ms=NOW_MS,
        write_timestamp_ms=written_ms,
    )


def update(
    key: ShareKey = A, *batches: StateBatch, start: int = -1, leader: int = -1
) -> ShareUpdate:
    return ShareUpdate(
        key=key,
        snapshot_epoch=0,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=7,
        batches=batches,
    )


def shard_with_records(*records: ShareRecord, update_count: int = 500) -> ShareStateShard:
    state_shard = shard(update_count)
    for offset, record in enumerate(records):
        state_shard.apply(record, record_offset=offset)
    return state_shard


def test_what_a_record_leads_to_may_be_made_before_it_is_applied() -> None:
    share_update = update(A, StateBatch(5, 9, 2, 1), start=6)
    known_shard, plain_shard = (
        shard_with_records(snapshot()),
        shard_with_records(snapshot(), share_update),
    )
    snapshot_after = run_to_end(known_shard.state_after(share_update))
    assert snapshot_after == plain_shard.states[A]
    assert known_shard.states[A] == snapshot(), "it is not applied yet"
    known_shard.apply(share_update, record_offset=1, new_state=snapshot_after)
    assert known_shard.states[A] is snapshot_after
    assert (known_shard.update_counts, known_shard.end_offset) == (
        plain_shard.update_counts,
        plain_shard.end_offset,
    )
    assert run_to_end(known_shard.state_after(snapshot(epoch=1))) is None, "it is all there is"


def test_an_update_changes_what_it_names_and_keeps_the_rest() -> None:
    untouched_batch = StateBatch(5, 9, 0, 1)
    share_snapshot = shard_with_records(
        snapshot(state=3, leader=2), update(A, untouched_batch), update(A, StateBatch(8, 9, 2, 1))
    ).states[A]
    assert (
        share_snapshot.state_epoch,
        share_snapshot.leader_epoch,
        share_snapshot.start_offset,
    ) == (3, 2, 5)
    assert share_snapshot.delivery_complete_count == 7
    assert share_snapshot.batches == (StateBatch(5, 7, 0, 1), StateBatch(8, 9, 2, 1))
    share_snapshot = shard_with_records(
        snapshot(), update(A, untouched_batch), update(start=7, leader=4)
    ).states[A]
    assert (share_snapshot.leader_epoch, share_snapshot.start_offset) == (4, 7)
    assert share_snapshot.batches == (StateBatch(7, 9, 0, 1),)


def test_an_update_whose_snapshot_was_pruned_is_all_there_is() -> None:
    state_shard = shard_with_records(update(A, StateBatch(5, 9, 2, 1), start=5, leader=1))
    assert state_shard.states[A].start_offset == 5
    assert state_shard.states[A].state_epoch == 0
    assert state_shard.state_epochs == {}


def test_epochs_that_fence_only_grow_and_go_with_the_tombstone() -> None:
    state_shard = shard_with_records(snapshot(state=3, leader=4), snapshot(state=2, leader=1))
    assert (state_shard.state_epochs, state_shard.leader_epochs) == ({A: 3}, {A: 4})
    state_shard.apply(snapshot(state=5, leader=6), record_offset=2)
    assert (state_shard.state_epochs, state_shard.leader_epochs) == ({A: 5}, {A: 6})
    state_shard.apply(update(), record_offset=3)
    state_shard.apply(ShareDeleted(key=A), record_offset=4)
    assert (
        state_shard.states
        == state_shard.state_epochs
        == state_shard.leader_epochs
        == state_shard.update_counts
        == {}
    )
    assert state_shard.end_offset == 5


def test_updates_are_counted_up_to_the_snapshot_that_they_led_to() -> None:
    state_shard = shard_with_records(snapshot(), update(), snapshot(epoch=1), update_count=2)
    assert state_shard.update_counts == {A: 1}  # one in between leaves the count as it is
    state_shard.apply(update(), record_offset=3)
    state_shard.apply(snapshot(epoch=2), record_offset=4)
    assert state_shard.update_counts == {A: 0}


def test_below_the_oldest_last_snapshot_everything_is_redundant() -> None:
    state_shard = shard()
    redundant_below = []
    for offset, record in enumerate(
        (
            snapshot(A),
            snapshot(B),
            update(A),
            snapshot(A),  # B's is the oldest now
            snapshot(B),  # A's at 3
            ShareDeleted(key=A),  # B's at 4
            ShareDeleted(key=B),  # its tombstone
            snapshot(C),
        )
    ):
        state_shard.apply(record, record_offset=offset)
        redundant_below.append(state_shard.snapshot_offsets.redundant_below)
    assert redundant_below == [0, 0, 0, 1, 3, 4, 6, 7]


def test_cold_share_partitions_are_those_whose_snapshot_is_old() -> None:
    state_shard = shard_with_records(snapshot(A), snapshot(B, written_ms=NOW_MS + 50))
    assert state_shard.has_warm_partition()
    (cold_snapshot,) = state_shard.cold_snapshots((A, B, C), now_ms=NOW_MS + 100, age_ms=100)
    assert (cold_snapshot.key, cold_snapshot.snapshot_epoch) == (A, 1)
    assert (cold_snapshot.create_timestamp_ms, cold_snapshot.write_timestamp_ms) == (
        NOW_MS,
        NOW_MS + 100,
    )
    state_shard.apply(cold_snapshot, record_offset=2)
    assert not state_shard.has_warm_partition()


def test_share_partitions_are_found_by_their_topic() -> None:
    state_shard = shard_with_records(snapshot(A), snapshot(B), snapshot(C))
    assert state_shard.keys_of_topics({TOPIC}) == [A, B]


def test_markers_and_records_of_later_kinds_are_passed_by() -> None:
    marker = control_batch(
        producer_id=7,
        producer_epoch=0,
        is_commit=True,
        coordinator_epoch=0,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
    )
    later_batch = build_batch([Record(key=b"\0\7", value=b"")], timestamp_ms=NOW_MS)
    state_shard = shard()
    assert list(state_shard.read([marker, later_batch])) == [1, 1]
    assert (state_shard.states, state_shard.end_offset, state_shard.load_problem) == ({}, 0, None)


def test_a_log_is_read_up_to_the_first_record_that_can_not_be_read() -> None:
    first_batch = encode_batch([snapshot(A), update(A)], now_ms=NOW_MS)
    second_batch = assign(encode_batch([snapshot(B)], now_ms=NOW_MS), base_offset=2, leader_epoch=0)
    state_shard = shard()
    assert list(state_shard.read([first_batch + second_batch])) == [2, 1]
    assert (set(state_shard.states), state_shard.end_offset, state_shard.load_problem) == (
        {A, B},
        3,
        None,
    )
    broken_shard = shard()
    assert list(broken_shard.read([first_batch, build_batch([Record()], timestamp_ms=NOW_MS)])) == [
        2
    ]
    assert set(broken_shard.states) == {A}
    assert broken_shard.load_problem is not None


def test_a_batch_of_states_that_ends_before_it_begins_ends_the_reading() -> None:
    backward_batch, other_batch = StateBatch(9, 7, 0, 1), StateBatch(11, 12, 0, 1)
    log = encode_batch(
        [snapshot(A), update(A, backward_batch), update(A, other_batch)], now_ms=NOW_MS
    )
    state_shard = shard()
    assert list(state_shard.read([log])) == []
    assert state_shard.states[A].batches == (backward_batch,)
    assert state_shard.load_problem == "a batch ends at 8 and begins behind that"
