from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from txnsim.errors import BadInputError, ConfigError
from txnsim_lab import campaigns
from txnsim_lab.campaigns import (
    FAILED_VERDICT,
    FOUND_VERDICT,
    HEALTHY_VERDICT,
    TABLE_COLUMNS,
    CampaignFolder,
    ExaminedSeed,
    ResultRow,
    result_row,
    table_schema,
)
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_lab.simulation.reports import FindingReport

STOPPED = "stopped"


def record(seed: int, *anomalies: str) -> dict[str, Any]:
    cell_row = {"state": "Ongoing", "asked": "commit", "outcome": "NONE", "times": seed}
    return {
        "seed": seed,
        "mode": "TV2+",
        "verdict": FOUND_VERDICT if anomalies else HEALTHY_VERDICT,
        "anomalies": [*anomalies],
        "causes": [],
        "because": [*anomalies],
        "run_hash": f"{seed:016x}",
        **dict.fromkeys(("virtual_ms", "cpu_ms", "acts", "answered", "committed", "struck"), 3),
        "places": [cell_row],
        "failure": None,
    }


def rows_of(ranges: Sequence[range]) -> Iterator[ResultRow]:
    """Return the rows of all seeds, the last first, as workers are not in step."""
    yield from (record(seed) for part in reversed(ranges) for seed in reversed(part))


def test_ranges_are_written_when_they_are_whole(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path / "out", SimulationOptions())
    missing = folder.missing_ranges(range(5, 25), file_size=10)
    assert missing == [range(5, 10), range(10, 20), range(20, 25)]
    assert [*folder.write_rows(missing, rows_of(missing))] == missing[::-1]
    assert folder.missing_ranges(range(5, 25)) == []
    table = folder.read_table()
    assert table.schema == table_schema()
    assert table.to_pylist() == [record(seed) for seed in range(5, 25)]
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".json", ".parquet"}


@pytest.mark.parametrize("stop_after", range(20))
def test_it_goes_on_where_it_was_stopped_and_counts_none_twice(
    tmp_path: Path, stop_after: int
) -> None:
    def stopping(ranges: Sequence[range]) -> Iterator[ResultRow]:
        for number, row in enumerate(rows_of(ranges)):
            if number == stop_after:
                raise RuntimeError(STOPPED)
            yield row

    folder = CampaignFolder(tmp_path, SimulationOptions())
    missing = folder.missing_ranges(range(20), file_size=6)
    with pytest.raises(RuntimeError, match=STOPPED):
        [*folder.write_rows(missing, stopping(missing))]
    same_folder = CampaignFolder(tmp_path, SimulationOptions())
    missing_ranges = same_folder.missing_ranges(range(20), file_size=6)
    assert len(missing_ranges) <= len(missing)
    [*same_folder.write_rows(missing_ranges, rows_of(missing_ranges))]
    assert same_folder.read_table().column("seed").to_pylist() == [*range(20)]


def test_other_ranges_and_sizes_fit_in_between(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path, SimulationOptions())
    for seeds, size in ((range(12, 17), 5), (range(3, 5), 100), (range(30), 10)):
        missing = folder.missing_ranges(seeds, file_size=size)
        [*folder.write_rows(missing, rows_of(missing))]
    assert folder.read_table().column("seed").to_pylist() == [*range(30)]
    assert folder.missing_ranges(range(8, 31), file_size=10) == [range(30, 31)]


def test_a_seed_that_two_files_have_is_refused(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path, SimulationOptions())
    [*folder.write_rows([range(10)], rows_of([range(10)]))]
    (file,) = tmp_path.glob("*.parquet")
    file.with_name("seeds-0000000009-0000000019.parquet").write_bytes(file.read_bytes())
    with pytest.raises(BadInputError, match="two files have the seed 9"):
        folder.summarize()


def test_a_folder_has_one_campaign(tmp_path: Path) -> None:
    CampaignFolder(tmp_path / "one", SimulationOptions())
    CampaignFolder(tmp_path / "one", SimulationOptions())
    with pytest.raises(BadInputError, match="another campaign"):
        CampaignFolder(tmp_path / "one", SimulationOptions(as_version="4.2"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "letter.txt").write_text("")
    with pytest.raises(BadInputError, match="is no campaign"):
        CampaignFolder(tmp_path / "two", SimulationOptions())


def test_the_first_seed_of_each_kind_is_looked_at_once(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path, SimulationOptions())
    anomalies_by_seed = {3: ("torn",), 5: ("lost",), 7: ("torn",), 8: ("lost", "torn")}
    [
        *folder.write_rows(
            [range(10)], (record(seed, *anomalies_by_seed.get(seed, ())) for seed in range(10))
        )
    ]
    summary = folder.summarize()
    assert (summary.seeds, summary.found, summary.failed, summary.places) == (10, 4, 0, 1)
    firsts_told = [
        (first_seed.seed, first_seed.anomalies, first_seed.seeds) for first_seed in summary.firsts
    ]
    assert firsts_told == [(3, ("torn",), 2), (5, ("lost",), 1), (8, ("lost", "torn"), 1)]
    examined_seeds: list[int] = []

    def examine(seeds: Sequence[int]) -> Iterator[ExaminedSeed]:
        for seed in seeds:
            examined_seeds.append(seed)
            report = FindingReport(seed=seed, kinds=("torn",), because=(), causes=(), files=())
            yield ExaminedSeed(report=report, files={f"seed-{seed}.yaml": b"name: torn"})

    (first_report,) = folder.examine_seeds([3], examine)
    assert first_report.files == (str(tmp_path / "findings" / "seed-3.yaml"),)
    assert Path(first_report.files[0]).read_bytes() == b"name: torn"
    assert [report.seed for report in folder.examine_seeds([3, 5], examine)] == [3, 5]
    assert examined_seeds == [3, 5]


def test_seeds_with_the_same_causes_are_alike(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path, SimulationOptions())
    rows = [
        record(0),
        {**record(1, "lost"), "causes": ["z27"]},
        {**record(2, "torn"), "causes": ["z27"]},
    ]
    [*folder.write_rows([range(3)], rows)]
    (first_seed,) = folder.summarize().firsts
    assert (first_seed.seed, first_seed.causes, first_seed.anomalies, first_seed.seeds) == (
        1,
        ("z27",),
        ("lost", "torn"),
        2,
    )


def test_whatever_becomes_of_a_seed_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = result_row(2, SimulationOptions(), 60)
    assert set(row) == {column.name for column in TABLE_COLUMNS}
    assert row["verdict"] == HEALTHY_VERDICT
    assert row["answered"] > 0
    late_row = result_row(2, SimulationOptions(), 0.001)
    assert (late_row["verdict"], late_row["anomalies"], late_row["run_hash"]) == (
        FAILED_VERDICT,
        [],
        "",
    )
    assert late_row["failure"] == "over-limit: it took more than 0.001 s of processor time"

    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("no such cluster")

    monkeypatch.setattr(campaigns, "row_of", refuse)
    assert result_row(2, SimulationOptions(), 60)["failure"] == "no-cluster: no such cluster"
