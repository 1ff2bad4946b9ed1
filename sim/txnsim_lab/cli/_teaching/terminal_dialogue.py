"""The dialogue of a lesson in the terminal: texts, questions, and predictions with the right
answers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from txnsim.cli.output import TERMINAL
from txnsim_lab.cli._scenario.output import WIDTH

if TYPE_CHECKING:
    from txnsim_lab.scenario.teaching.lessons import Part


class LeftError(Exception):
    """The learner leaves the lesson."""


class InputEndedError(LeftError):
    """Standard input has ended."""


def print_filled(text: str) -> None:
    """Print a text as one paragraph."""
    TERMINAL.text(textwrap.fill(text.strip(), WIDTH))


def print_paragraphs(text: str) -> None:
    """Print a text whose lines are paragraphs, and an empty line."""
    lines = text.strip().splitlines()
    TERMINAL.text("\n".join(textwrap.fill(line, WIDTH) for line in lines) + "\n")


def print_answer(part: Part, guess: str, answer_key: str) -> bool:
    """Print a prediction, the answer, and why the prediction is wrong; returns whether it was
    right.
    """
    is_right = guess == answer_key
    TERMINAL.text(f"\nYou said:  {part.choices[guess]}.")
    right_or_wrong = "✓ Right." if is_right else "✕ It is different."
    TERMINAL.text(f"The run:   {part.choices.get(answer_key, answer_key)}. {right_or_wrong}")
    if guess in part.mistakes and not is_right:
        print_filled(part.mistakes[guess])
    return is_right


def print_predictions(predictions: Sequence[bool]) -> None:
    if predictions:
        TERMINAL.text(f"{sum(predictions)} of your {len(predictions)} predictions came true.")


def ask_choice(prompt: str, choices: Sequence[str], hints: Sequence[str]) -> int:
    """Ask until there is a valid answer.

    Returns:
        Index of the choice; 0 if there are no choices.

    Raises:
        LeftError: The learner leaves, or standard input has ended.
    """
    hints_left = list(hints)
    for choice_number, choice_text in enumerate(choices, 1):
        TERMINAL.text(f"  {choice_number}) {choice_text}")
    while True:
        try:
            typed_word = (
                input(f"{prompt}{' (h for a hint)' if hints_left else ''}: ").strip().lower()
            )
        except EOFError:
            raise InputEndedError from None
        if typed_word == "" and not choices:
            return 0
        if typed_word == "q":
            raise LeftError
        if typed_word == "h" and hints_left:
            TERMINAL.text(f"Hint: {hints_left.pop(0)}")
        elif typed_word.isascii() and typed_word.isdigit() and 1 <= int(typed_word) <= len(choices):
            return int(typed_word) - 1
        else:
            expected_input = f"1 to {len(choices)}" if choices else "Enter to go on"
            TERMINAL.text(f"expected {expected_input}, q to leave")
