"""The fetch of one partition, and its result.

Used by the read path (``broker.fetch``) and the sessions (``replica.fetch_sessions``). Kafka's
counterparts: FetchRequest.PartitionData and FetchPartitionData.
"""

from __future__ import annotations

import uuid
from enum import Enum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.log.txn_index import AbortedTxn
from txnsim.types import TopicPartition

PartitionKey = tuple[str | uuid.UUID | None, int]
"""A partition as the request names it: (topic name, or from v13 topic id (None: all zeros),
partition index).
"""


class Naming(Enum):
    """How the name of a partition's topic was found."""

    NAMED = "the topic has that name"
    NO_NAME = "the request gave an unknown id; the name is empty"
    OTHER_TOPIC = "the topic is gone; one that has its name now is another"


class FetchPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The offset and the size limit for one partition."""

    topic_partition: TopicPartition
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    naming: Naming = Naming.NAMED


class FetchOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result for one partition."""

    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_txns: tuple[AbortedTxn, ...] | None = None
    """Aborted transactions among the records; None unless read_committed."""
    records: tuple[bytes, ...] = ()
    size_bytes: int = 0
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, end offset) at which the reader's log has diverged (KIP-595)."""
    preferred_replica: int = -1
    """The replica that the reader is to ask instead; -1 for none (KIP-392)."""

    @property
    def is_missing(self) -> bool:
        """Whether the metadata have no such partition, so that no replica was read."""
        return self.error in _MISSING


_MISSING: Final = frozenset({ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition})
