"""What is kept of the kills is enough, and about points that there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.clients.streams.kept import Kept, load, save
from tests.clients.streams.plan import NEVER_LEFT_OUT
from tests.clients.streams.points import points_at

LEVELS = (0, 1, 2)


def test_each_level_was_killed_twenty_times_and_at_the_indispensable_stages() -> None:
    kept = load()
    assert tuple(sorted(kept)) == LEVELS
    for level, run in kept.items():
        points = {point.name: point for point in points_at(level)}
        assert run.kills.keys() <= points.keys()
        assert sum(run.kills.values()) >= 20
        stages = Counter(points[name].stage for name in run.kills)
        assert all(stages[stage] for stage in NEVER_LEFT_OUT)


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    names = [point.name for point in points_at(2)][:3]
    kept = {2: Kept(7, dict.fromkeys(reversed(names), 1)), 0: Kept(1, {names[0]: 2})}
    save(kept, tmp_path / "kills.json")
    again = load(tmp_path / "kills.json")
    assert again == kept
    assert list(again) == [0, 2]
    assert list(again[2].kills) == names


def test_nothing_is_kept_where_nothing_is(tmp_path: Path) -> None:
    assert load(tmp_path / "kills.json") == {}
