"""Prepared answers are the bytes that the codec would have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.api.request import ANSWERS_MAX, Gap, prepared
from txnsim.wire import codec
from txnsim.wire.codec import build, encode_body

INT64, INT16 = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**15), 2**15 - 1)


def end_txn(numbers: tuple[int, ...]) -> Any:
    producer_id, producer_epoch = numbers
    return build(
        codec.response_class(26, 5),
        throttle_time=0,
        error_code=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


GAP = Gap("qh", end_txn)


@given(producer_id=INT64, producer_epoch=INT16)
def test_a_filled_gap_is_the_encoded_message(producer_id: int, producer_epoch: int) -> None:
    wanted = encode_body(end_txn((producer_id, producer_epoch)))
    assert GAP.fill(producer_id, producer_epoch) == wanted


@pytest.mark.parametrize(
    "make", [lambda _numbers: end_txn((1, 2)), lambda numbers: end_txn((numbers[0], 2))]
)
def test_numbers_that_are_not_found_side_by_side_are_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="not found once"):
        Gap("qh", make)


def test_an_answer_is_made_once_per_shape_and_the_number_of_shapes_is_bounded() -> None:
    made = []

    @prepared
    def answer(shape: int) -> bytes:
        made.append(shape)
        return bytes([shape])

    assert [answer(1), answer(2), answer(1)] == [b"\1", b"\2", b"\1"]
    assert made == [1, 2]
    assert answer.cache_info().maxsize == ANSWERS_MAX
