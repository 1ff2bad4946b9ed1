"""Large answers leave in parts; what nobody reads is bounded for all connections together."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

import pytest

from txnsim.server.outbox import (
    PART_BYTES,
    PARTS_PER_TURN,
    UNJOINED_FROM_BYTES,
    HeldBytes,
    Outbox,
    ParkedAnswers,
    Sender,
)


def parts_of(*pieces: bytes) -> list[bytes]:
    parked = ParkedAnswers()
    parked.add(pieces)
    found = []
    while parked:
        found.append(b"".join(parked.next_part()))
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
    (part,) = parked.next_part()
    assert isinstance(part, memoryview)
    assert part.obj is batch
    assert sum(map(len, parked.rest())) == 2 * PART_BYTES


@pytest.mark.parametrize(("size", "is_joined"), [(16_000, False), (100, True)])
def test_pieces_of_a_part_are_joined_where_they_are_small(*, size: int, is_joined: bool) -> None:
    parked = ParkedAnswers()
    parked.add([bytes(size)] * (2 * PART_BYTES // size))
    assert (len(parked.next_part()) == 1) is is_joined


class Reader:
    def __init__(self) -> None:
        self.given_up = 0

    def give_up(self) -> None:
        self.given_up += 1


def test_who_holds_most_is_given_up_when_all_of_them_hold_too_much() -> None:
    unread = HeldBytes(100)
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


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_large_answer_leaves_in_turns_of_its_own(*, is_paused: bool) -> None:
    asked: list[str] = []
    listener = create_autospec(Sender, instance=True)
    listener.is_open, listener.unread = True, HeldBytes(1)
    outbox = Outbox(
        listener, go_on=lambda: asked.append("turn"), give_up=lambda: asked.append("end")
    )
    transport = outbox.transport = create_autospec(asyncio.Transport, instance=True)
    outbox.is_paused = is_paused
    outbox.put_pieces(b"head", [bytes(20 * PART_BYTES)], 20 * PART_BYTES, stored=False)
    outbox.flush()
    assert not transport.writelines.called, "many at once would hold up the loop"
    # Who does not read at all holds too much.
    assert asked == (["end"] if is_paused else ["turn"])
    outbox.send_parts()
    assert transport.writelines.call_count == (0 if is_paused else PARTS_PER_TURN)


def test_a_large_answer_in_large_pieces_is_not_copied_and_counts() -> None:
    listener = create_autospec(Sender, instance=True)
    listener.is_open, listener.unread = True, HeldBytes(1)
    given_up: list[str] = []
    outbox = Outbox(listener, go_on=list, give_up=lambda: given_up.append("end"))
    transport = outbox.transport = create_autospec(asyncio.Transport, instance=True)
    pieces = [bytes(UNJOINED_FROM_BYTES), bytes(UNJOINED_FROM_BYTES)]
    size = sum(map(len, pieces))
    outbox.put_pieces(b"head", pieces, size, stored=False)
    outbox.flush()
    (sent,) = transport.writelines.call_args.args
    assert [id(one) for one in sent[1:]] == [id(one) for one in pieces]
    outbox.is_paused = True
    for _ in range(3):
        outbox.put_pieces(b"head", pieces, size, stored=False)
    outbox.flush()
    assert given_up, "what waits and is no record counts, in pieces or not"
