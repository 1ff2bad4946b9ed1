"""The recorded results of stories on real brokers, checked without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real import stage, verdicts


def test_every_difference_is_explained_and_every_cause_has_one() -> None:
    differing_keys = {
        (row["scenario"], row["run"], row["on"])
        for row in verdicts.rows()
        if row["simulated"] != row["real"]
    }
    assert differing_keys == set(verdicts.DIFFERENCES)


def _row(real: str, **changed_fields: str) -> dict[str, str]:
    row = {"on": "4.3.1", "animal": "Z27", "scenario": "commit-without-a-leader", "run": "TV2/4.3"}
    return {**row, "take": "armed", "simulated": "healthy", "real": real, **changed_fields}


def test_a_result_takes_the_place_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "FILE", tmp_path / "verdicts.jsonl")
    verdicts.keep([_row("healthy"), _row("healthy", run="V+/4.3")])
    verdicts.keep([_row("duplicate"), _row("healthy", scenario="no such story")])
    verdicts.keep([])
    lines = (tmp_path / "verdicts.jsonl").read_text("utf-8").splitlines()
    assert [(row["run"], row["real"]) for row in map(json.loads, lines)] == [
        ("TV2/4.3", "duplicate"),
        ("V+/4.3", "healthy"),
    ]


def test_what_differs_without_a_cause_is_unexplained() -> None:
    assert stage.has_explanation(_row("healthy"))
    assert not stage.has_explanation(_row("duplicate"))
    (story, run_name, release), *_ = verdicts.DIFFERENCES
    assert stage.has_explanation(_row("duplicate", scenario=story, run=run_name, on=release))


def test_each_night_has_the_newest_release_and_four_nights_have_all() -> None:
    nights = [stage.tonight(day) for day in range(4)]
    assert {night[-1] for night in nights} == {stage.NEWEST}
    assert {release for night in nights for release in night} == set(stage.PLAYED)
