"""Joins the sections of a segment. The result is the same as that of the whole segment.

Sections are put together if nothing is wrong within any of them and each one ends where the next
one begins. Otherwise the whole segment is read again: findings are counted per segment, and damage
changes what is reported behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from txnsim.pipeline.soundness.parts import Digest, SegmentPart
from txnsim.pipeline.soundness.replica_rules import sums_of
from txnsim.pipeline.soundness.segment_walk import GAPS_MAX


def put_together(
    parts: Iterable[SegmentPart], walk_again: Callable[[SegmentPart], SegmentPart]
) -> list[SegmentPart]:
    """The parts of whole segments, by offset.

    Args:
        parts: Of one replica, in any order.
        walk_again: Makes the part of the segment of a section.

    Raises:
        OSError: A segment that is walked over again can't be read.
    """
    by_path: defaultdict[str, list[SegmentPart]] = defaultdict(list)
    for part in parts:
        by_path[part.segment.path].append(part)
    whole = (_segment(found, walk_again) for found in by_path.values())
    return sorted(whole, key=lambda part: part.base_offset)


def _segment(
    found: Sequence[SegmentPart], walk_again: Callable[[SegmentPart], SegmentPart]
) -> SegmentPart:
    sections = sorted(found, key=_start)
    first, last = sections[0], sections[-1]
    if first.segment.section is None:
        return first
    epochs = [epoch for one in sections for epoch in (one.first_epoch, one.last_epoch)]
    if epochs != sorted(epochs) or not all(one.stands_alone for one in sections):
        return walk_again(first)
    return msgspec.structs.replace(
        first,
        segment=msgspec.structs.replace(last.segment, section=None),
        end_offset=last.end_offset,
        last_epoch=last.last_epoch,
        shows_cleaning=any(one.shows_cleaning for one in sections),
        gaps=tuple(_gaps(sections))[:GAPS_MAX],
        stretches=tuple(stretch for one in sections for stretch in one.stretches),
        digests=tuple(
            Digest(bucket=bucket, batches=batches, total=total)
            for bucket, (batches, total) in sorted(sums_of(sections).items())
        ),
    )


def _start(part: SegmentPart) -> int:
    section = part.segment.section
    return 0 if section is None else section.start


def _gaps(sections: Sequence[SegmentPart]) -> Iterator[tuple[int, int]]:
    """Within them and between them."""
    end = None
    for one in sections:
        if end is not None and one.first_offset is not None and one.first_offset > end:
            yield end, one.first_offset
        yield from one.gaps
        end = one.end_offset
