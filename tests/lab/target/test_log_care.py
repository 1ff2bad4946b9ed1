"""Care of logs over the wire, on a simulated cluster that stands for a real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.proxied import ProxiedCluster, SimDisks, run_proxied
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.types import TopicPartition
from txnsim_lab.target import log_care
from txnsim_lab.target.cluster import TargetError
from txnsim_lab.target.log_care import CLEANER_IDLE_MS, CLEANER_PAUSE_MS, RETENTION_MAX_MS

T0 = TopicPartition("t", 0)


class Care:
    """A cluster, and what care of its logs takes."""

    def __init__(self, there: ProxiedCluster, client: Cluster, producer: Producer) -> None:
        self.clock = there.env.clock
        self.admin = Admin(client)
        self.disks = SimDisks(there.sim)
        self.producer = producer

    async def append(self, *keys: str) -> None:
        for key in keys:
            await self.producer.send(T0.topic, T0.partition, b"value", key=key.encode())

    async def took_ms(self, doing: Awaitable[None]) -> float:
        before = self.clock.monotonic_ms()
        await doing
        return self.clock.monotonic_ms() - before


def run(main: Callable[[Care], Awaitable[None]], **changes: Any) -> None:
    async def inside(there: ProxiedCluster) -> None:
        env = there.env
        async with (
            Cluster(
                there.sim.bootstrap, clock=env.clock, tasks=env.tasks, dial=env.network.connect
            ) as client,
            Producer(client) as producer,
        ):
            await main(Care(there, client, producer))

    run_proxied(inside, topics=(("t", 1),), log_cleaner_backoff_ms=CLEANER_PAUSE_MS, **changes)


def test_the_next_record_begins_a_segment() -> None:
    async def main(care: Care) -> None:
        await care.append("a", "b")
        await log_care.roll(care.admin, care.clock, T0)
        assert care.disks.segments(1, T0) == [0]
        await care.append("c")
        assert care.disks.segments(1, T0) == [0, 2]

    run(main)


def test_the_cleaner_is_waited_for_and_not_where_it_does_not_come() -> None:
    async def main(care: Care) -> None:
        for name, value in (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01")):
            await log_care.configure(care.admin, "t", name, value)
        await care.append("a", "a")
        in_vain = await care.took_ms(log_care.clean(care.admin, care.clock, care.disks, T0))
        assert care.disks.cleaned_until(1, T0) == -1
        assert in_vain >= CLEANER_IDLE_MS
        await log_care.roll(care.admin, care.clock, T0)
        await care.append("a")
        waited = await care.took_ms(log_care.clean(care.admin, care.clock, care.disks, T0))
        assert care.disks.cleaned_until(1, T0) == 2
        assert waited < CLEANER_IDLE_MS

    run(main)


def test_retention_is_waited_for() -> None:
    async def main(care: Care) -> None:
        await care.append("a")
        await log_care.roll(care.admin, care.clock, T0)
        await care.append("b")
        await log_care.configure(care.admin, "t", "retention.bytes", "1")
        waited = await care.took_ms(log_care.delete_old(care.admin, care.clock, care.disks, T0))
        assert care.disks.segments(1, T0) == [1]
        assert waited < RETENTION_MAX_MS

    run(main, log_retention_check_interval_ms=1_000)


def test_a_config_that_is_none_fails_the_story() -> None:
    async def main(care: Care) -> None:
        with pytest.raises(TargetError, match=r"t: segment\.ms: .*INVALID_CONFIG"):
            await log_care.configure(care.admin, "t", "segment.ms", "soon")
        await log_care.configure(care.admin, "t", "segment.ms", None)

    run(main)
