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
    listed_explorations = json.loads(capsys.readouterr().out)
    assert {"name", "title", "of"} == set(listed_explorations[0])


def test_what_is_found_is_printed_with_a_command_that_plays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", "z27", "--jobs", "1", "--deviations", "1"]) == 3
    output = capsys.readouterr().out
    assert f"{STUCK}, at " in output
    assert "begins: broker 2 dies" in output
    assert "  play it: txnsim explore z27 --way '" in output


def test_json_has_searches_and_ways(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explore", "broker-dies", "--json", "--as-version", "4.2", "--deviations", "0"]
    assert main(arguments) == 4, "not all ways were followed"
    result = json.loads(capsys.readouterr().out)
    assert (result["complete"], result["anomalies"]) == (False, [])
    assert result["searches"][0]["ends"] == 1


def test_an_exploration_without_time_says_that_it_is_not_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", "broker-dies", "--time", "0s"]) == 4
    assert "Not all ways were followed: give it more --time" in capsys.readouterr().out


def test_a_way_is_played_and_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace_file = tmp_path / "way.jsonl"
    assert main(["explore", "z27", "--way", WAY, "--trace", str(trace_file)]) == 3
    output = capsys.readouterr().out
    assert STUCK in output
    assert len(trace_file.read_bytes().splitlines()) > 100
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
    complaints_text = capsys.readouterr().err
    assert f"{file}:3: mode: " in complaints_text
    assert f"{file}:7: bound: " in complaints_text


SOUND = """\
name: x
title: y
brokers: 2
topics: {a: {partitions: 1, replication-factor: 1}}
actors: {p: {plays: application, transactional-id: p}}
tracks:
  p:
    - {do: begin}
    - {do: send, partition: a-0, value: v}
    - {do: commit}
disturbances:
  - name: broker 2 dies
    steps:
      - cluster: {do: kill, broker: 2}
"""


@pytest.mark.parametrize(
    ("sound_text", "wrong_text", "position"),
    [
        ("  p:\n", "  ghost:\n", "7: tracks.ghost: "),
        ("do: commit", "do: fly", "10: tracks.p.2.do: "),
        ("do: commit", "do: {a: 1}", "10: tracks.p.2.do: "),
        ("{do: commit}", "{}", "10: tracks.p.2"),
        ("{do: commit}", "{do: commit, who: reader}", "10: tracks.p.2.who: "),
        ("partition: a-0", "partition: a", "9: tracks.p.1.partition: "),
        ("partition: a-0", "partition: b-7", "9: tracks.p.1.partition: "),
        ("cluster: {do: kill, broker: 2}", "cluster: {do: fly}", "14: disturbances.0.steps.0"),
        ("cluster: {do: kill, broker: 2}", "{}", "14: disturbances.0.steps.0"),
        ("broker: 2}", "broker: 99}", "14: disturbances.0.steps.0"),
        ("- cluster: {do: kill, broker: 2}", "- []", "14: disturbances.0.steps.0"),
        ("factor: 1}", "factor: 1, leaders: [7]}", "4: topics.a.leaders.0: "),
        ("brokers: 2\n", "brokers: 2\nrules: {no-such: true}\n", "4: rules.no-such: "),
        ("brokers: 2\n", "brokers: 2\ntwins: [[p, ghost]]\n", "4: twins.0.1: "),
        ("brokers: 2\n", "brokers: 2\nbounds: {peer-apis: [None]}\n", "4: bounds.peer-apis.0: "),
        ("brokers: 2\n", "brokers: 2\nbefore: [call: {who: ghost, do: begin}]\n", "4: before.0."),
    ],
)
def test_steps_that_no_scenario_has_are_refused_and_not_explored(
    sound_text: str,
    wrong_text: str,
    position: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sound_text in SOUND
    file = tmp_path / "wrong.yaml"
    file.write_text(SOUND.replace(sound_text, wrong_text))
    assert main(["explore", str(file), "--way", ""]) == 2
    complaint = capsys.readouterr().err
    assert f"{file}:{position}" in complaint


def test_a_track_without_calls_and_a_file_without_tracks_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "idle.yaml"
    for tracks in ("{}", "{p: []}"):
        head_text, _, rest = SOUND.partition("tracks:\n")
        file.write_text(f"{head_text}tracks: {tracks}\n{rest[rest.index('disturbances') :]}")
        assert main(["explore", str(file), "--way", ""]) == 2
        assert f"{file}:6: tracks" in capsys.readouterr().err


def test_a_sound_file_is_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sound.yaml"
    file.write_text(SOUND)
    assert main(["explore", str(file), "--way", ""]) == 0
    assert "Nothing is wrong" in capsys.readouterr().out
