"""A replica read on the driver, batch by batch: what it has open at its end, and what was found on
the way. ``read_compiled`` does the same where there is more.

Every CRC is computed. A broker that starts cuts a log off at the first damaged batch behind its
recovery point, and it does not look at batches before that point. So a batch with a wrong CRC is
reported, and it counts. Kafka's counterparts: LogLoader.recoverLog,
UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from txnsim.errors import CorruptBatchError
from txnsim.pipeline.forensics.open_transactions import Fragment, folded, open_after
from txnsim.pipeline.forensics.read_notes import NOTES_MAX, CutOff, Gap, ReadNotes
from txnsim.pipeline.forensics.replica_state import Kept, ReplicaState
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.storage.log_file import OldMessage, StoredBatch, TornTail, read_log_file, wrong_crc
from txnsim.wire.batch import crc_is_valid, read_control_record


class ReadHere(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that was read."""

    opened: Mapping[int, OpenTxn]
    """Producer id -> what it has open."""
    notes: ReadNotes
    kept: Mapping[int, Kept] = {}
    """Base offset -> what the next search need not read (``since``)."""


def read_here(state: ReplicaState) -> ReadHere:
    """Read what is left to read of a replica.

    Args:
        state: With segments that are left to read.
    """
    reading = _Reading(state)
    pieces: list[Mapping[int, Fragment]] = []
    for segment in state.unread:
        pieces.append(folded(reading.batches(segment)))
        if reading.is_over:
            break
    return ReadHere(opened=open_after(state.seeds, pieces), notes=reading.notes())


class _Reading:
    """What is known after so many batches."""

    def __init__(self, state: ReplicaState) -> None:
        self._from = self._next = state.unread[0].base_offset
        self._gaps: deque[Gap] = deque(maxlen=NOTES_MAX)
        self._damage: list[str] = []
        self._cut: CutOff | None = None
        self.is_over = False

    def batches(self, segment: SegmentFile) -> Iterator[StoredBatch]:
        """The batches that count, of the next segment."""
        torn: list[TornTail] = []
        if segment.base_offset > self._next:
            self._gap(segment.base_offset)
            self._next = segment.base_offset
        try:
            read = read_log_file(
                Path(segment.path),
                on_torn=torn.append,
                check_crc=segment.is_recovered,
                on_old=self._old,
            )
            for stored in read:
                self._take(segment, stored)
                yield stored
        except OSError as error:
            self._damage.append(f"{segment.path}: {error.strerror or error}; passed by")
        if torn:
            self._tear(segment, torn[0])

    def notes(self) -> ReadNotes:
        """All of it."""
        return ReadNotes(
            read_from=self._from,
            gaps=tuple(self._gaps),
            cut_off=self._cut,
            damage=tuple(self._damage),
        )

    def _take(self, segment: SegmentFile, stored: StoredBatch) -> None:
        header = stored.header
        if header.base_offset > self._next:
            self._gap(header.base_offset)
        self._next = header.last_offset + 1
        if not segment.is_recovered and not crc_is_valid(stored.data, header):
            self._tell(segment, stored, wrong_crc(header))
        elif header.is_control and header.has_producer_id:
            self._judge_control(segment, stored)

    def _judge_control(self, segment: SegmentFile, stored: StoredBatch) -> None:
        try:
            control = read_control_record(stored.data)
        except CorruptBatchError as error:
            self._tell(segment, stored, str(error))
            return
        if control is not None and not control.is_marker:
            self._tell(segment, stored, f"a control record of type {control.type}, no marker")

    def _old(self, message: OldMessage) -> None:
        self._next = message.offset + 1

    def _gap(self, next_offset: int) -> None:
        self._gaps.append(Gap(first_offset=self._next, next_offset=next_offset))

    def _tear(self, segment: SegmentFile, torn: TornTail) -> None:
        if segment.is_recovered:
            self.is_over = True
            self._cut = CutOff(
                file=segment.path, position=torn.position, offset=self._next, reason=torn.reason
            )
        else:
            self._damage.append(f"{segment.path}, byte {torn.position}: {torn.reason}")

    def _tell(self, segment: SegmentFile, stored: StoredBatch, what: str) -> None:
        if len(self._damage) < NOTES_MAX:
            self._damage.append(f"{segment.path}, byte {stored.position}: {what}")
