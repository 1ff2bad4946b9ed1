"""Above a mark of memory what needs more is refused, and nothing else is."""

from __future__ import annotations

import asyncio

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.wires import Wire
from tests.support.within import within
from tests.unit.server.test_connection import first, open_wire
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
