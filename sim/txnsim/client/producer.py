"""A producer: plain, idempotent or transactional, in the old transaction flow and in transactions
v2.

``send`` never waits: it returns a future per record, and a task per partition groups queued records
into batches and delivers them one after the other. ``reactions`` decides what to do about an error,
``session`` what a transaction does next. This module connects the two with the cluster.

Kafka's counterparts are ``KafkaProducer``, ``RecordAccumulator``, ``Sender`` and
``TransactionManager``; different from there, at most one batch per partition is in flight, so that
no retry can overtake another batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from txnsim.client import requests
from txnsim.client._coordinator_requests import CoordinatorRequests
from txnsim.client.backoff import Backoff, Deadline
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import (
    AbortableError,
    ClientError,
    FatalError,
    IllegalUseError,
    NotSupportedError,
    RequestTimeoutError,
    RetriableError,
    only_row,
)
from txnsim.client.reactions import UNSAID, Reaction, RequestKind, react
from txnsim.client.session import (
    SessionState,
    TxnProtocol,
    TxnSession,
    identity_in,
    unexpected_error,
)
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import ANY
from txnsim.errors import ErrorCode
from txnsim.types import PRODUCER_EPOCH_MAX, ProducerEpoch, ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch

BATCH_RECORDS_MAX: Final = 1_000
"""Records per batch; with ``batch_bytes`` a bound on what one request carries."""


_UNSAID: Final = UNSAID | {ErrorCode.network_exception}
"""Errors after which the batch may have been written."""


class RecordMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The partition and offset of a written record; ``offset`` is -1 with acks=0."""

    partition: TopicPartition
    offset: int


class _OutgoingRecord(msgspec.Struct, eq=False):
    """A record waiting for its batch to be acknowledged."""

    record: Record
    deadline: Deadline
    future: asyncio.Future[RecordMetadata]


class _Lane(msgspec.Struct, eq=False):
    """The queue of one partition: its unsent records, and the task that sends them."""

    queue: deque[_OutgoingRecord] = msgspec.field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Producer:
    """One producer on a cluster; several may share it.

    Use it as an asynchronous context manager, or ``close`` it. The transactional life is Java's:
    ``init_transactions`` once, then ``begin``, ``send``…, ``commit`` or ``abort``. Errors say what
    is possible next: ``AbortableError``, ``FatalError``, or ``RetriableError`` if it only took too
    long.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        idempotent: bool = True,
        acks: int = -1,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int | None = None,
        batch_bytes: int = 16_384,
    ) -> None:
        """Configure a producer; nothing is sent yet.

        Args:
            cluster: Connections to use.
            transactional_id: Makes the producer transactional.
            transaction_timeout_ms: transaction.timeout.ms, sent to the coordinator.
            idempotent: enable.idempotence; a transactional producer always is.
            acks: -1, 0 or 1; 0 and 1 only without idempotence.
            delivery_timeout_ms: delivery.timeout.ms: how long a record may take from ``send`` on,
                retries included.
            request_timeout_ms: request.timeout.ms of Produce; the cluster's unless given.
            batch_bytes: batch.size, roughly.

        Raises:
            IllegalUseError: The options contradict each other.
        """
        self._is_idempotent = idempotent or transactional_id is not None
        if self._is_idempotent and acks != -1:
            raise IllegalUseError(f"acks={acks}: an idempotent producer needs acks=-1")
        self.transactional_id = transactional_id
        self.session = TxnSession()
        """State and identity; read it, don't change it."""
        self._cluster = cluster
        self._acks = acks
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_timeout_ms = (
            request_timeout_ms
            if request_timeout_ms is not None
            else cluster.settings.request_timeout_ms
        )
        self._batch_bytes = batch_bytes
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._coordinator_requests = CoordinatorRequests(
            cluster, self.session, transactional_id or "", transaction_timeout_ms
        )
        self._identity_lock = asyncio.Lock()
        self._is_aborting = False
        self._fatal_error: ClientError | None = None

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The current producer id and epoch; (-1, -1) before there is one."""
        return self.session.identity

    @property
    def is_initialized(self) -> bool:
        """``init_transactions`` has been called, or a producer id was assigned."""
        return self.session.state is not SessionState.UNINITIALIZED

    @property
    def protocol(self) -> TxnProtocol:
        """The transaction protocol of the current or next transaction."""
        return self.session.protocol

    # Transactions

    async def init_transactions(self) -> ProducerIdAndEpoch:
        """Get an identity and fence every older producer of the same transactional id.

        Raises:
            FatalError: Refused, and a retry can't help.
            AbortableError: Not allowed (now).
            RetriableError: Not achieved in time; call it again.
            IllegalUseError: Not transactional, or called before.
        """
        self._need_transactional()
        self.session.raise_error()
        if self.session.state is not SessionState.UNINITIALIZED:
            raise IllegalUseError("init_transactions may be called once")
        with self._cluster.trace.trace_call("init-transactions", id=self.transactional_id):
            await self._coordinator_requests.init_producer_id(ProducerIdAndEpoch.NONE)
        return self.session.identity

    def begin(self) -> None:
        """Begin a transaction. No broker learns of it before the first record.

        Raises:
            AbortableError: The last transaction was not aborted yet.
            FatalError: The producer is finished.
            IllegalUseError: Not initialized, or a transaction is open.
        """
        self._need_transactional()
        self.session.begin()

    async def commit(self) -> None:
        """Deliver the records that were sent, then commit.

        Raises:
            AbortableError: A record could not be delivered, or the coordinator asks for an abort.
            FatalError: The producer is finished.
            RetriableError: The outcome is unknown; call it again.
            IllegalUseError: No transaction is open.
        """
        self._need_transactional()
        with self._cluster.trace.trace_call("commit", id=self.transactional_id):
            await self.flush()
            await self._coordinator_requests.end(committed=True)

    async def abort(self) -> None:
        """Drop unsent records, wait for those in flight, then abort.

        Raises:
            FatalError: The producer is finished.
            RetriableError: The outcome is unknown; call it again.
            IllegalUseError: No transaction is open.
        """
        self._need_transactional()
        with self._cluster.trace.trace_call("abort", id=self.transactional_id):
            self._is_aborting = True
            try:
                self._drop_queued(AbortableError("the transaction is being aborted"))
                await self.flush()
            finally:
                self._is_aborting = False
            await self._coordinator_requests.end(committed=False)

    def _need_transactional(self) -> None:
        if self.transactional_id is None:
            raise IllegalUseError("this producer has no transactional id")

    # Records

    def send(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        delivery_timeout_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record and return at once.

        Args:
            topic: The topic to write to.
            partition: The partition; this producer does not choose one.
            value: None is a tombstone.
            key: Key of the record.
            timestamp_ms: Timestamp of the record; the cluster clock's now unless given.
            headers: Headers of the record.
            delivery_timeout_ms: Instead of the producer's.

        Returns:
            A future of the record's partition and offset. It fails with AbortableError, FatalError
                or
            RetriableError.

        Raises:
            AbortableError: The transaction can only be aborted.
            FatalError: The producer is finished.
            IllegalUseError: Transactional, but no transaction is open.
        """
        topic_partition = TopicPartition(topic, partition)
        if self._fatal_error is not None:
            raise self._fatal_error
        if self.transactional_id is not None and self.session.touch(topic_partition):
            self._coordinator_requests.want(topic_partition)
        clock = self._cluster.clock
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        # The failure reaches the caller through commit, even if it does not look at this future.
        future.add_done_callback(lambda delivery: delivery.cancelled() or delivery.exception())
        outgoing_record = _OutgoingRecord(
            Record(
                timestamp_ms=clock.now_ms() if timestamp_ms is None else timestamp_ms,
                key=key,
                value=value,
                headers=tuple(headers),
            ),
            Deadline(
                clock,
                self._delivery_timeout_ms if delivery_timeout_ms is None else delivery_timeout_ms,
            ),
            future,
        )
        lane = self._lanes.get(topic_partition)
        if lane is None:
            lane = self._lanes[topic_partition] = _Lane()
        lane.queue.append(outgoing_record)
        if lane.task is None:
            with self._cluster.trace.trace_call("send", tp=str(topic_partition)):
                lane.task = self._cluster.tasks.spawn(
                    self._run_lane(topic_partition, lane), name=f"produce to {topic_partition}"
                )
        return future

    async def flush(self) -> None:
        """Return once every record sent so far is acknowledged or has failed."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop at once; records that are not acknowledged yet fail. An open transaction is left to
        its timeout."""
        self._drop_queued(IllegalUseError("the producer was closed"))
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop_queued(self, failure: ClientError) -> None:
        for lane in self._lanes.values():
            while lane.queue:
                _fail_record(lane.queue.popleft(), failure)

    # Delivery

    async def _run_lane(self, topic_partition: TopicPartition, lane: _Lane) -> None:
        outgoing_records: list[_OutgoingRecord] = []
        try:
            while lane.queue:
                outgoing_records = self._take_batch(lane.queue)
                try:
                    base_offset = await self._deliver(topic_partition, outgoing_records)
                except ClientError as error:
                    for outgoing_record in outgoing_records:
                        _fail_record(outgoing_record, error)
                else:
                    for index, outgoing_record in enumerate(outgoing_records):
                        offset = base_offset + index if base_offset >= 0 else -1
                        if not outgoing_record.future.done():
                            outgoing_record.future.set_result(
                                RecordMetadata(partition=topic_partition, offset=offset)
                            )
        finally:
            lane.task = None
            # Left over only where the task was cancelled, or failed by a bug that its owner logs.
            for outgoing_record in (*outgoing_records, *lane.queue):
                _fail_record(outgoing_record, IllegalUseError("the producer was closed"))

    def _take_batch(self, queue: deque[_OutgoingRecord]) -> list[_OutgoingRecord]:
        outgoing_records = [queue.popleft()]
        batch_bytes = _size(outgoing_records[0].record)
        while queue and len(outgoing_records) < BATCH_RECORDS_MAX:
            batch_bytes += _size(queue[0].record)
            if batch_bytes > self._batch_bytes:
                break
            outgoing_records.append(queue.popleft())
        return outgoing_records

    async def _deliver(
        self, topic_partition: TopicPartition, outgoing_records: list[_OutgoingRecord]
    ) -> int:
        """Send one batch until it is acknowledged or given up; returns its first offset."""
        deadline = min(
            (outgoing_record.deadline for outgoing_record in outgoing_records),
            key=lambda deadline: deadline.left_ms,
        )
        operation = (
            RequestKind.PRODUCE_TRANSACTIONAL if self.transactional_id else RequestKind.PRODUCE
        )
        if self.transactional_id is not None:
            self.session.raise_error()
            if not self.session.has(topic_partition):
                await self._coordinator_requests.add_partition(
                    topic_partition, lambda: self._is_aborting, deadline
                )
        elif self._is_idempotent and self.session.identity == ProducerIdAndEpoch.NONE:
            await self._get_identity(deadline)
        records = [outgoing_record.record for outgoing_record in outgoing_records]
        batch_data = self._encode(topic_partition, records)
        backoff = self._cluster.backoff()
        is_unsure = False
        try:
            while True:
                try:
                    error, offset = await self._attempt(topic_partition, batch_data, deadline)
                except LOST_ANSWER_ERRORS as lost:
                    # A leader that does not answer may have lost its role (NetworkException is an
                    # InvalidMetadataException, and a time-out closes the connection).
                    self._cluster.forget_leader(topic_partition.topic)
                    error, offset = ErrorCode.network_exception, -1
                    if isinstance(lost, RequestTimeoutError):
                        error = ErrorCode.request_timed_out
                except NotSupportedError as unsupported:
                    raise self._fail_session(unsupported) from None
                except RetriableError as nowhere:
                    raise self._given_up(nowhere) from None
                is_unsure |= error in _UNSAID
                match react(operation, error):
                    case Reaction.DONE:
                        return offset
                    case Reaction.RETRY:
                        pass
                    case Reaction.LOOK_UP:
                        self._cluster.forget_leader(topic_partition.topic)
                    case Reaction.RESTART:
                        batch_data = await self._restart(topic_partition, records, deadline)
                    case Reaction.GIVE_UP:
                        raise self._fail_session(
                            unexpected_error(f"Produce to {topic_partition}", error)
                        )
                    case _:
                        raise self._given_up(
                            unexpected_error(f"Produce to {topic_partition}", error)
                        )
                await self._pause(topic_partition, error, backoff, deadline)
        except ClientError as error:
            error.in_doubt |= is_unsure
            raise

    async def _pause(
        self,
        topic_partition: TopicPartition,
        error: ErrorCode,
        backoff: Backoff,
        deadline: Deadline,
    ) -> None:
        """Wait before the next attempt; raise after the deadline or on an abort."""
        is_late = deadline.has_passed
        if is_late or self._is_aborting:
            reason = (
                f"after {deadline.timeout_ms:.0f} ms"
                if is_late
                else "as the transaction is aborted"
            )
            raise self._given_up(
                RetriableError(
                    f"Produce to {topic_partition} given up {reason}: {error.name.upper()}",
                    error=error,
                )
            )
        await backoff.wait(deadline)

    async def _attempt(
        self, topic_partition: TopicPartition, batch_data: bytes, deadline: Deadline
    ) -> tuple[ErrorCode, int]:
        """One Produce request; returns error and first offset.

        Raises:
            RetriableError: The partition has had no leader until the deadline.
            ConnectionLostError: The request may or may not have taken effect.
            RequestTimeoutError: The same.
            NotSupportedError: The broker lacks the version that the transaction protocol needs.
        """
        leader = await self._cluster.leader(topic_partition, deadline=deadline, create=True)
        topic = self._cluster.view.topic(topic_partition.topic)
        timeout_ms = max(1.0, min(self._request_timeout_ms, deadline.left_ms))
        request = requests.produce(
            {topic_partition: batch_data},
            id_by_topic={topic_partition.topic: topic.topic_id if topic is not None else None},
            transactional_id=self.transactional_id,
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            request_timeout_ms=timeout_ms,
            accepted_versions=self.session.protocol.produce_versions
            if self.transactional_id
            else ANY,
        )
        message = await self._cluster.ask(leader.leader_id, request)
        if message is None:
            return ErrorCode.none, -1
        topic_row = only_row(message.responses, f"about {topic_partition}")
        partition_row = only_row(topic_row.partition_responses, f"about {topic_partition}")
        return ErrorCode(partition_row.error_code), partition_row.base_offset

    def _encode(self, topic_partition: TopicPartition, records: Sequence[Record]) -> bytes:
        identity = self.session.identity
        sequence = (
            self.session.next_sequence(topic_partition, len(records)) if self._is_idempotent else -1
        )
        return build_batch(
            records,
            timestamp_ms=self._cluster.clock.now_ms(),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )

    def _given_up(self, error: ClientError) -> ClientError:
        """The error of a lost batch; it makes the transaction abortable, or the later sequences
        unusable.
        """
        if self.transactional_id is not None:
            return self.session.enter_abortable_error(error)
        if self._is_idempotent:
            self._bump_locally()
        return error

    def _fail_session(self, error: ClientError) -> ClientError:
        if self.transactional_id is not None:
            return self.session.enter_fatal_error(error)
        self._fatal_error = FatalError(str(error), error=error.error)
        return self._fatal_error

    # Identity of an idempotent producer

    async def _get_identity(self, deadline: Deadline) -> None:
        """InitProducerId without a transactional id, which any broker answers."""
        async with self._identity_lock:
            backoff = self._cluster.backoff()
            while self.session.identity == ProducerIdAndEpoch.NONE:
                # The timeout is ignored without a transactional id; Java sends the largest.
                request = TxnRequests(None).init(timeout_ms=2_147_483_647)
                message = await self._cluster.ask_any(request, deadline)
                error = ErrorCode(message.error_code)
                if error == ErrorCode.none:
                    self.session.note_end(identity_in(message))
                    return
                if not error.retriable:
                    raise self._fail_session(unexpected_error("InitProducerId", error))
                if deadline.has_passed:
                    raise RetriableError(f"InitProducerId: {error.name.upper()}", error=error)
                await backoff.wait(deadline)

    def _bump_locally(self) -> None:
        """Start the next epoch with all sequences at 0, which an idempotent producer may do by
        itself (KIP-360).
        """
        identity = self.session.identity
        if identity == ProducerIdAndEpoch.NONE:
            return
        if identity.producer_epoch >= PRODUCER_EPOCH_MAX:
            self.session.note_end(ProducerIdAndEpoch.NONE)
            return
        self.session.note_end(
            ProducerIdAndEpoch(
                producer_id=identity.producer_id,
                producer_epoch=ProducerEpoch(identity.producer_epoch + 1),
            )
        )

    async def _restart(
        self, topic_partition: TopicPartition, records: Sequence[Record], deadline: Deadline
    ) -> bytes:
        """The same records under a bumped epoch, from sequence 0."""
        self._bump_locally()
        if self.session.identity == ProducerIdAndEpoch.NONE:
            await self._get_identity(deadline)
        return self._encode(topic_partition, records)


def _size(record: Record) -> int:
    """Approximate size of a record in bytes; enough to decide where a batch ends."""
    return 24 + len(record.key or b"") + len(record.value or b"")


def _fail_record(outgoing_record: _OutgoingRecord, error: ClientError) -> None:
    if not outgoing_record.future.done():
        outgoing_record.future.set_exception(error)
