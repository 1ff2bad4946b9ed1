"""What a partition's log must know of its topic's configuration (Kafka's LogConfig, cut to what
decides an answer).

The broker makes one from its settings and the topic's overrides; a change of either replaces the
whole value at the log.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

NEVER_MS: Final = 9_223_372_036_854_775_807
"""``message.timestamp.before.max.ms`` at its default: no record is too old."""


class TimestampType(IntEnum):
    """Who stamps a record: its producer, or the leader that appends it (attribute bit 3 of a
    batch).
    """

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one log; the defaults are Kafka's."""

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1_073_741_824
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = NEVER_MS
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    """``cleanup.policy`` contains ``compact``: a record without a key is refused."""
    producer_id_expiration_ms: int = 86_400_000
    verification_enabled: bool = True
    """``transaction.partition.verification.enable`` (KIP-890)."""
