from __future__ import annotations

import io

import pytest

from txnsim.cli.main import main

TO_THE_GOAL = "\n2\n3\n3\n"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def play(lesson: str, words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(words))
        status = main(["lesson", lesson])
        return status, capsys.readouterr().out

    return play


def test_lessons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson"]) == 0
    assert "L1" in capsys.readouterr().out
    assert main(["lesson", "--json"]) == 0
    assert '"id": "L1"' in capsys.readouterr().out
    assert main(["lesson", "L9"]) == 2


def test_the_first_lesson_is_played_to_its_goal(typed) -> None:
    status, said = typed("l1", TO_THE_GOAL + "1\nh\n3\n")
    assert status == 0
    assert said.count("Right: ") == 3
    assert said.count("Not yet. ") == 1
    assert "Hint: " in said
    assert "Goal reached." in said


def test_the_demo_is_one_screen_that_stops_and_says_what_is_next(typed) -> None:
    status, said = typed("demo", "\n\n\n\n")
    assert status == 0
    assert said.count("Enter to go on") == 4
    assert said.count("Look: ") == 4
    assert "at offset 4; the last stable" in said, "it is ended before the eyes of who looks"
    assert said.strip().splitlines()[-1] == "next: txnsim lesson L1"
    assert len(said.splitlines()) <= 50
    assert typed("demo", "")[0] == 0, "without a terminal it does not stop"


def test_questions_may_be_skipped_and_wrong_answers_are_told(typed) -> None:
    status, said = typed("L0", "\n\n1\n")
    assert status == 0
    assert "It is different: at 3, behind the marker." in said
    status, said = typed("L0", "\n\n\n")
    assert "The answer: at 3" in said


def test_nothing_but_the_lesson_is_printed_and_what_is_expected_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("h\n\nq\n"))
    assert main(["lesson", "L1"]) == 1
    said = capsys.readouterr()
    assert "user.create-topic" not in said.out + said.err
    assert "expected Enter to go on, q to leave" in said.out


@pytest.mark.parametrize("words", ["q\n", "", "\nnonsense\n9\nq\n"])
def test_a_lesson_may_be_left(words: str, typed) -> None:
    status, said = typed("L1", words)
    assert status == 1
    assert "You have left the lesson." in said
