"""``python -m benchmarks.virtual``: what virtual time costs, in CPU of one core.

Each figure is the processor time of this process, which other programs lengthen less than the time
that passes. Seeds are those that ``txnsim simulate`` draws, judged and not shrunk.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.producer import Producer
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_lab.simulation.play import quieten
from txnsim_lab.simulation.seed_batch import row_of

TOPIC: Final = "bulk"
PARTITIONS: Final = 16
PRODUCERS: Final = 8
TRANSACTIONS: Final = 250
"""Of each producer."""
DAY_S: Final = 24 * 60 * 60
REST_S: Final = 60
CLUSTERS: Final = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.virtual")
    parser.add_argument("--seeds", type=int, default=40, help="how many are drawn and judged")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    quieten()
    _print_figures(
        "start and stop of three brokers, ms",
        [_measure_cluster_cpu_ms(_do_nothing) for _ in range(CLUSTERS + 1)][1:],
    )
    _print_figures(
        "an idle day of three brokers, s",
        [_measure_cluster_cpu_ms(_sleep_for_a_day) / 1_000 for _ in range(options.rounds)],
    )
    _print_figures(
        "a day that is advanced, ms",
        [_measure_cluster_cpu_ms(_advance_day) for _ in range(options.rounds + 1)][1:],
    )
    work_by_client: dict[str, Callable[[VirtualCluster], Coroutine[Any, Any, None]]] = {
        "ours": _commit_with_own_client
    }
    if find_spec("aiokafka") is not None:
        work_by_client["aiokafka"] = _commit_with_aiokafka
    for client_name, work_on_cluster in work_by_client.items():
        _measure_cluster_cpu_ms(work_on_cluster)  # imports
        rates = [
            PRODUCERS
            * TRANSACTIONS
            * 1_000
            / (_measure_cluster_cpu_ms(work_on_cluster) - _measure_cluster_cpu_ms(_do_nothing))
            for _ in range(options.rounds)
        ]
        _print_figures(f"transactions per second of CPU, {client_name}", rates)
    resident_mib_before, seed_cpu_times_ms, simulated_ms = _read_resident_mib(), [], 0
    for seed in range(options.seeds):
        seed_row = row_of(seed, SimulationOptions())
        seed_cpu_times_ms.append(float(seed_row.cpu_ms))
        simulated_ms += seed_row.virtual_ms
    _print_figures("a seed, drawn and judged, ms", seed_cpu_times_ms)
    print(
        f"{'simulated : CPU, of those seeds':<44} {simulated_ms / sum(seed_cpu_times_ms):8.1f}\n"
        f"{'memory after them, MiB more':<44} {_read_resident_mib() - resident_mib_before:8.1f}",
        flush=True,
    )
    return 0


def _print_figures(title: str, figures: Sequence[float]) -> None:
    print(
        f"{title:<44} {median(figures):8.1f} (mean {mean(figures):.1f},"
        f" {min(figures):.1f} to {max(figures):.1f})",
        flush=True,
    )


def _measure_cluster_cpu_ms(
    work_on_cluster: Callable[[VirtualCluster], Coroutine[Any, Any, None]],
) -> float:
    """Measure the CPU of a cluster from before its start to after its end, in ms."""
    began_cpu_s = time.process_time()
    run_cluster(work_on_cluster, topics=((TOPIC, PARTITIONS),))
    return (time.process_time() - began_cpu_s) * 1_000


async def _do_nothing(_cluster: VirtualCluster) -> None:
    """Do nothing: this run only starts and stops a cluster."""


async def _sleep_for_a_day(_cluster: VirtualCluster) -> None:
    await asyncio.sleep(DAY_S)


async def _advance_day(cluster: VirtualCluster) -> None:
    """Let a day pass at once, and the cluster come to rest."""
    cluster.sim.environment.clock.advance(DAY_S * 1_000)
    await asyncio.sleep(REST_S)


async def _commit_with_own_client(cluster: VirtualCluster) -> None:
    """Commit transactions of one record of 100 bytes, of several producers at a time."""

    async def commit_transactions(transactional_id: str) -> None:
        async with (
            cluster.client(transactional_id) as client,
            Producer(client, transactional_id=transactional_id) as producer,
        ):
            await producer.init_transactions()
            for number in range(TRANSACTIONS):
                producer.begin()
                await producer.send(TOPIC, number % PARTITIONS, bytes(100))
                await producer.commit()

    await asyncio.gather(*(commit_transactions(f"p{number}") for number in range(PRODUCERS)))


async def _commit_with_aiokafka(cluster: VirtualCluster) -> None:
    """Commit transactions by aiokafka's producers in virtual time."""
    from aiokafka import AIOKafkaProducer

    brokers = cluster.sim.metadata.image.brokers.values()
    bootstrap_addresses = [f"{broker.host}:{broker.port}" for broker in brokers]

    async def commit_transactions(transactional_id: str) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap_addresses,
            transactional_id=transactional_id,
            client_id=transactional_id,
        ) as producer:
            for number in range(TRANSACTIONS):
                async with producer.transaction():
                    await producer.send_and_wait(TOPIC, bytes(100), partition=number % PARTITIONS)

    await asyncio.gather(*(commit_transactions(f"p{number}") for number in range(PRODUCERS)))


def _read_resident_mib() -> float:
    page_count = int(Path("/proc/self/statm").read_text().split()[1])
    return page_count * 4096 / 2**20


if __name__ == "__main__":
    sys.exit(main())
