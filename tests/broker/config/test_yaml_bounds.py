"""YAML that means more than it says: refused with file, line and the bound."""

from __future__ import annotations

import time  # noqa: TID251 - measures the CPU time of a pure function
import tracemalloc
from pathlib import Path

import pytest

from tests.support.yaml_bombs import BOMBS
from txnsim.config import yaml_bounds
from txnsim.config.yaml_bounds import DEPTH_MAX, read_mapping
from txnsim.errors import ConfigError

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


@pytest.mark.parametrize("name", BOMBS)
def test_it_is_refused_at_once_and_in_little_memory(name: str) -> None:
    text, message = BOMBS[name]
    began = time.process_time()
    with pytest.raises(ConfigError):
        read_mapping(text.encode(), file="f")
    assert time.process_time() - began < 10
    tracemalloc.start()
    with pytest.raises(ConfigError) as refusal:
        read_mapping(text.encode(), file="f")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(refusal.value).startswith(message)
    assert peak < 64 << 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 2001-99-99", "f:1: '2001-99-99' is no timestamp"),
        ("a: 1\nb: !!int ''", "f:2: '' is no int"),
        ("a: !!bool maybe", "f:1: 'maybe' is no bool"),
        ("a: !!timestamp now", "f:1: 'now' is no timestamp"),
        ("a: !!float x", "f:1: 'x' is no float"),
    ],
)
def test_a_value_that_is_none_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_mapping(text.encode(), file="f")
    assert str(refusal.value) == message


def test_aliases_within_the_bounds_are_read() -> None:
    content, _ = read_mapping(b"a: &a {x: [1, 2]}\nb: *a\n", file="f")
    assert content == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}}


def test_the_deepest_document_is_read() -> None:
    brackets = DEPTH_MAX - 2
    content, _ = read_mapping(b"a: " + b"[" * brackets + b"x" + b"]" * brackets, file="f")
    for _ in range(brackets):
        (content,) = content.values() if isinstance(content, dict) else content
    assert content == ["x"]


def _told(text: str) -> object:
    try:
        return read_mapping(text.encode("utf-8", "surrogatepass"), file="f")
    except ConfigError as error:
        return str(error)


NO_YAML = (
    "a: [1",
    "a: b: c",
    "\ta: 1",
    "a: *b",
    "a: 'x",
    "a: \ud800",
    "a: \x01",
    "---\n---\n",
    "",
    "@",
)


@pytest.mark.slow
def test_the_same_is_read_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [path.read_text("utf-8") for path in sorted(SCENARIOS.glob("*.yaml"))]
    cut = [text[: len(text) * part // 7] for text in stories[::9] for part in (2, 3, 5)]
    texts = [*stories[::2], *cut, *NO_YAML]
    assert stories
    assert yaml_bounds.HAS_LIBYAML
    compiled = [_told(text) for text in texts]
    monkeypatch.setattr(yaml_bounds, "HAS_LIBYAML", False)
    assert [_told(text) for text in texts] == compiled


def test_a_text_that_libyaml_can_t_take_is_refused_in_words() -> None:
    assert str(_told("a: \ud800")).startswith("f:1: no YAML: ")


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
