"""Large answers leave in parts; what nobody reads is bounded for all connections together."""

from __future__ import annotations

import pytest

from txnsim.server.outbox import PART_BYTES, ParkedAnswers, UnreadAnswers


def parts_of(*pieces: bytes) -> list[bytes]:
    parked = ParkedAnswers()
    parked.add(pieces)
    found = []
    while parked:
        found.append(bytes(parked.next_part()))
    return found


@pytest.mark.parametrize(
    "sizes",
    [
        (1,),
        (PART_BYTES,),
        (PART_BYTES + 1,),
        (PART_BYTES - 1, 2, 3 * PART_BYTES, 1),
        (10,) * 100_000,
        (5 * PART_BYTES,),
    ],
)
def test_parts_are_all_of_it_in_order_and_none_is_too_large(sizes: tuple[int, ...]) -> None:
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    parts = parts_of(*pieces)
    assert b"".join(parts) == b"".join(pieces)
    assert all(len(part) == PART_BYTES for part in parts[:-1])
    assert 0 < len(parts[-1]) <= PART_BYTES


def test_a_large_piece_is_not_copied() -> None:
    parked = ParkedAnswers()
    batch = bytes(3 * PART_BYTES)
    parked.add([batch])
    part = parked.next_part()
    assert isinstance(part, memoryview)
    assert part.obj is batch
    assert sum(map(len, parked.rest())) == 2 * PART_BYTES


class Reader:
    def __init__(self) -> None:
        self.given_up = 0

    def give_up(self) -> None:
        self.given_up += 1


def test_who_holds_most_is_given_up_when_all_of_them_hold_too_much() -> None:
    unread = UnreadAnswers(100)
    small, large, newest = Reader(), Reader(), Reader()
    unread.note(small, 20)
    unread.note(large, 60)
    unread.note(large, 70)
    assert unread.total == 90
    unread.note(newest, 11)
    assert (small.given_up, large.given_up, newest.given_up) == (0, 1, 0)
    assert unread.total == 31
    unread.forget(small)
    unread.forget(small)
    assert unread.total == 11
