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
from txnsim.wire.batch_header import BatchHeader, ReceivedBatch, read_batch_header
from txnsim.wire.codec import build
from txnsim.wire.registry import versions
from txnsim.wire.values import LazyRows

API_KEY: Final = 0

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
_PRODUCER_ID_END: Final = 51
"""Position behind the producer id of a batch."""
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
    for version in versions(API_KEY)
}
"""What each version of Produce supports (KIP-890)."""


async def handle(
    request: Request,
    *,
    operation: TransactionOperation | None = None,
    outcome_for_client: Callable[[ProduceOutcome], ProduceOutcome] | None = None,
) -> Reply:
    """Append the batches; ``acks`` says when to answer.

    Args:
        request: The request.
        operation: What this version supports (KIP-890); by default as Kafka ships it.
        outcome_for_client: Maps a partition's outcome to the one that the client sees.
    """
    message = request.message
    topic_outcomes: Outcomes = []
    # Of a partition that is named twice the last batch counts, as in Kafka's map.
    partitions_to_append: dict[TopicPartition, ProducePartition] = {}
    topic_keys: dict[TopicPartition, Any] = {}
    has_transactional = ends_request = False
    for topic in message.topic_data:
        topic_key, topic_name = _topic_key_and_name(request, topic)
        for partition_data in topic.partition_data:
            if partition_data.records is None:
                return NoResponse.NEVER
            partition_or_error = _read_partition(request, topic_name, partition_data)
            if isinstance(partition_or_error, ProduceOutcome):
                topic_outcomes.append((topic_key, partition_data.index, partition_or_error))
                ends_request |= partition_or_error.error is ErrorCode.unknown_server_error
            else:
                partitions_to_append[partition_or_error.topic_partition] = partition_or_error
                topic_keys[partition_or_error.topic_partition] = topic_key
                if partition_or_error.header.attributes & BatchHeader.TRANSACTIONAL:
                    has_transactional = True
            if request.pace is not None and request.pace.has_done(1):
                await request.pace.yield_turn()
    if message.transactional_id is None and (
        has_transactional or (topic_outcomes and carries_transactions(message))
    ):
        return refuse(request, ErrorCode.transactional_id_authorization_failed)
    if ends_request:  # by an exception (ReplicaManager.handleProduceAppend)
        return refuse(request, ErrorCode.unknown_server_error)
    if partitions_to_append:
        outcome_by_partition = await request.broker.producing.produce(
            ProduceCommand(
                transactional_id=None
                if message.transactional_id is None
                else TransactionalId(message.transactional_id),
                acks=message.acks,
                timeout_ms=message.timeout // _MILLISECOND,
                operation=operation or OPERATIONS[request.api_version],
                partitions=tuple(partitions_to_append.values()),
                may_write_internal_topics=request.client_id == ADMIN_CLIENT_ID,
            ),
            request.pace,
        )
        for partition, outcome in outcome_by_partition.items():
            topic_outcomes.append((topic_keys[partition], partition.partition, outcome))
    if outcome_for_client is not None:
        topic_outcomes = [
            (topic_key, index, outcome_for_client(outcome))
            for topic_key, index, outcome in topic_outcomes
        ]
    if message.acks == 0:
        # No client waits for an answer: closing the connection is the only way to report an error.
        has_failed = any(outcome.error for _, _, outcome in topic_outcomes)
        return NoResponse.CLOSE if has_failed else NoResponse.NONE
    pace = request.pace_of(len(topic_outcomes)) if len(topic_outcomes) > UNPACED_MAX else None
    if pace is None:
        return _answer(request, topic_outcomes)
    return await pace.run(_answer_in_steps(request, topic_outcomes))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    if request.message.acks == 0:
        return NoResponse.CLOSE
    outcome = ProduceOutcome(error=error)
    return _answer(
        request,
        [
            (_topic_key(topic), partition_data.index, outcome)
            for topic in request.message.topic_data
            for partition_data in topic.partition_data
        ],
    )


def subject(request: Request) -> Subject:
    """For fault rules: the transactional id, the first batch's producer and the partitions."""
    producer_id = None
    partitions: list[TopicPartition] = []
    for topic in request.message.topic_data:
        _, topic_name = _topic_key_and_name(request, topic)
        for partition_data in topic.partition_data:
            partitions.append(TopicPartition(topic_name or "", partition_data.index))
            if producer_id is None and partition_data.records:
                header = _only_header(partition_data.records)
                if isinstance(header, BatchHeader):
                    producer_id = header.producer_id
    return Subject(
        transactional_id=request.message.transactional_id,
        producer_id=producer_id,
        partitions=tuple(partitions),
    )


# Reading


def _topic_key(topic: Any) -> Any:
    return topic.topic_id if hasattr(topic, "topic_id") else topic.name


def _topic_key_and_name(request: Request, topic: Any) -> tuple[Any, str | None]:
    """(name or id of the topic in the answer, its name if it is known)."""
    if request.api_version < TOPIC_IDS_FROM:
        return topic.name, topic.name
    return topic.topic_id, request.broker.replicas.image.topic_names.get(topic.topic_id)


def _read_partition(
    request: Request, topic_name: str | None, partition_data: Any
) -> ProducePartition | ProduceOutcome:
    """The batch of a partition, or the error that keeps it from the log; checks are in the order of
    KafkaApis.
    """
    if topic_name is None:
        return ProduceOutcome(error=ErrorCode.unknown_topic_id)
    topic_partition = TopicPartition(topic_name, partition_data.index)
    if request.broker.replicas.image.partition(topic_partition) is None:
        return ProduceOutcome(error=ErrorCode.unknown_topic_or_partition)
    header = _only_header(partition_data.records)
    if isinstance(header, ProduceOutcome):
        return header
    if header.attributes & BatchHeader.COMPRESSION == ZSTD and request.api_version < ZSTD_FROM:
        return ProduceOutcome(error=ErrorCode.unsupported_compression_type)
    batch = partition_data.records[: header.batch_length + BatchHeader.OVERHEAD]
    return ProducePartition(topic_partition=topic_partition, batch=batch, header=header)


def _only_header(records: ReceivedBatch) -> BatchHeader | ProduceOutcome:
    """The header of the only batch in a partition's records, or an error
    (ProduceRequest.validateRecords).
    """
    batch_bytes = _next_batch_size(records, 0)
    if isinstance(batch_bytes, ProduceOutcome):
        return batch_bytes
    if batch_bytes is None or records[BatchHeader.MAGIC_POSITION] != BatchHeader.MAGIC:
        # A batch cut short counts as no batch at all.
        return ProduceOutcome(error=ErrorCode.invalid_record)
    if len(records) > batch_bytes:
        # Bytes that make no further batch are cut off before the append.
        second_bytes = _next_batch_size(records, batch_bytes)
        if second_bytes is not None:
            return (
                second_bytes
                if isinstance(second_bytes, ProduceOutcome)
                else ProduceOutcome(error=ErrorCode.invalid_record)
            )
    if batch_bytes < _PRODUCER_ID_END:
        return ProduceOutcome(error=ErrorCode.unknown_server_error)
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
        for partition_data in topic.partition_data:
            records, position = partition_data.records, 0
            if records is None:
                continue
            while isinstance(batch_bytes := _next_batch_size(records, position), int):
                is_new = records[position + BatchHeader.MAGIC_POSITION] == BatchHeader.MAGIC
                if is_new and records[position + _FLAGS_POSITION] & BatchHeader.TRANSACTIONAL:
                    return True
                position += batch_bytes
                further_batches -= 1 if position < len(records) else 0
                if further_batches < 0:
                    break
    return False


def _next_batch_size(records: ReceivedBatch, position: int) -> int | ProduceOutcome | None:
    """The size of the batch at ``position``; None if the bytes end before the batch does
    (ByteBufferLogInputStream.nextBatch).
    """
    remaining_bytes = len(records) - position
    if remaining_bytes < BatchHeader.OVERHEAD:
        return None
    length = int.from_bytes(
        records[position + 8 : position + BatchHeader.OVERHEAD], "big", signed=True
    )
    if length < _LENGTH_MIN:
        return _refuse_corrupt(
            f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        )
    if remaining_bytes <= BatchHeader.MAGIC_POSITION:
        return None
    magic = records[position + BatchHeader.MAGIC_POSITION]
    if magic > BatchHeader.MAGIC:
        signed_magic = magic - 256 if magic > 127 else magic
        return _refuse_corrupt(f"Invalid magic found in record: {signed_magic}")
    batch_bytes = length + BatchHeader.OVERHEAD
    return None if remaining_bytes < batch_bytes else batch_bytes


def _refuse_corrupt(message: str) -> ProduceOutcome:
    return ProduceOutcome(error=ErrorCode.corrupt_message, message=message)


# Answering


def _answer(request: Request, topic_outcomes: Outcomes) -> Reply:
    if len(topic_outcomes) == 1:
        topic_key, partition_index, outcome = topic_outcomes[0]
        if outcome.error is ErrorCode.none and outcome.log_append_time_ms < 0:
            offsets = (outcome.base_offset, -1, outcome.log_start_offset)
            if request.api_version >= LOG_START_OFFSET_FROM:
                return _answer_template(request.api_version, topic_key, partition_index).fill(
                    *offsets
                )
            return _answer_template(request.api_version, topic_key, partition_index).fill(
                *offsets[:2]
            )
    return codec.run_to_end(_answer_in_steps(request, topic_outcomes))


def _answer_in_steps(request: Request, topic_outcomes: Outcomes) -> Generator[int, None, Reply]:
    """Build the answer; yields after each partition for a break."""
    schema = request.schema
    rows_by_topic: dict[Any, list[Any]] = {}
    leaders = CurrentLeaders(request)
    for topic_key, partition_index, outcome in topic_outcomes:
        leader_fields: dict[str, object] = {}
        if (
            outcome.error is ErrorCode.not_leader_or_follower
            and request.api_version >= CURRENT_LEADER_FROM
        ):
            leader_fields["current_leader"] = leaders.leader_of(topic_key, partition_index)
        rows_by_topic.setdefault(topic_key, []).append(
            _partition_row(request, partition_index, outcome, leader_fields)
        )
        yield 1
    return request.answer(
        responses=tuple(
            schema.TopicProduceResponse(
                **{"topic_id" if request.api_version >= TOPIC_IDS_FROM else "name": topic_key},
                partition_responses=tuple(partitions),
            )
            for topic_key, partitions in rows_by_topic.items()
        ),
        node_endpoints=leaders.endpoints(),
    )


def _partition_row(
    request: Request,
    partition_index: int,
    outcome: ProduceOutcome,
    leader_fields: dict[str, object],
) -> Any:
    schema = request.schema
    record_errors: LazyRows | tuple[Any, ...] = ()
    if outcome.record_errors and request.api_version >= RECORD_ERRORS_FROM:
        build_record_error = codec.builder(schema.BatchIndexAndErrorMessage)
        record_errors = LazyRows(
            lambda error: build_record_error(
                batch_index=error[0], batch_index_error_message=error[1]
            ),
            outcome.record_errors,
        )
        if request.pace_of(len(record_errors)) is None:
            record_errors = tuple(record_errors)
    time_ms = outcome.log_append_time_ms
    return build(
        schema.PartitionProduceResponse,
        index=partition_index,
        error_code=outcome.error,
        base_offset=outcome.base_offset,
        log_append_time=None if time_ms < 0 else _EPOCH + timedelta(milliseconds=time_ms),
        log_start_offset=outcome.log_start_offset,
        record_errors=record_errors,
        error_message=outcome.message,
        **leader_fields,
    )


@prepared
def _answer_template(api_version: int, topic_key: Any, partition_index: int) -> ByteGap:
    """The encoded answer for one successfully appended batch, with gaps for its offsets."""
    schema = codec.response_schema(API_KEY, api_version)

    def make(offsets: tuple[int, ...]) -> Any:
        partition_row = build(
            schema.PartitionProduceResponse,
            index=partition_index,
            error_code=ErrorCode.none,
            base_offset=offsets[0],
            log_append_time=offsets[1],
            log_start_offset=offsets[-1],
            record_errors=(),
        )
        key_field = "topic_id" if api_version >= TOPIC_IDS_FROM else "name"
        topic = schema.TopicProduceResponse(
            **{key_field: topic_key}, partition_responses=(partition_row,)
        )
        return answer(API_KEY, api_version, responses=(topic,))

    return ByteGap("qqq" if api_version >= LOG_START_OFFSET_FROM else "qq", make)
