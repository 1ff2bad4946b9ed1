"""What the leader of a share partition is asked, and what it answers: typed values. Pure."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import WriteShareState


class RecordState(IntEnum):
    """Where the delivery of a record stands; the numbers are those of the share coordinator's log.

    ARCHIVING is a record on its way to a dead letter topic (4.4).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""States of a record whose delivery is complete."""


class AcknowledgeType(IntEnum):
    """What a member says of a record. GAP: there is none at this offset, or a marker."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


TRIPPED: Final = Rejection(error=ErrorCode.unknown_server_error, reason="a null pointer in Kafka")
"""Refuses the acknowledgement of a range that the start offset lies in, while nothing is in flight
there. It ends the whole request in Kafka.
"""


class AcquireMode(IntEnum):
    """How strictly a fetch keeps to its limit of records (KIP-1206; ShareAcquireMode)."""

    BATCH_OPTIMIZED = 0
    """A batch of the log is given whole, also beyond the limit."""
    RECORD_LIMIT = 1


class SharePartitionSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the configs of the group say, or those of the broker where they don't.

    A release without a config has its fixed value here: 4.2 always renews, and before 4.4 there are
    no dead letters.
    """

    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    record_lock_duration_ms: int = 30_000
    is_renew_enabled: bool = True
    has_dead_letter_topic: bool = False
    """The group names one, and ``share.version`` is at level 2."""

    @property
    def throttled_from(self) -> int:
        """From this delivery count on, fewer records are delivered at a time."""
        return max(2, (self.delivery_count_limit + 1) // 2)


class ReadBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A batch that was read from the log."""

    base_offset: int
    last_offset: int
    size: int = 0
    """In bytes."""
    producer_id: int = -1
    is_transactional: bool = False
    is_abort_marker: bool = False


class AbortedRange(msgspec.Struct, frozen=True, gc=False):
    """An aborted transaction that touches what was read."""

    producer_id: int
    first_offset: int


class Acquire(msgspec.Struct, frozen=True, kw_only=True):
    """A member wants records that were read for it."""

    member_id: str
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    batch_size: int
    """Ranges of new records are cut at the first batch of the log behind so many offsets."""
    max_records: int
    fetch_offset: int
    """Where the read began; its first batch may begin below or, in a compacted log, above."""
    batches: tuple[ReadBatch, ...]
    aborted: tuple[AbortedRange, ...] = ()
    """Empty with READ_UNCOMMITTED."""


class AcquiredRange(msgspec.Struct, frozen=True, gc=False):
    """Records that a member has acquired (AcquiredRecords)."""

    first_offset: int
    last_offset: int
    """Inclusive."""
    delivery_count: int


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """What a member got. ``count`` goes off its limit for the partitions that follow."""

    ranges: tuple[AcquiredRange, ...] = ()
    count: int = 0


class AcknowledgementBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a member says of a range: one type for all offsets, or one for each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be persisted. Its answer goes to ``SharePartition.conclude`` with the token."""

    token: int
    state: WriteShareState


class DeadLetterReason(StrEnum):
    """Why records go to the dead letter topic, in the words of a header there."""

    REJECTED = "Offset rejected by client."
    TOO_MANY_DELIVERIES = "Offset delivery count exceeded the threshold."


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Records that are to be copied to the dead letter topic.

    Once they are, or can't be, ``SharePartition.archive_dead_letter`` wants the token.
    """

    token: int
    first_offset: int
    last_offset: int
    delivery_count: int
    reason: DeadLetterReason


class Concluded(msgspec.Struct, frozen=True, kw_only=True):
    """What follows when the share coordinator has answered a write."""

    rejection: Rejection | None = None
    """The answer to the member; None where all is done, or nobody waits for it."""
    dead_letters: tuple[DeadLetter, ...] = ()
    wakes_fetches: bool = False
    """The start offset has moved: fetches that wait for this share partition look again."""


class InFlightRange(msgspec.Struct, frozen=True, kw_only=True):
    """Records in flight that are in the same state, as a view shows them."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int
    member_id: str = ""
    lock_deadline_ms: int | None = None
    is_being_persisted: bool = False
