"""``txnsim lesson``: lessons about transactions, played in the terminal. The page plays the same
ones.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import Columns, print_text, tell
from txnsim.cli.scenario.output import WIDTH, event_of

if TYPE_CHECKING:
    from txnsim.runtime.trace import Tracer
    from txnsim.scenario.commands import PlannedStep
    from txnsim.scenario.lessons import Goal, Lesson, Part
    from txnsim.scenario.stage import Stage

LEFT_STATUS: Final = 1
DEMO: Final = "demo"
"""What ``make demo`` plays."""
COLUMNS: Final[Columns[dict[str, str]]] = {
    "Lesson": lambda one: one["id"],
    "Title": lambda one: one["title"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``lesson`` takes."""
    parser.epilog = (
        "Answers are read from standard input, one per line: a number, h for a hint, an empty line"
        " to skip, q to leave. Exit status: 0 the lesson was played to its end, 1 it was left,"
        " 2 a misuse."
    )
    parser.add_argument("id", nargs="?", help="as L1; a list of all unless given")
    parser.add_argument("--json", action="store_true", help="the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    from txnsim.scenario.lessons import lesson, lessons

    if args.id is None:
        tell(args, [{"id": one.id, "title": one.title} for one in lessons().values()], COLUMNS)
        return 0
    return _play(lesson(args.id))


class _LeftError(Exception):
    """The learner leaves."""


class _EndedError(_LeftError):
    """Standard input has ended."""


def _play(chosen: Lesson) -> int:
    from txnsim.cli.event_log import log_to_stderr  # structlog: slow to import
    from txnsim.scenario.catalog import find
    from txnsim.scenario.runner import Telling, tell_virtual

    log_to_stderr()
    print_text(f"{chosen.title}\n" if chosen.id == DEMO else f"{chosen.id}: {chosen.title}\n")
    telling = Telling(scenario=find(chosen.scenario)[1], run=chosen.run, take=chosen.take)
    try:
        tell_virtual(telling, pace=_Player(chosen))
    except _LeftError as left:
        if left.args:
            return 0
        print_text("You have left the lesson.")
        return LEFT_STATUS
    return 0


class _Player:
    """The pace of a lesson: it asks before the story goes on."""

    def __init__(self, chosen: Lesson) -> None:
        self._lesson = chosen
        self._part = -1
        self._guess = ""
        self._told = 0
        """How many sentences of the story."""

    async def before(self, stage: Stage, step: PlannedStep) -> None:
        """Tell a part when the one before has been played."""
        parts = self._lesson.parts
        if self._part >= 0 and step.number < parts[self._part].until:
            return
        if self._part >= 0:
            self._reveal(parts[self._part], stage.environment.tracer)
        self._part += 1
        if self._part < len(parts):
            self._tell(parts[self._part])
            return
        if self._lesson.goal is not None:
            await self._reach(self._lesson.goal, stage)
        raise _LeftError(True)  # noqa: FBT003 - the lesson is over; the rest of the story is not wanted

    def _tell(self, part: Part) -> None:
        print_text(textwrap.fill(part.say.strip(), WIDTH))
        if not part.ask:
            try:
                _asked("Enter to go on", (), part.hints)
            except _EndedError:  # nobody is there: it goes on
                print_text("")
            return
        keys = list(part.choices)
        print_text(f"\n{part.ask}")
        chosen = _asked("Your answer", [part.choices[key] for key in keys], part.hints)
        self._guess = "" if chosen is None else keys[chosen]

    def _reveal(self, part: Part, tracer: Tracer) -> None:
        from txnsim.scenario.lessons import fact
        from txnsim.trace.reading import recording

        if part.fact:
            key = fact(recording("the run", b"".join(tracer.pieces()).splitlines()), part.fact)
            said = (
                "" if not self._guess else "Right: " if self._guess == key else "It is different: "
            )
            print_text(f"\n{said or 'The answer: '}{part.choices.get(key, key)}.")
        if part.shows:
            self._show(tracer)
        lines = part.then.strip().splitlines()
        print_text("\n".join(textwrap.fill(line, WIDTH) for line in lines) + "\n")

    def _show(self, tracer: Tracer) -> None:
        """What has happened since it was asked last."""
        from txnsim.trace.reading import recording
        from txnsim.trace.story import story

        run = recording("the run", b"".join(tracer.pieces()).splitlines())
        sentences = [one for one in story(run.events, run.nodes) if not one.is_narrated]
        for one in sentences[self._told :]:
            print_text("\n".join(event_of(one)))
        self._told = len(sentences)

    async def _reach(self, goal: Goal, stage: Stage) -> None:
        from txnsim.scenario.given_inputs import do_input
        from txnsim.scenario.lessons import is_reached
        from txnsim.scenario.reading import read_step
        from txnsim.trace.reading import recording

        print_text(goal.say.strip())
        while True:
            chosen = _asked("What do you do?", [one.text for one in goal.actions], goal.hints)
            if chosen is None:
                continue
            await do_input(stage, read_step(goal.actions[chosen].step))
            lines = b"".join(stage.environment.tracer.pieces()).splitlines()
            if is_reached(goal, recording("the run", lines)):
                print_text(f"\nGoal reached. {goal.reached.strip()}")
                return
            print_text(f"\nNot yet. {goal.actions[chosen].then}")


def _asked(prompt: str, choices: Sequence[str], hints: Sequence[str]) -> int | None:
    """Ask until there is an answer.

    Returns:
        The place of a choice; None where the question is skipped.

    Raises:
        _LeftError: The learner leaves, or standard input has ended.
    """
    left = list(hints)
    for number, text in enumerate(choices, 1):
        print_text(f"  {number}) {text}")
    while True:
        try:
            word = input(f"{prompt}{' (h for a hint)' if left else ''}: ").strip().lower()
        except EOFError:
            raise _EndedError from None
        if word == "":
            return None
        if word == "q":
            raise _LeftError
        if word == "h" and left:
            print_text(f"Hint: {left.pop(0)}")
        elif word.isascii() and word.isdigit() and 1 <= int(word) <= len(choices):
            return int(word) - 1
        else:
            wanted = f"1 to {len(choices)}, Enter to skip" if choices else "Enter to go on"
            print_text(f"expected {wanted}, q to leave")
