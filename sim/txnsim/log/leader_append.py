"""A leader's append: it checks a batch, assigns its offsets and stores it (UnifiedLog.append with
AppendOrigin.CLIENT and COORDINATOR, and the guards of KIP-890).

``txnsim.log.validation`` checks batches; the checks of producers are below (ProducerAppendInfo and
UnifiedLog.analyzeAndValidateProducerState). One append is one batch; a refused one has no effect.
Followers use only ``PartitionLog.append``, and a reload checks nothing either: they trust what the
leader has accepted (AppendOrigin.REPLICATION).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import NO_TIMESTAMP, Appended, AppendRejection
from txnsim.log.config import LogConfig, TimestampType
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import NO_EPOCH, NO_OFFSET, ProducerEntry
from txnsim.log.validation import RereadBatch, check_size, sound_batch
from txnsim.log.verification import SENTINEL, VerificationEntries, VerificationEntry
from txnsim.releases.rules import Rules
from txnsim.types import PRODUCER_EPOCH_MAX, TransactionVersion
from txnsim.wire.batch import BatchHeader, control_batch, read_batch_header, restamp
from txnsim.wire.batch_header import AFTER_BATCH_START, PACK_BATCH_START, ReceivedBatch
from txnsim.wire.control import MARKER_BYTES

_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
_UNPACK_OWN_FIELDS: Final = Struct(">i8xqq").unpack_from
"""Last offset delta, largest timestamp and producer id of a batch."""
_OWN_FIELDS_POSITION: Final = 23
_UNKNOWN_PRODUCER: Final = ProducerEntry(-1)


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
        The guard to pass with the append; ``SENTINEL`` if the transaction is already open here and
            needs no check; a rejection if the epoch is already fenced here.
    """
    producer_entry = log.producers.state.by_id.get(producer_id)
    if producer_entry is not None:
        release_rules = log.config.rules
        # KAFKA-18042
        if (
            producer_epoch < producer_entry.producer_epoch
            and release_rules.stale_epoch_is_refused_early
        ):
            return Rejection(
                error=ErrorCode.invalid_producer_epoch,
                reason=f"epoch {producer_epoch} of producer {producer_id} is below "
                f"{producer_entry.producer_epoch}, the last one seen on {log.topic_partition}",
                rule="verify.stale-epoch-first",
            )
        if producer_entry.txn_first_offset != NO_OFFSET and may_join(
            producer_entry, producer_epoch, release_rules
        ):
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
    batch: ReceivedBatch,
    *,
    guard: int,
    now_ms: int,
    header: BatchHeader | None = None,
    timestamp_check: AppendRejection | RereadBatch | int | None = None,
) -> Appended | AppendRejection:
    """Append a producer's batch (AppendOrigin.CLIENT), which must be one complete batch of magic 2.

    Args:
        log: The leader's log.
        batch: The bytes from the client.
        guard: The guard from ``start_verification``; meaningless outside of transactions.
        now_ms: The cluster's time.
        header: The batch's header, if the caller has read it already.
        timestamp_check: The result of ``newest_in_steps`` or ``reread``, if the caller has run it
            already.
    """
    sound = sound_batch(
        batch,
        header,
        timestamp_check,
        topic_partition=log.topic_partition,
        config=log.config,
        log_start_offset=log.log_start_offset,
        now_ms=now_ms,
    )
    if isinstance(sound, AppendRejection):
        return sound
    batch, header, max_timestamp = sound.batch, sound.header, sound.max_timestamp
    last_sequence = header.last_sequence
    producer: ProducerEntry | None = None
    if header.producer_id >= 0:
        manager = log.producers
        producer = manager.state.by_id.get(header.producer_id)
        if producer is not None and (
            producer.batches and producer.producer_epoch == header.producer_epoch
        ):
            cached_batch = producer.find_batch(header.base_sequence, last_sequence)
            if cached_batch is not None:
                return Appended(
                    base_offset=cached_batch.first_offset,
                    last_offset=cached_batch.last_offset,
                    log_append_time_ms=cached_batch.timestamp,
                    log_start_offset=log.log_start_offset,
                    epoch_before=producer.producer_epoch,
                    open_txn_before=producer.txn_first_offset,
                    duplicate=True,
                )
        refusal = check_producer(
            producer, header, manager.verification, log.config, guard=guard, is_client=True
        )
        if refusal is not None:
            return _rejection_of(log, refusal)
    return _write_batch(
        log, batch, header, producer, last_sequence, max_timestamp=max_timestamp, now_ms=now_ms
    )


def append_coordinator(
    log: PartitionLog, batch: bytes, *, now_ms: int, guard: int = SENTINEL
) -> Appended | AppendRejection:
    """Append a batch of one of this broker's coordinators (AppendOrigin.COORDINATOR).

    It is our own, so its CRC and records are trusted, and sequences and duplicates are not checked.
    Transactional offset commits need a guard like a client's batch.
    """
    config, size_bytes = log.config, len(batch)
    if size_bytes > config.max_message_bytes or size_bytes > config.segment_bytes:
        rejection = check_size(size_bytes, config)
        assert rejection is not None
        return rejection
    last_offset_delta, timestamp_ms, producer_id = _UNPACK_OWN_FIELDS(batch, _OWN_FIELDS_POSITION)
    if producer_id >= 0 or config.timestamp_type is _LOG_APPEND_TIME:
        header = read_batch_header(batch, 0)
        producer_entry: ProducerEntry | None = None
        if producer_id >= 0:
            producer_manager = log.producers
            producer_entry = producer_manager.state.by_id.get(producer_id)
            refusal = check_producer(
                producer_entry,
                header,
                producer_manager.verification,
                config,
                guard=guard,
                is_client=False,
            )
            if refusal is not None:
                return _rejection_of(log, refusal)
        last_sequence = header.last_sequence
        return _write_batch(
            log,
            batch,
            header,
            producer_entry,
            last_sequence,
            max_timestamp=timestamp_ms,
            now_ms=now_ms,
        )
    base_offset, leader_epoch = log.local.end_offset, log.leader_epoch
    log.append(
        ReplicatedBatch(
            batch_bytes=b"".join(
                (
                    PACK_BATCH_START(base_offset, size_bytes - BatchHeader.OVERHEAD, leader_epoch),
                    memoryview(batch)[AFTER_BATCH_START],
                )
            ),
            base_offset=base_offset,
            last_offset=base_offset + last_offset_delta,
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
        base_offset=base_offset,
        last_offset=base_offset + last_offset_delta,
        log_append_time_ms=NO_TIMESTAMP,
        log_start_offset=log.log_start_offset,
    )


def append_marker(
    log: PartitionLog, marker: TxnMarker, *, now_ms: int
) -> Appended | AppendRejection:
    """End the producer's transaction on this partition (WriteTxnMarkers).

    The marker is written even if no transaction is open: its epochs are kept, and recovery relies
    on that. With a ``start_offset`` it is written only if an open transaction starts there (text of
    KIP-664); with coordinator epoch -1 the epoch that is known here stays.
    """
    producer_entry = log.producers.state.by_id.get(marker.producer_id)
    coordinator_epoch = admit_marker(producer_entry, log.config, marker)
    if isinstance(coordinator_epoch, Refusal):
        return _rejection_of(log, coordinator_epoch)
    if isinstance(coordinator_epoch, AppendRejection):
        return coordinator_epoch
    marker_offset, leader_epoch = log.local.end_offset, log.leader_epoch
    known_entry = producer_entry or _UNKNOWN_PRODUCER
    epoch_before, open_txn_before = known_entry.producer_epoch, known_entry.txn_first_offset
    batch = control_batch(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_commit=marker.committed,
        coordinator_epoch=coordinator_epoch,
        base_offset=marker_offset,
        leader_epoch=leader_epoch,
        timestamp_ms=now_ms,
        has_log_append_time=log.config.timestamp_type is _LOG_APPEND_TIME,
    )
    log.append(
        ReplicatedBatch(
            batch_bytes=batch,
            base_offset=marker_offset,
            last_offset=marker_offset,
            leader_epoch=leader_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            last_sequence=-1,
            timestamp_ms=now_ms,
            is_transactional=True,
            is_control=True,
            is_marker=True,
            committed=marker.committed,
            coordinator_epoch=coordinator_epoch,
        ),
        now_ms=now_ms,
    )
    return Appended(
        base_offset=marker_offset,
        last_offset=marker_offset,
        log_append_time_ms=NO_TIMESTAMP,
        log_start_offset=log.log_start_offset,
        epoch_before=epoch_before,
        open_txn_before=open_txn_before,
    )


def _write_batch(
    log: PartitionLog,
    batch: ReceivedBatch,
    header: BatchHeader,
    producer_entry: ProducerEntry | None,
    last_sequence: int,
    *,
    max_timestamp: int,
    now_ms: int,
) -> Appended:
    """Assign offsets to a checked batch and store it."""
    log_append_time_ms, attributes = NO_TIMESTAMP, header.attributes
    if log.config.timestamp_type is _LOG_APPEND_TIME:
        log_append_time_ms = max_timestamp = now_ms
        batch = restamp(batch, max_timestamp_ms=now_ms, has_log_append_time=True)
    elif max_timestamp != header.max_timestamp_ms or attributes & BatchHeader.LOG_APPEND_TIME:
        batch = restamp(batch, max_timestamp_ms=max_timestamp, has_log_append_time=False)
    base_offset = log.local.end_offset
    last_offset = base_offset + header.last_offset_delta
    leader_epoch = log.leader_epoch
    known_entry = producer_entry or _UNKNOWN_PRODUCER
    epoch_before, open_txn_before = known_entry.producer_epoch, known_entry.txn_first_offset
    place_bytes = PACK_BATCH_START(base_offset, header.batch_length, leader_epoch)
    log.append(
        ReplicatedBatch(
            batch_bytes=b"".join((place_bytes, memoryview(batch)[AFTER_BATCH_START])),
            base_offset=base_offset,
            last_offset=last_offset,
            leader_epoch=leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            last_sequence=last_sequence,
            timestamp_ms=max_timestamp,
            is_transactional=attributes & BatchHeader.TRANSACTIONAL != 0,
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
        open_txn_before=open_txn_before,
    )


def _rejection_of(log: PartitionLog, refusal: Refusal) -> AppendRejection:
    return AppendRejection(
        error=refusal.error,
        reason=f"{log.topic_partition}: {refusal.reason}",
        rule=refusal.rule,
        log_start_offset=log.log_start_offset,
    )


# May this producer append this?
#
# Pure: each function reads what the partition knows of the producer and answers None (it may) or a
# ``Refusal``. The order of the checks is Kafka's, because the first one that fails gives the client
# its error:
#
# 1. the transactional gate: an epoch that is already fenced, then a transaction that is not
#    verified (KIP-890);
# 2. for data: epoch, sequence, then whether the batch fits the open transaction;
# 3. for markers: epoch by the rule of the transaction version (KIP-1228), then the coordinator's
#    epoch.
#
# Each refusal names its row of docs/rules.md. ``data_rule`` and ``marker_rule`` explain an accepted
# append from what the log has answered; only a trace calls them.


class Refusal(NamedTuple):
    """Why a producer may not append: Kafka's error and the reason."""

    error: ErrorCode
    reason: str
    rule: str = ""
    """Rule id of docs/rules.md; "" if none explains it."""


def check_gate(
    producer_entry: ProducerEntry | None,
    *,
    producer_id: int,
    producer_epoch: int,
    is_verified: bool,
    release_rules: Rules,
) -> Refusal | None:
    """The refusal of a transactional data batch before any sequence check; None if it passes.

    Args:
        producer_entry: The partition's state of the producer.
        producer_id: The batch's producer id.
        producer_epoch: The batch's epoch.
        is_verified: Whether the request has the guard of the producer's verification entry, or
            verification is switched off.
        release_rules: The rules of the broker's release.
    """
    if producer_entry is not None:
        if producer_entry.txn_first_offset != NO_OFFSET and may_join(
            producer_entry, producer_epoch, release_rules
        ):
            return None
        # KAFKA-19690: a fenced producer has to hear that it is fenced, not that its transaction is
        # unknown.
        if (
            producer_epoch < producer_entry.producer_epoch
            and release_rules.stale_epoch_comes_before_guard
        ):
            return _stale_epoch(producer_entry, producer_epoch, "producer.gate-epoch")
    if is_verified:
        return None
    return Refusal(
        ErrorCode.invalid_txn_state,
        f"producer {producer_id} epoch {producer_epoch} has no transaction open on this "
        "partition and shows no valid verification guard (KIP-890)",
        "verify.guard-gone",
    )


def may_join(producer_entry: ProducerEntry, producer_epoch: int, release_rules: Rules) -> bool:
    """Whether the batch can join the open transaction
    (ProducerStateManager.hasOngoingTransaction).
    """
    any_epoch_joins = not release_rules.open_transactions_have_epochs
    return producer_entry.producer_epoch == producer_epoch or any_epoch_joins


def check_data(
    producer_entry: ProducerEntry | None,
    *,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    is_client: bool,
    verification: VerificationEntry | None,
    release_rules: Rules,
) -> Refusal | None:
    """The refusal of a data batch that does not continue the partition's state of its producer
    (ProducerAppendInfo.appendDataBatch).
    """
    if producer_entry is not None and producer_epoch < producer_entry.producer_epoch:
        # Never PRODUCER_FENCED: that one is the coordinator's word (KIP-588).
        return _stale_epoch(producer_entry, producer_epoch, "producer.stale-epoch")
    if is_client:
        refusal = _check_sequence(
            producer_entry,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            verification=verification,
            release_rules=release_rules,
        )
        if refusal is not None:
            return refusal
    if (
        producer_entry is not None
        and producer_entry.txn_first_offset != NO_OFFSET
        and not is_transactional
    ):
        return Refusal(
            ErrorCode.invalid_txn_state,
            f"producer {producer_entry.producer_id} has a transaction open since offset "
            f"{producer_entry.txn_first_offset}; a batch outside of it was found "
            "(ProducerAppendInfo)",
            "producer.plain-in-open-txn",
        )
    return None


def check_marker(
    producer_entry: ProducerEntry | None,
    *,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    release_rules: Rules,
) -> Refusal | None:
    """The refusal of a marker that may not end this producer's transaction here
    (ProducerAppendInfo.appendEndTxnMarker).
    """
    if producer_entry is None:
        # An unknown producer's coordinator epoch counts as -1, which no real one is below.
        known_coordinator_epoch = NO_EPOCH
    else:
        known_epoch = producer_entry.producer_epoch
        is_v2 = transaction_version >= TransactionVersion.TV_2
        if producer_epoch < known_epoch:
            refusal_rule = "marker.v2-lower-epoch" if is_v2 else "marker.v1-lower-epoch"
            return _stale_epoch(producer_entry, producer_epoch, refusal_rule)
        if (
            is_v2
            and producer_epoch == known_epoch
            and not _may_repeat_epoch(producer_entry, release_rules)
        ):
            return Refusal(
                ErrorCode.invalid_producer_epoch,
                f"a marker of transactions v2 must carry an epoch above {known_epoch}, "
                f"found {producer_epoch} (KIP-1228)",
                "marker.v2-same-epoch",
            )
        known_coordinator_epoch = producer_entry.coordinator_epoch
    if coordinator_epoch < known_coordinator_epoch:
        return Refusal(
            ErrorCode.transaction_coordinator_fenced,
            f"coordinator epoch {coordinator_epoch} of the marker is below "
            f"{known_coordinator_epoch}, which a newer coordinator has left here",
            "marker.coordinator-fenced",
        )
    return None


def data_rule(header: BatchHeader, appended: Appended, producer_entry: ProducerEntry | None) -> str:
    """Rule id of docs/rules.md by which a batch was accepted, or found to be a duplicate;
    ``producer_entry`` is the producer's state after it.
    """
    is_known_epoch = appended.epoch_before == header.producer_epoch
    joins_open_txn = (
        header.is_transactional and is_known_epoch and appended.open_txn_before != NO_OFFSET
    )
    if header.producer_id < 0:
        return "batch.written-fields"
    if appended.duplicate:
        return "producer.duplicate-in-open-txn" if joins_open_txn else "producer.duplicate"
    if header.is_transactional:
        return "producer.gate-open" if joins_open_txn else "producer.txn-opens-at-first-batch"
    if appended.epoch_before == NO_EPOCH:
        return "producer.unknown-starts-anywhere"
    if not is_known_epoch:
        return "producer.new-epoch"
    # After a batch, and not after a marker alone.
    sequence_wraps = (
        header.base_sequence == 0 and producer_entry is not None and len(producer_entry.batches) > 1
    )
    return "producer.sequence-wraps" if sequence_wraps else "producer.next-sequence"


def marker_rule(marker: TxnMarker, appended: Appended) -> str:
    """Rule id of docs/rules.md by which a marker was written."""
    if appended.epoch_before == NO_EPOCH:
        return "marker.unknown-producer"
    is_v2 = marker.transaction_version >= TransactionVersion.TV_2
    is_same_epoch = marker.producer_epoch == appended.epoch_before
    if appended.open_txn_before == NO_OFFSET:
        return "marker.v2-repeated" if is_v2 and is_same_epoch else "marker.nothing-open"
    if is_v2:
        return "marker.v2-top-epoch" if is_same_epoch else "marker.v2-higher-epoch"
    return "marker.v1-same-epoch" if is_same_epoch else "marker.v1-higher-epoch"


def check_marker_of(
    producer_entry: ProducerEntry | None, marker: TxnMarker, release_rules: Rules
) -> Refusal | None:
    """The refusal of a marker that names its transaction by ``start_offset``.

    This is the text of KIP-664, never shipped: an operator names the transaction, and coordinator
    epoch -1 means that the marker is not from a coordinator, so that only the producer's exact
    epoch counts.
    """
    if marker.coordinator_epoch != NO_EPOCH:
        refusal = check_marker(
            producer_entry,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            release_rules=release_rules,
        )
        if refusal is not None:
            return refusal
    elif producer_entry is not None and marker.producer_epoch != producer_entry.producer_epoch:
        return Refusal(
            ErrorCode.invalid_producer_epoch,
            f"producer {producer_entry.producer_id} is at epoch {producer_entry.producer_epoch} "
            f"here, an operator's marker must carry that one, found {marker.producer_epoch} "
            "(text of KIP-664)",
        )
    if producer_entry is None or producer_entry.txn_first_offset != marker.start_offset:
        return Refusal(
            ErrorCode.invalid_txn_state,
            f"no transaction of that producer is open here since offset {marker.start_offset} "
            "(text of KIP-664)",
        )
    return None


def _check_sequence(
    producer_entry: ProducerEntry | None,
    *,
    producer_epoch: int,
    base_sequence: int,
    verification: VerificationEntry | None,
    release_rules: Rules,
) -> Refusal | None:
    """Check the batch's first sequence against the verification entry and the cache
    (ProducerAppendInfo.checkSequence).
    """
    if verification is not None:
        if (
            verification.supports_epoch_bump
            and release_rules.v2_starts_at_sequence_zero
            and base_sequence != 0
            and (producer_entry is None or not producer_entry.batches)
        ):
            # KAFKA-18202: under transactions v2 each transaction has an epoch of its own and starts
            # at 0.
            return _out_of_order(
                f"the first sequence of transactions v2 is 0, found {base_sequence}",
                "producer.v2-starts-at-zero",
            )
        if (
            base_sequence > verification.lowest_sequence
            and release_rules.earlier_sequence_goes_first
        ):
            return _out_of_order(
                f"sequence {verification.lowest_sequence} is still being verified, "
                f"found {base_sequence}",
                "producer.lowest-sequence",
            )
    if producer_entry is None or producer_entry.producer_epoch == NO_EPOCH:
        # An unknown producer may go on anywhere: its state may have expired or been deleted
        # (KIP-360).
        return None
    if producer_entry.producer_epoch != producer_epoch:
        if base_sequence == 0:
            return None
        return _out_of_order(
            f"epoch {producer_epoch} is new to this partition (it knows "
            f"{producer_entry.producer_epoch}) and must start at sequence 0, found {base_sequence}",
            "producer.new-epoch-starts-at-zero",
        )
    expected_sequence = producer_entry.next_sequence
    if base_sequence == expected_sequence:
        return None
    return _out_of_order(
        f"producer {producer_entry.producer_id} epoch {producer_epoch}: expected sequence "
        f"{expected_sequence}, found {base_sequence}",
        _gap_rule(producer_entry, base_sequence),
    )


def _gap_rule(producer_entry: ProducerEntry, base_sequence: int) -> str:
    if not producer_entry.batches:
        return "producer.known-from-marker"
    is_old_sequence = base_sequence <= producer_entry.last_sequence
    return "producer.out-of-cache" if is_old_sequence else "producer.next-sequence"


def _may_repeat_epoch(producer_entry: ProducerEntry, release_rules: Rules) -> bool:
    """Whether a marker of transactions v2 may have the epoch that is already known.

    Each marker bumps the epoch, so one with an equal epoch belongs to the transaction before the
    open one (KIP-1228).
    """
    if (
        producer_entry.txn_first_offset == NO_OFFSET
        and release_rules.repeated_v2_markers_are_written
    ):
        # KAFKA-19999: nothing is open, so this marker was written already and its answer was lost.
        return True
    if (
        producer_entry.producer_epoch == PRODUCER_EPOCH_MAX
        and release_rules.last_epoch_markers_are_written
    ):
        # KAFKA-20090: an exhausted epoch can't be bumped; its transaction has to end all the same.
        return True
    return not release_rules.v2_markers_need_higher_epoch  # before KAFKA-19446


def _stale_epoch(producer_entry: ProducerEntry, producer_epoch: int, rule: str) -> Refusal:
    return Refusal(
        ErrorCode.invalid_producer_epoch,
        f"epoch {producer_epoch} of producer {producer_entry.producer_id} is below "
        f"{producer_entry.producer_epoch}, the last one seen on this partition",
        rule,
    )


def _out_of_order(detail: str, rule: str) -> Refusal:
    return Refusal(ErrorCode.out_of_order_sequence_number, f"{detail} (ProducerAppendInfo)", rule)


def check_producer(
    producer_entry: ProducerEntry | None,
    header: BatchHeader,
    verification: VerificationEntries,
    config: LogConfig,
    *,
    guard: int,
    is_client: bool,
) -> Refusal | None:
    """Apply ``check_gate`` and ``check_data`` to a producer's batch."""
    producer_id = header.producer_id
    is_transactional = header.attributes & BatchHeader.TRANSACTIONAL != 0
    release_rules, verification_entry = config.rules, verification.entries.get(producer_id)
    if is_transactional:
        refusal = check_gate(
            producer_entry,
            producer_id=producer_id,
            producer_epoch=header.producer_epoch,
            is_verified=(verification_entry is not None and verification_entry.guard == guard)
            or not (
                config.needs_verification
                and release_rules.transactions_are_verified
                and (release_rules.guards_are_compared or guard == SENTINEL)
                and (release_rules.offset_commits_are_verified or is_client)
            ),
            release_rules=release_rules,
        )
        if refusal is not None:
            return refusal
    return check_data(
        producer_entry,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=is_transactional,
        is_client=is_client,
        verification=verification_entry,
        release_rules=release_rules,
    )


def admit_marker(
    producer_entry: ProducerEntry | None, config: LogConfig, marker: TxnMarker
) -> int | AppendRejection | Refusal:
    """The coordinator epoch after a marker, or why the marker is refused (WriteTxnMarkers)."""
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        # MemoryRecords.writeEndTransactionalMarker throws, and the client sees what it sees of any
        # bug.
        return AppendRejection(
            error=ErrorCode.unknown_server_error,
            reason=f"a marker needs a producer, found id {marker.producer_id} epoch "
            f"{marker.producer_epoch}",
            rule="marker.epoch-negative",
        )
    if config.max_message_bytes < MARKER_BYTES:
        return AppendRejection(
            error=ErrorCode.message_too_large,
            reason=f"a marker of {MARKER_BYTES} bytes exceeds max.message.bytes"
            f" {config.max_message_bytes}",
            rule="batch.too-large",
        )
    if marker.start_offset == NO_OFFSET:
        refusal = check_marker(
            producer_entry,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            release_rules=config.rules,
        )
    else:
        refusal = check_marker_of(producer_entry, marker, config.rules)
    is_epoch_stale = refusal is not None and refusal.error is ErrorCode.invalid_producer_epoch
    if marker.transaction_version < 0 and not is_epoch_stale:
        return AppendRejection(
            error=ErrorCode.unknown_server_error,
            reason=f"there is no transaction version {marker.transaction_version}",
        )
    if refusal is not None:
        return refusal
    if (
        marker.start_offset != NO_OFFSET
        and producer_entry is not None
        and marker.coordinator_epoch == NO_EPOCH
    ):
        return producer_entry.coordinator_epoch
    return marker.coordinator_epoch
