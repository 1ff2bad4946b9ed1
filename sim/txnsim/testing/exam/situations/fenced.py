"""A producer that is fenced: does its application learn it, and who may go on?"""

from __future__ import annotations

from typing import Final

from txnsim.testing.exam.book import Told
from txnsim.testing.exam.room import CLIENT, ID, MissError, Room
from txnsim.testing.exam.situation import Situation, situation


@situation("fenced-by-newer", "fenced", "A newer producer of the same id has come: is the older one"
           " refused, and is it told that it is dead?")  # fmt: skip
async def by_newer(room: Room) -> None:
    """Yardstick: ProducerFencedException, which is fatal (KIP-98)."""
    await room.must_init("old")
    entry = await room.open("lost-1", producer="old")
    await room.must_init("new")
    room.expect(await room.transact("kept-1", producer="new"), Told.COMMITTED, "the newer one")
    refused = await room.do("commit", producer="old")
    if refused.error is None:
        entry.told = Told.COMMITTED
        raise MissError("the older producer was told that it has committed")
    if refused.error.retriable:
        raise MissError(f"the older producer was told to try again: {room.errors[-1]}")
    await room.close("old")
    await room.goes_on("new")


@situation("fenced-while-sending", "fenced", "A newer producer has come, and the older one sends:"
           " is the record refused?")  # fmt: skip
async def while_sending(room: Room) -> None:
    """The partition knows the newer epoch, as its abort marker has come."""
    await room.must_init("old")
    await room.open("lost-1", producer="old")
    await room.must_init("new")
    refused = await room.send("lost-3", "old")
    if refused.error is None:
        raise MissError("the older producer was told that its record is in")
    await room.close("old")
    await room.goes_on("new")


@situation("timed-out", "fenced", "The coordinator has aborted the transaction, which took too"
           " long: does the commit fail, and how does the application go on?")  # fmt: skip
async def timed_out(room: Room) -> None:
    """Yardstick: an error, and a next transaction; KIP-588 spares the producer."""
    await room.must_init()
    entry = await room.open("lost-1")
    await room.time_out()
    if await room.end(entry) is Told.COMMITTED:
        raise MissError("told committed, though the coordinator has aborted it")
    await room.goes_on()


@situation("timed-out-while-sending", "fenced", "The coordinator has aborted the transaction, and"
           " the next record comes: is it kept out, and who goes on?")  # fmt: skip
async def timed_out_sending(room: Room) -> None:
    """A record after the time-out must not open a transaction that hangs."""
    await room.must_init()
    entry = await room.open("lost-1")
    await room.time_out()
    answer = await room.send("lost-3")
    if answer.error is not None and answer.error.fatal:
        await room.close("p")
    else:
        await room.end(entry, how="abort" if answer.error else "commit")
        entry.values = (*entry.values, "lost-3")
    await room.goes_on()


@situation("fenced-by-administrator", "fenced", "An administrator fences the id while its"
           " transaction is open: does it work, and does the producer learn it?",
           about=("KAFKA-16570",))  # fmt: skip
async def by_administrator(room: Room) -> None:
    """Yardstick: ``fenceProducers``, which waits while the transaction is being aborted."""
    await room.must_init()
    entry = await room.open("lost-1")
    await room.must("fence", bootstrap=room.kafka.bootstrap, client_id=CLIENT, transactional_id=ID)
    if await room.end(entry) is Told.COMMITTED:
        raise MissError("told committed, though an administrator has fenced it")
    await room.close("p")
    await room.goes_on()


SITUATIONS: Final[tuple[Situation, ...]] = (
    by_newer,
    while_sending,
    timed_out,
    timed_out_sending,
    by_administrator,
)
