"""Which checks are put to which client at which level of ``transaction.version``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from tests.clients.matrix.client import CORE, Client

LEVELS: Final = (0, 1, 2)
"""Of ``transaction.version``."""
NEWEST: Final = LEVELS[-1]
SECURED: Final = frozenset({"sasl", "tls", "kafka-acls", "platformatic-sasl", "platformatic-tls"})
"""Checks that need the secured listeners."""


class Question(NamedTuple):
    """The checks that one run of a client program makes at one level."""

    client: Client
    level: int
    checks: tuple[str, ...]

    @property
    def name(self) -> str:
        """Client and level, such as ``aiokafka@2``, for people."""
        return f"{self.client.name}@{self.level}"


class Limit(NamedTuple):
    """A check that is left out because the library can't pass it."""

    client: Client
    level: int
    check: str
    reason: str


def checks_at(client: Client, transaction_version: int) -> tuple[str, ...]:
    """What belongs into this client's cells of the level, limits included, in the table's order."""
    core_checks = {*CORE, *client.everywhere}
    limited = [key.partition("@")[0] for key in client.limits]
    names = dict.fromkeys((*client.checks, *limited))
    return tuple(
        check_name
        for check_name in names
        if transaction_version == NEWEST or check_name in core_checks
    )


def limit_of(client: Client, check_name: str, transaction_version: int) -> str | None:
    """Why the library can't do this at this level; None if it can."""
    return client.limits.get(f"{check_name}@{transaction_version}", client.limits.get(check_name))


def questions(
    clients: Iterable[Client],
    *,
    transaction_versions: Collection[int] = LEVELS,
    only: Collection[str] = (),
    excluded: Collection[str] = (),
) -> tuple[Sequence[Question], Sequence[Limit]]:
    """Split into what is asked and what is known to be beyond the library.

    Args:
        clients: Of the roster.
        transaction_versions: These alone.
        only: These checks alone; all if empty.
        excluded: Checks that can't be asked here.
    """
    selected: list[Question] = []
    limits: list[Limit] = []
    for client in clients:
        for level in sorted(transaction_versions):
            checks = [
                check_name
                for check_name in checks_at(client, level)
                if (not only or check_name in only) and check_name not in excluded
            ]
            reasons = {check_name: limit_of(client, check_name, level) for check_name in checks}
            limits += [
                Limit(client, level, check_name, reason)
                for check_name, reason in reasons.items()
                if reason is not None
            ]
            possible = tuple(check_name for check_name in checks if reasons[check_name] is None)
            if possible:
                selected.append(Question(client, level, possible))
    return selected, limits
