"""What a partition's log answers: frozen values, one per kind of question.

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
    """A batch is in the log; or it already was (``duplicate``) and nothing changed."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 where the producer's timestamps count; of a duplicate the timestamp of the batch in the
    cache.
    """
    log_start_offset: int
    epoch_before: int = -1
    """The producer's previous epoch in the log for the trace; -1 without one."""
    open_before: int = -1
    """First offset of the producer's transaction that was open here before, -1 without one."""
    duplicate: bool = False


class AppendRejection(Rejection, frozen=True, kw_only=True):
    """A batch was refused and left no trace."""

    log_start_offset: int = UNKNOWN_OFFSET
    """What a Produce answer shows.

    The log's own for the errors that ReplicaManager counts as failures of the log, -1 for those
    that it answers without having looked at one (ReplicaManager.appendRecordsToLeader: too large,
    corrupt).
    """
    record_errors: Sequence[tuple[int, str]] = ()
    """(index in the batch, message) of each refused record (KIP-467)."""


class LogRead(msgspec.Struct, frozen=True, kw_only=True):
    """Whole batches as they are stored, with the bounds as they were at that moment."""

    records: tuple[bytes, ...]
    size: int
    cut: bytes
    """The beginning of the next batch, where the size limit falls into it: consumers get that, too,
    and throw it away.
    """
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTxn, ...] | None
    """Transactions a read_committed consumer has to skip; None where the read did not ask."""


class TimestampOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A record found by its timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class EpochEndOffset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a leader epoch ended; both -1 where it is not known (KIP-101)."""

    leader_epoch: int
    end_offset: int


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """All that a log knows besides its bytes; two logs with equal bytes have equal states."""

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
