"""``txnsim simulate`` and campaigns."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from tests.support.hand_made_plans import leaderless_plan
from txnsim.cli.main import main
from txnsim_lab.cli._simulating import simulate
from txnsim_lab.simulation import drawing, reports, seed_batch
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_lab.simulation.plan import Plan


@pytest.fixture
def one_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every seed the same plan, which has a finding on 4.3 and none on 4.2."""

    def draw(_seed: int, wanted_options: SimulationOptions) -> Plan:
        return leaderless_plan(as_version=wanted_options.as_version)

    for module in (seed_batch, reports):
        monkeypatch.setattr(module, "draw", draw)


# ``campaign``


@pytest.mark.costly
@pytest.mark.usefixtures("one_bug")
def test_a_finding_is_told_with_the_command_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seeds", "3..5", "--jobs", "1", "--out", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "2 seeds in" in output
    assert "2 commits" not in output
    assert "  z27 (lost-write, stuck-last-stable-offset, torn-transaction): seeds 3, 4\n" in output
    assert "This is z27 (KAFKA-20734)" in output
    assert "again: txnsim simulate --seed 3" in output
    assert "a story of" in output


@pytest.mark.usefixtures("one_bug")
def test_where_nothing_is_found_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", "--as-version", "4.2"]) == 0
    assert "Nothing was found." in capsys.readouterr().out


@pytest.mark.costly
@pytest.mark.usefixtures("one_bug")
def test_a_time_alone_plays_seeds_until_it_is_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "SEEDS_DEFAULT", "0..1")
    seconds = count()
    monkeypatch.setattr(simulate, "wall_ms", lambda: 1_000 * next(seconds))
    command = ["simulate", "--jobs", "1", "--no-shrink", "--json", "--out", str(tmp_path)]
    assert main([*command, "--time", "9s"]) == 1
    assert json.loads(capsys.readouterr().out)["seeds"] > 1


@pytest.mark.costly
def test_a_seed_is_compared_with_itself_in_another_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw", lambda *_: leaderless_plan(as_version="4.3"))
    command = ["simulate", "--seed", "7", "--against", "4.2", "--out", str(tmp_path)]
    assert main(command) == 1
    headline, inside, diff_line = capsys.readouterr().out.splitlines()
    assert headline == (
        "All clients are answered alike; A has lost-write, stuck-last-stable-offset,"
        " torn-transaction, B has no finding."
    )
    assert inside.startswith("Inside: They part at ")
    paths = diff_line.removeprefix("  more: txnsim diff ").split()
    assert main(["diff", *paths]) == 1
    capsys.readouterr()
    assert main([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["files"] == paths


@pytest.mark.usefixtures("one_bug")
def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--seed", "1", "--no-shrink", "--json", "--out", str(tmp_path)]
    assert main(arguments) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["seeds"] == 1
    assert summary["failed"][0]["seed"] == 1
    assert summary["reports"][0]["causes"][0]["animals"] == ["z27"]
    assert summary["failed"][0]["names"] == ["z27"]
    assert {"state": "Ongoing", "asked": "commit", "outcome": "NONE", "times": 2} in summary[
        "places"
    ]


@pytest.mark.usefixtures("one_bug")
def test_a_run_that_exercised_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0..5", "--time", "0s", "--jobs", "1"]) == 2
    assert "proves nothing: no seed was played" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "5"], "expected a range such as 0..200"),
        (["--seeds", "5..5"], "expected a range"),
        (["--seeds", "0..9223372036854775808"], "seeds end at 9223372036854775807"),
        (["--time", "soon"], "no duration"),
        (["--as-version", "9.9"], "there is no release"),
        (["--rules", "leaderless"], "leaderless_partitions_keep_markers"),
        (["--rules", "leaderless_partitions_keep_markers=maybe"], "=on or"),
        (["--workload", "nowhere:at_all"], "workload nowhere:at_all"),
        (["--against", "4.2"], "name it with --seed"),
        (["--seed", "1", "--against", "9.9"], "there is no release"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.costly
def test_a_campaign_on_this_machine_is_played_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output_file = tmp_path / "rows"
    command = ["campaign", "run", "--seeds", "1..7", "--file-seeds", "4", "--out", str(output_file)]
    assert main([*command, "--jobs", "2", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["summary"]["seeds"] == 6
    assert summary["summary"]["committed"] > 0
    files = {file.name: file.read_bytes() for file in output_file.iterdir()}
    assert sorted(files) == [
        "campaign.json",
        "seeds-0000000001-0000000004.parquet",
        "seeds-0000000004-0000000007.parquet",
    ]
    assert main(command) == 0
    assert "6 seeds in" in capsys.readouterr().out
    assert {file.name: file.read_bytes() for file in output_file.iterdir()} == files


@pytest.mark.costly
def test_a_run_without_a_verdict_counts_as_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["campaign", "run", "--seeds", "0..1", "--out", str(tmp_path), "--jobs", "1"]
    assert main([*command, "--seed-limit", "1ms"]) == 2
    output = capsys.readouterr()
    assert "0 with findings, 1 without a verdict" in output.out
    assert "proves nothing: no transaction was committed" in output.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "5"], "expected a range such as 0..200"),
        (["--as-version", "9.9"], "there is no release"),
        (["--file-seeds", "0"], "--file-seeds 0: expected 1 or more"),
        (["--seeds", "0..9223372036854775807"], "at most 100,000,000 seeds at once"),
        (["--seed-limit", "soon"], "--seed-limit"),
        (["--master", "local[1]"], "--master needs --engine spark"),
        (["--engine", "spark", "--jobs", "1"], "--jobs needs --engine local"),
    ],
)
def test_campaign_what_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["campaign", "run", "--seeds", "0..5", "--out", str(tmp_path / "out")]
    assert main([*command, *arguments]) == 2
    assert complaint in capsys.readouterr().err
