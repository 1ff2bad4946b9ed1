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
from txnsim_spark.scan.kernel import FULL, batch_at, be16, be32, be64, compile_function, control_of

# numba knows no attributes of classes.
_CONTROL: Final = BatchHeader.CONTROL
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
TOLD_COLUMNS: Final = 25
"""The columns above are those of the table ``fragments``."""
OPEN_POSITION: Final = 25
"""Position in the segment of the batch at ``OPEN_OFFSET``; -1 where an earlier batch reaches as
far, so that a search for the offset would end there.
"""
FRAGMENT_COLUMNS: Final = 26

# What a walk knows of the place where it is.
FILE_POSITION: Final = 0
"""Position in the file of the buffer's beginning."""
REACH: Final = 1
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
_HASH: Final = np.uint64(0x9E3779B97F4A7C15)
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
    count: int,
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
        count: Number of fragments that are used already.
        endings: int64, ``ENDING_COLUMNS`` by the maximum number of endings.
        file_state: int64, ``FILE_POSITION`` and ``REACH``, which is updated.

    Returns:
        Number of used fragments, number of endings, the start of the next batch (after ``end`` if
        the last one is not complete), and why the walk stopped.
    """
    ended = 0
    batch_start = start
    room, endings_room = fragments.shape[0], endings.shape[1]
    row = 0  # of the batch before: producers write several in a row
    while True:
        size, why = batch_at(buffer, batch_start, end, file_end)
        if size == 0:
            return count, ended, batch_start, why
        if ended == endings_room:
            return count, ended, batch_start, FULL
        producer = be64(buffer, batch_start + 43)
        if row >= count or fragments[row, PRODUCER] != producer:
            row = _row_of(slots, fragments, count, producer, room)
            if row < 0:
                return count, ended, batch_start, FULL
            if row == count:
                _begin(fragments[row], producer, be64(buffer, batch_start))
                count += 1
        position = (
            file_state[FILE_POSITION] + batch_start
            if be64(buffer, batch_start) > file_state[REACH]
            else -1
        )
        ended = _fold(buffer, batch_start, size, end, fragments[row], endings, ended, position)
        file_state[REACH] = max(
            file_state[REACH], be64(buffer, batch_start) + be32(buffer, batch_start + 23)
        )
        batch_start += size


@compile_function
def _row_of(slots: Any, fragments: Any, count: int, producer: int, room: int) -> int:
    """The number of the producer's fragment; if it is new, ``count``, which is entered into the
    table; -1 if there is no room for a new one.
    """
    mask = slots.shape[0] - 1
    slot = np.int64((np.uint64(producer) * _HASH) >> _HASH_SHIFT) & mask
    while slots[slot] >= 0:
        if fragments[slots[slot], PRODUCER] == producer:
            return int(slots[slot])
        slot = (slot + 1) & mask
    if count == room:
        return -1
    slots[slot] = count
    return count


@compile_function
def enter_all(slots: Any, fragments: Any, count: int) -> None:
    """Enter the first ``count`` fragments into an empty hash table."""
    for row in range(count):
        _row_of(slots, fragments, row, fragments[row, PRODUCER], count)


@compile_function
def _begin(fragment: Any, producer: int, offset: int) -> None:
    fragment[:] = -1
    fragment[PRODUCER] = producer
    fragment[FIRST_OFFSET] = offset
    for column in (BATCHES, RECORDS, BYTES, COMMITS, ABORTS, OPEN_RECORDS):
        fragment[column] = 0
    for column in (SEQUENCE_GAPS, EPOCHS_BACK, IDLE_MARKERS):
        fragment[column] = 0


@compile_function
def _fold(
    buffer: Any,
    batch_start: int,
    size: int,
    end: int,
    fragment: Any,
    endings: Any,
    ended: int,
    position: int,
) -> int:
    """Fold one batch of a producer; returns the number of endings so far."""
    base = be64(buffer, batch_start)
    attributes = be16(buffer, batch_start + 21)
    epoch = be16(buffer, batch_start + 51)
    timestamp = be64(buffer, batch_start + 35)
    records = be32(buffer, batch_start + 57)
    if epoch < fragment[LAST_EPOCH]:
        fragment[EPOCHS_BACK] += 1
    fragment[LAST_OFFSET] = base + be32(buffer, batch_start + 23)
    fragment[LAST_TIMESTAMP] = max(fragment[LAST_TIMESTAMP], timestamp)
    fragment[BYTES] += size
    if not attributes & _CONTROL:
        _data(buffer, batch_start, fragment, base, epoch, timestamp, records, attributes, position)
        return ended
    if fragment[LAST_EPOCH] >= 0 and epoch != fragment[LAST_EPOCH]:
        fragment[LAST_SEQUENCE] = EPOCH_BEGUN
    fragment[LAST_EPOCH] = epoch
    if records <= 0:
        return ended  # emptied by the cleaner: it ends nothing
    kind, coordinator_epoch = control_of(buffer, batch_start, min(batch_start + size, end))
    if kind < 0 or kind > 1:
        return ended
    _end(fragment, endings, ended, base, epoch, kind, coordinator_epoch, timestamp)
    return ended + 1


@compile_function
def _data(
    buffer: Any,
    batch_start: int,
    fragment: Any,
    base: int,
    epoch: int,
    timestamp: int,
    records: int,
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
    fragment[RECORDS] += records
    if attributes & _TRANSACTIONAL:
        if fragment[OPEN_OFFSET] < 0:
            fragment[OPEN_OFFSET] = base
            fragment[OPEN_TIMESTAMP] = timestamp
            fragment[OPEN_POSITION] = position
            if fragment[HEAD_MARKER] < 0:
                fragment[HEAD_OFFSET] = base
        fragment[OPEN_EPOCH] = epoch
        fragment[OPEN_LAST_TIMESTAMP] = timestamp
        fragment[OPEN_RECORDS] += records


@compile_function
def _end(
    fragment: Any,
    endings: Any,
    ended: int,
    offset: int,
    epoch: int,
    kind: int,
    coordinator_epoch: int,
    timestamp: int,
) -> None:
    endings[ENDED_PRODUCER, ended] = fragment[PRODUCER]
    endings[ENDED_EPOCH, ended] = epoch
    endings[ENDED_FIRST_OFFSET, ended] = fragment[OPEN_OFFSET]
    endings[ENDED_MARKER, ended] = offset
    endings[ENDED_COMMITTED, ended] = kind
    endings[ENDED_COORDINATOR_EPOCH, ended] = coordinator_epoch
    endings[ENDED_FIRST_TIMESTAMP, ended] = fragment[OPEN_TIMESTAMP]
    endings[ENDED_TIMESTAMP, ended] = timestamp
    endings[ENDED_RECORDS, ended] = fragment[OPEN_RECORDS]
    if fragment[HEAD_MARKER] < 0:
        fragment[HEAD_MARKER] = offset
        fragment[HEAD_IS_COMMIT] = kind
    elif fragment[OPEN_OFFSET] < 0:
        fragment[IDLE_MARKERS] += 1
    fragment[COORDINATOR_EPOCH] = coordinator_epoch
    fragment[COMMITS if kind == _COMMIT else ABORTS] += 1
    for column in (OPEN_OFFSET, OPEN_TIMESTAMP, OPEN_LAST_TIMESTAMP, OPEN_EPOCH, OPEN_POSITION):
        fragment[column] = -1
    fragment[OPEN_RECORDS] = 0
