"""What is open behind pieces of a log, against a walk over the whole of it."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, acts, events_of, segment_of
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.wire.batch import iter_batches, read_batch_header
from txnsim_spark.forensics._open_transactions import (
    Fragment,
    fragment_of_snapshot,
    merge_fragments,
    open_transactions_after,
)
from txnsim_spark.forensics._read_compiled import fragments_of
from txnsim_spark.forensics.verdicts import OpenTxn
from txnsim_spark.scan.walk import fragment_rows


def fragments_of_piece(log_bytes: bytes, position: int = 0) -> dict[int, Fragment]:
    """A piece of a segment, which begins there."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "00000000000000000000.log"
        path.write_bytes(bytes(position) + log_bytes)
        tables = fragment_rows(path, on_damage=pytest.fail, start=position)
        return {
            fragment.producer_id: fragment for table in tables for fragment in fragments_of(table)
        }


def open_by_one_walk(log_bytes: bytes) -> dict[int, OpenTxn]:
    """The transactions open at the end, computed from a list of each producer's batches."""
    open_txns = {}
    for producer_id, events in events_of(log_bytes).items():
        marks = [event_number for event_number, event in enumerate(events) if event.is_marker]
        opening_events = [event for event in events[marks[-1] + 1 if marks else 0 :] if event.opens]
        last_headers = [event.header for event in opening_events]
        if producer_id >= 0 and last_headers:
            open_txns[producer_id] = OpenTxn(
                producer_id=producer_id,
                producer_epoch=last_headers[-1].producer_epoch,
                start_offset=last_headers[0].base_offset,
                start_position=opening_events[0].position,
                start_timestamp_ms=last_headers[0].max_timestamp_ms,
                last_timestamp_ms=last_headers[-1].max_timestamp_ms,
                coordinator_epoch=events[marks[-1]].coordinator_epoch if marks else None,
            )
    return open_txns


def cut_log(batch_data: bytes, cut_batch_numbers: set[int]) -> list[bytes]:
    """The log in pieces that begin at these batches."""
    starts = [
        position
        for batch_number, (position, _) in enumerate(iter_batches(batch_data))
        if batch_number in cut_batch_numbers
    ]
    edges = [0, *starts, len(batch_data)]
    return [batch_data[start:end] for start, end in pairwise(edges)]


@pytest.mark.slow
@given(acts(), st.sets(st.integers(1, 29)))
def test_any_cut_of_a_log_into_pieces_merges_to_what_one_walk_says(
    act_history: list[Act], cut_batch_numbers: set[int]
) -> None:
    segment_bytes = segment_of(act_history)
    parts = cut_log(segment_bytes, cut_batch_numbers)
    starts = accumulate(map(len, parts), initial=0)
    piece_fragments = [
        fragments_of_piece(part, start) for part, start in zip(parts, starts, strict=False)
    ]
    assert open_transactions_after({}, piece_fragments) == open_by_one_walk(segment_bytes)


@given(acts(), st.integers(0, 29))
def test_a_snapshot_stands_for_everything_below_it(
    act_history: list[Act], snapshot_index: int
) -> None:
    segment_bytes = segment_of(act_history)
    log_below, rest_of_log = (
        [*cut_log(segment_bytes, {snapshot_index}), b""][:2]
        if snapshot_index
        else (b"", segment_bytes)
    )
    seeds = {event.producer_id: entry_of(event) for event in open_by_one_walk(log_below).values()}
    open_txns = open_transactions_after(seeds, [fragments_of_piece(rest_of_log)])
    expected_txn_by_producer = open_by_one_walk(segment_bytes)
    assert open_txns.keys() == expected_txn_by_producer.keys()
    for producer_id, txn in expected_txn_by_producer.items():
        assert open_txns[producer_id].start_offset == txn.start_offset
        assert open_txns[producer_id].last_timestamp_ms == txn.last_timestamp_ms
        assert open_txns[producer_id].producer_epoch == txn.producer_epoch


def entry_of(txn: OpenTxn) -> SnapshotEntry:
    return SnapshotEntry(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        last_sequence=0,
        last_offset=txn.start_offset,
        offset_delta=0,
        timestamp=txn.last_timestamp_ms,
        coordinator_epoch=-1 if txn.coordinator_epoch is None else txn.coordinator_epoch,
        txn_first_offset=txn.start_offset,
    )


def test_a_producer_without_an_open_transaction_opens_nothing_by_its_snapshot() -> None:
    entry = SnapshotEntry(
        producer_id=7,
        producer_epoch=1,
        last_sequence=4,
        last_offset=9,
        offset_delta=0,
        timestamp=50,
        coordinator_epoch=3,
        txn_first_offset=-1,
    )
    fragment = fragment_of_snapshot(entry)
    assert (fragment.open_offset, fragment.coordinator_epoch) == (None, 3)
    assert open_transactions_after({7: entry}, ()) == {}


def test_the_coordinator_epoch_of_a_snapshot_stays_until_a_marker_brings_another() -> None:
    seed = Fragment(producer_id=7, first_offset=-1, coordinator_epoch=3)
    open_fragment = Fragment(
        producer_id=7,
        first_offset=10,
        open_offset=10,
        open_timestamp_ms=5,
        open_last_timestamp_ms=6,
        open_epoch=0,
    )
    open_txns = merge_fragments([open_fragment, seed])
    assert open_txns is not None
    assert open_txns.coordinator_epoch == 3


def test_a_control_record_that_is_no_marker_ends_nothing() -> None:
    batch_data = segment_of(
        [
            Act(
                kind=kind, producer=7, epoch=0, sequence=0, records=1, value_bytes=1, timestamp_ms=1
            )
            for kind in ("data", "other", "emptied", "plain")
        ]
    )
    assert open_transactions_after({}, [fragments_of_piece(batch_data)]).keys() == {7}
    assert read_batch_header(batch_data).is_transactional
