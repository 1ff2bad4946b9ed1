"""A client that does no harm and wants its answers: ``python -m tests.attacks.neighbour ADDRESS``.

It produces a small batch, waits for the answer, rests for a moment, and so on. Where the broker has
no room (KAFKA_STORAGE_ERROR) it tries again, as a client does; all of that is one wait. A line on
standard input ends a measurement: the waits since the line before are written as one line of JSON.
The end of input ends the program. Its answers are checked: each batch gets the next offset.
"""

from __future__ import annotations

import select
import sys
import time
from typing import Any, Final

import msgspec

from tests.attacks.figures import NeighbourWaits
from txnsim.client.raw.connection import RawConnection
from txnsim.errors import ErrorCode
from txnsim.wire.batch import Record, build_batch

TOPIC: Final = "neighbour"
REST_S: Final = 0.002
RETRY_S: Final = 0.1
FULL: Final = ErrorCode.kafka_storage_error
PRODUCE: Final = 0
PRODUCE_VERSION: Final = 9


def main(address: str) -> None:
    """Produce until the end of input."""
    records = build_batch([Record(key=b"k", value=b"v" * 100)], timestamp_ms=1_700_000_000_000)
    partition = {"index": 0, "records": records}
    topic = {"name": TOPIC, "partition_data": [partition]}
    expected_number = 0
    waits_ms: list[float] = []
    with RawConnection(address, client_id="neighbour") as connection:
        while True:
            asked_s = time.monotonic()
            while True:
                answer = connection.ask(
                    PRODUCE, PRODUCE_VERSION, acks=1, timeout=30_000, topic_data=[topic]
                )
                if answer.responses[0].partition_responses[0].error_code != FULL:
                    break
                time.sleep(RETRY_S)
            waits_ms.append((time.monotonic() - asked_s) * 1000)
            _check(answer, expected_number)
            expected_number += 1
            if select.select([sys.stdin], [], [], REST_S)[0]:
                if not sys.stdin.readline():
                    return
                sys.stdout.write(msgspec.json.encode(waits_of(waits_ms)).decode() + "\n")
                sys.stdout.flush()
                waits_ms.clear()


def waits_of(waits_ms: list[float]) -> NeighbourWaits:
    """Summarise the waits of a measurement; there must be at least one."""
    ordered = sorted(waits_ms)
    return NeighbourWaits(
        answers=len(ordered),
        p99_ms=ordered[len(ordered) * 99 // 100],
        worst_ms=ordered[-1],
    )


def _check(answer: Any, expected_number: int) -> None:
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == 0, partition
    assert partition.base_offset == expected_number, (partition.base_offset, expected_number)


if __name__ == "__main__":
    main(sys.argv[1])
