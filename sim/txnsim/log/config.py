"""The part of a topic's configuration that its logs need (Kafka's LogConfig, reduced to what
affects answers).

The broker builds it from its settings and the topic's overrides; a change of either replaces the
whole value.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from txnsim.releases.rules import Rules

NEVER_MS: Final = 9_223_372_036_854_775_807
"""``message.timestamp.before.max.ms`` at its default: no record is too old."""


class TimestampType(IntEnum):
    """The clock that stamps a record: the producer's, or that of the leader that appends it
    (attribute bit 3 of a batch).
    """

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one log; the defaults are Kafka's."""

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1_073_741_824
    """Largest append."""
    roll_bytes: int = 1_073_741_824
    """Size at which a segment ends: ``segment.bytes``, except for our own limit on internal
    topics.
    """
    segment_ms: int = 604_800_000
    """Time in ms at which a segment ends; for a compacted topic at most ``max.compaction.lag.ms``
    (LogConfig.maxSegmentMs).
    """
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4_096
    """Bytes written after an index entry before the next batch gets an entry."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = NEVER_MS
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    """Whether ``cleanup.policy`` contains ``compact``, so that a record without a key is
    refused.
    """
    is_deleted: bool = True
    """Whether ``cleanup.policy`` contains ``delete``, so that old segments are deleted by age and
    size.
    """
    retention_ms: int = 604_800_000
    """-1 means that no segment is too old."""
    retention_bytes: int = -1
    """-1 means that the log is never too large."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS
    codec: int | None = None
    """The topic's compression (``compression.type``); None leaves it to producers."""
    codec_level: int | None = None
    cleaner_keys_max: int = 5_033_164
    """Number of keys that a round of cleaning can remember: ``log.cleaner.dedupe.buffer.size``
    times ``log.cleaner.io.buffer.load.factor``, at 24 bytes per key (SkimpyOffsetMap).
    """
    delete_retention_ms: int = 86_400_000
    """How long tombstones and the markers of emptied transactions stay (KIP-534)."""
    producer_id_expiration_ms: int = 86_400_000
    needs_verification: bool = True
    """``transaction.partition.verification.enable`` (KIP-890)."""
    rules: Rules
    """The rules of the broker's release."""
