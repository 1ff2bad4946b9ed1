"""What a learner hands in of a lesson, as a file, and the table that a teacher reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.cli.output import Columns
from txnsim.errors import ConfigError
from txnsim.files import problem_of, write_whole


class HandedIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson of one learner, whom the name of the file tells."""

    lesson: str
    predictions: tuple[bool, ...]
    """In order: whether each came true."""
    goals: int
    """Parts of the lesson whose goal the learner reached by deeds."""


COLUMNS: Final[Columns[Mapping[str, str]]] = {
    "File": lambda one: one["file"],
    "Lesson": lambda one: one["lesson"],
    "Right": lambda one: one["right"],
    "Predictions": lambda one: one["predictions"],
    "Goals": lambda one: one["goals"],
}


def hand_in(path: Path, lesson: str, predictions: Sequence[bool], goals: int) -> None:
    """Write the file.

    Raises:
        ConfigError: It can't be written.
    """
    handed_in = HandedIn(lesson=lesson, predictions=tuple(predictions), goals=goals)
    write_whole(path, msgspec.json.encode(handed_in) + b"\n", what="--hand-in")


def table(paths: Iterable[Path]) -> list[dict[str, str]]:
    """A row for each file, by lesson, the weakest first.

    Raises:
        ConfigError: A file is none of these.
    """
    rows = []
    for path in paths:
        try:
            handed_in = msgspec.json.decode(path.read_bytes(), type=HandedIn)
        except (OSError, msgspec.MsgspecError) as error:
            problem = problem_of(error)
            raise ConfigError(f"{path}: nothing that a lesson handed in: {problem}") from error
        rows.append((handed_in.lesson, sum(handed_in.predictions), path.name, handed_in))
    return [
        {
            "file": name,
            "lesson": lesson,
            "right": f"{right} of {len(handed_in.predictions)}",
            "predictions": "".join(
                "✓" if came_true else "✕" for came_true in handed_in.predictions
            ),
            "goals": str(handed_in.goals),
        }
        for lesson, right, name, handed_in in sorted(rows, key=lambda row: row[:3])
    ]
