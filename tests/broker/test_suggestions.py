from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode
from txnsim.suggestions import unknown


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tv2", "no mode 'tv2'; did you mean TV2? there are: V-, TV2"),
        ("TV1", "no mode 'TV1'; did you mean TV2? there are: V-, TV2"),
        ("t", "no mode 't'; did you mean TV2? there are: V-, TV2"),
        ("", "no mode ''; there are: V-, TV2"),
        ("zebra", "no mode 'zebra'; there are: V-, TV2"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_and_all(given: str, said: str) -> None:
    assert unknown("mode", given, ("V-", "TV2")) == said


def test_words_in_another_order_are_recognised() -> None:
    errors = [error.name.upper() for error in ErrorCode]
    assert unknown("error", "FENCD_PRODUCER", errors).endswith("did you mean PRODUCER_FENCED?")
    assert unknown("error", "INVALID_TXN_STAT", errors).endswith("did you mean INVALID_TXN_STATE?")


def test_a_long_list_is_left_out() -> None:
    many = [f"name-{index}" for index in range(100)]
    assert unknown("name", "name-x", many).startswith("no name 'name-x'; did you mean name-")
    assert unknown("name", "zebra", many) == "no name 'zebra'"
