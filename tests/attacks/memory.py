"""Large amounts of data, by which the process may grow up to a limit."""

from __future__ import annotations

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.attacks.sending import PIECE_BYTES, read_answers, request, send_quietly
from tests.attacks.target import Attack, AttackTarget
from txnsim.errors import ErrorCode
from txnsim.wire.batch import Record, build_batch

MARK_MIB: Final = 600
FRAME_BYTES: Final = 100 << 20
"""``socket.request.max.bytes``."""
UNFINISHED: Final = 30
UNFINISHED_BYTES: Final = 60 << 20
FULL: Final = ErrorCode.kafka_storage_error


def largest_frame(target: AttackTarget) -> int:
    """A Produce of almost 100 MiB in one record, as large as a frame may be, three times."""
    frame = _produce(FRAME_BYTES - 10_000)
    for _ in range(3):
        with target.socket() as connection:
            connection.settimeout(60.0)
            send_quietly(connection, frame)
            read_answers(connection, 1)
    return len(frame)  # one is there at a time


def unfinished_frames(target: AttackTarget) -> int:
    """30 clients that send 60 MiB of a frame of 100 MiB each, at a mark of 600 MiB."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(target.socket()) for _ in range(UNFINISHED)]
        with ThreadPoolExecutor(10) as client_pool:
            sent_bytes = sum(client_pool.map(_send_most, connections))
        time.sleep(1.0)
    assert target.memory_mib("VmHWM") < MARK_MIB + 400, "of a quarter of a second"
    return sent_bytes


def full(target: AttackTarget) -> int:
    """Records until there are 600 MiB, which is the mark; then their topic is deleted."""
    frame, sent_bytes, errors = _produce(1_000_000, topic="full"), 0, set()
    with target.connect() as connection:
        for _ in range(1_000):
            answer = connection.ask(0, 9, **_values(1_000_000, topic="full"))
            sent_bytes += len(frame)
            errors.add(answer.responses[0].partition_responses[0].error_code)
            if int(FULL) in errors:
                break
        assert int(FULL) in errors, errors
        assert connection.ask(3, 12, topics=None).topics, "what only asks is answered"
        connection.ask(20, 6, topics=[{"name": "full"}], timeout=10_000)
    return sent_bytes


def _send_most(connection: socket.socket) -> int:
    """Send the beginning of a large frame until the connection is closed."""
    connection.settimeout(60.0)
    frame_bytes = FRAME_BYTES.to_bytes(4, "big") + bytes(PIECE_BYTES)
    sent_bytes = send_quietly(connection, frame_bytes)
    while sent_bytes < UNFINISHED_BYTES:
        newly_sent_bytes = send_quietly(connection, frame_bytes[4:])
        if not newly_sent_bytes:
            break
        sent_bytes += newly_sent_bytes
    return sent_bytes


def _values(size: int, *, topic: str) -> dict[str, Any]:
    records = build_batch([Record(key=None, value=bytes(size))], timestamp_ms=1_700_000_000_000)
    partition_data = [{"index": 0, "records": records}]
    return {
        "acks": 1,
        "timeout": 30_000,
        "topic_data": [{"name": topic, "partition_data": partition_data}],
    }


def _produce(size: int, *, topic: str = "other") -> bytes:
    return request(0, 9, **_values(size, topic=topic))


_MARK: Final = ("--brokers", "1", "--memory", f"{MARK_MIB}MiB")

ATTACKS: Final = (
    Attack("frame-largest", largest_frame, serve=("--brokers", "1", "--topic", "other:1")),
    Attack("frames-unfinished", unfinished_frames, serve=_MARK),
    Attack(
        "memory-full",
        full,
        serve=(*_MARK, "--topic", "full:1", "--log-budget", "4GiB"),
        is_refused=True,
    ),
)
