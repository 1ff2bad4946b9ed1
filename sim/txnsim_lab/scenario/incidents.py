"""The incidents of ``txnsim practise incident``: what a real cluster's disks look like after each,
for ``txnsim logs decisions``. Each lies among healthy transactions of both flows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from txnsim.types import TopicPartition
from txnsim_lab.scenario._incident_disks import WrittenCluster, WrittenProducer

ORDERS: Final = TopicPartition("orders", 0)
PAYMENTS: Final = TopicPartition("payments", 0)
POSITIONS: Final = TopicPartition("__consumer_offsets", 0)
_HEALTHY_TRANSACTIONS: Final = 20
_HOUR_MS: Final = 3_600_000


class Incident(NamedTuple):
    """An incident that can be written to disks."""

    summary: str
    """What happened, in a sentence."""
    states: tuple[str, ...]
    """States of the findings that ``logs decisions`` has of it."""
    status: int
    """Exit status of ``logs decisions``."""
    play: Callable[[WrittenCluster, WrittenProducer], None]
    """Writes it; gets a producer ``shop``."""
    is_v2: bool = True


def write_incident(name: str) -> WrittenCluster:
    """The cluster after an incident.

    Args:
        name: One of ``INCIDENTS``.
    """
    incident = INCIDENTS[name]
    cluster = WrittenCluster()
    other_producers = [
        cluster.producer(f"other-{number}", is_v2=bool(number % 2)) for number in range(4)
    ]
    _write_healthy(cluster, other_producers)
    producer = cluster.producer("shop", is_v2=incident.is_v2)
    producer.run([ORDERS, PAYMENTS])
    incident.play(cluster, producer)
    _write_healthy(cluster, other_producers)
    if name == COMPACTED:
        cluster.clean_coordinator_log()
    return cluster


def _write_healthy(cluster: WrittenCluster, producers: list[WrittenProducer]) -> None:
    for number in range(_HEALTHY_TRANSACTIONS):
        cluster.now_ms += 50
        partitions = [ORDERS, PAYMENTS, POSITIONS][: 1 + number % 3]
        producers[number % len(producers)].run(partitions, is_commit=number % 3 != 2)


def _lose_marker(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    """A commit is acknowledged while orders-0 has no leader, and its marker is dropped."""
    producer.write(ORDERS, 3)
    producer.write(PAYMENTS)
    producer.decide(is_commit=True)
    producer.mark(PAYMENTS)
    producer.complete()
    cluster.move_leader(ORDERS)


def _play_lost_commit(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    _lose_marker(cluster, producer)


def _play_lost_commit_goes_on(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    _lose_marker(cluster, producer)
    cluster.now_ms += 1_000
    producer.run([ORDERS], is_commit=False)


def _play_lost_commit_aborted(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    _lose_marker(cluster, producer)
    cluster.now_ms += _HOUR_MS
    cluster.append_marker(
        ORDERS,
        producer_id=producer.producer_id,
        producer_epoch=producer.marker_epoch,
        is_commit=False,
    )


def _play_wrong_abort(_cluster: WrittenCluster, producer: WrittenProducer) -> None:
    producer.write(ORDERS, 2)
    producer.decide(is_commit=True)
    producer.mark(ORDERS, is_commit=False)
    producer.complete()


def _play_wrong_commit(_cluster: WrittenCluster, producer: WrittenProducer) -> None:
    producer.write(ORDERS, 2)
    producer.decide(is_commit=False)
    producer.mark(ORDERS, is_commit=True)
    producer.complete()


def _play_marker_twice(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    producer.write(ORDERS)
    producer.decide(is_commit=True)
    producer.mark(ORDERS)
    cluster.move_coordinator()
    producer.mark(ORDERS)
    producer.complete()


def _play_late_produce(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    cluster.now_ms += 1_000
    producer.write(ORDERS, is_late=True)


def _play_operators_marker(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    for _ in range(2):
        cluster.move_coordinator()
        producer.run([ORDERS])
    cluster.now_ms += 1_000
    producer.write(ORDERS, is_late=True)
    cluster.now_ms += _HOUR_MS
    cluster.append_marker(
        ORDERS,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_commit=False,
        coordinator_epoch=0,
    )


def _play_cut_off_entry(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    cluster.now_ms += 1_000
    producer.write(ORDERS, is_late=True)  # its entry was cut off with the second move
    cluster.move_coordinator()
    cluster.move_coordinator()


def _play_owed(_cluster: WrittenCluster, producer: WrittenProducer) -> None:
    producer.write(ORDERS)
    producer.write(PAYMENTS)
    producer.decide(is_commit=True)
    producer.mark(PAYMENTS)


def _play_epoch_back(cluster: WrittenCluster, producer: WrittenProducer) -> None:
    producer.epoch += 1
    producer.run([ORDERS])
    cluster.append_records(
        ORDERS, [b"fenced"], producer_id=producer.producer_id, producer_epoch=0, sequence=5
    )
    cluster.append_marker(
        ORDERS,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_commit=True,
    )


COMPACTED: Final = "compacted"
INCIDENTS: Final[dict[str, Incident]] = {
    "healthy": Incident("Nothing happened.", (), 0, lambda _cluster, _producer: None),
    "lost-commit": Incident(
        "A commit was acknowledged while orders-0 had no leader (KAFKA-20734); readers stop.",
        ("no-marker",),
        3,
        _play_lost_commit,
    ),
    "lost-commit-goes-on": Incident(
        "The same, and the producer went on: its next abort ended the committed records, too.",
        ("no-marker",),
        3,
        _play_lost_commit_goes_on,
        is_v2=False,
    ),
    "lost-commit-aborted": Incident(
        "The same, and an operator ended it with kafka-transactions.sh abort.",
        ("contradicts",),
        3,
        _play_lost_commit_aborted,
    ),
    "wrong-abort": Incident(
        "A partition has ABORT where COMMIT was decided.", ("contradicts",), 3, _play_wrong_abort
    ),
    "wrong-commit": Incident(
        "A partition has COMMIT where ABORT was decided.",
        ("contradicts",),
        3,
        _play_wrong_commit,
        is_v2=False,
    ),
    "marker-twice": Incident(
        "The coordinator moved, and the new one sent a marker again.",
        ("twice",),
        3,
        _play_marker_twice,
    ),
    "late-produce": Incident(
        "A Produce came after its transaction had ended, and opened it again.",
        ("records-behind-marker",),
        3,
        _play_late_produce,
        is_v2=False,
    ),
    "operators-marker": Incident(
        "The same, and an operator ended it with kafka-transactions.sh abort.",
        ("marker-without-decision",),
        3,
        _play_operators_marker,
        is_v2=False,
    ),
    "coordinator-moved-twice": Incident(
        "The coordinator's partition moved twice, and its entry of a transaction was cut off.",
        ("records-behind-marker",),
        3,
        _play_cut_off_entry,
    ),
    "epoch-back": Incident(
        "A leader had forgotten a fence, and took records of an older epoch.",
        ("epoch-back", "twice"),
        3,
        _play_epoch_back,
        is_v2=False,
    ),
    "owed": Incident(
        "The brokers were stopped after a decision, before its marker was written.",
        (),
        0,
        _play_owed,
    ),
    COMPACTED: Incident(
        "ABORT where COMMIT was decided, and __transaction_state has been compacted since.",
        (),
        4,
        _play_wrong_abort,
    ),
}
"""Name -> the incident."""
