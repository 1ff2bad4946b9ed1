"""Blocks of steps: ``repeat: N`` plays them N times, ``only`` restricts all of them, ``any-order``
plays its parts in an order that the seed draws. Blocks are expanded into single steps before the
models read the file, so no other module knows blocks. Errors still name the line and the field in
the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from txnsim_lab.scenario.steps_model import COUNT_MAX

DocumentPath = tuple[int | str, ...]
STEP_LISTS: Final = ("steps", "cure")
REPEAT_KEY: Final = "repeat"
ONLY_KEY: Final = "only"
ANY_ORDER_KEY: Final = "any-order"
STEPS_KEY: Final = "steps"
REPETITION_PLACEHOLDER: Final = "{n}"
"""Placeholder for the number of the turn, from 1 on."""
KEYS_BESIDE: Final = {STEPS_KEY: (REPEAT_KEY, ONLY_KEY), ANY_ORDER_KEY: (ONLY_KEY,)}
"""Key of a block's steps -> keys that may stand next to it."""


class StepGroup(NamedTuple):
    """One part of an ``any-order`` block; its steps keep their order."""

    block: int
    part: int


class StepOrigins:
    """The place in the file of each step of the expanded document."""

    def __init__(self) -> None:
        self._path_by_step: dict[tuple[str, int], DocumentPath] = {}
        self._only_paths_by_step: dict[tuple[str, int], tuple[DocumentPath, ...]] = {}
        self.units: dict[tuple[str, int], StepGroup] = {}
        """The ``any-order`` block and part of each step that stands in one."""

    def note(
        self, part: str, index: int, path_in_file: DocumentPath, only: tuple[DocumentPath, ...]
    ) -> None:
        self._path_by_step[part, index] = path_in_file
        self._only_paths_by_step[part, index] = only

    def place_in_file(self, path: DocumentPath) -> DocumentPath:
        """The path in the file for a path in the expanded document; the same if no block was
        expanded.
        """
        if len(path) < 2 or not isinstance(path[1], int):
            return path
        step = (str(path[0]), path[1])
        origin = self._path_by_step.get(step, path[:2])
        if path[2:3] == (ONLY_KEY,) and len(path) > 3 and isinstance(path[3], int):
            only_places = self._only_paths_by_step.get(step) or ((*origin, ONLY_KEY),)
            return (*only_places[min(path[3], len(only_places) - 1)], *path[4:])
        return (*origin, *path[2:])


class _EnclosingBlocks(NamedTuple):
    """The ``repeat``, ``only`` and ``any-order`` of the blocks that enclose a step."""

    only: tuple[Any, ...] = ()
    only_places: tuple[DocumentPath, ...] = ()
    repeated: bool = False
    unit: StepGroup | None = None


class _WrongBlockError(Exception):
    """A block is malformed."""

    def __init__(self, path: DocumentPath, message: str) -> None:
        super().__init__(message)
        self.place = path
        self.words = message


def unroll_blocks(document: Mapping[Any, Any]) -> tuple[dict[Any, Any], StepOrigins, list[Any]]:
    """Replace each block of a document by its steps.

    Returns:
        The document; where its steps come from; what is wrong, as (path, message).
    """
    unrolled, origins = dict(document), StepOrigins()
    problems: list[tuple[DocumentPath, str]] = []
    for part in STEP_LISTS:
        steps = document.get(part)
        if not isinstance(steps, list) or not any(_is_block(step) for step in steps):
            continue
        unroller = _Unroller(part, origins)
        for index, step in enumerate(steps):
            try:
                unroller.take(step, (part, index), _EnclosingBlocks())
            except _WrongBlockError as error:
                problems.append((error.place, error.words))
        unrolled[part] = unroller.steps
    return unrolled, origins, problems


class _Unroller:
    """Expands one list of steps."""

    def __init__(self, part: str, origins: StepOrigins) -> None:
        self.steps: list[Any] = []
        self._steps_key = part
        self._origins = origins
        self._block_count = 0

    def take(
        self, step_or_block: Any, path: DocumentPath, enclosing_blocks: _EnclosingBlocks
    ) -> None:
        """Add a step, or the steps of a block.

        Raises:
            _WrongBlockError: A block is malformed.
        """
        if not _is_block(step_or_block):
            self._add_step(step_or_block, path, enclosing_blocks)
            return
        list_key = ANY_ORDER_KEY if ANY_ORDER_KEY in step_or_block else STEPS_KEY
        _check_block(path, step_or_block, list_key, enclosing_blocks)
        if ONLY_KEY in step_or_block:
            enclosing_blocks = enclosing_blocks._replace(
                only=(*enclosing_blocks.only, step_or_block[ONLY_KEY]),
                only_places=(*enclosing_blocks.only_places, (*path, ONLY_KEY)),
            )
        repeat_count = step_or_block.get(REPEAT_KEY, 1)
        enclosing_blocks = enclosing_blocks._replace(
            repeated=enclosing_blocks.repeated or REPEAT_KEY in step_or_block
        )
        for repetition_number in range(1, repeat_count + 1):
            self._block_count += 1
            block_number = self._block_count  # others may stand in it
            for step_index, step in enumerate(step_or_block[list_key]):
                if list_key == ANY_ORDER_KEY:
                    enclosing_blocks = enclosing_blocks._replace(
                        unit=StepGroup(block_number, step_index)
                    )
                numbered_step = (
                    _fill_repetition(step, str(repetition_number))
                    if REPEAT_KEY in step_or_block
                    else step
                )
                self.take(numbered_step, (*path, list_key, step_index), enclosing_blocks)

    def _add_step(self, step: Any, path: DocumentPath, enclosing_blocks: _EnclosingBlocks) -> None:
        if len(self.steps) == COUNT_MAX:
            message = f"a story has at most {COUNT_MAX} steps, repeated ones included"
            raise _WrongBlockError(path, message)
        if enclosing_blocks.only and isinstance(step, dict):
            word_groups, only_places = (
                list(enclosing_blocks.only),
                list(enclosing_blocks.only_places),
            )
            if ONLY_KEY in step:
                word_groups.append(step[ONLY_KEY])
                only_places.append((*path, ONLY_KEY))
            step = {
                **step,
                ONLY_KEY: [
                    word_group if isinstance(word_group, list) else [word_group]
                    for word_group in word_groups
                ],
            }
            self._origins.note(self._steps_key, len(self.steps), path, tuple(only_places))
        else:
            self._origins.note(self._steps_key, len(self.steps), path, ())
        if enclosing_blocks.unit is not None:
            self._origins.units[self._steps_key, len(self.steps)] = enclosing_blocks.unit
        self.steps.append(step)


def _is_block(step: object) -> bool:
    return isinstance(step, dict) and not step.keys().isdisjoint(
        (REPEAT_KEY, STEPS_KEY, ANY_ORDER_KEY)
    )


def _check_block(
    path: DocumentPath,
    block_fields: Mapping[Any, Any],
    list_key: str,
    enclosing_blocks: _EnclosingBlocks,
) -> None:
    """Checks that a block is well-formed; raises ``_WrongBlockError`` if not."""
    for field_name in block_fields:
        if field_name != list_key and field_name not in KEYS_BESIDE[list_key]:
            further_keys = " and ".join(KEYS_BESIDE[list_key])
            message = f"a block has {list_key}, beside it {further_keys}, and nothing else"
            raise _WrongBlockError((*path, str(field_name)), message)
    steps = block_fields.get(list_key)
    if REPEAT_KEY in block_fields:
        repeat_count = block_fields[REPEAT_KEY]
        if not isinstance(repeat_count, int) or isinstance(repeat_count, bool) or repeat_count < 1:
            raise _WrongBlockError((*path, REPEAT_KEY), "expected how many times, from 1 on")
        if enclosing_blocks.repeated:
            raise _WrongBlockError((*path, REPEAT_KEY), "a repeat can't stand in another one")
        if not isinstance(steps, list) or not steps:
            message = "expected steps beside it: {repeat: 3, steps: [...]}"
            raise _WrongBlockError((*path, REPEAT_KEY), message)
    if not isinstance(steps, list) or not steps:
        raise _WrongBlockError((*path, list_key), "expected a list of steps")
    if list_key == STEPS_KEY and block_fields.keys() == {STEPS_KEY}:
        raise _WrongBlockError((*path, STEPS_KEY), "expected repeat or only beside it")
    if list_key == ANY_ORDER_KEY and enclosing_blocks.unit is not None:
        raise _WrongBlockError((*path, ANY_ORDER_KEY), "it can't stand in another one")


def _fill_repetition(step_part: Any, repetition: str) -> Any:
    """A copy in which the number of the repetition replaces each ``{n}``."""
    if isinstance(step_part, str):
        return step_part.replace(REPETITION_PLACEHOLDER, repetition)
    if isinstance(step_part, dict):
        return {
            key: _fill_repetition(inner_part, repetition) for key, inner_part in step_part.items()
        }
    if isinstance(step_part, list):
        return [_fill_repetition(inner_part, repetition) for inner_part in step_part]
    return step_part
