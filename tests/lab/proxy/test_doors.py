"""Doors: one per node, for good; new nodes get theirs, nodes that move are followed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.broker.server.test_connection import first
from tests.support.proxied import ProxiedCluster, run_proxied
from tests.support.wires import Wire
from tests.support.within import within
from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.proxy._doors import DOORS_MAX, Doors
from txnsim_lab.proxy.addresses import Endpoint


def doors_of(cluster: ProxiedCluster, **options: Any) -> Doors:
    given = {"host": "127.0.0.1", "advertised_host": "me.test", "port": 40_000, **options}
    return Doors(cluster.proxy, **given)


@within(run_proxied)
async def test_a_nodes_port_is_its_own_and_it_is_followed_where_it_moves(
    cluster: ProxiedCluster,
) -> None:
    doors = doors_of(cluster)
    await doors.learn([Endpoint(7, "a", 1), Endpoint(2, "b", 2)])
    assert doors.bootstrap == "me.test:40002,me.test:40007"
    await asyncio.gather(*(doors.learn([Endpoint(9, "c", 3)]) for _ in range(3)))
    await doors.learn([Endpoint(7, "elsewhere", 11)])
    assert [(door.node_id, door.upstream) for door in doors] == [
        (2, ("b", 2)), (7, ("elsewhere", 11)), (9, ("c", 3)),
    ]  # fmt: skip
    assert doors.address(7) == ("me.test", 40_007)
    await doors.close()


@within(run_proxied)
async def test_a_port_that_is_none_or_taken_is_named(cluster: ProxiedCluster) -> None:
    with pytest.raises(ConfigError, match="60000 \\+ 9000"):
        await doors_of(cluster, port=60_000).learn([Endpoint(9_000, "a", 1)])
    doors = doors_of(cluster)
    await doors.learn([Endpoint(1, "a", 1)])
    with pytest.raises(OSError, match="40001"):
        await doors_of(cluster).learn([Endpoint(1, "a", 1)])
    await doors.close()


@within(run_proxied)
async def test_a_node_that_is_new_while_clients_wait_gets_a_free_port_at_need(
    cluster: ProxiedCluster,
) -> None:
    taken, late = doors_of(cluster), doors_of(cluster)
    await taken.learn([Endpoint(1, "a", 1)])
    await late._learn_late([Endpoint(1, "a", 1)])
    assert late.address(1)[1] not in (40_001, 0)
    await late._learn_late([Endpoint(2, "a", 1)])
    assert late.address(2)[1] == 40_002
    await taken.close()
    await late.close()


@within(run_proxied)
async def test_a_cluster_that_names_any_number_of_brokers_gets_so_many_doors(
    cluster: ProxiedCluster,
) -> None:
    """Each is a listener: 20,000 brokers of a Metadata would be as many."""
    late = doors_of(cluster, port=0)
    with pytest.raises(ConfigError, match=f"{DOORS_MAX} of them already"):
        await late._learn_late([Endpoint(number, "a", 1) for number in range(DOORS_MAX + 1)])
    assert len(list(late)) == DOORS_MAX
    await late.close()


@within(run_proxied, trace_level=TraceLevel.FULL)
async def test_connections_are_traced(cluster: ProxiedCluster) -> None:
    start = len(cluster.env.tracer)
    wire = await Wire.open(*cluster.address(first()))
    wire.send(wire.metadata())
    await wire.answer()
    await wire.close()
    await asyncio.sleep(1)
    port = cluster.address(first())[1]
    told = [
        event.k
        for event in cluster.env.tracer.events(start)
        if event.k.startswith("conn.") and "->" in str(event.d)
    ]
    assert told == ["conn.open", "conn.close"], port
