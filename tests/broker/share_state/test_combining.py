"""Batches of states become the fewest that say the same: as Kafka's own class combines them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.interbroker.share_state import StateBatch
from txnsim.releases.rules import LATEST, Rules
from txnsim.share_state._combining import combining
from txnsim.wire.codec import at_once

GOLDEN: Final = Path(__file__).parents[1] / "codec" / "golden" / "share_state.jsonl"
CASES: Final = [
    line for line in map(json.loads, GOLDEN.read_text("utf-8").splitlines()) if "combined" in line
]


def batches(rows: list[list[int]]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*row) for row in rows)


def combined(
    known: tuple[StateBatch, ...],
    newer: tuple[StateBatch, ...],
    *,
    start_offset: int,
    rules: Rules = LATEST,
) -> tuple[StateBatch, ...]:
    return at_once(combining(known, newer, start_offset=start_offset, rules=rules))


def asked(case: dict[str, Any]) -> str:
    return json.dumps([case["start"], case["before"], case["newer"]])


def test_batches_are_combined_as_in_kafka() -> None:
    def ours(case: dict[str, Any]) -> tuple[StateBatch, ...]:
        newer = batches(case["newer"])
        return combined(batches(case["before"]), newer, start_offset=case["start"])

    assert [case for case in CASES if ours(case) != batches(case["combined"])] == []
    assert len(CASES) == 300


def test_up_to_4_3_batches_are_combined_in_pairs() -> None:
    """The same questions, and the answers of 4.3.1's class where they are others."""
    recorded = Path(__file__).with_name("combined_in_pairs.jsonl").read_text("utf-8").splitlines()
    others = {asked(case): batches(case["combined"]) for case in map(json.loads, recorded)}
    before = Rules(share_states_are_swept=False)
    for case in CASES:
        wanted = others.get(asked(case), batches(case["combined"]))
        older, newer = batches(case["before"]), batches(case["newer"])
        assert combined(older, newer, start_offset=case["start"], rules=before) == wanted, case
    assert len(others) == 6


def test_up_to_4_3_records_released_one_by_one_may_stay_apart() -> None:
    """As a real 4.3.1 keeps four records that a member gives back the second time."""
    whole, apart = (StateBatch(0, 3, 0, 1),), [StateBatch(at, at, 0, 2) for at in range(4)]
    assert combined(whole, apart, start_offset=0) == (StateBatch(0, 3, 0, 2),)
    before = Rules(share_states_are_swept=False)
    kept = combined(whole, apart, start_offset=0, rules=before)
    assert kept == (StateBatch(0, 2, 0, 2), StateBatch(3, 3, 0, 2))


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


def in_order(rows: list[tuple[int, int, int, int]]) -> tuple[StateBatch, ...]:
    """Batches one behind the other: gap, length, state, count of each."""
    found, at = [], 0
    for gap, length, state, count in rows:
        found.append(StateBatch(at + gap, at + gap + length - 1, state, count))
        at += gap + length
    return tuple(found)


sequences = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from([0, 2, 4]), st.integers(1, 2)),
    max_size=6,
).map(in_order)


def offset_by_offset(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """The strongest at each offset, and neighbours that are alike as one."""
    found: list[StateBatch] = []
    for offset in range(40):
        here = [one for one in batches if one.first_offset <= offset <= one.last_offset]
        if not here:
            continue
        count, state = max((one.delivery_count, one.delivery_state) for one in here)
        last = found[-1] if found else StateBatch(-2, -2, -1, -1)
        if (last.last_offset, last.delivery_state, last.delivery_count) == (
            offset - 1,
            state,
            count,
        ):
            found[-1] = StateBatch(last.first_offset, offset, state, count)
        else:
            found.append(StateBatch(offset, offset, state, count))
    return tuple(found)


@given(sequences, sequences, st.integers(-1, 6))
def test_of_two_sequences_in_order_the_strongest_is_left_at_each_offset(
    before: tuple[StateBatch, ...], newer: tuple[StateBatch, ...], start: int
) -> None:
    left = [
        StateBatch(max(one.first_offset, start), one.last_offset, *state_of(one))
        for one in (*before, *newer)
        if one.last_offset >= start
    ]
    assert combined(before, newer, start_offset=start) == offset_by_offset(left)


def test_without_a_known_start_nothing_is_cut() -> None:
    """``PersisterStateBatchCombiner.addPruned`` of 4.4.0, as its class file has it."""
    batches = StateBatch(-5, 3, 0, 1), StateBatch(4, 6, 2, 1)
    assert combined((), batches, start_offset=-1) == batches
    assert combined((), batches, start_offset=0) == (StateBatch(0, 3, 0, 1), batches[1])


def test_thousands_of_batches_are_combined_with_breaks() -> None:
    before, newer = (
        tuple(StateBatch(2 * one, 2 * one, state, 1) for one in range(2_500)) for state in (0, 2)
    )
    breaks = list(combining(before, newer, start_offset=0))
    assert breaks == [2_500, 2_500, 5_000, 1_000, 1_000]
    assert combined(before, newer, start_offset=0) == newer


def state_of(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_state, batch.delivery_count
