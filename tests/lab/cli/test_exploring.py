"""``txnsim explore``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main

STUCK = "stuck-last-stable-offset"
WAY = "7 begins: broker 2 dies"


def test_without_a_story_it_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore"]) == 0
    assert "broker-dies" in capsys.readouterr().out
    assert main(["explore", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name", "title", "of"} == set(listed[0])


def test_what_is_found_is_printed_with_a_command_that_plays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", "z27", "--jobs", "1", "--deviations", "1"]) == 3
    out = capsys.readouterr().out
    assert f"{STUCK}, at " in out
    assert "begins: broker 2 dies" in out
    assert "  play it: txnsim explore z27 --way '" in out


def test_json_has_searches_and_ways(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explore", "broker-dies", "--json", "--as-version", "4.2", "--deviations", "0"]
    assert main(arguments) == 4, "not all ways were followed"
    result = json.loads(capsys.readouterr().out)
    assert (result["complete"], result["anomalies"]) == (False, [])
    assert result["searches"][0]["ends"] == 1


def test_a_way_is_played_and_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "way.jsonl"
    assert main(["explore", "z27", "--way", WAY, "--trace", str(trace)]) == 3
    out = capsys.readouterr().out
    assert STUCK in out
    assert len(trace.read_bytes().splitlines()) > 100
    assert main(["explore", "z27", "--way", "", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no-such"], "no-such"),
        (["z27", "--bounds", "losses"], "expected a bound with a number"),
        (["z27", "--bounds", "losses=99"], "--bounds: losses: "),
        (["z27", "--bounds", "looses=1"], "--bounds: looses: "),
        (["z27", "--way", "here"], "no step of a way"),
        (["z27", "--trace", "x.jsonl"], "--trace needs --way"),
        (["z27", "--rules", "no_such=on"], "no_such"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_each_mistake_of_a_file_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: x\ntitle: y\nmode: TV9\ntopics: {}\nactors: {}\ntracks: {}\nbound: {}\n")
    assert main(["explore", str(file)]) == 2
    complaints = capsys.readouterr().err
    assert f"{file}:3: mode: " in complaints
    assert f"{file}:7: bound: " in complaints
