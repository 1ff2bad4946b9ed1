"""``python -m tests.soak.virtual [--seeds 1-20]``: the soak's trouble in virtual time.

Producers of ours commit and abort on three brokers, while brokers are killed, stopped and isolated,
leaders move and clocks jump, one after the other. With ``--members 500`` as many members of a group
come and go meanwhile (``tests.soak.crowd``). A seed is played the same way each time, so a
transaction that hangs can be looked at as often as it takes: ``--seeds 7 --trace FILE`` writes the
trace of that run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.soak.crowd import Crowd
from tests.soak.trouble import ADVANCE_MS, AWAY_S, PAUSE_S, SET_BY_MS, draw_act
from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.errors import AbortableError, ClientError
from txnsim.client.producer import Producer
from txnsim.runtime.trace import TraceLevel
from txnsim.types import BrokerId, TopicPartition

BROKERS: Final = (1, 2, 3)
TOPIC: Final = "bulk"
PARTITIONS: Final = 12
PRODUCERS: Final = 12
TROUBLES: Final = 20
"""The number of troubles for one seed."""
SETTINGS: Final[dict[str, Any]] = {
    "broker_session_timeout_ms": 3_000,
    "broker_heartbeat_interval_ms": 500,
    "replica_lag_time_max_ms": 5_000,
    "min_insync_replicas": 2,
}
PATIENCE: Final = {"request_timeout_ms": 8_000, "api_timeout_ms": 20_000}
LATENCY_US: Final = (200, 4_000)
"""Bounds of a packet's latency: much wider than on one machine, so that more events fall in
between.
"""
REST_S: Final = 0.15
"""Of a producer between two transactions, at most."""
OVERDUE_MS: Final = 200_000
"""Longer than the timeout of any transaction."""
WHOLE_WITHIN_S: Final = 120.0


class VirtualSoak:
    """A soak in virtual time, from one seed."""

    def __init__(
        self, cluster: VirtualCluster, *, trouble_count: int = TROUBLES, member_count: int = 0
    ) -> None:
        self._cluster = cluster
        self.crowd = Crowd(cluster, count=member_count, topic=TOPIC, partitions=PARTITIONS)
        self._members = member_count
        self._troubles = trouble_count
        self._random: Random = cluster.env.rng.stream("soak")
        self._is_over = False
        self.ended: Counter[str] = Counter()
        self.last_acts: deque[str] = deque(maxlen=TROUBLES)
        self.open: tuple[str, ...] = ()
        """Transactions still open at the end: partition, producer and offset."""
        self.astray: tuple[str, ...] = ()
        """Faults of the group's assignment at the end."""

    async def run(self) -> None:
        """Play from the first transaction to the judgement."""
        spawn = self._cluster.env.tasks.spawn
        work_tasks = [spawn(self._work(f"tx-{n}"), name=f"tx-{n}") for n in range(PRODUCERS)]
        crowd_task = spawn(self.crowd.run(), name="crowd") if self._members else None
        for _ in range(self._troubles):
            await asyncio.sleep(self._random.uniform(*PAUSE_S) / 4)
            act = getattr(self, draw_act(self._random))
            begun_s = asyncio.get_running_loop().time()
            self.last_acts.append(f"{begun_s:.3f} s: {await act()}")
            await self._wait_until_in_sync()
        self._is_over = True
        await asyncio.gather(*work_tasks)
        if crowd_task is not None:
            self.astray = await self.crowd.wait_until_settled()
            crowd_task.cancel()
        await self._judge()

    async def _work(self, transactional_id: str) -> None:
        random = self._cluster.env.rng.stream(transactional_id)
        life = 0
        while not self._is_over:
            life += 1
            async with (
                self._cluster.client(f"{transactional_id}/{life}", **PATIENCE) as client,
                Producer(
                    client, transactional_id=transactional_id, delivery_timeout_ms=15_000
                ) as producer,
            ):
                try:
                    await producer.init_transactions()
                    while not self._is_over:
                        await self._transact(producer, random)
                except ClientError as error:
                    self.ended[f"life: {type(error).__name__}"] += 1

    async def _transact(self, producer: Producer, random: Random) -> None:
        await asyncio.sleep(random.uniform(0, REST_S))
        producer.begin()
        try:
            send_futures = [
                producer.send(TOPIC, index, b"x" * 50)
                for index in random.sample(range(PARTITIONS), random.randint(1, 3))
            ]
            await asyncio.gather(*send_futures)
            if random.random() < 0.1:
                await producer.abort()
                self.ended["aborted"] += 1
            else:
                await producer.commit()
                self.ended["committed"] += 1
        except AbortableError:
            await producer.abort()
            self.ended["given up"] += 1

    # Trouble: ``trouble.WEIGHTS``

    async def kill(self) -> str:
        return await self._kill_broker(lose_unflushed=False)

    async def kill_unflushed(self) -> str:
        return await self._kill_broker(lose_unflushed=True)

    async def _kill_broker(self, *, lose_unflushed: bool) -> str:
        broker = self._any_broker()
        await self._cluster.sim.kill_broker(broker, lose_unflushed=lose_unflushed)
        await self._away()
        await self._cluster.sim.start_broker(broker)
        return f"broker {broker} was killed" + (", what was not flushed is lost" * lose_unflushed)

    async def stop_cleanly(self) -> str:
        broker = self._any_broker()
        await self._cluster.sim.stop_broker(broker)
        await self._away()
        await self._cluster.sim.start_broker(broker)
        return f"broker {broker} was stopped"

    async def move_leaders(self) -> str:
        sim = self._cluster.sim
        moved_partitions = []
        for name, topic in list(sim.metadata.image.topics.items()):
            for partition_index in range(len(topic.partitions)):
                topic_partition = TopicPartition(name, partition_index)
                partition = sim.metadata.image.partition(topic_partition)
                assert partition is not None
                other_brokers = [broker for broker in partition.isr if broker != partition.leader]
                if other_brokers and self._random.random() < 1 / 3:
                    sim.move_leader(topic_partition, self._random.choice(other_brokers))
                    moved_partitions.append(str(topic_partition))
        return f"leaders moved: {' '.join(moved_partitions)}"

    async def isolate(self) -> str:
        broker = self._any_broker()
        self._cluster.sim.isolate(broker)
        await self._away()
        self._cluster.sim.heal(broker)
        return f"broker {broker} was isolated"

    async def advance(self) -> str:
        ms = self._random.randint(*ADVANCE_MS)
        self._cluster.advance(ms)
        return f"{ms} ms passed"

    async def set_clock(self) -> str:
        member = self._cluster.sim.member(self._any_broker())
        by_ms = self._random.randint(-SET_BY_MS, SET_BY_MS)
        member.clock.shift(by_ms)
        await self._away()
        member.clock.shift(-by_ms)
        return f"the clock of broker {member.broker_id} was off by {by_ms} ms"

    def _any_broker(self) -> BrokerId:
        return BrokerId(self._random.choice(BROKERS))

    async def _away(self) -> None:
        await asyncio.sleep(self._random.uniform(*AWAY_S))

    async def _wait_until_in_sync(self) -> None:
        """Wait until every replica is in sync: one broker at a time is away."""
        async with asyncio.timeout(WHOLE_WITHIN_S):
            while not self._is_in_sync():
                await pause(self._cluster.env.clock, 250)

    def _is_in_sync(self) -> bool:
        topics = self._cluster.sim.metadata.image.topics.values()
        partitions = (partition for topic in topics for partition in topic.partitions)
        return all(len(partition.isr) == len(partition.replicas) for partition in partitions)

    # Judgement

    async def _judge(self) -> None:
        """Find what is still open once every transaction has timed out."""
        self._cluster.advance(OVERDUE_MS)
        await asyncio.sleep(OVERDUE_MS / 1000)
        topic_partitions = [
            TopicPartition(TOPIC, partition_index) for partition_index in range(PARTITIONS)
        ]
        async with self._cluster.client("operator", **PATIENCE) as client:
            producers_by_partition = await Admin(client).describe_producers(topic_partitions)
        lines = []
        for topic_partition, producers in producers_by_partition.items():
            assert not isinstance(producers, ClientError), producers
            lines += [
                f"{topic_partition}: producer {producer.producer_id}"
                f" epoch {producer.producer_epoch}, open since offset {producer.txn_start_offset},"
                f" coordinator epoch {producer.coordinator_epoch}"
                for producer in producers
                if producer.txn_start_offset is not None
            ]
        self.open = tuple(lines)


def play_seed(
    seed: int,
    *,
    transaction_version: int = 2,
    trouble_count: int = TROUBLES,
    member_count: int = 0,
    trace_file: Path | None = None,
) -> VirtualSoak:
    """Play a seed.

    Args:
        seed: Which.
        transaction_version: Of ``transaction.version``.
        trouble_count: How many, one after the other.
        member_count: Of a group, which come and go.
        trace: Gets the full trace as JSON lines; None if nobody wants it.
    """

    async def soak(cluster: VirtualCluster) -> VirtualSoak:
        virtual_soak = VirtualSoak(cluster, trouble_count=trouble_count, member_count=member_count)
        await virtual_soak.run()
        if trace_file is not None:
            with trace_file.open("wb") as file:
                cluster.env.tracer.export(file.write)
        return virtual_soak

    return run_cluster(
        soak,
        seed=seed,
        level=transaction_version,
        latency_us=LATENCY_US,
        topics=((TOPIC, PARTITIONS),),
        trace_level=TraceLevel.OFF if trace_file is None else TraceLevel.FULL,
        **SETTINGS,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Play seeds; the exit status is 1 if a transaction hung in any."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.virtual", description=__doc__)
    parser.add_argument("--seeds", default="1-5", help="7, or 1-20 (default 1-5)")
    parser.add_argument("--level", type=int, default=2, help="transaction.version (default 2)")
    parser.add_argument("--members", type=int, default=0, help="of a group that come and go")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="of a single seed")
    options = parser.parse_args(argv)
    first_seed, _, last_seed = options.seeds.partition("-")
    failed_seed_count = 0
    for seed in range(int(first_seed), int(last_seed or first_seed) + 1):
        begun_s = time.monotonic()
        soak = play_seed(
            seed,
            transaction_version=options.level,
            member_count=options.members,
            trace_file=options.trace,
        )
        wrong_transactions = (*soak.open, *soak.astray)
        failed_seed_count += bool(wrong_transactions)
        outcome_counts = ", ".join(
            f"{count:,} {outcome}" for outcome, count in sorted(soak.ended.items())
        )
        print(f"seed {seed}: {outcome_counts}; {time.monotonic() - begun_s:.0f} s", flush=True)
        if options.members:
            heartbeats = ", ".join(
                f"{count:,} {answer_text}"
                for answer_text, count in soak.crowd.answer_counts.most_common()
            )
            print(f"    heartbeats: {heartbeats}", flush=True)
        for line in (*soak.last_acts, *wrong_transactions) if wrong_transactions else ():
            print(f"    {line[:400]}", flush=True)
    seeds = seed - int(first_seed) + 1
    print(f"{failed_seed_count} of {seeds} seeds ended with an open transaction or an uneven group")
    return 1 if failed_seed_count else 0


if __name__ == "__main__":
    sys.exit(main())
