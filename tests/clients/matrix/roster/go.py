"""Clients in Go: one module of Go with the checks in ``bench`` and a program per library.

Versions here are those of ``go.mod``; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.clients.matrix.client import CHECKS, Client
from tests.support.foreign_clients import go_program


def _program(name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_program(name))]


_KIP_848: Final = ("kip848-transform", "kip848-rebalance")
_COOPERATIVE: Final = ("cooperative-transform", "cooperative-rebalance")

_FRANZ_GO_ALONE: Final = (
    "transaction-with-nothing-produced",
    "transaction-over-all-brokers",
    "transactions-v2-iff-transaction-version-is-2",
    "admin-describe-transactions",
    "admin-list-transactions",
    "admin-describe-producers",
)
"""Of what is written for franz-go alone, what the matrix does not ask in another form."""


def _checks_with(library_name: str, *names: str) -> tuple[str, ...]:
    return (*CHECKS, *(f"{library_name}-{name}" for name in names))


CLIENTS: Final[tuple[Client, ...]] = (
    Client(
        name="franz-go",
        version="1.22.2",
        language="Go",
        command=_program("franzgo"),
        checks=_checks_with("franz-go", *_KIP_848, *_FRANZ_GO_ALONE),
        everywhere=("franz-go-transactions-v2-iff-transaction-version-is-2",),
    ),
    Client(
        name="Sarama",
        version="1.61.1",
        language="Go",
        command=_program("sarama"),
        checks=_checks_with("sarama", *_COOPERATIVE),
    ),
    Client(
        name="confluent-kafka-go",
        version="2.15.0",
        language="Go",
        command=_program("confluent"),
        checks=_checks_with("confluent", *_COOPERATIVE, *_KIP_848),
        limits={"admin": "librdkafka's admin client has no call that is about transactions"},
    ),
)
