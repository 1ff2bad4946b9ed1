"""What a pattern of a client may cost."""

from __future__ import annotations

import time  # noqa: TID251 - the processor's, of a match

import pytest

from txnsim.errors import PatternError
from txnsim.patterns import BYTES_MAX, INSTRUCTIONS_MAX, STEPS_MAX, compiled, written

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
    largest = f"(a?){{1000}}(a?){{1000}}(a?){{{INSTRUCTIONS_MAX // 3 - 2001}}}x"
    assert INSTRUCTIONS_MAX - 3 <= written(largest).instructions <= INSTRUCTIONS_MAX
    assert not compiled(largest).matches("a" * TOPIC_NAME_MAX)
    with pytest.raises(PatternError, match="instructions"):
        compiled(f"{largest}(a?){{3}}")


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)b", "a?a?a?a?a*a*a*b", r"(\w+\w*)*b"]
)
def test_time_grows_no_faster_than_a_name(pattern: str) -> None:
    """Eight times the name: a quadratic match takes 64 times as long."""

    def cost(length: int) -> float:
        name, costs = "a" * length + "ba", []
        for _ in range(7):
            start = time.process_time()
            assert not compiled(pattern).matches(name)
            costs.append(time.process_time() - start)
        return min(costs)

    assert cost(32_000) < 24 * cost(4_000)


@pytest.mark.parametrize(
    "costly",
    [
        r"(?i)[\x{80}-\x{10ffff}]",
        r"(?i)[\Wa]",
        r"(?i)[\p{Any}a]",
        r"\pL",
        "(?i:[Ā-鿿])",
        "[^a]",
        ".",
    ],
)
def test_what_takes_long_to_compile_counts_for_much(costly: str) -> None:
    """20 ms for the largest pattern; 200 ms are what a busy machine makes of them."""
    often = INSTRUCTIONS_MAX // written(costly).instructions
    start = time.process_time()
    compiled(costly * often)
    assert time.process_time() - start < 0.2
    with pytest.raises(PatternError, match="instructions"):
        compiled(costly * (2 * often + 2))


def test_a_long_name_is_refused_by_a_large_program_and_matched_by_a_small_one() -> None:
    name = "a" * (STEPS_MAX // 1_000)
    with pytest.raises(PatternError):
        compiled("(a?){1000}x").matches(name)
    assert compiled("a+").matches(name)
    assert compiled("a+").weight(name) < compiled("(a?){1000}x").weight(name)
