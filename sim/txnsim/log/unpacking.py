"""Work on records that may need them unpacked first: a generator, so that others come between.

Each step yields one of two things. A number says about how many nanoseconds the step took.
``Packed`` records ask the caller to unpack them, as that takes longer than a step: the caller sends
back the result of ``unpack_records``. ``broker.look_ahead`` takes the steps with breaks, and
unpacks beside the loop. ``run_steps`` takes them without a break.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator
from typing import Final, TypeVar

from txnsim.errors import CorruptBatchError, MissingExtraError, UnpacksTooLargeError
from txnsim.wire.batch import NONE, BatchHeader
from txnsim.wire.batch_header import Came
from txnsim.wire.compression import NAMES, Packed, decompress_at_once

T = TypeVar("T")

Payload = bytes | memoryview
Unpacked = Payload | CorruptBatchError | MissingExtraError
"""What became of ``Packed`` records."""
Steps = Generator[int | Packed, Unpacked | None, T]

_UNPACK_NS: Final = 20_000
_UNPACK_BYTE_NS: Final = 4


def payload_in_steps(header: BatchHeader, batch: Came, at_most: int) -> Steps[Payload]:
    """The records of a batch.

    Raises:
        CorruptBatchError: They can't be unpacked.
        UnpacksTooLargeError: They are more than that.
        MissingExtraError: Their codec needs a library that is not installed.
    """
    if header.compression == NONE:
        return memoryview(batch)[BatchHeader.SIZE : header.size]
    data = bytes(batch[BatchHeader.SIZE : header.size])
    payload = decompress_at_once(header.compression, data)
    if payload is not None:
        if len(payload) > at_most:
            raise UnpacksTooLargeError(NAMES[header.compression], at_most)
        yield _UNPACK_NS + len(payload) * _UNPACK_BYTE_NS
        return payload
    answer = yield Packed(header.compression, data, at_most)
    assert answer is not None
    if isinstance(answer, Exception):
        raise answer
    yield _UNPACK_NS + len(answer)
    return answer


def unpack_records(packed: Packed, room: mmap.mmap) -> Unpacked:
    """Unpack records; an error in them is part of the answer."""
    try:
        return packed.unpack(room)
    except (CorruptBatchError, MissingExtraError) as error:
        return error


def run_steps(steps: Steps[T]) -> T:
    """The result of the steps, run without a pause."""
    answer: Unpacked | None = None
    try:
        while True:
            step = steps.send(answer)
            answer = None
            if isinstance(step, Packed):
                answer = unpack_records(step, mmap.mmap(-1, step.room_bytes))
    except StopIteration as end:
        result: T = end.value
        return result
