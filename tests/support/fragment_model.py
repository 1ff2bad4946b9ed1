"""Random segments, and what each of their producers did, computed in a second, slower way.

``txnsim_spark.scan.kernel_fragments`` folds batch by batch; here a producer's batches are laid
out in a list, and each figure is what its definition says of that list. Batches are read by
``txnsim.wire``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import strategies as st

from txnsim.wire.batch import (
    BatchHeader,
    Record,
    build_batch,
    control_batch,
    iter_batches,
    read_batch_header,
    read_control_record,
)
from txnsim.wire.batch_header import pack_batch
from txnsim_spark.scan import kernel_fragments as fk

COUNTED = (
    *(fk.BATCHES, fk.RECORDS, fk.BYTES, fk.COMMITS, fk.ABORTS),
    *(fk.SEQUENCE_GAPS, fk.EPOCHS_BACK, fk.IDLE_MARKERS),
)
SEQUENCES = 1 << 31


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that a model's history contains."""

    kind: str
    """data, plain (no transaction), commit, abort, emptied, other (control, but no marker)."""
    producer: int
    epoch: int
    sequence: int
    records: int
    value_bytes: int
    timestamp_ms: int


def act(kind: str = "data", value_bytes: int = 5) -> Act:
    """A batch of two records of a producer."""
    return Act(
        kind=kind,
        producer=7,
        epoch=1,
        sequence=3,
        records=2,
        value_bytes=value_bytes,
        timestamp_ms=11,
    )


def acts(max_size: int = 30) -> st.SearchStrategy[list[Act]]:
    """Histories of few producers, epochs and sequences, so that many of them collide."""
    return st.lists(
        st.builds(
            Act,
            kind=st.sampled_from(["data", "data", "plain", "commit", "abort", "emptied", "other"]),
            producer=st.sampled_from([-1, 0, 1, 2, 7, 1 << 40, (1 << 63) - 1]),
            epoch=st.integers(0, 2),
            sequence=st.sampled_from([0, 1, 2, 3, SEQUENCES - 2, SEQUENCES - 1]),
            records=st.integers(1, 3),
            value_bytes=st.sampled_from([0, 5, 70, 400]),
            timestamp_ms=st.integers(0, 20),
        ),
        max_size=max_size,
    )


def segment_of(act_history: Sequence[Act], base_offset: int = 0) -> bytes:
    """The bytes of a segment file with these batches."""
    parts = []
    for act in act_history:
        part = _batch_of(act, base_offset)
        parts.append(part)
        base_offset = read_batch_header(part).last_offset + 1
    return b"".join(parts)


def _batch_of(act: Act, offset: int) -> bytes:
    if act.kind in ("emptied", "other"):
        # A LEADER_CHANGE record without a value, or nothing at all, as the cleaner leaves it.
        record = bytes.fromhex("14 00 00 00 08 0000 0002 01 00")
        return pack_batch(
            record if act.kind == "other" else b"",
            base_offset=offset,
            leader_epoch=3,
            attributes=BatchHeader.TRANSACTIONAL | BatchHeader.CONTROL,
            last_offset_delta=0,
            base_timestamp_ms=act.timestamp_ms,
            max_timestamp_ms=act.timestamp_ms,
            producer_id=max(act.producer, 0),
            producer_epoch=act.epoch,
            base_sequence=-1,
            records_count=1 if act.kind == "other" else 0,
        )
    if act.kind in ("commit", "abort"):
        return control_batch(
            producer_id=max(act.producer, 0),
            producer_epoch=act.epoch,
            is_commit=act.kind == "commit",
            coordinator_epoch=act.sequence,
            base_offset=offset,
            leader_epoch=3,
            timestamp_ms=act.timestamp_ms,
        )
    has_producer = act.producer >= 0
    return build_batch(
        [Record(value=b"v" * act.value_bytes)] * act.records,
        timestamp_ms=act.timestamp_ms,
        producer_id=act.producer,
        producer_epoch=act.epoch if has_producer else -1,
        base_sequence=act.sequence if has_producer else -1,
        is_transactional=has_producer and act.kind == "data",
        base_offset=offset,
        leader_epoch=3,
    )


# What a producer did


class BatchEvent(msgspec.Struct, frozen=True):
    """A batch with its control record."""

    position: int
    header: BatchHeader
    control: int
    """Type of the control record; -1 where there is none."""
    coordinator_epoch: int

    @property
    def is_marker(self) -> bool:
        """Whether it is a COMMIT or ABORT marker."""
        return self.control in (0, 1)

    @property
    def opens(self) -> bool:
        """Whether it is a data batch of a transaction."""
        return self.header.is_transactional and not self.header.is_control


def events_of(batch_data: bytes) -> dict[int, list[BatchEvent]]:
    """The batches of each producer, in order of appearance."""
    events_by_producer: dict[int, list[BatchEvent]] = {}
    for position, header in iter_batches(batch_data):
        control = read_control_record(batch_data, position) if header.is_control else None
        event = BatchEvent(
            position,
            header,
            -1 if control is None else control.type,
            -1 if control is None else control.coordinator_epoch,
        )
        events_by_producer.setdefault(header.producer_id, []).append(event)
    return events_by_producer


def fragments_of(data: bytes) -> list[list[int]]:
    """One row per producer, as the kernel makes them."""
    return [_fragment_of(producer, events) for producer, events in events_of(data).items()]


def _fragment_of(producer: int, events: list[BatchEvent]) -> list[int]:
    row = [-1] * fk.FRAGMENT_COLUMNS
    headers = [event.header for event in events]
    data = [header for header in headers if not header.is_control]
    marks = [event_index for event_index, event in enumerate(events) if event.is_marker]
    first_headers = [event.header for event in events[: marks[0] if marks else None] if event.opens]
    last_headers = [
        event.header for event in events[marks[-1] + 1 if marks else 0 :] if event.opens
    ]
    row[fk.PRODUCER] = producer
    row[fk.FIRST_OFFSET] = headers[0].base_offset
    row[fk.LAST_OFFSET] = headers[-1].last_offset
    row[fk.BATCHES] = len(data)
    row[fk.RECORDS] = sum(header.records_count for header in data)
    row[fk.BYTES] = sum(header.size for header in headers)
    row[fk.LAST_EPOCH] = headers[-1].producer_epoch
    row[fk.LAST_TIMESTAMP] = max(header.max_timestamp_ms for header in headers)
    row[fk.COMMITS] = sum(events[mark_index].control == 1 for mark_index in marks)
    row[fk.ABORTS] = sum(events[mark_index].control == 0 for mark_index in marks)
    row[fk.EPOCHS_BACK] = sum(b.producer_epoch < a.producer_epoch for a, b in pairwise(headers))
    row[fk.IDLE_MARKERS] = sum(
        not any(event.opens for event in events[a + 1 : b]) for a, b in pairwise(marks)
    )
    row[fk.SEQUENCE_GAPS] = sum(
        _is_gap(headers, header_index) for header_index in range(len(headers))
    )
    row[fk.LAST_SEQUENCE] = _last_sequence(headers)
    row[fk.OPEN_RECORDS] = sum(header.records_count for header in last_headers)
    if data:
        row[fk.FIRST_EPOCH] = data[0].producer_epoch
        row[fk.FIRST_SEQUENCE] = data[0].base_sequence
    if marks:
        row[fk.COORDINATOR_EPOCH] = events[marks[-1]].coordinator_epoch
        row[fk.HEAD_MARKER] = headers[marks[0]].base_offset
        row[fk.HEAD_IS_COMMIT] = events[marks[0]].control
    if first_headers:
        row[fk.HEAD_OFFSET] = first_headers[0].base_offset
    if last_headers:
        row[fk.OPEN_POSITION] = next(
            event.position for event in events if event.header is last_headers[0]
        )
        row[fk.OPEN_OFFSET] = last_headers[0].base_offset
        row[fk.OPEN_TIMESTAMP] = last_headers[0].max_timestamp_ms
        row[fk.OPEN_LAST_TIMESTAMP] = last_headers[-1].max_timestamp_ms
        row[fk.OPEN_EPOCH] = last_headers[-1].producer_epoch
    return row


def _run_start(headers: Sequence[BatchHeader], header_index: int) -> int:
    """Index of the first batch of the run of one epoch that ends at ``header_index``."""
    epoch = headers[header_index].producer_epoch
    while header_index and headers[header_index - 1].producer_epoch == epoch:
        header_index -= 1
    return header_index


def _next_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta + 1) % SEQUENCES


def _is_gap(headers: Sequence[BatchHeader], header_index: int) -> bool:
    header = headers[header_index]
    if header.is_control or header.base_sequence < 0:
        return False
    start = _run_start(headers, header_index)
    headers_before = [header for header in headers[start:header_index] if not header.is_control]
    if headers_before:
        return header.base_sequence != _next_sequence(headers_before[-1])
    return start > 0 and header.base_sequence != 0


def _last_sequence(headers: Sequence[BatchHeader]) -> int:
    """The last sequence of the last epoch, or what a marker leaves that began an epoch without
    data.
    """
    start = _run_start(headers, len(headers) - 1)
    data = [header for header in headers[start:] if not header.is_control]
    if data:
        return (_next_sequence(data[-1]) - 1) % SEQUENCES if data[-1].base_sequence >= 0 else -1
    return fk.EPOCH_BEGUN if start else -1


def merge_fragments(rows: Sequence[Sequence[int]]) -> list[int]:
    """One producer's fragments of neighbouring pieces, in order, as one: all but what is judged
    across their borders (gaps, epochs, idle markers, the sequence).
    """
    merged_row = list(rows[0])
    for row in rows[1:]:
        has_marker = row[fk.HEAD_MARKER] >= 0
        had_marker = merged_row[fk.HEAD_MARKER] >= 0
        for column in COUNTED:
            merged_row[column] += row[column]
        for column in (fk.LAST_OFFSET, fk.LAST_EPOCH):
            merged_row[column] = row[column]
        merged_row[fk.LAST_TIMESTAMP] = max(merged_row[fk.LAST_TIMESTAMP], row[fk.LAST_TIMESTAMP])
        if merged_row[fk.BATCHES] == row[fk.BATCHES]:
            merged_row[fk.FIRST_EPOCH] = row[fk.FIRST_EPOCH]
            merged_row[fk.FIRST_SEQUENCE] = row[fk.FIRST_SEQUENCE]
        if not had_marker:
            merged_row[fk.HEAD_MARKER] = row[fk.HEAD_MARKER]
            merged_row[fk.HEAD_IS_COMMIT] = row[fk.HEAD_IS_COMMIT]
            if merged_row[fk.HEAD_OFFSET] < 0:
                merged_row[fk.HEAD_OFFSET] = row[fk.HEAD_OFFSET]
        if has_marker:
            merged_row[fk.COORDINATOR_EPOCH] = row[fk.COORDINATOR_EPOCH]
        if has_marker or merged_row[fk.OPEN_OFFSET] < 0:
            for column in (fk.OPEN_OFFSET, fk.OPEN_POSITION, fk.OPEN_TIMESTAMP, fk.OPEN_RECORDS):
                merged_row[column] = row[column]
            merged_row[fk.OPEN_LAST_TIMESTAMP] = row[fk.OPEN_LAST_TIMESTAMP]
            merged_row[fk.OPEN_EPOCH] = row[fk.OPEN_EPOCH]
        elif row[fk.OPEN_OFFSET] >= 0:
            merged_row[fk.OPEN_RECORDS] += row[fk.OPEN_RECORDS]
            merged_row[fk.OPEN_LAST_TIMESTAMP] = row[fk.OPEN_LAST_TIMESTAMP]
            merged_row[fk.OPEN_EPOCH] = row[fk.OPEN_EPOCH]
    return merged_row


def on_file(data: bytes, check: Callable[[Path], None]) -> None:
    """Write a segment of these bytes and pass its path to ``check``."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "00000000000000000000.log"
        path.write_bytes(data)
        check(path)
