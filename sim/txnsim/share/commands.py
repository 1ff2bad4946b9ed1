"""Commands to a share partition on its leader, and the results: typed values. Pure."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import WriteShareState


class RecordState(IntEnum):
    """The delivery state of a record; the numbers are those in the share coordinator's log.

    ARCHIVING is a record on its way to a dead letter topic (4.4).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""States in which the delivery of a record is complete."""


class AcknowledgeType(IntEnum):
    """How a member acknowledges a record. GAP: the offset has no record, or a marker."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


NULL_POINTER_REJECTION: Final = Rejection(
    error=ErrorCode.unknown_server_error, reason="a null pointer in Kafka"
)
"""The error for acknowledging a range that contains the start offset while nothing is in flight
there. In Kafka it ends the whole request.
"""


class AcquireMode(IntEnum):
    """How strictly a fetch keeps to its limit of records (KIP-1206; ShareAcquireMode)."""

    BATCH_OPTIMIZED = 0
    """A batch of the log is given as a whole, even beyond the limit."""
    RECORD_LIMIT = 1


class SharePartitionSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The group's configs that concern a share partition, or the broker's where the group has none.

    Where a release lacks a config, its fixed value is here: 4.2 always allows renewal, and before
    4.4 there are no dead letters.
    """

    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    record_lock_duration_ms: int = 30_000
    is_renew_enabled: bool = True
    has_dead_letter_topic: bool = False
    """Whether the group names a dead letter topic and ``share.version`` is at level 2."""

    @property
    def throttled_from(self) -> int:
        """Delivery count from which fewer records are delivered at a time."""
        return max(2, (self.delivery_count_limit + 1) // 2)


class ReadBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A batch that was read from the log."""

    base_offset: int
    last_offset: int
    size: int = 0
    """Size in bytes."""
    producer_id: int = -1
    is_transactional: bool = False
    is_abort_marker: bool = False


class AbortedRange(msgspec.Struct, frozen=True, gc=False):
    """An aborted transaction that overlaps the batches that were read."""

    producer_id: int
    first_offset: int


class AcquireCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A member's request to acquire records that were read for it."""

    member_id: str
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    batch_size: int
    """Most offsets in a batch of new records in flight; it is cut at the next batch of the log."""
    max_records: int
    fetch_offset: int
    """Offset at which the read began; its first batch may begin below or, in a compacted log,
    above.
    """
    batches: tuple[ReadBatch, ...]
    aborted: tuple[AbortedRange, ...] = ()
    """Aborted transactions; empty with READ_UNCOMMITTED."""


class AcquiredRange(msgspec.Struct, frozen=True, gc=False):
    """Records that a member has acquired (AcquiredRecords)."""

    first_offset: int
    last_offset: int
    """The last offset, inclusive."""
    delivery_count: int


class AcquireResult(msgspec.Struct, frozen=True, kw_only=True):
    """The acquired records. ``count`` is subtracted from the member's limit for the next
    partitions.
    """

    ranges: tuple[AcquiredRange, ...] = ()
    count: int = 0


class AcknowledgementBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A member's acknowledgement of a range: one type for all offsets, or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


class StateWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A state to persist. The answer goes to ``SharePartition.conclude`` with the token."""

    token: int
    state: WriteShareState


class DeadLetterReason(StrEnum):
    """Why records go to the dead letter topic, in the words of a header there."""

    REJECTED = "Offset rejected by client."
    TOO_MANY_DELIVERIES = "Offset delivery count exceeded the threshold."


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Records to copy to the dead letter topic.

    When they are copied, or can't be, pass the token to ``SharePartition.archive_dead_letter``.
    """

    token: int
    first_offset: int
    last_offset: int
    delivery_count: int
    reason: DeadLetterReason


class ConcludedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of the share coordinator's answer to a write."""

    rejection: Rejection | None = None
    """The error for the member; None if there is no error, or no member waits."""
    dead_letters: tuple[DeadLetter, ...] = ()
    wakes_fetches: bool = False
    """Whether the start offset has moved, so that fetches waiting for this share partition must
    look again.
    """


class InFlightRange(msgspec.Struct, frozen=True, kw_only=True):
    """Records in flight in the same state, for a view."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int
    member_id: str = ""
    lock_deadline_ms: int | None = None
    is_being_persisted: bool = False
