"""Folds what each producer did in a piece of a log into fragments, during the walk over its
headers.

A *fragment* says of one producer in one piece how it began, how it ended, and whether a marker came
in between. That is enough to join pieces later, in any grouping, without the bytes. The compiled
walk keeps a row of ``FRAGMENT_COLUMNS`` per producer, found through a hash table with open
addressing. Batches without a producer belong to the fragment of producer -1, so the fragments of a
piece cover every batch in it.

Transactions that end within the piece are reported as they end (``ENDING_COLUMNS``). Kafka's
counterpart: ProducerStateManager, which does the same from the first batch to the last.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan.kernel import (
    TABLE_FULL,
    batch_size_at,
    be16,
    be32,
    be64,
    compile_function,
    control_record_at,
)

# numba knows no attributes of classes.
_CONTROL_BIT: Final = BatchHeader.CONTROL
_TRANSACTIONAL: Final = BatchHeader.TRANSACTIONAL

# Columns of a fragment. Missing values are negative.
PRODUCER: Final = 0
FIRST_OFFSET: Final = 1
LAST_OFFSET: Final = 2
BATCHES: Final = 3
"""Number of data batches."""
RECORDS: Final = 4
BYTES: Final = 5
"""Size of data batches and markers."""
FIRST_EPOCH: Final = 6
FIRST_SEQUENCE: Final = 7
"""First sequence of the first data batch."""
LAST_EPOCH: Final = 8
"""Producer epoch of the last batch or marker."""
LAST_SEQUENCE: Final = 9
LAST_TIMESTAMP: Final = 10
"""Largest timestamp, markers included."""
COMMITS: Final = 11
ABORTS: Final = 12
COORDINATOR_EPOCH: Final = 13
"""Coordinator epoch in the last marker."""
HEAD_OFFSET: Final = 14
"""First record of the transaction before the first marker; it may have begun in an earlier
piece.
"""
HEAD_MARKER: Final = 15
"""Offset of the first marker."""
HEAD_IS_COMMIT: Final = 16
OPEN_OFFSET: Final = 17
"""First record of the transaction after the last marker; without a marker equal to
``HEAD_OFFSET``.
"""
OPEN_TIMESTAMP: Final = 18
OPEN_LAST_TIMESTAMP: Final = 19
OPEN_EPOCH: Final = 20
OPEN_RECORDS: Final = 21
SEQUENCE_GAPS: Final = 22
"""Batches with a sequence gap, or with a new epoch that does not start at 0."""
EPOCHS_BACK: Final = 23
"""Batches and markers whose epoch is lower than that of the one before."""
IDLE_MARKERS: Final = 24
"""Markers that follow another marker, without a transaction in between."""
TABLE_COLUMNS: Final = 25
"""The columns above are those of the table ``fragments``."""
OPEN_POSITION: Final = 25
"""Position in the segment of the batch at ``OPEN_OFFSET``; -1 where an earlier batch reaches as
far, so that a search for the offset would end there.
"""
FRAGMENT_COLUMNS: Final = 26

# What a walk knows of the place where it is.
FILE_POSITION: Final = 0
"""Position in the file of the buffer's beginning."""
HIGHEST_OFFSET: Final = 1
"""The highest offset of all batches so far; -1 without any."""

# Columns of an ending.
ENDED_PRODUCER: Final = 0
ENDED_EPOCH: Final = 1
ENDED_FIRST_OFFSET: Final = 2
"""First offset of the ended transaction; -1 without one, or if it began before the piece."""
ENDED_MARKER: Final = 3
ENDED_COMMITTED: Final = 4
ENDED_COORDINATOR_EPOCH: Final = 5
ENDED_FIRST_TIMESTAMP: Final = 6
ENDED_TIMESTAMP: Final = 7
ENDED_RECORDS: Final = 8
ENDING_COLUMNS: Final = 9

SEQUENCE_SPAN: Final = 1 << 31
"""Number of sequences: after the largest int32 they begin again at 0."""
EPOCH_BEGUN: Final = -2
"""Value of ``LAST_SEQUENCE`` after a marker that has begun an epoch without data yet."""
_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT: Final = np.uint64(20)
_COMMIT: Final = 1


@compile_function
def scan_fragments(
    buffer: Any,
    start: int,
    end: int,
    file_end: int,
    slots: Any,
    fragments: Any,
    fragment_count: int,
    endings: Any,
    file_state: Any,
) -> tuple[int, int, int, int]:
    """Fold the batches that begin in ``buffer[start:end]`` into fragments.

    Args:
        buffer: Bytes of a segment, as an array of uint8.
        start: Start of a batch.
        end: End of the bytes.
        file_end: End of the file, counted from the beginning of the buffer.
        slots: Hash table, int64, a power of two long: the number of a fragment, or -1.
        fragments: int64, rows of ``FRAGMENT_COLUMNS``; at most half as many as slots.
        fragment_count: Number of fragments that are used already.
        endings: int64, ``ENDING_COLUMNS`` by the maximum number of endings.
        file_state: int64, ``FILE_POSITION`` and ``HIGHEST_OFFSET``, which is updated.

    Returns:
        Number of used fragments, number of endings, the start of the next batch (after ``end`` if
        the last one is not complete), and why the walk stopped.
    """
    ending_count = 0
    batch_start = start
    fragment_limit, ending_limit = fragments.shape[0], endings.shape[1]
    row = 0  # of the batch before: producers write several in a row
    while True:
        size, stop_reason = batch_size_at(buffer, batch_start, end, file_end)
        if size == 0:
            return fragment_count, ending_count, batch_start, stop_reason
        if ending_count == ending_limit:
            return fragment_count, ending_count, batch_start, TABLE_FULL
        producer_id = be64(buffer, batch_start + 43)
        if row >= fragment_count or fragments[row, PRODUCER] != producer_id:
            row = _fragment_row(slots, fragments, fragment_count, producer_id, fragment_limit)
            if row < 0:
                return fragment_count, ending_count, batch_start, TABLE_FULL
            if row == fragment_count:
                _begin_fragment(fragments[row], producer_id, be64(buffer, batch_start))
                fragment_count += 1
        file_position = (
            file_state[FILE_POSITION] + batch_start
            if be64(buffer, batch_start) > file_state[HIGHEST_OFFSET]
            else -1
        )
        ending_count = _fold_batch(
            buffer, batch_start, size, end, fragments[row], endings, ending_count, file_position
        )
        file_state[HIGHEST_OFFSET] = max(
            file_state[HIGHEST_OFFSET], be64(buffer, batch_start) + be32(buffer, batch_start + 23)
        )
        batch_start += size


@compile_function
def _fragment_row(
    slots: Any, fragments: Any, fragment_count: int, producer_id: int, fragment_limit: int
) -> int:
    """The number of the producer's fragment; if it is new, ``fragment_count``, which is entered
    into the table; -1 if there is no room for a new one.
    """
    slot_mask = slots.shape[0] - 1
    slot = np.int64((np.uint64(producer_id) * _HASH_FACTOR) >> _HASH_SHIFT) & slot_mask
    while slots[slot] >= 0:
        if fragments[slots[slot], PRODUCER] == producer_id:
            return int(slots[slot])
        slot = (slot + 1) & slot_mask
    if fragment_count == fragment_limit:
        return -1
    slots[slot] = fragment_count
    return fragment_count


@compile_function
def enter_fragments(slots: Any, fragments: Any, fragment_count: int) -> None:
    """Enter the first ``fragment_count`` fragments into an empty hash table."""
    for row in range(fragment_count):
        _fragment_row(slots, fragments, row, fragments[row, PRODUCER], fragment_count)


@compile_function
def _begin_fragment(fragment: Any, producer_id: int, offset: int) -> None:
    fragment[:] = -1
    fragment[PRODUCER] = producer_id
    fragment[FIRST_OFFSET] = offset
    for column in (BATCHES, RECORDS, BYTES, COMMITS, ABORTS, OPEN_RECORDS):
        fragment[column] = 0
    for column in (SEQUENCE_GAPS, EPOCHS_BACK, IDLE_MARKERS):
        fragment[column] = 0


@compile_function
def _fold_batch(
    buffer: Any,
    batch_start: int,
    size: int,
    end: int,
    fragment: Any,
    endings: Any,
    ending_count: int,
    position: int,
) -> int:
    """Fold one batch of a producer; returns the number of endings so far."""
    base_offset = be64(buffer, batch_start)
    attributes = be16(buffer, batch_start + 21)
    epoch = be16(buffer, batch_start + 51)
    timestamp = be64(buffer, batch_start + 35)
    record_count = be32(buffer, batch_start + 57)
    if epoch < fragment[LAST_EPOCH]:
        fragment[EPOCHS_BACK] += 1
    fragment[LAST_OFFSET] = base_offset + be32(buffer, batch_start + 23)
    fragment[LAST_TIMESTAMP] = max(fragment[LAST_TIMESTAMP], timestamp)
    fragment[BYTES] += size
    if not attributes & _CONTROL_BIT:
        _fold_data(
            buffer,
            batch_start,
            fragment,
            base_offset,
            epoch,
            timestamp,
            record_count,
            attributes,
            position,
        )
        return ending_count
    if fragment[LAST_EPOCH] >= 0 and epoch != fragment[LAST_EPOCH]:
        fragment[LAST_SEQUENCE] = EPOCH_BEGUN
    fragment[LAST_EPOCH] = epoch
    if record_count <= 0:
        return ending_count  # emptied by the cleaner: it ends nothing
    control_type, coordinator_epoch = control_record_at(
        buffer, batch_start, min(batch_start + size, end)
    )
    if control_type < 0 or control_type > 1:
        return ending_count
    _end_transaction(
        fragment,
        endings,
        ending_count,
        base_offset,
        epoch,
        control_type,
        coordinator_epoch,
        timestamp,
    )
    return ending_count + 1


@compile_function
def _fold_data(
    buffer: Any,
    batch_start: int,
    fragment: Any,
    base_offset: int,
    epoch: int,
    timestamp: int,
    record_count: int,
    attributes: int,
    position: int,
) -> None:
    sequence = be32(buffer, batch_start + 53)
    if fragment[BATCHES] == 0:
        fragment[FIRST_EPOCH] = epoch
        fragment[FIRST_SEQUENCE] = sequence
    if sequence >= 0:
        if epoch == fragment[LAST_EPOCH]:
            last_sequence = fragment[LAST_SEQUENCE]
            if last_sequence == EPOCH_BEGUN:
                last_sequence = -1
            elif last_sequence == -1:
                # The last batch lies before this piece, so any sequence may follow.
                last_sequence = sequence - 1
            if sequence != (last_sequence + 1) % SEQUENCE_SPAN:
                fragment[SEQUENCE_GAPS] += 1
        elif fragment[LAST_EPOCH] >= 0 and sequence != 0:
            fragment[SEQUENCE_GAPS] += 1
        fragment[LAST_SEQUENCE] = (sequence + be32(buffer, batch_start + 23)) % SEQUENCE_SPAN
    fragment[LAST_EPOCH] = epoch
    fragment[BATCHES] += 1
    fragment[RECORDS] += record_count
    if attributes & _TRANSACTIONAL:
        if fragment[OPEN_OFFSET] < 0:
            fragment[OPEN_OFFSET] = base_offset
            fragment[OPEN_TIMESTAMP] = timestamp
            fragment[OPEN_POSITION] = position
            if fragment[HEAD_MARKER] < 0:
                fragment[HEAD_OFFSET] = base_offset
        fragment[OPEN_EPOCH] = epoch
        fragment[OPEN_LAST_TIMESTAMP] = timestamp
        fragment[OPEN_RECORDS] += record_count


@compile_function
def _end_transaction(
    fragment: Any,
    endings: Any,
    ending_count: int,
    offset: int,
    epoch: int,
    control_type: int,
    coordinator_epoch: int,
    timestamp: int,
) -> None:
    endings[ENDED_PRODUCER, ending_count] = fragment[PRODUCER]
    endings[ENDED_EPOCH, ending_count] = epoch
    endings[ENDED_FIRST_OFFSET, ending_count] = fragment[OPEN_OFFSET]
    endings[ENDED_MARKER, ending_count] = offset
    endings[ENDED_COMMITTED, ending_count] = control_type
    endings[ENDED_COORDINATOR_EPOCH, ending_count] = coordinator_epoch
    endings[ENDED_FIRST_TIMESTAMP, ending_count] = fragment[OPEN_TIMESTAMP]
    endings[ENDED_TIMESTAMP, ending_count] = timestamp
    endings[ENDED_RECORDS, ending_count] = fragment[OPEN_RECORDS]
    if fragment[HEAD_MARKER] < 0:
        fragment[HEAD_MARKER] = offset
        fragment[HEAD_IS_COMMIT] = control_type
    elif fragment[OPEN_OFFSET] < 0:
        fragment[IDLE_MARKERS] += 1
    fragment[COORDINATOR_EPOCH] = coordinator_epoch
    fragment[COMMITS if control_type == _COMMIT else ABORTS] += 1
    for column in (OPEN_OFFSET, OPEN_TIMESTAMP, OPEN_LAST_TIMESTAMP, OPEN_EPOCH, OPEN_POSITION):
        fragment[column] = -1
    fragment[OPEN_RECORDS] = 0
