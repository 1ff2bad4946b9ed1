"""Ways as text, and what follows one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import ConfigError
from txnsim_lab.exploration.way import (
    Choice,
    Deviation,
    GivenWay,
    marked_steps,
    read_way,
    text_of_way,
)

OPTION_NAMES = st.text(min_size=1).filter(lambda name: "; " not in name and not name.endswith(";"))
WAYS = st.lists(st.builds(Deviation, st.integers(0, 999), OPTION_NAMES)).map(tuple)


def choice_of(*options: str) -> Choice:
    return Choice(options=options, keys=options, fingerprint=1)


@given(WAYS)
def test_a_way_is_read_as_it_was_printed(way: tuple[Deviation, ...]) -> None:
    assert read_way(text_of_way(way)) == way


@pytest.mark.parametrize("text", ["begins: broker 2 dies", "7", "-1 x", "7 a; b"])
def test_what_is_no_way_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no step of a way"):
        read_way(text)


def test_where_a_way_says_nothing_the_network_is_quiet() -> None:
    given_way = GivenWay((Deviation(1, "b"), Deviation(2, "not there")))
    picked = [given_way.pick(choice_of("a", "b")) for _ in range(3)]
    assert picked == [0, 1, 0]


def test_a_single_option_is_no_choice() -> None:
    given_way = GivenWay((Deviation(0, "b"),))
    assert (given_way.pick(choice_of("a")), given_way.pick(choice_of("a", "b"))) == (0, 1)


def test_a_star_marks_the_place_of_a_deviation() -> None:
    """The same message may arrive once in its turn, and once before its turn."""
    steps = ("a arrives", "b arrives", "a arrives")
    assert list(marked_steps(steps, (2,))) == [
        "   1  a arrives",
        "   2  b arrives",
        "*  3  a arrives",
    ]
