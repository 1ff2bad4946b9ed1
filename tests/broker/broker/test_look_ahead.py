"""Batches that are a lot of work are looked at slice by slice, with the same result."""

from __future__ import annotations

import asyncio
from functools import partial

from txnsim.broker.look_ahead import LookAhead
from txnsim.log.validation import newest_timestamp
from txnsim.runtime.tasks import LoopTasks
from txnsim.wire.batch import GZIP, NONE, ZSTD, Record, build_batch, read_batch_header
from txnsim.wire.record_walk import WALK_PIECES
from txnsim.wire.records import payload_of


def _compressed_batch(codec: int, count: int, *, size: int = 1) -> bytes:
    records = [
        Record(value=b"v" * size, timestamp_ms=1_000 + record_index)
        for record_index in range(count)
    ]
    return build_batch(records, timestamp_ms=1_000, compression=codec)


async def _turns_while(tasks: LoopTasks, batches: list[bytes]) -> int:
    """How often another task gets a turn while the batches are scanned."""
    look = LookAhead(tasks)
    turn_count = 0

    async def count_turns() -> None:
        nonlocal turn_count
        while True:
            await asyncio.sleep(0)
            turn_count += 1

    other_turns_task = asyncio.get_running_loop().create_task(count_turns())
    for batch in batches:
        header = read_batch_header(batch, 0)
        assert await look.find_newest_timestamp(header, batch) == newest_timestamp(header, batch)
        look.leave()
    other_turns_task.cancel()
    return turn_count


async def test_little_work_is_done_at_once() -> None:
    tasks = LoopTasks(asyncio.get_running_loop())
    assert (
        await _turns_while(tasks, [_compressed_batch(codec, 3) for codec in (NONE, GZIP, ZSTD)])
        == 0
    )


async def test_others_have_their_turns_between_slices() -> None:
    tasks = LoopTasks(asyncio.get_running_loop())
    assert await _turns_while(tasks, [_compressed_batch(NONE, 10 * WALK_PIECES)]) >= 9
    assert await _turns_while(tasks, [_compressed_batch(ZSTD, 10, size=100_000)] * 3) >= 1


async def test_records_are_unpacked_beside_the_loop() -> None:
    tasks = LoopTasks(asyncio.get_running_loop(), has_threads=True)
    batch = _compressed_batch(ZSTD, 10, size=100_000)
    assert await _turns_while(tasks, [batch, batch]) >= 1
    await tasks.close()


async def test_what_is_done_beside_the_loop_is_done_one_after_the_other() -> None:
    tasks = LoopTasks(asyncio.get_running_loop(), has_threads=True)
    order = list[int]()

    async def add(number: int) -> None:
        look = LookAhead(tasks)
        await look.do_beside_loop(partial(order.append, number))
        look.leave()

    await asyncio.gather(*map(add, range(5)))
    assert order == [0, 1, 2, 3, 4]
    await tasks.close()


async def test_unpacked_records_stay_until_it_leaves() -> None:
    tasks = LoopTasks(asyncio.get_running_loop(), has_threads=True)
    batch, other_batch = (_compressed_batch(ZSTD, count, size=100_000) for count in (10, 20))
    header = read_batch_header(batch)
    look, next_look = LookAhead(tasks), LookAhead(tasks)
    await look.find_newest_timestamp(header, batch)
    task = asyncio.get_running_loop().create_task(
        next_look.find_newest_timestamp(read_batch_header(other_batch), other_batch)
    )
    held_payload = look.payload
    assert held_payload is not None
    assert await look.do_beside_loop(lambda: bytes(held_payload)) == payload_of(batch, header)
    assert not task.done()
    look.leave()
    assert await task == newest_timestamp(read_batch_header(other_batch), other_batch)
    next_look.leave()
    await tasks.close()


async def test_heavy_is_what_was_more_than_a_slice() -> None:
    look = LookAhead(LoopTasks(asyncio.get_running_loop()))
    for batch, is_heavy in (
        (_compressed_batch(GZIP, 3), False),
        (_compressed_batch(ZSTD, 10, size=100_000), True),
        (_compressed_batch(NONE, 10 * WALK_PIECES), True),
        (_compressed_batch(ZSTD, 3), False),
    ):
        await look.find_newest_timestamp(read_batch_header(batch, 0), batch)
        look.leave()
        assert look.was_heavy is is_heavy
