"""Requests of a transactional producer to its coordinator, retried until they are decided.

Kafka's counterpart are the request handlers inside ``TransactionManager``. A request whose answer
is lost is repeated with the same identity: the coordinator recognises a repeated EndTxn, and a
repeated InitProducerId with an expected identity (KIP-360).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from txnsim.client.backoff import Deadline
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import AbortableError, ClientError, NotSupportedError, RetriableError
from txnsim.client.reactions import UNSAID, Reaction, RequestKind, react
from txnsim.client.session import EndPlan, TxnSession, identity_in, unexpected_error
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.types import ProducerIdAndEpoch, TopicPartition

_ENDS: Final = frozenset({RequestKind.COMMIT, RequestKind.ABORT})
ADD_PARTITIONS_RETRY_MS: Final = 20
"""Pause before the first AddPartitionsToTxn of a transaction is repeated, while the previous one
completes (KAFKA-5482)."""


def _error(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


class CoordinatorRequests(msgspec.Struct, eq=False):
    """Sends the coordinator requests of one ``TxnSession``."""

    _cluster: Cluster
    _session: TxnSession
    _transactional_id: str
    _transaction_timeout_ms: int
    _partitions_to_add: dict[TopicPartition, None] = {}
    _adding_lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    async def init_producer_id(self, expected_identity: ProducerIdAndEpoch) -> None:
        """Get an identity; with an expected one, bump its epoch.

        Raises:
            FatalError: Refused, and a retry can't help.
            AbortableError: Not allowed.
            RetriableError: Not achieved in time.
        """
        request = TxnRequests(
            self._transactional_id,
            producer_id=expected_identity.producer_id,
            producer_epoch=expected_identity.producer_epoch,
        ).init(timeout_ms=self._transaction_timeout_ms)
        message = await self._ask_coordinator(RequestKind.INIT_PRODUCER_ID, request)
        self._session.set_identity(
            identity_in(message), self._cluster.features, can_bump=message.__version__ >= 3
        )

    def want(self, partition: TopicPartition) -> None:
        """Queue a partition for the next AddPartitionsToTxn, because a record for it was queued."""
        self._partitions_to_add[partition] = None

    async def add_partition(
        self, partition: TopicPartition, is_given_up: Callable[[], bool], deadline: Deadline
    ) -> None:
        """Add the partition to the transaction (old protocol), with all partitions that wait at
        that time.

        Raises:
            AbortableError: The transaction can't go on, or was given up meanwhile.
            FatalError: The producer is finished.
        """
        async with self._adding_lock:
            if is_given_up():
                self._partitions_to_add.clear()
                raise AbortableError("the transaction is being aborted")
            self._session.raise_error()
            if self._session.has(partition):
                return
            self._partitions_to_add[partition] = None
            unregistered_partitions = frozenset(self._partitions_to_add)
            partitions_to_add = list(self._partitions_to_add)
            self._partitions_to_add.clear()
            identity = self._session.identity
            request = TxnRequests(
                self._transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
            ).add_partitions(partitions=partitions_to_add)
            try:
                await self._ask_coordinator(
                    RequestKind.ADD_PARTITIONS, request, worst_partition_error, deadline
                )
            except RetriableError as error:
                raise self._session.enter_abortable_error(error) from None
            self._session.note_added_partitions(unregistered_partitions)

    async def end(self, *, committed: bool) -> None:
        """Commit or abort, and bump the epoch if the session's plan says so.

        Raises:
            AbortableError: The transaction can only be aborted.
            FatalError: The producer is finished.
            RetriableError: Not achieved in time; the outcome may be unknown.
            IllegalUseError: No transaction is open.
        """
        self._partitions_to_add.clear()
        end_plan = self._session.plan_end(is_commit=committed, features=self._cluster.features)
        identity = await self._end_txn(end_plan) if end_plan.send else None
        if end_plan.bump:
            try:
                await self.init_producer_id(end_plan.identity if identity is None else identity)
            except ClientError as error:
                error.in_doubt = end_plan.send  # it has ended, and only what follows is refused
                raise
        else:
            self._session.note_end(identity)

    async def _end_txn(self, end_plan: EndPlan) -> ProducerIdAndEpoch | None:
        request = TxnRequests(
            self._transactional_id,
            producer_id=end_plan.identity.producer_id,
            producer_epoch=end_plan.identity.producer_epoch,
        ).end(committed=end_plan.committed, accepted_versions=end_plan.versions)
        operation = RequestKind.COMMIT if end_plan.committed else RequestKind.ABORT
        message = await self._ask_coordinator(operation, request)
        if message.__version__ < 5 or message.producer_id < 0:
            return None
        identity = identity_in(message)
        assert identity != ProducerIdAndEpoch.NONE
        return identity

    async def _ask_coordinator(
        self,
        operation: RequestKind,
        request: VersionedRequest,
        error_of: Callable[[Any], ErrorCode] = _error,
        deadline: Deadline | None = None,
    ) -> Any:
        """Ask the coordinator until it decides; returns the successful answer. A refusal of an
        EndTxn leaves the outcome unknown if an earlier attempt may have taken effect.
        INVALID_TXN_STATE does not: the coordinator knows this identity, and its transaction has not
        ended as requested.
        """
        deadline = deadline if deadline is not None else self._cluster.deadline()
        backoff = self._cluster.backoff()
        request_name = request.api.name
        is_unsure = False
        try:
            while True:
                at_most_ms, is_asked = None, False
                try:
                    coordinator = await self._coordinator(deadline)
                    is_asked = True
                    message = await self._cluster.ask(coordinator, request)
                    error = error_of(message)
                except LOST_ANSWER_ERRORS as lost:
                    is_unsure |= is_asked
                    self._cluster.forget_coordinator(self._transactional_id)
                    error, reason = lost.error or ErrorCode.network_exception, str(lost)
                    reaction = Reaction.RETRY
                except NotSupportedError as unsupported:
                    raise self._session.enter_fatal_error(unsupported) from None
                else:
                    reaction, reason = react(operation, error), error.name.upper()
                    is_unsure |= error in UNSAID
                match reaction:
                    case Reaction.DONE:
                        return message
                    case Reaction.RETRY:
                        is_first_add = (
                            operation is RequestKind.ADD_PARTITIONS and self._session.is_empty
                        )
                        if is_first_add and error == ErrorCode.concurrent_transactions:
                            at_most_ms = ADD_PARTITIONS_RETRY_MS
                    case Reaction.LOOK_UP:
                        self._cluster.forget_coordinator(self._transactional_id)
                    case _:
                        raise self._error_to_raise(
                            operation, reaction, unexpected_error(request_name, error)
                        )
                if deadline.has_passed:
                    raise RetriableError(
                        f"{request_name} not achieved within {deadline.timeout_ms:.0f} ms: "
                        f"{reason}",
                        error=error,
                    )
                await backoff.wait(deadline, at_most_ms=at_most_ms)
        except ClientError as error:
            is_refusal = error.error == ErrorCode.invalid_txn_state
            error.in_doubt = operation in _ENDS and is_unsure and not is_refusal
            raise

    async def _coordinator(self, deadline: Deadline) -> int:
        try:
            return await self._cluster.coordinator(self._transactional_id, deadline=deadline)
        except (RetriableError, *LOST_ANSWER_ERRORS):
            raise
        except ClientError as refused:
            error = refused.error or ErrorCode.unknown_server_error
            reaction = react(RequestKind.FIND_COORDINATOR, error)
            raise self._error_to_raise(RequestKind.FIND_COORDINATOR, reaction, refused) from None

    def _error_to_raise(
        self, operation: RequestKind, reaction: Reaction, error: ClientError
    ) -> ClientError:
        is_before_first_transaction = operation in (
            RequestKind.INIT_PRODUCER_ID,
            RequestKind.FIND_COORDINATOR,
        )
        if reaction is Reaction.GIVE_UP:
            return self._session.enter_fatal_error(error)
        if is_before_first_transaction and self._session.identity == ProducerIdAndEpoch.NONE:
            # Nothing is open yet: init_transactions may simply be called again.
            return AbortableError(str(error), error=error.error)
        return self._session.enter_abortable_error(error)


def worst_partition_error(message: Any) -> ErrorCode:
    """The error that stands for the whole answer; OPERATION_NOT_ATTEMPTED only means that another
    partition has failed.
    """
    errors = [
        ErrorCode(partition_row.partition_error_code)
        for topic in message.results_by_topic_v3_and_below
        for partition_row in topic.results_by_partition
    ]
    partition_errors = [error for error in errors if error != ErrorCode.none]
    other_errors = [
        error for error in partition_errors if error != ErrorCode.operation_not_attempted
    ]
    return (other_errors or partition_errors or [ErrorCode.none])[0]
