"""A lesson on paper: for a class, or with all answers for the teacher."""

from __future__ import annotations

from collections.abc import Iterator

from txnsim_lab.scenario.teaching.lessons import Lesson, Part, fill_addresses


def sheet(lesson: Lesson, *, with_answers: bool) -> str:
    """A lesson as Markdown."""
    right_answer_by_part: dict[int, str] = {}
    if with_answers:
        from txnsim_lab.scenario.teaching.lesson_solver import answers  # plays it

        right_answer_by_part = answers(lesson)
    lines = [
        f"# {lesson.id}: {lesson.title}",
        "",
        f"{lesson.minutes} minutes. `txnsim lesson {lesson.id}`",
        "",
    ]
    for part_number, part in enumerate(lesson.parts):
        lines += [f"## {part_number + 1}", "", part.say.strip(), ""]
        if part.code:
            lines += ["```", part.code.strip(), "```", ""]
        if part.ask:
            lines += [
                f"**{part.ask}**",
                "",
                *(f"- ☐ {choice_text}" for choice_text in part.choices.values()),
                "",
            ]
        if part.do:
            lines += [part.do.strip(), ""]
        if part.goal:
            lines += [*(f"- ☐ {action.text}" for action in part.actions), ""]
        if with_answers:
            lines += [*_solution_lines(part, right_answer_by_part.get(part_number)), ""]
    return fill_addresses("\n".join(lines))


def _solution_lines(part: Part, answer: str | None) -> Iterator[str]:
    if answer is not None:
        yield f"**Answer:** {part.choices[answer]}."
        yield ""
        for wrong_choice, explanation in part.mistakes.items():
            yield f"- *Who says “{part.choices[wrong_choice]}”:* {explanation.strip()}"
    if part.goal:
        solution_text = "; ".join(
            part.actions[action_number - 1].text for action_number in part.solution
        )
        yield f"**Solution:** {solution_text}."
    for hint in part.hints:
        yield f"- *Hint:* {hint}"
    yield ""
    yield part.then.strip()
