"""What a partition's log returns: one frozen struct per kind of result.

Kafka's counterparts are LogAppendInfo, LogReadResult and TimestampAndOffset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.log.producer_state import ProducerEntry
from txnsim.log.txn_index import AbortedTxn

NO_TIMESTAMP: Final = -1
UNKNOWN_OFFSET: Final = -1


class Appended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of an append: the batch is in the log now, or it already was (``duplicate``) and
    nothing changed.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 if the producer's timestamps apply; for a duplicate the timestamp of the cached batch."""
    log_start_offset: int
    epoch_before: int = -1
    """The producer's previous epoch in the log, for the trace; -1 without one."""
    open_txn_before: int = -1
    """First offset of the producer's transaction that was open before; -1 without one."""
    duplicate: bool = False


class AppendRejection(Rejection, frozen=True, kw_only=True):
    """A batch was refused, without any effect."""

    log_start_offset: int = UNKNOWN_OFFSET
    """The log start offset in the Produce answer.

    The log's own for errors that ReplicaManager counts as failures of the log, -1 for those that it
    returns before it looks at a log (ReplicaManager.appendRecordsToLeader: too large, corrupt).
    """
    record_errors: Sequence[tuple[int, str]] = ()
    """(index in the batch, message) of each refused record (KIP-467)."""


class LogRead(msgspec.Struct, frozen=True, kw_only=True):
    """Complete batches as they are stored, with the log's bounds at that moment."""

    records: tuple[bytes, ...]
    size: int
    cut_batch: bytes
    """The beginning of the next batch, if the size limit cuts it off: consumers get it too, and
    discard it.
    """
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTxn, ...] | None
    """Aborted transactions that a read_committed consumer has to skip; None if the read did not
    ask.
    """


class TimestampOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A record found by its timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class EpochEndOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The end offset of a leader epoch; both -1 if it is unknown (KIP-101)."""

    leader_epoch: int
    end_offset: int


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """A log's complete state besides its bytes; two logs with equal bytes have equal states."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    producers: tuple[ProducerEntry, ...]
    ongoing: tuple[tuple[int, int], ...]
    """(first offset, producer id), by first offset."""
    unreplicated: tuple[tuple[int, int], ...]
    """(first offset, offset of the marker), by first offset."""
    aborted: tuple[AbortedTxn, ...]
    leader_epochs: tuple[tuple[int, int], ...]
    """(leader epoch, its first offset)."""
