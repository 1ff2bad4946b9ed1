"""What was found in a replica while it was read: gaps, a cut, damage. Pure. These notes are kept
beside the open transactions, and ``evidence`` adds them to the verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

import msgspec


def said(text: str) -> msgspec.Meta:
    """What a field of a report means."""
    return msgspec.Meta(description=text)


class NoteKind(StrEnum):
    """The kind of an irregularity."""

    GAP = "gap"
    CUT = "cut"
    DAMAGE = "damage"
    AGAIN = "again"
    """A section can't be judged apart: its segment is to be read as a whole."""


class Gap(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Offsets that no batch has."""

    first_offset: Annotated[int, said("The first one that is missing.")]
    next_offset: Annotated[int, said("The next one that is there.")]


class CutOff(msgspec.Struct, frozen=True, kw_only=True):
    """Where a starting broker cuts a log off."""

    file: str
    position: Annotated[int, said("Of the first byte that goes.")]
    offset: Annotated[int, said("Where the log ends then.")]
    reason: str

    @property
    def text(self) -> str:
        """For people."""
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
    """What came to light about one replica."""

    read_from: int | None = None
    """The first offset that was read, its CRC computed; None where nothing was read."""
    gaps: tuple[Gap, ...] = ()
    cut_off: CutOff | None = None
    damage: tuple[str, ...] = ()
    """Places that make no sense, and would not be cut off; files that can't be read."""


NOTES_MAX: Final = 20
"""Gaps, and places of damage, that are listed for one replica. Of gaps these are the last ones: if
any lies behind the beginning of a transaction, the last one does.
"""
NOTHING_READ: Final = ReadNotes()


def seen_again(before: Iterable[str], notes: ReadNotes) -> frozenset[str]:
    """The damage that was named before (``FILE, byte N: …``), in other words, at a place where the
    walk met it too.
    """
    met = [one.text for one in (notes.cut_off,) if one is not None]
    places = {_place(text) for text in (*notes.damage, *met)}
    return frozenset(text for text in before if text not in notes.damage and _place(text) in places)


def _place(text: str) -> str:
    found = _PLACE.match(text)
    return text if found is None else found[0]


_PLACE: Final = re.compile(r".*, byte \d+(?=: )")


def joined(first_offset: int, notes: Iterable[Note]) -> ReadNotes:
    """What came to light about a replica, of which all segments that were left were read.

    Args:
        first_offset: Where reading began.
        notes: Of its segments, in any order.
    """
    found = tuple(notes)
    cuts = [one for one in found if one.kind is NoteKind.CUT]
    gaps = sorted(
        Gap(first_offset=one.from_offset, next_offset=one.to_offset)
        for one in found
        if one.kind is NoteKind.GAP
    )
    damage = sorted(one.place for one in found if one.kind is NoteKind.DAMAGE)
    cut = min(cuts, key=lambda one: one.from_offset, default=None)
    return ReadNotes(
        read_from=first_offset,
        gaps=tuple(gaps[-NOTES_MAX:]),
        damage=tuple(damage[:NOTES_MAX]),
        cut_off=None
        if cut is None
        else CutOff(file=cut.file, position=cut.position, offset=cut.from_offset, reason=cut.text),
    )
