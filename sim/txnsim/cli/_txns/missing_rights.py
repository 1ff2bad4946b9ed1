"""Which right a user of ``txnsim txns`` lacks when a broker refuses: one line for the administrator
who can grant it.

Brokers name only the type of resource; the operation follows from the command (docs/security.md has
the same table).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from txnsim.errors import ErrorCode
from txnsim.types import TRANSACTION_STATE_TOPIC

_EVERY_ID: Final = "DESCRIBE on every transactional id (the name * or all prefixes)"
EVERY_TOPIC: Final = "READ on every topic (the name *)"
"""The right that a search of the whole cluster needs, because Metadata omits hidden topics."""
_READ_TOPIC: Final = "READ on the topic"
_WRITE_ID: Final = "WRITE on the transactional id"
_ALTER: Final = "ALTER or CLUSTER_ACTION on the cluster"

RIGHTS: Final[Mapping[str, Mapping[ErrorCode, str]]] = {
    "describe": {
        ErrorCode.transactional_id_authorization_failed: "DESCRIBE on the transactional id",
    },
    "describe-producers": {ErrorCode.topic_authorization_failed: _READ_TOPIC},
    "abort": {
        ErrorCode.topic_authorization_failed: _READ_TOPIC,
        ErrorCode.cluster_authorization_failed: _ALTER,
        ErrorCode.transactional_id_authorization_failed: _WRITE_ID,
    },
    "commit": {
        ErrorCode.transactional_id_authorization_failed: _WRITE_ID,
    },
    "decisions": {
        ErrorCode.topic_authorization_failed: f"READ on {TRANSACTION_STATE_TOPIC} and every topic",
        ErrorCode.transactional_id_authorization_failed: _EVERY_ID,
    },
    "forceTerminateTransaction": {
        ErrorCode.transactional_id_authorization_failed: _WRITE_ID,
    },
    "find-hanging": {
        ErrorCode.topic_authorization_failed: _READ_TOPIC,
        ErrorCode.transactional_id_authorization_failed: _EVERY_ID,
    },
    "why": {
        ErrorCode.topic_authorization_failed: _READ_TOPIC,
        ErrorCode.transactional_id_authorization_failed: _EVERY_ID,
    },
    "repair": {
        ErrorCode.topic_authorization_failed: _READ_TOPIC,
        ErrorCode.transactional_id_authorization_failed: _EVERY_ID,
        ErrorCode.cluster_authorization_failed: _ALTER,
    },
}
"""Subcommand -> error -> the right to grant. ``list`` is never refused: it leaves out what may not
be seen.
"""


def missing_right(command: str, error: ErrorCode | None) -> str | None:
    if error is None:
        return None
    right = RIGHTS.get(command, {}).get(error)
    return None if right is None else lacking(right)


def lacking(right_text: str) -> str:
    return f"The user lacks a right: {right_text}."
