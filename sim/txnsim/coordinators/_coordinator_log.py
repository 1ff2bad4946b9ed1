"""The log of a coordinator, as both coordinators know it, and the names of its errors towards
clients.

Counterpart in Kafka: PartitionWriter of the coordinator runtime.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.log.answers import Appended
from txnsim.types import TopicPartition

NO_GUARD: Final = 0
"""The guard of a write outside of a transaction (``log.verification.SENTINEL``)."""

_WORDS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


class CoordinatorLog(Protocol):
    """The partitions of a coordinator's topic that its broker leads."""

    def admit(
        self, partition: int, subject: Callable[[TopicPartition], Subject]
    ) -> Awaitable[Rejection | None] | None:
        """Ask whether a fault holds or refuses an append about ``subject``; None: go on."""

    def append(
        self, partition: int, batch: bytes, *, guard: int = NO_GUARD
    ) -> Appended | Rejection:
        """Append a coordinator's batch to the local log."""

    def batch_bytes_max(self, partition: int) -> int:
        """``max.message.bytes`` of the topic as it is now, which is not the broker's."""

    def high_watermark_of(self, partition: int) -> int:
        """The high watermark."""

    def wait_for_commit(
        self, partition: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[ErrorCode] | None:
        """None where all up to ``offset``, inclusive, is replicated; else an awaitable result."""


class TransactionLog(Protocol):
    """The same, as the coordinator of transactions writes to it."""

    def batch_bytes_max(self, partition: int) -> int:
        """``max.message.bytes`` of the topic as it is now, which is not the broker's."""

    def write(
        self,
        partition: int,
        batch: bytes,
        *,
        subject: Callable[[TopicPartition], Subject],
        timeout_ms: int,
        now_ms: int,
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Append a batch as soon as nothing objects, and have it replicated: what came of it, or an
        answer once that is known. ``subject`` says whom it is about.
        """


def append_error(error: ErrorCode) -> ErrorCode:
    """The error that clients get for an error of the log
    (TransactionStateManager.appendTransactionToLog, CoordinatorOperationExceptionHelper).
    """
    return _WORDS.get(error, error)
