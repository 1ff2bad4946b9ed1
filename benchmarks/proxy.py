"""What an unarmed fault proxy costs: the same requests to a broker directly and through the proxy,
in alternation.

    python -m benchmarks.proxy --direct HOST:PORT --proxy HOST:PORT [--megabytes 400]

Both addresses lead to the same broker; the topic ``proxy-bench`` is made there with one partition.
Latency: Produce of one small record with acks=1, one at a time, blocks of 50 in turn. Throughput:
Produce of 1 MB batches, five under way; then Fetch of what is there, in a version whose answers
pass as they come (12) and in one whose answers are collected (17).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.requests import NewTopic
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.records import Record, build_batch

TOPIC: Final = "proxy-bench"
TP: Final = TopicPartition(TOPIC, 0)
BLOCK: Final = 50
UNDER_WAY: Final = 5
BATCH_BYTES: Final = 1_000_000


class Line:
    """A blocking connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(4 << 20)

    def answer(self) -> int:
        """Read one answer; its size."""
        size = int.from_bytes(self._read(4), "big")
        left = size
        while left:
            left -= self.socket.recv_into(self.buffer, min(left, len(self.buffer)))
        return size

    def _read(self, count: int) -> bytes:
        data = self.socket.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise ConnectionError("closed")
        return data


def produce(value: bytes) -> bytes:
    """A Produce of one record."""
    batch = build_batch([Record(value=value)], timestamp_ms=time.time_ns() // 1_000_000)
    request = requests.produce({TP: batch}, topic_ids={}, acks=1)
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


def latencies(lines: dict[str, Line], count: int) -> dict[str, list[float]]:
    """Microseconds per Produce, in blocks by turns."""
    frame = produce(b"x" * 100)
    took: dict[str, list[float]] = {name: [] for name in lines}
    for block in range(count // BLOCK):
        for name, line in lines.items():
            for _ in range(BLOCK):
                began = time.perf_counter_ns()
                line.socket.sendall(frame)
                line.answer()
                if block:  # the first is for warming up
                    took[name].append((time.perf_counter_ns() - began) / 1_000)
    return took


def rate(count: int, send: Callable[[int], bytes], line: Line) -> float:
    """MB per second, of requests or answers, whichever are larger."""
    began = time.perf_counter()
    moved = sent = received = 0
    while received < count:
        while sent < min(count, received + UNDER_WAY):
            frame = send(sent)
            line.socket.sendall(frame)
            moved += len(frame)
            sent += 1
        moved += line.answer()
        received += 1
    return moved / 1e6 / (time.perf_counter() - began)


async def topic_id_of(address: str) -> UUID:
    """Make the topic, and its id."""
    async with Cluster(address) as cluster:
        admin = Admin(cluster)
        await admin.create_topics([NewTopic(name=TOPIC, partitions=1, replication_factor=1)])
        await admin.wait_for_topic(TOPIC)
        (topic,) = await admin.describe_topics([TOPIC])
        assert topic.topic_id is not None
        return topic.topic_id


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy", description=__doc__)
    parser.add_argument("--direct", required=True)
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--requests", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    topic_id = asyncio.run(topic_id_of(options.direct))
    lines = {"direct": Line(options.direct), "proxy": Line(options.proxy)}
    took = latencies(lines, options.requests)
    medians = {name: round(statistics.median(one), 1) for name, one in took.items()}
    added = round(medians["proxy"] - medians["direct"], 1)
    result: dict[str, Any] = {"p50_us": medians, "added_us": added}
    big = produce(bytes(BATCH_BYTES - 200))
    count = options.megabytes
    for what, send in (
        ("produce_mb_s", lambda _: big),
        ("fetch_v12_mb_s", lambda i: fetch(12, options.requests * 2 + 8 * (i % 20), None)),
        ("fetch_v17_mb_s", lambda i: fetch(17, options.requests * 2 + 8 * (i % 20), topic_id)),
    ):
        many = count if what.startswith("produce") else count // 8
        rates: dict[str, list[int]] = {name: [] for name in lines}
        for _ in range(options.rounds):
            for name, line in lines.items():
                rates[name].append(round(rate(many, send, line)))
        result[what] = rates
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
