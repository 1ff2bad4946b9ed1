"""Scans the records of heavy batches in slices, before anything is decided.

A slice is a part of a turn of the loop (``runtime.loop_turns``). All requests that have more work
than one turn allows share its slices. Compressed batches are decompressed in a thread beside the
loop (``runtime.tasks``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from txnsim.log.answers import AppendRejection
from txnsim.log.unpacking import Steps, Unpacked, unpack_records
from txnsim.log.validation import newest_in_steps
from txnsim.runtime.loop_turns import SLICE_NS, TimeSlices
from txnsim.wire.compression import PackedRecords

if TYPE_CHECKING:
    from txnsim.runtime.environment import Tasks
    from txnsim.wire.batch import BatchHeader
    from txnsim.wire.batch_header import ReceivedBatch

T = TypeVar("T")

Newest = AppendRejection | int


class LookAhead:
    """Scans the batches of one request, in order."""

    def __init__(self, tasks: Tasks) -> None:
        self._unpacker = tasks.unpacker
        self._slices = TimeSlices(tasks.turns)
        self._spent_ns = 0
        self._has_room = False
        self.was_heavy = False
        """Whether the previous batch took more than one slice."""
        self.payload: memoryview | None = None
        """Records of the batch if they were decompressed beside the loop; until ``leave``."""

    async def find_newest_timestamp(self, header: BatchHeader, batch: ReceivedBatch) -> Newest:
        """The newest timestamp of the records, or why the batch can't contain what its header says.
        Call ``leave`` afterwards.
        """
        return await self.run_steps(newest_in_steps(header, batch))

    async def run_steps(self, steps: Steps[T]) -> T:
        """The result of the steps, with waits if they exceed a slice. Call ``leave`` afterwards."""
        self.was_heavy = False
        spent_ns = 0
        unpacked_records: Unpacked | None = None
        try:
            while True:
                step = steps.send(unpacked_records)
                unpacked_records = None
                if isinstance(step, PackedRecords):
                    self.was_heavy = True
                    await self._enter()
                    unpacked_records = await self._unpacker.unpack(unpack_records, step)
                    if isinstance(unpacked_records, memoryview):
                        self.payload = unpacked_records
                    continue
                self._spent_ns += step
                spent_ns += step
                self.was_heavy = self.was_heavy or spent_ns >= SLICE_NS
                if self._spent_ns >= SLICE_NS:
                    self._spent_ns = 0
                    await self._slices.next()
        except StopIteration as end:
            result: T = end.value
            return result

    async def do_beside_loop(self, work: Callable[[], T]) -> T:
        """Run ``work`` on a heavy batch beside the loop, one batch at a time; returns its result.
        Call ``leave`` afterwards.
        """
        await self._enter()
        return await self._unpacker.do(work)

    async def _enter(self) -> None:
        if not self._has_room:
            await self._unpacker.enter()
            self._has_room = True

    def leave(self) -> None:
        """Let other requests decompress their batches."""
        self.payload = None
        if self._has_room:
            self._has_room = False
            self._unpacker.leave()
