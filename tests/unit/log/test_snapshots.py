"""Which snapshots of producers are kept."""

from __future__ import annotations

from sim.log.snapshots import Snapshots


def of(*offsets: int) -> Snapshots:
    made = Snapshots()
    for offset in offsets:
        made.take(offset, ())
    return made


def kept(snapshots: Snapshots) -> list[int]:
    return [offset for offset, _ in snapshots.all()]


def test_one_snapshot_per_offset_and_none_of_the_past() -> None:
    snapshots = of(3, 7, 7, 5)
    assert kept(snapshots) == [3, 7]
    assert snapshots.newest == (7, ())
    assert Snapshots().newest is None


def test_a_snapshot_goes_with_its_segment() -> None:
    snapshots = of(3, 7)
    snapshots.remove(4)
    snapshots.remove(9)
    assert kept(snapshots) == [3, 7]
    snapshots.remove(3)
    assert kept(snapshots) == [7]


def test_a_reload_forgets_snapshots_outside_of_the_log() -> None:
    """At the log start is outside: such a snapshot says nothing of what can be read."""
    snapshots = of(3, 5, 7, 9)
    snapshots.keep(above=3, up_to=7)
    assert kept(snapshots) == [5, 7]
