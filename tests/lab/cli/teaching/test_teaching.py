"""``txnsim lesson`` and its sheet."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.teaching.lesson_solver import solve_lesson
from txnsim_lab.scenario.teaching.lessons import lesson, lessons

# ``lesson``


ALL = tuple(
    lesson.id for lesson in lessons().values() if lesson.story and lesson.id not in ("demo", "quiz")
)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    monkeypatch.chdir(tmp_path)

    def play(name: str, typed_text: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed_text))
        status = main(["lesson", name])
        return status, capsys.readouterr().out

    return play


def keys(lesson_id: str) -> str:
    """The input of a learner who always predicts the first choice and reaches every goal."""
    typed_keys = ""
    for lesson_part in lesson(lesson_id).parts:
        typed_keys += "".join(f"{action}\n" for action in lesson_part.solution) or (
            "1\n" if lesson_part.ask else "\n"
        )
        typed_keys += "\n" if lesson_part.saves else ""
    return typed_keys


def test_lessons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson"]) == 0
    assert "L1" in capsys.readouterr().out
    assert main(["lesson", "--json"]) == 0
    assert '"id": "L1"' in capsys.readouterr().out
    assert main(["lesson", "L99"]) == 2


@pytest.mark.costly
@pytest.mark.parametrize("lesson_id", ALL)
def test_a_lesson_is_played_to_its_goals_and_its_story_is_saved(
    lesson_id: str, typed, tmp_path: Path
) -> None:
    status, output = typed(lesson_id, keys(lesson_id))
    assert status == 0, output
    lesson_parts = lesson(lesson_id).parts
    assert output.count("You said:  ") == sum(bool(lesson_part.ask) for lesson_part in lesson_parts)
    assert output.count("Goal reached.") == sum(
        bool(lesson_part.goal) for lesson_part in lesson_parts
    )
    assert "predictions came true." in output
    own_story_file = tmp_path / f"my-{lesson_id.lower()}.yaml"
    assert f"txnsim scenario run {own_story_file.name} --armed" in output
    assert main(["scenario", "run", str(own_story_file), "--armed", "--quiet"]) == 0


def test_the_quiz_counts_what_came_true(typed) -> None:
    quiz_lesson = lesson("quiz")
    right_answers = [lesson_part.answer for lesson_part in solve_lesson(quiz_lesson).values()]
    chosen_indexes = [
        list(lesson_part.choices).index(key)
        for lesson_part, key in zip(quiz_lesson.parts, right_answers, strict=True)
    ]
    status, output = typed("quiz", "".join(f"{choice + 1}\n" for choice in chosen_indexes))
    assert status == 0
    assert "12 of your 12 predictions came true." in output


def test_a_prediction_is_shown_again_beside_the_answer(typed) -> None:
    _, output = typed("L1", "\n1\nq\n")
    assert "You said:  at 0: the transaction still holds it back." in output
    assert "The run:   at 1: behind the marker. ✕ It is different." in output
    assert "The marker has ended the transaction on the partition" in output  # why it is wrong


def test_two_runs_are_shown_side_by_side(typed) -> None:
    _, output = typed("L1", "\n1\n1\n1\n1\n1\n3\n2\n2\nq\n")
    printed_lines = [
        printed_line
        for printed_line in output.splitlines()
        if printed_line.startswith("what is refused on payments-0")
    ]
    assert [line.split()[5:] for line in printed_lines] == [["nothing", "INVALID_PRODUCER_EPOCH"]]


def test_nothing_goes_on_without_a_prediction(typed) -> None:
    status, output = typed("L1", "\n\n\nnonsense\n9\nh\nq\n")
    assert status == 1
    assert output.count("expected 1 to 3, q to leave") == 4
    assert "Hint: A marker takes an offset" in output
    assert "The run:" not in output


def test_a_wrong_action_says_why_and_what_can_not_be_done_is_told(typed) -> None:
    _, output = typed("L1", "\n1\n1\n1\n1\n1\n1\n3\n1\n1\n1\n7\nq\n")
    assert "Not yet. The coordinator's timeout ends transactions that it knows." in output
    assert "That can't be done now: " in output


def test_a_story_need_not_be_saved(typed, tmp_path: Path) -> None:
    status, output = typed("L0", keys("L0").removesuffix("\n") + "n\n")
    assert status == 0
    assert not list(tmp_path.iterdir())
    status, output = typed("L0", keys("L0").removesuffix("\n") + "nowhere/mine.yaml\n")
    assert "nowhere/mine.yaml: No such file or directory" in output


def test_the_demo_is_one_screen_that_stops_and_says_what_is_next(typed) -> None:
    status, output = typed("demo", "\n\n\n\n")
    assert status == 0
    assert output.count("Enter to go on") == 4
    assert output.count("Look: ") == 4
    assert "at offset 4; the last stable" in output, "it is ended before the eyes of who looks"
    assert output.strip().splitlines()[-1] == "next: txnsim lesson L1"
    assert len(output.splitlines()) <= 50
    assert typed("demo", "")[0] == 0, "without a terminal it does not stop"


def test_nothing_but_the_lesson_is_printed_and_what_is_expected_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("h\n\nq\n"))
    assert main(["lesson", "L1"]) == 1
    captured = capsys.readouterr()
    assert "user.create-topic" not in captured.out + captured.err
    assert "expected Enter to go on, q to leave" in captured.out


def test_no_error_of_a_broker_that_is_broken_on_purpose_is_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(keys("L4")))
    assert main(["lesson", "L4"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("typed_text", ["q\n", "", "\nnonsense\n9\nq\n"])
def test_a_lesson_may_be_left(typed_text: str, typed) -> None:
    status, output = typed("L1", typed_text)
    assert status == 1
    assert "You have left the lesson." in output


# ``sheet``


def test_a_lesson_is_printed_as_a_sheet(capsys: pytest.CaptureFixture[str]) -> None:
    first_lesson = lesson("L1")
    assert main(["lesson", "L1", "--sheet"]) == 0
    pupil = capsys.readouterr().out
    assert main(["lesson", "L1", "--sheet", "--answers"]) == 0
    teacher = capsys.readouterr().out
    for lesson_part in first_lesson.parts:
        if lesson_part.ask:
            assert lesson_part.ask in pupil
            assert lesson_part.ask in teacher
    assert "user.create-topic" not in teacher  # its runs log nothing between its lines
    assert "**Answer:**" not in pupil
    assert teacher.count("**Answer:**") == sum(
        bool(lesson_part.ask) for lesson_part in first_lesson.parts
    )
    assert "at 1: behind the marker" in teacher.split("**Answer:**")[1].splitlines()[0]


# ``submission``


def test_a_learner_hands_in_and_the_teacher_reads_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(keys("L0")))
    assert main(["lesson", "L0", "--hand-in", "ada.json"]) == 0
    (tmp_path / "bob.json").write_text('{"lesson": "L0", "predictions": [true], "goals": 0}')
    prediction_count = sum(bool(lesson_part.ask) for lesson_part in lesson("L0").parts)
    capsys.readouterr()
    assert main(["lesson", "--handed-in", "bob.json", "ada.json", "--json"]) == 0
    ada, bob = sorted(json.loads(capsys.readouterr().out), key=lambda row: row["file"])
    assert (bob["right"], bob["predictions"], bob["goals"]) == ("1 of 1", "✓", "0")
    assert ada["right"].endswith(f" of {prediction_count}")
    assert (len(ada["predictions"]), ada["goals"]) == (prediction_count, "1")
    assert main(["lesson", "--handed-in", "ada.json"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "File", "Lesson", "Right", "Predictions", "Goals",
    ]  # fmt: skip


def test_a_learner_who_leaves_hands_in_what_was_predicted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys_before, first_key, _ = keys("L0").partition("1\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{keys_before}{first_key}q\n"))
    file = tmp_path / "eve.json"
    assert main(["lesson", "L0", "--hand-in", str(file)]) == 1
    handed_in = json.loads(file.read_bytes())
    assert (len(handed_in["predictions"]), handed_in["goals"]) == (1, 0)


def test_what_is_no_such_file_and_a_lesson_on_a_cluster_are_a_misuse(tmp_path: Path) -> None:
    other_file = tmp_path / "other.json"
    for content in (b"{}", b"", b'{"lesson": "\xff"}', b'{"lesson":' + b"[" * 100_000):
        other_file.write_bytes(content)
        assert main(["lesson", "--handed-in", str(other_file)]) == 2
    assert main(["lesson", "--handed-in", str(tmp_path / "gone.json")]) == 2
    assert main(["lesson", "L10", "--hand-in", str(other_file)]) == 2
