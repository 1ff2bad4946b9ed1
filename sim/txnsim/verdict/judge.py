"""The judge: what is known of a cluster, to a verdict on each partition and on the whole. Pure.

The verdict on a single open transaction is ``OpenTxnStatus.judge``: leader against coordinator, as
in KIP-664. Here stands what it means for readers, who waits, and what will end it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.shell_text import ShellText
from txnsim.txn.open_txn_verdict import DECIDED_STATES, PROGRAM, OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence
from txnsim.txn.state import TIMEOUT_NEVER_MS
from txnsim.types import TopicPartition
from txnsim.verdict import words
from txnsim.verdict.facts import (
    ClusterFacts,
    MarkerSending,
    OpenTxnFacts,
    OwedMarkerFacts,
    PartitionFacts,
    ShareGroupFacts,
    TransactionFacts,
    WrongData,
)
from txnsim.verdict.reader_standing import (
    BlockingTxn,
    Cause,
    ReaderStanding,
    blocking_txn_of,
    cause_of_standing,
)
from txnsim.wire.codec import run_to_end


class VerdictState(StrEnum):
    """The verdict in a word, the least grave first."""

    HEALTHY = "healthy"
    """Nothing is open."""
    OPEN = "open"
    """A transaction is open, and its producer or its timeout ends it."""
    WAITS = "waits"
    """Something has to happen first: a marker, a coordinator, replication."""
    UNKNOWN = "unknown"
    """What is so now is not known."""
    WRONG_DATA = "wrong-data"
    """Readers get records of a transaction that was aborted, or lack those of a committed one."""
    NO_LEADER = "no-leader"
    """Clients can't read or write, and nothing can be ended."""
    HANGS = "hangs"
    """A transaction is open that no marker will end."""

    @property
    def gravity(self) -> int:
        """Rank among the states; the gravest has the highest."""
        return _GRAVITIES[self]


_PARTITION_ELEMENTS: Final = 4
"""A partition counts for so many elements of a request that is handled in slices."""
_GRAVITIES: Final = {state: rank for rank, state in enumerate(VerdictState)}


class EndsBy(StrEnum):
    """What will end a transaction, or the wait of readers."""

    PRODUCER = "producer"
    """Its producer, or its coordinator at the moment of its timeout."""
    EXTERNAL_COORDINATOR = "external coordinator"
    """Of two-phase commit (KIP-939)."""
    MARKER = "marker"
    COORDINATOR = "coordinator"
    """Its coordinator, once it serves."""
    LEADER = "leader"
    REPLICATION = "replication"
    OPERATOR = "operator"
    """It does not heal by itself."""
    NOTHING = "nothing"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What will end the open transaction."""

    by: EndsBy
    sentence: str
    at_ms: int | None = None
    """Wall clock time of the timeout, or of the marker's next attempt; None if there is none, or it
    is unknown.
    """
    command: ShellText | None = None
    """The command of an operator."""
    marker: str | None = None
    """The marker that the command writes, ``COMMIT`` or ``ABORT``; None if there is no command, or
    what was decided is unknown.
    """
    action: str = ""
    """What a button says that does the same; empty if there is no command."""


class OpenTxnVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an open transaction of a partition."""

    state: VerdictState
    headline: str
    status: OpenTxnStatus
    """Its state in KIP-664's comparison; ``unknown`` while its coordinator does not serve."""
    reason: str
    """The reason of the status, as a sentence without its full stop."""
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    first_offset: int
    since_ms: int | None
    """Timestamp of its first batch; None if that is deleted or unknown."""
    coordinator_id: int | None
    coordinator_state: str | None
    ends: Ending
    decided: DecisionEvidence | None = None
    """The decision whose marker a hanging transaction lacks."""
    is_two_phase: bool = False


class PartitionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether readers of a partition advance, what holds them back, and what will end it."""

    partition: str
    state: VerdictState
    headline: str
    cause: Cause
    """What holds readers back."""
    leader_id: int
    """-1 for none."""
    is_leader_up: bool
    stands_at: int | None
    """The offset at which read_committed readers stand or to which they get; None without a
    leader.
    """
    log_start: int | None
    high_watermark: int | None
    records_behind: int
    """Offsets that are written and that readers don't get."""
    holder: OpenTxnVerdict | None = None
    """The open transaction at which readers stand."""
    open_txns: tuple[OpenTxnVerdict, ...] = ()
    """All that are open, by their first offset."""
    readers: tuple[str, ...] | None = None
    """Clients that wait behind it; None if unknown."""
    share_groups: tuple[ShareGroupFacts, ...] | None = None
    """Share groups that wait behind it; None if unknown."""
    wrong_data: tuple[WrongData, ...] = ()
    ends: Ending | None = None
    """What will end the gravest trouble; None if there is none."""
    standing: str = "move"
    """Where readers stand, in a word or two (``words.standing_word``)."""
    holder_mark: str = ""
    """What a picture has at the batch at which readers stop; empty if no transaction holds them."""
    reader_mark: str = ""
    """The label of the readers: who waits, or that they get everything. Empty for an empty log."""
    summary: str = ""
    """Since when readers stand, how much is withheld, who waits; empty if no transaction holds
    them.
    """
    sentences: tuple[str, ...] = ()
    """The whole explanation."""
    advice: str = ""
    """What to do, without a command that repairs: the beginning of one of the sentences. Empty if
    no transaction holds readers.
    """


class UnfinishedTxn(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that its coordinator has not finished, and that no partition has open."""

    transactional_id: str
    state: VerdictState
    headline: str
    coordinator_state: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a cluster."""

    state: VerdictState
    headline: str
    at_ms: int
    """Wall clock time."""
    partitions: tuple[PartitionVerdict, ...] = ()
    """The gravest first, then by name."""
    unfinished: tuple[UnfinishedTxn, ...] = ()

    def of(self, partition: TopicPartition) -> PartitionVerdict | None:
        """The verdict on one partition; None if nothing is known of it."""
        name = str(partition)
        return next((verdict for verdict in self.partitions if verdict.partition == name), None)


def judge_cluster(facts: ClusterFacts, *, program: ShellText = PROGRAM) -> Verdict:
    """Judge a cluster.

    Args:
        facts: What is known of it.
        program: How ``txnsim txns`` is called for it, for commands in sentences.
    """
    return run_to_end(judging_steps(facts, program=program))


def judging_steps(
    facts: ClusterFacts, *, program: ShellText = PROGRAM
) -> Generator[int, None, Verdict]:
    """Judge a cluster step by step, for a loop that has other work
    (``runtime.loop_turns.Pace.run``).

    Yields:
        How many elements were judged: after each open transaction and each partition.
    """
    if facts.ignorance is not None:
        return Verdict(
            state=VerdictState.UNKNOWN,
            headline=words.ignorance_headline(facts.ignorance),
            at_ms=facts.now_ms,
        )
    cluster_view = _ClusterView(facts, program)
    partitions = []
    for partition in facts.partitions:
        partitions.append((yield from cluster_view.judge_partition_in_steps(partition)))
        yield _PARTITION_ELEMENTS
    partitions.sort(key=lambda verdict: (-verdict.state.gravity, verdict.partition))
    unfinished_txns = yield from cluster_view.unfinished_in_steps()
    judged_items: list[PartitionVerdict | UnfinishedTxn] = [*partitions, *unfinished_txns]
    gravest_item = max(
        judged_items, key=lambda judged_item: judged_item.state.gravity, default=None
    )
    is_healthy = gravest_item is None or gravest_item.state is VerdictState.HEALTHY
    return Verdict(
        state=VerdictState.HEALTHY if gravest_item is None else gravest_item.state,
        headline=words.healthy_headline()
        if gravest_item is None or is_healthy
        else gravest_item.headline,
        at_ms=facts.now_ms,
        partitions=tuple(partitions),
        unfinished=unfinished_txns,
    )


def judge_partition(
    partition: PartitionFacts, facts: ClusterFacts, *, program: ShellText = PROGRAM
) -> PartitionVerdict:
    return run_to_end(_ClusterView(facts, program).judge_partition_in_steps(partition))


def untold_verdict(partition: PartitionFacts, sentences: Sequence[str]) -> PartitionVerdict:
    """The verdict on a partition whose readers stand still, where brokers can't tell why.

    Args:
        partition: The partition.
        sentences: What the log tells (``words.untold_sentences``).
    """
    stands_at, high_watermark = partition.last_stable_offset, partition.high_watermark
    return PartitionVerdict(
        partition=str(partition.partition),
        state=VerdictState.UNKNOWN,
        headline=words.untold_headline(partition.partition),
        cause=Cause.UNTOLD,
        standing=words.standing_word(
            state=VerdictState.UNKNOWN,
            is_led=True,
            holder_age_ms=None,
            is_alive=False,
            stands_at=stands_at,
        ),
        leader_id=partition.leader_id,
        is_leader_up=True,
        stands_at=stands_at,
        log_start=partition.log_start,
        high_watermark=high_watermark,
        records_behind=high_watermark - stands_at,
        sentences=(words.withheld_sentence(stands_at, high_watermark), *sentences),
    )


def judge_open_txns(
    facts: ClusterFacts, *, program: ShellText = PROGRAM
) -> Iterator[tuple[PartitionFacts, OpenTxnVerdict]]:
    """The verdicts on all open transactions of partitions with a leader, made one at a time: by the
    partition's name, and by their first offset.
    """
    cluster_view = _ClusterView(facts, program)
    for partition in sorted(facts.partitions, key=lambda facts: str(facts.partition)):
        if not partition.is_led:
            continue
        blocking_txn = blocking_txn_of(partition)
        for open_txn in sorted(partition.open_txns, key=lambda txn: txn.first_offset):
            yield (
                partition,
                cluster_view.judge_open(open_txn, partition, is_holder=open_txn is blocking_txn),
            )


def judge_open_txn(
    open_txn: OpenTxnFacts,
    partition: TopicPartition,
    transaction: TransactionFacts | None,
    unserved_coordinators: Sequence[int] = (),
) -> tuple[OpenTxnStatus, str]:
    """The verdict on one open transaction and its reason, a sentence without its full stop.

    Args:
        open_txn: The transaction, as the leader has it.
        partition: The partition.
        transaction: The transaction of its producer id, of all coordinators that serve; None if
            none of them knows it.
        unserved_coordinators: Partitions of ``__transaction_state`` whose coordinator does not
            serve.
    """
    if transaction is None and unserved_coordinators:
        return OpenTxnStatus.UNKNOWN, words.unserved_reason(
            open_txn.producer_id, unserved_coordinators
        )
    return OpenTxnStatus.judge(
        open_txn.producer_id,
        open_txn.producer_epoch,
        None if transaction is None else transaction.transactional_id,
        None if transaction is None else transaction.view_of(partition, open_txn.producer_epoch),
    )


class _ClusterView:
    """The facts of a cluster, by what a verdict asks for."""

    def __init__(self, facts: ClusterFacts, program: ShellText) -> None:
        self._facts = facts
        self._program = program
        self._transactions = {
            transaction.producer_id: transaction
            for transaction in facts.transactions
            if transaction.producer_id >= 0
        }
        self._owed_markers = {
            (owed_marker.transactional_id, owed_marker.partition): owed_marker
            for owed_marker in facts.owed_markers
        }
        self._repair_endings: dict[tuple[TopicPartition, str | None], Ending] = {}
        self._wrong_data: dict[TopicPartition, list[WrongData]] = {}
        for contradiction in facts.wrong_data:
            self._wrong_data.setdefault(contradiction.partition, []).append(contradiction)

    def judge_partition_in_steps(
        self, partition: PartitionFacts
    ) -> Generator[int, None, PartitionVerdict]:
        wrong_data = tuple(
            contradiction
            for contradiction in self._wrong_data.get(partition.partition, ())
            if contradiction.offset >= partition.log_start
        )
        if not partition.is_led:
            return _leaderless(partition, wrong_data)
        blocking_txn = blocking_txn_of(partition)
        open_txns: list[OpenTxnVerdict] = []
        blocking_verdict = gravest_verdict = None
        for open_txn in sorted(partition.open_txns, key=lambda txn: txn.first_offset):
            verdict = self.judge_open(open_txn, partition, is_holder=open_txn is blocking_txn)
            open_txns.append(verdict)
            if open_txn is blocking_txn:
                blocking_verdict = verdict
            if gravest_verdict is None or verdict.state.gravity > gravest_verdict.state.gravity:
                gravest_verdict = verdict
            yield 1
        cause = cause_of_standing(
            partition, None if blocking_verdict is None else blocking_verdict.status
        )
        is_held = blocking_verdict is not None
        state, headline, ending = _partition_state(partition, cause, gravest_verdict, wrong_data)
        reader_standing = self._standing(
            partition, cause, blocking_txn, blocking_verdict, len(open_txns)
        )
        return PartitionVerdict(
            partition=str(partition.partition),
            state=state,
            headline=headline,
            cause=cause,
            leader_id=partition.leader_id,
            is_leader_up=True,
            stands_at=partition.last_stable_offset,
            log_start=partition.log_start,
            high_watermark=partition.high_watermark,
            records_behind=max(0, partition.high_watermark - partition.last_stable_offset),
            holder=blocking_verdict,
            open_txns=tuple(open_txns),
            readers=partition.readers if is_held or partition.readers is None else (),
            share_groups=(
                partition.share_groups if is_held or partition.share_groups is None else ()
            ),
            wrong_data=wrong_data,
            ends=ending,
            standing=self._standing_word(partition, state, cause, blocking_verdict),
            holder_mark=(
                ""
                if blocking_verdict is None
                else words.holder_mark(is_hanging=blocking_verdict.status is OpenTxnStatus.HANGING)
            ),
            reader_mark=_reader_mark(partition, cause, blocking_verdict),
            summary="" if blocking_verdict is None else self._summary(partition, blocking_verdict),
            sentences=(
                *(f"{words.wrong_data_headline(contradiction)}." for contradiction in wrong_data),
                *((words.WRONG_DATA_ENDS,) if wrong_data else ()),
                *words.standing_sentences(reader_standing),
            ),
            advice=words.standing_advice(reader_standing),
        )

    def _standing_word(
        self,
        partition: PartitionFacts,
        state: VerdictState,
        cause: Cause,
        blocking_verdict: OpenTxnVerdict | None,
    ) -> str:
        since_ms = None if blocking_verdict is None else blocking_verdict.since_ms
        return words.standing_word(
            state=state,
            is_led=True,
            holder_age_ms=None if since_ms is None else self._facts.now_ms - since_ms,
            is_alive=blocking_verdict is not None
            and blocking_verdict.status is OpenTxnStatus.ALIVE,
            stands_at=None if cause is Cause.NOTHING else partition.last_stable_offset,
        )

    def _summary(self, partition: PartitionFacts, blocking_verdict: OpenTxnVerdict) -> str:
        since_ms, groups = blocking_verdict.since_ms, partition.share_groups
        return words.standing_summary(
            age_ms=None if since_ms is None else self._facts.now_ms - since_ms,
            records_behind=max(0, partition.high_watermark - partition.last_stable_offset),
            readers=partition.readers,
            share_groups=None if groups is None else [group.group_id for group in groups],
        )

    def judge_open(
        self, open_txn: OpenTxnFacts, partition: PartitionFacts, *, is_holder: bool
    ) -> OpenTxnVerdict:
        transaction = self._transactions.get(open_txn.producer_id)
        status, reason = judge_open_txn(
            open_txn, partition.partition, transaction, self._facts.unserved_coordinators
        )
        transactional_id = None if transaction is None else transaction.transactional_id
        is_two_phase = (
            status is OpenTxnStatus.ALIVE
            and transaction is not None
            and transaction.view_of(partition.partition, open_txn.producer_epoch).is_two_phase
        )
        txn_name = words.transaction_name(transactional_id, open_txn.producer_id)
        first_offset = open_txn.first_offset
        match status:
            case OpenTxnStatus.HANGING:
                state = VerdictState.HANGS
                headline = words.hanging_headline(
                    transactional_id,
                    open_txn.producer_id,
                    partition.partition,
                    first_offset=first_offset,
                    log_start=partition.log_start,
                    stands_at=partition.last_stable_offset if is_holder else None,
                )
                ending = self._repair_ending(partition.partition, open_txn.decided)
            case OpenTxnStatus.DECIDED:
                state = VerdictState.WAITS
                owed_marker = self._owed_markers.get((transactional_id or "", partition.partition))
                headline = words.owed_headline(txn_name, partition.partition, owed_marker)
                ending = _marker_ending(owed_marker)
            case OpenTxnStatus.ALIVE:
                state = VerdictState.OPEN
                headline = words.open_headline(
                    transactional_id,
                    open_txn.producer_id,
                    partition.partition,
                    first_offset=first_offset,
                    log_start=partition.log_start,
                )
                assert transaction is not None, "without a transaction it is not alive"
                ending = _producer_ending(transaction, is_two_phase=is_two_phase)
            case _:
                state = VerdictState.WAITS
                unserved_coordinators = self._facts.unserved_coordinators
                headline = words.unserved_headline(
                    txn_name, partition.partition, unserved_coordinators
                )
                ending = Ending(
                    by=EndsBy.COORDINATOR, sentence=words.unserved_ends(unserved_coordinators)
                )
        return OpenTxnVerdict(
            state=state,
            headline=headline,
            status=status,
            reason=reason,
            producer_id=open_txn.producer_id,
            producer_epoch=open_txn.producer_epoch,
            transactional_id=transactional_id,
            first_offset=first_offset,
            since_ms=open_txn.since_ms,
            coordinator_id=None if transaction is None else transaction.coordinator_id,
            coordinator_state=None if transaction is None else transaction.state,
            ends=ending,
            decided=open_txn.decided if status is OpenTxnStatus.HANGING else None,
            is_two_phase=is_two_phase,
        )

    def _repair_ending(
        self, partition: TopicPartition, decision_evidence: DecisionEvidence | None
    ) -> Ending:
        """What ends a hanging transaction. A partition may have 100,000, and its command is the
        same for all.
        """
        marker = None if decision_evidence is None else decision_evidence.decision.marker or None
        ending = self._repair_endings.get((partition, marker))
        if ending is None:
            command = OpenTxnStatus.HANGING.repair_command(partition, program=self._program)
            assert command is not None, "a hanging transaction has a command"
            ending = self._repair_endings[partition, marker] = Ending(
                by=EndsBy.OPERATOR,
                sentence=words.REPAIR_ENDS,
                command=command,
                marker=marker,
                action=words.repair_action(marker),
            )
        return ending

    def _standing(
        self,
        partition: PartitionFacts,
        cause: Cause,
        open_txn: OpenTxnFacts | None,
        blocking_verdict: OpenTxnVerdict | None,
        open_count: int,
    ) -> ReaderStanding:
        blocking_txn = None
        if open_txn is not None and blocking_verdict is not None:
            blocking_txn = BlockingTxn(
                producer_id=open_txn.producer_id,
                producer_epoch=open_txn.producer_epoch,
                quiet_ms=self._facts.now_ms - open_txn.last_write_ms,
                verdict=blocking_verdict.status,
                reason=blocking_verdict.reason,
                transactional_id=blocking_verdict.transactional_id,
                coordinator_id=blocking_verdict.coordinator_id,
                is_two_phase=blocking_verdict.is_two_phase,
                decided=blocking_verdict.decided,
                owed_marker=self._owed_markers.get(
                    (blocking_verdict.transactional_id or "", partition.partition)
                ),
                is_beginning_deleted=open_txn.first_offset < partition.log_start,
            )
        return ReaderStanding(
            partition=partition.partition,
            cause=cause,
            last_stable_offset=partition.last_stable_offset,
            high_watermark=partition.high_watermark,
            blocking_txn=blocking_txn,
            later_open_count=open_count - 1,
            not_in_sync=[
                broker_id for broker_id in partition.replicas if broker_id not in partition.isr
            ],
            share_groups=(
                None
                if partition.share_groups is None
                else [(group.group_id, group.start_offset) for group in partition.share_groups]
            ),
            readers=partition.readers,
            program=self._program,
        )

    def unfinished_in_steps(self) -> Generator[int, None, tuple[UnfinishedTxn, ...]]:
        """Transactions that a coordinator has open or decided, and no partition has open."""
        unfinished_txns: list[UnfinishedTxn] = []
        open_producers = {
            open_txn.producer_id
            for partition in self._facts.partitions
            if partition.is_led
            for open_txn in partition.open_txns
        }
        for transaction in self._facts.transactions:
            yield 1
            is_decided = transaction.state in DECIDED_STATES
            if not is_decided and transaction.state != "Ongoing":
                continue
            if transaction.producer_id in open_producers:
                continue
            unfinished_txns.append(
                UnfinishedTxn(
                    transactional_id=transaction.transactional_id,
                    state=VerdictState.WAITS if is_decided else VerdictState.OPEN,
                    headline=words.unfinished_headline(
                        transaction.transactional_id,
                        transaction.state,
                        is_decided=is_decided,
                        partitions=[str(name) for name in sorted(transaction.partitions)],
                    ),
                    coordinator_state=transaction.state,
                )
            )
        return tuple(unfinished_txns)


def _partition_state(
    partition: PartitionFacts,
    cause: Cause,
    gravest_verdict: OpenTxnVerdict | None,
    wrong_data: Sequence[WrongData],
) -> tuple[VerdictState, str, Ending | None]:
    """State, headline and end of a partition with a leader."""
    if wrong_data and (gravest_verdict is None or gravest_verdict.state is not VerdictState.HANGS):
        ending = Ending(by=EndsBy.NOTHING, sentence=words.WRONG_DATA_ENDS)
        return VerdictState.WRONG_DATA, words.wrong_data_headline(wrong_data[-1]), ending
    if gravest_verdict is not None:
        return gravest_verdict.state, gravest_verdict.headline, gravest_verdict.ends
    if cause is Cause.NOTHING:
        return VerdictState.HEALTHY, words.healthy_headline(partition.partition), None
    ending = Ending(by=EndsBy.REPLICATION, sentence=words.REPLICATION_ENDS)
    return VerdictState.WAITS, words.replication_headline(partition.partition), ending


def _reader_mark(partition: PartitionFacts, cause: Cause, holder: OpenTxnVerdict | None) -> str:
    if holder is not None:
        return words.reader_mark(partition.readers)
    is_free = cause is Cause.NOTHING and partition.high_watermark > partition.log_start
    return words.READERS_AT_END if is_free else ""


def _leaderless(partition: PartitionFacts, wrong_data: tuple[WrongData, ...]) -> PartitionVerdict:
    return PartitionVerdict(
        partition=str(partition.partition),
        state=VerdictState.NO_LEADER,
        headline=words.leaderless_headline(partition),
        cause=Cause.OFFLINE,
        standing=words.standing_word(
            state=VerdictState.NO_LEADER,
            is_led=False,
            holder_age_ms=None,
            is_alive=False,
            stands_at=None,
        ),
        leader_id=partition.leader_id,
        is_leader_up=False,
        stands_at=None,
        log_start=None,
        high_watermark=None,
        records_behind=0,
        wrong_data=wrong_data,
        ends=Ending(by=EndsBy.LEADER, sentence=words.leader_ends(partition)),
        sentences=(words.offline_sentence(partition),),
    )


_ENDS_OF_SENDING: Final[Mapping[MarkerSending, EndsBy]] = {
    MarkerSending.LEADERLESS: EndsBy.LEADER,
    MarkerSending.HELD: EndsBy.OPERATOR,
    MarkerSending.ABANDONED: EndsBy.OPERATOR,
}


def _marker_ending(owed_marker: OwedMarkerFacts | None) -> Ending:
    ends_by = (
        EndsBy.MARKER
        if owed_marker is None
        else _ENDS_OF_SENDING.get(owed_marker.sending, EndsBy.MARKER)
    )
    return Ending(
        by=ends_by,
        sentence=words.marker_ends(owed_marker),
        at_ms=None if owed_marker is None else owed_marker.sent_again_ms,
    )


def _producer_ending(transaction: TransactionFacts, *, is_two_phase: bool) -> Ending:
    has_timeout = transaction.started_ms is not None and transaction.timeout_ms != TIMEOUT_NEVER_MS
    return Ending(
        by=EndsBy.EXTERNAL_COORDINATOR if is_two_phase else EndsBy.PRODUCER,
        sentence=words.producer_ends(transaction.timeout_ms, is_two_phase=is_two_phase),
        at_ms=(transaction.started_ms or 0) + transaction.timeout_ms if has_timeout else None,
    )
