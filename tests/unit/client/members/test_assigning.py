from __future__ import annotations

import pytest

from txnsim.client.members.assigning import (
    assign_range,
    assigned_partitions,
    subscribed,
    write_subscription,
)
from txnsim.group.subscription import read_subscription


def test_a_subscription_is_read_as_it_was_written() -> None:
    data = write_subscription(["orders", "a"])
    found = read_subscription(data)
    assert found is not None
    assert found.topics == ("a", "orders")
    assert data == bytes.fromhex("0000 00000002 0001 61 0006") + b"orders" + b"\xff" * 4
    assert subscribed([data, write_subscription(["b"]), b"?"]) == {"a", "b", "orders"}


@pytest.mark.parametrize(
    ("members", "count", "shares"),
    [
        ({"m1": "t", "m2": "t"}, 3, {"m1": [0, 1], "m2": [2]}),
        ({"m1": "t", "m2": "t", "m3": "t"}, 2, {"m1": [0], "m2": [1], "m3": []}),
        ({"m1": "t", "m2": "other"}, 2, {"m1": [0, 1], "m2": []}),
        ({"m1": "t"}, 0, {"m1": []}),
    ],
)
def test_partitions_are_shared_in_ranges(
    members: dict[str, str], count: int, shares: dict[str, list[int]]
) -> None:
    said = {name: (name, write_subscription([topic])) for name, topic in members.items()}
    found = {
        name: sorted(place.partition for place in assigned_partitions(data))
        for name, data in assign_range(said, {"t": count}).items()
    }
    assert found == shares


def test_static_members_are_ordered_by_their_instance_ids() -> None:
    said = {
        "m1": ("second", write_subscription(["t"])),
        "m2": ("first", write_subscription(["t"])),
    }
    shares = assign_range(said, {"t": 2})
    assert [place.partition for place in assigned_partitions(shares["m2"])] == [0]


def test_bytes_that_are_no_assignment() -> None:
    with pytest.raises(ValueError, match="which is no assignment"):
        assigned_partitions(b"\x00")
