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
    """A connection whose calls wait for the answer, so that they can be timed."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(4 << 20)

    def read_answer(self) -> int:
        """Read one answer; return its size in bytes."""
        answer_size = int.from_bytes(self._read(4), "big")
        remaining_byte_count = answer_size
        while remaining_byte_count:
            remaining_byte_count -= self.socket.recv_into(
                self.buffer, min(remaining_byte_count, len(self.buffer))
            )
        return answer_size

    def _read(self, byte_count: int) -> bytes:
        data = self.socket.recv(byte_count, socket.MSG_WAITALL)
        if len(data) < byte_count:
            raise ConnectionError("closed")
        return data


def encode_produce_frame(record_value: bytes) -> bytes:
    batch = build_batch([Record(value=record_value)], timestamp_ms=time.time_ns() // 1_000_000)
    request = requests.produce({TOPIC_PARTITION: batch}, id_by_topic={}, acks=1)
    message = request.build(codec.request_schema(0, 9))
    return codec.encode_request(0, 9, 7, "bench", message)


def encode_fetch_frame(version: int, offset: int, topic_id: UUID | None) -> bytes:
    """Encode a Fetch of up to 8 MB from an offset on."""
    schema = codec.request_schema(1, version)
    topic_fields: dict[str, Any] = {"topic": TOPIC, "topic_id": topic_id}
    fetch_partition = codec.build(
        schema.FetchPartition, partition=0, current_leader_epoch=-1, fetch_offset=offset,
        log_start_offset=-1, partition_max_bytes=8_000_000, last_fetched_epoch=-1,
    )  # fmt: skip
    message = codec.build(
        schema.FetchRequest, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=8_000_000,
        isolation_level=0, session_id=0, session_epoch=-1, forgotten_topics_data=(), rack_id="",
        topics=(codec.build(schema.FetchTopic, partitions=(fetch_partition,), **topic_fields),),
    )  # fmt: skip
    return codec.encode_request(1, version, 7, "bench", message)


def measure_latencies(
    connection_by_name: dict[str, BlockingConnection], request_count: int
) -> dict[str, list[float]]:
    """Measure each Produce in microseconds; the connections take turns in blocks of requests."""
    produce_frame = encode_produce_frame(b"x" * 100)
    latencies_us_by_name: dict[str, list[float]] = {
        connection_name: [] for connection_name in connection_by_name
    }
    for block_number in range(request_count // REQUESTS_PER_BLOCK):
        for connection_name, connection in connection_by_name.items():
            for _ in range(REQUESTS_PER_BLOCK):
                began_ns = time.perf_counter_ns()
                connection.socket.sendall(produce_frame)
                connection.read_answer()
                if block_number:  # the first is for warming up
                    latencies_us_by_name[connection_name].append(
                        (time.perf_counter_ns() - began_ns) / 1_000
                    )
    return latencies_us_by_name


def measure_mb_per_s(
    request_count: int, frame_of: Callable[[int], bytes], connection: BlockingConnection
) -> float:
    """Measure the megabytes per second of requests and answers together."""
    began_s = time.perf_counter()
    moved_byte_count = sent_request_count = received_answer_count = 0
    while received_answer_count < request_count:
        while sent_request_count < min(request_count, received_answer_count + REQUESTS_IN_FLIGHT):
            frame = frame_of(sent_request_count)
            connection.socket.sendall(frame)
            moved_byte_count += len(frame)
            sent_request_count += 1
        moved_byte_count += connection.read_answer()
        received_answer_count += 1
    return moved_byte_count / 1e6 / (time.perf_counter() - began_s)


async def create_topic(address: str) -> UUID:
    """Create the topic; return its id."""
    async with Cluster(address) as cluster:
        admin = Admin(cluster)
        await admin.create_topics([NewTopic(name=TOPIC, partitions=1, replication_factor=1)])
        await admin.wait_for_topic(TOPIC)
        (topic_description,) = await admin.describe_topics([TOPIC])
        assert topic_description.topic_id is not None
        return topic_description.topic_id


def measure(
    connection_by_name: dict[str, BlockingConnection], options: argparse.Namespace, topic_id: UUID
) -> dict[str, Any]:
    """Measure all connections in several rounds; the figures by name."""
    latencies_us_by_name: dict[str, list[float]] = {
        connection_name: [] for connection_name in connection_by_name
    }
    for _ in range(options.rounds):
        new_latencies_by_name = measure_latencies(connection_by_name, options.requests)
        for connection_name, new_latencies_us in new_latencies_by_name.items():
            latencies_us_by_name[connection_name] += new_latencies_us
    median_us_by_name = {
        connection_name: statistics.median(latencies_us)
        for connection_name, latencies_us in latencies_us_by_name.items()
    }
    figure_by_name: dict[str, Any] = {
        "p50_us": {
            connection_name: round(median_us, 1)
            for connection_name, median_us in median_us_by_name.items()
        },
        "added_us": {
            connection_name: round(median_us - median_us_by_name["direct"], 1)
            for connection_name, median_us in median_us_by_name.items()
        },
    }
    large_produce_frame = encode_produce_frame(bytes(BATCH_BYTES - 200))
    first_offset = options.rounds * options.requests * len(connection_by_name)
    """The first offset of the large batches."""
    for figure_name, frame_of in (
        ("produce_mb_s", lambda _: large_produce_frame),
        ("fetch_v12_mb_s", lambda i: encode_fetch_frame(12, first_offset + 8 * (i % 20), None)),
        ("fetch_v17_mb_s", lambda i: encode_fetch_frame(17, first_offset + 8 * (i % 20), topic_id)),
    ):
        request_count = (
            options.megabytes if figure_name.startswith("produce") else options.megabytes // 8
        )
        mb_per_s_by_name: dict[str, list[int]] = {
            connection_name: [] for connection_name in connection_by_name
        }
        for _ in range(options.rounds):
            for connection_name, connection in connection_by_name.items():
                mb_per_s_by_name[connection_name].append(
                    round(measure_mb_per_s(request_count, frame_of, connection))
                )
        figure_by_name[figure_name] = mb_per_s_by_name
    return figure_by_name


@contextlib.contextmanager
def run_bare_relay(bootstrap: str) -> Iterator[str]:
    """Run a bare relay in front of a broker; yield its address."""
    (relay_port,) = free_ports(1)
    target_port = bootstrap.rpartition(":")[2]
    command = [sys.executable, "-m", "benchmarks.bare_relay", str(relay_port), target_port]
    relay_process = subprocess.Popen(command)
    try:
        while relay_process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", relay_port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                break
        yield f"127.0.0.1:{relay_port}"
    finally:
        relay_process.terminate()
        relay_process.wait()


@contextlib.contextmanager
def keep_awake() -> Iterator[None]:
    """Keep every processor busy with idle work, so that none of them sleeps."""
    spinning_program = (
        "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    )
    spinner_processes = [
        subprocess.Popen([sys.executable, "-c", spinning_program])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for spinner_process in spinner_processes:
            spinner_process.kill()
            spinner_process.wait()


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
        address_by_name = {"direct": options.direct, "proxy": options.proxy}
        if not options.direct:
            server = stack.enter_context(TxnsimServer(brokers=1))
            proxy = stack.enter_context(TxnsimProxy(server.bootstrap))
            address_by_name = {"direct": server.bootstrap, "proxy": proxy.bootstrap}
        address_by_name["bare relay"] = stack.enter_context(
            run_bare_relay(address_by_name["direct"])
        )
        topic_id = asyncio.run(create_topic(address_by_name["direct"]))
        if options.awake:
            stack.enter_context(keep_awake())
        load_average = os.getloadavg()[0]
        connection_by_name = {
            name: BlockingConnection(address) for name, address in address_by_name.items()
        }
        figure_by_name = measure(connection_by_name, options, topic_id)
    print(json.dumps({"load": round(load_average, 1), **figure_by_name}, indent=2))


if __name__ == "__main__":
    main()
