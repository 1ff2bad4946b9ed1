"""Turns of partitions, bytes for each, batches of an answer."""

from __future__ import annotations

import pytest

from tests.support.share_partitions import bounds, read
from txnsim.share.commands import AcquiredRange
from txnsim.share.fetching import batches_of_answer, max_bytes_each, rotate_partitions
from txnsim.share.sessions import SharedPartition

P = [SharedPartition("topic-id", partition) for partition in range(3)]


@pytest.mark.parametrize(
    ("number", "epoch", "order"),
    [
        *((3, 0, [0, 1, 2]), (3, -1, [0, 1, 2]), (3, 1, [1, 2, 0])),
        *((3, 3, [0, 1, 2]), (3, 5, [2, 0, 1]), (1, 5, [0]), (0, 5, [])),
    ],
)
def test_each_partition_gets_its_turn(number: int, epoch: int, order: list[int]) -> None:
    assert [partition.partition for partition in rotate_partitions(P[:number], epoch)] == order


@pytest.mark.parametrize(
    ("max_bytes", "partitions", "acquired", "chosen_index", "expected"),
    [
        (90, 3, 3, 0, [30, 30, 30]),
        (91, 3, 3, 1, [30, 31, 30]),
        (90, 2, 3, 0, [30, 30]),  # one was read before
        (4, 3, 5, 2, [1, 1, 2]),
        (2, 3, 3, 2, [1, 0, 1]),
    ],
)
def test_bytes_are_given_evenly(
    max_bytes: int, partitions: int, acquired: int, chosen_index: int, expected: list[int]
) -> None:
    assert max_bytes_each(max_bytes, partitions, acquired, chosen_index=chosen_index) == expected


@pytest.mark.parametrize(
    ("batches", "ranges", "expected_batches"),
    [
        ("0-9", "2-3", "0-9"),
        ("0-9 10-19 20-29", "0-9", "0-9"),
        ("0-9 10-19 20-29", "12-13 20-20", "10-19 20-29"),
        ("0-9 10-19 20-29", "5-5 25-25", "0-9 10-19 20-29"),
        ("10-19", "5-19", "10-19"),
        ("10-19 20-29", "5-8", "10-19"),
    ],
)
def test_batches_without_acquired_records_are_cut_off(
    batches: str, ranges: str, expected_batches: str
) -> None:
    acquired = [AcquiredRange(*bounds(offsets), 1) for offsets in ranges.split()]
    read_batches = read(batches)
    assert read_batches[batches_of_answer(read_batches, acquired)] == read(expected_batches)
