"""Writes down what the actors of a story see, as the history that judges read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from txnsim.client.errors import code_name
from txnsim.client.fetching import FetchResult
from txnsim.client.inspection.txn_views import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from txnsim.client.members.share import Shared
from txnsim.client.reactions import UNSAID
from txnsim.client.tracing import ClientTrace
from txnsim.runtime.env import Clock
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
from txnsim_lab.scenario.answers import NONE, CallResult

_asked_ms: Final[ContextVar[int | None]] = ContextVar("txnsim_asked_ms", default=None)
"""Since when the present call is under way."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were sent together, as their producer knows them."""

    partition: TopicPartition
    values: tuple[str | None, ...]
    """None for a tombstone."""
    key: bytes | None = None
    item: str | None = None
    """Unit of work; None: each value is its own."""
    of: tuple[Position, ...] = ()
    """The inputs whose output they are."""
    identity: ProducerIdAndEpoch | None = None
    sequence: int | None = None
    asked_ms: int | None = None
    """Time of sending; None: that of the noted call."""


class Recorder:
    """The history of one run, while it is being written."""

    def __init__(self, clock: Clock, tracer: Tracer | None = None) -> None:
        self.history = History()
        self._clock = clock
        self._tracer = tracer

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """What is noted inside was not asked for before now."""
        token = _asked_ms.set(self._clock.now_ms())
        try:
            yield
        finally:
            _asked_ms.reset(token)

    def _add(
        self,
        kind: Callable[..., Seen],
        who: str,
        *,
        place: TopicPartition | None = None,
        answer: CallResult | None = None,
        identity: ProducerIdAndEpoch | None = None,
        **fields: Any,
    ) -> None:
        """Note an observation, with the number of the event that it was learnt from."""
        if place is not None:
            fields |= {"topic": place.topic, "partition": place.partition}
        if answer is not None:
            fields |= {"outcome": answer.outcome, "error": _error(answer)}
        if identity is not None:
            fields |= {
                "producer_id": identity.producer_id,
                "producer_epoch": identity.producer_epoch,
            }
        asked_ms = fields.pop("asked_ms", None)
        fields["asked_ms"] = _asked_ms.get() if asked_ms is None else asked_ms
        seen = kind(at_ms=self._clock.now_ms(), who=who, **fields)
        if self._tracer is not None and self._tracer.on:
            call = ClientTrace.current_call()
            event = self._tracer.cause if call is None else max(call.event, call.answered)
            if event >= 0:
                seen = msgspec.structs.replace(seen, event=event)
        self.history.add(seen)

    # Producers

    def initialised(
        self,
        who: str,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        answer: CallResult,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """InitProducerId was answered."""
        self._add(
            Initialised,
            who,
            transactional_id=transactional_id,
            identity=identity if answer.error == NONE else None,
            timeout_ms=timeout_ms,
            answer=answer,
        )

    def began(self, who: str, transactional_id: str, transaction: str) -> None:
        """A program began a transaction."""
        self._add(Began, who, transaction=transaction, transactional_id=transactional_id)

    def added(
        self,
        who: str,
        transaction: str | None,
        partitions: tuple[TopicPartition, ...],
        answer: CallResult,
        identity: ProducerIdAndEpoch,
    ) -> None:
        """AddPartitionsToTxn or AddOffsetsToTxn was answered."""
        if transaction is not None:
            self._add(
                Added,
                who,
                transaction=transaction,
                partitions=partitions,
                answer=answer,
                identity=identity,
            )

    def wrote(self, who: str, transaction: str | None, batch: Batch, answer: CallResult) -> None:
        """Note the records of a batch that was answered or given up."""
        for index, value in enumerate(batch.values):
            self._add(
                Wrote,
                who,
                place=batch.partition,
                transaction=transaction,
                value=value,
                key=decoded(batch.key),
                item=value if batch.item is None else batch.item,
                of=batch.of,
                asked_ms=batch.asked_ms,
                answer=answer,
                offset=answer.offset + index if answer.offset >= 0 else -1,
                identity=batch.identity,
                sequence=None if batch.sequence is None else batch.sequence + index,
            )

    def sent_offsets(
        self,
        who: str,
        transaction: str | None,
        group: str,
        offsets: Mapping[TopicPartition, int],
        answer: CallResult,
        identity: ProducerIdAndEpoch | None,
        *,
        member: str | None = None,
    ) -> None:
        """TxnOffsetCommit was answered, or given up; or OffsetCommit, which has no identity."""
        for place, position in offsets.items():
            self._add(
                SentOffsets,
                who,
                place=place,
                transaction=transaction,
                group=group,
                position=position,
                answer=answer,
                identity=identity,
                member=member,
            )

    def ended(
        self,
        who: str,
        transaction: str | None,
        answer: CallResult,
        *,
        committed: bool,
        asked_ms: int | None = None,
        sent: ProducerIdAndEpoch | None = None,
        following: ProducerIdAndEpoch | None = None,
    ) -> None:
        """EndTxn was answered, or given up."""
        if transaction is None:
            return
        self._add(
            Ended,
            who,
            transaction=transaction,
            commit=committed,
            answer=answer,
            asked_ms=asked_ms,
            identity=sent,
            next_producer_id=None if following is None else following.producer_id,
            next_producer_epoch=None if following is None else following.producer_epoch,
        )

    # Readers

    def read(
        self,
        who: str,
        asked: int,
        isolation: IsolationLevel,
        result: FetchResult,
        *,
        transaction: str | None = None,
    ) -> None:
        """A Fetch was answered; ``transaction`` is the one as a part of which it was read."""
        failed = result.error.name.upper() != NONE
        # What coordinators write into their logs is no record of anybody's.
        records = () if result.partition.topic in INTERNAL_TOPICS else result.records
        self._add(
            Read,
            who,
            place=result.partition,
            transaction=transaction,
            isolation=Isolation[isolation.name],
            asked=asked,
            records=tuple(
                Record(offset=one.offset, value=decoded(one.value), key=decoded(one.key))
                for one in records
            ),
            next_offset=result.next_offset,
            last_stable_offset=result.last_stable_offset,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            leader_epoch=result.leader_epoch if result.leader_epoch >= 0 else None,
            error=result.error.name.upper() if failed else "",
        )

    def positions(
        self, who: str, group: str, found: Mapping[TopicPartition, int], *, error: str = ""
    ) -> None:
        """OffsetFetch was answered."""
        positions = tuple(
            Position(topic=place.topic, partition=place.partition, offset=offset)
            for place, offset in found.items()
        )
        self._add(PositionsRead, who, group=group, positions=positions, error=error)

    # Share groups

    def shared(
        self,
        who: str,
        group: str,
        shared: Shared,
        *,
        isolation: Isolation,
        delivery_limit: int | None,
    ) -> None:
        """Leaders have answered what a member said of records, and given it others."""
        for said in shared.said:
            error = "" if not said.error else code_name(said.error)
            outcome = CallResult(error=error or NONE, in_doubt=said.error in UNSAID).outcome
            self._add(
                ShareAcknowledged,
                who,
                place=said.place,
                group=group,
                first=said.first,
                last=said.last,
                type=AcknowledgeType[said.type.name],
                outcome=outcome,
                error=error,
            )
        for given in shared.acquired:
            records = tuple(
                AcquiredRecord(
                    offset=one.offset,
                    value=decoded(one.value),
                    key=decoded(one.key),
                    delivery_count=count,
                )
                for one, count in given.records
            )
            self._add(
                ShareFetched,
                who,
                place=given.place,
                group=group,
                isolation=isolation,
                records=records,
                lock_ms=given.lock_ms if given.lock_ms >= 0 else None,
                delivery_limit=delivery_limit,
                leader_epoch=given.leader_epoch if given.leader_epoch >= 0 else None,
                outcome=Outcome.UNKNOWN if given.is_lost else Outcome.OK,
                error=code_name(given.error) if given.error else "",
            )

    def share_left(self, who: str, group: str) -> None:
        """A member gave up its records."""
        self._add(ShareLeft, who, group=group)

    # Operators

    def described(self, who: str, found: TransactionDescription) -> None:
        """DescribeTransactions was answered."""
        self._add(
            Described,
            who,
            transactional_id=found.transactional_id,
            state=found.state,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            timeout_ms=found.timeout_ms,
            start_ms=found.start_time_ms,
            partitions=found.partitions,
        )

    def listed(self, who: str, found: Sequence[TransactionListing]) -> None:
        """ListTransactions was answered by every broker."""
        listings = tuple(
            Listing(
                transactional_id=one.transactional_id, producer_id=one.producer_id, state=one.state
            )
            for one in found
        )
        self._add(Listed, who, transactions=listings)

    def producers(self, who: str, place: TopicPartition, found: Sequence[ProducerState]) -> None:
        """DescribeProducers was answered."""
        producers = tuple(
            ProducerSeen(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                start_offset=one.txn_start_offset,
                last_timestamp_ms=one.last_timestamp_ms,
            )
            for one in found
        )
        self._add(Producers, who, place=place, producers=producers)

    def searched(self, who: str, found: Sequence[NamedHanging]) -> None:
        """find-hanging has named these."""
        self._add(Searched, who, findings=tuple(found))

    def aborted(
        self, who: str, place: TopicPartition, answer: CallResult, *, producer_id: int, start: int
    ) -> None:
        """An operator's abort was answered."""
        self._add(
            Aborted, who, place=place, producer_id=producer_id, start_offset=start, answer=answer
        )

    def cleaned(self, who: str, place: TopicPartition) -> None:
        """The cleaner has had its turn."""
        self._add(Cleaned, who, place=place)

    def deleted(self, who: str, topic: str, *, asked_ms: int) -> None:
        """A topic was deleted."""
        self._add(Deleted, who, topic=topic, asked_ms=asked_ms)

    def healed(self, who: str) -> None:
        """The faults that the story made are over."""
        self._add(Healed, who)

    def gauge(self, who: str, name: str, value: float) -> None:
        """A metric was read."""
        self._add(Gauge, who, name=name, value=value)


def _error(answer: CallResult) -> str:
    return "" if answer.error == NONE else answer.error


def shown(values: Iterable[str | None]) -> str:
    """Values of records, in words."""
    return ", ".join("null" if value is None else value for value in values) or "nothing"


def encoded(value: str | None) -> bytes | None:
    """The value of a record; none of a tombstone."""
    return None if value is None else value.encode()


def decoded(value: bytes | None) -> str | None:
    """A key or value of a record, whatever its bytes are."""
    return None if value is None else value.decode(errors="backslashreplace")
