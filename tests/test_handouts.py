"""What ``make handouts`` writes for a class."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import handouts
from tests.handouts import AIMS
from tests.support.ten_pictures import PICTURES
from txnsim_lab.cli._teaching.submission import table
from txnsim_lab.scenario.teaching.lessons import lessons


def test_every_lesson_says_what_it_is_for_and_needs_only_those_before() -> None:
    assert list(AIMS) == [
        lesson_name for lesson_name in lessons() if re.fullmatch(r"L\d+", lesson_name)
    ]
    earlier_lessons: set[str] = set()
    for lesson_name, aim in AIMS.items():
        assert aim.goals, lesson_name
        assert {need for need in aim.needs if re.fullmatch(r"L\d+", need)} <= earlier_lessons, (
            lesson_name
        )
        assert aim.picture in {picture.name for picture in PICTURES}
        earlier_lessons.add(lesson_name)


def test_learners_get_the_questions_and_the_teacher_the_answers() -> None:
    sheets = handouts.sheets(with_answers=False)
    assert sheets.count('class="lesson"') == len(AIMS) + 1
    assert "Answer:" not in sheets
    assert "Solution:" not in sheets
    assert sheets.count("<svg") == len(AIMS)
    assert sheets.count("☐") > 100


@pytest.mark.costly
@pytest.mark.slow
def test_the_teachers_copy_has_an_answer_for_each_question() -> None:
    answers = handouts.sheets(with_answers=True)
    question_count = sum(
        bool(lesson_part.ask)
        for lesson_name in AIMS
        for lesson_part in lessons()[lesson_name].parts
    )
    goal_count = sum(
        bool(lesson_part.goal)
        for lesson_name in AIMS
        for lesson_part in lessons()[lesson_name].parts
    )
    assert answers.count("<strong>Answer:</strong>") == question_count
    assert answers.count("<strong>Solution:</strong>") == goal_count


def test_each_picture_is_a_slide_that_can_be_edited() -> None:
    deck = handouts.slides()
    assert deck.count("<section>") == len(PICTURES) + 1
    assert deck.count("<svg") == len(PICTURES)
    for picture in PICTURES:
        assert html.escape(picture.title) in deck
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", deck)


# The notebook


def code(*, with_answers: bool) -> list[str]:
    cells = handouts.notebook(with_answers=with_answers)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_a_learners_notebook_has_no_answer() -> None:
    learner_cells, teacher_cells = code(with_answers=False), code(with_answers=True)
    assert len(learner_cells) == len(teacher_cells)
    changed_cells = [
        (learner_cell, teacher_cell)
        for learner_cell, teacher_cell in zip(learner_cells, teacher_cells, strict=True)
        if learner_cell != teacher_cell
    ]
    assert len(changed_cells) == 10
    for learner_cell, _ in changed_cells:
        assert "None  # yours" in learner_cell or re.fullmatch(r"(#.*\n?)+", learner_cell), (
            learner_cell
        )
    assert sum(learner_cell.startswith("# ●") for learner_cell, _ in changed_cells) == 4


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize(
    ("with_answers", "row"),
    [(True, ("6 of 6", "✓✓✓✓✓✓", "4")), (False, ("0 of 6", "✕✕✕✕✕✕", "0"))],
    ids=["with answers", "without"],
)
def test_the_cells_run_to_the_end_and_the_teacher_reads_what_came_of_it(
    with_answers: bool, row: tuple[str, ...], tmp_path: Path
) -> None:
    program = "\n\n".join(code(with_answers=with_answers))
    program = program.replace("name = None", 'name = "ada"')
    finished_process = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished_process.returncode == 0, finished_process.stderr
    (read,) = table(tmp_path.glob("*-notebook.json"))
    assert (read["right"], read["predictions"], read["goals"]) == row


@pytest.mark.nightly
def test_jupyter_runs_the_notebook(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the dependency group notebook")
    nbclient = pytest.importorskip("nbclient", reason="the dependency group notebook")
    text = json.dumps(handouts.notebook(with_answers=True))
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": tmp_path}}
    ).execute()
    (read,) = table(tmp_path.glob("*-notebook.json"))
    assert (read["right"], read["goals"]) == ("6 of 6", "4")
