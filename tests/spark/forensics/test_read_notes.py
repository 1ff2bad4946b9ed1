"""What came to light, in words."""

from __future__ import annotations

from txnsim_spark.forensics._read_notes import ReadNotes, seen_again


def test_a_place_that_the_walk_met_too_is_known_once() -> None:
    notes = ReadNotes(damage=("/b/0.log, byte 9: a wrong CRC", "/b/0.log, byte 80: junk"))
    before = (
        "/b/0.log, byte 9: another CRC",
        "/b/0.log, byte 80: junk",
        "/b/0.log, byte 90: another CRC",
        "/b/leader-epoch-checkpoint: a folder, not a file",
    )
    assert seen_again(before, notes) == {before[0]}
