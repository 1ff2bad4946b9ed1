"""Progress of long commands."""

from __future__ import annotations

import pytest

from txnsim.cli.output import TERMINAL
from txnsim.cli.progress import LINES, Progress, stop_sentence


def test_a_file_gets_a_line_for_each_tenth_of_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("seeds", 479)
    for seeds_done in range(1, 480):
        progress.advance(seeds_done, f"seed {seeds_done}", f"{seeds_done // 100} found")
    progress.end()
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == LINES
    assert lines[0] == "48 of 479 seeds, 0 found"
    assert lines[-1] == "479 of 479 seeds, 4 found"


def test_few_items_are_named_each(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("runs", 2)
    progress.advance(1, "z01")
    progress.advance(2, "z02")
    assert capsys.readouterr().err == "1 of 2 runs: z01\n2 of 2 runs: z02\n"


def test_a_total_that_nobody_knows_takes_few_lines_as_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress("seeds", None)
    for done_count in range(1, 101):
        progress.advance(done_count)
    counts = [printed_line.split()[0] for printed_line in capsys.readouterr().err.splitlines()]
    assert counts == ["1", "2", "4", "8", "16", "32", "64"]


def test_a_terminal_has_one_line_that_is_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TERMINAL, "may_move_cursor", lambda: True)
    progress = Progress("seeds", 100)
    progress.advance(1, "seed 0")
    progress.end()
    assert capsys.readouterr().err == "\r1 of 100 seeds: seed 0\033[K\r\033[K"


def test_what_ctrl_c_tells_is_the_count_of_the_command() -> None:
    TERMINAL.begin()
    assert stop_sentence() == "txnsim: stopped"
    Progress("runs", 9).count(3)
    assert stop_sentence() == "txnsim: stopped after 3 of 9 runs"
    Progress("seeds", 9, how_to_go_on="the same command goes on there").count(3)
    assert stop_sentence() == ("txnsim: stopped after 3 of 9 seeds; the same command goes on there")
    TERMINAL.begin()
    assert stop_sentence() == "txnsim: stopped", "the next command has counted nothing"
