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
from benchmarks.process import started_server
from benchmarks.report import Spread, spread
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
    thread = LoopThread()
    measurements_by_title: dict[str, Callable[[], float]] = {
        f"txnsim, {BROKERS} brokers": lambda: start_simulated(thread, BROKERS),
        "txnsim, 1 broker": lambda: start_simulated(thread, 1),
        f"librdkafka's mock, {BROKERS} brokers": start_mock,
    }
    times_by_title: dict[str, list[float]] = {title: [] for title in measurements_by_title}
    for _ in range(options.rounds):
        for title, measure in measurements_by_title.items():
            times_by_title[title].append(measure())
    thread.stop()
    rows = {title: spread(times_ms) for title, times_ms in times_by_title.items()}
    if options.kafka_starts:
        rows["Apache Kafka, 1 node"] = spread(start_kafka(options.kafka_starts))
    load_plugin()  # compiled once and kept, as an installation is
    _print(rows)
    load_times = spread([load_plugin() for _ in range(10)])
    print(f"loading the plugin where no test uses it: {load_times.median:.2f} ms")
    return 0


def start_simulated(thread: LoopThread, broker_count: int) -> float:
    """Milliseconds to start a cluster as the plugin does; its end is not counted."""
    cluster = SimulatedKafka.from_description(
        options_from_keywords(brokers=broker_count, topics={"orders": 3}), thread=thread
    )
    began_s = time.perf_counter()
    cluster.start()
    took_s = time.perf_counter() - began_s
    cluster.stop()
    return 1000 * took_s


def start_mock() -> float:
    """Milliseconds until librdkafka's mock cluster has told of its brokers."""
    began_s = time.perf_counter()
    producer = Producer({"test.mock.num.brokers": BROKERS, "log_level": 0})
    brokers = producer.list_topics(timeout=30).brokers
    took_s = time.perf_counter() - began_s
    assert len(brokers) == BROKERS
    return 1000 * took_s


def start_kafka(start_count: int) -> list[float]:
    """Milliseconds from the process's start until a real Apache Kafka accepts connections."""
    server = ApacheKafka()
    server.prepare()
    load = build.go_program("load")
    times_ms = []
    for _ in range(start_count):
        with started_server(server, load) as running_server:
            times_ms.append(running_server.first_commit.connected_ms)
    return times_ms


def load_plugin() -> float:
    """Milliseconds that importing the plugin takes where pytest is imported already."""
    command = [sys.executable, "-c", _LOAD_PROGRAM]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(build.CACHE / "pycache")}
    finished_process = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return float(finished_process.stdout)


def _print(spread_by_title: dict[str, Spread]) -> None:
    kafka_median = next(
        (
            own_spread.median
            for title, own_spread in spread_by_title.items()
            if title.startswith("Apache")
        ),
        None,
    )
    print(
        f"{'ready to connect, ms':<34} {'median':>8} {'least':>8} {'p90':>8} {'most':>8}  × Kafka"
    )
    for title, own_spread in spread_by_title.items():
        p90 = (
            statistics.quantiles(own_spread.samples, n=10)[-1]
            if len(own_spread.samples) > 1
            else own_spread.most
        )
        numbers_text = " ".join(
            f"{value:8.2f}" for value in (own_spread.median, own_spread.least, p90, own_spread.most)
        )
        ratio_text = "" if kafka_median is None else f"{kafka_median / own_spread.median:8.0f}"
        verdict_text = ""
        if title == f"txnsim, {BROKERS} brokers":
            is_met = own_spread.median <= TARGET_MS
            verdict_text = f"  target {TARGET_MS:g} ms: {'met' if is_met else 'MISSED'}"
        print(f"{title:<34} {numbers_text} {ratio_text}{verdict_text}")


if __name__ == "__main__":
    sys.exit(main())
