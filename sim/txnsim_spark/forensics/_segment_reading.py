"""One pass over segments: what each producer did, where a segment makes no sense. The jobs of
``read_compiled`` go this way wherever they are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from txnsim.storage.regular_file import expect
from txnsim_spark.forensics._read_notes import Note, NoteKind
from txnsim_spark.scan.examining import Examined, Examiner
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.sections import stands_alone
from txnsim_spark.scan.segments import Replica, Section, SegmentFile


def walked(
    segments: Iterable[SegmentFile],
) -> Iterator[tuple[SegmentFile, Ints | Note]]:
    """Go over segments, in order: what each producer did (``walk.fragment_rows``), and what came to
    light.

    A section that can't be judged apart gives ``NoteKind.AGAIN`` alone. Sections behind a cut are
    read as well, because whether it stays is known when the replica is put together.

    Args:
        segments: Those of a replica that recovery goes through are all there, or in sections.
    """
    ended: Replica | None = None
    examiner = Examiner()
    segments = tuple(segments)
    expect([one.path for one in segments if one.section is None])
    for segment in segments:
        if segment.section is None and segment.is_recovered and segment.replica == ended:
            continue  # it goes with what is cut off before it
        section = segment.section or _whole(segment)
        try:
            found = examiner.examined(
                Path(segment.path),
                until=segment.size,
                base_offset=section.first_offset,
                start=section.start,
            )
            if segment.section is not None and not stands_alone(segment, section, found):
                yield segment, Note(kind=NoteKind.AGAIN, file=segment.path)
                continue
            is_cut = segment.is_recovered and found.damage is not None
            ended = segment.replica if is_cut else ended
            for note in _notes(segment, section, found, is_cut=is_cut):
                yield segment, note
            for table in examiner.fragments(is_cut=segment.is_recovered):
                yield segment, table
        except OSError as error:
            if segment.section is not None:  # the whole segment will say why
                yield segment, Note(kind=NoteKind.AGAIN, file=segment.path)
                continue
            text = f"{error.strerror or error}; passed by"
            yield segment, Note(kind=NoteKind.DAMAGE, file=segment.path, text=text)


def _whole(segment: SegmentFile) -> Section:
    return Section(
        start=0,
        first_offset=segment.base_offset,
        next_offset=segment.next_base_offset,
        has_followers=False,
    )


def _notes(
    segment: SegmentFile, section: Section, found: Examined, *, is_cut: bool
) -> Iterator[Note]:
    file = segment.path
    gaps = [*found.gaps]
    for position, kind in found.odd_controls:
        text = f"a control record of type {kind}, no marker"
        yield Note(kind=NoteKind.DAMAGE, file=file, text=text, position=position)
    damage = found.damage
    if damage is not None:
        yield Note(
            kind=NoteKind.CUT if is_cut else NoteKind.DAMAGE,
            file=file,
            text=damage.reason,
            position=damage.position,
            from_offset=found.damaged_offset,
        )
    following = section.next_offset
    is_followed = damage is None or (found.is_torn and not is_cut)
    if is_followed and following is not None and following > found.damaged_offset:
        gaps.append((found.damaged_offset, following))
    for missing, there in gaps:
        yield Note(kind=NoteKind.GAP, file=file, from_offset=missing, to_offset=there)
