"""Divides a large segment into sections that are read separately, on several cores. A cut is at a
position where, according to the segment's sparse index, a batch begins.

The index may be wrong. A cut is made only where a sound batch begins that has the entry's offset,
and offsets must ascend from cut to cut. Such a place could still lie within another batch. That is
known only when the section in front of it has been read, because that section has to end right
there. The reader of a section asks whether it can be judged separately (``stands_alone``). If one
can't, its segment is read again as a whole. A segment without an index, or with a wrong one, stays
whole.

After the recovery point the first damage ends the log. There a segment is a section at least, so
that no task has to wait for another: what lies after the damage is left out where the replica is
put together (``forensics._read_compiled``).

Kafka's counterpart: OffsetIndex.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from txnsim.wire.batch import crc_is_valid
from txnsim_spark.scan.log_seek import SparseIndex, open_file, whole_batch_at
from txnsim_spark.scan.segments import Section, SegmentFile

if TYPE_CHECKING:
    from txnsim_spark.scan.segment_examination import SegmentExamination

_BATCH_BYTES_MAX: Final = 4 << 20
"""No section begins at a larger batch, since its CRC is computed to be sure of it."""
_ENTRIES_TRIED_MAX: Final = 4
"""Number of index entries that are tried for one cut."""


class SectionCut(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a section begins."""

    position: int
    offset: int
    """Base offset of the batch at the cut."""


def in_sections(segments: Sequence[SegmentFile], section_bytes: int) -> list[SegmentFile]:
    """Divide the large segments of a replica into sections.

    Args:
        segments: In order; all that are after the recovery point. A section is not divided again.
        section_bytes: Approximate size of a section; a segment of less than two sections stays
            whole.
    """
    cuts = [
        cuts_of(segment, section_bytes) if segment.section is None else () for segment in segments
    ]
    recovered_indices = [
        segment_number for segment_number, segment in enumerate(segments) if segment.is_recovered
    ]
    # Damage in one of these ends the later ones, so if one is divided, all are.
    divides_recovered = sum(
        segments[segment_number].size for segment_number in recovered_indices
    ) > section_bytes or any(cuts[segment_number] for segment_number in recovered_indices)
    divided_segments: list[SegmentFile] = []
    for segment, segment_cuts in zip(segments, cuts, strict=True):
        if segment_cuts or (segment.section is None and segment.is_recovered and divides_recovered):
            divided_segments += sections_at(segment, segment_cuts)
        else:
            divided_segments.append(segment)
    return divided_segments


def sections_at(segment: SegmentFile, cuts: Sequence[SectionCut]) -> Iterator[SegmentFile]:
    """The sections between the cuts of a segment.

    Args:
        segment: The segment.
        cuts: Its cuts, in order.
    """
    section_cuts = [SectionCut(position=0, offset=segment.base_offset), *cuts]
    for section_cut, next_cut in zip(section_cuts, [*cuts, None], strict=True):
        section = Section(
            start=section_cut.position,
            first_offset=section_cut.offset,
            next_offset=segment.next_base_offset if next_cut is None else next_cut.offset,
            has_followers=next_cut is not None,
        )
        end_position = segment.size if next_cut is None else next_cut.position
        yield msgspec.structs.replace(segment, size=end_position, section=section)


def cuts_of(segment: SegmentFile, section_bytes: int) -> tuple[SectionCut, ...]:
    """Cuts of a segment into sections of about ``section_bytes``; none without a sound index."""
    section_count = segment.size // section_bytes
    if section_count < 2:
        return ()
    try:
        with open_file(segment.path) as file:
            return tuple(_find_cuts(file, segment, section_count))
    except OSError:  # told by who reads the segment
        return ()


def _find_cuts(file: BinaryIO, segment: SegmentFile, section_count: int) -> Iterator[SectionCut]:
    index = SparseIndex(segment)
    last_cut = SectionCut(position=0, offset=segment.base_offset)
    offset_limit = segment.next_base_offset
    for section_number in range(1, section_count):
        entry_number = bisect_left(
            index, segment.size * section_number // section_count, key=itemgetter(1)
        )
        for section_cut in _sound_entries(
            file, segment, index, range(entry_number, entry_number + _ENTRIES_TRIED_MAX)
        ):
            if (
                section_cut.position > last_cut.position
                and section_cut.offset > last_cut.offset
                and (offset_limit is None or section_cut.offset < offset_limit)
            ):
                last_cut = section_cut
                yield section_cut
                break


def cut_behind(segment: SegmentFile, offset: int, position: int) -> SectionCut | None:
    """The last cut after ``offset`` and up to ``position``, else the next one; None if there is
    neither.
    """

    def entries_near_position(index: SparseIndex) -> Iterator[int]:
        entry_number = bisect_right(index, position, key=itemgetter(1))
        yield from reversed(range(max(0, entry_number - _ENTRIES_TRIED_MAX), entry_number))
        yield from range(entry_number, entry_number + _ENTRIES_TRIED_MAX)

    return next(
        (
            section_cut
            for section_cut in _sound_cuts(segment, entries_near_position)
            if section_cut.offset > offset
        ),
        None,
    )


def has_batch_past(segment: SegmentFile, position: int) -> bool:
    """Whether the index has a sound batch that begins after a position."""

    def entries_behind_position(index: SparseIndex) -> Iterable[int]:
        entry_number = bisect_right(index, position, key=itemgetter(1))
        return range(entry_number, entry_number + _ENTRIES_TRIED_MAX)

    return any(
        cut_entry.position > position for cut_entry in _sound_cuts(segment, entries_behind_position)
    )


def cut_at(segment: SegmentFile, offset: int) -> SectionCut | None:
    """Position of the batch with this base offset; None if the index lacks the batch."""

    def entry_of_offset(index: SparseIndex) -> list[int]:
        return [bisect_left(index, offset - segment.base_offset, key=itemgetter(0))]

    return next(
        (
            cut_entry
            for cut_entry in _sound_cuts(segment, entry_of_offset)
            if cut_entry.offset == offset
        ),
        None,
    )


def cut_after(segment: SegmentFile, offset: int) -> SectionCut | None:
    """The first cut after an offset that the index allows; None if there is none."""

    def entries_behind_offset(index: SparseIndex) -> Iterable[int]:
        entry_number = bisect_right(index, offset - segment.base_offset, key=itemgetter(0))
        return range(entry_number, entry_number + _ENTRIES_TRIED_MAX)

    return next(
        (
            cut_entry
            for cut_entry in _sound_cuts(segment, entries_behind_offset)
            if cut_entry.offset > offset
        ),
        None,
    )


def _sound_cuts(
    segment: SegmentFile, choose_entries: Callable[[SparseIndex], Iterable[int]]
) -> tuple[SectionCut, ...]:
    """The chosen index entries at which a sound batch begins."""
    index = SparseIndex(segment)
    try:
        with open_file(segment.path) as file:
            return tuple(_sound_entries(file, segment, index, choose_entries(index)))
    except OSError:  # told by who reads the segment
        return ()


def _sound_entries(
    file: BinaryIO, segment: SegmentFile, index: SparseIndex, entry_numbers: Iterable[int]
) -> Iterator[SectionCut]:
    """The index entries of these numbers at which a sound batch with the entry's offset begins."""
    for entry_number in entry_numbers:
        if entry_number >= len(index):
            continue
        relative_offset, position = index[entry_number]
        header = whole_batch_at(file, segment, position, segment.base_offset + relative_offset)
        if header is None or header.size > _BATCH_BYTES_MAX:
            continue
        file.seek(position)
        if crc_is_valid(file.read(header.size), header):
            yield SectionCut(position=position, offset=header.base_offset)


def stands_alone(segment: SegmentFile, section: Section, examination: SegmentExamination) -> bool:
    """Whether a section's result equals that of reading the whole segment."""
    if examination.damage is not None and not segment.is_recovered:
        return False
    if examination.is_torn and section.has_followers:  # the cut may lie within a batch
        return False
    if examination.non_marker_controls and section.has_followers:
        return False
    if examination.lowest_offset is None or examination.highest_offset is None:
        return True
    # Fragments are put together in order of offset, which is that of the log within these bounds.
    is_behind = (
        section.next_offset is not None and examination.highest_offset >= section.next_offset
    )
    return examination.lowest_offset >= section.first_offset and not is_behind
