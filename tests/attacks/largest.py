"""Every API with the largest request that it accepts: ``python -m tests.attacks.largest [NAME
...]``.

A server of one broker, with an authorizer, has a topic of 10,000 partitions. Each request has as
many elements as a request may have, or asks for as much as there is, and is sent ten times, one
after the other; with ``--without-rights`` by somebody who may do none of it. A line tells the most
CPU time of the loop between two ticks (ms), how long an answer took (ms), the neighbour's waits
during them, and the peak of memory beyond what was sent (MiB).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Final, NamedTuple

from tests.attacks.largest_requests import (
    ALL,
    CREATE_TOPICS,
    PARTITIONS,
    WIDE,
    LargestRequest,
    RequestNames,
)
from tests.attacks.neighbour import TOPIC as NEIGHBOUR
from tests.attacks.rig import NeighbourProcess
from tests.attacks.sending import read_answers
from tests.attacks.target import Attack, AttackTarget, serving
from txnsim.wire.apis import api_name

SETTLED_S: Final = 20.0
_INIT_PRODUCER_ID: Final = 22
_CREATE_ACLS: Final = 30
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_LITERAL, _PREFIXED = 3, 4
_ALL, _DENY = 2, 2


class LargestFigures(NamedTuple):
    """The effects of one largest request."""

    name: str
    sent_bytes: int
    cpu_ms: float
    answer_ms: float
    p99_ms: float
    worst_ms: float
    memory_mib: float
    """Peak memory, less the memory before and the bytes sent."""


def measure_largest(
    chosen_requests: Sequence[LargestRequest], *, has_rights: bool = True
) -> Iterator[LargestFigures]:
    """Play them at one server, in order."""
    config = Path(__file__).with_name("authorizer.properties" if has_rights else "acls.properties")
    serve = ("--brokers", "1", "--config", str(config))
    attack = Attack("largest", lambda _: 0, serve=serve)
    with serving(attack, None) as target, NeighbourProcess(target) as neighbour:
        request_names = _request_names(target)
        if not has_rights:
            _deny(target)
        time.sleep(1.0)
        for largest in chosen_requests:
            frames = [largest.make(request_names, number) for number in range(largest.times)]
            target.settle(SETTLED_S)
            neighbour.waits(SETTLED_S)
            resident_mib = target.memory_mib("VmRSS")
            target.begin()
            took_ms = [_answer_time_ms(target, frame) for frame in frames]
            time.sleep(0.1)
            waits = neighbour.waits(SETTLED_S)
            assert waits is not None, f"{largest.name}: the neighbour is not answered any more"
            sent_bytes = sum(map(len, frames))
            peak_mib = target.memory_mib("VmHWM")
            yield LargestFigures(
                name=largest.name,
                sent_bytes=sent_bytes,
                memory_mib=max(0.0, peak_mib - resident_mib - sent_bytes / 2**20),
                cpu_ms=target.longest_gap_ms()[1],
                answer_ms=max(took_ms),
                p99_ms=waits.p99_ms,
                worst_ms=waits.worst_ms,
            )


def _request_names(target: AttackTarget) -> RequestNames:
    topic_request = {"name": WIDE, "num_partitions": PARTITIONS, "replication_factor": 1}
    with target.connect() as connection:
        creation = connection.ask(CREATE_TOPICS, 7, topics=[topic_request], timeout=10_000)
        topic = creation.topics[0]
        assert topic.error_code == 0, creation
        for key_type, key in ((0, "g"), (1, "t")):  # makes the topics of coordinators
            connection.ask(10, 4, key_type=key_type, coordinator_keys=[key])
        while True:
            producer = connection.ask(
                *(_INIT_PRODUCER_ID, 4),
                transactional_id="t",
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            if producer.error_code == 0:
                break
            time.sleep(0.05)
    return RequestNames(topic.topic_id, producer.producer_id, producer.producer_epoch)


def _deny(target: AttackTarget) -> None:
    """Deny every user everything except the neighbour's topic."""
    other_letters = sorted({*ascii_lowercase} - {NEIGHBOUR[0]})
    denied_resources = [(_TOPIC, letter, _PREFIXED) for letter in other_letters]
    denied_resources += [(_GROUP, "*", _LITERAL), (_TRANSACTIONAL_ID, "*", _LITERAL)]
    denied_resources += [(_CLUSTER, "kafka-cluster", _LITERAL)]
    with target.connect() as connection:
        creation = connection.ask(
            *(_CREATE_ACLS, 3),
            creations=[
                {
                    "resource_type": resource_type,
                    "resource_name": resource_name,
                    "resource_pattern_type": pattern,
                    "principal": "User:ANONYMOUS",
                    "host": "*",
                    "operation": _ALL,
                    "permission_type": _DENY,
                }
                for resource_type, resource_name, pattern in denied_resources
            ],
        )
    assert all(result.error_code == 0 for result in creation.results), creation


def _answer_time_ms(target: AttackTarget, frame: bytes) -> float:
    """The time until the answer, or until the connection is closed, in ms."""
    with target.socket() as connection:
        connection.settimeout(60.0)
        begun_s = time.monotonic()
        connection.sendall(frame)
        try:
            read_answers(connection, 1)
        except (ConnectionError, TimeoutError) as error:
            sys.stderr.write(f"{api_name(int.from_bytes(frame[4:6], 'big'))}: {error!r}\n")
        return (time.monotonic() - begun_s) * 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Play all requests, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.largest", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name")
    parser.add_argument(
        "--without-rights", action="store_true", help="play them as somebody who may do nothing"
    )
    options = parser.parse_args(argv)
    names = tuple(options.names)
    chosen_requests = [largest for largest in ALL if not names or largest.name.startswith(names)]
    sys.stdout.write(
        f"{'request':<34} {'MiB':>8} {'cpu':>8} {'answer':>8} {'p99':>8} {'worst':>8}"
        f" {'memory':>8}\n"
    )
    for row in measure_largest(chosen_requests, has_rights=not options.without_rights):
        sys.stdout.write(
            f"{row.name:<34} {row.sent_bytes / 2**20:>8.2f} {row.cpu_ms:>8.1f}"
            f" {row.answer_ms:>8.1f} {row.p99_ms:>8.1f} {row.worst_ms:>8.1f}"
            f" {row.memory_mib:>8.1f}\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
