"""Waiting for what a cluster in virtual time comes to, where waiting costs nothing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.support.clusters import VirtualCluster, values
from txnsim.types import BrokerId, IsolationLevel, TopicPartition

PATIENT: Final[dict[str, Any]] = {"request_timeout_ms": 5_000, "api_timeout_ms": 240_000}
"""Settings of a client that waits until brokers are back."""
EVERYTHING: Final = IsolationLevel.READ_UNCOMMITTED


async def until(
    is_met: Callable[[], bool | Awaitable[bool]], expectation: str, *, seconds: int = 120
) -> None:
    """Wait for a condition. Two minutes are longer than any takes."""
    for _ in range(seconds * 10):
        answer = is_met()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"it never came true: {expectation}")


def alive(cluster: VirtualCluster) -> list[int]:
    """Brokers that the controller considers alive."""
    return [broker.broker_id for broker in cluster.sim.metadata.image.alive_brokers()]


async def until_fenced(cluster: VirtualCluster, broker_id: BrokerId) -> None:
    """Wait until the controller has fenced a broker."""
    await until(lambda: broker_id not in alive(cluster), f"broker {broker_id} is fenced")


async def in_sync(cluster: VirtualCluster, topic_partition: TopicPartition, count: int) -> None:
    """Wait until ``count`` replicas are in sync."""

    def is_so() -> bool:
        partition = cluster.sim.metadata.image.partition(topic_partition)
        return partition is not None and len(partition.isr) == count

    await until(is_so, f"{count} replicas of {topic_partition} are in sync")


async def leaderless(
    cluster: VirtualCluster, *partitions: TopicPartition, seconds: int = 60
) -> None:
    """Wait until partitions have no leader."""
    await until(
        lambda: all(cluster.leader(partition) < 0 for partition in partitions),
        f"{partitions} have no leaders",
        seconds=seconds,
    )


async def read(cluster: VirtualCluster, isolation: IsolationLevel = EVERYTHING) -> list[Any]:
    """The values that a client can read of the topic ``orders``, which has one partition."""
    async with cluster.client("reader", **PATIENT) as client:
        return await values(client, "orders", partitions=1, isolation=isolation)


async def reads(cluster: VirtualCluster, *expected: bytes) -> None:
    """Wait until a read_committed consumer gets exactly these values."""

    async def has_it() -> bool:
        return await read(cluster, IsolationLevel.READ_COMMITTED) == list(expected)

    await until(has_it, f"{expected} can be read")
