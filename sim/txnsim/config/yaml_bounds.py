"""YAML that can't take more time or memory than its size suggests.

An alias stands for a whole part of the document, so a few hundred bytes can mean millions of
values. This module bounds the size of the text, how deep it is nested, and how many values and
characters it has with each alias counted at full size. A part that exceeds a bound is refused while
it is read; the error names its line and the bound.

PyYAML's values have no lines, and of repeated keys only the last, so ``read_mapping`` takes both
from its node tree.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import yaml

from txnsim.errors import ConfigError, in_short

BYTES_MAX: Final = 262_144
"""Limit of a text, and of its scalars with each alias counted at full size. The longest scenario of
txnsim has 5 kB.
"""
VALUES_MAX: Final = 20_000
"""Limit of keys, scalars, lists and mappings together, with each alias counted at full size."""
DEPTH_MAX: Final = 50
NUMBER_DIGITS_MAX: Final = 400
"""No float has more digits; Python refuses whole numbers of more than 4,300."""

HAS_LIBYAML: Final = bool(yaml.__with_libyaml__)
"""Whether PyYAML was built with libyaml, as its wheels are."""

_NUMBER_TAGS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

_Extent = tuple[int, int, int]
"""The size of a node: number of values, levels and characters, with aliases at full size."""


class BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader with bounds; its input must be a text of bounded size."""

    def __init__(self, text: str | bytes, *, file: str) -> None:
        super().__init__(text)
        self._file = file
        self._depth = 0
        self._extents: dict[yaml.Node, _Extent] = {}

    def compose_node(self, parent: yaml.Node | None, child_index: Any) -> yaml.Node | None:
        """The next node; the target of an alias is counted again."""
        start_mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # types-pyyaml
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        self._check_limit("levels", self._depth, DEPTH_MAX, start_mark)
        node = super().compose_node(parent, child_index)
        self._depth -= 1
        assert node is not None
        if not is_alias:
            self._extents[node] = self._extent_of(node)
        elif node not in self._extents:
            raise self._yaml_error("it contains itself", start_mark)
        value_count, level_count, character_count = self._extents[node]
        self._check_limit("levels", self._depth + level_count, DEPTH_MAX, start_mark)
        self._check_limit(
            "values, counting aliases as what they stand for,", value_count, VALUES_MAX, start_mark
        )
        self._check_limit(
            "characters, counting aliases likewise,", character_count, BYTES_MAX, start_mark
        )
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's
        """The value of a node; a Python error is reported with the node's line."""
        if node.tag in _NUMBER_TAGS and len(node.value) > NUMBER_DIGITS_MAX:
            raise self._yaml_error(
                f"a number of {len(node.value)} characters, at most {NUMBER_DIGITS_MAX} are read",
                node.start_mark,
            )
        try:
            return super().construct_object(node, deep=deep)
        except (ArithmeticError, AttributeError, LookupError, ValueError):
            # PyYAML passes on what Python says of a month 13 or an empty number.
            yaml_type = node.tag.rpartition(":")[2]
            raise self._yaml_error(
                f"{in_short(node.value)} is no {yaml_type}", node.start_mark
            ) from None

    def _extent_of(self, node: yaml.Node) -> _Extent:
        if isinstance(node, yaml.ScalarNode):
            return 1, 1, len(node.value)
        child_nodes = node.value
        if isinstance(node, yaml.MappingNode):
            child_nodes = [child for key_and_value in node.value for child in key_and_value]
        extents = [self._extents[child] for child in child_nodes]
        return (
            1 + sum(value_count for value_count, _, _ in extents),
            1 + max((level_count for _, level_count, _ in extents), default=0),
            sum(character_count for _, _, character_count in extents),
        )

    def _check_limit(self, noun: str, number: int, limit: int, mark: yaml.Mark) -> None:
        if number > limit:
            raise self._yaml_error(f"more than {limit} {noun} are not read", mark)

    def _yaml_error(self, problem: str, mark: yaml.Mark) -> ConfigError:
        return ConfigError(f"{self._file}:{mark.line + 1}: {problem}")


class _CompiledLoader(BoundedLoader):
    """Like ``BoundedLoader``, with the events of libyaml, which parses ten times as fast."""

    def __init__(self, text: str | bytes, *, file: str) -> None:
        super().__init__("", file=file)
        self._events = yaml.CSafeLoader(text)

    def check_event(self, *choices: Any) -> bool:
        """Whether the next event is of one of the kinds; without kinds, whether one exists."""
        return bool(self._events.check_event(*choices))

    def peek_event(self) -> Any:
        """The next event, which stays in the stream."""
        return self._events.peek_event()

    def get_event(self) -> Any:
        """The next event, removed from the stream."""
        return self._events.get_event()


def compose_document(
    yaml_text: str | bytes, *, file: str
) -> tuple[BoundedLoader, yaml.Node | None]:
    """The loader, and the root of the only document in ``yaml_text``; None for an empty text.

    libyaml reads it if PyYAML has it. A text that libyaml refuses is read again by PyYAML itself,
    so that errors have the same words everywhere.

    Raises:
        ConfigError: The text is too large, or exceeds another bound.
        yaml.YAMLError: The text is no YAML.
    """
    byte_count = (
        len(yaml_text)
        if isinstance(yaml_text, bytes)
        else len(yaml_text.encode("utf-8", "surrogatepass"))
    )
    if byte_count > BYTES_MAX:
        raise ConfigError(f"{file}:1: {byte_count} bytes, at most {BYTES_MAX} are read")
    if HAS_LIBYAML:
        with suppress(yaml.YAMLError, UnicodeEncodeError):  # said below, after a second reading
            compiled_loader = _CompiledLoader(yaml_text, file=file)
            return compiled_loader, compiled_loader.get_single_node()
    loader = BoundedLoader(yaml_text, file=file)
    return loader, loader.get_single_node()


def read_mapping(
    yaml_bytes: bytes, *, file: str
) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """The document and, for each path of keys in it, its line counted from 1.

    Raises:
        ConfigError: No YAML, more than ``yaml_bounds`` allows, no mapping at the top level, a key
            that is not text, or a repeated key.
    """
    try:
        composed_document, node = compose_document(yaml_bytes, file=file)
        if node is None:
            return {}, {}
        line_by_path: dict[tuple[str, ...], int] = {}
        _collect_lines(node, (), line_by_path, file)
        document_value = composed_document.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}:1: no YAML: {error}") from None
    if not isinstance(document_value, dict):
        raise ConfigError(f"{file}:1: expected a mapping, found {type(document_value).__name__}")
    return document_value, line_by_path


def _collect_lines(
    node: yaml.Node, path: tuple[str, ...], line_by_path: dict[tuple[str, ...], int], file: str
) -> None:
    if isinstance(node, yaml.SequenceNode):
        for position, child_node in enumerate(node.value):
            _collect_lines(child_node, (*path, str(position)), line_by_path, file)
    if not isinstance(node, yaml.MappingNode):
        return
    for key_node, value_node in node.value:
        line_number = key_node.start_mark.line + 1
        if key_node.tag != "tag:yaml.org,2002:str":
            raise ConfigError(
                f"{file}:{line_number}: {key_node.value}: a key must be text; put it in quotes"
            )
        key_path = (*path, str(key_node.value))
        if key_path in line_by_path:
            raise ConfigError(
                f"{file}:{line_number}: {'.'.join(key_path)}: given twice, first on line"
                f" {line_by_path[key_path]}"
            )
        line_by_path[key_path] = line_number
        _collect_lines(value_node, key_path, line_by_path, file)
