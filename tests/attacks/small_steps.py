"""Small requests, repeated, each of which could keep much.

Where Kafka stores more for a request than was sent (a record of a transaction lists all its
partitions), ``kafka_stores_mib`` is the sum of that.
"""

from __future__ import annotations

import time
from typing import Final

from tests.attacks.answers import PARTITIONS, SERVE, WIDE
from tests.attacks.sending import exchange, request
from tests.attacks.target import Attack, AttackTarget
from tests.attacks.walks import get_pages
from txnsim.wire.batch import Record, build_batch

PRODUCE: Final = 0
JOIN_GROUP: Final = 11
CREATE_TOPICS: Final = 19
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS: Final = 24
WRITE_TXN_MARKERS: Final = 27
DESCRIBE_PRODUCERS: Final = 61

GROWN_TO: Final = 8_000
MARKER_ROUNDS: Final = 40
IDEMPOTENT: Final = 100_000
SEGMENTS: Final = 8_000
JOINS: Final = 50_000
LIMIT_S: Final = 400.0
_MARKER_BYTES: Final = 78
_HALF_HOUR_MS: Final = 30 * 60 * 1000
_ONE_BROKER: Final = ("--brokers", "1", "--ready-coordinators")


def transaction_grows(target: AttackTarget) -> int:
    """AddPartitionsToTxn, a partition at a time: one transaction comes to 8,000 partitions."""
    with target.connect() as connection:
        identity = connection.ask(
            INIT_PRODUCER_ID,
            4,
            transactional_id="grows",
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
    frames = [
        request(
            ADD_PARTITIONS,
            3,
            v3_and_below_transactional_id="grows",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[{"name": WIDE, "partitions": [partition_index]}],
        )
        for partition_index in range(GROWN_TO)
    ]
    return _send(target, frames)


def markers_repeated(target: AttackTarget) -> int:
    """WriteTxnMarkers over 9,990 partitions, 40 times."""
    frames = [
        request(
            WRITE_TXN_MARKERS,
            1,
            markers=[
                {
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "topics": [{"name": WIDE, "partition_indexes": list(range(PARTITIONS))}],
                    "coordinator_epoch": 0,
                }
            ],
        )
    ] * MARKER_ROUNDS
    return _send(target, frames)


def idempotent_producers(target: AttackTarget) -> int:
    """100,000 idempotent producers of a partition; then each list of them."""
    begun_ms = int(time.time() * 1000)
    frames = [
        _first_record("many", producer_id, timestamp_ms=begun_ms)
        for producer_id in range(1_000, 1_000 + IDEMPOTENT)
    ]
    sent_bytes = _send(target, frames)
    target.reset_memory_peak()
    target.measure_gaps_anew()
    topics = [{"name": "many", "partition_indexes": [0]}]
    with target.connect() as connection:
        answer = connection.ask(DESCRIBE_PRODUCERS, 0, topics=topics)
    assert len(answer.topics[0].partitions[0].active_producers) == IDEMPOTENT
    get_pages(target, "/api/v1/producers?topic=many&partition=0", "/metrics")
    return sent_bytes


def segments(target: AttackTarget) -> int:
    """8,000 producers of a record each, where each record begins a segment."""
    with target.connect() as connection:
        topic = {
            "name": "segments",
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": "segment.ms", "value": "1"}],
        }
        connection.ask(CREATE_TOPICS, 7, topics=[topic], timeout=3_000)
    # A segment ends by the timestamps of its records.
    begun_ms = int(time.time() * 1000) - 3 * SEGMENTS
    frames = [
        _first_record("segments", 1_000 + number, timestamp_ms=begun_ms + 3 * number)
        for number in range(SEGMENTS)
    ]
    return _send(target, frames)


def joins_without_ids(target: AttackTarget) -> int:
    """50,000 JoinGroups without a member id, whose session lasts half an hour."""
    frames = [
        request(
            JOIN_GROUP,
            5,
            group_id="joined",
            session_timeout=_HALF_HOUR_MS,
            rebalance_timeout=_HALF_HOUR_MS,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
    ] * JOINS
    return _send(target, frames)


def _first_record(topic: str, producer_id: int, *, timestamp_ms: int) -> bytes:
    records = build_batch(
        [Record(key=None, value=b"v")],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    partition_data = [{"index": 0, "records": records}]
    return request(
        PRODUCE,
        9,
        transactional_id=None,
        acks=1,
        timeout=30_000,
        topic_data=[{"name": topic, "partition_data": partition_data}],
    )


def _send(target: AttackTarget, frames: list[bytes]) -> int:
    frame_bytes = b"".join(frames)
    with target.socket() as connection:
        connection.settimeout(200.0)
        exchange(connection, frame_bytes, answer_count=len(frames))
    return len(frame_bytes)


ATTACKS: Final = (
    Attack(
        "small-transaction-grows",
        transaction_grows,
        serve=(*SERVE, "--ready-coordinators"),
        limit_s=LIMIT_S,
        kafka_stores_mib=4 * GROWN_TO * GROWN_TO / 2 / 2**20,
    ),
    Attack(
        "small-markers-repeated",
        markers_repeated,
        serve=SERVE,
        limit_s=LIMIT_S,
        kafka_stores_mib=_MARKER_BYTES * PARTITIONS * MARKER_ROUNDS / 2**20,
    ),
    Attack(
        "small-idempotent-producers",
        idempotent_producers,
        serve=(*_ONE_BROKER, "--topic", "many:1"),
        limit_s=LIMIT_S,
    ),
    Attack("small-segments", segments, serve=_ONE_BROKER, limit_s=LIMIT_S),
    Attack("small-joins-without-ids", joins_without_ids, serve=_ONE_BROKER, limit_s=LIMIT_S),
)
