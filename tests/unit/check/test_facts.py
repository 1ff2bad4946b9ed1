from __future__ import annotations

import pytest

from tests.support.histories import reader_fetch


@pytest.mark.parametrize(
    ("values", "max_wait_ms", "last_stable_offset", "starved"),
    [
        ((), 0, 1, True),
        (("x",), 0, 1, False),  # something came
        ((), 500, 1, False),  # somebody waited: what came in between can't be told
        ((), 0, 4, False),  # there is nothing behind the last stable offset
    ],
)
def test_a_reader_starves_if_nothing_comes_at_once_though_there_is_more(
    values: tuple[str, ...], max_wait_ms: int, last_stable_offset: int, starved: bool
) -> None:
    fetch = reader_fetch(
        values=values,
        max_wait_ms=max_wait_ms,
        last_stable_offset=last_stable_offset,
        high_watermark=4,
    )
    assert fetch.starved is starved


def test_the_same_fetch_is_one_with_the_same_offset_and_options() -> None:
    fetch = reader_fetch()
    assert fetch.asked == reader_fetch(values=(), last_stable_offset=1).asked
    for change in (
        {"offset": 2},
        {"isolation": "read_uncommitted"},
        {"max_wait_ms": 1},
        {"max_bytes": 1},
    ):
        assert fetch.asked != reader_fetch(**change).asked
