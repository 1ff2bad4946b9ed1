"""``repeat: N`` around steps: rolled out before the file is read, so that all else knows only
single steps. Errors keep naming the line and the field that people wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from txnsim.scenario.steps_model import COUNT_MAX

Place = tuple[int | str, ...]
PARTS: Final = ("steps", "cure")
REPEAT: Final = "repeat"
STEPS: Final = "steps"
TURN: Final = "{n}"
"""Stands for the number of the turn, from 1 on."""


class Origins:
    """Where the rolled-out steps stand in the file."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], Place] = {}

    def note(self, part: str, at: int, place: Place) -> None:
        """The step that is ``part[at]`` now stands at ``place``."""
        self._places[part, at] = place

    def of(self, place: Place) -> Place:
        """The place in the file; the same where nothing is repeated."""
        if len(place) < 2 or not isinstance(place[1], int):
            return place
        origin = self._places.get((str(place[0]), place[1]))
        return place if origin is None else (*origin, *place[2:])


def rolled_out(document: Mapping[Any, Any]) -> tuple[dict[Any, Any], Origins, list[Any]]:
    """The document with each repeat replaced by its steps.

    Args:
        document: A scenario as YAML gives it.

    Returns:
        The document; where its steps come from; what is wrong, as (place, words).
    """
    made, origins = dict(document), Origins()
    problems: list[tuple[Place, str]] = []
    for part in PARTS:
        given = document.get(part)
        if not isinstance(given, list) or not any(_is_repeat(one) for one in given):
            continue
        steps: list[Any] = []
        for at, one in enumerate(given):
            place: Place = (part, at)
            if not _is_repeat(one):
                origins.note(part, len(steps), place)
                steps.append(one)
                continue
            found = _problem(place, one, room=COUNT_MAX - len(steps))
            if found is not None:
                problems.append(found)
                continue
            for turn in range(1, one[REPEAT] + 1):
                for inner, step in enumerate(one[STEPS]):
                    origins.note(part, len(steps), (*place, STEPS, inner))
                    steps.append(_in_turn(step, str(turn)))
        made[part] = steps
    return made, origins, problems


def _is_repeat(step: object) -> bool:
    return isinstance(step, dict) and REPEAT in step


def _problem(place: Place, given: Mapping[Any, Any], *, room: int) -> tuple[Place, str] | None:
    for name in given:
        if name not in (REPEAT, STEPS):
            return (*place, str(name)), "a repeat has steps and nothing else"
    times, steps = given[REPEAT], given.get(STEPS)
    if not isinstance(times, int) or isinstance(times, bool) or times < 1:
        return (*place, REPEAT), "expected how many times, from 1 on"
    if not isinstance(steps, list) or not steps:
        return (*place, REPEAT), "expected steps beside it: {repeat: 3, steps: [...]}"
    if any(_is_repeat(step) for step in steps):
        return (*place, STEPS), "a repeat can't stand in another one"
    if times * len(steps) > room:
        return (*place, REPEAT), f"a story has at most {COUNT_MAX} steps, repeated ones included"
    return None


def _in_turn(value: Any, turn: str) -> Any:
    """A copy with the number of the turn wherever ``{n}`` stands."""
    if isinstance(value, str):
        return value.replace(TURN, turn)
    if isinstance(value, dict):
        return {key: _in_turn(one, turn) for key, one in value.items()}
    if isinstance(value, list):
        return [_in_turn(one, turn) for one in value]
    return value
