from __future__ import annotations

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.teaching.lessons import lesson


def test_a_lesson_is_printed_as_a_sheet(capsys: pytest.CaptureFixture[str]) -> None:
    one = lesson("L1")
    assert main(["lesson", "L1", "--sheet"]) == 0
    pupil = capsys.readouterr().out
    assert main(["lesson", "L1", "--sheet", "--answers"]) == 0
    teacher = capsys.readouterr().out
    for part in one.parts:
        if part.ask:
            assert part.ask in pupil
            assert part.ask in teacher
    assert "user.create-topic" not in teacher  # its runs log nothing between its lines
    assert "**Answer:**" not in pupil
    assert teacher.count("**Answer:**") == sum(bool(part.ask) for part in one.parts)
    assert "at 1: behind the marker" in teacher.split("**Answer:**")[1].splitlines()[0]
