"""One segment from its first batch to its last: every CRC, every offset, indexes, leader epochs,
and what its producers did.

What can be judged within the segment is judged; the rest is left for ``chain``. Memory grows with
the producers of the segment, not with its bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from txnsim.errors import CorruptBatchError
from txnsim.log.txn_index import AbortedTxn
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.soundness.facts import ReplicaFacts
from txnsim.pipeline.soundness.index_rules import Entries, IndexCheck
from txnsim.pipeline.soundness.parts import Digest, SegmentPart, Stretch
from txnsim.pipeline.soundness.producer_walk import ProducerWalk
from txnsim.pipeline.soundness.violations import Broken, Invariant, read_or_tell
from txnsim.storage import names, txn_index
from txnsim.storage.indexes import decode_offset_index, decode_time_index
from txnsim.storage.log_file import OldMessage, StoredBatch, TornTail, read_log_file
from txnsim.wire.batch import BatchHeader, crc_is_valid, read_control_record

BUCKET_BITS: Final = 16
"""Offsets of 65,536 are compared between replicas at once."""
DIGEST_MASK: Final = (1 << 62) - 1
SAME_FINDINGS_MAX: Final = 100
"""Of one rule in one segment; where there are more, the last one says how many."""
GAPS_MAX: Final = 100
ENDLESS: Final = 1 << 63
NO_FILE: Final[Entries] = []
"""Of an index that is not there."""
T = TypeVar("T")


Epochs = tuple[tuple[int, int], ...]
"""(leader epoch, first offset) of a checkpoint."""


def examine(
    facts: ReplicaFacts,
    segment: SegmentFile,
    snapshot_offsets: Sequence[int] = (),
    epochs: Epochs | None = None,
) -> SegmentPart:
    """Walk over a segment of a replica, or over a section of it; snapshots are of the whole
    replica, epochs of its checkpoint.
    """
    walk = _SegmentWalk(facts, segment, snapshot_offsets, epochs)
    read = read_log_file(
        Path(segment.path),
        on_torn=walk.tear,
        check_crc=False,
        on_old=walk.pass_over,
        start=0 if segment.section is None else segment.section.start,
        until=_end_of(segment),
    )
    for stored in read:
        walk.take(stored)
    return walk.part()


def _end_of(segment: SegmentFile) -> int | None:
    """Where reading ends; None: with the file, also of the last section."""
    section = segment.section
    return segment.size if section is not None and section.has_followers else None


class _SegmentWalk:
    """What is known after so many batches."""

    def __init__(
        self,
        facts: ReplicaFacts,
        segment: SegmentFile,
        snapshot_offsets: Sequence[int],
        epochs: Epochs | None,
    ) -> None:
        self._facts = facts
        self._segment = segment
        self._epochs = epochs
        self._path = Path(segment.path)
        self._broken: list[Broken] = []
        self._told: Counter[Invariant] = Counter()
        self._torn = False
        self._doubtful_from: int | None = None
        self._shows_cleaning = False
        self._gaps: list[tuple[int, int]] = []
        self._first: BatchHeader | None = None
        section = segment.section
        self._end = first = segment.base_offset if section is None else section.first_offset
        self._epoch = -1
        self._epoch_until = -1
        self._stretches: list[Stretch] = []
        self._cuts = sorted((at for at in snapshot_offsets if at > first), reverse=True)
        self._producers = self._producer_walk(first)
        self._indexes = self._index_check()
        self._digests: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    # Commands

    def take(self, stored: StoredBatch) -> None:
        """The next batch."""
        header, position = stored.header, stored.position
        if not crc_is_valid(stored.data, header):
            self._tell(Invariant.CRC, header, position, "another CRC", f"CRC {header.crc}")
            self._doubt(position)
        self._indexes.take(header, position)
        if header.base_offset < self._end:
            self._tell(
                Invariant.OFFSET_ORDER,
                header,
                position,
                f"a batch from {header.base_offset} on",
                f"{self._end} or above",
            )
            # Either this offset is wrong or the one before: what follows is held against this one.
            self._doubt(position)
            self._end = header.last_offset + 1
            return
        self._take_place(header, position)
        self._cut_up_to(header.base_offset)
        if header.has_producer_id:
            self._take_producer(stored)
        self._end = header.last_offset + 1

    def pass_over(self, old: OldMessage) -> None:
        """A message of format 0 or 1, which has no producer."""
        self._end = max(self._end, old.offset + 1)

    def tear(self, torn: TornTail) -> None:
        """The segment makes no sense from here on."""
        self._torn = True
        self._broken.append(
            Broken(
                rule=Invariant.TORN,
                file=self._path.name,
                position=torn.position,
                offset=self._end,
                found=f"{torn.reason}; {torn.size} bytes to the end of the file",
                expected="a whole batch, or the end of the file",
            )
        )

    # Queries

    def part(self) -> SegmentPart:
        """What is left of the segment."""
        end = self._end_of_stretches()
        if end is not None:
            self._cut(end)
        aborted = self._read_aborted()
        for broken in self._indexes.finish():
            self._add(broken)
        for rule, count in sorted(self._told.items()):
            if count > SAME_FINDINGS_MAX:
                more = f"{count - SAME_FINDINGS_MAX} more of these"
                self._broken.append(
                    Broken(rule=rule, file=self._path.name, found=more, expected="none")
                )
        return SegmentPart(
            segment=self._segment,
            first_offset=None if self._first is None else self._first.base_offset,
            end_offset=self._end,
            first_epoch=-1 if self._first is None else self._first.leader_epoch,
            last_epoch=self._epoch,
            is_torn=self._torn,
            stands_alone=self._stands_alone(),
            doubtful_from=self._doubtful_from,
            shows_cleaning=self._shows_cleaning,
            gaps=tuple(self._gaps),
            broken=tuple(self._broken),
            stretches=tuple(self._stretches),
            aborted_index=aborted,
            digests=tuple(
                Digest(bucket=bucket, batches=count, total=total)
                for bucket, (count, total) in sorted(self._digests.items())
            ),
        )

    # Steps

    def _end_of_stretches(self) -> int | None:
        """Where the last stretch ends; None where it has ended. That of a section with another
        behind it goes on to that one, as snapshots may lie in between.
        """
        section = self._segment.section
        if section is None or section.next_offset is None or not section.has_followers:
            return self._end
        self._cut_up_to(section.next_offset)
        ended = self._stretches[-1].end if self._stretches else None
        return None if ended == section.next_offset else section.next_offset

    def _stands_alone(self) -> bool:
        section = self._segment.section
        if section is None:
            return True
        goes_past = section.next_offset is not None and self._end > section.next_offset
        return not (self._broken or self._torn or goes_past)

    def _cut_up_to(self, offset: int) -> None:
        while self._cuts and self._cuts[-1] <= offset:
            self._cut(self._cuts.pop())

    def _doubt(self, position: int) -> None:
        """From here on the segment says something else than was written."""
        if self._doubtful_from is None:
            self._doubtful_from = position

    def _take_place(self, header: BatchHeader, position: int) -> None:
        """What a batch's place in the log has to say."""
        if self._first is None:
            self._first = header
        elif header.base_offset > self._end and len(self._gaps) < GAPS_MAX:
            self._gaps.append((self._end, header.base_offset))
        if header.records_count != header.last_offset_delta + 1 or header.has_delete_horizon:
            self._shows_cleaning = True
        if header.leader_epoch != self._epoch or header.last_offset >= self._epoch_until:
            self._judge_epoch(header, position)
        facts = self._facts
        if facts.compare_from <= header.base_offset < facts.compare_until:
            digest = self._digests[header.base_offset >> BUCKET_BITS]
            digest[0] += 1
            digest[1] = digest[1] + digest_of(header) & DIGEST_MASK

    def _judge_epoch(self, header: BatchHeader, position: int) -> None:
        epoch, before = header.leader_epoch, self._epoch
        self._epoch = epoch  # what follows is held against this one, so it is reported once
        if epoch < before:
            self._tell(
                Invariant.LEADER_EPOCH,
                header,
                position,
                f"epoch {epoch}",
                f"{before} or a higher one",
            )
            return
        epochs = self._epochs
        starts_at = self._facts.log_start or 0
        if epochs is None or header.base_offset < starts_at:
            return
        known, until = epoch_at(epochs, header.base_offset)
        self._epoch_until = until
        if known != epoch or header.last_offset >= until:
            self._tell(
                Invariant.LEADER_EPOCH,
                header,
                position,
                f"a batch of epoch {epoch}",
                f"epoch {known} up to offset {until}, by {names.LEADER_EPOCHS_NAME}"
                if until < ENDLESS
                else f"epoch {known}, by {names.LEADER_EPOCHS_NAME}",
            )
            self._epoch_until = ENDLESS  # reported once, not with each batch of it

    def _take_producer(self, stored: StoredBatch) -> None:
        header = stored.header
        if not header.is_control:
            self._producers.take_data(header, stored.position)
            return
        try:
            control = read_control_record(stored.data)
        except CorruptBatchError as error:
            self._tell(
                Invariant.UNREADABLE_MARKER, header, stored.position, str(error), "a control record"
            )
            return
        if control is None:
            return
        if not control.is_marker:
            self._tell(
                Invariant.UNREADABLE_MARKER,
                header,
                stored.position,
                f"a control record of type {control.type}",
                "a COMMIT or an ABORT; a real broker that reads this ends as it starts",
            )
            return
        self._producers.take_marker(header, stored.position, control)

    def _cut(self, end: int) -> None:
        """A stretch ends here, and the next one begins."""
        self._stretches.append(self._producers.stretch(end))
        for broken in self._producers.broken:
            self._add(broken)
        self._producers = self._producer_walk(end)

    def _producer_walk(self, start: int) -> ProducerWalk:
        return ProducerWalk(
            self._path.name,
            start,
            has_sequences=self._facts.has_sequences,
            expiration_ms=self._facts.producer_expiration_ms,
        )

    def _index_check(self) -> IndexCheck:
        offsets = self._path.with_suffix(names.INDEX_SUFFIX)
        times = self._path.with_suffix(names.TIME_INDEX_SUFFIX)
        check = IndexCheck(
            self._entries(offsets, decode_offset_index, Invariant.OFFSET_INDEX),
            self._entries(times, decode_time_index, Invariant.TIME_INDEX),
            offsets_file=offsets.name,
            times_file=times.name,
        )
        section = self._segment.section
        if section is not None:
            end = _end_of(self._segment)
            check.narrow(section, ENDLESS if end is None else end)
        return check

    def _entries(self, path: Path, decode: Callable[..., Entries], rule: Invariant) -> Entries:
        """Those of a file that a broker makes anew when it is missing."""
        base_offset = self._segment.base_offset
        entries = self._read_beside(
            path, lambda data: decode(data, base_offset=base_offset, place=path.name), NO_FILE
        )
        if entries is NO_FILE:
            missing = Broken(
                rule=rule,
                file=path.name,
                found="no file",
                expected="an index; a broker makes it anew",
                is_notice=True,
            )
            self._broken.append(missing)
        return entries or ()

    def _read_aborted(self) -> tuple[AbortedTxn, ...] | None:
        path = self._path.with_suffix(names.TXN_INDEX_SUFFIX)
        none: tuple[AbortedTxn, ...] = ()
        return self._read_beside(path, lambda data: txn_index.decode(data, place=path.name), none)

    def _read_beside(self, path: Path, decode: Callable[[bytes], T], missing: T) -> T | None:
        expected = "whole entries that ascend"
        return read_or_tell(path, decode, expected, self._broken.append, missing=missing)

    def _tell(
        self, rule: Invariant, header: BatchHeader, position: int, found: str, expected: str
    ) -> None:
        self._add(
            Broken(
                rule=rule,
                file=self._path.name,
                position=position,
                offset=header.base_offset,
                found=found,
                expected=expected,
            )
        )

    def _add(self, broken: Broken) -> None:
        self._told[broken.rule] += 1
        if self._told[broken.rule] <= SAME_FINDINGS_MAX:
            self._broken.append(broken)


def epoch_at(epochs: Sequence[tuple[int, int]], offset: int) -> tuple[int, int]:
    """(leader epoch that wrote an offset, where the next one begins) by a checkpoint; epoch -1
    where it does not reach back that far.
    """
    behind = bisect_right(epochs, offset, key=lambda entry: entry[1])
    until = epochs[behind][1] if behind < len(epochs) else ENDLESS
    return (epochs[behind - 1][0] if behind else -1), until


def digest_of(header: BatchHeader) -> int:
    """A number for what a batch is and where it lies. Its CRC stands for the bytes."""
    return hash((header.base_offset, header.last_offset, header.leader_epoch, header.crc))
