"""What crosses from the broker's package to the two others: a face that each package chose."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from tests.test_tidy import module_of, python_files, source

CROSSING_MAX: Final = 299
"""Names of ``txnsim`` that the lab and Spark take. It may only fall: a reader asks for fewer and
larger things, or what one side alone uses moves there."""


def crossing_names() -> frozenset[tuple[str, str]]:
    """(module, name) of what the lab and Spark import from ``txnsim``; of an imported module, each
    attribute that is used.
    """
    modules = {module_of(name) for name in python_files("sim")}
    found: set[tuple[str, str]] = set()
    for name in python_files("sim"):
        if module_of(name).split(".")[0] == "txnsim":
            continue
        nodes = list(ast.walk(ast.parse(source(name))))
        for node in nodes:
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] != "txnsim":
                continue
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                used = _attributes_of(alias.asname or alias.name, nodes) if whole in modules else ()
                found |= {(whole, one) for one in used} or {(node.module, alias.name)}
    return frozenset(found)


def _attributes_of(module: str, nodes: Iterable[ast.AST]) -> set[str]:
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    }


def test_no_more_names_cross_from_the_broker_to_the_lab_and_spark() -> None:
    found = crossing_names()
    assert ("txnsim.client.admin", "Admin") in found
    assert ("txnsim.storage.names", "Suffix") in found, "an attribute of an imported module"
    assert len(found) <= CROSSING_MAX, "ask for fewer and larger things, or move what one side uses"
    assert len(found) == CROSSING_MAX, f"lower CROSSING_MAX to {len(found)}"
