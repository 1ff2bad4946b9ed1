from __future__ import annotations

import pytest

from txnsim.scenario.suggestions import unknown


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tv2", "no mode 'tv2'; did you mean TV2? there are: V-, TV2"),
        ("TV1", "no mode 'TV1'; did you mean TV2? there are: V-, TV2"),
        ("zebra", "no mode 'zebra'; there are: V-, TV2"),
    ],
)
def test_a_name_nobody_knows_is_answered_with_the_nearest_and_all(given: str, said: str) -> None:
    assert unknown("mode", given, ("V-", "TV2")) == said
