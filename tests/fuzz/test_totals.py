"""Totals go on from run to run."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.totals import add_run, read, total_lines


def test_runs_add_up(tmp_path: Path) -> None:
    path = tmp_path / "fuzz" / "totals.json"
    assert read(path) == {}
    add_run(path, "batches", input_count=1_000, seconds=60.0, find_count=0)
    add_run(path, "apis", input_count=20, seconds=30.0, find_count=1)
    totals = add_run(path, "batches", input_count=500, seconds=60.0, find_count=0)
    assert totals == read(path)
    assert [" ".join(total_line.split()) for total_line in total_lines(totals)] == [
        "apis 20 inputs 0.5 min 1 finds",
        "batches 1,500 inputs 2.0 min 0 finds",
        "all targets 1,520 inputs 2.5 min 1 finds",
    ]
