"""The Java helper's signatures, for its README: ``python -m tests.helpers.signatures --write``.

Without ``--write`` it says whether the README is out of date; ``test_signatures.py`` asks the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from tests.support.apache_kafka import REPOSITORY

README: Final = REPOSITORY / "helpers" / "java" / "README.md"
SOURCE_FOLDER: Final = (
    REPOSITORY / "helpers" / "java" / "src" / "main" / "java" / "txnsim" / "junit"
)
CLASSES: Final = ("Txnsim", "TxnsimClient", "TxnsimCluster", "Faults", "History", "TxnsimException")
"""In the order in which a reader meets them."""

_CLASS_RE: Final = re.compile(r"^ *public (?:static )?(?:final )?(?:class|@interface) (\w+)")
_MEMBER_RE: Final = re.compile(r"^ +public (?!.*\b(?:class|record)\b)(.*?) *\{", re.DOTALL)
_ELEMENT_RE: Final = re.compile(r"^    (\w+(?:\[\])? \w+\(\) default .*);$", re.MULTILINE)
_BLOCK_RE: Final = re.compile(r"(?<=## Signatures\n\n```java\n).*?(?=```)", re.DOTALL)


def main(argv: Sequence[str] = ()) -> int:
    """Write the block anew, or say that it differs."""
    current = README.read_text("utf-8")
    if current == expected_readme(current):
        return 0
    if "--write" in argv:
        README.write_text(expected_readme(current), "utf-8")
        return 0
    sys.stdout.write(f"out of date: {README}\n")
    return 1


def expected_readme(readme: str) -> str:
    text = "\n".join(line for class_name in CLASSES for line in (*_member_lines(class_name), ""))
    return _BLOCK_RE.sub(lambda _: text.rstrip("\n") + "\n", readme)


def _member_lines(name: str) -> Iterator[str]:
    """Each class of a file with its public members, one line each."""
    source = (SOURCE_FOLDER / f"{name}.java").read_text("utf-8")
    if "@interface" in source:
        yield f"@{name}"
        yield from (f"    {element}" for element in _ELEMENT_RE.findall(source))
        return
    yield name
    lines_by_class: dict[str, list[str]] = {}
    inner = ""
    for statement in re.split(r"\n(?= +(?:@Override|public|/\*\*|private|static))", source)[1:]:
        match = _CLASS_RE.match(statement)
        member = _MEMBER_RE.match(statement)
        if match is not None:
            inner = match[1]
        elif member is not None:
            signature = " ".join(member[1].split()).replace("final ", "")
            if statement.startswith("        "):
                lines_by_class.setdefault(inner, []).append(signature)
            else:
                yield f"    {signature}"
    for member_class, members in lines_by_class.items():
        yield f"{name}.{member_class}"
        yield from (f"    {member_words}" for member_words in members)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
