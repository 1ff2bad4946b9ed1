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


def make_data_template() -> Any:
    """Build a transactional batch of one record, 90 bytes."""
    batch_bytes = build_batch(
        [Record(key=b"k", value=b"v" * 21)],
        timestamp_ms=0,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        leader_epoch=0,
    )
    assert len(batch_bytes) == BATCH_BYTES, len(batch_bytes)
    return np.frombuffer(bytearray(batch_bytes), dtype=np.uint8)


def make_marker_template() -> Any:
    """Build the batch of a COMMIT marker."""
    marker_bytes = control_batch(
        producer_id=0, producer_epoch=0, is_commit=True, coordinator_epoch=0,
        base_offset=0, leader_epoch=0, timestamp_ms=0,
    )  # fmt: skip
    assert len(marker_bytes) == MARKER_BYTES, len(marker_bytes)
    return np.frombuffer(bytearray(marker_bytes), dtype=np.uint8)


def read_crc_tables() -> Any:
    """Return the tables by which ``fill_segment`` computes CRCs."""
    return CRC_TABLES


@njit(cache=True)
def fill_segment(
    buffer: Any,
    data_template: Any,
    marker_template: Any,
    crc_tables: Any,
    fill_state: Any,
    active_slots: Any,
    next_sequences: Any,
    first_producer_id: int,
    transaction_count: int,
    batches_per_transaction: int,
    stray_batches: Any,
) -> int:
    """Write a partition's next batches into ``buffer`` until it is full or all is written.

    Args:
        buffer: uint8, as long as the segment may be.
        data_template: From ``make_data_template``.
        marker_template: From ``make_marker_template``.
        crc_tables: From ``read_crc_tables``.
        fill_state: ``STATE_COLUMNS`` numbers.
        active_slots: ``ACTIVE_SLOTS`` rows of (producer's number or -1, batches left).
        next_sequences: Next sequence of each producer of the partition.
        first_producer_id: Id of its first producer.
        transaction_count: How many it has in all.
        batches_per_transaction: Of data, in each.
        stray_batches: For each open one: batches before it, producer id, sequence, offset (out).

    Returns:
        How many bytes were written.
    """
    position = 0
    while position + data_template.shape[0] <= buffer.shape[0]:
        stray_row = fill_state[STRAYS_WRITTEN_INDEX]
        if stray_row < stray_batches.shape[0] and (
            fill_state[WRITTEN_INDEX] >= stray_batches[stray_row, 0]
            or fill_state[ENDED_INDEX] == transaction_count
        ):
            stray_batches[stray_row, 3] = fill_state[OFFSET_INDEX]
            stray_producer_id, sequence = stray_batches[stray_row, 1], stray_batches[stray_row, 2]
            _put_batch(
                buffer, position, data_template, crc_tables, fill_state, stray_producer_id, sequence
            )
            fill_state[STRAYS_WRITTEN_INDEX] += 1
            position += data_template.shape[0]
            continue
        if fill_state[ENDED_INDEX] == transaction_count:
            break
        slot = _draw_slot(
            fill_state, active_slots, next_sequences, transaction_count, batches_per_transaction
        )
        producer_number = active_slots[slot, 0]
        producer_id = first_producer_id + producer_number
        if active_slots[slot, 1] == 0:
            _put_marker(buffer, position, marker_template, crc_tables, fill_state, producer_id)
            position += marker_template.shape[0]
            active_slots[slot, 0] = -1
        else:
            sequence = next_sequences[producer_number]
            _put_batch(
                buffer, position, data_template, crc_tables, fill_state, producer_id, sequence
            )
            position += data_template.shape[0]
            next_sequences[producer_number] += 1
            active_slots[slot, 1] -= 1
            fill_state[WRITTEN_INDEX] += 1
    return position


@njit(cache=True)
def _draw_slot(
    fill_state: Any,
    active_slots: Any,
    next_sequences: Any,
    transaction_count: int,
    batches_per_transaction: int,
) -> int:
    """Draw the slot whose producer writes next; in a free slot a producer begins a transaction."""
    while True:
        fill_state[CHANCE_INDEX] = (fill_state[CHANCE_INDEX] * 1103515245 + 12345) & 0x7FFFFFFF
        slot = (fill_state[CHANCE_INDEX] >> 16) % active_slots.shape[0]
        if active_slots[slot, 0] >= 0:
            return int(slot)
        if fill_state[BEGUN_INDEX] < transaction_count:
            active_slots[slot, 0] = fill_state[NEXT_PRODUCER_INDEX]
            active_slots[slot, 1] = batches_per_transaction
            fill_state[NEXT_PRODUCER_INDEX] = (
                fill_state[NEXT_PRODUCER_INDEX] + 1
            ) % next_sequences.shape[0]
            fill_state[BEGUN_INDEX] += 1
            return int(slot)


@njit(cache=True)
def _put_marker(
    buffer: Any,
    position: int,
    marker_template: Any,
    crc_tables: Any,
    fill_state: Any,
    producer_id: int,
) -> None:
    """Write the marker that ends a transaction: ABORT for every tenth, else COMMIT."""
    buffer[position : position + marker_template.shape[0]] = marker_template
    buffer[position + _TYPE_AT] = 0 if fill_state[ENDED_INDEX] % ABORT_EVERY == 0 else 1
    _put_batch(buffer, position, marker_template, crc_tables, fill_state, producer_id, -1)
    fill_state[ENDED_INDEX] += 1


@njit(cache=True)
def _put_batch(
    buffer: Any,
    position: int,
    batch_template: Any,
    crc_tables: Any,
    fill_state: Any,
    producer_id: int,
    sequence: int,
) -> None:
    """Write the fields of a batch that differ from the template."""
    if sequence >= 0:
        buffer[position : position + batch_template.shape[0]] = batch_template
    _write_number(buffer, position, 8, fill_state[OFFSET_INDEX])
    _write_number(buffer, position + 27, 8, fill_state[TIMESTAMP_INDEX])
    _write_number(buffer, position + 35, 8, fill_state[TIMESTAMP_INDEX])
    _write_number(buffer, position + 43, 8, producer_id)
    _write_number(buffer, position + 53, 4, sequence)
    crc = np.uint32(0xFFFFFFFF)
    for byte_position in range(position + _CRC_START, position + batch_template.shape[0]):
        crc = crc_tables[0, (crc ^ np.uint32(buffer[byte_position])) & np.uint32(0xFF)] ^ (
            crc >> np.uint32(8)
        )
    _write_number(buffer, position + _CRC, 4, int(crc ^ np.uint32(0xFFFFFFFF)))
    fill_state[OFFSET_INDEX] += 1
    fill_state[TIMESTAMP_INDEX] += fill_state[OFFSET_INDEX] % 8 == 0


@njit(cache=True)
def _write_number(buffer: Any, position: int, byte_count: int, number: int) -> None:
    """Write a big-endian number."""
    for byte_index in range(byte_count):
        buffer[position + byte_index] = (number >> (8 * (byte_count - 1 - byte_index))) & 0xFF
