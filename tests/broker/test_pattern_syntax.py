"""What RE2/J takes, refuses and matches: its own answers are in ``tests/support/re2j.py``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.re2j import Answer, recorded
from txnsim.errors import PatternError
from txnsim.patterns import DEPTH_MAX, UNICODE_CLASSES, compiled, written


def answered(expression: str, names: tuple[str, ...]) -> Answer:
    """What we say, in the same form."""
    try:
        pattern = compiled(expression)
    except PatternError as error:
        return Answer(expression, str(error))
    return Answer(
        expression,
        None,
        tuple(name for name in names if pattern.matches(name)),
        tuple(name for name in names if not pattern.matches(name)),
    )


def test_expressions_are_taken_and_refused_and_names_matched_as_by_re2j() -> None:
    """Over nine hundred are drawn, the others are its oddities."""
    answers = recorded()
    assert sum(each.refused is None for each in answers) > 400
    assert sum(len(each.matched) for each in answers) > 400
    for theirs in answers:
        ours = answered(theirs.expression, theirs.matched + theirs.others)
        assert ours == theirs


@given(
    st.lists(st.sampled_from(sorted({*r"ab09.^$()[]{}|*+?-\&~#,:<>=", "(?i)", r"\p", "é", "\n"}))),
    st.text(),
)
def test_what_is_taken_is_written_so_that_it_compiles(parts: list[str], name: str) -> None:
    """Rust's syntax refuses nothing that was taken: the error would not be a client's."""
    answered("".join(parts), (name,))


@given(st.text(max_size=20))
def test_what_is_quoted_matches_itself_alone(text: str) -> None:
    quoted = "".join(
        f"\\{char}" if char.isascii() and not char.isalnum() else char for char in text
    )
    assert compiled(quoted).matches(text)
    assert not compiled(quoted).matches(f"{text}a")


@pytest.mark.parametrize("name", sorted(UNICODE_CLASSES))
def test_every_class_of_unicode_is_one_of_rust_s(name: str) -> None:
    expression = rf"\p{{{name}}}|[^\P{{{name}}}]|(?i:\P{{^{name}}})"
    assert compiled(expression).matches("x") in (False, True)
    assert not compiled(rf"[^\p{{{name}}}\P{{{name}}}]").matches("x")


@given(
    st.sampled_from(["a", ".", r"(?i)[^k]", r"\pL", "a?|b*", "(a|b)+c"]),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=3),
)
def test_the_program_is_estimated_as_what_it_stands_for(
    inner: str, counts: list[tuple[int, int]]
) -> None:
    """Its instructions times a name's length are the steps that a match is allowed."""
    short = long = f"({inner})"
    for least, more in counts:
        short = f"({short}{{{least},{least + more}}})"
        long = f"({long * least}{f'({long})?' * more})"
    assert written(short).instructions >= written(long).instructions - 2 * long.count("(")


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "(" * depth + "a" + ")" * depth,
        lambda depth: "(b|c" * depth + r"(?i)[^\W]" + "d)*" * depth,
        lambda depth: "a" + "*(?i)" * (depth + 1),
    ],
)
def test_what_is_nested_as_deep_as_is_taken_compiles(nested: Callable[[int], str]) -> None:
    assert not compiled(nested(DEPTH_MAX)).matches("x!")
    with pytest.raises(PatternError, match="deep"):
        written(nested(DEPTH_MAX + 1))
