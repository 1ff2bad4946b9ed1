"""What other brokers ask of this one. The same requests may come from clients, too.

Counterpart in Kafka: the inter-broker half of KafkaApis.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Coroutine, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec

from txnsim.broker._marker_writes import MARKERS_AT_ONCE, MarkerWrites
from txnsim.broker._share_host import ShareHost
from txnsim.broker.produce import ACKS_ALL, ProduceCommand, ProducePartition, ProducePath
from txnsim.broker.verification import TransactionOperation
from txnsim.coordinators.txn.service import TransactionCoordinator
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.interbroker.dead_letters import DeadLettersCommand, DeadLettersReply
from txnsim.interbroker.replication import ReplicaFetchCommand, ReplicaOffsetCommand
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.node.peers import (
    ADD_PARTITIONS_TO_TXN,
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    SHARE_STATE,
    WRITE_TXN_MARKERS,
    ShareAnswer,
    ShareCommand,
)
from txnsim.replica.replicas import Replicas
from txnsim.replication.replica_sessions import ReplicaSessions
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import ready_value
from txnsim.txn.commands import AddPartitions, VerifyPartitions
from txnsim.types import BrokerId, TopicPartition, TransactionVersion
from txnsim.wire.batch_header import read_batch_header

DEAD_LETTERS_TIMEOUT_MS: Final = 30_000
"""Timeout of a Produce request with dead letters."""
_PartitionErrors = tuple[tuple[TopicPartition, int], ...]


class PeerRequests(msgspec.Struct, kw_only=True, frozen=True, eq=False):
    """Answers requests of brokers."""

    node: str
    """The broker's name in traces."""
    clock: Clock
    tasks: Tasks
    replicas: Replicas
    coordinator: TransactionCoordinator
    replica_sessions: ReplicaSessions
    marker_writes: MarkerWrites
    producing: ProducePath
    share_host: ShareHost

    def handle(
        self, api_key: int, api_version: int, command: object, sender_id: BrokerId
    ) -> Awaitable[object]:
        """Answer a request from a broker, which may be this one."""
        if api_key == FETCH and isinstance(command, ReplicaFetchCommand):
            return self.replica_sessions.fetch(command)
        if api_key == ADD_PARTITIONS_TO_TXN and isinstance(command, AddPartitionsToTxnCommand):
            return self.add_partitions_to_txn(command)
        if api_key == WRITE_TXN_MARKERS and isinstance(command, WriteTxnMarkersCommand):
            return self.write_txn_markers(command)
        if api_key == LIST_OFFSETS and isinstance(command, ReplicaOffsetCommand):
            return ready_value(self.replica_sessions.list_offset(command))
        if api_key == PRODUCE and isinstance(command, DeadLettersCommand):
            return self.append_dead_letters(command)
        if api_key in SHARE_STATE and isinstance(command, tuple):
            return self.share_state(api_key, command)
        raise InvariantViolation(
            f"broker {sender_id} asked {self.node} for API {api_key} v{api_version} with "
            f"{type(command).__name__}"
        )

    async def add_partitions_to_txn(
        self, command: AddPartitionsToTxnCommand
    ) -> AddPartitionsToTxnReply:
        """AddPartitionsToTxn v4+: verify or add partitions, each transaction separately
        (KafkaApis.handleAddPartitionsToTxnRequest).
        """
        results = []
        for transaction in command.transactions:
            image, unknown_partitions = self.replicas.image, set()
            for partition in transaction.partitions:
                if image.partition(partition) is None:
                    unknown_partitions.add(partition)
            if unknown_partitions:
                errors = _not_attempted(transaction.partitions, unknown_partitions)
            elif transaction.verify_only:
                verification = self.coordinator.verify(
                    VerifyPartitions(
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.producer_id,
                        producer_epoch=transaction.producer_epoch,
                        partitions=transaction.partitions,
                    )
                )
                errors = (
                    tuple(zip(transaction.partitions, repeat(verification.error), strict=False))
                    if isinstance(verification, Rejection)
                    else verification.partition_errors
                )
            else:
                addition = await self.coordinator.add_partitions(
                    AddPartitions(
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.producer_id,
                        producer_epoch=transaction.producer_epoch,
                        partitions=frozenset(transaction.partitions),
                        transaction_version=TransactionVersion.TV_2,
                    )
                )
                error = addition.error if isinstance(addition, Rejection) else ErrorCode.none
                if error is ErrorCode.unsupported_version:
                    # A record that can't be built is an exception, and that fails the whole batch.
                    return AddPartitionsToTxnReply(error=error)
                errors = tuple(zip(transaction.partitions, repeat(error), strict=False))
            results.append((transaction.transactional_id, errors))
        return AddPartitionsToTxnReply(results=tuple(results))

    async def append_dead_letters(self, command: DeadLettersCommand) -> DeadLettersReply:
        """Append dead letters that arrive in a Produce with acks=all."""
        topic_partition = command.topic_partition
        partition_batch = ProducePartition(
            topic_partition=topic_partition,
            batch=command.batch,
            header=read_batch_header(command.batch),
        )
        produce_outcomes = await self.producing.produce(
            ProduceCommand(
                transactional_id=None,
                acks=ACKS_ALL,
                timeout_ms=DEAD_LETTERS_TIMEOUT_MS,
                operation=TransactionOperation.ADD_PARTITION,
                partitions=(partition_batch,),
            )
        )
        return DeadLettersReply(
            topic_id=command.topic_id,
            topic_partition=topic_partition,
            error=produce_outcomes[topic_partition].error,
        )

    def share_state(
        self, api_key: int, commands: Sequence[ShareCommand]
    ) -> Coroutine[Any, Any, Sequence[ShareAnswer]]:
        """Answer the request with that API key to the share coordinator; a large one with
        breaks.
        """
        return self.share_host.coordinator.answer(api_key, commands)

    def write_txn_markers(
        self, command: WriteTxnMarkersCommand
    ) -> Coroutine[Any, Any, WriteTxnMarkersReply]:
        """Write markers to the partitions that this broker leads; many of them in slices."""
        pace = None
        marker_count = 0
        for marker in command.markers:
            marker_count += len(marker.partitions)
        if marker_count > MARKERS_AT_ONCE:
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        return self.marker_writes.write(command, pace)


def _not_attempted(
    partitions: tuple[TopicPartition, ...], unknown_partitions: Collection[TopicPartition]
) -> _PartitionErrors:
    """The answer if some of the partitions do not exist: none was attempted."""
    return tuple(
        (
            partition,
            ErrorCode.unknown_topic_or_partition
            if partition in unknown_partitions
            else ErrorCode.operation_not_attempted,
        )
        for partition in partitions
    )
