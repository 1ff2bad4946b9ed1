"""Kafka Streams with ``exactly_once_v2``: its transactions are made and ended by the library."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tests.clients.matrix.client import Client
from tests.clients.streams.program import streams_program
from tests.support.apache_kafka import KAFKA_VERSION

_STATE: Final = (
    "streams-counts-exact",
    "streams-restores-state",
    "streams-two-instances-rebalance",
)


def _command() -> list[str]:
    return streams_program("StreamsCheck", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


CLIENTS: Final = (
    Client(
        name="Kafka Streams",
        version=KAFKA_VERSION,
        language="Java",
        command=_command,
        checks=(
            "commit",
            "abort",
            "read-committed",
            "timeout",
            "transform",
            "rebalance",
            *_STATE,
        ),
        limits=MappingProxyType(
            {
                "produce": "does not apply: an application hands over no record batches of its own",
                "idempotent": "does not apply: every record is part of a transaction",
                "fence": "does not apply: Kafka Streams makes the transactional ids itself, one"
                " per thread; that a thread which lost its partitions is fenced is part of"
                " rebalance",
                "admin": "does not apply: it has no administration of its own",
                "sasl": "does not apply: connections are kafka-clients', whose row shows it",
                "tls": "does not apply: connections are kafka-clients', whose row shows it",
            }
        ),
        everywhere=_STATE,
    ),
)
