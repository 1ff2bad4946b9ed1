"""Takes the wrong parts out of a story, so that one reading finds all of its mistakes.

The model checks fields, ``scenario_reader`` the names that steps use. If a field is wrong there is
no model, and names could not be checked. So the smallest wrong part is taken out, and errors that
only follow from its absence are not reported. This module knows the shape of a story, not its
content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

DocumentPath = tuple[int | str, ...]
"""Path of keys and list indices from the top of the document."""
Complaint = tuple[DocumentPath, str]

ROUNDS_MAX: Final = 20
"""Limit of passes over a document: wrong parts may be nested this deep."""
_PLAIN_RUN: Final = {"mode": "V-", "verdict": "healthy"}
_PLAIN_DECLARATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "runs": _PLAIN_RUN,
    "topics": {"partitions": 100},
    "actors": {"plays": "wire"},
}
"""Replaces a wrong mode, verdict, partition count or player: later steps still know the label."""
_PLAIN_STEP: Final = {"advance": "1ms"}
"""A step that uses no names."""
_SCENARIO_SKELETON: Final[Mapping[str, Any]] = {
    "name": "name", "title": "title", "goal": "goal", "method": "method",
    "topics": {"topic": {"partitions": 1}},
    "actors": {},
    "runs": {"V-": _PLAIN_RUN},
    "steps": [_PLAIN_STEP],
}  # fmt: skip
_DECLARING_FIELDS: Final = frozenset({"id", "background", "generation", "topic"})
"""Fields of a step that declare a name for later steps."""


class Pruning:
    """Takes wrong parts out of a document.

    Args:
        document: A story, as parsed from YAML; it is not changed.
    """

    def __init__(self, document: Mapping[Any, Any]) -> None:
        self.document = _copy_yaml(document)
        self._removed_paths: set[DocumentPath] = set()
        self._removed_names: set[str] = set()
        """Names that the removed parts had declared."""
        self._unchecked_actors: set[str] = set()
        """Actors whose ``plays`` is wrong: their calls are not checked."""
        self._lacks_declarations = False

    def remove_fields(self, complaints: Iterable[Complaint]) -> list[Complaint]:
        """Remove every wrong field or step.

        Returns:
            The complaints, without those that follow from an earlier removal.
        """
        new_complaints = []
        for path, message in complaints:
            hyphenated_path = tuple(_with_hyphens(key) for key in path)
            if not any(
                _is_within(hyphenated_path, removed_path) for removed_path in self._removed_paths
            ):
                new_complaints.append((path, message))
            self._remove_path(hyphenated_path)
        return new_complaints

    def follows(self, path: DocumentPath, message: str) -> bool:
        """Whether a complaint follows from the removal of a step or a run."""
        if self._lacks_declarations or any(
            f"{removed_name!r}" in message for removed_name in self._removed_names
        ):
            return True
        if any(
            _is_within(tuple(map(_with_hyphens, path)), removed_path)
            for removed_path in self._removed_paths
        ):
            return True
        match path:
            case (("steps" | "cure") as part, int(index), "call", *_):
                return self.document[part][index]["call"].get("who") in self._unchecked_actors
            case _:
                return False

    def _remove_path(self, path: DocumentPath) -> None:
        removed_path = path[:3]
        while removed_path in self._removed_paths and len(removed_path) > 1:
            removed_path = removed_path[:-1]
        self._removed_paths.add(removed_path)
        match removed_path:
            case (("steps" | "cure") as part, int(index), *keys):
                self._remove_from_step(part, index, keys)
            case (str(part), name, *keys) if isinstance(self.document.get(part), dict):
                self._remove_from_declaration(part, str(name), keys)
            case (str(part), *_):
                self.document.pop(_key_of(self.document, part), None)
                if part in _SCENARIO_SKELETON:
                    self.document[part] = _copy_yaml(_SCENARIO_SKELETON[part])
                    self._lacks_declarations |= part in ("topics", "actors", "runs", "steps")
            case _:
                self._lacks_declarations = True

    def _remove_from_declaration(self, part: str, name: str, keys: Sequence[Any]) -> None:
        """Remove a wrong field of a declaration; the name itself stays declared, since steps use
        it.
        """
        defaults = _PLAIN_DECLARATIONS.get(part, {})
        declaration = self.document[part].get(name)
        if keys and isinstance(declaration, dict):
            declaration.pop(_key_of(declaration, keys[0]), None)
            if keys[0] == "partitions":
                declaration.pop("leaders", None)
            declaration.update(
                {key: value for key, value in defaults.items() if key not in declaration}
            )
        elif defaults:
            self.document[part][name] = dict(defaults)
        else:
            self.document[part].pop(name, None)
        if part == "actors" and (not keys or keys[0] == "plays"):
            self._unchecked_actors.add(name)

    def _remove_from_step(self, part: str, index: int, keys: Sequence[Any]) -> None:
        steps = self.document.get(part)
        if not isinstance(steps, list) or index >= len(steps):
            return
        step = steps[index]
        key = _key_of(step, keys[0]) if keys and isinstance(step, dict) else None
        if key is None:
            self._removed_names |= _declared_names(step)
            steps[index] = dict(_PLAIN_STEP)
        else:
            self._removed_names |= _declared_names(step.pop(key))
            if not step.keys() - {"only", "say"}:
                step.update(_PLAIN_STEP)


def complaints_of(
    document: Mapping[Any, Any],
    validate: Callable[[Mapping[Any, Any]], tuple[Any, list[Complaint]]],
    check_names: Callable[[Any], Iterable[Complaint]],
) -> list[Complaint]:
    """Find every mistake of a document with wrong fields.

    Args:
        document: The parsed YAML.
        validate: Gives the model of a document, or what is wrong with its fields.
        check_names: Says what is wrong with the names in a model.
    """
    pruning = Pruning(document)
    complaints: list[Complaint] = []
    for _ in range(ROUNDS_MAX):
        model, field_complaints = validate(pruning.document)
        if not field_complaints:
            name_complaints = (
                complaint for complaint in check_names(model) if not pruning.follows(*complaint)
            )
            return [*complaints, *name_complaints]
        complaints += pruning.remove_fields(field_complaints)
    return complaints


def _is_within(path: DocumentPath, other_path: DocumentPath) -> bool:
    """Whether one of two paths begins with the other: ``runs.V-`` and ``runs.V-.mode``."""
    shorter_length = min(len(path), len(other_path))
    return path[:shorter_length] == other_path[:shorter_length]


def _declared_names(step_part: Any) -> set[str]:
    if isinstance(step_part, dict):
        names_here = {str(value) for key, value in step_part.items() if key in _DECLARING_FIELDS}
        return names_here.union(*(_declared_names(value) for value in step_part.values()))
    return set()


def _key_of(mapping: Mapping[Any, Any], key: Any) -> Any:
    """The key of a field, however it is spelled (``wait_until``, ``wait-until``); None if
    missing.
    """
    return next((field_name for field_name in mapping if _with_hyphens(field_name) == key), None)


def _with_hyphens(key: Any) -> Any:
    return key.rstrip("_").replace("_", "-") if isinstance(key, str) else key


def _copy_yaml(yaml_value: Any) -> Any:
    """Copies nested mappings and lists."""
    if isinstance(yaml_value, dict):
        return {key: _copy_yaml(inner_value) for key, inner_value in yaml_value.items()}
    return (
        [_copy_yaml(inner_value) for inner_value in yaml_value]
        if isinstance(yaml_value, list)
        else yaml_value
    )
