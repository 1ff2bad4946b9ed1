"""``txnsim referee``: its forms, its exit status, and one run played again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from txnsim.cli.main import main
from txnsim_lab.referee.design import read_design
from txnsim_lab.referee.pairs import Designs, exploration_pair

WAY: Final = "5 begins: the coordinator moves to broker 2, broker 1 has yet to unload it"
"""With Kafka 4.4 a commit reaches a stale coordinator (KAFKA-21181)."""


@pytest.fixture
def fix(tmp_path: Path) -> Path:
    """The fix of KAFKA-21181 as a plug-in."""
    path = tmp_path / "fix.py"
    path.write_text(
        "from txnsim_lab.referee.plugin import replaces\n"
        '@replaces("coordinator.may-answer")\n'
        "def may_answer(original, owned, log, rules):\n"
        "    return log.leads(owned.partition, owned.coordinator_epoch)\n"
    )
    return path


def test_one_run_is_played_again_on_its_side(
    fix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace_file = tmp_path / "trace.jsonl"
    way_options = ("--explore", "stale-coordinator", "--way", WAY, "--trace", str(trace_file))
    designs = ("4.4", str(fix))
    assert main(["referee", *designs, "--on", "A", *way_options]) == 3
    assert "false-fencing: " in capsys.readouterr().out
    assert trace_file.read_bytes()
    assert main(["referee", *designs, "--on", "B", *way_options]) == 0
    assert "Nothing is wrong at its end." in capsys.readouterr().out


def test_the_command_writes_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page_file, comment_file = tmp_path / "v.html", tmp_path / "v.md"
    arguments = ["--explore", "none", "--stories", "none", "--seeds", "0..1", "--jobs", "1"]
    files = ["--html", str(page_file), "--markdown", str(comment_file)]
    assert main(["referee", "4.4", "4.4", *arguments, *files]) == 0
    assert "0 explorations" in capsys.readouterr().out
    assert page_file.read_text().startswith("<!doctype html>")
    assert "**A** `4.4`" in comment_file.read_text()
    assert main(["referee", "4.4", "4.4", *arguments[:4], "--seeds", "none"]) == 2


def bad_plugin(tmp_path: Path, statement: str) -> str:
    """The file of a plug-in that runs a statement instead of deciding."""
    path = tmp_path / "bad.py"
    path.write_text(
        "import os, sys\n"
        "from txnsim_lab.referee.plugin import replaces\n"
        '@replaces("txn.init")\n'
        f"def init(original, *facts, **named):\n    {statement}\n"
    )
    return str(path)


@pytest.mark.parametrize("statement", ["sys.exit(0)", "1 / 0"])
def test_one_run_with_a_plug_in_that_fails_is_not_judged(
    statement: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = bad_plugin(tmp_path, statement)
    assert main(["referee", "4.4", plugin, "--on", "B", "--seed", "1"]) == 4
    output = capsys.readouterr().out
    assert "! txn.init: " in output
    assert "Nothing is wrong" not in output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--on", "B", "--seed", "1"),
        ("--jobs", "1", "--explore", "none", "--stories", "none", "--seeds", "0..1"),
    ],
)
def test_a_plug_in_that_ends_the_process_of_a_run_is_an_error(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["referee", "4.4", bad_plugin(tmp_path, "os._exit(0)"), *arguments]) == 2
    assert "the process ended" in capsys.readouterr().err


def test_a_plug_in_that_ends_processes_of_a_search_is_a_failure(tmp_path: Path) -> None:
    a, b = read_design("4.4"), read_design(bad_plugin(tmp_path, "os._exit(0)"))
    pair = exploration_pair(
        "broker-dies", Designs(a, b), lane_count=1, deviations_max=0, seconds_max=None
    )
    assert pair.a.failures == ()
    assert pair.b.failures == ("broker-dies: the process ended without a result, once",)
    assert not pair.b.is_complete


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("4.4", "no"), "'no': no part of a design"),
        (("4.4", "4.4", "--way", ""), "--way needs --on"),
        (("4.4", "4.4", "--master", "local[1]"), "--master needs --engine spark"),
        (("4.4", "4.4", "--on", "A"), "--on needs --seed"),
        (("4.4", "4.4", "--stories", "nothing"), "no scenario 'nothing'"),
        (("4.4", "4.4", "--on", "B", "--stories", "z34", "--run", "x"), "no run 'x'"),
        (("4.4", "4.4", "--on", "B", "--way", ""), "the name of one exploration"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["referee", *arguments]) == 2
    assert complaint in capsys.readouterr().err
