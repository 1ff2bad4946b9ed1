"""Irregularities that were found while a replica was read: gaps, a cut, damage. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

import msgspec


def meaning(text: str) -> msgspec.Meta:
    """Annotation of a report's field: its meaning, for docs and JSON Schema."""
    return msgspec.Meta(description=text)


class NoteKind(StrEnum):
    """The kind of an irregularity."""

    GAP = "gap"
    CUT = "cut"
    DAMAGE = "damage"
    AGAIN = "again"
    """A section can't be judged on its own; its whole segment has to be read again."""


class Gap(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Offsets that no batch has."""

    first_offset: Annotated[int, meaning("The first one that is missing.")]
    next_offset: Annotated[int, meaning("The next one that is there.")]


class CutOff(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a starting broker cuts a log off."""

    file: str
    position: Annotated[int, meaning("Of the first byte that goes.")]
    offset: Annotated[int, meaning("Where the log ends then.")]
    reason: str

    @property
    def text(self) -> str:
        """The cut as a sentence."""
        return f"{self.file}, byte {self.position}: {self.reason}"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An irregularity in a segment."""

    kind: NoteKind
    file: str
    text: str = ""
    position: int = 0
    from_offset: int = -1
    to_offset: int = -1

    @property
    def place(self) -> str:
        return f"{self.file}, byte {self.position}: {self.text}"


class ReadNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The notes on one replica."""

    read_from: int | None = None
    """Offset where reading began; from there on every CRC was computed. None if nothing was
    read.
    """
    gaps: tuple[Gap, ...] = ()
    cut_off: CutOff | None = None
    damage: tuple[str, ...] = ()
    """Damage that a starting broker would not cut off, and files that can't be read."""


NOTES_MAX: Final = 20
"""Limit of the gaps, and of the damaged places, that are listed for a replica. The last gaps are
listed: if any gap is after the beginning of a transaction, the last one is.
"""
NOTHING_READ: Final = ReadNotes()


def damage_met_again(earlier_damage: Iterable[str], notes: ReadNotes) -> frozenset[str]:
    """Damage (``FILE, byte N: …``) that was reported before, and that the walk found at the same
    place with other words.
    """
    texts_of_cut_off = [cut_off.text for cut_off in (notes.cut_off,) if cut_off is not None]
    places_of_damage = {_place_in_text(text) for text in (*notes.damage, *texts_of_cut_off)}
    return frozenset(
        text
        for text in earlier_damage
        if text not in notes.damage and _place_in_text(text) in places_of_damage
    )


def _place_in_text(text: str) -> str:
    match = _PLACE_REGEX.match(text)
    return text if match is None else match[0]


_PLACE_REGEX: Final = re.compile(r".*, byte \d+(?=: )")


def join_notes(first_offset: int, notes: Iterable[Note]) -> ReadNotes:
    """The notes on a replica whose unread segments were all read.

    Args:
        first_offset: Offset where reading began.
        notes: Notes on its segments, in any order.
    """
    all_notes = tuple(notes)
    cut_notes = [note for note in all_notes if note.kind is NoteKind.CUT]
    gaps = sorted(
        Gap(first_offset=note.from_offset, next_offset=note.to_offset)
        for note in all_notes
        if note.kind is NoteKind.GAP
    )
    damage = sorted(note.place for note in all_notes if note.kind is NoteKind.DAMAGE)
    cut_off_note = min(cut_notes, key=lambda note: note.from_offset, default=None)
    return ReadNotes(
        read_from=first_offset,
        gaps=tuple(gaps[-NOTES_MAX:]),
        damage=tuple(damage[:NOTES_MAX]),
        cut_off=None
        if cut_off_note is None
        else CutOff(
            file=cut_off_note.file,
            position=cut_off_note.position,
            offset=cut_off_note.from_offset,
            reason=cut_off_note.text,
        ),
    )
