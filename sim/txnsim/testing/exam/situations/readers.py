"""What a ``read_committed`` reader gets, and where it stands."""

from __future__ import annotations

from typing import Final

from txnsim.testing.exam.book import Told
from txnsim.testing.exam.room import Room
from txnsim.testing.exam.situation import Situation, situation


@situation("reads-around-aborted", "readers", "Transactions of two producers lie through each"
           " other; one is aborted: does the reader get the others, and in order?")  # fmt: skip
async def around_aborted(room: Room) -> None:
    """The list of aborted transactions is walked by producer (KIP-98)."""
    await room.must_init("p", transactional_id="shop")
    await room.must_init("q", transactional_id="till")
    one = await room.open("a-1", producer="p")
    two = await room.open("lost-1", producer="q")
    await room.must_send(one, "b-1", "p")
    await room.must_send(two, "lost-3", "q")
    await room.must_end(two, "q", "abort")
    await room.must_send(one, "c-1", "p")
    await room.must_end(one, "p", "commit")
    room.expect(await room.transact("lost-5", producer="q", end="abort"), Told.ABORTED, "the abort")
    room.expect(await room.transact("d-1", producer="q"), Told.COMMITTED, "the last one")
    await room.consumer()
    room.expect(await room.poll(4), ["a-1", "b-1", "c-1", "d-1"], "the reader gets")


@situation("stops-at-open", "readers", "A transaction is open: does the reader stop before it, and"
           " go on when it has ended?")  # fmt: skip
async def stops_at_open(room: Room) -> None:
    """The last stable offset."""
    await room.must_init("p", transactional_id="shop")
    await room.must_init("q", transactional_id="till")
    room.expect(await room.transact("a-1", producer="p"), Told.COMMITTED, "the first one")
    held = await room.open("b-1", producer="p")
    room.expect(await room.transact("c-1", producer="q"), Told.COMMITTED, "the one behind")
    await room.consumer()
    room.expect(await room.poll(1), ["a-1"], "before the open transaction the reader gets")
    await room.must_end(held, "p", "commit")
    room.expect(await room.poll(2), ["b-1", "c-1"], "behind it the reader gets")


@situation("position-behind-marker", "readers", "The last record is read, and a marker is behind"
           " it: does the reader stand at the end?")  # fmt: skip
async def position_behind_marker(room: Room) -> None:
    """Yardstick: ``position()`` steps over markers."""
    await room.must_init()
    room.expect(await room.transact("a-1"), Told.COMMITTED, "the transaction")
    end = (await room.kafka.topics.offsets("t", 1)).high_watermark
    await room.consumer()
    room.expect(await room.poll(1, to=end), ["a-1"], "the reader gets")
    room.expect(room.positions.get(1), end, "the reader's position, where the log ends")


@situation("lag-is-zero", "readers", "All is read, and the reader commits where it stands: is its"
           " lag zero?", about=("librdkafka #3917", "spring-kafka #1587"))  # fmt: skip
async def lag_is_zero(room: Room) -> None:
    """Yardstick: ``commitSync()`` commits the position, which is behind the marker."""
    await room.must_init()
    room.expect(await room.transact("a-1"), Told.COMMITTED, "the transaction")
    end = (await room.kafka.topics.offsets("t", 1)).high_watermark
    await room.consumer()
    room.expect(await room.poll(1), ["a-1"], "the reader gets")
    await room.must("commit-positions", consumer="c")
    room.expect(await room.position_of("readers", "t", 1), end, "the committed position, lag zero")


@situation("nothing-but-aborted", "readers", "A partition has aborted transactions only: does the"
           " reader get to its end, with nothing?")  # fmt: skip
async def nothing_but_aborted(room: Room) -> None:
    """A reader that waits for a record here waits for ever."""
    await room.must_init()
    for value in ("lost-1", "lost-3", "lost-5"):
        room.expect(await room.transact(value, end="abort"), Told.ABORTED, "the abort")
    end = (await room.kafka.topics.offsets("t", 1)).high_watermark
    await room.consumer()
    room.expect(await room.poll(0, to=end), [], "the reader gets")
    room.expect(room.positions.get(1), end, "the reader's position, where the log ends")


@situation("seek-to-marker", "readers", "A reader seeks to the offset of a marker: does it get the"
           " record behind it?")  # fmt: skip
async def seek_to_marker(room: Room) -> None:
    """Committed positions are often there."""
    await room.must_init()
    room.expect(await room.transact("a-1"), Told.COMMITTED, "the first one")
    marker = (await room.kafka.topics.offsets("t", 1)).high_watermark - 1
    room.expect(await room.transact("b-1"), Told.COMMITTED, "the second one")
    await room.consumer()
    room.expect(await room.poll(2), ["a-1", "b-1"], "the reader gets")
    await room.must("seek", consumer="c", topic="t", partition=1, offset=marker)
    room.expect(await room.poll(1), ["b-1"], "behind the marker the reader gets")


SITUATIONS: Final[tuple[Situation, ...]] = (
    around_aborted,
    stops_at_open,
    position_behind_marker,
    lag_is_zero,
    nothing_but_aborted,
    seek_to_marker,
)
