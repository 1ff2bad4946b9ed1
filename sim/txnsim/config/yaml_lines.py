"""A YAML document as plain values, together with the line of each key.

PyYAML keeps neither lines nor repeated keys once values are built, so both are read off its node
tree first.
"""

from __future__ import annotations

from typing import Any

import yaml

from txnsim.config.yaml_bounds import composed
from txnsim.errors import ConfigError


def read_mapping(data: bytes, *, file: str) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """The document and, for each path of keys in it, its line counted from 1.

    Raises:
        ConfigError: No YAML, more than ``yaml_bounds`` allows, no mapping at the top, a key that is
            no text, or a key given twice.
    """
    try:
        bounded, node = composed(data, file=file)
        if node is None:
            return {}, {}
        lines: dict[tuple[str, ...], int] = {}
        _collect(node, (), lines, file)
        content = bounded.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}:1: no YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file}:1: expected a mapping, found {type(content).__name__}")
    return content, lines


def _collect(
    node: yaml.Node, path: tuple[str, ...], lines: dict[tuple[str, ...], int], file: str
) -> None:
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _collect(item, (*path, str(position)), lines, file)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag != "tag:yaml.org,2002:str":
            raise ConfigError(f"{file}:{line}: {key.value}: a key must be text; put it in quotes")
        here = (*path, str(key.value))
        if here in lines:
            raise ConfigError(
                f"{file}:{line}: {'.'.join(here)}: given twice, first on line {lines[here]}"
            )
        lines[here] = line
        _collect(value, here, lines, file)
