"""Batches of states become the fewest that say the same: as Kafka's own class combines them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from txnsim.interbroker.share_state import StateBatch
from txnsim.share_state._combining import combined

GOLDEN: Final = Path(__file__).parents[1] / "codec" / "golden" / "share_state.jsonl"
CASES: Final = [
    line for line in map(json.loads, GOLDEN.read_text("utf-8").splitlines()) if "combined" in line
]


def batches(rows: list[list[int]]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*row) for row in rows)


def test_batches_are_combined_as_in_kafka() -> None:
    def ours(case: dict[str, Any]) -> tuple[StateBatch, ...]:
        newer = batches(case["newer"])
        return combined(batches(case["before"]), newer, start_offset=case["start"])

    assert [case for case in CASES if ours(case) != batches(case["combined"])] == []
    assert len(CASES) == 300


def test_one_batch_alone_is_taken_as_it_is() -> None:
    whole = (StateBatch(5, 9, 2, 1),)
    assert combined(whole, (), start_offset=-1) == whole
    assert combined(whole, (), start_offset=10) == ()


@pytest.mark.parametrize("last", [3, 4])
def test_a_batch_that_ends_before_it_begins_can_only_be_alone(last: int) -> None:
    odd = StateBatch(5, last, 0, 7)
    assert combined((odd,), (), start_offset=-1) == (odd,)
    with pytest.raises(ValueError, match=f"ends at {last + 1}"):
        combined((odd,), (StateBatch(8, 9, 2, 1),), start_offset=-1)
