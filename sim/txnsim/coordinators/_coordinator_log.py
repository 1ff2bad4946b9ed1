"""The log of a coordinator as the coordinators see it, and how its errors are translated for
clients.

Counterpart in Kafka: PartitionWriter of the coordinator runtime.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.log.answers import Appended
from txnsim.types import CoordinatorEpoch, TopicPartition

NO_GUARD: Final = 0
"""The guard of a write outside of a transaction (``log.verification.SENTINEL``)."""

_CLIENT_ERRORS: Final = {
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
        self, partition_index: int, subject_of: Callable[[TopicPartition], Subject]
    ) -> Awaitable[Rejection | None] | None:
        """Ask whether a fault holds or refuses an append about ``subject_of``; None means go on."""

    def append(
        self, partition_index: int, batch: bytes, *, guard: int = NO_GUARD
    ) -> Appended | Rejection:
        """Append a coordinator's batch to the local log."""

    def batch_bytes_max(self, partition_index: int) -> int:
        """The topic's current ``max.message.bytes``, which may differ from the broker's."""

    def high_watermark_of(self, partition_index: int) -> int:
        """The high watermark of a partition of the coordinators' topic."""

    def wait_for_commit(
        self, partition_index: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[ErrorCode] | None:
        """None if everything up to and including ``offset`` is replicated; else an awaitable of the
        outcome.
        """


class TransactionLog(Protocol):
    """The log of the transaction coordinator."""

    def leads(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> bool:
        """Whether the broker leads the partition under this leader epoch, as far as it knows."""

    def batch_bytes_max(self, partition_index: int) -> int:
        """The topic's current ``max.message.bytes``, which may differ from the broker's."""

    def write(
        self,
        partition_index: int,
        batch: bytes,
        *,
        subject_of: Callable[[TopicPartition], Subject],
        timeout_ms: int,
        now_ms: int,
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Append a batch as soon as no fault prevents it, and replicate it. Return the error code,
        or an awaitable of it. ``subject_of`` names the transactions it is about.
        """


def append_error(log_error: ErrorCode) -> ErrorCode:
    """The error that clients get for an error of the log
    (TransactionStateManager.appendTransactionToLog, CoordinatorOperationExceptionHelper).
    """
    return _CLIENT_ERRORS.get(log_error, log_error)
