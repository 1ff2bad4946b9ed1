"""What a leader asks before it gives a batch its place: is it sound, may its producer write it?

These are the checks of UnifiedLog.append in their order. Nothing changes here. The rules stand in
``txnsim.log.validation`` (batches) and ``txnsim.log.append_info`` (producers). A follower and a
reload ask none of this: they believe the leader.
"""

from __future__ import annotations

import msgspec

from txnsim.errors import CorruptBatchError, ErrorCode
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import AppendRejection
from txnsim.log.append_info import Refusal, check_data, check_gate, check_marker, check_marker_of
from txnsim.log.config import LogConfig
from txnsim.log.producer_state import NO_EPOCH, NO_OFFSET, ProducerEntry
from txnsim.log.validation import (
    Reread,
    check_envelope,
    check_size,
    examine,
    needs_examination,
    needs_recoding,
    newest_timestamp,
    recoded,
)
from txnsim.log.verification import SENTINEL, VerificationEntries
from txnsim.types import TopicPartition
from txnsim.wire.batch import LOG_OVERHEAD, TRANSACTIONAL_FLAG, BatchHeader, read_batch_header
from txnsim.wire.batch_header import Came
from txnsim.wire.control import MARKER_BYTES


class SoundBatch(msgspec.Struct, frozen=True, gc=False):
    """A client's batch that may be written, as far as its producer does not matter."""

    batch: Came
    """As it came, or compressed anew where the topic demands it."""
    header: BatchHeader
    max_timestamp: int


def sound_batch(
    batch: Came,
    header: BatchHeader | None,
    newest: AppendRejection | Reread | int | None,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    log_start_offset: int,
    now_ms: int,
) -> SoundBatch | AppendRejection:
    """Judge a client's batch by itself (LogValidator, UnifiedLog.analyzeAndValidateRecords).

    Args:
        batch: As it came; it may be longer than its header says.
        header: Its header, if the caller has read it already.
        newest: What ``newest_in_steps`` or ``reread`` has found, if the caller has looked already.
        topic_partition: Name of the log.
        config: Config of the log.
        log_start_offset: Rejections show it.
        now_ms: The cluster's time.
    """
    if header is None:
        try:
            header = read_batch_header(batch, 0)
        except CorruptBatchError as error:
            return AppendRejection(error=ErrorCode.corrupt_message, reason=str(error))
    size = header.batch_length + LOG_OVERHEAD
    if len(batch) != size:
        batch = batch[:size]
    rejection = check_envelope(header, batch, config=config, log_start_offset=log_start_offset)
    if rejection is not None:
        return rejection
    known: Reread | None = None
    if newest is None:
        newest = newest_timestamp(header, batch)
    elif isinstance(newest, Reread):
        known, newest = newest if newest.holds(config, now_ms) else None, newest.newest
    if not isinstance(newest, int):
        return _dated(newest, log_start_offset)
    if needs_examination(header, newest, config=config, now_ms=now_ms):
        # Header and newest timestamp don't say enough: each record is asked.
        if known is not None and known.verdict is not None:
            newest = known.verdict
        else:
            newest = examine(
                header,
                batch,
                topic_partition=topic_partition,
                config=config,
                now_ms=now_ms,
                log_start_offset=log_start_offset,
            )
        if not isinstance(newest, int):
            return newest
    if config.codec is not None and needs_recoding(header, config):
        written = None if known is None else known.recoded
        written = recoded(batch, header, config) if written is None else written
        if isinstance(written, AppendRejection):
            return written
        return SoundBatch(written, read_batch_header(written, 0), newest)
    rejection = check_size(size, config) if size > config.segment_bytes else None
    return SoundBatch(batch, header, newest) if rejection is None else rejection


def check_producer(
    entry: ProducerEntry | None,
    header: BatchHeader,
    verification: VerificationEntries,
    config: LogConfig,
    *,
    guard: int,
    is_client: bool,
) -> Refusal | None:
    """Gate and data rules for a batch of a producer.

    Args:
        entry: What the log knows of the producer.
        header: The batch's.
        verification: The log's guards.
        config: Config of the log.
        guard: What the request shows.
        is_client: A client's batch; otherwise a group coordinator's, of transactional commits.
    """
    producer_id = header.producer_id
    is_transactional = header.attributes & TRANSACTIONAL_FLAG != 0
    rules, verified = config.rules, verification.entries.get(producer_id)
    if is_transactional:
        refusal = check_gate(
            entry,
            producer_id=producer_id,
            producer_epoch=header.producer_epoch,
            is_verified=(verified is not None and verified.guard == guard)
            or not config.verification_enabled
            or not rules.transactions_are_verified
            or not (rules.guards_are_compared or guard == SENTINEL)
            or not (rules.offset_commits_are_verified or is_client),
            rules=rules,
        )
        if refusal is not None:
            return refusal
    return check_data(
        entry,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=is_transactional,
        is_client=is_client,
        verification=verified,
        rules=rules,
    )


def admit_marker(
    entry: ProducerEntry | None, config: LogConfig, marker: TxnMarker
) -> int | AppendRejection | Refusal:
    """The coordinator epoch that a marker leaves, or why it is refused (WriteTxnMarkers)."""
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
            entry,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            rules=config.rules,
        )
    else:
        refusal = check_marker_of(entry, marker, config.rules)
    is_stale = refusal is not None and refusal.error is ErrorCode.invalid_producer_epoch
    if marker.transaction_version < 0 and not is_stale:
        return AppendRejection(
            error=ErrorCode.unknown_server_error,
            reason=f"there is no transaction version {marker.transaction_version}",
        )
    if refusal is not None:
        return refusal
    if (
        marker.start_offset != NO_OFFSET
        and entry is not None
        and marker.coordinator_epoch == NO_EPOCH
    ):
        return entry.coordinator_epoch
    return marker.coordinator_epoch


def _dated(rejection: AppendRejection, log_start_offset: int) -> AppendRejection:
    """A rejection with the log start of now, where its error shows one."""
    if rejection.error is ErrorCode.message_too_large:
        return rejection
    return msgspec.structs.replace(rejection, log_start_offset=log_start_offset)
