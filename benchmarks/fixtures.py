"""``python -m benchmarks.fixtures``: what a cluster per test costs, beside what else there is.

A fresh cluster as the pytest plugin starts it (in the thread that all tests of a process share, one
topic of three partitions), until it can be connected to; librdkafka's mock cluster until it has
answered for the first time; a real Apache Kafka with formatted storage until it accepts. The
rounds of the first two alternate. And the time that the plugin itself takes to load.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Producer

from benchmarks import build
from benchmarks.process import run_server
from benchmarks.report import Spread, spread_of
from benchmarks.servers import ApacheKafka
from txnsim.testing._blocking import SimulatedKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.options import options_from_keywords

BROKERS: Final = 3
TARGET_MS: Final = 10.0
_LOAD_PROGRAM: Final = """
import time, pytest
began = time.perf_counter()
import txnsim.testing.plugin
print((time.perf_counter() - began) * 1000)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 also where the target is missed, which is a result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixtures")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--kafka-starts", type=int, default=3, help="0 leaves Apache Kafka out")
    options = parser.parse_args(arguments)
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    loop_thread = LoopThread()
    measure_by_title: dict[str, Callable[[], float]] = {
        f"txnsim, {BROKERS} brokers": lambda: time_simulated_start(loop_thread, BROKERS),
        "txnsim, 1 broker": lambda: time_simulated_start(loop_thread, 1),
        f"librdkafka's mock, {BROKERS} brokers": time_mock_start,
    }
    times_by_title: dict[str, list[float]] = {
        cluster_title: [] for cluster_title in measure_by_title
    }
    for _ in range(options.rounds):
        for cluster_title, measure in measure_by_title.items():
            times_by_title[cluster_title].append(measure())
    loop_thread.stop()
    spread_by_title = {
        cluster_title: spread_of(times_ms) for cluster_title, times_ms in times_by_title.items()
    }
    if options.kafka_starts:
        spread_by_title["Apache Kafka, 1 node"] = spread_of(time_kafka_starts(options.kafka_starts))
    time_plugin_import()  # compiled once and kept, as an installation is
    _print_table(spread_by_title)
    load_time_spread = spread_of([time_plugin_import() for _ in range(10)])
    print(f"loading the plugin where no test uses it: {load_time_spread.median:.2f} ms")
    return 0


def time_simulated_start(loop_thread: LoopThread, broker_count: int) -> float:
    """Measure the milliseconds to start a cluster as the plugin does; its end is not counted."""
    cluster = SimulatedKafka.from_description(
        options_from_keywords(brokers=broker_count, topics={"orders": 3}), thread=loop_thread
    )
    began_s = time.perf_counter()
    cluster.start()
    took_s = time.perf_counter() - began_s
    cluster.stop()
    return 1000 * took_s


def time_mock_start() -> float:
    """Measure the milliseconds until librdkafka's mock cluster has told of its brokers."""
    began_s = time.perf_counter()
    producer = Producer({"test.mock.num.brokers": BROKERS, "log_level": 0})
    broker_by_id = producer.list_topics(timeout=30).brokers
    took_s = time.perf_counter() - began_s
    assert len(broker_by_id) == BROKERS
    return 1000 * took_s


def time_kafka_starts(start_count: int) -> list[float]:
    """Measure the milliseconds from a process's start until Apache Kafka accepts connections."""
    server = ApacheKafka()
    server.prepare()
    load_program = build.build_go_program("load")
    times_ms = []
    for _ in range(start_count):
        with run_server(server, load_program) as running_server:
            times_ms.append(running_server.first_commit.connected_ms)
    return times_ms


def time_plugin_import() -> float:
    """Measure the milliseconds that importing the plugin takes where pytest is imported already."""
    command = [sys.executable, "-c", _LOAD_PROGRAM]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(build.CACHE / "pycache")}
    finished_process = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return float(finished_process.stdout)


def _print_table(spread_by_title: dict[str, Spread]) -> None:
    kafka_median_ms = next(
        (
            spread_ms.median
            for cluster_title, spread_ms in spread_by_title.items()
            if cluster_title.startswith("Apache")
        ),
        None,
    )
    print(
        f"{'ready to connect, ms':<34} {'median':>8} {'least':>8} {'p90':>8} {'most':>8}  × Kafka"
    )
    for cluster_title, spread_ms in spread_by_title.items():
        p90_ms = (
            statistics.quantiles(spread_ms.samples, n=10)[-1]
            if len(spread_ms.samples) > 1
            else spread_ms.most
        )
        numbers_text = " ".join(
            f"{time_ms:8.2f}"
            for time_ms in (spread_ms.median, spread_ms.least, p90_ms, spread_ms.most)
        )
        ratio_text = "" if kafka_median_ms is None else f"{kafka_median_ms / spread_ms.median:8.0f}"
        verdict_text = ""
        if cluster_title == f"txnsim, {BROKERS} brokers":
            is_target_met = spread_ms.median <= TARGET_MS
            verdict_text = f"  target {TARGET_MS:g} ms: {'met' if is_target_met else 'MISSED'}"
        print(f"{cluster_title:<34} {numbers_text} {ratio_text}{verdict_text}")


if __name__ == "__main__":
    sys.exit(main())
