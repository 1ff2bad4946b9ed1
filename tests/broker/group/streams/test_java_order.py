"""The order in which Java goes through maps and heaps: answers of OpenJDK 17."""

from __future__ import annotations

import pytest

from txnsim.group.streams._java_order import JavaQueue, java_order, java_order_of_computed


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("b", "a", "c"), ("a", "b", "c")),
        (("member-2", "member-1", "member-3"), ("member-1", "member-2", "member-3")),
        (("p-m1", "p-m2", "p-m3", "p-m4", "p-m5"), ("p-m3", "p-m2", "p-m1", "p-m5", "p-m4")),
        (("10", "9", "0"), ("0", "9", "10")),
    ],
)
def test_a_hash_map_s_order(names: tuple[str, ...], order: tuple[str, ...]) -> None:
    assert tuple(java_order(names)) == order


def test_a_small_map_has_few_buckets() -> None:
    assert java_order(["q", "b"], capacity=1) == ["q", "b"]


def test_names_of_one_bucket_stay_as_they_came() -> None:
    assert java_order(["AaBB", "BBAa", "AaAa"]) == ["AaBB", "BBAa", "AaAa"], "equal hash codes"


def test_a_large_map_has_more_buckets() -> None:
    names = [f"n{name_number}" for name_number in range(13)]
    assert java_order(names) == [*names[:11], "n12", "n11"]


def test_long_names_are_ordered_as_short_ones() -> None:
    names = ["x" * 60 + f"long{number}" for number in (9, 8, 7, 6)]
    assert java_order(names) == names[::-1]


def test_a_map_that_is_filled_by_computing_has_the_newest_first() -> None:
    names = [f"n{name_number}" for name_number in range(14)]
    grown = java_order_of_computed(names, capacity=16)
    assert grown == [*names[:11], "n12", "n11", "n13"]
    one_bucket = ["AaBB", "BBAa", "AaAa", "b"]
    assert java_order_of_computed(one_bucket, capacity=16) == one_bucket[::-1]


def test_a_heap_says_what_comes_first_of_equals() -> None:
    loads = {"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}
    queue = JavaQueue(loads, loads.__getitem__)
    names_in_order = []
    for _ in range(6):
        name = queue.poll()
        names_in_order.append(name)
        loads[name] += 1
        queue.add(name)
    assert names_in_order == ["a", "d", "b", "c", "b", "c"]
    assert len(queue) == 4


def test_a_heap_gives_the_least() -> None:
    numbers = [5, 3, 8, 1, 9, 2, 7]
    queue = JavaQueue(numbers, float)
    assert [queue.poll() for _ in numbers] == sorted(numbers)
