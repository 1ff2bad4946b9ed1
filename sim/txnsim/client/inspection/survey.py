"""The open transactions of a whole cluster, judged: ``find-hanging --all``.

It asks every partition's leader for open transactions, and every coordinator what it knows of them
(KIP-664). Both can't be asked at one moment: a transaction may end in between, and would look as if
it had no coordinator. So each leader is asked again for the transactions that seem to hang, and the
survey reports only those that are still open there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.client._txn_admin import TransactionAdmin, batches
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.inspection._partition_markers import fetch_markers
from txnsim.client.inspection.coordinators_asked import asked_while_all_serve, check_sight
from txnsim.client.inspection.hanging import (
    MAX_TRANSACTION_TIMEOUT_MS,
    OpenTransaction,
    producer_ids,
)
from txnsim.client.inspection.judgement import JudgedTransaction, judge
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.offsets import EARLIEST, offset_of
from txnsim.errors import CorruptLogRecordError, ErrorCode
from txnsim.releases.rules import LATEST
from txnsim.txn.log_format import decode_record, encode_key
from txnsim.txn.marker_payment import DueDecisions, Noted
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import Decided, Decision
from txnsim.txn.state import TxnTransition
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
    partition_for,
)

ANY_AGE: Final = -(1 << 62)
"""Milliseconds: even what a producer dates to the future is older."""

Progress = Callable[[int, int], None]
"""(partitions asked about, of how many)."""


def _no_progress(_done: int, _total: int) -> None:
    """Progress that goes nowhere."""


_NO_PROGRESS: Final[Progress] = _no_progress


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a survey."""

    partitions: int
    """How many partitions the survey has looked at."""
    findings: tuple[JudgedTransaction, ...]
    """The open transactions without a write for ``older_than_ms``, oldest write first."""
    unread: Mapping[TopicPartition, ClientError]

    @property
    def hanging(self) -> tuple[JudgedTransaction, ...]:
        """Those that no marker will end."""
        return tuple(one for one in self.findings if one.verdict is OpenTxnStatus.HANGING)


async def survey(
    admin: TransactionAdmin,
    *,
    now_ms: int,
    partitions: Sequence[TopicPartition] | None = None,
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    progress: Progress = _NO_PROGRESS,
) -> Survey:
    """Look at every partition.

    Args:
        admin: The cluster.
        now_ms: The wall clock to measure ages by.
        partitions: These alone; all, those of internal topics included, unless given.
        older_than_ms: Transactions with a younger write are not looked at.
        progress: Called after each request to the leaders.

    Raises:
        ClientError: Topics could not be listed, or a coordinator did not answer, or the client may
            not list all transactional ids: the transactions of the others would seem to hang.
    """
    wanted = await admin.partitions_to_search() if partitions is None else list(partitions)
    found: list[OpenTransaction] = []
    unread: dict[TopicPartition, ClientError] = {}
    done = 0
    for batch in batches(wanted):
        producers, failures = await _producers(admin, batch)
        unread.update(failures)
        found += OpenTransaction.candidates(
            producers, now_ms=now_ms, max_transaction_timeout_ms=older_than_ms
        )
        done += len(batch)
        progress(done, len(wanted))
    findings: tuple[JudgedTransaction, ...] = ()
    if found:
        judged = judge(found, *await admin.known_to_coordinators(producer_ids(found)))
        if any(one.verdict is OpenTxnStatus.HANGING for one in judged):
            await check_sight(admin.cluster)
            judged = judge(found, *await asked_while_all_serve(admin, producer_ids(found)))
        gone = await _ended_meanwhile(admin, judged)
        findings = tuple(
            [await _with_decision(admin, one) for one in judged if one.transaction not in gone]
        )
    return Survey(
        partitions=len(wanted),
        findings=tuple(sorted(findings, key=_age)),
        unread=unread,
    )


async def hanging_ones(admin: TransactionAdmin, *, now_ms: int) -> tuple[JudgedTransaction, ...]:
    """What hangs in a cluster, however young.

    Raises:
        ClientError: As of ``survey``; or nothing hangs where a leader answered, and one did not.
    """
    found = await survey(admin, now_ms=now_ms, older_than_ms=ANY_AGE)
    if found.unread and not found.hanging:
        raise next(iter(found.unread.values()))
    return found.hanging


async def _with_decision(admin: TransactionAdmin, one: JudgedTransaction) -> JudgedTransaction:
    """What was decided about one that hangs, by its coordinator's log where that tells it."""
    if one.verdict is not OpenTxnStatus.HANGING or one.transactional_id is None:
        return one
    producer = one.transaction.producer
    partition = one.transaction.partition
    assert producer.txn_start_offset is not None, "it is open"
    due = None
    try:
        # Where the last hour has no decision, all that the log has.
        for since_ms in (producer.last_timestamp_ms - BEFORE_MS, 0):
            log = await noted(admin.cluster, one.transactional_id, since_ms=since_ms)
            due = DueDecisions.on(partition, producer.producer_id, producer.producer_epoch, log)
            if due is not None:
                break
    except ClientError:
        if one.decided is None or one.decided.decision is not Decision.UNKNOWN:
            return one
        without = msgspec.structs.replace(one.decided, lacks_right=True)
        return msgspec.structs.replace(one, decided=without)
    if due is None:
        return one
    markers = await fetch_markers(
        admin.cluster,
        partition,
        producer.producer_id,
        before_offset=producer.txn_start_offset,
        since_ms=due.since_ms,
    )
    return msgspec.structs.replace(
        one, decided=Decided.by_log(due, markers, last_write_ms=producer.last_timestamp_ms)
    )


def _age(finding: JudgedTransaction) -> tuple[int, TopicPartition]:
    return finding.transaction.producer.last_timestamp_ms, finding.transaction.partition


async def _producers(
    admin: TransactionAdmin, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[ProducerState, ...]], dict[TopicPartition, ClientError]]:
    producers: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    failures: dict[TopicPartition, ClientError] = {}
    for partition, outcome in (await admin.describe_producers(partitions)).items():
        if isinstance(outcome, ClientError):
            failures[partition] = outcome
        else:
            producers[partition] = outcome
    return producers, failures


async def _ended_meanwhile(
    admin: TransactionAdmin, findings: Sequence[JudgedTransaction]
) -> frozenset[OpenTransaction]:
    """Transactions judged as hanging that have ended since the survey."""
    seeming = [one.transaction for one in findings if one.verdict is OpenTxnStatus.HANGING]
    asked = tuple(dict.fromkeys(one.partition for one in seeming))
    gone: set[OpenTransaction] = set()
    for batch in batches(asked):
        producers, _ = await _producers(admin, batch)
        gone.update(
            one
            for one in seeming
            if one.partition in producers
            and not any(one.is_that_of(row) for row in producers[one.partition])
        )
    return frozenset(gone)


# What a coordinator had written down of a transactional id, read from ``__transaction_state`` of a
# running cluster as any consumer may: there stands what was decided about transactions that it has
# long forgotten. It needs the right to read that topic.

BEFORE_MS: Final = 3_600_000
"""From so long before the last write on: clocks differ, and a late record is decided before."""
RECORDS_MAX: Final = 1_000_000
"""Of one search; with more to read, use the disks (``txnsim logs find-hanging``)."""


async def noted(cluster: Cluster, transactional_id: str, *, since_ms: int) -> tuple[Noted, ...]:
    """What the coordinator wrote down of an id since a time, oldest first.

    Returns:
        Nothing where the log is too long, or can't be read to its end.

    Raises:
        ClientError: This user may not read it.
    """
    try:
        view = (await cluster.refresh((TRANSACTION_STATE_TOPIC,))).topic(TRANSACTION_STATE_TOPIC)
        if view is not None and view.error:
            raise ClientError("the log may not be described", error=ErrorCode(view.error))
        if view is None or not view.partitions:
            return ()
        index = partition_for(transactional_id, len(view.partitions))
        place = TopicPartition(TRANSACTION_STATE_TOPIC, index)
        return await _read(cluster, place, transactional_id, since_ms=since_ms)
    except (ClientError, CorruptLogRecordError) as failure:
        if (
            isinstance(failure, ClientError)
            and failure.error == ErrorCode.topic_authorization_failed
        ):
            raise
        return ()  # the state of the coordinator is what is left


async def _read(
    cluster: Cluster, place: TopicPartition, transactional_id: str, *, since_ms: int
) -> tuple[Noted, ...]:
    key = encode_key(TransactionalId(transactional_id))
    # -1 where nothing is as late
    offset = await offset_of(cluster, place, since_ms if since_ms > 0 else EARLIEST)
    seen = 0
    found: list[Noted] = []
    while offset >= 0:
        result = await fetch(
            cluster,
            place.topic,
            place.partition,
            offset,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=0,
        )
        for record in result.records:
            if record.key == key:
                entry = decode_record(key, record.value, rules=LATEST)
                if isinstance(entry, TxnTransition):
                    found.append(_noted(entry))
        seen += len(result.records)
        if result.next_offset == offset:
            break
        if seen > RECORDS_MAX:
            return ()
        offset = result.next_offset
    return tuple(found)


def _noted(entry: TxnTransition) -> Noted:
    return Noted(
        state=entry.state.wire_name,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        partitions=entry.partitions,
        is_v2=entry.client_version >= 2,
        timestamp_ms=entry.last_update_timestamp_ms,
        start_timestamp_ms=entry.start_timestamp_ms
        if entry.start_timestamp_ms >= 0
        else entry.last_update_timestamp_ms,
    )
