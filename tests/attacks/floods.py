"""Trouble that fills the log."""

from __future__ import annotations

from typing import Final

from tests.attacks.target import Attack, AttackTarget

BAD: Final = b"GET / HTTP/1.1\r\n\r\n"
CONNECTIONS: Final = 3_000


def bad_connections(target: AttackTarget) -> int:
    """3,000 connections, each of which sends something that is no Kafka."""
    for _ in range(CONNECTIONS):
        with target.socket() as connection:
            connection.sendall(BAD)
            while connection.recv(1024):
                pass
    return CONNECTIONS * len(BAD)


ATTACKS: Final = (Attack("bad-connections", bad_connections),)
