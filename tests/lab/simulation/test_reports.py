from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.full_disk import little_room
from tests.support.hand_made_plans import leaderless_plan
from txnsim.errors import ConfigError
from txnsim_lab.scenario.scenario_reader import read
from txnsim_lab.simulation import reports
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.reports import report_on


@pytest.fixture(autouse=True)
def leaderless_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every seed the plan in which a commit meets a partition without a leader."""
    monkeypatch.setattr(reports, "draw", lambda seed, wanted_plan: leaderless_plan())


@pytest.mark.costly
def test_a_finding_is_named_shrunk_told_and_written(tmp_path: Path) -> None:
    report = report_on(7, SimulationOptions(), folder=tmp_path / "out", shrinks=True)
    assert [cause.anomalies for cause in report.causes] == [("z27",)]
    assert report.shrunk == 4
    assert report.steps is not None
    assert report.steps <= 8
    names = {Path(path).name for path in report.files}
    assert names == {
        f"seed-7.{suffix}" for suffix in ("history.jsonl", "trace.jsonl", "plan.json", "yaml")
    }
    read("seed-7.yaml", (tmp_path / "out" / "seed-7.yaml").read_text())
    assert Plan.from_json((tmp_path / "out" / "seed-7.plan.json").read_bytes()) == leaderless_plan()
    lines = [*report.lines(repeat_options=("--as-version", "4.3"))]
    assert "This is z27" in lines[0]
    assert any("broker 2 is killed" in line for line in lines)
    assert "  again: txnsim simulate --seed 7 --as-version 4.3" in lines
    story = tmp_path / "out" / "seed-7.yaml"
    assert f"  see it: txnsim scenario run {story} --armed --open" in lines
    real_line = f"  ask a real Kafka: txnsim scenario run {story} --armed --on apache-4.4.0"
    assert real_line in lines


@pytest.mark.costly
def test_a_name_of_the_smallest_run_is_no_name_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seed 19383 had a known finding and a new one, and was told as the known one."""
    causes_in_turn = iter([(), reports.causes_of(leaderless_plan())])
    monkeypatch.setattr(reports, "causes_of", lambda plan: next(causes_in_turn))
    report = report_on(7, SimulationOptions(), folder=tmp_path, shrinks=True)
    first_line = next(report.lines())
    assert "No switch explains it. Its smallest run is z27 (KAFKA-20734)" in first_line
    assert report.causes == ()


def test_it_may_be_left_as_it_is(tmp_path: Path) -> None:
    report = report_on(7, SimulationOptions(), folder=tmp_path, shrinks=False)
    assert report.shrunk is None
    assert not (tmp_path / "seed-7.yaml").exists()


def test_a_folder_that_can_t_be_had_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Not a directory"):
        report_on(7, SimulationOptions(), folder=tmp_path / "file", shrinks=False)


def test_a_finding_that_has_no_room_leaves_no_file(tmp_path: Path) -> None:
    with little_room(), pytest.raises(ConfigError, match=r"seed-7\.history\.jsonl: File too large"):
        report_on(7, SimulationOptions(), folder=tmp_path / "out", shrinks=False)
    assert list(tmp_path.iterdir()) == []
