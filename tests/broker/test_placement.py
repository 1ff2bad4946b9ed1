"""Placement of transactional ids and groups, pinned to values of Kafka's own function."""

from __future__ import annotations

from functools import partial

import pytest

from txnsim.placement import hash_bucket, hash_buckets, java_hash, partition_for


@pytest.mark.parametrize(
    ("name", "of_50", "of_3"),
    [
        ("my-txn-id", 11, 2),
        ("txn-1", 10, 2),
        ("test-transactional-id", 40, 0),
        ("", 0, 0),
        ("a", 47, 1),
        ("polygenelubricants", 0, 0),  # hashes to the lowest int, which has no positive twin
        ("té-été", 0, 0),
        ("😀", 49, 1),  # two UTF-16 code units
    ],
)
def test_ids_go_where_java_hash_codes_send_them(name: str, of_50: int, of_3: int) -> None:
    assert partition_for(name, 50) == of_50
    assert partition_for(name, 3) == of_3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("polygenelubricants", -(2**31)), ("my-txn-id", 1_405_732_511)],
)
def test_hash_codes_are_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_order_of_a_hash_set_is_javas() -> None:
    """As a real 4.4.0 tells topics that there are not."""
    of_3 = partial(hash_bucket, hash_buckets(3))
    assert sorted(["a/b", ".", ""], key=of_3) == ["", "a/b", "."]
    asked = ["metadata-missing", "bad name", ""]
    assert sorted(asked, key=of_3) == ["", "bad name", "metadata-missing"]
    assert (hash_buckets(0), hash_buckets(11), hash_buckets(12), hash_buckets(40)) == (
        *(16, 16, 32, 64),
    )
