"""The open transactions of a whole cluster, judged: ``find-hanging --all``.

It asks every partition's leader for open transactions, and every coordinator what it knows of them
(KIP-664). They can't be asked at the same moment: a transaction that ends in between would look as
if it had no coordinator. So each leader is asked again for the transactions that seem to hang, and
the survey reports only those that are still open there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.client._txn_admin import SearchTargets, TransactionAdmin, batches
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.inspection._partition_markers import fetch_markers
from txnsim.client.inspection.coordinators_asked import ask_while_all_serve, check_sight
from txnsim.client.inspection.hanging import (
    MAX_TRANSACTION_TIMEOUT_MS,
    OpenTransaction,
    producer_ids,
)
from txnsim.client.inspection.judgement import JudgedTransaction, judging
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription, TxnIdentity
from txnsim.client.offsets import EARLIEST_TIMESTAMP, offset_of
from txnsim.errors import CorruptLogRecordError, ErrorCode
from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.log_format import decode_record, encode_key
from txnsim.txn.marker_payment import CoordinatorRecord, DueDecisions
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence, PastDecision
from txnsim.txn.state import TxnTransition
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim.verdict.facts import TransactionFacts

ANY_AGE: Final = -(1 << 64)
"""An age in ms that every transaction exceeds, also one with a timestamp of 2^63 - 1."""

JUDGED_PER_TURN: Final = 200
"""Open transactions that are judged before other tasks get their turn."""

Progress = Callable[[int, int], None]
"""(number of partitions asked so far, total)."""


def _no_progress(_done: int, _total: int) -> None: ...


_NO_PROGRESS: Final[Progress] = _no_progress


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The open transactions of a cluster, judged, and the partitions that could not be read."""

    partitions: int
    """Number of partitions that the survey has examined."""
    findings: tuple[JudgedTransaction, ...]
    """The open transactions without a write for ``older_than_ms``, oldest write first."""
    unread: Mapping[TopicPartition, ClientError]
    unread_topics: Mapping[str, ClientError] = {}
    """Topics whose partitions are not known, as Metadata has an error for them."""
    transactions: tuple[TransactionFacts, ...] = ()
    """The transactions of their producer ids, as coordinators describe them."""

    @property
    def hanging(self) -> tuple[JudgedTransaction, ...]:
        """The open transactions that no marker will end."""
        return tuple(
            finding for finding in self.findings if finding.verdict is OpenTxnStatus.HANGING
        )


async def survey(
    admin: TransactionAdmin,
    *,
    now_ms: int,
    partitions: Sequence[TopicPartition] | SearchTargets | None = None,
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    progress: Progress = _NO_PROGRESS,
) -> Survey:
    """Examine every partition.

    Args:
        admin: The cluster.
        now_ms: The wall clock to measure ages by.
        partitions: Only these; all, including internal topics, if None.
        older_than_ms: Transactions with a younger write are ignored.
        progress: Called after each request to the leaders.

    Raises:
        ClientError: Topics could not be listed, or a coordinator did not answer, or the client may
            not list all transactional ids, so that hidden transactions would seem to hang.
    """
    if partitions is None:
        targets = await admin.search_targets()
    elif isinstance(partitions, SearchTargets):
        targets = partitions
    else:
        targets = SearchTargets(partitions=tuple(partitions))
    searched_partitions = targets.partitions
    candidates: list[OpenTransaction] = []
    unread_partitions: dict[TopicPartition, ClientError] = {}
    searched_count = 0
    for partition_slice in batches(searched_partitions):
        producers, failure_by_partition = await _producers(admin, partition_slice)
        unread_partitions.update(failure_by_partition)
        candidates += OpenTransaction.candidates(
            producers, now_ms=now_ms, max_transaction_timeout_ms=older_than_ms
        )
        await _give_turn()
        searched_count += len(partition_slice)
        progress(searched_count, len(searched_partitions))
    findings: tuple[JudgedTransaction, ...] = ()
    descriptions: Mapping[str, TransactionDescription | None] = {}
    if candidates:
        judged_transactions, descriptions = await _judge_completely(admin, candidates)
        await _give_turn()
        ended_transactions = await _ended_meanwhile(admin, judged_transactions)
        await _give_turn()
        findings = tuple(
            [
                await _with_decision(admin, finding)
                for finding in judged_transactions
                if finding.transaction not in ended_transactions
            ]
        )
        await _give_turn()
    return Survey(
        partitions=len(searched_partitions),
        findings=tuple(sorted(findings, key=_age)),
        unread=unread_partitions,
        unread_topics=targets.unread_topics,
        transactions=tuple(
            description.facts() for description in descriptions.values() if description is not None
        ),
    )


async def _judge_completely(
    admin: TransactionAdmin, candidates: Sequence[OpenTransaction]
) -> tuple[Sequence[JudgedTransaction], Mapping[str, TransactionDescription | None]]:
    """Judge by what coordinators know; once more, while all of them serve, if anything seems to
    hang. Returns what coordinators told, too.
    """
    transactional_id_by_producer, descriptions = await admin.known_to_coordinators(
        producer_ids(candidates)
    )
    judged_transactions = await _judged(candidates, transactional_id_by_producer, descriptions)
    if any(finding.verdict is OpenTxnStatus.HANGING for finding in judged_transactions):
        judged_transactions = ()  # released: they are judged anew
        await check_sight(admin.cluster)
        transactional_id_by_producer, descriptions = await ask_while_all_serve(
            admin, producer_ids(candidates)
        )
        judged_transactions = await _judged(candidates, transactional_id_by_producer, descriptions)
    return judged_transactions, descriptions


async def _judged(
    open_transactions: Sequence[OpenTransaction],
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription | None],
) -> Sequence[JudgedTransaction]:
    """``judge``, with breaks: the control port searches on the loop of its brokers."""
    findings: list[JudgedTransaction] = []
    for finding in judging(open_transactions, transactional_ids, descriptions):
        findings.append(finding)
        if len(findings) % JUDGED_PER_TURN == 0:
            await _give_turn()
    return findings


async def _give_turn() -> None:
    """Let other tasks have their turn: there may be 100,000 transactions to walk over."""
    await asyncio.sleep(0)


async def hanging_ones(admin: TransactionAdmin, *, now_ms: int) -> tuple[JudgedTransaction, ...]:
    """All hanging transactions of a cluster, however young.

    Raises:
        ClientError: As for ``survey``; or a leader did not answer, and nothing hangs on the others.
    """
    survey_result = await survey(admin, now_ms=now_ms, older_than_ms=ANY_AGE)
    failures = (*survey_result.unread.values(), *survey_result.unread_topics.values())
    if failures and not survey_result.hanging:
        raise failures[0]
    return survey_result.hanging


async def _with_decision(admin: TransactionAdmin, finding: JudgedTransaction) -> JudgedTransaction:
    """The hanging transaction with its past decision, if the coordinator's log still has it."""
    if finding.verdict is not OpenTxnStatus.HANGING or finding.transactional_id is None:
        return finding
    producer = finding.transaction.producer
    partition = finding.transaction.partition
    assert producer.txn_start_offset is not None, "it is open"
    due_decisions = None
    try:
        # Where the last hour has no decision, all that the log has.
        for since_ms in (producer.last_timestamp_ms - BEFORE_MS, 0):
            coordinator_records = await read_coordinator_records(
                admin.cluster, finding.transactional_id, since_ms=since_ms
            )
            due_decisions = DueDecisions.for_partition(
                partition, producer.producer_id, producer.producer_epoch, coordinator_records
            )
            if due_decisions is not None:
                break
    except ClientError:
        if finding.decided is None or finding.decided.decision is not PastDecision.UNKNOWN:
            return finding
        evidence_without_right = msgspec.structs.replace(finding.decided, lacks_right=True)
        return msgspec.structs.replace(finding, decided=evidence_without_right)
    if due_decisions is None:
        return finding
    markers = await fetch_markers(
        admin.cluster,
        partition,
        producer.producer_id,
        before_offset=producer.txn_start_offset,
        since_ms=due_decisions.markers_needed_since_ms,
    )
    return msgspec.structs.replace(
        finding,
        decided=DecisionEvidence.from_log(
            due_decisions, markers, last_write_ms=producer.last_timestamp_ms
        ),
    )


def _age(finding: JudgedTransaction) -> tuple[int, TopicPartition]:
    return finding.transaction.producer.last_timestamp_ms, finding.transaction.partition


async def _producers(
    admin: TransactionAdmin, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[ProducerState, ...]], dict[TopicPartition, ClientError]]:
    producers: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    failure_by_partition: dict[TopicPartition, ClientError] = {}
    for partition, outcome in (await admin.describe_producers(partitions)).items():
        if isinstance(outcome, ClientError):
            failure_by_partition[partition] = outcome
        else:
            producers[partition] = outcome
    return producers, failure_by_partition


async def _ended_meanwhile(
    admin: TransactionAdmin, findings: Sequence[JudgedTransaction]
) -> frozenset[OpenTransaction]:
    """Transactions judged as hanging that have ended since the survey."""
    hanging_candidates = [
        transaction.transaction
        for transaction in findings
        if transaction.verdict is OpenTxnStatus.HANGING
    ]
    partitions_asked = tuple(
        dict.fromkeys(transaction.partition for transaction in hanging_candidates)
    )
    ended_transactions: set[OpenTransaction] = set()
    for partition_slice in batches(partitions_asked):
        open_by_partition = await _open_identities(admin, partition_slice)
        await _give_turn()
        ended_transactions.update(
            transaction
            for transaction in hanging_candidates
            if transaction.partition in open_by_partition
            and transaction.producer.txn_identity not in open_by_partition[transaction.partition]
        )
    return frozenset(ended_transactions)


async def _open_identities(
    admin: TransactionAdmin, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, set[TxnIdentity]]:
    """The open transactions of each partition that answered."""
    producers, _ = await _producers(admin, partitions)
    return {
        partition: {producer_state.txn_identity for producer_state in producer_states}
        for partition, producer_states in producers.items()
    }


# What a coordinator had written down of a transactional id, read from ``__transaction_state`` of a
# running cluster as any consumer may: there stands what was decided about transactions that it has
# long forgotten. It needs the right to read that topic.

BEFORE_MS: Final = 3_600_000
"""The log is read from this many ms before the last write: clocks differ, and a late record may
follow the decision.
"""
RECORDS_MAX: Final = 1_000_000
"""Limit of one search; for more records, search the disks (``txnsim logs find-hanging``)."""


async def read_coordinator_records(
    cluster: Cluster, transactional_id: str, *, since_ms: int
) -> tuple[CoordinatorRecord, ...]:
    """The coordinator's log records about an id since a time, oldest first.

    Returns:
        The records; none if the log is too long, or can't be read to its end.

    Raises:
        ClientError: This user may not read it.
    """
    try:
        topic_view = (await cluster.refresh((TRANSACTION_STATE_TOPIC,))).topic(
            TRANSACTION_STATE_TOPIC
        )
        if topic_view is not None and topic_view.error:
            raise ClientError("the log may not be described", error=ErrorCode(topic_view.error))
        if topic_view is None or not topic_view.partitions:
            return ()
        index = partition_for(transactional_id, len(topic_view.partitions))
        partition = TopicPartition(TRANSACTION_STATE_TOPIC, index)
        return await _read_coordinator_log(cluster, partition, transactional_id, since_ms=since_ms)
    except (ClientError, CorruptLogRecordError) as failure:
        if (
            isinstance(failure, ClientError)
            and failure.error == ErrorCode.topic_authorization_failed
        ):
            raise
        return ()  # the state of the coordinator is what is left


async def _read_coordinator_log(
    cluster: Cluster, partition: TopicPartition, transactional_id: str, *, since_ms: int
) -> tuple[CoordinatorRecord, ...]:
    record_key = encode_key(TransactionalId(transactional_id))
    # -1 where nothing is as late
    offset = await offset_of(cluster, partition, since_ms if since_ms > 0 else EARLIEST_TIMESTAMP)
    records_read = 0
    coordinator_records: list[CoordinatorRecord] = []
    while offset >= 0:
        fetch_result = await fetch(
            cluster,
            partition.topic,
            partition.partition,
            offset,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=0,
        )
        for log_record in fetch_result.records:
            if log_record.key == record_key:
                transition = decode_record(record_key, log_record.value, release_rules=LATEST_RULES)
                if isinstance(transition, TxnTransition):
                    coordinator_records.append(CoordinatorRecord.of_transition(transition))
        records_read += len(fetch_result.records)
        if fetch_result.next_offset == offset:
            break
        if records_read > RECORDS_MAX:
            return ()
        offset = fetch_result.next_offset
    return tuple(coordinator_records)
