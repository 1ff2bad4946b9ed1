"""Requests that are sent without waiting for an answer."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final

from tests.attacks.neighbour import TOPIC as NEIGHBOUR
from tests.attacks.sending import exchange, request, send_quietly
from tests.attacks.target import Attack, AttackTarget
from txnsim.wire.batch import Record, build_batch

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
SMALL_REQUESTS: Final = 50_000
TOPIC: Final = "loot"
BATCH_BYTES: Final = 1_000_000
BATCHES: Final = 55
UNREAD_S: Final = 5.0
WIDE: Final = 9_990
TORN_BYTES: Final = 50_000_000


def small_requests(target: AttackTarget) -> int:
    """50,000 small requests in one go, whose answers are read."""
    frame_bytes = request(API_VERSIONS, 0) * SMALL_REQUESTS
    with target.socket() as connection:
        exchange(connection, frame_bytes, answer_count=SMALL_REQUESTS)
    return len(frame_bytes)


def small_produces(target: AttackTarget) -> int:
    """20,000 Produces with acks=-1 in one go, whose answers are read."""
    _make_topic(target)
    frame_bytes = _produce(build_batch([Record(key=b"k", value=b"v")], timestamp_ms=1)) * 20_000
    with target.socket() as connection:
        exchange(connection, frame_bytes, answer_count=20_000)
    return len(frame_bytes)


def unread_fetches(target: AttackTarget) -> int:
    """50 Fetches of 55 MiB, none of whose answers is read."""
    fetch = _store_loot(target)
    with target.socket(receive_buffer_bytes=4096) as connection:
        sent_bytes = send_quietly(connection, fetch * 50)
        time.sleep(UNREAD_S)
    return sent_bytes + BATCHES * BATCH_BYTES


def slow_readers(target: AttackTarget) -> int:
    """50 clients that ask for 55 MiB each and read none of it."""
    fetch = _store_loot(target)
    with ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(target.socket(receive_buffer_bytes=4096))
            connection.sendall(fetch)
        time.sleep(UNREAD_S)
    return 50 * len(fetch) + BATCHES * BATCH_BYTES


def unread_metadata(target: AttackTarget) -> int:
    """30 clients that ask ten times each for metadata of 10,000 topics and read no answer."""
    topics = [{"name": f"no-such-topic-{topic_number}"} for topic_number in range(10_000)]
    frame = request(METADATA, 9, topics=topics, allow_auto_topic_creation=False)
    with ExitStack() as stack:
        for _ in range(30):
            connection = stack.enter_context(target.socket(receive_buffer_bytes=4096))
            connection.settimeout(0.2)
            send_quietly(connection, frame * 10)
        time.sleep(UNREAD_S)
    return 30 * len(frame) * 10


def parked_fetches(target: AttackTarget) -> int:
    """20 Fetches that wait for the partition of the neighbour and 9,990 others."""
    topics = [
        {
            "topic": topic,
            "partitions": [
                {"partition": partition_index, "partition_max_bytes": 1}
                for partition_index in range(count)
            ],
        }
        for topic, count in ((NEIGHBOUR, 1), ("wide", WIDE))
    ]
    fetch = request(
        *(FETCH, 11),
        replica_id=-1,
        max_wait=5_000,
        min_bytes=1 << 20,
        max_bytes=1 << 30,
        session_epoch=-1,
        topics=topics,
    )
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(target.socket()).sendall(fetch)
        time.sleep(UNREAD_S)
    return 20 * len(fetch)


def torn_frames(target: AttackTarget) -> int:
    """20 connections, one after the other, that end in the middle of a frame of 100 MB."""
    part = bytes(TORN_BYTES)
    for _ in range(20):
        with target.socket() as connection:
            connection.sendall((100_000_000).to_bytes(4, "big") + part)
            time.sleep(0.1)
    return TORN_BYTES  # what one of them carries: the others are gone


def empty_frames(target: AttackTarget) -> int:
    """40 MiB of frames of length zero behind a Fetch that waits."""
    _make_topic(target)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    fetch = request(
        *(FETCH, 11),
        replica_id=-1,
        max_wait=3_000,
        min_bytes=1,
        max_bytes=1_000,
        topics=[{"topic": TOPIC, "partitions": [partition]}],
    )
    with target.socket() as connection:
        connection.settimeout(10.0)
        return send_quietly(connection, fetch + bytes(40 << 20))


def _make_topic(target: AttackTarget) -> None:
    """Create a topic with one partition on the attacked broker."""
    with target.connect() as connection:
        brokers = connection.ask(METADATA, 9, topics=[], allow_auto_topic_creation=False).brokers
    broker = next(node.node_id for node in brokers if target.address.endswith(f":{node.port}"))
    assignment = {"partition_index": 0, "broker_ids": [broker]}
    topic = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1}
    topic["assignments"] = [assignment]
    with target.connect() as connection:
        answer = connection.ask(CREATE_TOPICS, 7, topics=[topic], timeout=10_000)
    assert answer.topics[0].error_code == 0, answer


def _produce(records: bytes) -> bytes:
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
    return request(PRODUCE, 9, acks=-1, timeout=30_000, topic_data=[topic])


def _store_loot(target: AttackTarget) -> bytes:
    """Store records, and return a Fetch for all of them."""
    _make_topic(target)
    large_batch = build_batch([Record(key=None, value=bytes(BATCH_BYTES))], timestamp_ms=1)
    with target.socket() as connection:
        exchange(connection, _produce(large_batch) * BATCHES, answer_count=BATCHES)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
    topic = {"topic": TOPIC, "partitions": [partition]}
    return request(
        *(FETCH, 11), replica_id=-1, max_wait=500, min_bytes=1, max_bytes=1 << 30, topics=[topic]
    )


ATTACKS: Final = (
    Attack("pipelined-small-requests", small_requests),
    Attack("pipelined-produces", small_produces),
    Attack("unread-fetches", unread_fetches),
    Attack("slow-readers", slow_readers),
    Attack("unread-metadata", unread_metadata),
    Attack("parked-fetches", parked_fetches, serve=("--brokers", "1", "--topic", f"wide:{WIDE}")),
    Attack("empty-frames", empty_frames),
    Attack("torn-frames", torn_frames),
)
