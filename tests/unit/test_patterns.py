"""What a pattern of a client may cost."""

from __future__ import annotations

import pytest

from txnsim.errors import PatternError
from txnsim.patterns import BYTES_MAX, STEPS_MAX, compiled

COSTLY = "(a?){1000}" * 10 + "x"
TOPIC_NAME_MAX = 249


@pytest.mark.parametrize(
    "pattern",
    ["orders-.*", "(?i)[a-z0-9._-]+", r"[\pL\pN]+", "|".join(map("orders-{}".format, range(500)))],
)
def test_what_people_write_is_taken(pattern: str) -> None:
    assert compiled(pattern).matches("orders-7") == (pattern != r"[\pL\pN]+")


@pytest.mark.parametrize("pattern", [COSTLY, "x" * (BYTES_MAX + 1), "(", "(?=a)"])
def test_what_is_too_large_or_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compiled(pattern)


def test_every_pattern_that_is_taken_can_be_matched_with_every_name_of_a_topic() -> None:
    """The largest program that is taken: found by making it larger until it is refused."""
    largest = None
    for repeats in range(100, 1_000, 50):
        try:
            largest = compiled(f"(a?){{{repeats}}}" * 5 + "x")
        except PatternError:
            break
    assert largest is not None
    assert not largest.matches("a" * TOPIC_NAME_MAX)


def test_a_long_name_is_refused_by_a_large_program_and_matched_by_a_small_one() -> None:
    name = "a" * (STEPS_MAX // 1_000)
    with pytest.raises(PatternError):
        compiled("(a?){1000}x").matches(name)
    assert compiled("a+").matches(name)
    assert compiled("a+").weight(name) < compiled("(a?){1000}x").weight(name)
