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


def print_shown(part: Part, guess: str, key: str) -> bool:
    """Print a prediction, the answer, and why the prediction is wrong; returns whether it was
    right.
    """
    is_right = guess == key
    TERMINAL.text(f"\nYou said:  {part.choices[guess]}.")
    mark = "✓ Right." if is_right else "✕ It is different."
    TERMINAL.text(f"The run:   {part.choices.get(key, key)}. {mark}")
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
    for number, text in enumerate(choices, 1):
        TERMINAL.text(f"  {number}) {text}")
    while True:
        try:
            word = input(f"{prompt}{' (h for a hint)' if hints_left else ''}: ").strip().lower()
        except EOFError:
            raise InputEndedError from None
        if word == "" and not choices:
            return 0
        if word == "q":
            raise LeftError
        if word == "h" and hints_left:
            TERMINAL.text(f"Hint: {hints_left.pop(0)}")
        elif word.isascii() and word.isdigit() and 1 <= int(word) <= len(choices):
            return int(word) - 1
        else:
            expected_input = f"1 to {len(choices)}" if choices else "Enter to go on"
            TERMINAL.text(f"expected {expected_input}, q to leave")
