"""Digests of values: equal where the values are, and else not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec
import pytest

from txnsim_lab.exploration._contents import digest_of


class Pair(msgspec.Struct, frozen=True):
    first: object
    second: object


@dataclass
class Message:
    text: str


class Number(IntEnum):
    ONE = 1


VALUES: tuple[object, ...] = (
    *(None, 0, 1, -1, 1.5, True, "", "1", b"", b"1", "None", Number.ONE),
    *((), (1,), ((1,),), (1, 2), (2, 1), ("1", "2"), ("12",)),
    *(frozenset(), frozenset({1, 2}), frozenset({(1, 2)}), {1: 2}, {2: 1}),
    *(Pair(1, 2), Pair(2, 1), Pair((1, 2), None), Message("a"), Message("b")),
)


def test_unequal_values_have_unequal_digests() -> None:
    assert len({digest_of(value) for value in VALUES}) == len(VALUES)


@pytest.mark.parametrize(
    ("value", "other_value"),
    [
        (b"batch", memoryview(b"batch")),
        ([1, 2], (1, 2)),
        (frozenset({"b", "a"}), {"a", "b"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Pair(b"x", [1]), Pair(bytearray(b"x"), (1,))),
    ],
)
def test_what_holds_the_same_has_one_digest(value: object, other_value: object) -> None:
    assert digest_of(value) == digest_of(other_value)
