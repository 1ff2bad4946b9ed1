"""One piece of work at a time, in one room, beside the loop where there are threads."""

from __future__ import annotations

import asyncio
import mmap
import threading
from typing import NamedTuple

import pytest

from txnsim.runtime._unpacker import Unpacker


class Work(NamedTuple):
    room_bytes: int


@pytest.mark.parametrize("in_thread", [True, False])
async def test_work_is_done_in_one_room(in_thread: bool) -> None:
    unpacker = Unpacker(in_thread=in_thread)
    rooms: list[mmap.mmap] = []
    threads: set[int] = set()

    def do(work: Work, room: mmap.mmap) -> int:
        rooms.append(room)
        threads.add(threading.get_ident())
        return len(room) - work.room_bytes

    async def ask(size: int) -> int:
        await unpacker.enter()
        try:
            return await unpacker.unpack(do, Work(size))
        finally:
            unpacker.leave()

    assert await asyncio.gather(ask(10_000), ask(10_000), ask(5_000)) == [0, 0, 5_000]
    assert rooms[0] is rooms[1] is rooms[2]
    assert await ask(20_000) == 0
    assert (threads == {threading.get_ident()}) is not in_thread
    unpacker.close()
    unpacker.close()


async def test_one_waits_for_the_other() -> None:
    unpacker = Unpacker(in_thread=True)
    loop = asyncio.get_running_loop()
    begun, let_go = asyncio.Event(), threading.Event()
    order: list[str] = []

    def first(_: Work, __: mmap.mmap) -> None:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait()
        order.append("first")

    def second(_: Work, __: mmap.mmap) -> None:
        order.append("second")

    await unpacker.enter()
    leaving = asyncio.get_running_loop().create_task(unpacker.unpack(first, Work(1)))
    await begun.wait()
    leaving.cancel()  # its client has gone; the thread works on
    unpacker.leave()
    await unpacker.enter()
    waiting = asyncio.get_running_loop().create_task(unpacker.unpack(second, Work(1)))
    await asyncio.sleep(0)
    let_go.set()
    await waiting
    assert order == ["first", "second"]
    unpacker.leave()
    unpacker.close()


async def test_an_error_reaches_the_caller() -> None:
    unpacker = Unpacker(in_thread=True)

    def do(_: Work, __: mmap.mmap) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        await unpacker.unpack(do, Work(1))
    unpacker.close()
