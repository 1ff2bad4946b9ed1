"""The file that a learner hands in after a lesson, and the table that a teacher reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.cli.output import Columns
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given, write_whole


class HandedIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of one lesson of one learner; the name of the file names the learner."""

    lesson: str
    predictions: tuple[bool, ...]
    """For each prediction, in order, whether it was right."""
    goals: int
    """Number of parts whose goal the learner reached by actions."""


COLUMNS: Final[Columns[Mapping[str, str]]] = {
    "File": lambda submission_row: submission_row["file"],
    "Lesson": lambda submission_row: submission_row["lesson"],
    "Right": lambda submission_row: submission_row["right"],
    "Predictions": lambda submission_row: submission_row["predictions"],
    "Goals": lambda submission_row: submission_row["goals"],
}


def hand_in(path: Path, lesson_id: str, predictions: Sequence[bool], goal_count: int) -> None:
    """Write the file.

    Raises:
        ConfigError: The file can't be written.
    """
    handed_in = HandedIn(lesson=lesson_id, predictions=tuple(predictions), goals=goal_count)
    write_whole(path, msgspec.json.encode(handed_in) + b"\n", error_prefix="--hand-in")


def table(paths: Iterable[Path]) -> list[dict[str, str]]:
    """A row for each file, sorted by lesson, the weakest result first.

    Raises:
        ConfigError: A file was not handed in from a lesson.
    """
    result_rows = []
    for path in paths:
        try:
            handed_in = msgspec.json.decode(read_given(path), type=HandedIn)
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            problem = problem_of(error)
            raise ConfigError(
                f"{path}: not a file that `txnsim lesson --hand-in` has written: {problem}"
            ) from error
        result_rows.append((handed_in.lesson, sum(handed_in.predictions), path.name, handed_in))
    return [
        {
            "file": file_name,
            "lesson": lesson_id,
            "right": f"{right_count} of {len(handed_in.predictions)}",
            "predictions": "".join(
                "✓" if prediction_came_true else "✕"
                for prediction_came_true in handed_in.predictions
            ),
            "goals": str(handed_in.goals),
        }
        for lesson_id, right_count, file_name, handed_in in sorted(
            result_rows, key=lambda row: row[:3]
        )
    ]
