"""One partition, as a value machine: batches in, offsets out (Kafka's UnifiedLog).

It appends, reads, and keeps what follows from the bytes: producer state, aborted transactions,
leader epochs. Three bounds say who may read how far::

    log start ≤ last stable offset ≤ high watermark ≤ log end
                (read_committed)     (read_uncommitted)  (followers)

Rules that everything below obeys:

1. A batch is checked completely before anything changes; a refused one leaves no trace. One append
   is one batch.
2. The bytes of a producer are stored as they came, but for the place (offset, leader epoch) and,
   where the topic demands it, the timestamp.
3. All knowledge besides the bytes follows from them by the same steps for the living leader, a
   follower and a reload, so a log that is replayed has the state of the one that lived. Only
   verification entries and expiry are memory alone, and snapshots forget a little
   (``txnsim.log.snapshots``).
4. The last stable offset is derived, never stored.

It knows no clock, no socket and no other replica: ``now_ms`` is an argument and whoever owns the
log moves the high watermark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from txnsim.errors import CorruptBatchError, ErrorCode, InvariantViolation, Rejection
from txnsim.log.answers import NO_TIMESTAMP, Appended, AppendRejection
from txnsim.log.append_info import (
    Refusal,
    check_data,
    check_gate,
    check_marker_of,
    is_open,
)
from txnsim.log.config import LogConfig, TimestampType
from txnsim.log.loaded_log import LoadedLog
from txnsim.log.producer_state import NO_EPOCH, NO_OFFSET, ProducerEntry
from txnsim.log.replicated import described
from txnsim.log.validation import (
    check_envelope,
    check_size,
    examine,
    needs_examination,
    newest_timestamp,
    recoded,
)
from txnsim.log.verification import SENTINEL
from txnsim.types import ReplicatedBatch, TopicPartition
from txnsim.wire.batch import (
    BatchHeader,
    assign,
    control_batch,
    read_batch_header,
    restamp,
)
from txnsim.wire.control import MARKER_BYTES

TAIL_BATCHES_MAX: Final = 64
"""How many of the newest batches are kept described for followers; of older ones the header is read
again.
"""

_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class PartitionLog(LoadedLog):
    """The log of one partition on one replica.

    ``config`` may be replaced at any time.
    """

    __slots__ = ()

    @classmethod
    def replay(
        cls,
        batches: Iterable[bytes],
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        leader_epoch: int,
        high_watermark: int | None = None,
        now_ms: int = 0,
    ) -> PartitionLog:
        """A log made from stored batches alone, as a broker makes it that finds no snapshot; all of
        it is taken as replicated by default.
        """
        log: PartitionLog | None = None
        for batch in batches:
            stored = described(batch)
            if log is None:
                log = cls(
                    topic_partition=topic_partition,
                    config=config,
                    leader_epoch=stored.leader_epoch,
                    start_offset=stored.base_offset,
                )
            log._append_stored(stored, now_ms=now_ms)
        if log is None:
            log = cls(topic_partition=topic_partition, config=config, leader_epoch=leader_epoch)
        log.advance_high_watermark(
            log._log_end_offset if high_watermark is None else high_watermark
        )
        log.become_leader(leader_epoch)
        return log

    # Commands of the leader

    def start_verification(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> int | Rejection:
        """Ask for a guard before the coordinator is asked about this transaction (KIP-890).

        Returns:
            The guard to show with the append; ``SENTINEL`` when the transaction is open here
            already and nobody need be asked; a rejection when the epoch is fenced here already.
        """
        entry = self._producers.find(producer_id)
        if entry is not None:
            rules = self.config.rules
            # KAFKA-18042
            if producer_epoch < entry.producer_epoch and rules.stale_epoch_is_refused_early:
                return Rejection(
                    error=ErrorCode.invalid_producer_epoch,
                    reason=f"epoch {producer_epoch} of producer {producer_id} is below "
                    f"{entry.producer_epoch}, the last one seen on {self.topic_partition}",
                    rule="verify.stale-epoch-first",
                )
            if is_open(entry, producer_epoch, rules):
                return SENTINEL
        return self._verification.start(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=now_ms,
        )

    def append_client(
        self,
        batch: bytes,
        *,
        guard: int,
        now_ms: int,
        header: BatchHeader | None = None,
        newest: AppendRejection | int | None = None,
    ) -> Appended | AppendRejection:
        """Append a producer's batch (AppendOrigin.CLIENT), which is one whole batch of magic 2.

        Args:
            batch: As it came.
            guard: What ``start_verification`` gave for it; of no meaning outside of transactions.
            now_ms: The cluster's time.
            header: The batch's header, if the caller has read it already.
            newest: What ``newest_in_steps`` has found, if the caller has looked already.
        """
        if header is None:
            try:
                header = read_batch_header(batch, 0)
            except CorruptBatchError as error:
                return AppendRejection(error=ErrorCode.corrupt_message, reason=str(error))
        if len(batch) != header.size:
            batch = batch[: header.size]
        config = self.config
        rejection = check_envelope(
            header, batch, config=config, log_start_offset=self._log_start_offset
        )
        if rejection is not None:
            return rejection
        newest = newest_timestamp(header, batch) if newest is None else newest
        if not isinstance(newest, int):
            return self._dated(newest)
        if needs_examination(header, newest, config=config, now_ms=now_ms):
            verdict = examine(
                header,
                batch,
                topic_partition=self.topic_partition,
                config=config,
                now_ms=now_ms,
                log_start_offset=self._log_start_offset,
            )
            if not isinstance(verdict, int):
                return verdict
            newest = verdict
        if config.codec is not None and config.codec != header.compression:
            batch = recoded(batch, header, config)
            header = read_batch_header(batch, 0)
            rejection = check_size(header.size, config, rule="batch.recompressed-too-large")
        else:
            rejection = check_size(header.size, config)
        if rejection is not None:
            return rejection
        if header.producer_id >= 0:
            entry = self._producers.find(header.producer_id)
            if entry is not None and entry.producer_epoch == header.producer_epoch:
                cached = entry.find_batch(header.base_sequence, header.last_sequence)
                if cached is not None:
                    return Appended(
                        base_offset=cached.first_offset,
                        last_offset=cached.last_offset,
                        log_append_time_ms=cached.timestamp,
                        log_start_offset=self._log_start_offset,
                        duplicate=True,
                    )
            refusal = self._check_producer(entry, header, guard=guard, is_client=True)
            if refusal is not None:
                return self._refused(refusal)
        return self._write(batch, header, max_timestamp=newest, now_ms=now_ms)

    def _dated(self, rejection: AppendRejection) -> AppendRejection:
        """A rejection with the log start of now, where its error shows one."""
        if rejection.error is ErrorCode.message_too_large:
            return rejection
        return msgspec.structs.replace(rejection, log_start_offset=self._log_start_offset)

    def append_coordinator(
        self, batch: bytes, *, now_ms: int, guard: int = SENTINEL
    ) -> Appended | AppendRejection:
        """Append a batch that a coordinator of this broker has made (AppendOrigin.COORDINATOR).

        It is our own, so its CRC and records are taken as right; sequences and duplicates don't
        concern it. Transactional offset commits show a guard like a client's batch.
        """
        header = read_batch_header(batch, 0)
        rejection = check_size(header.size, self.config)
        if rejection is not None:
            return rejection
        if header.producer_id >= 0:
            entry = self._producers.find(header.producer_id)
            refusal = self._check_producer(entry, header, guard=guard, is_client=False)
            if refusal is not None:
                return self._refused(refusal)
        return self._write(batch, header, max_timestamp=header.max_timestamp_ms, now_ms=now_ms)

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        now_ms: int,
        start_offset: int = NO_OFFSET,
    ) -> Appended | AppendRejection:
        """End the producer's transaction on this partition (WriteTxnMarkers).

        The marker is written even where no transaction is open: it leaves its epochs, and recovery
        relies on that. With a ``start_offset`` it is written only where one is open since there
        (text of KIP-664); with coordinator epoch -1, the one that is known here then stays.
        """
        admitted = self._admit_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            start_offset=start_offset,
        )
        if isinstance(admitted, AppendRejection):
            return admitted
        return self._write_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
            coordinator_epoch=admitted,
            now_ms=now_ms,
        )

    def _write_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        now_ms: int,
    ) -> Appended:
        offset = self._log_end_offset
        batch = control_batch(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            base_offset=offset,
            leader_epoch=self._leader_epoch,
            timestamp_ms=now_ms,
            log_append_time=self.config.timestamp_type is _LOG_APPEND_TIME,
        )
        self._verification.on_marker(
            producer_id,
            producer_epoch,
            spares_own_epoch=self.config.rules.own_epoch_marker_keeps_guard,
        )
        self._store_bytes(
            batch, offset, offset, self._leader_epoch, timestamp_ms=now_ms, now_ms=now_ms
        )
        completed = self._producers.apply_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            committed=committed,
            offset=offset,
            timestamp=now_ms,
        )
        if completed is not None:
            self._index_completed(completed)
        if self._tail is not None:
            self._tail.append(
                ReplicatedBatch(
                    data=batch,
                    base_offset=offset,
                    last_offset=offset,
                    leader_epoch=self._leader_epoch,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    last_sequence=-1,
                    timestamp_ms=now_ms,
                    is_transactional=True,
                    is_control=True,
                    is_marker=True,
                    committed=committed,
                    coordinator_epoch=coordinator_epoch,
                )
            )
        return Appended(
            base_offset=offset,
            last_offset=offset,
            log_append_time_ms=NO_TIMESTAMP,
            log_start_offset=self._log_start_offset,
        )

    def _admit_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        start_offset: int,
    ) -> int | AppendRejection:
        """The coordinator epoch that the marker leaves, or why it is refused."""
        if producer_id < 0 or producer_epoch < 0:
            # MemoryRecords.writeEndTransactionalMarker throws, and the client sees what it sees of
            # any bug.
            return AppendRejection(
                error=ErrorCode.unknown_server_error,
                reason=f"a marker needs a producer, found id {producer_id} epoch {producer_epoch}",
                rule="marker.epoch-negative",
            )
        if self.config.max_message_bytes < MARKER_BYTES:
            return AppendRejection(
                error=ErrorCode.message_too_large,
                reason=f"a marker of {MARKER_BYTES} bytes exceeds max.message.bytes"
                f" {self.config.max_message_bytes}",
                rule="batch.too-large",
            )
        entry = self._producers.find(producer_id)
        refusal = check_marker_of(
            entry,
            start_offset=start_offset,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            rules=self.config.rules,
        )
        is_stale = refusal is not None and refusal.error is ErrorCode.invalid_producer_epoch
        if transaction_version < 0 and not is_stale:
            return AppendRejection(
                error=ErrorCode.unknown_server_error,
                reason=f"there is no transaction version {transaction_version}",
            )
        if refusal is not None:
            return self._refused(refusal)
        if start_offset != NO_OFFSET and entry is not None and coordinator_epoch == NO_EPOCH:
            return entry.coordinator_epoch
        return coordinator_epoch

    def become_leader(self, leader_epoch: int) -> None:
        """A leader of this epoch writes from now on; what the last one was verifying is lost
        (Partition.makeLeader).
        """
        if leader_epoch < self._leader_epoch:
            raise InvariantViolation(
                f"{self.topic_partition}: leader epoch {leader_epoch} after {self._leader_epoch}"
            )
        if leader_epoch > self._leader_epoch:
            self._leader_epoch_start_offset = self._log_end_offset
        self._leader_epoch = leader_epoch
        self._epochs.assign(leader_epoch, self._log_end_offset)
        self._verification.clear()

    def keep_tail(self) -> None:
        """There are followers: what is appended from now on is kept described for them."""
        if self._tail is None:
            self._tail = deque(maxlen=TAIL_BATCHES_MAX)

    def replicate_all(self) -> None:
        """All that has been appended is replicated: there is no other replica in sync."""
        end = self._log_end_offset
        if end > self._high_watermark:
            self._high_watermark = end
            self._producers.release_below(end)

    def delete_records_before(self, offset: int) -> int | Rejection:
        """Raise the log start (DeleteRecords); -1 stands for the high watermark.

        Producers are kept, also those whose records are all gone (KIP-360), and so are open
        transactions that began below.

        Returns:
            The log start offset from now on.
        """
        if offset == -1:
            offset = self._high_watermark
        if not 0 <= offset <= self._high_watermark:
            return Rejection(
                error=ErrorCode.offset_out_of_range,
                reason=f"{self.topic_partition}: can't delete up to {offset}, the high watermark "
                f"is {self._high_watermark}",
            )
        self.raise_log_start(offset)
        return self._log_start_offset

    def expire_producers(self, now_ms: int) -> tuple[int, ...]:
        """Forget producers and verification entries that are idle for
        ``producer.id.expiration.ms``; the producers' ids.

        A producer's age is counted from the timestamp of its last batch, which its client chose.
        """
        expiration_ms = self.config.producer_id_expiration_ms
        self._verification.expire(now_ms=now_ms, expiration_ms=expiration_ms)
        return self._producers.expire(
            now_ms=now_ms,
            expiration_ms=expiration_ms,
            markers_count=self.config.rules.markers_renew_producers,
        )

    # Parts

    def _check_producer(
        self, entry: ProducerEntry | None, header: BatchHeader, *, guard: int, is_client: bool
    ) -> Refusal | None:
        """Gate and data rules for a batch of a producer; drops the verification entry once both are
        passed.
        """
        producer_id = header.producer_id
        is_transactional = header.is_transactional
        verification = self._verification
        rules = self.config.rules
        if is_transactional:
            refusal = check_gate(
                entry,
                producer_id=producer_id,
                producer_epoch=header.producer_epoch,
                is_verified=verification.matches(producer_id, guard)
                or not self.config.verification_enabled
                or not rules.transactions_are_verified
                or not (rules.guards_are_compared or guard == SENTINEL)
                or not (rules.offset_commits_are_verified or is_client),
                rules=rules,
            )
            if refusal is not None:
                return refusal
        refusal = check_data(
            entry,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=is_transactional,
            is_client=is_client,
            verification=verification.find(producer_id),
            rules=rules,
        )
        if refusal is None and is_transactional:
            verification.on_data(producer_id)
        return refusal

    def _refused(self, refusal: Refusal) -> AppendRejection:
        return AppendRejection(
            error=refusal.error,
            reason=f"{self.topic_partition}: {refusal.reason}",
            rule=refusal.rule,
            log_start_offset=self._log_start_offset,
        )

    def _write(
        self, batch: bytes, header: BatchHeader, *, max_timestamp: int, now_ms: int
    ) -> Appended:
        """Give a checked batch its place and store it."""
        log_append_time_ms = NO_TIMESTAMP
        if self.config.timestamp_type is _LOG_APPEND_TIME:
            log_append_time_ms = max_timestamp = now_ms
            batch = restamp(batch, max_timestamp_ms=now_ms, log_append_time=True)
        elif max_timestamp != header.max_timestamp_ms or header.is_log_append_time:
            batch = restamp(batch, max_timestamp_ms=max_timestamp, log_append_time=False)
        base_offset = self._log_end_offset
        last_offset = base_offset + header.last_offset_delta
        leader_epoch = self._leader_epoch
        batch = assign(batch, base_offset=base_offset, leader_epoch=leader_epoch)
        self._store_bytes(
            batch,
            base_offset,
            last_offset,
            leader_epoch,
            timestamp_ms=max_timestamp,
            now_ms=now_ms,
        )
        if header.producer_id >= 0:
            self._producers.apply_data(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                last_sequence=header.last_sequence,
                base_offset=base_offset,
                last_offset=last_offset,
                timestamp=max_timestamp,
                is_transactional=header.is_transactional,
            )
        if self._tail is not None:
            self._tail.append(
                ReplicatedBatch(
                    data=batch,
                    base_offset=base_offset,
                    last_offset=last_offset,
                    leader_epoch=leader_epoch,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    last_sequence=header.last_sequence,
                    timestamp_ms=max_timestamp,
                    is_transactional=header.is_transactional,
                    is_control=False,
                )
            )
        return Appended(
            base_offset=base_offset,
            last_offset=last_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=self._log_start_offset,
        )
