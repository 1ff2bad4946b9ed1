from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

import pytest

from txnsim.cli.control._words import duration_ms, key_value, new_topic, topic_partition


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0", 0), ("1500ms", 1_500), ("30s", 30_000), ("2M", 120_000),
     ("1h", 3_600_000), ("7d", 604_800_000)],
)  # fmt: skip
def test_a_time_is_whole_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_a_time_has_a_unit() -> None:
    with pytest.raises(ArgumentTypeError, match=r"'5' has no unit: 5s, or 5ms\?"):
        duration_ms("5")


@pytest.mark.parametrize(
    ("read", "wrong", "wanted"),
    [
        *((duration_ms, text, "as in 90s") for text in ("1.5", "60e3", "-5s", "", "2 minutes")),
        *((new_topic, text, "as in orders:3") for text in ("", ":3", "a:", "a:0", "a:b")),
        *((topic_partition, text, "as in orders-0") for text in ("orders", "-0", "orders-x")),
        *((key_value, text, "as in cleanup") for text in ("a", "=b", "")),
    ],
)
def test_what_is_wrong_is_answered_with_the_form_that_is_wanted(
    read: Callable[[str], Any], wrong: str, wanted: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=wanted):
        read(wrong)


def test_topics_partitions_and_pairs() -> None:
    assert new_topic("orders") == ("orders", -1)
    assert new_topic("orders:3") == ("orders", 3)
    assert topic_partition("a-b-12") == ("a-b", 12)
    assert key_value("retention.ms=a=b") == ("retention.ms", "a=b")
