"""Segments full of small batches at some hundred megabytes per second: what ``log_data`` fills its
files with, compiled.

A few producers of a partition write at a time, batch after batch in an order of chance; whose
transaction is long enough gets its marker, and the next producer begins. Every batch is one that a
broker would have written: offsets, sequences, timestamps and CRCs are right.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from txnsim.wire.batch import Record, build_batch, control_batch
from txnsim.wire.batch_header import BatchHeader
from txnsim_spark.scan.kernel_crc import CRC_TABLES

BATCH_BYTES: Final = 90
MARKER_BYTES: Final = 78
ACTIVE_SLOTS: Final = 16
"""Transactions that are open at a time on a partition."""
ABORT_EVERY: Final = 10

# State of a partition, carried from segment to segment.
OFFSET_INDEX: Final = 0
TIMESTAMP_INDEX: Final = 1
CHANCE_INDEX: Final = 2
BEGUN_INDEX: Final = 3
"""Transactions."""
ENDED_INDEX: Final = 4
WRITTEN_INDEX: Final = 5
"""Batches."""
NEXT_PRODUCER_INDEX: Final = 6
STRAYS_WRITTEN_INDEX: Final = 7
"""Of the planned batches, how many are written."""
STATE_COLUMNS: Final = 8

_CRC: Final = 17
_CRC_START: Final = BatchHeader.CRC_START
"""Here, as compiled code knows no classes."""
_TYPE_AT: Final = 69
"""Lower byte of a marker's type in its batch."""


def data_template() -> Any:
    """A transactional batch of one record, 90 bytes."""
    data = build_batch(
        [Record(key=b"k", value=b"v" * 21)],
        timestamp_ms=0,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        leader_epoch=0,
    )
    assert len(data) == BATCH_BYTES, len(data)
    return np.frombuffer(bytearray(data), dtype=np.uint8)


def marker_template() -> Any:
    """A COMMIT marker."""
    data = control_batch(producer_id=0, producer_epoch=0, is_commit=True, coordinator_epoch=0,
                         base_offset=0, leader_epoch=0, timestamp_ms=0)  # fmt: skip
    assert len(data) == MARKER_BYTES, len(data)
    return np.frombuffer(bytearray(data), dtype=np.uint8)


def crc_tables() -> Any:
    """The tables by which ``fill`` computes CRCs."""
    return CRC_TABLES


@njit(cache=True)
def fill(
    buffer: Any,
    data: Any,
    marker: Any,
    tables: Any,
    state: Any,
    slots: Any,
    sequences: Any,
    first_producer_id: int,
    transaction_count: int,
    batch_count: int,
    stray_batches: Any,
) -> int:
    """Write a partition's next batches into ``buffer`` until it is full or all is written.

    Args:
        buffer: uint8, as long as the segment may be.
        data: ``data_template``.
        marker: ``marker_template``.
        tables: ``crc_tables``.
        state: ``STATE_COLUMNS`` numbers.
        slots: ``ACTIVE`` rows of (producer's number or -1, batches left).
        sequences: Next sequence of each producer of the partition.
        first_producer_id: Id of its first producer.
        transaction_count: How many it has in all.
        batch_count: Of data, in each.
        stray_batches: For each open one: batches before it, producer id, sequence, offset (out).

    Returns:
        How many bytes were written.
    """
    position = 0
    while position + data.shape[0] <= buffer.shape[0]:
        stray_row = state[STRAYS_WRITTEN_INDEX]
        if stray_row < stray_batches.shape[0] and (
            state[WRITTEN_INDEX] >= stray_batches[stray_row, 0]
            or state[ENDED_INDEX] == transaction_count
        ):
            stray_batches[stray_row, 3] = state[OFFSET_INDEX]
            stray_id, sequence = stray_batches[stray_row, 1], stray_batches[stray_row, 2]
            _put_batch(buffer, position, data, tables, state, stray_id, sequence)
            state[STRAYS_WRITTEN_INDEX] += 1
            position += data.shape[0]
            continue
        if state[ENDED_INDEX] == transaction_count:
            break
        slot = _draw_slot(state, slots, sequences, transaction_count, batch_count)
        producer_id = slots[slot, 0]
        if slots[slot, 1] == 0:
            buffer[position : position + marker.shape[0]] = marker
            buffer[position + _TYPE_AT] = 0 if state[ENDED_INDEX] % ABORT_EVERY == 0 else 1
            _put_batch(buffer, position, marker, tables, state, first_producer_id + producer_id, -1)
            position += marker.shape[0]
            slots[slot, 0] = -1
            state[ENDED_INDEX] += 1
        else:
            sequence = sequences[producer_id]
            _put_batch(
                buffer, position, data, tables, state, first_producer_id + producer_id, sequence
            )
            position += data.shape[0]
            sequences[producer_id] += 1
            slots[slot, 1] -= 1
            state[WRITTEN_INDEX] += 1
    return position


@njit(cache=True)
def _draw_slot(
    state: Any, slots: Any, sequences: Any, transaction_count: int, batch_count: int
) -> int:
    """The producer that writes next; a free slot lets a producer begin a transaction."""
    while True:
        state[CHANCE_INDEX] = (state[CHANCE_INDEX] * 1103515245 + 12345) & 0x7FFFFFFF
        slot = (state[CHANCE_INDEX] >> 16) % slots.shape[0]
        if slots[slot, 0] >= 0:
            return int(slot)
        if state[BEGUN_INDEX] < transaction_count:
            slots[slot, 0] = state[NEXT_PRODUCER_INDEX]
            slots[slot, 1] = batch_count
            state[NEXT_PRODUCER_INDEX] = (state[NEXT_PRODUCER_INDEX] + 1) % sequences.shape[0]
            state[BEGUN_INDEX] += 1
            return int(slot)


@njit(cache=True)
def _put_batch(
    buffer: Any,
    position: int,
    template: Any,
    tables: Any,
    state: Any,
    producer_id: int,
    sequence: int,
) -> None:
    """Write the fields of a batch that differ from the template."""
    if sequence >= 0:
        buffer[position : position + template.shape[0]] = template
    _write_number(buffer, position, 8, state[OFFSET_INDEX])
    _write_number(buffer, position + 27, 8, state[TIMESTAMP_INDEX])
    _write_number(buffer, position + 35, 8, state[TIMESTAMP_INDEX])
    _write_number(buffer, position + 43, 8, producer_id)
    _write_number(buffer, position + 53, 4, sequence)
    crc = np.uint32(0xFFFFFFFF)
    for index in range(position + _CRC_START, position + template.shape[0]):
        crc = tables[0, (crc ^ np.uint32(buffer[index])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    _write_number(buffer, position + _CRC, 4, int(crc ^ np.uint32(0xFFFFFFFF)))
    state[OFFSET_INDEX] += 1
    state[TIMESTAMP_INDEX] += state[OFFSET_INDEX] % 8 == 0


@njit(cache=True)
def _write_number(buffer: Any, position: int, size: int, value: int) -> None:
    """A big-endian number."""
    for index in range(size):
        buffer[position + index] = (value >> (8 * (size - 1 - index))) & 0xFF
