"""Is this a batch that a leader may write? Kafka's LogValidator and
UnifiedLog.analyzeAndValidateRecords, in their order.

Kafka reads the records of every batch. That would cost more than the whole rest of an append, so
here a walk by their lengths (``txnsim.wire.record_walk``) finds out whether they are as many as the
header says and which is the newest. They are read only if

- the topic is compacted (keys are required),
- their times lie outside the topic's window or contradict the header's,
- the topic limits how old a record may be, or the producer claims LogAppendTime.

A compressed batch is unpacked in any case, because one that can't be unpacked is refused. Where the
codec's library is not installed, the header decides alone and keys are not checked. So these lies
are believed: in a batch of several records lengths inside of a record that is as long as it says,
and all that the header of a very large batch says.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from txnsim.errors import (
    CorruptBatchError,
    ErrorCode,
    MissingExtraError,
    UnpacksTooLargeError,
)
from txnsim.log.answers import NO_TIMESTAMP, UNKNOWN_OFFSET, AppendRejection
from txnsim.log.config import NEVER_MS, LogConfig, TimestampType
from txnsim.types import TopicPartition
from txnsim.wire.batch import HEADER_SIZE, NONE, BatchHeader, crc_is_valid, read_records
from txnsim.wire.batch_rewrite import recoded_batch
from txnsim.wire.compression import decompress_in_steps
from txnsim.wire.record_walk import NO_DELTA, newest_delta_ms, walk
from txnsim.wire.records import Record

DEVIATIONS: Final = (
    "The offsets of records inside a compressed batch are not looked at; Apache Kafka numbers them "
    "anew where they are not 0, 1, 2 and so on.",
    "A compressed batch that unpacks to more than 32 MiB, or that holds more than 250,000 records, "
    "is MESSAGE_TOO_LARGE; Apache Kafka unpacks any batch, however long one of its threads is busy "
    "with it.",
)

UNPACKED_BYTES_MAX: Final = 32 << 20
UNPACKED_RECORDS_MAX: Final = 250_000
LIGHT_RECORDS_MAX: Final = 20_000
LIGHT_BYTES_MAX: Final = 16_384
"""Of compressed batches that are looked at without a break: they unpack in 50 ms at most."""
WALK_RECORDS: Final = 20_000
"""Records between two breaks."""
_RECORD_NS: Final = 350

_CREATE_TIME: Final = TimestampType.CREATE_TIME
_NO_KEY: Final = "Compacted topic cannot accept message without key in topic partition"
_WRONG_TYPE: Final = (
    "Invalid timestamp type in message {record}. Producer should not set timestamp type to "
    "LogAppendTime."
)


def check_size(
    size: int, config: LogConfig, *, rule: str = "batch.too-large"
) -> AppendRejection | None:
    """Limits that hold for clients and coordinators alike; these answers don't show the log start
    offset.

    Args:
        size: Of the batch.
        config: Of the log.
        rule: Row of docs/rules.md by which a batch above max.message.bytes is refused.
    """
    if size > config.max_message_bytes:
        return AppendRejection(
            error=ErrorCode.message_too_large,
            reason=f"a batch of {size} bytes exceeds max.message.bytes {config.max_message_bytes}",
            rule=rule,
        )
    if size > config.segment_bytes:
        return AppendRejection(
            error=ErrorCode.record_list_too_large,
            reason=f"a batch of {size} bytes exceeds segment.bytes {config.segment_bytes}",
            rule="batch.larger-than-segment",
        )
    return None


def check_envelope(
    header: BatchHeader, batch: bytes, *, config: LogConfig, log_start_offset: int
) -> AppendRejection | None:
    """What the header of a client's batch must say (LogValidator.validateBatch), and whether its
    CRC holds.
    """
    if header.base_offset != 0:
        return _invalid(
            f"a producer's batch must have base offset 0, found {header.base_offset}",
            log_start_offset,
            "batch.base-offset",
        )
    if header.size > config.max_message_bytes:
        return check_size(header.size, config)
    if not crc_is_valid(batch, header):
        return AppendRejection(
            error=ErrorCode.corrupt_message,
            reason=f"the batch is cut off or its CRC is not {header.crc}, which its header states",
            rule="batch.checksum",
        )
    count = header.records_count
    if count <= 0 or count != header.last_offset_delta + 1:
        return _invalid(
            f"a batch must hold at least one record and an offset for each: found {count} "
            f"records and last offset delta {header.last_offset_delta}",
            log_start_offset,
            "batch.counts",
        )
    if header.is_control:
        return _invalid(
            "clients may not write control batches", log_start_offset, "batch.control-flag"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(
            f"sequence {header.base_sequence} of producer {header.producer_id} is below 0",
            log_start_offset,
            "batch.sequence-of-producer",
        )
    return None


def is_heavy(headers: Iterable[BatchHeader]) -> bool:
    """Whether the records of a request take long to look at: they are many, or may be once they are
    unpacked.
    """
    records = packed = 0
    for header in headers:
        records += header.records_count
        if header.compression != NONE:
            packed += header.size
    return records > LIGHT_RECORDS_MAX or packed > LIGHT_BYTES_MAX


def newest_timestamp(
    header: BatchHeader, batch: bytes, *, log_start_offset: int = UNKNOWN_OFFSET
) -> AppendRejection | int:
    """The newest timestamp of the records, or why the batch can't hold those that its header
    states.
    """
    if header.compression == NONE:
        try:
            delta_ms = newest_delta_ms(batch, HEADER_SIZE, header.records_count)
        except CorruptBatchError as error:
            return _invalid(str(error), log_start_offset, "batch.inner-count")
        if delta_ms is None:
            return _not_so_many(header, log_start_offset)
        return header.base_timestamp_ms + delta_ms
    steps = newest_in_steps(header, batch, log_start_offset=log_start_offset)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: AppendRejection | int = end.value
            return found


def newest_in_steps(
    header: BatchHeader, batch: bytes, *, log_start_offset: int = UNKNOWN_OFFSET
) -> Generator[int, None, AppendRejection | int]:
    """Look for the same, step by step: nothing of a log's state is asked.

    Yields:
        About how many nanoseconds the step took.
    """
    records, at = batch, HEADER_SIZE
    if header.compression != NONE:
        try:
            records = yield from decompress_in_steps(
                header.compression, batch[HEADER_SIZE : header.size], UNPACKED_BYTES_MAX
            )
            at = 0
        except MissingExtraError:
            # A codec that is not installed is given the benefit of the doubt.
            return header.max_timestamp_ms
        except UnpacksTooLargeError as error:
            return _too_large(str(error))
        except CorruptBatchError:
            return AppendRejection(
                error=ErrorCode.unknown_server_error,
                reason="the records of the batch can't be unpacked with codec "
                f"{header.compression}",
                log_start_offset=log_start_offset,
                rule="batch.codec",
            )
        if header.records_count > UNPACKED_RECORDS_MAX:
            return _too_large(
                f"{header.records_count} records in a compressed batch, at most "
                f"{UNPACKED_RECORDS_MAX} are unpacked"
            )
    left, delta_ms = header.records_count, NO_DELTA
    try:
        while left:
            found = walk(records, at, min(left, WALK_RECORDS), delta_ms)
            if found is None:
                break
            delta_ms, at = found
            left -= min(left, WALK_RECORDS)
            yield WALK_RECORDS * _RECORD_NS
    except CorruptBatchError as error:
        return _invalid(str(error), log_start_offset, "batch.inner-count")
    if left or at != len(records):
        return _not_so_many(header, log_start_offset)
    return header.base_timestamp_ms + delta_ms


def needs_examination(
    header: BatchHeader, newest_ms: int, *, config: LogConfig, now_ms: int
) -> bool:
    """Whether header and newest timestamp can't say that every record may be written."""
    if config.is_compacted or header.is_log_append_time:
        return True
    if config.timestamp_type is not _CREATE_TIME:
        return False
    return (
        config.timestamp_before_max_ms != NEVER_MS
        or newest_ms > now_ms + config.timestamp_after_max_ms
        or header.base_timestamp_ms > newest_ms
        or header.base_timestamp_ms < NO_TIMESTAMP
    )


def recoded(batch: bytes, header: BatchHeader, config: LogConfig) -> bytes:
    """The batch in its topic's codec (``compression.type``), its records looked at before; where a
    codec's library is not installed it stays as it is.
    """
    assert config.codec is not None
    try:
        return recoded_batch(
            header, read_records(batch), codec=config.codec, level=config.codec_level
        )
    except MissingExtraError:
        return batch


def examine(
    header: BatchHeader,
    batch: bytes,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    now_ms: int,
    log_start_offset: int,
) -> AppendRejection | int:
    """Look at each record; that it can be read has been seen (``newest_timestamp``).

    Returns:
        The true maximum of the timestamps, which the stored batch must carry; or why the batch is
        refused.
    """
    try:
        records = read_records(batch)
    except MissingExtraError:
        return _judge_closed(
            header, config=config, now_ms=now_ms, log_start_offset=log_start_offset
        )
    errors: list[tuple[int, str]] = []
    is_timestamp_error = False
    timestamp_max = NO_TIMESTAMP
    for index, record in enumerate(records):
        timestamp = NO_TIMESTAMP if record.timestamp_ms is None else record.timestamp_ms
        timestamp_max = max(timestamp_max, timestamp)
        if config.is_compacted and record.key is None:
            errors.append((index, f"{_NO_KEY} {topic_partition}"))
            continue
        problem = _timestamp_problem(
            timestamp, index, header, config=config, now_ms=now_ms, record=record
        )
        if problem is not None:
            errors.append((index, problem))
            is_timestamp_error = True
    if errors:
        return _records_refused(
            errors,
            log_start_offset,
            is_timestamp_error=is_timestamp_error,
            rule=_record_rule(header, errors, config, is_timestamp_error=is_timestamp_error),
        )
    return timestamp_max


def _timestamp_problem(
    timestamp: int,
    offset: int,
    header: BatchHeader,
    *,
    config: LogConfig,
    now_ms: int,
    record: Record | None = None,
) -> str | None:
    """What is wrong with one record's timestamp (LogValidator.validateTimestamp)."""
    if config.timestamp_type is _CREATE_TIME and timestamp != NO_TIMESTAMP:
        oldest = now_ms - config.timestamp_before_max_ms
        newest = now_ms + config.timestamp_after_max_ms
        if oldest <= timestamp <= newest:
            return None
        return (
            f"Timestamp {timestamp} of message with offset {offset} is out of range. "
            f"The timestamp should be within [{oldest}, {newest}]"
        )
    if not header.is_log_append_time:
        return None
    return _WRONG_TYPE.format(record=_shown(offset, timestamp, header, record))


def _shown(offset: int, timestamp: int, header: BatchHeader, record: Record | None) -> str:
    """A record as Kafka prints it. Of compressed ones it reads sizes alone, and shows those of
    nothing as they are on the wire.
    """
    kind, nothing = (
        ("DefaultRecord", 0) if header.compression == NONE else ("PartialDefaultRecord", -1)
    )
    key, value = (None, None) if record is None else (record.key, record.value)
    return (
        f"{kind}(offset={offset}, timestamp={timestamp}, "
        f"key={nothing if key is None else len(key)} bytes, "
        f"value={nothing if value is None else len(value)} bytes)"
    )


def _judge_closed(
    header: BatchHeader, *, config: LogConfig, now_ms: int, log_start_offset: int
) -> AppendRejection | int:
    """A batch that can't be opened: the header's two timestamps stand for all."""
    for timestamp in (header.base_timestamp_ms, header.max_timestamp_ms):
        problem = _timestamp_problem(timestamp, 0, header, config=config, now_ms=now_ms)
        if problem is not None:
            return AppendRejection(
                error=ErrorCode.invalid_timestamp,
                reason=problem,
                log_start_offset=log_start_offset,
                rule=_timestamp_rule(header, config),
            )
    return header.max_timestamp_ms


def _records_refused(
    errors: list[tuple[int, str]], log_start_offset: int, *, is_timestamp_error: bool, rule: str
) -> AppendRejection:
    """Any refused record refuses the whole batch (LogValidator.processRecordErrors, KIP-467)."""
    if is_timestamp_error:
        error = ErrorCode.invalid_timestamp
        reason = "One or more records have been rejected due to invalid timestamp"
    else:
        error = ErrorCode.invalid_record
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3]
        )
        reason = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    return AppendRejection(
        error=error,
        reason=reason,
        log_start_offset=log_start_offset,
        record_errors=tuple(errors),
        rule=rule,
    )


def _record_rule(
    header: BatchHeader,
    errors: list[tuple[int, str]],
    config: LogConfig,
    *,
    is_timestamp_error: bool,
) -> str:
    if not is_timestamp_error:
        return "batch.key-required"
    if any(text.startswith(_NO_KEY) for _, text in errors):
        return "batch.worst-record"
    return _timestamp_rule(header, config)


def _timestamp_rule(header: BatchHeader, config: LogConfig) -> str:
    is_window = config.timestamp_type is _CREATE_TIME and not header.is_log_append_time
    return "batch.timestamp-window" if is_window else "batch.timestamp-type"


def _not_so_many(header: BatchHeader, log_start_offset: int) -> AppendRejection:
    return _invalid(
        f"the records of the batch are not the {header.records_count} that its header states",
        log_start_offset,
        "batch.inner-count",
    )


def _too_large(reason: str) -> AppendRejection:
    return AppendRejection(error=ErrorCode.message_too_large, reason=reason, rule="batch.too-large")


def _invalid(reason: str, log_start_offset: int, rule: str) -> AppendRejection:
    return AppendRejection(
        error=ErrorCode.invalid_record, reason=reason, log_start_offset=log_start_offset, rule=rule
    )
