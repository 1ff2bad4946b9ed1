"""What ``make handouts`` writes for a class."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests import handouts
from tests.handouts import AIMS
from tests.support.ten_pictures import PICTURES
from txnsim_lab.scenario.teaching.lessons import lessons


def test_every_lesson_says_what_it_is_for_and_needs_only_those_before() -> None:
    assert list(AIMS) == [name for name in lessons() if re.fullmatch(r"L\d+", name)]
    before: set[str] = set()
    for name, aim in AIMS.items():
        assert aim.goals, name
        assert {one for one in aim.needs if re.fullmatch(r"L\d+", one)} <= before, name
        assert aim.picture in {one.name for one in PICTURES}
        before.add(name)


def test_learners_get_the_questions_and_the_teacher_the_answers() -> None:
    given = handouts.sheets(with_answers=False)
    assert given.count('class="lesson"') == len(AIMS) + 1
    assert "Answer:" not in given
    assert "Solution:" not in given
    assert given.count("<svg") == len(AIMS)
    assert given.count("☐") > 100


@pytest.mark.slow
def test_the_teachers_copy_has_an_answer_for_each_question() -> None:
    told = handouts.sheets(with_answers=True)
    asked = sum(bool(part.ask) for name in AIMS for part in lessons()[name].parts)
    goals = sum(bool(part.goal) for name in AIMS for part in lessons()[name].parts)
    assert told.count("<strong>Answer:</strong>") == asked
    assert told.count("<strong>Solution:</strong>") == goals


def test_each_picture_is_a_slide_that_can_be_edited() -> None:
    deck = handouts.slides()
    assert deck.count("<section>") == len(PICTURES) + 1
    assert deck.count("<svg") == len(PICTURES)
    for one in PICTURES:
        assert html.escape(one.title) in deck
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", deck)


@pytest.mark.browser
@pytest.mark.skipif(handouts.CHROMIUM is None, reason="no Chromium to print with")
def test_chromium_prints_the_slides_a_page_each(tmp_path: Path) -> None:
    page = tmp_path / "slides.html"
    page.write_text(handouts.slides(), "utf-8")
    handouts.print_pdf(page)
    printed = page.with_suffix(".pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == len(PICTURES) + 1
