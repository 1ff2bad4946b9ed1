"""Whether a leader may write a batch: the checks of Kafka's LogValidator and
UnifiedLog.analyzeAndValidateRecords, in the same order.

Kafka reads the records of every batch. That would cost more than the rest of an append, so here a
walk over their lengths (``txnsim.wire.record_walk``) finds out whether their number is that in the
header, and which is the newest. They are read only if

- the topic is compacted (keys are required),
- their timestamps are outside the topic's window or contradict the header's,
- the topic limits how old a record may be, or the producer claims LogAppendTime.

A compressed batch is always decompressed, because one that can't be is refused. If the codec's
library is not installed, only the header is checked, and keys are not. So these errors are not
noticed: wrong lengths inside a record whose total length is right, in a batch of several records;
and anything in the header of a very large batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, overload

import msgspec

from txnsim.errors import CorruptBatchError, ErrorCode, MissingExtraError, UnpacksTooLargeError
from txnsim.log.answers import NO_TIMESTAMP, UNKNOWN_OFFSET, AppendRejection
from txnsim.log.config import NEVER_MS, LogConfig, TimestampType
from txnsim.log.unpacking import Payload, Steps, payload_in_steps, run_steps
from txnsim.types import TopicPartition
from txnsim.wire.batch import NONE, BatchHeader, crc_is_valid, read_batch_header
from txnsim.wire.batch_header import ReceivedBatch
from txnsim.wire.batch_rewrite import recoded_batch, scan_records
from txnsim.wire.record_walk import WALK_PIECES, WalkProgress, newest_delta_ms, walk_in_steps
from txnsim.wire.records import payload_of

DEVIATIONS: Final = (
    "The offsets of records inside a compressed batch are not looked at; Apache Kafka numbers them "
    "anew where they are not 0, 1, 2 and so on.",
    "A compressed batch that unpacks to more than 32 MiB, or that holds more than 250,000 records "
    "and headers, is MESSAGE_TOO_LARGE; Apache Kafka unpacks any batch, however long one of its "
    "threads is busy with it.",
)

UNPACKED_BYTES_MAX: Final = 32 << 20
UNPACKED_RECORDS_MAX: Final = 250_000
REREAD_HOLDS_MS: Final = 60_000
"""Milliseconds for which a result is valid: a fault may delay the append longer, and then
timestamps are checked again.
"""
WALK_BYTES: Final = 64 << 10
"""Bytes of batches that are walked without a break; a record header has at least two bytes."""
_RECORD_NS: Final = 400

_CREATE_TIME: Final = TimestampType.CREATE_TIME
_NO_KEY_TEXT: Final = "Compacted topic cannot accept message without key in topic partition"
_WRONG_TIMESTAMP_TYPE_TEXT: Final = (
    "Invalid timestamp type in message {record}. Producer should not set timestamp type to "
    "LogAppendTime."
)


def check_size(
    size_bytes: int, config: LogConfig, *, rule: str = "batch.too-large"
) -> AppendRejection | None:
    """Limits for clients and coordinators alike; these errors come without the log start offset."""
    if size_bytes > config.max_message_bytes:
        return AppendRejection(
            error=ErrorCode.message_too_large,
            reason=f"a batch of {size_bytes} bytes exceeds max.message.bytes "
            f"{config.max_message_bytes}",
            rule=rule,
        )
    if size_bytes > config.segment_bytes:
        return AppendRejection(
            error=ErrorCode.record_list_too_large,
            reason=f"a batch of {size_bytes} bytes exceeds segment.bytes {config.segment_bytes}",
            rule="batch.larger-than-segment",
        )
    return None


def check_envelope(
    header: BatchHeader, batch: ReceivedBatch, *, config: LogConfig, log_start_offset: int
) -> AppendRejection | None:
    """Check the header of a client's batch (LogValidator.validateBatch) and its CRC."""
    if header.base_offset != 0:
        return _invalid_batch(
            f"a producer's batch must have base offset 0, found {header.base_offset}",
            log_start_offset,
            "batch.base-offset",
        )
    size_bytes = header.batch_length + BatchHeader.OVERHEAD
    if size_bytes > config.max_message_bytes:
        return check_size(size_bytes, config)
    if not crc_is_valid(batch, header):
        return AppendRejection(
            error=ErrorCode.corrupt_message,
            reason=f"the batch is cut off or its CRC is not {header.crc}, which its header states",
            rule="batch.checksum",
        )
    record_count = header.records_count
    if record_count <= 0 or record_count != header.last_offset_delta + 1:
        return _invalid_batch(
            f"a batch must hold at least one record and an offset for each: found {record_count} "
            f"records and last offset delta {header.last_offset_delta}",
            log_start_offset,
            "batch.counts",
        )
    if header.attributes & BatchHeader.CONTROL:
        return _invalid_batch(
            "clients may not write control batches", log_start_offset, "batch.control-flag"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid_batch(
            f"sequence {header.base_sequence} of producer {header.producer_id} is below 0",
            log_start_offset,
            "batch.sequence-of-producer",
        )
    return None


Recoded = bytes | AppendRejection
"""A batch recompressed with its topic's codec, or the error if it is then too large."""


class RereadBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a batch's records in advance of the decision."""

    newest_ms: int
    config: LogConfig
    read_at_ms: int
    verdict: AppendRejection | int | None
    recoded: Recoded | None
    """The recompressed batch, if the topic's codec differs."""

    def is_valid(self, config: LogConfig, now_ms: int) -> bool:
        """Whether the result is still valid: same config, and recent."""
        return self.config is config and now_ms - self.read_at_ms <= REREAD_HOLDS_MS


def reread(
    header: BatchHeader,
    batch: ReceivedBatch,
    newest_ms: int,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    now_ms: int,
    log_start_offset: int,
    payload: Payload | None = None,
) -> RereadBatch | None:
    """Read the records if the topic requires it: to check keys and timestamps, or to recompress
    them. It does not depend on a log's state, so it may run beside the loop. Return None if nothing
    has to be read. ``payload`` has the records, if they were already decompressed.
    """
    verdict = None
    if needs_examination(header, newest_ms, config=config, now_ms=now_ms):
        verdict = examine_records(
            header,
            batch,
            topic_partition=topic_partition,
            config=config,
            now_ms=now_ms,
            log_start_offset=log_start_offset,
            payload=payload,
        )
    recoded_bytes = None
    if needs_recoding(header, config) and not isinstance(verdict, AppendRejection):
        recoded_bytes = recode_batch(batch, header, config, payload)
    if verdict is None and recoded_bytes is None:
        return None
    return RereadBatch(
        newest_ms=newest_ms,
        config=config,
        read_at_ms=now_ms,
        verdict=verdict,
        recoded=recoded_bytes,
    )


def needs_recoding(header: BatchHeader, config: LogConfig) -> bool:
    """Whether the topic's codec differs from the batch's."""
    return config.codec is not None and config.codec != header.compression


def is_heavy_to_check(headers: Iterable[BatchHeader]) -> bool:
    """Whether checking the records takes long: there are many, or many headers, or they are
    compressed.
    """
    record_total = bytes_total = 0
    for header in headers:
        if header.attributes & BatchHeader.COMPRESSION:
            return True
        record_total += header.records_count
        bytes_total += header.batch_length
    return record_total > WALK_PIECES or bytes_total > WALK_BYTES


def newest_timestamp(header: BatchHeader, batch: ReceivedBatch) -> AppendRejection | int:
    """The newest timestamp of the records, or why the batch can't contain the records that its
    header states.
    """
    if not header.attributes & BatchHeader.COMPRESSION:
        try:
            delta_ms = newest_delta_ms(batch, BatchHeader.SIZE, header.records_count)
        except CorruptBatchError as error:
            return _invalid_batch(str(error), UNKNOWN_OFFSET, "batch.inner-count")
        if delta_ms is None:
            return _wrong_record_count(header)
        return header.base_timestamp_ms + delta_ms
    return run_steps(newest_in_steps(header, batch))


def newest_in_steps(header: BatchHeader, batch: ReceivedBatch) -> Steps[AppendRejection | int]:
    """Like ``newest_timestamp``, in steps; it does not depend on a log's state."""
    try:
        record_bytes = yield from payload_in_steps(header, batch, UNPACKED_BYTES_MAX)
    except MissingExtraError:
        # Batches of a codec that is not installed count as sound.
        return header.max_timestamp_ms
    except UnpacksTooLargeError as error:
        return _too_large(str(error))
    except CorruptBatchError:
        return AppendRejection(
            error=ErrorCode.unknown_server_error,
            reason=f"the records of the batch can't be unpacked with codec {header.compression}",
            rule="batch.codec",
        )
    try:
        walk_result = yield from _walk_bounded(header, record_bytes)
    except CorruptBatchError as error:
        return _invalid_batch(str(error), UNKNOWN_OFFSET, "batch.inner-count")
    if isinstance(walk_result, AppendRejection):
        return walk_result
    if walk_result is None or walk_result.position != len(record_bytes):
        return _wrong_record_count(header)
    return header.base_timestamp_ms + walk_result.newest_delta


def _walk_bounded(
    header: BatchHeader, record_bytes: Payload
) -> Steps[WalkProgress | AppendRejection | None]:
    """Walk over the records: of a compressed batch no more than ``UNPACKED_RECORDS_MAX``."""
    if header.compression != NONE and header.records_count > UNPACKED_RECORDS_MAX:
        return _too_large(
            f"{header.records_count} records in a compressed batch, at most "
            f"{UNPACKED_RECORDS_MAX} are unpacked"
        )
    walked_count = 0
    walk_steps = walk_in_steps(record_bytes, 0, header.records_count)
    while True:
        try:
            record_count = next(walk_steps)
        except StopIteration as end:
            walk_result: WalkProgress | None = end.value
            return walk_result
        walked_count += record_count
        if walked_count > UNPACKED_RECORDS_MAX and header.compression != NONE:
            return _too_large(
                f"more than {UNPACKED_RECORDS_MAX} records and headers in a compressed batch"
            )
        yield record_count * _RECORD_NS


def needs_examination(
    header: BatchHeader, newest_ms: int, *, config: LogConfig, now_ms: int
) -> bool:
    """Whether header and newest timestamp are not enough to know that every record may be
    written.
    """
    if config.is_compacted or header.attributes & BatchHeader.LOG_APPEND_TIME:
        return True
    if config.timestamp_type is not _CREATE_TIME:
        return False
    return (
        config.timestamp_before_max_ms != NEVER_MS
        or newest_ms > min(now_ms + config.timestamp_after_max_ms, NEVER_MS)
        or header.base_timestamp_ms > newest_ms
        or header.base_timestamp_ms < NO_TIMESTAMP
    )


def recode_batch(
    batch: ReceivedBatch, header: BatchHeader, config: LogConfig, payload: Payload | None = None
) -> Recoded:
    """The batch recompressed with its topic's codec (``compression.type``), after its records were
    checked; unchanged if a codec's library is not installed.
    """
    assert config.codec is not None
    recoded_bytes: ReceivedBatch | int = batch
    with suppress(MissingExtraError):
        recoded_bytes = recoded_batch(
            header,
            payload_of(batch, header) if payload is None else payload,
            codec=config.codec,
            level=config.codec_level,
            size_max=min(config.max_message_bytes, config.segment_bytes),
        )
    size_bytes = recoded_bytes if isinstance(recoded_bytes, int) else len(recoded_bytes)
    rejection = check_size(size_bytes, config, rule="batch.recompressed-too-large")
    if rejection is not None:
        return rejection
    assert not isinstance(recoded_bytes, int)
    return bytes(recoded_bytes)


def examine_records(
    header: BatchHeader,
    batch: ReceivedBatch,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    now_ms: int,
    log_start_offset: int,
    payload: Payload | None = None,
) -> AppendRejection | int:
    """Check each record, after ``newest_timestamp`` has checked that it can be read. ``payload``
    has the records, if they were already decompressed.

    Returns:
        The true maximum of the timestamps, which the stored batch must carry; or why the batch is
        refused.
    """
    try:
        if payload is None:
            payload = payload_of(batch, header)
    except MissingExtraError:
        return _judge_undecompressed(
            header, config=config, now_ms=now_ms, log_start_offset=log_start_offset
        )
    no_key_text = f"{_NO_KEY_TEXT} {topic_partition}"

    def tell(record_refusal: RecordRefusal) -> str:
        if config.is_compacted and record_refusal.key_size < 0:
            return no_key_text
        return _timestamp_text(record_refusal, header, config=config, now_ms=now_ms)

    errors = RecordErrors(tell)
    lacks_key = is_timestamp_error = False
    timestamp_max = NO_TIMESTAMP
    for index, record in enumerate(scan_records(payload, header.records_count)):
        timestamp = header.max_timestamp_ms
        if not header.is_log_append_time:
            timestamp = header.base_timestamp_ms + record.timestamp_delta_ms
        timestamp_max = max(timestamp_max, _as_long(timestamp))
        if config.is_compacted and record.key is None:
            lacks_key = True
        elif _is_wrong_time(timestamp, header, config=config, now_ms=now_ms):
            is_timestamp_error = True
        else:
            continue
        errors.note(
            RecordRefusal(index, _as_long(timestamp), _key_size(record.key), record.value_size)
        )
    if errors:
        rule = "batch.key-required"
        if is_timestamp_error:
            rule = "batch.worst-record" if lacks_key else _timestamp_rule(header, config)
        return _records_refused(
            errors, log_start_offset, is_timestamp_error=is_timestamp_error, rule=rule
        )
    return timestamp_max


def _as_long(timestamp: int) -> int:
    """A sum as Java computes it, with overflow of a long."""
    return (timestamp + (1 << 63)) % (1 << 64) - (1 << 63)


def _key_size(record_key: bytes | None) -> int:
    return -1 if record_key is None else len(record_key)


def _is_wrong_time(timestamp: int, header: BatchHeader, *, config: LogConfig, now_ms: int) -> bool:
    """Whether a record is refused for its timestamp (LogValidator.validateTimestamp)."""
    if config.timestamp_type is _CREATE_TIME and timestamp != NO_TIMESTAMP:
        oldest_ms = now_ms - config.timestamp_before_max_ms
        newest_ms = now_ms + config.timestamp_after_max_ms
        return not oldest_ms <= timestamp <= newest_ms
    return header.is_log_append_time


def _timestamp_text(
    record_refusal: RecordRefusal, header: BatchHeader, *, config: LogConfig, now_ms: int
) -> str:
    """Kafka's text for a refused timestamp."""
    if config.timestamp_type is _CREATE_TIME and record_refusal.timestamp != NO_TIMESTAMP:
        oldest_ms = now_ms - config.timestamp_before_max_ms
        newest_ms = now_ms + config.timestamp_after_max_ms
        return (
            f"Timestamp {record_refusal.timestamp} of message with offset "
            f"{record_refusal.position} is out of range. The timestamp should be within "
            f"[{oldest_ms}, {newest_ms}]"
        )
    return _WRONG_TIMESTAMP_TYPE_TEXT.format(record=_describe_record(record_refusal, header))


def _describe_record(record_refusal: RecordRefusal, header: BatchHeader) -> str:
    """A record as Kafka prints it. For compressed records Kafka reads only the sizes, and shows
    null values as the wire has them.
    """
    class_name, null_size = (
        ("DefaultRecord", 0) if header.compression == NONE else ("PartialDefaultRecord", -1)
    )
    return (
        f"{class_name}(offset={record_refusal.position}, timestamp={record_refusal.timestamp}, "
        f"key={max(null_size, record_refusal.key_size)} bytes, "
        f"value={max(null_size, record_refusal.value_size)} bytes)"
    )


def _judge_undecompressed(
    header: BatchHeader, *, config: LogConfig, now_ms: int, log_start_offset: int
) -> AppendRejection | int:
    """Judge a batch that can't be decompressed: the header's two timestamps stand for all
    records.
    """
    for timestamp in (header.base_timestamp_ms, header.max_timestamp_ms):
        if _is_wrong_time(timestamp, header, config=config, now_ms=now_ms):
            return AppendRejection(
                error=ErrorCode.invalid_timestamp,
                reason=_timestamp_text(
                    RecordRefusal(0, timestamp, -1, -1), header, config=config, now_ms=now_ms
                ),
                log_start_offset=log_start_offset,
                rule=_timestamp_rule(header, config),
            )
    return header.max_timestamp_ms


def _records_refused(
    errors: RecordErrors, log_start_offset: int, *, is_timestamp_error: bool, rule: str
) -> AppendRejection:
    """The rejection of the whole batch for any refused record (LogValidator.processRecordErrors,
    KIP-467).
    """
    if is_timestamp_error:
        error = ErrorCode.invalid_timestamp
        reason = "One or more records have been rejected due to invalid timestamp"
    else:
        error = ErrorCode.invalid_record
        shown_errors = ", ".join(
            f"RecordError(batchIndex={index}, message='{message_text}')"
            for index, message_text in errors[:3]
        )
        reason = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown_errors}]"
        )
    return AppendRejection(
        error=error,
        reason=reason,
        log_start_offset=log_start_offset,
        record_errors=errors,
        rule=rule,
    )


def _timestamp_rule(header: BatchHeader, config: LogConfig) -> str:
    checks_window = config.timestamp_type is _CREATE_TIME and not header.is_log_append_time
    return "batch.timestamp-window" if checks_window else "batch.timestamp-type"


def _wrong_record_count(header: BatchHeader) -> AppendRejection:
    return _invalid_batch(
        f"the records of the batch are not the {header.records_count} that its header states",
        UNKNOWN_OFFSET,
        "batch.inner-count",
    )


def _too_large(reason: str) -> AppendRejection:
    return AppendRejection(error=ErrorCode.message_too_large, reason=reason, rule="batch.too-large")


def _invalid_batch(reason: str, log_start_offset: int, rule: str) -> AppendRejection:
    return AppendRejection(
        error=ErrorCode.invalid_record, reason=reason, log_start_offset=log_start_offset, rule=rule
    )


class SoundBatch(msgspec.Struct, frozen=True, gc=False):
    """A client's batch that may be written, apart from checks of its producer."""

    batch: ReceivedBatch
    """The original batch, or the recompressed one if the topic's codec requires it."""
    header: BatchHeader
    max_timestamp: int


def sound_batch(
    batch: ReceivedBatch,
    header: BatchHeader | None,
    timestamp_check: AppendRejection | RereadBatch | int | None,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    log_start_offset: int,
    now_ms: int,
) -> SoundBatch | AppendRejection:
    """Judge a client's batch apart from its producer (LogValidator,
    UnifiedLog.analyzeAndValidateRecords).
    """
    if header is None:
        try:
            header = read_batch_header(batch, 0)
        except CorruptBatchError as error:
            return AppendRejection(error=ErrorCode.corrupt_message, reason=str(error))
    size_bytes = header.batch_length + BatchHeader.OVERHEAD
    if len(batch) != size_bytes:
        batch = batch[:size_bytes]
    rejection = check_envelope(header, batch, config=config, log_start_offset=log_start_offset)
    if rejection is not None:
        return rejection
    valid_reread: RereadBatch | None = None
    if timestamp_check is None:
        timestamp_check = newest_timestamp(header, batch)
    elif isinstance(timestamp_check, RereadBatch):
        valid_reread, timestamp_check = (
            timestamp_check if timestamp_check.is_valid(config, now_ms) else None,
            timestamp_check.newest_ms,
        )
    if not isinstance(timestamp_check, int):
        return _with_log_start(timestamp_check, log_start_offset)
    if needs_examination(header, timestamp_check, config=config, now_ms=now_ms):
        # Header and newest timestamp don't say enough: each record is asked.
        if valid_reread is not None and valid_reread.verdict is not None:
            timestamp_check = valid_reread.verdict
        else:
            timestamp_check = examine_records(
                header,
                batch,
                topic_partition=topic_partition,
                config=config,
                now_ms=now_ms,
                log_start_offset=log_start_offset,
            )
        if not isinstance(timestamp_check, int):
            return timestamp_check
    if config.codec is not None and needs_recoding(header, config):
        recoded_bytes = None if valid_reread is None else valid_reread.recoded
        recoded_bytes = (
            recode_batch(batch, header, config) if recoded_bytes is None else recoded_bytes
        )
        if isinstance(recoded_bytes, AppendRejection):
            return recoded_bytes
        return SoundBatch(recoded_bytes, read_batch_header(recoded_bytes, 0), timestamp_check)
    rejection = check_size(size_bytes, config) if size_bytes > config.segment_bytes else None
    return SoundBatch(batch, header, timestamp_check) if rejection is None else rejection


def _with_log_start(rejection: AppendRejection, log_start_offset: int) -> AppendRejection:
    """The rejection with the current log start offset, if its error carries one."""
    if rejection.error is ErrorCode.message_too_large:
        return rejection
    return msgspec.structs.replace(rejection, log_start_offset=log_start_offset)


# Why records are refused


class RecordRefusal(NamedTuple):
    """Where a refused record stands, and what its error message tells of it."""

    position: int
    """Index in the batch."""
    timestamp: int
    key_size: int
    """Size in bytes; -1 for null."""
    value_size: int


class RecordErrors(Sequence[tuple[int, str]]):
    """(index in the batch, message) of each refused record (KIP-467).

    A batch may contain hundreds of thousands of bad records, and an answer names each of them. So
    only numbers are stored for each, 20 bytes, and its message is built when accessed.
    """

    __slots__ = ("_describe", "_indexes", "_key_sizes", "_timestamps", "_value_sizes")

    def __init__(self, describe: Callable[[RecordRefusal], str]) -> None:
        self._describe = describe
        self._indexes = array("i")
        self._timestamps = array("q")
        self._key_sizes = array("i")
        self._value_sizes = array("i")

    def note(self, record_refusal: RecordRefusal) -> None:
        self._indexes.append(record_refusal.position)
        self._timestamps.append(record_refusal.timestamp)
        self._key_sizes.append(record_refusal.key_size)
        self._value_sizes.append(record_refusal.value_size)

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        describe = self._describe
        for record_refusal in map(
            RecordRefusal, self._indexes, self._timestamps, self._key_sizes, self._value_sizes
        ):
            yield record_refusal.position, describe(record_refusal)

    @overload
    def __getitem__(self, index: int) -> tuple[int, str]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[int, str], ...]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, str] | tuple[tuple[int, str], ...]:
        if isinstance(index, slice):
            return tuple(self[position] for position in range(*index.indices(len(self))))
        record_refusal = RecordRefusal(
            self._indexes[index],
            self._timestamps[index],
            self._key_sizes[index],
            self._value_sizes[index],
        )
        return record_refusal.position, self._describe(record_refusal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((len(self), self[:1]))
