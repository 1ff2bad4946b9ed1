"""What came to light, in words."""

from __future__ import annotations

from txnsim.pipeline.forensics.read_notes import NOTHING_READ, CutOff, ReadNotes, seen_again


def test_a_cut_is_told_with_its_place() -> None:
    cut = CutOff(file="/b/0.log", position=9, offset=4, reason="7 bytes, less than a header")
    assert cut.text == "/b/0.log, byte 9: 7 bytes, less than a header"


def test_of_what_was_not_read_nothing_came_to_light() -> None:
    assert NOTHING_READ.read_from is None


def test_a_place_that_the_walk_met_too_is_known_once() -> None:
    notes = ReadNotes(damage=("/b/0.log, byte 9: a wrong CRC", "/b/0.log, byte 80: junk"))
    before = (
        "/b/0.log, byte 9: another CRC",
        "/b/0.log, byte 80: junk",
        "/b/0.log, byte 90: another CRC",
        "/b/leader-epoch-checkpoint: a folder, not a file",
    )
    assert seen_again(before, notes) == {before[0]}
