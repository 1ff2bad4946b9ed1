"""What an operator is told at the edges of numbers, against what the logs hold.

Transactions are drawn whose producer ids, epochs, stamps, timeouts and coordinator epochs are at
the edges of their types. The model knows which are open by what the leader has acknowledged, and
which the coordinator knows. ``find-hanging``, ``why``, the verdict and ``repair`` have to say the
same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.broker.simulation.test_costs import Broker, _of_key, added
from tests.support.clusters import VirtualCluster, options, run_cluster
from tests.support.raw_connection import WireClient
from txnsim.client.admin import Admin
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.repair import Outcome, repair
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.waiting_readers import explain
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.errors import ErrorCode
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import PastDecision
from txnsim.types import BrokerId, IsolationLevel, TopicPartition
from txnsim.verdict.judge import VerdictState
from txnsim.verdict.words import age_text
from txnsim.wire.batch import Record, build_batch

INT_16_MAX: Final = 2**15 - 1
INT_32_MAX: Final = 2**31 - 1
INT_64_MAX: Final = 2**63 - 1
PARTITIONS: Final = 4
MAX_AGE_MS: Final = 15 * 60_000

PRODUCER_IDS: Final = st.sampled_from((0, 1, 2**31 - 2, INT_32_MAX, 2**31, 2**53, INT_64_MAX))
EPOCHS: Final = st.sampled_from((0, 1, INT_16_MAX - 1, INT_16_MAX))
STAMPS_MS: Final = st.sampled_from(
    (0, 1, INT_32_MAX, 2**31, 1_700_000_000_000, 2**53, 2**62, INT_64_MAX - 1, INT_64_MAX)
)
COORDINATOR_EPOCHS: Final = st.sampled_from((0, 1, INT_32_MAX - 1, INT_32_MAX))
TIMEOUTS_MS: Final = st.sampled_from((1, 60_000, INT_32_MAX - 1))


class Ghost(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction on a partition that is unknown to every coordinator."""

    partition: int
    producer_id: int
    epoch: int
    stamp_ms: int
    markers: tuple[tuple[bool, int], ...]
    """Outcomes and coordinator epochs of markers behind it."""
    goes_on: bool
    """Whether the producer writes again behind its markers."""


class KnownTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction on a partition that is known to its coordinator."""

    partition: int
    timeout_ms: int
    stamp_ms: int


Txn = Ghost | KnownTransaction
GHOSTS: Final = st.builds(
    Ghost,
    partition=st.integers(0, PARTITIONS - 1),
    producer_id=PRODUCER_IDS,
    epoch=EPOCHS,
    stamp_ms=STAMPS_MS,
    markers=st.lists(st.tuples(st.booleans(), COORDINATOR_EPOCHS), max_size=2).map(tuple),
    goes_on=st.booleans(),
)
KNOWN: Final = st.builds(
    KnownTransaction,
    partition=st.integers(0, PARTITIONS - 1),
    timeout_ms=TIMEOUTS_MS,
    stamp_ms=STAMPS_MS,
)
TXNS: Final = st.lists(
    st.one_of(GHOSTS, GHOSTS, KNOWN),
    min_size=1,
    max_size=PARTITIONS,
    unique_by=lambda txn: txn.partition,
)


class LeaderTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is open according to what the leader has acknowledged."""

    producer_id: int
    start_offset: int
    stamp_ms: int
    is_known: bool


async def _append(
    broker: Broker, partition: int, producer: tuple[int, int], sequence: int, stamp_ms: int
) -> tuple[ErrorCode, int]:
    batch = build_batch(
        [Record(key=b"k", value=b"v")],
        timestamp_ms=stamp_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    topic = {"name": "wide", "partition_data": [{"index": partition, "records": batch}]}
    produce = {"transactional_id": "t", "acks": -1, "timeout": 30_000, "topic_data": [topic]}
    answer = (await broker.ask(0, 9, produce)).responses[0].partition_responses[0]
    return ErrorCode(int(answer.error_code)), answer.base_offset


async def _mark(broker: Broker, ghost: Ghost, is_commit: bool, coordinator_epoch: int) -> bool:
    marker = {
        "producer_id": ghost.producer_id,
        "producer_epoch": ghost.epoch,
        "transaction_result": is_commit,
        "coordinator_epoch": coordinator_epoch,
        "topics": [{"name": "wide", "partition_indexes": [ghost.partition]}],
    }
    answer = await broker.ask(27, 1, {"markers": [marker]})
    return not answer.markers[0].topics[0].partitions[0].error_code


async def _play_ghost(broker: Broker, ghost: Ghost) -> LeaderTransaction | None:
    producer, sequence = (ghost.producer_id, ghost.epoch), 0
    start_offset: int | None = None
    error, offset = await _append(broker, ghost.partition, producer, sequence, ghost.stamp_ms)
    if error is ErrorCode.none:
        start_offset, sequence = offset, 1
    for is_success, coordinator_epoch in ghost.markers:
        if await _mark(broker, ghost, is_success, coordinator_epoch):
            start_offset = None
    if ghost.goes_on:
        error, offset = await _append(broker, ghost.partition, producer, sequence, ghost.stamp_ms)
        if error is ErrorCode.none and start_offset is None:
            start_offset = offset
    if start_offset is None:
        return None
    return LeaderTransaction(
        producer_id=ghost.producer_id,
        start_offset=start_offset,
        stamp_ms=ghost.stamp_ms,
        is_known=False,
    )


async def _play_known(broker: Broker, known_txn: KnownTransaction) -> LeaderTransaction | None:
    transactional_id = f"known-{known_txn.partition}"
    await _of_key(broker, transactional_id, 1)
    values = {"transactional_id": transactional_id, "transaction_timeout": known_txn.timeout_ms}
    identity = await broker.sure(22, 4, {**values, "producer_id": -1, "producer_epoch": -1})
    producer = identity.producer_id, identity.producer_epoch
    topics = [{"name": "wide", "partitions": [known_txn.partition]}]
    await broker.sure(24, 3, added(transactional_id, producer, topics))
    error, offset = await _append(broker, known_txn.partition, producer, 0, known_txn.stamp_ms)
    assert error is ErrorCode.none
    return LeaderTransaction(
        producer_id=identity.producer_id,
        start_offset=offset,
        stamp_ms=known_txn.stamp_ms,
        is_known=True,
    )


def _partition(txn: Txn) -> TopicPartition:
    return TopicPartition("wide", txn.partition)


def _told(
    judged_transactions: Sequence[JudgedTransaction],
) -> dict[TopicPartition, tuple[Any, ...]]:
    return {
        judged_transaction.transaction.partition: (
            judged_transaction.transaction.producer.producer_id,
            judged_transaction.transaction.producer.txn_start_offset,
            judged_transaction.transaction.producer.last_timestamp_ms,
            judged_transaction.verdict is OpenTxnStatus.HANGING,
        )
        for judged_transaction in judged_transactions
    }


async def _check_told(
    admin: Admin, open_there_by_partition: Mapping[TopicPartition, LeaderTransaction]
) -> tuple[JudgedTransaction, ...]:
    """Compare what ``find-hanging`` and ``why`` say with the model. Returns what hangs."""
    now_ms = admin.cluster.clock.now_ms()
    survey_of_every_age = await survey(admin, now_ms=now_ms, older_than_ms=ANY_AGE)
    assert not survey_of_every_age.unread
    assert not survey_of_every_age.unread_topics
    expected_by_partition = {
        partition: (
            leader_transaction.producer_id,
            leader_transaction.start_offset,
            leader_transaction.stamp_ms,
            not leader_transaction.is_known,
        )
        for partition, leader_transaction in open_there_by_partition.items()
    }
    assert _told(survey_of_every_age.findings) == expected_by_partition
    survey_result = await survey(admin, now_ms=now_ms, older_than_ms=MAX_AGE_MS)
    assert _told(survey_result.findings) == {
        partition: row
        for partition, row in expected_by_partition.items()
        if now_ms - row[2] > MAX_AGE_MS
    }
    for partition_index in range(PARTITIONS):
        partition = TopicPartition("wide", partition_index)
        leader_transaction = open_there_by_partition.get(partition)
        explanation = await explain(admin, partition, now_ms=now_ms)
        end = await admin.offset_of(partition, LATEST_TIMESTAMP)
        assert explanation.last_stable_offset == (
            end if leader_transaction is None else leader_transaction.start_offset
        )
        assert _told(explanation.findings) == (
            {} if leader_transaction is None else {partition: expected_by_partition[partition]}
        )
        assert (explanation.verdict.state is VerdictState.HEALTHY) == (leader_transaction is None)
        assert (explanation.command is not None) == (
            leader_transaction is not None and not leader_transaction.is_known
        )
        assert explanation.sentences
    return survey_of_every_age.hanging


async def _check_repairs(
    admin: Admin,
    hanging_transactions: Sequence[JudgedTransaction],
    open_there_by_partition: Mapping[TopicPartition, LeaderTransaction],
) -> None:
    now_ms = admin.cluster.clock.now_ms()
    for judged_transaction in hanging_transactions:
        repair_report = await repair(
            admin, judged_transaction, now_ms=now_ms, guess=PastDecision.ABORTED
        )
        assert repair_report.outcome is Outcome.REPAIRED, repair_report
        partition = judged_transaction.transaction.partition
        ends = [
            await admin.offset_of(partition, LATEST_TIMESTAMP, isolation_level)
            for isolation_level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        assert ends[0] == ends[1]
    known_transaction_by_partition = {
        partition: leader_transaction
        for partition, leader_transaction in open_there_by_partition.items()
        if leader_transaction.is_known
    }
    assert not await _check_told(admin, known_transaction_by_partition)


def play(txns: Sequence[Txn]) -> None:
    """Play the transactions, and compare the answers that an operator gets with the model."""

    async def story(cluster: VirtualCluster) -> None:
        broker_image = cluster.sim.metadata.image.brokers[BrokerId(1)]
        broker = Broker(cluster, await WireClient.open(broker_image.host, broker_image.port))
        open_there_by_partition: dict[TopicPartition, LeaderTransaction] = {}
        for txn in txns:
            match txn:
                case Ghost():
                    opened_txn = await _play_ghost(broker, txn)
                case KnownTransaction():
                    opened_txn = await _play_known(broker, txn)
            if opened_txn is not None:
                open_there_by_partition[_partition(txn)] = opened_txn
        async with cluster.client("operator") as client:
            admin = Admin(client)
            hanging_transactions = await _check_told(admin, open_there_by_partition)
            await _check_repairs(admin, hanging_transactions, open_there_by_partition)
        await broker.wire.close()

    run_cluster(
        story,
        cluster_options=options(
            brokers=1,
            level=0,
            topics=(("wide", PARTITIONS),),
            message_timestamp_after_max_ms=INT_64_MAX,
            transaction_max_timeout_ms=INT_32_MAX,
            transaction_partition_verification_enable=False,
            # What is known stays open for as long as the operator looks.
            transaction_abort_timed_out_cleanup_interval_ms=86_400_000,
        ),
    )


@pytest.mark.slow
@pytest.mark.costly
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TXNS)
def test_an_operator_is_told_what_the_logs_hold(txns: list[Txn]) -> None:
    play(txns)


@pytest.mark.parametrize("stamp_ms", [0, INT_32_MAX, INT_64_MAX])
@pytest.mark.parametrize("producer_id", [0, INT_32_MAX, INT_64_MAX])
def test_a_ghost_at_an_edge_is_told_and_repaired(producer_id: int, stamp_ms: int) -> None:
    ghost = Ghost(
        partition=0,
        producer_id=producer_id,
        epoch=INT_16_MAX,
        stamp_ms=stamp_ms,
        markers=((True, INT_32_MAX),),
        goes_on=True,
    )
    play([ghost])


@pytest.mark.parametrize("age_ms", [-(2**63), -1, 0, 1, INT_32_MAX, 2**53, INT_64_MAX, 2**64])
def test_every_age_has_words(age_ms: int) -> None:
    assert age_text(age_ms)
    assert "e+" not in age_text(age_ms)
