"""Work on records that may have to be decompressed first: generators, so that other tasks can run
in between.

A step yields one of two things. A number is about how many nanoseconds the step took.
``PackedRecords`` ask the caller to decompress them, because that takes longer than a step: the
caller sends back the result of ``unpack_records``. ``broker.look_ahead`` runs the steps in slices,
and decompresses beside the loop. ``run_steps`` runs them without a break.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator
from typing import Final, TypeVar

from txnsim.errors import CorruptBatchError, MissingExtraError, UnpacksTooLargeError
from txnsim.wire.batch import NONE, BatchHeader
from txnsim.wire.batch_header import ReceivedBatch
from txnsim.wire.compression import CODEC_NAMES, PackedRecords, decompress_at_once

T = TypeVar("T")

Payload = bytes | memoryview
Unpacked = Payload | CorruptBatchError | MissingExtraError
"""The result of decompressing ``PackedRecords`` records."""
Steps = Generator[int | PackedRecords, Unpacked | None, T]

_UNPACK_NS: Final = 20_000
_UNPACK_BYTE_NS: Final = 4


def payload_in_steps(header: BatchHeader, batch: ReceivedBatch, bytes_max: int) -> Steps[Payload]:
    """The records of a batch.

    Raises:
        CorruptBatchError: The records can't be decompressed.
        UnpacksTooLargeError: They decompress to more than ``bytes_max`` bytes.
        MissingExtraError: Their codec needs a library that is not installed.
    """
    if header.compression == NONE:
        return memoryview(batch)[BatchHeader.SIZE : header.size]
    packed_bytes = bytes(batch[BatchHeader.SIZE : header.size])
    payload = decompress_at_once(header.compression, packed_bytes)
    if payload is not None:
        if len(payload) > bytes_max:
            raise UnpacksTooLargeError(CODEC_NAMES[header.compression], bytes_max)
        yield _UNPACK_NS + len(payload) * _UNPACK_BYTE_NS
        return payload
    unpacked_records = yield PackedRecords(header.compression, packed_bytes, bytes_max)
    assert unpacked_records is not None
    if isinstance(unpacked_records, Exception):
        raise unpacked_records
    yield _UNPACK_NS + len(unpacked_records)
    return unpacked_records


def unpack_records(packed_records: PackedRecords, target_memory: mmap.mmap) -> Unpacked:
    """Decompress records; an error is returned as the result."""
    try:
        return packed_records.unpack(target_memory)
    except (CorruptBatchError, MissingExtraError) as error:
        return error


def run_steps(steps: Steps[T]) -> T:
    """Run the steps without a pause; returns their result."""
    unpacked_records: Unpacked | None = None
    try:
        while True:
            step = steps.send(unpacked_records)
            unpacked_records = None
            if isinstance(step, PackedRecords):
                unpacked_records = unpack_records(step, mmap.mmap(-1, step.room_bytes))
    except StopIteration as end:
        result: T = end.value
        return result
