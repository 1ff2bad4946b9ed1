"""Records what the actors of a story see, as the history that judges read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Final, TypedDict

import msgspec

from txnsim.client.errors import code_name
from txnsim.client.fetching import FetchResult
from txnsim.client.inspection.txn_views import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from txnsim.client.members.share import ShareAnswers
from txnsim.client.reactions import UNSAID
from txnsim.client.tracing import ClientTrace
from txnsim.runtime.environment import Clock
from txnsim.runtime.trace import Tracer
from txnsim.types import INTERNAL_TOPICS, IsolationLevel, ProducerIdAndEpoch, TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Aborted,
    AcknowledgeType,
    AcquiredRecord,
    Added,
    Began,
    Cleaned,
    Deleted,
    Described,
    Ended,
    Gauge,
    Healed,
    Initialised,
    Isolation,
    Listed,
    Listing,
    NamedHanging,
    Outcome,
    Position,
    PositionsRead,
    Producers,
    ProducerSeen,
    Read,
    Record,
    Searched,
    Seen,
    SentOffsets,
    ShareAcknowledged,
    ShareFetched,
    ShareLeft,
    Wrote,
)
from txnsim_lab.scenario.call_results import NONE, CallResult

_asked_ms: Final[ContextVar[int | None]] = ContextVar("txnsim_asked_ms", default=None)
"""Start time of the present call."""


class SentBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Records that a producer sent in one batch."""

    partition: TopicPartition
    values: tuple[str | None, ...]
    """Values of the records; None for a tombstone."""
    key: bytes | None = None
    item: str | None = None
    """Unit of work that the records stand for; None: each value is a unit of its own."""
    of: tuple[Position, ...] = ()
    """The inputs whose output the records are."""
    identity: ProducerIdAndEpoch | None = None
    sequence: int | None = None
    asked_ms: int | None = None
    """Time of sending; None: the time of the noted call."""


class _ObserverFields(TypedDict):
    """What each observation says of its observer: who, when, and when it had asked."""

    at_ms: int
    who: str
    asked_ms: int | None


class _PartitionFields(TypedDict):
    """Fields of an observation about one partition."""

    topic: str
    partition: int


class _AnswerFields(TypedDict):
    """Fields of an observation of an answer."""

    outcome: Outcome
    error: str


class _IdentityFields(TypedDict):
    """Fields of an observation of a producer's request; None if it had no identity."""

    producer_id: int | None
    producer_epoch: int | None


class Recorder:
    """Records the history of one run."""

    def __init__(self, clock: Clock, tracer: Tracer | None = None) -> None:
        self.history = History()
        self._clock = clock
        self._tracer = tracer

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Observations that are noted inside this context were asked for at its beginning, not
        before.
        """
        context_token = _asked_ms.set(self._clock.now_ms())
        try:
            yield
        finally:
            _asked_ms.reset(context_token)

    def _add_observation(self, observation: Seen) -> None:
        """Add an observation, with the number of the event that caused it."""
        if self._tracer is not None and self._tracer.on:
            call = ClientTrace.current_call()
            event = self._tracer.cause if call is None else max(call.event, call.answer_event)
            if event >= 0:
                observation = msgspec.structs.replace(observation, event=event)
        self.history.add(observation)

    def _observer_fields(self, observer_name: str, asked_ms: int | None = None) -> _ObserverFields:
        """Fields of an observer's observation now; ``asked_ms`` is by default that of the noted
        call.
        """
        return {
            "at_ms": self._clock.now_ms(),
            "who": observer_name,
            "asked_ms": _asked_ms.get() if asked_ms is None else asked_ms,
        }

    # Producers

    def note_init(
        self,
        observer_name: str,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        answer: CallResult,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Note the answer to InitProducerId."""
        has_identity = answer.error == NONE
        self._add_observation(
            Initialised(
                **self._observer_fields(observer_name),
                transactional_id=transactional_id,
                producer_id=identity.producer_id if has_identity else -1,
                producer_epoch=identity.producer_epoch if has_identity else -1,
                timeout_ms=timeout_ms,
                **_answer_fields(answer),
            )
        )

    def note_begin(self, observer_name: str, transactional_id: str, transaction: str) -> None:
        """Notes that a program began a transaction."""
        self._add_observation(
            Began(
                **self._observer_fields(observer_name),
                transaction=transaction,
                transactional_id=transactional_id,
            )
        )

    def note_partitions_added(
        self,
        observer_name: str,
        transaction: str | None,
        partitions: tuple[TopicPartition, ...],
        answer: CallResult,
        identity: ProducerIdAndEpoch,
    ) -> None:
        """Note the answer to AddPartitionsToTxn or AddOffsetsToTxn."""
        if transaction is not None:
            self._add_observation(
                Added(
                    **self._observer_fields(observer_name),
                    transaction=transaction,
                    partitions=partitions,
                    **_answer_fields(answer),
                    **_identity_fields(identity),
                )
            )

    def note_write(
        self, observer_name: str, transaction: str | None, batch: SentBatch, answer: CallResult
    ) -> None:
        """Note the records of a batch that was answered or given up."""
        for record_index, value in enumerate(batch.values):
            self._add_observation(
                Wrote(
                    **self._observer_fields(observer_name, batch.asked_ms),
                    **_partition_fields(batch.partition),
                    transaction=transaction,
                    value=value,
                    key=decode_value(batch.key),
                    item=value if batch.item is None else batch.item,
                    of=batch.of,
                    **_answer_fields(answer),
                    offset=answer.offset + record_index if answer.offset >= 0 else -1,
                    **_identity_fields(batch.identity),
                    sequence=None if batch.sequence is None else batch.sequence + record_index,
                )
            )

    def note_sent_offsets(
        self,
        observer_name: str,
        transaction: str | None,
        group: str,
        offsets: Mapping[TopicPartition, int],
        answer: CallResult,
        identity: ProducerIdAndEpoch | None,
        *,
        member: str | None = None,
    ) -> None:
        """Notes that TxnOffsetCommit was answered or given up; or OffsetCommit, which has no
        identity.
        """
        for partition, position in offsets.items():
            self._add_observation(
                SentOffsets(
                    **self._observer_fields(observer_name),
                    **_partition_fields(partition),
                    transaction=transaction,
                    group=group,
                    position=position,
                    **_answer_fields(answer),
                    **_identity_fields(identity),
                    member=member,
                )
            )

    def note_end(
        self,
        observer_name: str,
        transaction: str | None,
        answer: CallResult,
        *,
        is_commit: bool,
        asked_ms: int | None = None,
        sent_identity: ProducerIdAndEpoch | None = None,
        next_identity: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Notes that EndTxn was answered or given up."""
        if transaction is None:
            return
        self._add_observation(
            Ended(
                **self._observer_fields(observer_name, asked_ms),
                transaction=transaction,
                commit=is_commit,
                **_answer_fields(answer),
                **_identity_fields(sent_identity),
                next_producer_id=None if next_identity is None else next_identity.producer_id,
                next_producer_epoch=None if next_identity is None else next_identity.producer_epoch,
            )
        )

    # Readers

    def note_fetch(
        self,
        observer_name: str,
        fetch_offset: int,
        isolation: IsolationLevel,
        fetch_result: FetchResult,
        *,
        transaction: str | None = None,
    ) -> None:
        """Note the answer to a Fetch; ``transaction`` names the transaction that read it."""
        has_failed = fetch_result.error.name.upper() != NONE
        # What coordinators write into their logs is no record of anybody's.
        records = () if fetch_result.partition.topic in INTERNAL_TOPICS else fetch_result.records
        self._add_observation(
            Read(
                **self._observer_fields(observer_name),
                **_partition_fields(fetch_result.partition),
                transaction=transaction,
                isolation=Isolation[isolation.name],
                asked=fetch_offset,
                records=tuple(
                    Record(
                        offset=record.offset,
                        value=decode_value(record.value),
                        key=decode_value(record.key),
                    )
                    for record in records
                ),
                next_offset=fetch_result.next_offset,
                last_stable_offset=fetch_result.last_stable_offset,
                high_watermark=fetch_result.high_watermark,
                log_start_offset=fetch_result.log_start_offset,
                leader_epoch=fetch_result.leader_epoch if fetch_result.leader_epoch >= 0 else None,
                follower=fetch_result.follower_id if fetch_result.follower_id >= 0 else None,
                error=fetch_result.error.name.upper() if has_failed else "",
            )
        )

    def note_positions(
        self,
        observer_name: str,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        error: str = "",
    ) -> None:
        """Note the answer to OffsetFetch."""
        positions = tuple(
            Position(topic=partition.topic, partition=partition.partition, offset=offset)
            for partition, offset in offsets.items()
        )
        self._add_observation(
            PositionsRead(
                **self._observer_fields(observer_name),
                group=group,
                positions=positions,
                error=error,
            )
        )

    # Share groups

    def note_share_answers(
        self,
        observer_name: str,
        group: str,
        poll_result: ShareAnswers,
        *,
        isolation: Isolation,
        delivery_limit: int | None,
    ) -> None:
        """Note the leaders' answers to a member: to its acknowledgements, and the records that it
        acquired.
        """
        for acknowledged_range in poll_result.acknowledged_ranges:
            error = "" if not acknowledged_range.error else code_name(acknowledged_range.error)
            outcome = CallResult(
                error=error or NONE, is_in_doubt=acknowledged_range.error in UNSAID
            ).outcome
            self._add_observation(
                ShareAcknowledged(
                    **self._observer_fields(observer_name),
                    **_partition_fields(acknowledged_range.topic_partition),
                    group=group,
                    first=acknowledged_range.first_offset,
                    last=acknowledged_range.last_offset,
                    type=AcknowledgeType[acknowledged_range.type.name],
                    outcome=outcome,
                    error=error,
                )
            )
        for acquired_records in poll_result.acquired:
            records = tuple(
                AcquiredRecord(
                    offset=record.offset,
                    value=decode_value(record.value),
                    key=decode_value(record.key),
                    delivery_count=delivery_count,
                )
                for record, delivery_count in acquired_records.records
            )
            self._add_observation(
                ShareFetched(
                    **self._observer_fields(observer_name),
                    **_partition_fields(acquired_records.topic_partition),
                    group=group,
                    isolation=isolation,
                    records=records,
                    lock_ms=acquired_records.lock_ms if acquired_records.lock_ms >= 0 else None,
                    delivery_limit=delivery_limit,
                    leader_epoch=acquired_records.leader_epoch
                    if acquired_records.leader_epoch >= 0
                    else None,
                    outcome=Outcome.UNKNOWN if acquired_records.is_lost else Outcome.OK,
                    error=code_name(acquired_records.error) if acquired_records.error else "",
                )
            )

    def note_share_leave(self, observer_name: str, group: str) -> None:
        """Notes that a member gave up its acquired records."""
        self._add_observation(ShareLeft(**self._observer_fields(observer_name), group=group))

    # Operators

    def note_description(self, observer_name: str, description: TransactionDescription) -> None:
        """Note the answer to DescribeTransactions."""
        self._add_observation(
            Described(
                **self._observer_fields(observer_name),
                transactional_id=description.transactional_id,
                state=description.state,
                producer_id=description.producer_id,
                producer_epoch=description.producer_epoch,
                timeout_ms=description.timeout_ms,
                start_ms=description.start_time_ms,
                partitions=description.partitions,
            )
        )

    def note_listing(self, observer_name: str, transactions: Sequence[TransactionListing]) -> None:
        """Note the answers of all brokers to ListTransactions."""
        listings = tuple(
            Listing(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                state=transaction.state,
            )
            for transaction in transactions
        )
        self._add_observation(Listed(**self._observer_fields(observer_name), transactions=listings))

    def note_producers(
        self, observer_name: str, partition: TopicPartition, states: Sequence[ProducerState]
    ) -> None:
        """Note the answer to DescribeProducers."""
        producers = tuple(
            ProducerSeen(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                start_offset=state.txn_start_offset,
                last_timestamp_ms=state.last_timestamp_ms,
            )
            for state in states
        )
        self._add_observation(
            Producers(
                **self._observer_fields(observer_name),
                **_partition_fields(partition),
                producers=producers,
            )
        )

    def note_search(self, observer_name: str, findings: Sequence[NamedHanging]) -> None:
        """Note the transactions that find-hanging has named."""
        self._add_observation(
            Searched(**self._observer_fields(observer_name), findings=tuple(findings))
        )

    def note_operator_abort(
        self,
        observer_name: str,
        partition: TopicPartition,
        answer: CallResult,
        *,
        producer_id: int,
        start_offset: int,
    ) -> None:
        """Note the answer to an operator's abort."""
        self._add_observation(
            Aborted(
                **self._observer_fields(observer_name),
                **_partition_fields(partition),
                producer_id=producer_id,
                start_offset=start_offset,
                **_answer_fields(answer),
            )
        )

    def note_cleaning(self, observer_name: str, partition: TopicPartition) -> None:
        """Notes that the log cleaner has run."""
        self._add_observation(
            Cleaned(**self._observer_fields(observer_name), **_partition_fields(partition))
        )

    def note_topic_deletion(self, observer_name: str, topic: str, *, asked_ms: int) -> None:
        """Notes that a topic was deleted."""
        self._add_observation(
            Deleted(at_ms=self._clock.now_ms(), who=observer_name, topic=topic, asked_ms=asked_ms)
        )

    def note_healing(self, observer_name: str) -> None:
        """Notes that the faults of the story have ended."""
        self._add_observation(Healed(**self._observer_fields(observer_name)))

    def note_gauge(self, observer_name: str, name: str, value: float) -> None:
        """Note the value of a metric."""
        self._add_observation(Gauge(**self._observer_fields(observer_name), name=name, value=value))


def _partition_fields(partition: TopicPartition) -> _PartitionFields:
    return {"topic": partition.topic, "partition": partition.partition}


def _answer_fields(answer: CallResult) -> _AnswerFields:
    return {"outcome": answer.outcome, "error": "" if answer.error == NONE else answer.error}


def _identity_fields(identity: ProducerIdAndEpoch | None) -> _IdentityFields:
    if identity is None:
        return {"producer_id": None, "producer_epoch": None}
    return {"producer_id": identity.producer_id, "producer_epoch": identity.producer_epoch}


def values_text(values: Iterable[str | None]) -> str:
    """Values of records, in words."""
    return ", ".join("null" if value is None else value for value in values) or "nothing"


def encode_value(value: str | None) -> bytes | None:
    """Bytes of a record's value; None for a tombstone."""
    return None if value is None else value.encode()


def decode_value(value: bytes | None) -> str | None:
    """Text of a record's key or value, whatever its bytes are."""
    return None if value is None else value.decode(errors="backslashreplace")
