"""Blocks of steps: ``repeat: N`` plays them N times, ``only`` restricts all of them, ``any-order``
plays its parts in an order that the seed draws. Blocks are expanded into single steps before the
models read the file, so no other module knows blocks. Errors still name the line and the field in
the file.
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
"""Key of a block's steps -> keys that may stand next to it."""


class StepGroup(NamedTuple):
    """One part of an ``any-order`` block; its steps keep their order."""

    block: int
    part: int


class Origins:
    """For each expanded step: where it stands in the file."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], Place] = {}
        self._only: dict[tuple[str, int], tuple[Place, ...]] = {}
        self.units: dict[tuple[str, int], StepGroup] = {}
        """The ``any-order`` block and part of each step that stands in one."""

    def note(self, part: str, index: int, path: Place, only: tuple[Place, ...]) -> None:
        self._places[part, index] = path
        self._only[part, index] = only

    def place_in_file(self, path: Place) -> Place:
        """The path in the file for a path in the expanded document; the same if no block was
        expanded.
        """
        if len(path) < 2 or not isinstance(path[1], int):
            return path
        step = (str(path[0]), path[1])
        origin = self._places.get(step, path[:2])
        if path[2:3] == (ONLY,) and len(path) > 3 and isinstance(path[3], int):
            only_places = self._only.get(step) or ((*origin, ONLY),)
            return (*only_places[min(path[3], len(only_places) - 1)], *path[4:])
        return (*origin, *path[2:])


class _Around(NamedTuple):
    """The ``repeat``, ``only`` and ``any-order`` of the blocks that enclose a step."""

    only: tuple[Any, ...] = ()
    only_places: tuple[Place, ...] = ()
    repeated: bool = False
    unit: StepGroup | None = None


class _WrongBlockError(Exception):
    """A block is malformed."""

    def __init__(self, path: Place, words: str) -> None:
        super().__init__(words)
        self.place = path
        self.words = words


def rolled_out(document: Mapping[Any, Any]) -> tuple[dict[Any, Any], Origins, list[Any]]:
    """Replace each block of a document by its steps.

    Returns:
        The document; where its steps come from; what is wrong, as (path, message).
    """
    unrolled, origins = dict(document), Origins()
    problems: list[tuple[Place, str]] = []
    for part in PARTS:
        steps = document.get(part)
        if not isinstance(steps, list) or not any(_is_block(step) for step in steps):
            continue
        rolling = _Rolling(part, origins)
        for index, step in enumerate(steps):
            try:
                rolling.take(step, (part, index), _Around())
            except _WrongBlockError as error:
                problems.append((error.place, error.words))
        unrolled[part] = rolling.steps
    return unrolled, origins, problems


class _Rolling:
    """Expands one list of steps."""

    def __init__(self, part: str, origins: Origins) -> None:
        self.steps: list[Any] = []
        self._part = part
        self._origins = origins
        self._blocks = 0

    def take(self, part: Any, path: Place, around: _Around) -> None:
        """Add a step, or the steps of a block.

        Raises:
            _WrongBlockError: A block is malformed.
        """
        if not _is_block(part):
            self._step(part, path, around)
            return
        holds = ANY_ORDER if ANY_ORDER in part else STEPS
        _see(path, part, holds, around)
        if ONLY in part:
            around = around._replace(
                only=(*around.only, part[ONLY]), only_places=(*around.only_places, (*path, ONLY))
            )
        turns = part.get(REPEAT, 1)
        around = around._replace(repeated=around.repeated or REPEAT in part)
        for turn in range(1, turns + 1):
            self._blocks += 1
            block = self._blocks  # others may stand in it
            for inner, step in enumerate(part[holds]):
                if holds == ANY_ORDER:
                    around = around._replace(unit=StepGroup(block, inner))
                in_turn = _in_turn(step, str(turn)) if REPEAT in part else step
                self.take(in_turn, (*path, holds, inner), around)

    def _step(self, step: Any, path: Place, around: _Around) -> None:
        if len(self.steps) == COUNT_MAX:
            words = f"a story has at most {COUNT_MAX} steps, repeated ones included"
            raise _WrongBlockError(path, words)
        if around.only and isinstance(step, dict):
            groups, places = list(around.only), list(around.only_places)
            if ONLY in step:
                groups.append(step[ONLY])
                places.append((*path, ONLY))
            step = {
                **step,
                ONLY: [group if isinstance(group, list) else [group] for group in groups],
            }
            self._origins.note(self._part, len(self.steps), path, tuple(places))
        else:
            self._origins.note(self._part, len(self.steps), path, ())
        if around.unit is not None:
            self._origins.units[self._part, len(self.steps)] = around.unit
        self.steps.append(step)


def _is_block(step: object) -> bool:
    return isinstance(step, dict) and not step.keys().isdisjoint((REPEAT, STEPS, ANY_ORDER))


def _see(path: Place, block: Mapping[Any, Any], holds: str, around: _Around) -> None:
    """Checks that a block is well-formed; raises ``_WrongBlockError`` if not."""
    for name in block:
        if name != holds and name not in BESIDE[holds]:
            words = (
                f"a block has {holds}, beside it {' and '.join(BESIDE[holds])}, and nothing else"
            )
            raise _WrongBlockError((*path, str(name)), words)
    steps = block.get(holds)
    if REPEAT in block:
        times = block[REPEAT]
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise _WrongBlockError((*path, REPEAT), "expected how many times, from 1 on")
        if around.repeated:
            raise _WrongBlockError((*path, REPEAT), "a repeat can't stand in another one")
        if not isinstance(steps, list) or not steps:
            words = "expected steps beside it: {repeat: 3, steps: [...]}"
            raise _WrongBlockError((*path, REPEAT), words)
    if not isinstance(steps, list) or not steps:
        raise _WrongBlockError((*path, holds), "expected a list of steps")
    if holds == STEPS and block.keys() == {STEPS}:
        raise _WrongBlockError((*path, STEPS), "expected repeat or only beside it")
    if holds == ANY_ORDER and around.unit is not None:
        raise _WrongBlockError((*path, ANY_ORDER), "it can't stand in another one")


def _in_turn(value: Any, turn: str) -> Any:
    """A copy in which the number of the repetition replaces each ``{n}``."""
    if isinstance(value, str):
        return value.replace(TURN, turn)
    if isinstance(value, dict):
        return {key: _in_turn(part, turn) for key, part in value.items()}
    if isinstance(value, list):
        return [_in_turn(part, turn) for part in value]
    return value
