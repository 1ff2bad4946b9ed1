"""Very many transactions of one partition."""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.attacks.sending import exchange, request
from tests.attacks.target import Attack, AttackTarget
from tests.attacks.walks import get_pages
from txnsim.wire.batch import Record, build_batch

TRANSACTIONS: Final = 100_000
PRODUCE: Final = 0
FETCH: Final = 1
WRITE_TXN_MARKERS: Final = 27
LIMIT_S: Final = 600.0
_FIRST_ID: Final = 1_000
_TOPIC: Final = "many"
_SERVE: Final = (
    *("--brokers", "1", "--topic", f"{_TOPIC}:1"),
    *("--config", str(Path(__file__).with_name("unverified.properties"))),
)


def judged(target: AttackTarget) -> int:
    """100,000 open transactions of a partition; then each view that judges them."""
    sent_bytes = _open_all(target)
    get_pages(target, "/api/v1/open-transactions", "/api/v1/open-transactions?verdict=alive")
    with suppress(urllib.error.HTTPError):  # larger than an answer may be
        get_pages(target, "/api/v1/verdict")
    return sent_bytes


def searched(target: AttackTarget) -> int:
    """100,000 open transactions of a partition; then a search as an operator makes it."""
    sent_bytes = _open_all(target)
    with suppress(urllib.error.HTTPError):  # all of them hang
        get_pages(target, "/api/v1/assertions/no-hanging-transactions")
    return sent_bytes


def aborted(target: AttackTarget) -> int:
    """100,000 transactions of a partition, aborted behind one that was open; then reads of all."""
    sent_bytes = _open_all(target)
    aborted_ids = range(_FIRST_ID + 1, _FIRST_ID + TRANSACTIONS)
    # What stands before the markers is read only once the first transaction has ended, too.
    for producer_ids in (*_parts(aborted_ids, 4_000), [_FIRST_ID]):
        markers = [
            {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "transaction_result": False,
                "coordinator_epoch": 0,
                "topics": [{"name": _TOPIC, "partition_indexes": [0]}],
            }
            for producer_id in producer_ids
        ]
        _ask(target, request(WRITE_TXN_MARKERS, 1, markers=markers))
    target.reset_memory_peak()
    target.measure_gaps_anew()
    for bytes_max in (1, 55 << 20):
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": bytes_max}
        fetch = request(
            FETCH,
            11,
            replica_id=-1,
            max_wait=0,
            min_bytes=0,
            max_bytes=bytes_max,
            isolation_level=1,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": _TOPIC, "partitions": [partition]}],
        )
        for _ in range(5):
            _ask(target, fetch)
    return sent_bytes


def _parts(producer_ids: range, count: int) -> Iterator[range]:
    for start in range(0, len(producer_ids), count):
        yield producer_ids[start : start + count]


def _ask(target: AttackTarget, frame: bytes) -> None:
    with target.socket() as connection:
        connection.settimeout(60.0)
        exchange(connection, frame, answer_count=1)


def _open_all(target: AttackTarget) -> int:
    begun_ms = int(time.time() * 1000)
    frame_bytes = b"".join(
        _first_record(producer_id, begun_ms)
        for producer_id in range(_FIRST_ID, _FIRST_ID + TRANSACTIONS)
    )
    with target.socket() as connection:
        connection.settimeout(200.0)
        exchange(connection, frame_bytes, answer_count=TRANSACTIONS)
    target.reset_memory_peak()
    target.measure_gaps_anew()
    return len(frame_bytes)


def _first_record(producer_id: int, timestamp_ms: int) -> bytes:
    records = build_batch(
        [Record(key=None, value=b"v")],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    partition_data = [{"index": 0, "records": records}]
    return request(
        PRODUCE,
        9,
        transactional_id=f"x{producer_id}",
        acks=1,
        timeout=30_000,
        topic_data=[{"name": _TOPIC, "partition_data": partition_data}],
    )


ATTACKS: Final = (
    Attack("open-judged", judged, serve=_SERVE, limit_s=LIMIT_S),
    Attack("open-searched", searched, serve=_SERVE, limit_s=LIMIT_S),
    Attack("open-aborted", aborted, serve=_SERVE, limit_s=LIMIT_S),
)
