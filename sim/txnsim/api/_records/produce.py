"""Produce (key 0): append a batch to each partition.

Versions: 3 magic 2 and transactional ids, 5 the log start offset in the answer, 7 zstd, 8 record
errors, 9 flexible, 10 names the current leader (KIP-951), 11 knows TRANSACTION_ABORTABLE, 12 adds
partitions to the transaction implicitly (KIP-890), 13 topic ids. Advertised from 0 because
librdkafka refuses to run otherwise (KAFKA-18659); 0 to 2 close the connection. Kafka's counterpart:
KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from txnsim.api._leaders import CurrentLeaders
from txnsim.api.request import UNPACED_MAX, ByteGap, NoResponse, Reply, Request, answer, prepared
from txnsim.broker.produce import ProduceCommand, ProduceOutcome, ProducePartition
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import CorruptBatchError, ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.types import TopicPartition, TransactionalId
from txnsim.wire import codec
from txnsim.wire.batch_header import BatchHeader, Came, read_batch_header
from txnsim.wire.codec import build
from txnsim.wire.registry import versions
from txnsim.wire.values import LazyRows

KEY: Final = 0

DEVIATIONS: Final = (
    "Of a Produce with more than one batch for a partition, which is refused, 10,000 of these"
    " batches are searched for a transactional one, which is refused with another error.",
)

FURTHER_BATCHES_MAX: Final = 10_000
ZSTD: Final = 4
LOG_START_OFFSET_FROM: Final = 5
ZSTD_FROM: Final = 7
RECORD_ERRORS_FROM: Final = 8
CURRENT_LEADER_FROM: Final = 10
TOPIC_IDS_FROM: Final = 13
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The one client that may write to internal topics (AdminUtils.ADMIN_CLIENT_ID)."""

_LENGTH_MIN: Final = 14
"""Least length that a record of the oldest format has (LegacyRecord.RECORD_OVERHEAD_V0)."""
_FLAGS_POSITION: Final = 22
"""Position of the lower byte of a batch's attributes."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

Outcomes = list[tuple[Any, int, ProduceOutcome]]
"""(topic name or id, partition, outcome)."""


OPERATIONS: Final = {
    version: TransactionOperation.ADD_PARTITION
    if version >= 12
    else TransactionOperation.GENERIC_ERROR_SUPPORTED
    if version == 11
    else TransactionOperation.DEFAULT_ERROR
    for version in versions(KEY)
}
"""What each version of Produce supports (KIP-890)."""


async def handle(
    request: Request,
    *,
    operation: TransactionOperation | None = None,
    client_outcome: Callable[[ProduceOutcome], ProduceOutcome] | None = None,
) -> Reply:
    """Append the batches; ``acks`` says when to answer.

    Args:
        request: The request.
        operation: What this version supports (KIP-890); by default as Kafka ships it.
        client_outcome: Maps a partition's outcome to the one that the client sees.
    """
    message = request.message
    results: Outcomes = []
    # Of a partition that is named twice the last batch counts, as in Kafka's map.
    parts: dict[TopicPartition, ProducePartition] = {}
    keys: dict[TopicPartition, Any] = {}
    has_transactional = False
    for topic in message.topic_data:
        key, name = _topic(request, topic)
        for data in topic.partition_data:
            if data.records is None:
                return NoResponse.NEVER
            part = _part(request, name, data)
            if isinstance(part, ProduceOutcome):
                results.append((key, data.index, part))
            else:
                parts[part.topic_partition] = part
                keys[part.topic_partition] = key
                if part.header.attributes & BatchHeader.TRANSACTIONAL:
                    has_transactional = True
            if request.pace is not None and request.pace.has_done(1):
                await request.pace.yield_turn()
    if message.transactional_id is None and (
        has_transactional or (results and carries_transactions(message))
    ):
        return refuse(request, ErrorCode.transactional_id_authorization_failed)
    if parts:
        outcomes = await request.broker.producing.produce(
            ProduceCommand(
                transactional_id=None
                if message.transactional_id is None
                else TransactionalId(message.transactional_id),
                acks=message.acks,
                timeout_ms=message.timeout // _MILLISECOND,
                operation=operation or OPERATIONS[request.api_version],
                partitions=tuple(parts.values()),
                internal_topics_allowed=request.client_id == ADMIN_CLIENT_ID,
            ),
            request.pace,
        )
        for partition, outcome in outcomes.items():
            results.append((keys[partition], partition.partition, outcome))
    if client_outcome is not None:
        results = [(key, index, client_outcome(outcome)) for key, index, outcome in results]
    if message.acks == 0:
        # No client waits for an answer: closing the connection is the only way to report an error.
        failed = any(outcome.error for _, _, outcome in results)
        return NoResponse.CLOSE if failed else NoResponse.NONE
    pace = request.pace_of(len(results)) if len(results) > UNPACED_MAX else None
    if pace is None:
        return _answer(request, results)
    return await pace.run(_answer_in_steps(request, results))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    if request.message.acks == 0:
        return NoResponse.CLOSE
    outcome = ProduceOutcome(error=error)
    return _answer(
        request,
        [
            (_key(topic), data.index, outcome)
            for topic in request.message.topic_data
            for data in topic.partition_data
        ],
    )


def subject(request: Request) -> Subject:
    """The transactional id, the first batch's producer and the partitions."""
    producer_id = None
    partitions: list[TopicPartition] = []
    for topic in request.message.topic_data:
        _, name = _topic(request, topic)
        for data in topic.partition_data:
            partitions.append(TopicPartition(name or "", data.index))
            if producer_id is None and data.records:
                header = _header(data.records)
                if isinstance(header, BatchHeader):
                    producer_id = header.producer_id
    return Subject(
        transactional_id=request.message.transactional_id,
        producer_id=producer_id,
        partitions=tuple(partitions),
    )


# Reading


def _key(topic: Any) -> Any:
    return topic.topic_id if hasattr(topic, "topic_id") else topic.name


def _topic(request: Request, topic: Any) -> tuple[Any, str | None]:
    """(name or id of the topic in the answer, its name if it is known)."""
    if request.api_version < TOPIC_IDS_FROM:
        return topic.name, topic.name
    return topic.topic_id, request.broker.replicas.image.topic_names.get(topic.topic_id)


def _part(request: Request, name: str | None, data: Any) -> ProducePartition | ProduceOutcome:
    """The batch of a partition, or the error that keeps it from the log; checks are in the order of
    KafkaApis.
    """
    if name is None:
        return ProduceOutcome(error=ErrorCode.unknown_topic_id)
    topic_partition = TopicPartition(name, data.index)
    if request.broker.replicas.image.partition(topic_partition) is None:
        return ProduceOutcome(error=ErrorCode.unknown_topic_or_partition)
    header = _header(data.records)
    if isinstance(header, ProduceOutcome):
        return header
    if header.attributes & BatchHeader.COMPRESSION == ZSTD and request.api_version < ZSTD_FROM:
        return ProduceOutcome(error=ErrorCode.unsupported_compression_type)
    size = header.batch_length + BatchHeader.OVERHEAD
    batch = data.records if len(data.records) == size else data.records[:size]
    return ProducePartition(topic_partition=topic_partition, batch=batch, header=header)


def _header(records: Came) -> BatchHeader | ProduceOutcome:
    """The header of the only batch in a partition's records, or an error
    (ProduceRequest.validateRecords).
    """
    size = _next_batch_size(records, 0)
    if isinstance(size, ProduceOutcome):
        return size
    if size is None or records[BatchHeader.MAGIC_POSITION] != BatchHeader.MAGIC:
        # A batch cut short counts as no batch at all.
        return ProduceOutcome(error=ErrorCode.invalid_record)
    if len(records) > size:
        # Bytes that make no further batch are cut off before the append.
        second = _next_batch_size(records, size)
        if second is not None:
            return (
                second
                if isinstance(second, ProduceOutcome)
                else ProduceOutcome(error=ErrorCode.invalid_record)
            )
    try:
        return read_batch_header(records, 0)
    except CorruptBatchError:
        # Too short for a header: the append would find that out, and says no more than this.
        return ProduceOutcome(error=ErrorCode.corrupt_message)


def carries_transactions(message: Any) -> bool:
    """Whether any batch is transactional, including batches for unknown partitions
    (RequestUtils.hasTransactionalRecords).

    A partition may have one batch, and more are refused later; so only a bounded number is checked.
    """
    further_batches = FURTHER_BATCHES_MAX
    for topic in message.topic_data:
        for data in topic.partition_data:
            records, position = data.records, 0
            if records is None:
                continue
            while isinstance(size := _next_batch_size(records, position), int):
                is_new = records[position + BatchHeader.MAGIC_POSITION] == BatchHeader.MAGIC
                if is_new and records[position + _FLAGS_POSITION] & BatchHeader.TRANSACTIONAL:
                    return True
                position += size
                further_batches -= 1 if position < len(records) else 0
                if further_batches < 0:
                    break
    return False


def _next_batch_size(records: Came, position: int) -> int | ProduceOutcome | None:
    """The size of the batch at ``position``; None if the bytes end before the batch does
    (ByteBufferLogInputStream.nextBatch).
    """
    remaining = len(records) - position
    if remaining < BatchHeader.OVERHEAD:
        return None
    length = int.from_bytes(
        records[position + 8 : position + BatchHeader.OVERHEAD], "big", signed=True
    )
    if length < _LENGTH_MIN:
        return _corrupt(
            f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        )
    if remaining <= BatchHeader.MAGIC_POSITION:
        return None
    magic = records[position + BatchHeader.MAGIC_POSITION]
    if magic > BatchHeader.MAGIC:
        signed = magic - 256 if magic > 127 else magic
        return _corrupt(f"Invalid magic found in record: {signed}")
    size = length + BatchHeader.OVERHEAD
    return None if remaining < size else size


def _corrupt(message: str) -> ProduceOutcome:
    return ProduceOutcome(error=ErrorCode.corrupt_message, message=message)


# Answering


def _answer(request: Request, results: Outcomes) -> Reply:
    if len(results) == 1:
        key, index, outcome = results[0]
        if outcome.error is ErrorCode.none and outcome.log_append_time_ms < 0:
            offsets = (outcome.base_offset, -1, outcome.log_start_offset)
            if request.api_version >= LOG_START_OFFSET_FROM:
                return _answer_template(request.api_version, key, index).fill(*offsets)
            return _answer_template(request.api_version, key, index).fill(*offsets[:2])
    return codec.run_to_end(_answer_in_steps(request, results))


def _answer_in_steps(request: Request, results: Outcomes) -> Generator[int, None, Reply]:
    """Build the answer; yields after each partition for a break."""
    schema = request.schema
    by_key: dict[Any, list[Any]] = {}
    leaders = CurrentLeaders(request)
    for key, index, outcome in results:
        values: dict[str, object] = {}
        if (
            outcome.error is ErrorCode.not_leader_or_follower
            and request.api_version >= CURRENT_LEADER_FROM
        ):
            values["current_leader"] = leaders.leader_of(key, index)
        by_key.setdefault(key, []).append(_partition(request, index, outcome, values))
        yield 1
    return request.answer(
        responses=tuple(
            schema.TopicProduceResponse(
                **{"topic_id" if request.api_version >= TOPIC_IDS_FROM else "name": key},
                partition_responses=tuple(partitions),
            )
            for key, partitions in by_key.items()
        ),
        node_endpoints=leaders.endpoints(),
    )


def _partition(
    request: Request, index: int, outcome: ProduceOutcome, values: dict[str, object]
) -> Any:
    schema = request.schema
    errors: LazyRows | tuple[Any, ...] = ()
    if outcome.record_errors and request.api_version >= RECORD_ERRORS_FROM:
        make = codec.builder(schema.BatchIndexAndErrorMessage)
        errors = LazyRows(
            lambda error: make(batch_index=error[0], batch_index_error_message=error[1]),
            outcome.record_errors,
        )
        if request.pace_of(len(errors)) is None:
            errors = tuple(errors)
    time_ms = outcome.log_append_time_ms
    return build(
        schema.PartitionProduceResponse,
        index=index,
        error_code=outcome.error,
        base_offset=outcome.base_offset,
        log_append_time=None if time_ms < 0 else _EPOCH + timedelta(milliseconds=time_ms),
        log_start_offset=outcome.log_start_offset,
        record_errors=errors,
        error_message=outcome.message,
        **values,
    )


@prepared
def _answer_template(api_version: int, key: Any, index: int) -> ByteGap:
    """The encoded answer for one successfully appended batch, with gaps for its offsets."""
    schema = codec.response_schema(KEY, api_version)

    def make(offsets: tuple[int, ...]) -> Any:
        part = build(
            schema.PartitionProduceResponse,
            index=index,
            error_code=ErrorCode.none,
            base_offset=offsets[0],
            log_append_time=offsets[1],
            log_start_offset=offsets[-1],
            record_errors=(),
        )
        key_field = "topic_id" if api_version >= TOPIC_IDS_FROM else "name"
        topic = schema.TopicProduceResponse(**{key_field: key}, partition_responses=(part,))
        return answer(KEY, api_version, responses=(topic,))

    return ByteGap("qqq" if api_version >= LOG_START_OFFSET_FROM else "qq", make)
