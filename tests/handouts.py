"""What a teacher takes to a class: ``make handouts``, or ``python -m tests.handouts DIR``.

- ``sheets.html``: every lesson for learners, with what it teaches, what it takes for granted and a
  picture at its end; then the exercises by degree;
- ``answers.html``: the same with all answers, for the teacher;
- ``slides.html``: the ten pictures, a slide each, as plain HTML to be edited;
- each as PDF, where a Chromium is on this machine;
- ``class.ipynb``: a notebook for learners, with the simulator in its own process; with all answers:
  ``class-answers.ipynb``.

Lessons are those of ``txnsim lesson``, pictures those of docs/ten-pictures.md.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from markdown import markdown

from tests.support.apache_kafka import REPOSITORY
from tests.support.ten_pictures import FOLDER, PICTURES
from txnsim_lab.cli._teaching.sheet import sheet
from txnsim_lab.scenario.teaching.lessons import Lesson, lessons

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")


class Aim(NamedTuple):
    """The goals, the needs and the picture of a lesson."""

    goals: tuple[str, ...]
    needs: tuple[str, ...]
    picture: str
    """Of the ten, by its file's name."""


AIMS: Final = {
    "L0": Aim(
        ("name the steps of a transaction from its begin to its marker",
         "say where coordinator and partition keep their state"),
        ("topics, partitions, offsets",), "two-sides",
    ),
    "L1": Aim(
        ("explain how a record that comes late opens a transaction again",
         "say why no timeout ends it", "find it and end it"),
        ("L0",), "hang",
    ),
    "L2": Aim(
        ("say what a leader asks the coordinator, and what it does not ask",
         "show a record of an aborted transaction that is committed"),
        ("L1",), "verification",
    ),
    "L3": Aim(
        ("tell an answer from what it proves", "say what the epoch of transactions v2 prevents"),
        ("L0", "L1"), "epoch",
    ),
    "L4": Aim(
        ("tell an open, a decided and a hanging transaction apart",
         "decide which of them may be aborted by hand"),
        ("L1",), "marker-owed",
    ),
    "L5": Aim(
        ("say what a marker that comes twice does", "say what strict markers cost"),
        ("L3", "L4"), "marker-owed",
    ),
    "L6": Aim(
        ("say what a leader remembers of a producer whose records are gone",
         "say why the cleaner stops at an open transaction"),
        ("L4",), "last-stable-offset",
    ),
    "L7": Aim(
        ("read INVALID_TXN_STATE and PRODUCER_FENCED", "say who aborts at a timeout"),
        ("L0",), "two-sides",
    ),
    "L8": Aim(
        ("recover from a commit without an answer", "say why the same identity is not enough"),
        ("L7",), "implicit-add",
    ),
    "L9": Aim(
        ("explain KAFKA-20734", "end a hanging transaction that was committed, by COMMIT"),
        ("L4",), "repair",
    ),
    "L10": Aim(
        ("judge the history of an own program",
         "write a producer that may be killed at any moment"),
        ("L8", "a program with a Kafka client"), "positions",
    ),
    "L11": Aim(
        ("judge what copies of brokers' disks hold", "repair with the tools that production has"),
        ("L4", "L9"), "repair",
    ),
}  # fmt: skip
PARTS: Final = REPOSITORY / "tests/support/handouts"
"""Styles, what turns slides, and the notebook."""


def sheets(*, with_answers: bool) -> str:
    """All lessons as one page."""
    chosen_lessons = [lessons()[lesson_name] for lesson_name in AIMS]
    title = "Transactions in Apache Kafka: " + ("answers" if with_answers else "sheets")
    parts = [f"<h1>{title}</h1>", "" if with_answers else '<p class="name">Name: ____________</p>']
    rows = "".join(
        f"<li>{lesson.id}: {html.escape(lesson.title)}, {lesson.minutes} minutes</li>"
        for lesson in chosen_lessons
    )
    parts.append(f"<ul>{rows}</ul>")
    parts += [_lesson(lesson, with_answers=with_answers) for lesson in chosen_lessons]
    parts.append(_exercises(chosen_lessons, with_answers=with_answers))
    return _page(title, "sheets", "\n".join(parts))


def _lesson(lesson: Lesson, *, with_answers: bool) -> str:
    aim = AIMS[lesson.id]
    text = re.sub(r"(?m)^(\*\*Solution.*)$", r"\1\n", sheet(lesson, with_answers=with_answers))
    body = markdown(text, extensions=["fenced_code", "sane_lists"])
    head, _, content = body.partition("</h1>")
    goals = "".join(f"<li>{html.escape(goal_text)}</li>" for goal_text in aim.goals)
    needs = html.escape(", ".join(aim.needs))
    aim_box = (
        f'<div class="aim"><p>After it you can</p><ul>{goals}</ul><p>Before it: {needs}.</p></div>'
    )
    return f'<div class="lesson">{head}</h1>{aim_box}{content}{picture(aim.picture)}</div>'


def picture(name: str) -> str:
    """One of the ten, with names of its own for what it refers to: ids count for a whole page."""
    file_text = (REPOSITORY / FOLDER / f"ten-{name}.svg").read_text("utf-8")
    file_text = re.sub(
        r"@media \(prefers-color-scheme:dark\)\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", file_text
    )
    file_text = re.sub(r'aria-labelledby="[^"]*"', "", file_text)
    return re.sub(r' id="[td]"', "", file_text)


def _exercises(chosen_lessons: Sequence[Lesson], *, with_answers: bool) -> str:
    """The exercises of learners, sorted by the number of steps."""
    exercises = []
    for chosen_lesson in chosen_lessons:
        for lesson_part in chosen_lesson.parts:
            if lesson_part.goal:
                steps = [lesson_part.actions[number - 1].text for number in lesson_part.solution]
                exercises.append((len(steps), chosen_lesson.id, lesson_part.say.strip(), steps))
    rows = []
    for count, lesson, question, steps in sorted(
        exercises, key=lambda row: (row[0], int(row[1][1:]))
    ):
        solution = f"<br><em>{html.escape('; '.join(steps))}.</em>" if with_answers else ""
        degree = "●" * (1 if count == 1 else 2 if count < 5 else 3)
        rows.append(
            f"<li>{degree} <strong>{lesson}</strong> {html.escape(question)}{solution}</li>"
        )
    legend = "One dot: a single step. Two: up to four. Three: more."
    legend += " <code>txnsim lesson ID</code> judges."
    return f'<div class="lesson"><h1>Exercises</h1><p>{legend}</p><ul>{"".join(rows)}</ul></div>'


def slides() -> str:
    """The ten pictures as a deck."""
    title = "Transactions in ten pictures"
    introduction = "Each picture is a moment of a run, drawn from its trace."
    parts = [f"<section><h1>{title}</h1><p>{introduction}</p></section>"]
    for picture_number, entry in enumerate(PICTURES, 1):
        run = entry.story_run
        command = f"txnsim scenario run {run.scenario} --mode '{run.run}' --{run.take}"
        parts.append(
            f"<section><h1>{picture_number}. {html.escape(entry.title)}</h1>{picture(entry.name)}"
            f"<p>{html.escape(entry.text)}</p><footer>{html.escape(command)}</footer></section>"
        )
    moves = (PARTS / "slides.js").read_text("utf-8")
    return _page(title, "slides", "\n".join(parts) + f"<script>{moves}</script>")


def notebook(*, with_answers: bool) -> dict[str, Any]:
    """The class notebook in Jupyter's format."""
    cells = []
    program = (PARTS / "class_notebook.py").read_text("utf-8")
    for cell_number, cell in enumerate(re.split(r"(?m)^# %%", program)[1:]):
        kind, _, text = cell.partition("\n")
        text = re.sub(r"  # fmt: skip$", "", text.strip(), flags=re.MULTILINE)
        content: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": []}
        if kind.strip() == "[markdown]":
            content = {"cell_type": "markdown"}
            text = re.sub(r"(?m)^# ?", "", text)
        elif not with_answers:
            text = re.sub(r"(?m)^(\w+ = ).*(  # yours)", r"\1None\2", text)
            if kind.strip() == "exercise":
                text = "\n".join(takewhile(lambda line: line.startswith("#"), text.splitlines()))
        source = text.splitlines(keepends=True)
        cells.append(content | {"id": f"cell-{cell_number}", "metadata": {}, "source": source})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _page(title: str, kind: str, body: str) -> str:
    style = (PARTS / f"{kind}.css").read_text("utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{style}</style></head><body>{body}</body></html>\n"
    )


def print_pdf(page_file: Path) -> None:
    """Print a page into a PDF file beside it, by Chromium."""
    target_path = page_file.with_suffix(".pdf").resolve()
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-pdf-header-footer",
    ]
    finished_process = subprocess.run(
        [*command, f"--print-to-pdf={target_path}", page_file.resolve().as_uri()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if finished_process.returncode != 0 or not target_path.is_file():
        raise RuntimeError(
            f"{CHROMIUM} did not print {page_file}: {finished_process.stderr[-500:]}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    from txnsim.cli.event_log import set_up_logs

    parser = argparse.ArgumentParser(prog="python -m tests.handouts", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write")
    folder = parser.parse_args(argv).folder
    set_up_logs(level="critical")
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "sheets.html": sheets(with_answers=False),
        "answers.html": sheets(with_answers=True),
        "slides.html": slides(),
    }
    for file_name, page_text in pages.items():
        (folder / file_name).write_text(page_text, "utf-8")
        if CHROMIUM is not None:
            print_pdf(folder / file_name)
    for file_name, with_answers in (("class", False), ("class-answers", True)):
        notebook_text = json.dumps(
            notebook(with_answers=with_answers), indent=1, ensure_ascii=False
        )
        (folder / f"{file_name}.ipynb").write_text(notebook_text + "\n", "utf-8")
    hint = "" if CHROMIUM else "; for PDF print them from a browser: this machine has no Chromium"
    print(f"{', '.join(sorted(path.name for path in folder.iterdir()))} in {folder}{hint}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
