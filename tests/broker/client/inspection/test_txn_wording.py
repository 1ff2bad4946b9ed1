"""Sentences of Kafka's Admin, letter by letter."""

from __future__ import annotations

import pytest

from txnsim.client.inspection.txn_wording import (
    describe_failure,
    fence_failure,
    marker_failure,
    message_of,
    producers_failure,
)
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

E = ErrorCode
P = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("error", "message", "expected"),
    [
        (6, None, "Failed to describe active producers for partition t-0 on brokerId 3"),
        (
            17,
            None,
            "Failed to fetch metadata for partition t-0 due to invalid topic error: The request"
            " attempted to perform an operation on an invalid topic.",
        ),
        (
            17,
            "bad name",
            "Failed to fetch metadata for partition t-0 due to invalid topic error: bad name",
        ),
        (
            29,
            None,
            "Failed to describe active producers for partition t-0 due to authorization failure"
            " on topic `t`",
        ),
        (56, None, "Failed to describe active producers for partition t-0 due to unexpected error"),
    ],
)
def test_describe_producers(error: int, message: str | None, expected: str) -> None:
    assert producers_failure(P, E(error), message, 3) == expected


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (105, "because the ID could not be found"),
        (53, "due to authorization failure"),
        (42, "due to unexpected error"),
    ],
)
def test_describe_transactions(error: int, ending: str) -> None:
    expected = f"DescribeTransactions request for transactionalId `a` failed {ending}"
    assert describe_failure("a", E(error)) == expected


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (31, "cluster authorization failure"),
        (53, "transactional ID authorization failure"),
        (90, "unexpected error"),
    ],
)
def test_fence_producers(error: int, ending: str) -> None:
    expected = f"InitProducerId request for transactionalId `a` failed due to {ending}"
    assert fence_failure("a", E(error)) == expected


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (31, "due to cluster authorization error"),
        (47, "due an invalid producer epoch"),
        (
            52,
            "since the provided coordinator epoch 4 has been fenced by the active coordinator",
        ),
        (
            -1,
            "due to unexpected error: The server experienced an unexpected error when processing"
            " the request.",
        ),
    ],
)
def test_write_txn_markers(error: int, ending: str) -> None:
    expected = f"WriteTxnMarkers request with S failed {ending}"
    assert marker_failure("S", E(error), 4) == expected


def test_codes_without_a_sentence_of_ours_are_named() -> None:
    assert message_of(10) == "MESSAGE_TOO_LARGE"
