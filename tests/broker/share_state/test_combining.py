"""Batches of states become the fewest that say the same: as Kafka's own class combines them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.interbroker.share_state import StateBatch
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.share_state._combining import combine_in_steps
from txnsim.wire.codec import run_to_end

GOLDEN: Final = Path(__file__).parents[1] / "codec" / "golden" / "share_state.jsonl"
CASES: Final = [
    line for line in map(json.loads, GOLDEN.read_text("utf-8").splitlines()) if "combined" in line
]


def batches(rows: list[list[int]]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*row) for row in rows)


def combine_batches(
    older_batches: tuple[StateBatch, ...],
    newer_batches: tuple[StateBatch, ...],
    *,
    start_offset: int,
    rules: Rules = LATEST_RULES,
) -> tuple[StateBatch, ...]:
    return run_to_end(
        combine_in_steps(
            older_batches, newer_batches, start_offset=start_offset, release_rules=rules
        )
    )


def case_key(case: dict[str, Any]) -> str:
    return json.dumps([case["start"], case["before"], case["newer"]])


def test_batches_are_combined_as_in_kafka() -> None:
    def ours(case: dict[str, Any]) -> tuple[StateBatch, ...]:
        newer_batches = batches(case["newer"])
        return combine_batches(batches(case["before"]), newer_batches, start_offset=case["start"])

    assert [case for case in CASES if ours(case) != batches(case["combined"])] == []
    assert len(CASES) == 300


def test_up_to_4_3_batches_are_combined_in_pairs() -> None:
    """The same questions, with the answers of 4.3.1's class where they differ."""
    recorded_lines = (
        Path(__file__).with_name("combined_in_pairs.jsonl").read_text("utf-8").splitlines()
    )
    combined_in_pairs = {
        case_key(case): batches(case["combined"]) for case in map(json.loads, recorded_lines)
    }
    rules = Rules(share_states_are_swept=False)
    for case in CASES:
        expected = combined_in_pairs.get(case_key(case), batches(case["combined"]))
        older_batches, newer_batches = batches(case["before"]), batches(case["newer"])
        assert (
            combine_batches(older_batches, newer_batches, start_offset=case["start"], rules=rules)
            == expected
        ), case
    assert len(combined_in_pairs) == 6


def test_up_to_4_3_records_released_one_by_one_may_stay_apart() -> None:
    """A real 4.3.1 keeps in this form four records that a member releases for the second time."""
    whole_batch, single_batches = (
        (StateBatch(0, 3, 0, 1),),
        [StateBatch(offset, offset, 0, 2) for offset in range(4)],
    )
    assert combine_batches(whole_batch, single_batches, start_offset=0) == (StateBatch(0, 3, 0, 2),)
    rules = Rules(share_states_are_swept=False)
    combined_batches = combine_batches(whole_batch, single_batches, start_offset=0, rules=rules)
    assert combined_batches == (StateBatch(0, 2, 0, 2), StateBatch(3, 3, 0, 2))


def test_one_batch_alone_is_taken_as_it_is() -> None:
    one_batch = (StateBatch(5, 9, 2, 1),)
    assert combine_batches(one_batch, (), start_offset=-1) == one_batch
    assert combine_batches(one_batch, (), start_offset=10) == ()


@pytest.mark.parametrize("last_offset", [3, 4])
def test_a_batch_that_ends_before_it_begins_can_only_be_alone(last_offset: int) -> None:
    reversed_batch = StateBatch(5, last_offset, 0, 7)
    assert combine_batches((reversed_batch,), (), start_offset=-1) == (reversed_batch,)
    with pytest.raises(ValueError, match=f"ends at {last_offset + 1}"):
        combine_batches((reversed_batch,), (StateBatch(8, 9, 2, 1),), start_offset=-1)


def in_order(rows: list[tuple[int, int, int, int]]) -> tuple[StateBatch, ...]:
    """Batches in order of offset, from the gap, length, state and count of each."""
    batches, next_offset = [], 0
    for gap, length, state, delivery_count in rows:
        batches.append(
            StateBatch(next_offset + gap, next_offset + gap + length - 1, state, delivery_count)
        )
        next_offset += gap + length
    return tuple(batches)


sequences = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from([0, 2, 4]), st.integers(1, 2)),
    max_size=6,
).map(in_order)


def offset_by_offset(batches: list[StateBatch]) -> tuple[StateBatch, ...]:
    """The strongest state at each offset; equal neighbours are joined."""
    batches_by_offset: list[StateBatch] = []
    for offset in range(40):
        covering = [batch for batch in batches if batch.first_offset <= offset <= batch.last_offset]
        if not covering:
            continue
        delivery_count, state = max(
            (batch.delivery_count, batch.delivery_state) for batch in covering
        )
        last_batch = batches_by_offset[-1] if batches_by_offset else StateBatch(-2, -2, -1, -1)
        if (last_batch.last_offset, last_batch.delivery_state, last_batch.delivery_count) == (
            offset - 1,
            state,
            delivery_count,
        ):
            batches_by_offset[-1] = StateBatch(
                last_batch.first_offset, offset, state, delivery_count
            )
        else:
            batches_by_offset.append(StateBatch(offset, offset, state, delivery_count))
    return tuple(batches_by_offset)


@given(sequences, sequences, st.integers(-1, 6))
def test_of_two_sequences_in_order_the_strongest_is_left_at_each_offset(
    older_batches: tuple[StateBatch, ...], newer_batches: tuple[StateBatch, ...], start: int
) -> None:
    batches_left = [
        StateBatch(max(batch.first_offset, start), batch.last_offset, *state_of(batch))
        for batch in (*older_batches, *newer_batches)
        if batch.last_offset >= start
    ]
    assert combine_batches(older_batches, newer_batches, start_offset=start) == offset_by_offset(
        batches_left
    )


def test_without_a_known_start_nothing_is_cut() -> None:
    """This is what the class file of ``PersisterStateBatchCombiner.addPruned`` in 4.4.0 does."""
    batches = StateBatch(-5, 3, 0, 1), StateBatch(4, 6, 2, 1)
    assert combine_batches((), batches, start_offset=-1) == batches
    assert combine_batches((), batches, start_offset=0) == (StateBatch(0, 3, 0, 1), batches[1])


def test_thousands_of_batches_are_combined_with_breaks() -> None:
    older_batches, newer_batches = (
        tuple(StateBatch(2 * offset, 2 * offset, state, 1) for offset in range(2_500))
        for state in (0, 2)
    )
    breaks = list(combine_in_steps(older_batches, newer_batches, start_offset=0))
    assert breaks == [2_500, 2_500, 5_000, 1_000, 1_000]
    assert combine_batches(older_batches, newer_batches, start_offset=0) == newer_batches


def state_of(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_state, batch.delivery_count
