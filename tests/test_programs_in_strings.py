"""Programs that tests keep as text name what exists: no tool that renames looks into them."""

from __future__ import annotations

import ast
import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tests.support.alone import ROOT

OURS = ("txnsim", "tests")
FOLDERS = ("tests", "benchmarks", "helpers")


def program_texts(path: Path) -> Iterator[str]:
    """Strings of a file that are programs with imports of ours."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = textwrap.dedent(node.value)
            if "import" in text and any(name in text for name in OURS):
                yield text


def absent_names(program_text: str) -> Iterator[str]:
    """What a program imports of ours, or asks of an imported module, and does not find there; none
    if the text is no program.
    """
    try:
        program_tree = ast.parse(program_text)
    except SyntaxError:
        return
    module_by_name: dict[str, ModuleType] = {}
    for node in ast.walk(program_tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(OURS):
                    module_by_name[alias.asname or alias.name] = importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS):
            for alias in node.names:
                member = _member(importlib.import_module(node.module or ""), alias.name)
                if member is None:
                    yield f"{node.module}.{alias.name}"
                elif isinstance(member, ModuleType):
                    module_by_name[alias.asname or alias.name] = member
    for node in ast.walk(program_tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = module_by_name.get(node.value.id)
            if module is not None and _member(module, node.attr) is None:
                yield f"{module.__name__}.{node.attr}"


def _member(module: ModuleType, name: str) -> object:
    """What a module has under a name, or its module of that name; None if there is neither."""
    if hasattr(module, name):
        return getattr(module, name)
    try:
        return importlib.import_module(f"{module.__name__}.{name}")
    except ImportError:
        return None


def test_programs_in_strings_name_what_exists() -> None:
    texts = {
        (path.relative_to(ROOT).as_posix(), text)
        for folder_path in FOLDERS
        for path in (ROOT / folder_path).rglob("*.py")
        if path != Path(__file__)
        for text in program_texts(path)
    }
    assert len(texts) > 10
    assert [(path, name) for path, text in sorted(texts) for name in absent_names(text)] == []


def test_an_old_name_is_noticed() -> None:
    program = "from txnsim_lab import campaigns\nfrom txnsim.types import Nothing\ncampaigns._old()"
    assert [*absent_names(program)] == ["txnsim.types.Nothing", "txnsim_lab.campaigns._old"]
