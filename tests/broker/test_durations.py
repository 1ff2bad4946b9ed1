"""Durations in the forms in which people give them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from txnsim.durations import time_text, whole_ms


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (0, 0),
        (-5, -5),
        (60e3, 60_000),
        (timedelta(minutes=1, milliseconds=2), 60_002),
        (timedelta(seconds=1.5), 1_500),
        (timedelta(seconds=-1), -1_000),
        ("500ms", 500),
        ("30s", 30_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("-7d", -604_800_000),
    ],
)
def test_whole_milliseconds(given: object, ms: int) -> None:
    read = whole_ms(given)
    assert read == ms
    assert type(read) is int


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1.5, "1.5 is no duration: expected a whole number of milliseconds, or a text such as"),
        (float("nan"), "nan is no duration"),
        (float("inf"), "inf is no duration"),
        (True, "True is no duration"),
        (None, "None is no duration"),
        (timedelta(microseconds=1), "no whole number of milliseconds"),
        ("2 minutes", "'2 minutes' is no duration such as 500ms, 30s, 21m, 2h or 7d"),
        ("1.5s", "is no duration such as"),
        ("60000", "is no duration such as"),
        ("m", "is no duration such as"),
        ("²s", "is no duration such as"),
        ("9" * 16 + "s", "is no duration such as"),
    ],
)
def test_what_is_no_whole_number_of_milliseconds_is_refused(given: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        whole_ms(given)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_704_277_990, "2026-11-26T14:44:37Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (10**15, "1000000000000000"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
    ],
)
def test_a_time_is_said_to_the_second_or_as_it_is_where_no_calendar_has_it(
    time_ms: int, text: str
) -> None:
    assert time_text(time_ms) == text
