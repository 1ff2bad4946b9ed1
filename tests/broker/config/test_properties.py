"""Java's property files; expectations are those of ``java.util.Properties.load``."""

from __future__ import annotations

import pytest

from txnsim.config.properties import parse_properties
from txnsim.errors import ConfigError


def parsed(text: str) -> list[tuple[int, str, str]]:
    entries = parse_properties(text.encode("latin-1"), file="f")
    return [(entry.line, entry.name, entry.value) for entry in entries]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", [(1, "a", "1")]),
        ("a = 1", [(1, "a", "1")]),
        ("a:1\nb 2", [(1, "a", "1"), (2, "b", "2")]),
        ("a\t=\t1 ", [(1, "a", "1 ")]),
        ("a==1", [(1, "a", "=1")]),
        ("a", [(1, "a", "")]),
        ("# a=1\n! b=2\n\n  c=3", [(4, "c", "3")]),
        ("a=x\\\n   y\nb=2", [(1, "a", "xy"), (3, "b", "2")]),
        ("a=x\\\n# no comment\nb=2", [(1, "a", "x# no comment"), (3, "b", "2")]),
        ("a=x\\\\\nb=2", [(1, "a", "x\\"), (2, "b", "2")]),
        ("a=x\\", [(1, "a", "x")]),
        ("a\\=b\\:c\\ d=1", [(1, "a=b:c d", "1")]),
        ("a=\\t\\n\\r\\f\\q", [(1, "a", "\t\n\r\fq")]),
        ("a=\\u00e9\u00e9", [(1, "a", "éé")]),
        ("a=1\r\nb=2\rc=3", [(1, "a", "1"), (2, "b", "2"), (3, "c", "3")]),
        ("a=1\na=2", [(1, "a", "1"), (2, "a", "2")]),
    ],
)
def test_entries_are_read_as_java_reads_them(text: str, entries: list[object]) -> None:
    assert parsed(text) == entries


def test_a_broken_unicode_escape_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"f:2: b: \\u needs four hexadecimal digits, found '12'"):
        parsed("a=1\nb=\\u12")
