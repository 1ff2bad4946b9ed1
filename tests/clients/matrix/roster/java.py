"""Apache Kafka's own clients, of today and of two older releases: one program, compiled for each.

The older ones are those of ``tests.support.java``'s pom: the newest 3.9, the last line before 4.0,
and the newest 3.6, the first with KIP-890's verification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.clients.matrix.client import CHECKS, Client
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.foreign_clients import java_program

_EVERYWHERE: Final = (
    "java-rebalance-cooperative",
    "java-commit-while-a-rebalance-waits",
    "java-idempotent-produce",
    "java-three-transactions-in-sequence",
    "java-transaction-with-nothing-produced",
    "java-transaction-over-all-brokers",
    "java-every-compression",
    "java-next-producer-goes-on-after-the-last",
    "java-timed-out-transaction-is-aborted",
    "java-transactions-v2-iff-transaction-version-is-2",
)
"""What differs between the levels, or may."""
_EVERYWHERE_NEWEST: Final = (
    *_EVERYWHERE,
    "java-transform-consumer-protocol",
    "java-rebalance-consumer-protocol",
    "java-admin-force-terminate-transaction",
)
_ADMIN: Final = ("java-admin-describe-features", "java-admin-create-topic")
_ADMIN_NEWEST: Final = (*_ADMIN, "java-admin-list-transactions-by-age-and-pattern")


def _program(version: str) -> Callable[[], list[str]]:
    return lambda: java_program("ClientCheck", version=version)


CLIENTS: Final[tuple[Client, ...]] = (
    Client(
        name="kafka-clients",
        version=KAFKA_VERSION,
        language="Java",
        command=_program(KAFKA_VERSION),
        checks=(*CHECKS, *_EVERYWHERE_NEWEST, *_ADMIN_NEWEST),
        everywhere=_EVERYWHERE_NEWEST,
    ),
    Client(
        name="kafka-clients 3.9",
        version="3.9.2",
        language="Java",
        command=_program("3.9.2"),
        checks=(*CHECKS, *_EVERYWHERE, *_ADMIN),
        everywhere=_EVERYWHERE,
    ),
    Client(
        name="kafka-clients 3.6",
        version="3.6.2",
        language="Java",
        command=_program("3.6.2"),
        checks=(*CHECKS, *_EVERYWHERE, *_ADMIN, "java-admin-without-fencing"),
        everywhere=_EVERYWHERE,
        limits={
            "admin": "fenceProducers fails on CONCURRENT_TRANSACTIONS, which a broker answers while"
            " it aborts the open transaction (later clients ask again: KAFKA-16570); it does"
            " fence, and the rest of KIP-664 works",
        },
    ),
)
