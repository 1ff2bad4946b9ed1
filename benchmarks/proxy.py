"""What an unarmed fault proxy costs: the same requests to a broker directly, through the proxy, and
through a relay that looks at nothing (``bare_relay``), in alternation.

    python -m benchmarks.proxy [--rounds 3] [--awake] [--direct HOST:PORT --proxy HOST:PORT]

A broker of txnsim is started, and the proxy and the relay in front of it. With ``--direct`` and
``--proxy`` both addresses lead to one broker that is there already. The topic ``proxy-bench`` is
made there with one partition. Latency: Produce of one small record with acks=1, one at a time,
blocks of 50 in turn. Throughput: Produce of 1 MB batches, five under way; then Fetch of what is
there, in a version whose answers pass as they come (12) and in one whose answers are collected
(17).

An idle processor of a virtual machine sleeps, and to be woken takes it longer than the proxy's
work. ``--awake`` keeps the processors busy with loops that run only when nothing else wants to
(Linux, ``SCHED_IDLE``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID

from tests.support.txnsim_proxy import TxnsimProxy
from tests.support.txnsim_server import TxnsimServer
from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.requests import NewTopic
from txnsim.runtime.real_world import free_ports
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.records import Record, build_batch

TOPIC: Final = "proxy-bench"
TOPIC_PARTITION: Final = TopicPartition(TOPIC, 0)
REQUESTS_PER_BLOCK: Final = 50
REQUESTS_IN_FLIGHT: Final = 5
BATCH_BYTES: Final = 1_000_000


class BlockingConnection:
    """A blocking connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(4 << 20)

    def answer(self) -> int:
        """Read one answer; return its size in bytes."""
        size = int.from_bytes(self._read(4), "big")
        remaining_bytes = size
        while remaining_bytes:
            remaining_bytes -= self.socket.recv_into(
                self.buffer, min(remaining_bytes, len(self.buffer))
            )
        return size

    def _read(self, count: int) -> bytes:
        data = self.socket.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise ConnectionError("closed")
        return data


def produce(value: bytes) -> bytes:
    """A Produce of one record."""
    batch = build_batch([Record(value=value)], timestamp_ms=time.time_ns() // 1_000_000)
    request = requests.produce({TOPIC_PARTITION: batch}, topic_ids={}, acks=1)
    message = request.build(codec.request_schema(0, 9))
    return codec.encode_request(0, 9, 7, "bench", message)


def fetch(version: int, offset: int, topic_id: UUID | None) -> bytes:
    """A Fetch of up to 8 MB from an offset on."""
    schema = codec.request_schema(1, version)
    values: dict[str, Any] = {"topic": TOPIC, "topic_id": topic_id}
    partition = codec.build(
        schema.FetchPartition, partition=0, current_leader_epoch=-1, fetch_offset=offset,
        log_start_offset=-1, partition_max_bytes=8_000_000, last_fetched_epoch=-1,
    )  # fmt: skip
    message = codec.build(
        schema.FetchRequest, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=8_000_000,
        isolation_level=0, session_id=0, session_epoch=-1, forgotten_topics_data=(), rack_id="",
        topics=(codec.build(schema.FetchTopic, partitions=(partition,), **values),),
    )  # fmt: skip
    return codec.encode_request(1, version, 7, "bench", message)


def latencies(lines: dict[str, BlockingConnection], count: int) -> dict[str, list[float]]:
    """Microseconds of each Produce; the connections take turns in blocks of requests."""
    frame = produce(b"x" * 100)
    samples: dict[str, list[float]] = {name: [] for name in lines}
    for block in range(count // REQUESTS_PER_BLOCK):
        for name, line in lines.items():
            for _ in range(REQUESTS_PER_BLOCK):
                began = time.perf_counter_ns()
                line.socket.sendall(frame)
                line.answer()
                if block:  # the first is for warming up
                    samples[name].append((time.perf_counter_ns() - began) / 1_000)
    return samples


def transfer_rate(count: int, send: Callable[[int], bytes], line: BlockingConnection) -> float:
    """MB per second, of requests or answers, whichever are larger."""
    began = time.perf_counter()
    moved_bytes = sent_requests = received_answers = 0
    while received_answers < count:
        while sent_requests < min(count, received_answers + REQUESTS_IN_FLIGHT):
            frame = send(sent_requests)
            line.socket.sendall(frame)
            moved_bytes += len(frame)
            sent_requests += 1
        moved_bytes += line.answer()
        received_answers += 1
    return moved_bytes / 1e6 / (time.perf_counter() - began)


async def topic_id_of(address: str) -> UUID:
    """Create the topic; return its id."""
    async with Cluster(address) as cluster:
        admin = Admin(cluster)
        await admin.create_topics([NewTopic(name=TOPIC, partitions=1, replication_factor=1)])
        await admin.wait_for_topic(TOPIC)
        (topic,) = await admin.describe_topics([TOPIC])
        assert topic.topic_id is not None
        return topic.topic_id


def measure(
    lines: dict[str, BlockingConnection], options: argparse.Namespace, topic_id: UUID
) -> dict[str, Any]:
    """Measure all connections in several rounds; the figures by name."""
    samples: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(options.rounds):
        samples = {
            name: samples[name] + new_samples
            for name, new_samples in latencies(lines, options.requests).items()
        }  # fmt: skip
    medians = {name: statistics.median(times) for name, times in samples.items()}
    figures: dict[str, Any] = {
        "p50_us": {name: round(median, 1) for name, median in medians.items()},
        "added_us": {
            name: round(median - medians["direct"], 1) for name, median in medians.items()
        },
    }
    large_batch = produce(bytes(BATCH_BYTES - 200))
    first_offset = options.rounds * options.requests * len(lines)
    """The first offset of the large batches."""
    for figure, send in (
        ("produce_mb_s", lambda _: large_batch),
        ("fetch_v12_mb_s", lambda i: fetch(12, first_offset + 8 * (i % 20), None)),
        ("fetch_v17_mb_s", lambda i: fetch(17, first_offset + 8 * (i % 20), topic_id)),
    ):
        count = options.megabytes if figure.startswith("produce") else options.megabytes // 8
        rates: dict[str, list[int]] = {name: [] for name in lines}
        for _ in range(options.rounds):
            for name, line in lines.items():
                rates[name].append(round(transfer_rate(count, send, line)))
        figures[figure] = rates
    return figures


@contextlib.contextmanager
def bare_relay(bootstrap: str) -> Iterator[str]:
    """A bare relay in front of a broker: its address."""
    (port,) = free_ports(1)
    target = bootstrap.rpartition(":")[2]
    command = [sys.executable, "-m", "benchmarks.bare_relay", str(port), target]
    relay = subprocess.Popen(command)
    try:
        while relay.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                break
        yield f"127.0.0.1:{port}"
    finally:
        relay.terminate()
        relay.wait()


@contextlib.contextmanager
def keep_awake() -> Iterator[None]:
    """Keep every processor busy with idle work, so that none of them sleeps."""
    idle_program = (
        "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    )
    spinners = [
        subprocess.Popen([sys.executable, "-c", idle_program]) for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy", description=__doc__)
    parser.add_argument("--direct", help="a broker that is there already")
    parser.add_argument("--proxy", help="the proxy in front of it")
    parser.add_argument("--awake", action="store_true", help="keep the processors from sleeping")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--requests", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if bool(options.direct) is not bool(options.proxy):
        parser.error("--direct and --proxy go together")
    with contextlib.ExitStack() as stack:
        addresses = {"direct": options.direct, "proxy": options.proxy}
        if not options.direct:
            server = stack.enter_context(TxnsimServer(brokers=1))
            proxy = stack.enter_context(TxnsimProxy(server.bootstrap))
            addresses = {"direct": server.bootstrap, "proxy": proxy.bootstrap}
        addresses["bare relay"] = stack.enter_context(bare_relay(addresses["direct"]))
        topic_id = asyncio.run(topic_id_of(addresses["direct"]))
        if options.awake:
            stack.enter_context(keep_awake())
        load = os.getloadavg()[0]
        lines = {name: BlockingConnection(address) for name, address in addresses.items()}
        figures = measure(lines, options, topic_id)
    print(json.dumps({"load": round(load, 1), **figures}, indent=2))


if __name__ == "__main__":
    main()
