"""A Fetch request at a replica: read, and wait where there is too little to read.

Kafka's counterparts: ReplicaManager.fetchMessages, readFromLog and DelayedFetch. Versions, topic
ids and sessions are the handler's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.points import FaultPoint
from txnsim.log.answers import LogRead
from txnsim.log.partition_log import PartitionLog
from txnsim.node.crossings import Crossings, error_in
from txnsim.node.purgatory import Purgatory
from txnsim.replica.fetch_values import FetchOutcome, FetchPartition, Naming
from txnsim.replica.replicas import Replicas
from txnsim.settings import Settings
from txnsim.types import IsolationLevel, Subject, TopicPartition

CONSUMER_REPLICA_ID: Final = -1
FUTURE_REPLICA_ID: Final = -3
"""A replica that moves to another directory of its broker (FetchRequest)."""

DEVIATIONS: Final = (
    "A client whose Fetch names a follower as its replica reads what that one would, but does not"
    " count as it: the high watermark and the replicas in sync stay as they are.",
    "There is no replica.selector.class: no reader is led to a replica in its rack (KIP-392).",
)


class FetchCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A Fetch request without its version."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: IsolationLevel
    partitions: tuple[FetchPartition, ...]
    leader_only: bool
    """Consumers before Fetch v11 may read from the leader only (KIP-392), and followers."""
    replica_id: int = CONSUMER_REPLICA_ID

    @property
    def is_follower(self) -> bool:
        """Whoever asks takes itself for a broker (FetchParams.isFromFollower)."""
        return self.replica_id >= 0

    @property
    def is_to_log_end(self) -> bool:
        """All there is may be read, replicated or not (FetchIsolation.LOG_END)."""
        return self.replica_id >= 0 or self.replica_id == FUTURE_REPLICA_ID


Outcomes = list[FetchOutcome]
"""Of each partition of the command, in its order."""


class _BytesLeft:
    """How much of an answer is left to be filled."""

    __slots__ = ("bytes", "must_progress")

    def __init__(self, max_bytes: int) -> None:
        self.bytes = max_bytes
        self.must_progress = True
        """Only the first partition with data may exceed the limits, so that a huge batch never
        blocks a reader.
        """

    def take(self, size: int) -> None:
        self.bytes = max(0, self.bytes - size)
        self.must_progress = self.must_progress and size == 0


class Fetching:
    """The fetch path of one broker."""

    __slots__ = ("_crossings", "_purgatory", "_replicas", "_settings")

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        crossings: Crossings,
    ) -> None:
        self._crossings = crossings
        self._settings = settings
        self._replicas = replicas
        self._purgatory = purgatory

    async def fetch(self, command: FetchCommand) -> Outcomes:
        """Read; wait up to ``max_wait_ms`` for ``min_bytes``, then read again."""
        outcomes = (
            await self._read_watched(command) if self._crossings.armed else self._read(command)
        )
        if self._is_answered(command, outcomes):
            return outcomes
        # KafkaApis keeps what does not exist from the replica manager: it is neither waited for nor
        # looked up again.
        there = [at for at, outcome in enumerate(outcomes) if not outcome.is_missing]
        if len(there) < len(outcomes):
            command = msgspec.structs.replace(
                command, partitions=tuple([command.partitions[at] for at in there])
            )
        await self._purgatory.wait(
            [wanted.topic_partition for wanted in command.partitions],
            timeout_ms=command.max_wait_ms,
            check=lambda: self._has_enough(command),
        )
        again = await self._read_watched(command) if self._crossings.armed else self._read(command)
        for at, outcome in zip(there, again, strict=True):
            outcomes[at] = outcome
        return outcomes

    # Parts

    def _is_answered(self, command: FetchCommand, outcomes: Outcomes) -> bool:
        """Whether there is nothing to wait for (ReplicaManager.fetchMessages)."""
        if command.max_wait_ms <= 0:
            return True
        size, found = 0, False
        for outcome in outcomes:
            if outcome.error or outcome.diverging:
                if outcome.is_missing:
                    continue
                return True
            size, found = size + outcome.size, True
        return not found or size >= command.min_bytes

    def _has_enough(self, command: FetchCommand) -> bool:
        """Whether a parked fetch is to be answered: enough bytes, or something went wrong."""
        available = 0
        for wanted in command.partitions:
            log = self._log(command, wanted)
            if isinstance(log, Rejection):
                return True
            if not log.log_start_offset <= wanted.offset <= log.log_end_offset:
                return True
            readable = log.readable_bytes(
                wanted.offset, command.isolation, up_to_log_end=command.is_to_log_end
            )
            available += min(readable, wanted.max_bytes)
        return available >= command.min_bytes

    def _read(self, command: FetchCommand) -> Outcomes:
        outcomes: Outcomes = []
        left = self._all_bytes(command)
        for wanted in command.partitions:
            log = self._look(command, wanted)
            if not isinstance(log, FetchOutcome):
                log = self._read_partition(command, wanted, log, left)
            left.take(log.size)
            outcomes.append(log)
        return outcomes

    async def _read_watched(self, command: FetchCommand) -> Outcomes:
        """The same while a fault may strike between the look at a log and the read."""
        outcomes: Outcomes = []
        left = self._all_bytes(command)
        for wanted in command.partitions:
            outcome = await self._read_partition_watched(command, wanted, left)
            left.take(outcome.size)
            outcomes.append(outcome)
        return outcomes

    def _all_bytes(self, command: FetchCommand) -> _BytesLeft:
        return _BytesLeft(min(command.max_bytes, self._settings().fetch_max_bytes))

    def _look(self, command: FetchCommand, wanted: FetchPartition) -> PartitionLog | FetchOutcome:
        """The log to read, or what is answered without reading."""
        log = self._log(command, wanted)
        if isinstance(log, Rejection):
            return FetchOutcome(error=log.error)
        diverged = _divergence(log, wanted) if wanted.last_fetched_epoch >= 0 else None
        return log if diverged is None else diverged

    async def _read_partition_watched(
        self, command: FetchCommand, wanted: FetchPartition, left: _BytesLeft
    ) -> FetchOutcome:
        log = self._look(command, wanted)
        if isinstance(log, FetchOutcome):
            return log
        was_all_stable = log.is_all_stable
        verdict = await self._crossings.verdict(
            FaultPoint.LOG_READ, Subject(partitions=(wanted.topic_partition,))
        )
        error = error_in(verdict)
        if error:
            return FetchOutcome(error=ErrorCode(error))
        log = self._look(command, wanted)
        if isinstance(log, FetchOutcome):
            return log
        return self._read_partition(
            command,
            wanted,
            log,
            left,
            is_all_stable=was_all_stable and not log.config.rules.reads_know_one_high_watermark,
        )

    def _read_partition(
        self,
        command: FetchCommand,
        wanted: FetchPartition,
        log: PartitionLog,
        left: _BytesLeft,
        *,
        is_all_stable: bool = False,
    ) -> FetchOutcome:
        read = log.read(
            wanted.offset,
            max_bytes=min(left.bytes, wanted.max_bytes),
            isolation=command.isolation,
            min_one_batch=left.must_progress,
            up_to_log_end=command.is_to_log_end,
            is_all_stable=is_all_stable,
        )
        match read:
            case LogRead():
                return FetchOutcome(
                    high_watermark=read.high_watermark,
                    last_stable_offset=read.last_stable_offset,
                    log_start_offset=read.log_start_offset,
                    aborted=read.aborted,
                    records=read.records,
                    size=read.size,
                )
            case _:
                return FetchOutcome(error=read.error)

    def _log(self, command: FetchCommand, wanted: FetchPartition) -> PartitionLog | Rejection:
        if wanted.naming is not Naming.NAMED:
            return self._misnamed(wanted)
        where, epoch = wanted.topic_partition, wanted.current_leader_epoch
        if not command.leader_only:
            return self._replicas.replica(where, current_leader_epoch=epoch)
        log = self._replicas.leader(where, current_leader_epoch=epoch)
        if command.is_follower and not isinstance(log, Rejection):
            return self._unknown_follower(command, wanted) or log
        return log

    def _unknown_follower(self, command: FetchCommand, wanted: FetchPartition) -> Rejection | None:
        """A follower that the partition does not have; the leader is none
        (Partition.followerReplicaOrThrow).
        """
        replicated = self._replicas.replicated.get(wanted.topic_partition)
        if replicated is not None and command.replica_id in replicated.followers:
            return None
        error = (
            ErrorCode.unknown_leader_epoch
            if wanted.current_leader_epoch >= 0
            else ErrorCode.not_leader_or_follower
        )
        return Rejection(
            error=error,
            reason=f"broker {command.replica_id} is no follower of {wanted.topic_partition}",
        )

    def _misnamed(self, wanted: FetchPartition) -> Rejection:
        """A topic id without a name, or with one that belongs to another topic by now."""
        if wanted.naming is Naming.NO_NAME:
            return Rejection(error=ErrorCode.unknown_topic_id, reason="nobody knows the topic id")
        log = self._replicas.replica(wanted.topic_partition)
        if isinstance(log, Rejection):
            return log
        return Rejection(
            error=ErrorCode.inconsistent_topic_id,
            reason=f"{wanted.topic_partition} has another topic id than the session",
        )


def _divergence(log: PartitionLog, wanted: FetchPartition) -> FetchOutcome | None:
    """Whether the reader's last epoch ended elsewhere in this log (Partition.readRecords)."""
    found = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    epoch, end_offset = found.leader_epoch, found.end_offset
    if epoch < 0 or end_offset < 0:
        return FetchOutcome(error=ErrorCode.offset_out_of_range)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.offset:
        return FetchOutcome(
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging=(epoch, end_offset),
        )
    return None
