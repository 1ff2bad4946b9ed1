"""Blocks of steps: ``repeat: N`` takes them so often, ``only`` restricts all of them, ``any-order``
takes its parts in an order that the seed draws. Rolled out before the file is read, so that all
else knows only single steps. Errors keep naming the line and the field that people wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from txnsim_lab.scenario.steps_model import COUNT_MAX

Place = tuple[int | str, ...]
PARTS: Final = ("steps", "cure")
REPEAT: Final = "repeat"
ONLY: Final = "only"
ANY_ORDER: Final = "any-order"
STEPS: Final = "steps"
TURN: Final = "{n}"
"""Placeholder for the number of the turn, from 1 on."""
BESIDE: Final = {STEPS: (REPEAT, ONLY), ANY_ORDER: (ONLY,)}
"""Key of a block's steps -> keys allowed beside it."""


class Unit(NamedTuple):
    """A part of a block in any order; its steps keep their own."""

    block: int
    part: int


class Origins:
    """Where the rolled-out steps stand in the file."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], Place] = {}
        self._only: dict[tuple[str, int], tuple[Place, ...]] = {}
        self.units: dict[tuple[str, int], Unit] = {}
        """Units of the steps in ``any-order`` blocks."""

    def note(self, part: str, at: int, place: Place, only: tuple[Place, ...]) -> None:
        self._places[part, at] = place
        self._only[part, at] = only

    def of(self, place: Place) -> Place:
        """The place in the file; the same if no block was expanded."""
        if len(place) < 2 or not isinstance(place[1], int):
            return place
        step = (str(place[0]), place[1])
        origin = self._places.get(step, place[:2])
        if place[2:3] == (ONLY,) and len(place) > 3 and isinstance(place[3], int):
            groups = self._only.get(step) or ((*origin, ONLY),)
            return (*groups[min(place[3], len(groups) - 1)], *place[4:])
        return (*origin, *place[2:])


class _Around(NamedTuple):
    """The blocks around a step."""

    only: tuple[Any, ...] = ()
    only_places: tuple[Place, ...] = ()
    repeated: bool = False
    unit: Unit | None = None


class _WrongBlockError(Exception):
    """A block is malformed."""

    def __init__(self, place: Place, words: str) -> None:
        super().__init__(words)
        self.place = place
        self.words = words


def rolled_out(document: Mapping[Any, Any]) -> tuple[dict[Any, Any], Origins, list[Any]]:
    """The document with each block replaced by its steps.

    Returns:
        The document; where its steps come from; what is wrong, as (place, words).
    """
    made, origins = dict(document), Origins()
    problems: list[tuple[Place, str]] = []
    for part in PARTS:
        given = document.get(part)
        if not isinstance(given, list) or not any(_is_block(one) for one in given):
            continue
        rolling = _Rolling(part, origins)
        for at, one in enumerate(given):
            try:
                rolling.take(one, (part, at), _Around())
            except _WrongBlockError as error:
                problems.append((error.place, error.words))
        made[part] = rolling.steps
    return made, origins, problems


class _Rolling:
    """One list of steps, while it is rolled out."""

    def __init__(self, part: str, origins: Origins) -> None:
        self.steps: list[Any] = []
        self._part = part
        self._origins = origins
        self._blocks = 0

    def take(self, one: Any, place: Place, around: _Around) -> None:
        """A step, or the steps of a block.

        Raises:
            _WrongBlockError: A block is none.
        """
        if not _is_block(one):
            self._step(one, place, around)
            return
        holds = ANY_ORDER if ANY_ORDER in one else STEPS
        _see(place, one, holds, around)
        if ONLY in one:
            around = around._replace(
                only=(*around.only, one[ONLY]), only_places=(*around.only_places, (*place, ONLY))
            )
        turns = one.get(REPEAT, 1)
        around = around._replace(repeated=around.repeated or REPEAT in one)
        for turn in range(1, turns + 1):
            self._blocks += 1
            block = self._blocks  # others may stand in it
            for inner, step in enumerate(one[holds]):
                if holds == ANY_ORDER:
                    around = around._replace(unit=Unit(block, inner))
                in_turn = _in_turn(step, str(turn)) if REPEAT in one else step
                self.take(in_turn, (*place, holds, inner), around)

    def _step(self, step: Any, place: Place, around: _Around) -> None:
        if len(self.steps) == COUNT_MAX:
            words = f"a story has at most {COUNT_MAX} steps, repeated ones included"
            raise _WrongBlockError(place, words)
        if around.only and isinstance(step, dict):
            groups, places = list(around.only), list(around.only_places)
            if ONLY in step:
                groups.append(step[ONLY])
                places.append((*place, ONLY))
            step = {**step, ONLY: [one if isinstance(one, list) else [one] for one in groups]}
            self._origins.note(self._part, len(self.steps), place, tuple(places))
        else:
            self._origins.note(self._part, len(self.steps), place, ())
        if around.unit is not None:
            self._origins.units[self._part, len(self.steps)] = around.unit
        self.steps.append(step)


def _is_block(step: object) -> bool:
    return isinstance(step, dict) and not step.keys().isdisjoint((REPEAT, STEPS, ANY_ORDER))


def _see(place: Place, given: Mapping[Any, Any], holds: str, around: _Around) -> None:
    """See that a block is one."""
    for name in given:
        if name != holds and name not in BESIDE[holds]:
            words = (
                f"a block has {holds}, beside it {' and '.join(BESIDE[holds])}, and nothing else"
            )
            raise _WrongBlockError((*place, str(name)), words)
    steps = given.get(holds)
    if REPEAT in given:
        times = given[REPEAT]
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise _WrongBlockError((*place, REPEAT), "expected how many times, from 1 on")
        if around.repeated:
            raise _WrongBlockError((*place, REPEAT), "a repeat can't stand in another one")
        if not isinstance(steps, list) or not steps:
            words = "expected steps beside it: {repeat: 3, steps: [...]}"
            raise _WrongBlockError((*place, REPEAT), words)
    if not isinstance(steps, list) or not steps:
        raise _WrongBlockError((*place, holds), "expected a list of steps")
    if holds == STEPS and given.keys() == {STEPS}:
        raise _WrongBlockError((*place, STEPS), "expected repeat or only beside it")
    if holds == ANY_ORDER and around.unit is not None:
        raise _WrongBlockError((*place, ANY_ORDER), "it can't stand in another one")


def _in_turn(value: Any, turn: str) -> Any:
    """A copy with the number of the turn wherever ``{n}`` stands."""
    if isinstance(value, str):
        return value.replace(TURN, turn)
    if isinstance(value, dict):
        return {key: _in_turn(one, turn) for key, one in value.items()}
    if isinstance(value, list):
        return [_in_turn(one, turn) for one in value]
    return value
