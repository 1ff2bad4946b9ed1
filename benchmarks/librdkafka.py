"""Sequential transactions through librdkafka (confluent-kafka), in a process of their own.

A figure of the client more than of the server: librdkafka's threads hand a transaction around
for longer than a quick server needs for it. It is here because users see this figure. One record
of 100 bytes per transaction, over 16 partitions in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # no __all__

from benchmarks.generator import LoadError

_PARTITIONS: Final = 16
_TIMEOUT_S: Final = 30.0


def measure_sequential_transactions(
    bootstrap: str, *, warm_up_s: float, measured_s: float
) -> float:
    """Measure transactions per second by this module, in a process of its own.

    Raises:
        LoadError: The client failed, or did not end.
    """
    timing_arguments = ["--warm-up", str(warm_up_s), "--seconds", str(measured_s)]
    command = [
        sys.executable,
        "-m",
        "benchmarks.librdkafka",
        "--bootstrap",
        bootstrap,
        *timing_arguments,
    ]
    try:
        finished_process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=warm_up_s + measured_s + 4 * _TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as timeout_error:
        raise LoadError(f"librdkafka: no end in {timeout_error.timeout:.0f} s") from timeout_error
    if finished_process.returncode != 0:
        raise LoadError(f"librdkafka: {finished_process.stderr.strip()}")
    return float(json.loads(finished_process.stdout)["per_second"])


def main() -> None:
    """Print one JSON object with transactions per second and the median latency."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.librdkafka")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--warm-up", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    topic = f"bench-librdkafka-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": options.bootstrap})
    for creation_future in admin.create_topics([NewTopic(topic, _PARTITIONS, 1)]).values():
        creation_future.result(_TIMEOUT_S)
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "transactional.id": topic,
            "linger.ms": 0,
            # The same pause as that of the load generator after CONCURRENT_TRANSACTIONS.
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 1,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    _commit_until_over(producer, topic, options.warm_up)
    began_s = time.perf_counter()
    latencies_s = _commit_until_over(producer, topic, options.seconds)
    elapsed_s = time.perf_counter() - began_s
    load_figures = {
        "per_second": len(latencies_s) / elapsed_s,
        "p50_ms": 1000 * statistics.median(latencies_s),
    }
    print(json.dumps(load_figures))


def _commit_until_over(producer: Producer, topic: str, duration_s: float) -> list[float]:
    record_value = bytes(100)
    latencies_s: list[float] = []
    end_s = time.perf_counter() + duration_s
    while (began_s := time.perf_counter()) < end_s:
        producer.begin_transaction()
        producer.produce(topic, record_value, partition=len(latencies_s) % _PARTITIONS)
        producer.commit_transaction(_TIMEOUT_S)
        latencies_s.append(time.perf_counter() - began_s)
    return latencies_s


if __name__ == "__main__":
    main()
