"""Single tests out of a Go package's test files, unmodified, with the helpers that they use.

A package's own tests may lean on its inside; those that don't can be compiled in front of another
package of that name. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

_DECLARED: Final = re.compile(
    r"^(?:func (?:\(\w+ \*?(?P<receiver>\w+)(?:\[\w+\])?\) )?(?P<function>\w+)"
    r"|(?:type|var|const) (?P<name>\w+))"
)
_WORD: Final = re.compile(r"(?<![.\w])\w+\b")
_COMMENT: Final = re.compile(r"//.*")
_IMPORT: Final = re.compile(r'^\t(?:(?P<alias>\w+) )?"(?P<path>[^"]+)"$', re.M)


class _Declaration(NamedTuple):
    lines: str
    imports: Mapping[str, str]
    """Of its file: name → line."""


def pick_tests(directory: Path, tests: Iterable[str], *, package: str) -> str:
    """The text of a file with these tests of the ``_test.go`` files there.

    Raises:
        KeyError: There is no such test.
    """
    declarations: dict[str, list[_Declaration]] = {}
    for file in sorted(directory.glob("*_test.go")):
        file_text = file.read_text("utf-8")
        imports = {
            match["alias"] or match["path"].rpartition("/")[2]: match[0]
            for match in _IMPORT.finditer(file_text)
        }
        for name, lines in _declarations(file_text):
            declarations.setdefault(name, []).append(_Declaration(lines, imports))
    chosen_declarations = list(_with_helpers(declarations, tests))
    used_names = {
        import_line
        for declaration in chosen_declarations
        for import_name, import_line in declaration.imports.items()
        if _uses(_COMMENT.sub("", declaration.lines), import_name)
    }
    parts = (
        f"package {package}",
        "import (",
        *sorted(used_names),
        ")",
        *(declaration.lines for declaration in chosen_declarations),
    )
    return "\n".join(parts) + "\n"


def _uses(code: str, name: str) -> bool:
    """Whether the code uses the import of this name, and no variable of the same name."""
    local_definition = re.search(rf"\b{name}\b[\w, ]*:=", code)
    return local_definition is None and re.search(rf"\b{name}\.", code) is not None


def _declarations(text: str) -> Iterator[tuple[str, str]]:
    """The declarations at the left margin as (name, lines). A method has its receiver's name."""
    lines = text.split("\n")
    for first_line, line in enumerate(lines):
        match = _DECLARED.match(line)
        if match is None:
            continue
        last_line = first_line
        if line.endswith(("{", "(")):
            while lines[last_line] not in {"}", ")"}:
                last_line += 1
        name = match["receiver"] or match["function"] or match["name"]
        yield name, "\n".join(lines[first_line : last_line + 1])


def _with_helpers(
    declarations: Mapping[str, list[_Declaration]], tests: Iterable[str]
) -> Iterator[_Declaration]:
    visited_names: set[str] = set()
    pending = sorted(tests, reverse=True)
    while pending:
        name = pending.pop()
        if name in visited_names:
            continue
        visited_names.add(name)
        for declaration in declarations[name]:
            yield declaration
            used_names = {
                used_name
                for used_name in _WORD.findall(declaration.lines)
                if used_name in declarations
            }
            pending += sorted(
                used_name
                for used_name in used_names - visited_names
                if not used_name.startswith("Test")
            )
