"""Lessons on a cluster of one's own, played in the terminal to their goals: L10 with its program,
which is a client over TCP, and L11 with the commands that it prints.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.own_client import LessonProgram
from tests.support.txnsim_server import installed_txnsim
from txnsim.cli.main import main
from txnsim_lab.scenario.teaching.lessons import lesson

pytestmark = pytest.mark.clients

Answer = str | Callable[[], str]


class Learner:
    """A learner who gives the lesson's answers in order, some of them after an action."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._answers: Iterator[Answer] = iter(())
        self.output = ""

    def play(self, name: str, *answers: Answer) -> int:
        """Play a whole lesson; it must ask for each of the answers."""
        self._answers = iter(answers)
        status = main(["lesson", name])
        self.read()
        assert list(self._answers) == []
        return status

    def read(self) -> str:
        self.output += self._capsys.readouterr().out
        return self.output

    def answer_prompt(self, _prompt: str) -> str:
        """Give the next answer; stands for ``input``."""
        answer = next(self._answers)
        return answer if isinstance(answer, str) else answer()

    @property
    def addresses(self) -> tuple[str, str]:
        """The addresses of the cluster and of its page, as the lesson prints them."""
        match = re.search(r"bootstrap\.servers=(\S+)\nIts page: +(http\S+)/#", self.read())
        assert match is not None, self.output
        return match[1], match[2]


@pytest.fixture
def learner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Learner:
    player = Learner(capsys)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", player.answer_prompt)
    return player


@pytest.mark.costly
def test_the_program_of_l10_is_run_killed_mended_and_judged(
    learner: Learner, tmp_path: Path
) -> None:
    def shop() -> LessonProgram:
        bootstrap, http_url = learner.addresses
        return LessonProgram(tmp_path / "l10_shop.py", bootstrap=bootstrap, http_url=http_url)

    def run() -> str:
        shop().run("l10-first")
        return "1"

    def kill_it() -> str:
        shop().kill_and_run("l10-second")
        return ""

    def mend_it() -> str:
        shop().mend()
        shop().kill_and_run("l10-mended")
        return "2"

    status = learner.play("L10", "", "1", run, "1", kill_it, "2", "1", mend_it)
    output = learner.output
    assert status == 0, output
    assert "✕ what a consumer reads of l10-first-0: nothing; wanted: order-1, order-2" in output
    assert output.count("Goal reached.") == 2
    assert "1 of your 2 predictions came true." in output
    assert_expected("L10", output)


@pytest.mark.costly
def test_what_hangs_on_the_disks_of_l11_is_found_and_repaired(
    learner: Learner, tmp_path: Path
) -> None:
    def repair_it() -> str:
        hint = lesson("L11").parts[-1].hints[-1].replace("{bootstrap}", learner.addresses[0])
        program, *arguments = hint.split()
        assert program == "txnsim"
        subprocess.run(
            [installed_txnsim(), *arguments], check=True, cwd=tmp_path, capture_output=True
        )
        return "1"

    status = learner.play("L11", "3", "1", "3", "2", "", "1", repair_it)
    output = learner.output
    assert status == 0, output
    assert "✕ what holds readers back on orders-0: hanging transaction; wanted: nothing" in output
    assert output.count("Goal reached.") == 1
    assert "4 of your 4 predictions came true." in output
    assert_expected("L11", output)
    assert sorted(folder.name for folder in (tmp_path / "l11-logs").iterdir()) == [
        "broker-1", "broker-2", "broker-3",
    ]  # fmt: skip
    assert learner.play("L11", "q") == 1  # from the same copies


def assert_expected(lesson_id: str, output: str) -> None:
    """Check that the run printed the choices that the lesson's sheet calls right."""
    for part in lesson(lesson_id).parts:
        if part.ask:
            assert f"The run:   {part.choices[part.expected]}." in output
