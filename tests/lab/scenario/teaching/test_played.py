from __future__ import annotations

import msgspec
import pytest

from txnsim_lab.scenario.teaching.lessons import lesson, lessons
from txnsim_lab.scenario.teaching.played import answers, played


@pytest.mark.costly
@pytest.mark.parametrize("name", [one.id for one in lessons().values() if one.story])
def test_a_lesson_is_played_to_its_end_and_what_it_asks_is_answered_by_its_runs(name: str) -> None:
    one = lesson(name)
    for number, came_to in played(one).items():
        part = one.parts[number]
        if part.ask:
            assert came_to.answer in part.choices, part.ask
            assert came_to.answer not in part.mistakes, part.ask
            assert bool(part.hints) == (name != "quiz")
        assert not came_to.was_reached, part.say
        assert came_to.is_reached == bool(part.goal), part.say


def test_what_a_sheet_calls_right_is_played_or_stands_in_the_lesson() -> None:
    assert answers(lesson("L0"))[2] == played(lesson("L0"))[2].answer
    assert answers(lesson("L11")) == {
        0: "nothing", 1: "open transaction", 2: "hanging transaction", 3: "nothing",
    }  # fmt: skip


@pytest.mark.slow
def test_other_actions_do_not_reach_the_goal_of_the_first_lesson() -> None:
    one = lesson("l1")
    number, part = next((n, one) for n, one in enumerate(one.parts) if one.goal)
    for wrong in range(1, len(part.actions) + 1):
        changed = msgspec.structs.replace(part, solution=(wrong,))
        begun = msgspec.structs.replace(one, parts=(*one.parts[:number], changed))
        assert played(begun)[number].is_reached == (wrong in part.solution)


def test_the_tour_says_how_many_records_its_run_writes() -> None:
    """It said "a record", and two appeared."""
    one = lesson("L0")
    counted = [msgspec.structs.replace(part, fact="withheld payments-0") for part in one.parts[:3]]
    tour = played(msgspec.structs.replace(one, parts=tuple(counted)))
    assert [came_to.answer for came_to in tour.values()] == ["1", "2", "0"]
    assert "writes its first record" in " ".join(one.parts[0].say.split())
    assert "writes a second record" in " ".join(one.parts[1].say.split())
