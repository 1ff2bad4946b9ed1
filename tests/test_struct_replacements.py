"""``msgspec.structs.replace`` names fields that the struct has.

mypy takes any keyword there, so a renamed field is met only when the line runs. Here mypy says what
is replaced (``reveal_type``), in a copy of the packages, and the fields are compared.
"""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = "sim"
TYPE_VARIABLES: Final = frozenset({"SubscribingT"})
"""Types that are no class; each is bound to structs with the fields that are replaced."""
_REVEALED: Final = re.compile(
    r'^(\S+?):(\d+)(?::\d+)?: note: Revealed type is "(.*)"$', re.MULTILINE
)
_CLASS: Final = re.compile(r"[\w.]+")

Place = tuple[str, int]
"""A file, and a line of it."""


def replace_calls(module: ast.Module) -> Iterator[ast.Call]:
    """The calls of ``msgspec.structs.replace`` in a module."""
    direct_names = {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == "msgspec.structs"
        for alias in node.names
        if alias.name == "replace"
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = ast.unparse(node.func)
        if name in direct_names or name in ("msgspec.structs.replace", "structs.replace"):
            yield node


def reveal_replaced(source_file: Path) -> dict[int, list[frozenset[str]]]:
    """Put ``reveal_type`` around what the calls of a file replace; returns line -> the fields that
    its calls name.
    """
    source = source_file.read_text()
    if "replace(" not in source:
        return {}
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    fields_by_line = defaultdict(list)
    calls = sorted(
        replace_calls(ast.parse(source)),
        key=lambda call: (call.args[0].lineno, call.args[0].col_offset),
        reverse=True,
    )
    for call in calls:
        replaced = call.args[0]
        assert replaced.end_lineno is not None
        for line_number, column, inserted in (
            (replaced.end_lineno, replaced.end_col_offset, b")"),
            (replaced.lineno, replaced.col_offset, b"reveal_type("),
        ):
            line = lines[line_number - 1]
            lines[line_number - 1] = line[:column] + inserted + line[column:]
        fields = frozenset(keyword.arg for keyword in call.keywords if keyword.arg is not None)
        fields_by_line[replaced.lineno].append(fields)
    source_file.write_bytes(b"".join(lines))
    return fields_by_line


def struct_fields(revealed_type: str) -> frozenset[str] | None:
    """The fields of the struct that mypy names, those of all of a union; None if it names none."""
    fields: set[str] = set()
    is_struct = False
    for class_name in _CLASS.findall(revealed_type):
        module_name, _, name = class_name.rpartition(".")
        if not module_name.startswith("txnsim"):
            continue
        struct = getattr(importlib.import_module(module_name), name, None)
        if hasattr(struct, "__struct_fields__"):
            is_struct = True
            fields.update(struct.__struct_fields__)
    return frozenset(fields) if is_struct else None


def wrong_replacements(folder: Path) -> tuple[list[str], int]:
    """What is wrong in a copy of the packages, and how many replacements were looked at."""
    fields_by_place: dict[Place, list[frozenset[str]]] = {}
    for source_file in sorted((folder / PACKAGES).rglob("*.py")):
        for line_number, fields in reveal_replaced(source_file).items():
            fields_by_place[source_file.relative_to(folder).as_posix(), line_number] = fields
    finished = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", PACKAGES],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    types_by_place: dict[Place, list[str]] = defaultdict(list)
    for file_name, line_number, revealed_type in _REVEALED.findall(finished.stdout):
        types_by_place[file_name, int(line_number)].append(revealed_type)
    complaints = []
    for place, named_fields in fields_by_place.items():
        revealed_types = types_by_place.get(place, [])
        known_fields = [struct_fields(revealed_type) for revealed_type in revealed_types]
        if not revealed_types:
            complaints.append(f"{place}: mypy does not say what is replaced: {finished.stderr}")
        for fields in named_fields:
            if not any(known is None or fields <= known for known in known_fields):
                complaints.append(f"{place}: {sorted(fields)} of {revealed_types}")
        complaints += [
            f"{place}: {revealed_type} is no struct"
            for revealed_type, known in zip(revealed_types, known_fields, strict=True)
            if known is None and TYPE_VARIABLES.isdisjoint(_CLASS.findall(revealed_type))
        ]
    return complaints, sum(map(len, fields_by_place.values()))


@pytest.mark.costly
def test_a_struct_has_each_field_that_is_replaced(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / PACKAGES, tmp_path / PACKAGES, ignore=shutil.ignore_patterns("__pycache__", "static")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    complaints, replacement_count = wrong_replacements(tmp_path)
    assert complaints == []
    assert replacement_count > 300


def test_a_field_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / PACKAGES).mkdir()
    (tmp_path / PACKAGES / "planted.py").write_text(
        "import msgspec\n"
        "from txnsim.types import ProducerIdAndEpoch\n"
        "def after(identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch:\n"
        "    return msgspec.structs.replace(identity, epoch=1)\n"
    )
    complaints, _ = wrong_replacements(tmp_path)
    assert complaints == ["('sim/planted.py', 4): ['epoch'] of ['txnsim.types.ProducerIdAndEpoch']"]
