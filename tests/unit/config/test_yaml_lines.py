"""YAML with lines."""

from __future__ import annotations

import pytest

from txnsim.config.yaml_lines import read_mapping
from txnsim.errors import ConfigError


def test_each_key_has_its_line() -> None:
    content, lines = read_mapping(b"a: 1\nb:\n  c: 2\n  d:\n  - e: 3\n", file="f")
    assert content == {"a": 1, "b": {"c": 2, "d": [{"e": 3}]}}
    assert lines == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "d"): 4,
        ("b", "d", "0", "e"): 5,
    }


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert read_mapping(b"", file="f") == ({}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\na: 2\n", "f:2: a: given twice, first on line 1"),
        (b"- a\n", "f:1: expected a mapping, found list"),
        (b"a: [1\nb: 2\n", "f:2: no YAML: expected ',' or ']', but got ':'"),
        (b"1: a\n", "f:1: 1: a key must be text; put it in quotes"),
        (b"a: !!python/name:os.system\n", "f:1: no YAML: could not determine a constructor"),
        (b"a: \x00\n", "f:1: no YAML: unacceptable character"),
    ],
)
def test_what_is_no_mapping_is_refused_with_its_place(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_mapping(text, file="f")
    assert str(refusal.value).startswith(message)
