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


_FRANZ_GO_MORE: Final = (
    "franz-go-kip848-transform",
    "franz-go-kip848-rebalance",
    "franz-go-transaction-with-nothing-produced",
    "franz-go-transaction-over-all-brokers",
    "franz-go-transactions-v2-iff-transaction-version-is-2",
    "franz-go-admin-describe-transactions",
    "franz-go-admin-list-transactions",
    "franz-go-admin-describe-producers",
)

CLIENTS: Final[tuple[Client, ...]] = (
    Client(
        name="franz-go",
        version="1.22.2",
        language="Go",
        command=_program("franzgo"),
        checks=(*CHECKS, *_FRANZ_GO_MORE),
    ),
)
