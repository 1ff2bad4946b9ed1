from __future__ import annotations

from typing import Any

import pytest

from txnsim.faults.plan import FaultRule
from txnsim.types import TopicPartition
from txnsim_lab.scenario.fields import (
    Situation,
    content,
    duration_ms,
    fault_rule,
    listed,
    offsets,
    partition,
)


def test_values_are_read() -> None:
    assert [duration_ms(text) for text in ("500ms", "-10s", "21m", "2h", "7d")] == [
        500, -10_000, 1_260_000, 7_200_000, 604_800_000,
    ]  # fmt: skip
    assert partition("a-b-12") == TopicPartition("a-b", 12)
    assert offsets({"t-0": 3}) == {TopicPartition("t", 0): 3}
    assert content("k") == b"k"
    assert content({"hex": "0001"}) == b"\x00\x01"
    assert (listed("a"), listed(3), listed(["a"])) == (("a",), (3,), ["a"])
    rule = fault_rule({"id": "x", "point": "client.request"})
    assert isinstance(rule, FaultRule)
    assert str(rule.action) == "hold"


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (duration_ms, 5, "expected a duration such as"),
        (duration_ms, "367d", "367d is more than 366d, the longest duration"),
        (duration_ms, "5 minutes", "'5 minutes' is no duration"),
        (partition, 5, "expected a partition"),
        (partition, "orders", "'orders' is no partition such as orders-0"),
        (offsets, ["t-0"], "expected partitions with offsets"),
        (content, 5, "expected text, or bytes"),
        (content, {"hex": "0"}, "hexadecimal"),
        (fault_rule, "late", "expected the fields of a fault rule"),
        (fault_rule, {"id": "x", "point": "nowhere"}, "nowhere"),
    ],
)
def test_what_is_none_is_refused(read: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(value)


def test_a_situation_is_named_by_its_run_first_and_a_disarmed_one_by_that() -> None:
    armed = Situation(run="V-/before", mode="V-", take="armed")
    assert armed.words == ("V-/before", "V-", "armed", "step-by-step")
    control = Situation(run="V-", mode="V-", take="control", program=True)
    assert control.words == ("control", "V-", "V-", "program")
