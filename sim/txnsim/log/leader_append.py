"""How a leader appends: it checks a batch, gives it its place and stores it (UnifiedLog.append with
AppendOrigin.CLIENT and COORDINATOR, and the guards of KIP-890).

What is checked stands in ``txnsim.log.validation`` (batches) and ``txnsim.log.append_info``
(producers). One append is one batch; a refused one leaves no
trace. A follower appends by ``PartitionLog.append`` alone.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import NO_TIMESTAMP, Appended, AppendRejection
from txnsim.log.append_info import Refusal, admit_marker, check_producer, is_joined
from txnsim.log.config import TimestampType
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import NO_OFFSET, ProducerEntry
from txnsim.log.validation import Reread, check_size, sound_batch
from txnsim.log.verification import SENTINEL
from txnsim.wire.batch import (
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    control_batch,
    read_batch_header,
    restamp,
)
from txnsim.wire.batch_header import AFTER_PLACE, LOG_OVERHEAD, PLACE, Came

_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
_OWN_FIELDS: Final = Struct(">i8xqq").unpack_from
"""Last offset delta, largest timestamp and producer id of a batch."""
_OWN_FIELDS_AT: Final = 23
_UNKNOWN: Final = ProducerEntry(-1)


def start_verification(
    log: PartitionLog,
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
        already and needs no check; a rejection when the epoch is fenced here already.
    """
    entry = log.producers.state.by_id.get(producer_id)
    if entry is not None:
        rules = log.config.rules
        # KAFKA-18042
        if producer_epoch < entry.producer_epoch and rules.stale_epoch_is_refused_early:
            return Rejection(
                error=ErrorCode.invalid_producer_epoch,
                reason=f"epoch {producer_epoch} of producer {producer_id} is below "
                f"{entry.producer_epoch}, the last one seen on {log.topic_partition}",
                rule="verify.stale-epoch-first",
            )
        if entry.txn_first_offset != NO_OFFSET and is_joined(entry, producer_epoch, rules):
            return SENTINEL
    return log.producers.verification.start(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        supports_epoch_bump=supports_epoch_bump,
        now_ms=now_ms,
    )


def append_client(
    log: PartitionLog,
    batch: Came,
    *,
    guard: int,
    now_ms: int,
    header: BatchHeader | None = None,
    newest: AppendRejection | Reread | int | None = None,
) -> Appended | AppendRejection:
    """Append a producer's batch (AppendOrigin.CLIENT), which is one whole batch of magic 2.

    Args:
        log: The leader's log.
        batch: As it came.
        guard: What ``start_verification`` gave for it; of no meaning outside of transactions.
        now_ms: The cluster's time.
        header: The batch's header, if the caller has read it already.
        newest: What ``newest_in_steps`` or ``reread`` has found, if the caller has looked
            already.
    """
    sound = sound_batch(
        batch,
        header,
        newest,
        topic_partition=log.topic_partition,
        config=log.config,
        log_start_offset=log.log_start_offset,
        now_ms=now_ms,
    )
    if isinstance(sound, AppendRejection):
        return sound
    batch, header, max_timestamp = sound.batch, sound.header, sound.max_timestamp
    last_sequence = header.last_sequence
    entry: ProducerEntry | None = None
    if header.producer_id >= 0:
        producers = log.producers
        entry = producers.state.by_id.get(header.producer_id)
        if entry is not None and entry.batches and entry.producer_epoch == header.producer_epoch:
            cached = entry.find_batch(header.base_sequence, last_sequence)
            if cached is not None:
                return Appended(
                    base_offset=cached.first_offset,
                    last_offset=cached.last_offset,
                    log_append_time_ms=cached.timestamp,
                    log_start_offset=log.log_start_offset,
                    epoch_before=entry.producer_epoch,
                    open_before=entry.txn_first_offset,
                    duplicate=True,
                )
        refusal = check_producer(
            entry, header, producers.verification, log.config, guard=guard, is_client=True
        )
        if refusal is not None:
            return _refused(log, refusal)
    return _write(
        log, batch, header, entry, last_sequence, max_timestamp=max_timestamp, now_ms=now_ms
    )


def append_coordinator(
    log: PartitionLog, batch: bytes, *, now_ms: int, guard: int = SENTINEL
) -> Appended | AppendRejection:
    """Append a batch that a coordinator of this broker has made (AppendOrigin.COORDINATOR).

    It is our own, so its CRC and records are taken as right; sequences and duplicates don't
    concern it. Transactional offset commits show a guard like a client's batch.
    """
    config, size = log.config, len(batch)
    if size > config.max_message_bytes or size > config.segment_bytes:
        rejection = check_size(size, config)
        assert rejection is not None
        return rejection
    last_delta, timestamp_ms, producer_id = _OWN_FIELDS(batch, _OWN_FIELDS_AT)
    if producer_id >= 0 or config.timestamp_type is _LOG_APPEND_TIME:
        header = read_batch_header(batch, 0)
        entry: ProducerEntry | None = None
        if producer_id >= 0:
            producers = log.producers
            entry = producers.state.by_id.get(producer_id)
            refusal = check_producer(
                entry,
                header,
                producers.verification,
                config,
                guard=guard,
                is_client=False,
            )
            if refusal is not None:
                return _refused(log, refusal)
        last_sequence = header.last_sequence
        return _write(
            log, batch, header, entry, last_sequence, max_timestamp=timestamp_ms, now_ms=now_ms
        )
    offset, leader_epoch = log.local.end_offset, log.leader_epoch
    log.append(
        ReplicatedBatch(
            data=b"".join(
                (PLACE(offset, size - LOG_OVERHEAD, leader_epoch), memoryview(batch)[AFTER_PLACE])
            ),
            base_offset=offset,
            last_offset=offset + last_delta,
            leader_epoch=leader_epoch,
            producer_id=-1,
            producer_epoch=-1,
            last_sequence=-1,
            timestamp_ms=timestamp_ms,
            is_transactional=False,
            is_control=False,
        ),
        now_ms=now_ms,
    )
    return Appended(
        base_offset=offset,
        last_offset=offset + last_delta,
        log_append_time_ms=NO_TIMESTAMP,
        log_start_offset=log.log_start_offset,
    )


def append_marker(
    log: PartitionLog, marker: TxnMarker, *, now_ms: int
) -> Appended | AppendRejection:
    """End the producer's transaction on this partition (WriteTxnMarkers).

    The marker is written even where no transaction is open: it leaves its epochs, and recovery
    relies on that. With a ``start_offset`` it is written only where one is open since there
    (text of KIP-664); with coordinator epoch -1, the one that is known here then stays.
    """
    entry = log.producers.state.by_id.get(marker.producer_id)
    admitted = admit_marker(entry, log.config, marker)
    if isinstance(admitted, Refusal):
        return _refused(log, admitted)
    if isinstance(admitted, AppendRejection):
        return admitted
    offset, leader_epoch = log.local.end_offset, log.leader_epoch
    before = entry or _UNKNOWN
    epoch_before, open_before = before.producer_epoch, before.txn_first_offset
    batch = control_batch(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.committed,
        coordinator_epoch=admitted,
        base_offset=offset,
        leader_epoch=leader_epoch,
        timestamp_ms=now_ms,
        log_append_time=log.config.timestamp_type is _LOG_APPEND_TIME,
    )
    log.append(
        ReplicatedBatch(
            data=batch,
            base_offset=offset,
            last_offset=offset,
            leader_epoch=leader_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            last_sequence=-1,
            timestamp_ms=now_ms,
            is_transactional=True,
            is_control=True,
            is_marker=True,
            committed=marker.committed,
            coordinator_epoch=admitted,
        ),
        now_ms=now_ms,
    )
    return Appended(
        base_offset=offset,
        last_offset=offset,
        log_append_time_ms=NO_TIMESTAMP,
        log_start_offset=log.log_start_offset,
        epoch_before=epoch_before,
        open_before=open_before,
    )


def _write(
    log: PartitionLog,
    batch: Came,
    header: BatchHeader,
    entry: ProducerEntry | None,
    last_sequence: int,
    *,
    max_timestamp: int,
    now_ms: int,
) -> Appended:
    """Give a checked batch its place and store it."""
    log_append_time_ms, attributes = NO_TIMESTAMP, header.attributes
    if log.config.timestamp_type is _LOG_APPEND_TIME:
        log_append_time_ms = max_timestamp = now_ms
        batch = restamp(batch, max_timestamp_ms=now_ms, log_append_time=True)
    elif max_timestamp != header.max_timestamp_ms or attributes & LOG_APPEND_TIME_FLAG:
        batch = restamp(batch, max_timestamp_ms=max_timestamp, log_append_time=False)
    base_offset = log.local.end_offset
    last_offset = base_offset + header.last_offset_delta
    leader_epoch = log.leader_epoch
    before = entry or _UNKNOWN
    epoch_before, open_before = before.producer_epoch, before.txn_first_offset
    place = PLACE(base_offset, header.batch_length, leader_epoch)
    log.append(
        ReplicatedBatch(
            data=b"".join((place, memoryview(batch)[AFTER_PLACE])),
            base_offset=base_offset,
            last_offset=last_offset,
            leader_epoch=leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            last_sequence=last_sequence,
            timestamp_ms=max_timestamp,
            is_transactional=attributes & TRANSACTIONAL_FLAG != 0,
            is_control=False,
        ),
        now_ms=now_ms,
    )
    return Appended(
        base_offset=base_offset,
        last_offset=last_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log.log_start_offset,
        epoch_before=epoch_before,
        open_before=open_before,
    )


def _refused(log: PartitionLog, refusal: Refusal) -> AppendRejection:
    return AppendRejection(
        error=refusal.error,
        reason=f"{log.topic_partition}: {refusal.reason}",
        rule=refusal.rule,
        log_start_offset=log.log_start_offset,
    )
