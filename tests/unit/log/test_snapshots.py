"""Which snapshots of producers are kept."""

from __future__ import annotations

from txnsim.log.snapshots import Snapshots


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


def test_stray_snapshots_go_but_for_the_newest_behind_all_beginnings() -> None:
    snapshots = of(0, 2, 5, 7, 8, 9)
    snapshots.drop_stray([0, 5])
    assert kept(snapshots) == [0, 5, 9]
    snapshots = of(2, 5)
    snapshots.drop_stray([0, 5])
    assert kept(snapshots) == [5]
