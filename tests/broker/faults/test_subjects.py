"""Whom a command between brokers is about."""

from __future__ import annotations

import uuid

from txnsim.faults.subjects import NO_SUBJECT, Subject, subject_of
from txnsim.interbroker.replication import (
    AlterPartitionCommand,
    IsrChange,
    ReplicaFetchCommand,
    ReplicaOffsetCommand,
)
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AllocateProducerIdsCommand,
    TxnMarker,
    TxnPartitions,
    WriteTxnMarkersCommand,
)
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def txn(name: str, producer_id: int, *partitions: TopicPartition) -> TxnPartitions:
    return TxnPartitions(
        transactional_id=TransactionalId(name),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        verify_only=True,
        partitions=partitions,
    )


def marker(producer_id: int, *partitions: TopicPartition, committed: bool) -> TxnMarker:
    return TxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        committed=committed,
        coordinator_epoch=CoordinatorEpoch(0),
        transaction_version=2,
        partitions=partitions,
    )


def test_a_followers_fetch_is_about_its_whole_session() -> None:
    command = ReplicaFetchCommand(
        replica_id=BrokerId(2), replica_epoch=1, max_wait_ms=500, min_bytes=1, max_bytes=1_000,
        session_id=3, session_epoch=7, followed=(T0, T1),
    )  # fmt: skip
    assert subject_of(command) == Subject(partitions=(T0, T1))


def test_an_offset_and_a_change_of_the_isr_are_about_their_partitions() -> None:
    offset = ReplicaOffsetCommand(
        replica_id=BrokerId(2), topic_partition=T0, current_leader_epoch=1, timestamp_ms=-1
    )
    assert subject_of(offset) == Subject(partitions=(T0,))
    change = IsrChange(
        topic_id=uuid.UUID(int=1), topic_partition=T1, leader_epoch=LeaderEpoch(1), new_isr=(),
        partition_epoch=1,
    )  # fmt: skip
    alter = AlterPartitionCommand(broker_id=BrokerId(2), broker_epoch=1, partitions=(change,))
    assert subject_of(alter) == Subject(partitions=(T1,))


def test_one_transaction_is_the_subject() -> None:
    command = AddPartitionsToTxnCommand(transactions=(txn("app", 7, T0, T1),))
    assert subject_of(command) == Subject(
        transactional_id="app", producer_id=7, partitions=(T0, T1)
    )


def test_further_transactions_are_its_others() -> None:
    command = AddPartitionsToTxnCommand(transactions=(txn("a", 7, T0), txn("b", 8, T1)))
    assert subject_of(command) == Subject(
        transactional_id="a",
        producer_id=7,
        partitions=(T0,),
        others=(Subject(transactional_id="b", producer_id=8, partitions=(T1,)),),
    )


def test_markers_carry_their_result() -> None:
    command = WriteTxnMarkersCommand(
        markers=(marker(7, T0, committed=True), marker(8, T1, committed=False))
    )
    assert subject_of(command) == Subject(
        producer_id=7,
        partitions=(T0,),
        committed=True,
        others=(Subject(producer_id=8, partitions=(T1,), committed=False),),
    )


def test_commands_without_a_transaction_have_no_subject() -> None:
    assert (
        subject_of(AllocateProducerIdsCommand(broker_id=BrokerId(1), broker_epoch=0)) == NO_SUBJECT
    )
    assert subject_of(WriteTxnMarkersCommand(markers=())) == NO_SUBJECT
