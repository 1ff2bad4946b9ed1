"""What a partition remembers of its producers, and how batches and markers change it."""

from __future__ import annotations

import pytest

from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log.producer_state import (
    SEQUENCE_MAX,
    BatchMetadata,
    ProducerEntry,
    ProducerState,
    sequence_after,
)


def data(
    state: ProducerState,
    offset: int,
    *,
    pid: int = 7,
    epoch: int = 0,
    last_sequence: int = 0,
    count: int = 1,
    timestamp: int = 100,
    transactional: bool = True,
) -> None:
    state.apply(
        ReplicatedBatch(
            data=b"",
            base_offset=offset,
            last_offset=offset + count - 1,
            leader_epoch=0,
            producer_id=pid,
            producer_epoch=epoch,
            last_sequence=last_sequence,
            timestamp_ms=timestamp,
            is_transactional=transactional,
            is_control=False,
        )
    )


def marker(
    state: ProducerState,
    offset: int,
    *,
    pid: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    committed: bool = False,
    timestamp: int = 200,
) -> tuple[int, int, int] | None:
    aborted = state.apply_marker(
        producer_id=pid,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        committed=committed,
        marker_offset=offset,
        timestamp=timestamp,
    )
    if aborted is None:
        return None
    assert aborted.producer_id == pid
    assert not committed
    return aborted.first_offset, aborted.last_offset, aborted.last_stable_offset


@pytest.mark.parametrize(
    ("sequence", "delta", "after"),
    [(0, 5, 5), (SEQUENCE_MAX, 1, 0), (SEQUENCE_MAX - 1, 3, 1), (-1, 1, 0)],
)
def test_sequences_wrap(sequence: int, delta: int, after: int) -> None:
    assert sequence_after(sequence, delta) == after


@pytest.mark.parametrize(
    ("last", "delta", "first"),
    [(5, 5, 0), (0, 1, SEQUENCE_MAX), (1, 3, SEQUENCE_MAX - 1), (-1, 0, -1), (-1, 3, -1)],
)
def test_first_sequence_is_derived_from_the_last(last: int, delta: int, first: int) -> None:
    batch = BatchMetadata(last_sequence=last, last_offset=20, offset_delta=delta, timestamp=0)
    assert batch.first_sequence == first
    assert batch.first_offset == 20 - delta


def test_only_the_last_five_batches_are_kept() -> None:
    state = ProducerState()
    for offset in range(7):
        data(state, offset, last_sequence=offset)
    entry = state.find(7)
    assert entry is not None
    assert [batch.last_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.last_sequence == 6
    assert entry.find_batch(1, 1) is None
    assert entry.find_batch(2, 2) is not None
    assert entry.find_batch(1, 2) is None


def test_a_new_epoch_clears_the_batches_and_keeps_the_open_transaction() -> None:
    state = ProducerState()
    data(state, 0)
    data(state, 1, epoch=1)
    entry = state.find(7)
    assert entry is not None
    assert len(entry.batches) == 1
    assert (entry.producer_epoch, entry.txn_first_offset) == (1, 0)
    assert state.ongoing() == ((0, 7),)


def test_plain_batches_open_nothing() -> None:
    state = ProducerState()
    data(state, 0, transactional=False)
    assert state.first_unstable_offset() is None
    assert state.first_undecided_offset() is None
    assert state.oldest_transaction_timestamp() == -1


def test_a_marker_ends_the_transaction_and_names_the_next_open_one() -> None:
    state = ProducerState()
    data(state, 0, pid=1)
    data(state, 1, pid=2)
    assert marker(state, 2, pid=1) == (0, 2, 1)
    assert marker(state, 3, pid=2) == (1, 3, 4)
    assert state.ongoing() == ()
    assert state.unreplicated() == ((0, 2), (1, 3))


def test_of_a_committed_transaction_the_index_hears_nothing() -> None:
    state = ProducerState()
    data(state, 0)
    assert marker(state, 1, committed=True) is None
    assert state.ongoing() == ()
    assert state.unreplicated() == ((0, 1),)


def test_a_marker_without_a_transaction_leaves_its_epochs() -> None:
    state = ProducerState()
    assert marker(state, 0, epoch=2, coordinator_epoch=5) is None
    entry = state.find(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (2, 5, 200)
    assert entry.last_sequence == -1


@pytest.mark.parametrize(("epoch", "batches"), [(0, 1), (1, 0)])
def test_a_marker_clears_the_batches_only_if_it_bumps_the_epoch(epoch: int, batches: int) -> None:
    state = ProducerState()
    data(state, 0)
    marker(state, 1, epoch=epoch)
    entry = state.find(7)
    assert entry is not None
    assert len(entry.batches) == batches


def test_ended_transactions_hold_back_until_their_marker_is_released() -> None:
    state = ProducerState()
    data(state, 0, pid=1)
    data(state, 1, pid=2)
    data(state, 2, pid=3)
    marker(state, 3, pid=2)
    marker(state, 4, pid=1)
    assert state.first_unstable_offset() == 0
    assert state.first_undecided_offset() == 2
    state.release_below(4)  # the marker at 3 is replicated, the one at 4 is not
    assert state.unreplicated() == ((0, 4),)
    assert state.first_unstable_offset() == 0
    state.release_below(5)
    assert state.first_unstable_offset() == 2
    marker(state, 5, pid=3)
    assert state.first_unstable_offset() == 2
    state.release_below(6)
    assert state.first_unstable_offset() is None


def test_the_oldest_transaction_is_aged_by_its_producers_last_batch() -> None:
    state = ProducerState()
    data(state, 0, pid=1, timestamp=100)
    data(state, 1, pid=2, timestamp=50)
    assert state.oldest_transaction_timestamp() == 100
    data(state, 2, pid=1, timestamp=300, last_sequence=1)
    assert state.oldest_transaction_timestamp() == 300
    marker(state, 3, pid=1)
    assert state.oldest_transaction_timestamp() == 50


def test_expiry_spares_open_transactions_and_younger_producers() -> None:
    state = ProducerState()
    data(state, 0, pid=1, timestamp=100, transactional=False)
    data(state, 1, pid=2, timestamp=101, transactional=False)
    data(state, 2, pid=3, timestamp=1)
    assert state.expire(now_ms=110, expiration_ms=10) == (1,)
    assert [entry.producer_id for entry in state.entries()] == [2, 3]


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    state = ProducerState()
    for offset in range(3):
        data(state, offset, pid=1, transactional=False)
    data(state, 3, pid=3)
    data(state, 4, pid=2)
    marker(state, 5, pid=2, epoch=9)
    state.release_below(6)
    loaded = ProducerState.of_snapshot(state.to_snapshot(), now_ms=0, expiration_ms=1)
    kept = {entry.producer_id: entry for entry in loaded.images()}
    lived = {entry.producer_id: entry for entry in state.images()}
    assert kept[1].batches == lived[1].batches[-1:]
    assert kept[2] == lived[2]
    assert kept[2].batches == ()
    assert kept[3] == lived[3]
    assert loaded.ongoing() == ((3, 3),)
    assert loaded.unreplicated() == (), "what is loaded is taken as replicated"


def test_open_transactions_are_loaded_in_the_order_of_their_offsets() -> None:
    state = ProducerState()
    data(state, 0, pid=1, transactional=False)
    data(state, 1, pid=2)
    data(state, 2, pid=1)
    assert state.to_snapshot()[0].producer_id == 1
    loaded = ProducerState.of_snapshot(state.to_snapshot(), now_ms=0, expiration_ms=1)
    assert loaded.ongoing() == ((1, 2), (2, 1))


def test_a_load_leaves_out_who_has_expired() -> None:
    state = ProducerState()
    data(state, 0, pid=1, transactional=False)
    data(state, 1, pid=2)
    (entry, _) = state.to_snapshot()
    due = entry.timestamp + 10
    assert len(_loaded(state, due - 1).images()) == 2
    assert [kept.producer_id for kept in _loaded(state, due).images()] == [2]


def _loaded(state: ProducerState, now_ms: int) -> ProducerState:
    return ProducerState.of_snapshot(state.to_snapshot(), now_ms=now_ms, expiration_ms=10)


def test_an_emptied_marker_leaves_a_producer_without_an_epoch() -> None:
    """Compaction took its record. A replica that applies it knows the producer, and no epoch."""
    state = ProducerState()
    data(state, 0, pid=8, epoch=3, transactional=False)
    for offset, pid in ((1, 7), (2, 8)):
        emptied = ReplicatedBatch(
            data=b"",
            base_offset=offset,
            last_offset=offset,
            leader_epoch=0,
            producer_id=pid,
            producer_epoch=5,
            last_sequence=-1,
            timestamp_ms=100,
            is_transactional=True,
            is_control=True,
        )
        assert state.apply(emptied) is None
    assert state.find(7) == ProducerEntry(7)
    known = state.find(8)
    assert known is not None
    assert (known.producer_epoch, len(known.batches)) == (3, 1)
