"""The transaction markers that each broker is owed.

A prepared transaction owes one marker to the leader of each of its partitions. Markers are queued
per leader. At most one request is in flight to each broker; markers that come up meanwhile go out
in the next one. This module evaluates the replies and returns their consequences (a transaction is
complete, a partition must be tried again) to the caller.

The number of transactional ids is the only bound of the queue: each id owes the markers of one
transaction at a time.

Counterpart in Kafka: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, StrEnum
from operator import attrgetter
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, InvariantViolation
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand, WriteTxnMarkersReply
from txnsim.releases.rules import Rules
from txnsim.txn.state import TransactionState, TxnMetadata, TxnTransition
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)


class NoLeader(Enum):
    """Why a marker has no destination."""

    UNKNOWN = "unknown"
    """The partition exists; its leader is unknown or unreachable. Tried again later."""
    # Enum's own hash is written in Python, and leaders are keys at every transaction's end.
    __hash__ = object.__hash__

    NO_SUCH_PARTITION = "no such partition"
    """The partition or its topic is gone: no marker is needed."""


class MarkerSending(StrEnum):
    """What becomes of a marker that a coordinator owes."""

    UNDER_WAY = "under way"
    """It is queued, or its request has no answer yet."""
    RETRIED = "retried"
    """It was refused or lost; its coordinator sends it again."""
    LEADERLESS = "leaderless"
    """Its partition has no leader that is known; it is sent once there is one."""
    HELD = "held"
    """A fault rule holds it until it is released."""
    ABANDONED = "abandoned"
    """Nobody sends it again, until another broker loads the coordinator's partition."""
    UNTOLD = "untold"
    """Brokers don't tell clients whether a coordinator goes on sending."""


LeaderLookup = BrokerId | NoLeader
LeaderOf = Callable[[TopicPartition], LeaderLookup]

_DONE_ERRORS: Final = frozenset(
    {
        ErrorCode.none,
        # A log that can't hold markers holds no transactions either
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
    }
)
_RETRIED_ERRORS: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
    }
)
_FATAL_ERRORS: Final = frozenset(
    {ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced}
)


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """The markers that a prepared transaction still owes, and the record that completes it
    afterwards.
    """

    transactional_id: TransactionalId
    txn_partition: int
    """The transaction's partition of ``__transaction_state``."""
    coordinator_epoch: CoordinatorEpoch
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    transaction_version: int
    completion: TxnTransition
    fences: bool = False
    """Whether the abort comes from a fence that raised the epoch; False if unknown."""
    cause: int = -1
    """Index of the trace event that caused the debt."""

    @property
    def epoch_rule(self) -> str:
        """Row of docs/rules.md that explains the producer id and epoch in its markers."""
        if self.completion.producer_id != self.producer_id:
            return "sent.epoch-overflow"
        if self.fences:
            return "sent.epoch-fence"
        return "sent.epoch-v2" if self.transaction_version >= 2 else "sent.epoch-v1"


class OwedMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A marker for some partitions with the same leader."""

    debt: Debt
    marker: TxnMarker


class MarkerBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One WriteTxnMarkers request and its debts, in the same order."""

    broker_id: BrokerId
    owed_markers: tuple[OwedMarker, ...]
    command: WriteTxnMarkersCommand


class MarkerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The consequences of a reply for one marker."""

    debt: Debt
    written_partitions: frozenset[TopicPartition]
    """Partitions that have the marker or do not need it."""
    partitions_to_retry: frozenset[TopicPartition]
    retry_error: int = 0
    """Error because of which markers are sent again; 0 if there was no reply."""
    refusal_error: int = 0
    """Error because of which the transaction is given up; 0 if it is not."""
    refused_partitions: frozenset[TopicPartition] = frozenset()
    """Partitions with that error."""

    @property
    def refusal_rule(self) -> str:
        """Row of docs/rules.md that explains the refusal."""
        is_epoch_error = self.refusal_error == ErrorCode.invalid_producer_epoch
        return "result.epoch-fenced" if is_epoch_error else "result.coordinator-fenced"


def debt_of(
    txn: TxnMetadata,
    completion: TxnTransition,
    *,
    txn_partition: int,
    coordinator_epoch: CoordinatorEpoch,
    fences: bool = False,
    cause: int = -1,
) -> Debt:
    """The debt of a prepared transaction. Its markers have the producer id and epoch of the
    preparation.
    """
    return Debt(
        transactional_id=txn.transactional_id,
        txn_partition=txn_partition,
        coordinator_epoch=coordinator_epoch,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        committed=txn.state is TransactionState.PREPARE_COMMIT,
        transaction_version=int(txn.client_version),
        completion=completion,
        fences=fences,
        cause=cause,
    )


def marker_outcome(
    owed_marker: OwedMarker,
    error_by_partition: Mapping[TopicPartition, int],
    *,
    release_rules: Rules,
) -> MarkerOutcome | None:
    """The consequences of the partitions' errors for a marker; None if Kafka never sends one of
    them.

    A partition that the reply leaves out stays owed and is not tried again.
    """
    written_partitions, partitions_to_retry, refused_partitions, refusal_error, retry_error = (
        [],
        [],
        [],
        0,
        0,
    )
    for partition in owed_marker.marker.partitions:
        error_code = error_by_partition.get(partition)
        if error_code is None:
            continue
        if error_code in _DONE_ERRORS:
            written_partitions.append(partition)
        elif error_code in _RETRIED_ERRORS and (
            release_rules.storage_errors_are_retried or error_code != ErrorCode.kafka_storage_error
        ):
            partitions_to_retry.append(partition)
            retry_error = error_code
        elif error_code in _FATAL_ERRORS:
            refused_partitions.append(partition)
            refusal_error = error_code
        else:
            return None
    return MarkerOutcome(
        debt=owed_marker.debt,
        written_partitions=frozenset(written_partitions),
        partitions_to_retry=frozenset(partitions_to_retry),
        retry_error=retry_error,
        refusal_error=refusal_error,
        refused_partitions=frozenset(refused_partitions),
    )


_marker_of: Final = attrgetter("marker")
_UnroutedMarkers = tuple[Debt, frozenset[TopicPartition]]
SendingAndTarget = tuple[MarkerSending, BrokerId | None]
"""How a marker is sent, and to which broker; None if that is not decided."""


class MarkerQueue(msgspec.Struct, kw_only=True, eq=False):
    """All debts of one broker's coordinators."""

    release_rules: Rules
    _debts: dict[TransactionalId, Debt] = {}
    _markers_to_send: dict[BrokerId, list[OwedMarker]] = {}
    _markers_to_route: list[_UnroutedMarkers] = []
    leader_unknown: list[_UnroutedMarkers] = []
    """Markers whose leader is unknown."""
    _batch_in_flight_by_broker: dict[BrokerId, MarkerBatch] = {}

    # Owing

    def add_debt(self, debt: Debt, partitions: frozenset[TopicPartition]) -> None:
        """Add a debt and its markers; it replaces an older debt of the same transactional id."""
        self._debts[debt.transactional_id] = debt
        self._markers_to_route.append((debt, partitions))

    def route_later(self, debt: Debt, partitions: frozenset[TopicPartition]) -> None:
        """Has markers routed, or routed again, in the next round."""
        self._markers_to_route.append((debt, partitions))

    def forget_debt(self, debt: Debt) -> bool:
        """Drop this debt, but not a later one of the same id (KAFKA-16352); returns whether it was
        still owed.
        """
        if self._debts.get(debt.transactional_id) is not debt:
            return False
        del self._debts[debt.transactional_id]
        return True

    def on_stale_reply(self, debt: Debt) -> None:
        """Handle a reply for a debt of an older coordinator epoch. Before KAFKA-16352 it dropped
        any debt of that transactional id.
        """
        if not self.release_rules.stale_answers_spare_newer_debt:
            self._debts.pop(debt.transactional_id, None)

    def drop_partition(self, txn_partition: int) -> tuple[Debt, ...]:
        """Drop all debts of a partition of ``__transaction_state``, with their markers."""
        dropped_debts = tuple(
            debt for debt in self._debts.values() if debt.txn_partition == txn_partition
        )
        for debt in dropped_debts:
            del self._debts[debt.transactional_id]
        for broker_id, queued_markers in list(self._markers_to_send.items()):
            kept_markers = [
                waiting for waiting in queued_markers if waiting.debt.txn_partition != txn_partition
            ]
            if kept_markers:
                self._markers_to_send[broker_id] = kept_markers
            else:
                del self._markers_to_send[broker_id]
        self._markers_to_route = [
            waiting
            for waiting in self._markers_to_route
            if waiting[0].txn_partition != txn_partition
        ]
        self.leader_unknown = [
            waiting for waiting in self.leader_unknown if waiting[0].txn_partition != txn_partition
        ]
        return dropped_debts

    # Routing

    def route(
        self, debt: Debt, partitions: Iterable[TopicPartition], leader_of: LeaderOf
    ) -> frozenset[TopicPartition]:
        """Queues markers for the present leaders.

        Returns:
            Partitions that are gone: they count as marked.
        """
        partitions_by_leader: dict[LeaderLookup, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            partitions_by_leader.setdefault(leader_of(partition), []).append(partition)
        deleted_partitions = frozenset(partitions_by_leader.pop(NoLeader.NO_SUCH_PARTITION, ()))
        leaderless_partitions = partitions_by_leader.pop(NoLeader.UNKNOWN, None)
        if leaderless_partitions is not None:
            self.leader_unknown.append((debt, frozenset(leaderless_partitions)))
        for leader, led_partitions in partitions_by_leader.items():
            assert not isinstance(leader, NoLeader)
            marker = TxnMarker(
                producer_id=debt.producer_id,
                producer_epoch=debt.producer_epoch,
                committed=debt.committed,
                coordinator_epoch=debt.coordinator_epoch,
                transaction_version=debt.transaction_version,
                partitions=tuple(led_partitions),
            )
            self._markers_to_send.setdefault(leader, []).append(
                OwedMarker(debt=debt, marker=marker)
            )
        return deleted_partitions

    def take_waiting(self) -> list[_UnroutedMarkers]:
        """Take all markers to route, including those whose leader was unknown last time."""
        markers_to_route, self._markers_to_route, self.leader_unknown = (
            self.leader_unknown + self._markers_to_route,
            [],
            [],
        )
        return markers_to_route

    # Sending

    def take_batches(self) -> list[MarkerBatch]:
        """The requests to send now: one to each broker that has markers waiting and no request in
        flight.
        """
        batches = []
        for broker_id in tuple(self._markers_to_send):
            if broker_id in self._batch_in_flight_by_broker:
                continue
            owed_markers = tuple(self._markers_to_send.pop(broker_id))
            batch = MarkerBatch(
                broker_id=broker_id,
                owed_markers=owed_markers,
                command=WriteTxnMarkersCommand(markers=tuple(map(_marker_of, owed_markers))),
            )
            self._batch_in_flight_by_broker[broker_id] = batch
            batches.append(batch)
        return batches

    def on_reply(self, batch: MarkerBatch, reply: WriteTxnMarkersReply) -> list[MarkerOutcome]:
        """Evaluate the reply to a request.

        If a producer id is missing, or an error is none that a leader sends, this and all later
        markers of the request are neither repeated nor done, as on a real broker.
        """
        self.end_flight(batch)
        errors_by_producer = dict(reply.results)
        marker_outcomes = []
        for owed_marker in batch.owed_markers:
            marker_errors = errors_by_producer.get(owed_marker.debt.producer_id)
            outcome = (
                None
                if marker_errors is None
                else marker_outcome(
                    owed_marker, dict(marker_errors), release_rules=self.release_rules
                )
            )
            if outcome is None:
                break
            marker_outcomes.append(outcome)
        return marker_outcomes

    def outcomes(self, batch: MarkerBatch, reply: WriteTxnMarkersReply) -> Iterator[MarkerOutcome]:
        """Evaluate the reply to a large request that has landed, one marker at a time; for small
        ones a list is faster.
        """
        errors_by_producer = dict(reply.results)
        for owed_marker in batch.owed_markers:
            marker_errors = errors_by_producer.get(owed_marker.debt.producer_id)
            outcome = (
                None
                if marker_errors is None
                else marker_outcome(
                    owed_marker, dict(marker_errors), release_rules=self.release_rules
                )
            )
            if outcome is None:
                return
            yield outcome

    def on_lost(self, batch: MarkerBatch) -> list[MarkerOutcome]:
        """Make everything in the request be sent again, because there was no reply."""
        self.end_flight(batch)
        return [
            MarkerOutcome(
                debt=owed_marker.debt,
                written_partitions=frozenset(),
                partitions_to_retry=frozenset(owed_marker.marker.partitions),
            )
            for owed_marker in batch.owed_markers
        ]

    # Queries

    @property
    def debt_count(self) -> int:
        """Number of transactions that wait for markers, or were given up."""
        return len(self._debts)

    @property
    def leader_unknown_count(self) -> int:
        """Number of entries with unknown leaders (Kafka's UnknownDestinationQueueSize)."""
        return len(self.leader_unknown)

    @property
    def has_markers_to_send(self) -> bool:
        """Whether a broker could be sent a request now."""
        return not self._markers_to_send.keys() <= self._batch_in_flight_by_broker.keys()

    def sendings(self) -> dict[TransactionalId, dict[TopicPartition, SendingAndTarget]]:
        """What becomes of the markers of each transaction: how each is sent, and to which broker.
        What is in none of the queues is not sent again.
        """
        sendings: dict[TransactionalId, dict[TopicPartition, SendingAndTarget]] = {}
        for unrouted_markers, sending in (
            (self._markers_to_route, MarkerSending.UNDER_WAY),
            (self.leader_unknown, MarkerSending.LEADERLESS),
        ):
            for debt, partitions in unrouted_markers:
                if self._debts.get(debt.transactional_id) is debt:
                    sendings.setdefault(debt.transactional_id, {}).update(
                        dict.fromkeys(partitions, (sending, None))
                    )
        for broker_id, owed_markers in (
            *self._markers_to_send.items(),
            *(
                (broker_id, batch.owed_markers)
                for broker_id, batch in self._batch_in_flight_by_broker.items()
            ),
        ):
            sending_and_broker = MarkerSending.UNDER_WAY, broker_id
            for owed_marker in owed_markers:
                debt = owed_marker.debt
                if self._debts.get(debt.transactional_id) is debt:
                    sendings.setdefault(debt.transactional_id, {}).update(
                        dict.fromkeys(owed_marker.marker.partitions, sending_and_broker)
                    )
        return sendings

    def end_flight(self, batch: MarkerBatch) -> None:
        """Notes that a request is no longer in flight: its broker may get the next one."""
        if self._batch_in_flight_by_broker.pop(batch.broker_id, None) is not batch:
            raise InvariantViolation(f"an answer from broker {batch.broker_id} to no request")
