"""Above a mark of memory what needs more is refused, and nothing else is."""

from __future__ import annotations

import asyncio

from tests.broker.server.test_connection import first, open_wire
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.wires import Wire
from tests.support.within import within
from txnsim.api.memory_mark import BELOW, LOOK_MS, MemoryMark
from txnsim.errors import ErrorCode

LIMIT = 1_000


async def produced(wire: Wire) -> ErrorCode:
    wire.send(wire.produce(first()))
    (topic,) = (await wire.answer())[1].responses
    return ErrorCode(topic.partition_responses[0].error_code)


@within(run_cluster)
async def test_what_needs_more_memory_is_refused_until_there_is_some_again(
    cluster: VirtualCluster,
) -> None:
    resident = [LIMIT]
    sim = cluster.sim
    mark = MemoryMark(LIMIT, cluster.env.clock, lambda: sim.listeners, lambda: resident[0])
    mark.look()
    wire = await open_wire(cluster)
    for now, error in (
        (LIMIT, ErrorCode.none),
        (LIMIT + 1, ErrorCode.kafka_storage_error),
        (int(LIMIT * BELOW) + 1, ErrorCode.kafka_storage_error),
        (int(LIMIT * BELOW), ErrorCode.none),
    ):
        resident[0] = now
        await asyncio.sleep((LOOK_MS + 1) / 1_000)
        late = await open_wire(cluster)
        for one in (wire, late):
            assert await produced(one) is error
            one.send(one.metadata())
            await one.answer()
        await late.close()
    await wire.close()


@within(run_cluster)
async def test_large_frames_that_are_not_whole_are_given_up_first(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    large, small = await open_wire(cluster), await open_wire(cluster)
    held = sim.options.settings.connection_queue_bytes + 1
    size = (held * 2).to_bytes(4, "big")
    large.writer.write(size + bytes(held))
    small.writer.write(size + bytes(100))
    for wire in (large, small):
        await wire.writer.drain()
    await asyncio.sleep(0.1)
    told = iter((LIMIT + 1, LIMIT))  # the second one once large frames are gone
    mark = MemoryMark(LIMIT, cluster.env.clock, lambda: sim.listeners, lambda: next(told, LIMIT))
    mark.look()
    assert await large.closed()
    await asyncio.sleep((LOOK_MS + 1) / 1_000)
    late = await open_wire(cluster)
    assert await produced(late) is ErrorCode.none
    assert not small.reader.at_eof()
    large.writer.close()
    for wire in (small, late):
        await wire.close()
