"""A lesson on paper: for a class, or with all answers for the teacher."""

from __future__ import annotations

from collections.abc import Iterator

from txnsim_lab.scenario.teaching.lessons import Lesson, Part, fill_addresses


def sheet(lesson: Lesson, *, with_answers: bool) -> str:
    """A lesson as Markdown."""
    right_answers: dict[int, str] = {}
    if with_answers:
        from txnsim_lab.scenario.teaching.lesson_solver import answers  # plays it

        right_answers = answers(lesson)
    lines = [
        f"# {lesson.id}: {lesson.title}",
        "",
        f"{lesson.minutes} minutes. `txnsim lesson {lesson.id}`",
        "",
    ]
    for number, part in enumerate(lesson.parts):
        lines += [f"## {number + 1}", "", part.say.strip(), ""]
        if part.code:
            lines += ["```", part.code.strip(), "```", ""]
        if part.ask:
            lines += [f"**{part.ask}**", "", *(f"- ☐ {text}" for text in part.choices.values()), ""]
        if part.do:
            lines += [part.do.strip(), ""]
        if part.goal:
            lines += [*(f"- ☐ {action.text}" for action in part.actions), ""]
        if with_answers:
            lines += [*_solution_lines(part, right_answers.get(number)), ""]
    return fill_addresses("\n".join(lines))


def _solution_lines(part: Part, answer: str | None) -> Iterator[str]:
    if answer is not None:
        yield f"**Answer:** {part.choices[answer]}."
        yield ""
        for wrong, why in part.mistakes.items():
            yield f"- *Who says “{part.choices[wrong]}”:* {why.strip()}"
    if part.goal:
        steps = "; ".join(part.actions[number - 1].text for number in part.solution)
        yield f"**Solution:** {steps}."
    for hint in part.hints:
        yield f"- *Hint:* {hint}"
    yield ""
    yield part.then.strip()
