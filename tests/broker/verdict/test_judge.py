"""The judge: every state, what ends it, who waits; and what is no trouble."""

from __future__ import annotations

import msgspec
import pytest

from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence, PastDecision
from txnsim.types import TopicPartition
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
from txnsim.verdict.judge import (
    EndsBy,
    PartitionVerdict,
    Verdict,
    VerdictState,
    judge_cluster,
    judge_open_txns,
    judge_partition,
    judging_steps,
    untold_verdict,
)
from txnsim.verdict.reader_standing import Cause
from txnsim.verdict.words import application_sentence, untold_sentences

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
OPENED = OpenTxnFacts(
    producer_id=7, producer_epoch=0, first_offset=1, last_write_ms=1_000, since_ms=900
)
LOG = PartitionFacts(
    partition=HERE,
    leader_id=1,
    replicas=(1, 2),
    isr=(1, 2),
    last_stable_offset=1,
    high_watermark=3,
    open_txns=(OPENED,),
    readers=("reader",),
    share_groups=(ShareGroupFacts(group_id="g", start_offset=1),),
)
HEALTHY_LOG = msgspec.structs.replace(LOG, partition=THERE, open_txns=(), last_stable_offset=3)


def transaction(
    state: str, *partitions: TopicPartition, timeout_ms: int = 60_000
) -> TransactionFacts:
    return TransactionFacts(
        transactional_id="app",
        coordinator_id=2,
        state=state,
        producer_id=7,
        producer_epoch=0,
        partitions=frozenset(partitions),
        timeout_ms=timeout_ms,
        started_ms=500,
    )


ONGOING = transaction("Ongoing", HERE)
PREPARED = transaction("PrepareCommit", HERE)


def owed(sending: MarkerSending, held_by: str | None = None) -> OwedMarkerFacts:
    return OwedMarkerFacts(
        transactional_id="app",
        partition=HERE,
        is_commit=True,
        sending=sending,
        held_by=held_by,
        sent_again_ms=31_000 if sending is MarkerSending.RETRIED else None,
    )


def cluster(log: PartitionFacts = LOG, **changes: object) -> ClusterFacts:
    facts = ClusterFacts(now_ms=4_000, partitions=(HEALTHY_LOG, log))
    return msgspec.structs.replace(facts, **changes)


def verdict_on(facts: ClusterFacts) -> tuple[Verdict, PartitionVerdict]:
    verdict = judge_cluster(facts)
    partition = verdict.of(HERE)
    assert partition is not None
    assert partition == judge_partition(facts.partitions[-1], facts)
    assert verdict.partitions[0] == partition or partition.state is VerdictState.HEALTHY
    return verdict, partition


def test_each_open_transaction_is_a_step() -> None:
    """100,000 of one partition were one step of the loop."""
    open_txns = tuple(
        msgspec.structs.replace(OPENED, producer_id=number, first_offset=number)
        for number in range(1, 51)
    )
    facts = cluster(msgspec.structs.replace(LOG, open_txns=open_txns), transactions=(ONGOING,) * 20)
    steps = judging_steps(facts)
    finished_counts = list(steps)
    assert len(finished_counts) >= 50 + 20
    assert max(finished_counts) < 10
    partition = judge_cluster(facts).of(HERE)
    assert partition is not None
    assert partition.open_txns == tuple(verdict for _, verdict in judge_open_txns(facts))


def test_nothing_open_is_healthy() -> None:
    verdict, partition = verdict_on(cluster(msgspec.structs.replace(HEALTHY_LOG, partition=HERE)))
    assert (verdict.state, verdict.headline) == (
        VerdictState.HEALTHY,
        "No transaction holds readers back",
    )
    assert (partition.stands_at, partition.records_behind, partition.ends) == (3, 0, None)
    assert partition.readers == (), "a reader at the end waits for nobody"
    assert partition.share_groups == ()
    assert verdict.of(TopicPartition("gone", 0)) is None
    assert judge_cluster(ClusterFacts(now_ms=0)).state is VerdictState.HEALTHY


def test_an_open_transaction_ends_with_its_producer_or_at_its_timeout() -> None:
    verdict, partition = verdict_on(cluster(transactions=(ONGOING,)))
    assert verdict.state is VerdictState.OPEN
    assert verdict.headline == "app is open on t-0 since offset 1"
    assert partition.ends is not None
    assert (partition.ends.by, partition.ends.at_ms) == (EndsBy.PRODUCER, 60_500)
    assert (partition.stands_at, partition.records_behind) == (1, 2)
    assert (partition.readers, partition.cause) == (("reader",), Cause.ALIVE)
    assert partition.holder is not None
    assert (partition.holder.since_ms, partition.holder.coordinator_state) == (900, "Ongoing")
    assert partition.sentences[3] == "Consumers that wait: reader."


def test_a_fence_that_is_being_written_ends_the_transaction_before() -> None:
    fenced_txn_facts = msgspec.structs.replace(ONGOING, producer_epoch=1)
    assert judge_cluster(cluster(transactions=(fenced_txn_facts,))).state is VerdictState.HANGS
    ending_txn_facts = msgspec.structs.replace(fenced_txn_facts, is_ending=True)
    assert judge_cluster(cluster(transactions=(ending_txn_facts,))).state is VerdictState.OPEN


def test_two_phase_commit_has_no_timeout() -> None:
    endless_txn_facts = transaction("Ongoing", HERE, timeout_ms=2**31 - 1)
    ends = verdict_on(cluster(transactions=(endless_txn_facts,)))[1].ends
    assert ends is not None
    assert (ends.by, ends.at_ms) == (EndsBy.EXTERNAL_COORDINATOR, None)
    assert "no timeout" in ends.sentence


@pytest.mark.parametrize(
    ("marker", "ends_by", "at_ms", "headline"),
    [
        (None, EndsBy.MARKER, None, "t-0 waits for the marker of app"),
        (owed(MarkerSending.UNTOLD), EndsBy.MARKER, None, "t-0 waits for the COMMIT marker of app"),
        (
            owed(MarkerSending.UNDER_WAY),
            EndsBy.MARKER,
            None,
            "t-0 waits for the COMMIT marker of app",
        ),
        (
            owed(MarkerSending.RETRIED),
            EndsBy.MARKER,
            31_000,
            "t-0 waits for the COMMIT marker of app, which its coordinator sends again",
        ),
        (
            owed(MarkerSending.LEADERLESS),
            EndsBy.LEADER,
            None,
            "t-0 waits for the COMMIT marker of app",
        ),
        (
            owed(MarkerSending.HELD, "late"),
            EndsBy.OPERATOR,
            None,
            "t-0 waits for the COMMIT marker of app, which the fault rule 'late' holds",
        ),
        (
            owed(MarkerSending.ABANDONED),
            EndsBy.OPERATOR,
            None,
            "t-0 waits for the COMMIT marker of app, which its coordinator does not send again",
        ),
    ],
)
def test_a_decided_transaction_waits_for_its_marker_or_for_an_operator(
    marker: OwedMarkerFacts | None, ends_by: EndsBy, at_ms: int | None, headline: str
) -> None:
    facts = cluster(transactions=(PREPARED,), owed_markers=() if marker is None else (marker,))
    verdict, partition = verdict_on(facts)
    assert (verdict.state, verdict.headline) == (VerdictState.WAITS, headline)
    assert partition.ends is not None
    assert (partition.ends.by, partition.ends.at_ms) == (ends_by, at_ms)
    can_heal = "does not heal by itself" not in " ".join(partition.sentences)
    assert can_heal == (marker is None or ends_by is not EndsBy.OPERATOR)


def test_what_no_coordinator_knows_hangs_and_an_operator_ends_it() -> None:
    evidence = DecisionEvidence(decision=PastDecision.ABORTED, because="a log says so")
    log = msgspec.structs.replace(
        LOG, open_txns=(msgspec.structs.replace(OPENED, decided=evidence),)
    )
    verdict, partition = verdict_on(cluster(log))
    assert verdict.state is VerdictState.HANGS
    assert verdict.headline == (
        "A transaction of producer 7 hangs on t-0: readers get nothing from offset 1 on"
    )
    assert partition.ends is not None
    assert partition.ends.by is EndsBy.OPERATOR
    assert partition.ends.command == "txnsim txns repair --topic t --partition 0 --yes"
    assert (partition.ends.marker, partition.ends.action) == ("ABORT", "End it: write ABORT")
    _, undecided_verdict = verdict_on(cluster())
    assert undecided_verdict.ends is not None
    assert undecided_verdict.ends.marker is None
    assert undecided_verdict.ends.action == "End it: the decision is unknown, write ABORT"


def test_while_a_coordinator_does_not_serve_nothing_is_said_to_hang() -> None:
    verdict, partition = verdict_on(cluster(unserved_coordinators=(3,)))
    assert verdict.state is VerdictState.WAITS
    assert partition.holder is not None
    assert partition.holder.status is OpenTxnStatus.UNKNOWN
    assert partition.ends is not None
    assert partition.ends.by is EndsBy.COORDINATOR
    assert "no broker serves __transaction_state-3" in verdict.headline
    assert partition.sentences[2].startswith("Whether it hangs is not known")
    many_verdict = judge_cluster(cluster(unserved_coordinators=tuple(range(12))))
    assert "__transaction_state-9 and 2 more" in many_verdict.headline
    one_verdict = judge_cluster(cluster(unserved_coordinators=(3,), transactions=(ONGOING,)))
    assert one_verdict.state is VerdictState.OPEN


@pytest.mark.parametrize(
    ("leader_id", "headline", "sentence"),
    [
        (-1, "t-0 has no leader", "Start one of the brokers 1, 2."),
        (2, "t-0 has no leader: broker 2 does not run, or not lead yet", "until it leads"),
    ],
)
def test_without_a_leader_nothing_can_be_ended(
    leader_id: int, headline: str, sentence: str
) -> None:
    log = msgspec.structs.replace(LOG, leader_id=leader_id, is_leader_up=False)
    verdict, partition = verdict_on(cluster(log, transactions=(ONGOING,)))
    assert (verdict.state, verdict.headline) == (VerdictState.NO_LEADER, headline)
    assert partition.ends is not None
    assert partition.ends.by is EndsBy.LEADER
    assert (partition.stands_at, partition.open_txns) == (None, ())
    assert sentence in partition.sentences[0]
    assert [unfinished.state for unfinished in verdict.unfinished] == [VerdictState.OPEN]


@pytest.mark.parametrize(
    ("leader_id", "replicas", "isr", "advice"),
    [
        (-1, (1, 2), (), "Start one of the brokers 1, 2."),
        (-1, (1, 2), (2,), "Start broker 2."),
        (1, (), (), "Start broker 1."),  # a trace that tells of no replicas
    ],
)
def test_the_brokers_to_start_are_named(
    leader_id: int, replicas: tuple[int, ...], isr: tuple[int, ...], advice: str
) -> None:
    log = msgspec.structs.replace(
        LOG, leader_id=leader_id, is_leader_up=False, replicas=replicas, isr=isr
    )
    _, partition = verdict_on(cluster(log))
    assert partition.ends is not None
    assert partition.ends.sentence == f"Readers and writers wait for a leader. {advice}"


def test_a_marker_above_the_high_watermark_waits_for_replicas() -> None:
    verdict, partition = verdict_on(cluster(msgspec.structs.replace(LOG, open_txns=())))
    assert verdict.state is VerdictState.WAITS
    assert partition.cause is Cause.UNREPLICATED
    unknown_log_facts = msgspec.structs.replace(LOG, open_txns=(), is_watermark_known=False)
    assert judge_partition(unknown_log_facts, cluster(unknown_log_facts)).cause is Cause.WRITTEN
    assert partition.ends is not None
    assert partition.ends.by is EndsBy.REPLICATION


def test_records_that_are_deleted_do_not_end_a_hang() -> None:
    log = msgspec.structs.replace(LOG, log_start=3, last_stable_offset=3)
    verdict, partition = verdict_on(cluster(log))
    assert verdict.state is VerdictState.HANGS
    assert (partition.stands_at, partition.records_behind, partition.log_start) == (3, 0, 3)
    assert "nothing is written behind it yet" in partition.sentences[0]
    assert "its first records are deleted" in partition.sentences[1]


def test_a_hang_behind_the_holder_is_the_headline() -> None:
    other_txn = msgspec.structs.replace(OPENED, producer_id=8, first_offset=2)
    log = msgspec.structs.replace(LOG, open_txns=(other_txn, OPENED))
    verdict, partition = verdict_on(cluster(log, transactions=(ONGOING,)))
    assert partition.holder is not None
    assert partition.holder.transactional_id == "app"
    assert verdict.headline == "A transaction of producer 8 hangs on t-0: open since offset 2"
    assert "Transactions that are open behind it: 1." in partition.sentences
    facts_beyond = msgspec.structs.replace(log, last_stable_offset=0)
    assert judge_partition(facts_beyond, cluster(facts_beyond)).holder is None, (
        "another marker holds them"
    )
    ended_log_facts = msgspec.structs.replace(
        log, log_start=3, last_stable_offset=4, high_watermark=4
    )
    assert judge_partition(ended_log_facts, cluster(ended_log_facts)).holder is None, (
        "its survey was older"
    )


WRONG = WrongData(
    partition=HERE,
    offset=2,
    producer_id=7,
    producer_epoch=0,
    transactional_id="app",
    is_commit=True,
)


@pytest.mark.parametrize(
    ("wrong_batch", "headline"),
    [
        (
            WRONG,
            "t-0 has wrong data: the ABORT marker at offset 2 has ended records of app, which was"
            " committed",
        ),
        (
            msgspec.structs.replace(WRONG, is_commit=False, is_by_application=True),
            "t-0 has wrong data: the COMMIT marker at offset 2 has ended records of app, whose"
            " application was answered that it is aborted",
        ),
    ],
)
def test_wrong_data_is_told_until_its_records_are_deleted(
    wrong_batch: WrongData, headline: str
) -> None:
    log = msgspec.structs.replace(HEALTHY_LOG, partition=HERE)
    verdict, partition = verdict_on(cluster(log, wrong_data=(wrong_batch,)))
    assert (verdict.state, verdict.headline) == (VerdictState.WRONG_DATA, headline)
    assert partition.ends is not None
    assert partition.ends.by is EndsBy.NOTHING
    deleted_facts = msgspec.structs.replace(log, log_start=3)
    assert (
        judge_cluster(cluster(deleted_facts, wrong_data=(wrong_batch,))).state
        is VerdictState.HEALTHY
    )
    hanging_verdict = judge_cluster(cluster(LOG, wrong_data=(wrong_batch,)))
    assert hanging_verdict.state is VerdictState.HANGS, "that can be ended"


@pytest.mark.parametrize(
    ("unfinished_transaction", "state", "headline"),
    [
        (
            transaction("Ongoing", THERE),
            VerdictState.OPEN,
            "app is open at its coordinator with t-1; no partition has an open record of it",
        ),
        (
            transaction("Ongoing"),
            VerdictState.OPEN,
            "app is open at its coordinator; no partition has an open record of it",
        ),
        (
            transaction("PrepareAbort", THERE),
            VerdictState.WAITS,
            "app is PrepareAbort: its coordinator waits for t-1",
        ),
        (
            transaction("PrepareAbort"),
            VerdictState.WAITS,
            "app is PrepareAbort: its coordinator has yet to write down its end",
        ),
    ],
)
def test_a_coordinator_may_have_what_no_partition_has(
    unfinished_transaction: TransactionFacts, state: VerdictState, headline: str
) -> None:
    ended_transaction = transaction("CompleteCommit")
    facts = ClusterFacts(
        now_ms=0,
        partitions=(HEALTHY_LOG,),
        transactions=(ended_transaction, unfinished_transaction),
    )
    verdict = judge_cluster(facts)
    assert (verdict.state, verdict.headline) == (state, headline)


def test_ignorance_is_a_verdict_of_its_own() -> None:
    verdict = judge_cluster(cluster(ignorance="recording stopped at #126"))
    assert (verdict.state, verdict.partitions) == (VerdictState.UNKNOWN, ())
    assert verdict.headline == "What is so now is not known: recording stopped at #126"


@pytest.mark.parametrize(
    ("readers", "share_groups", "sentences"),
    [
        ((), (), ["Consumers that wait: none. No share group waits."]),
        (("a", "b"), None, ["Consumers that wait: a, b."]),
        (None, None, []),
        (
            ("a",),
            (ShareGroupFacts(group_id="g", start_offset=None),),
            [
                "Consumers that wait: a.",
                "Share groups with read_committed get nothing from there on either: g.",
            ],
        ),
    ],
)
def test_who_waits_is_said_and_so_is_none(
    readers: tuple[str, ...] | None,
    share_groups: tuple[ShareGroupFacts, ...] | None,
    sentences: list[str],
) -> None:
    log = msgspec.structs.replace(LOG, readers=readers, share_groups=share_groups)
    assert list(verdict_on(cluster(log))[1].sentences[3:]) == sentences


@pytest.mark.parametrize(
    ("answer_text", "sentence"),
    [
        (None, "The application asked to commit, and has no answer."),
        ("NONE", "The application asked to commit, and knows that it is committed."),
        ("INVALID_TXN_STATE", "The application asked to commit, and got INVALID_TXN_STATE."),
    ],
)
def test_an_application_knows_what_it_was_answered(answer_text: str | None, sentence: str) -> None:
    assert application_sentence("commit", answer_text) == sentence


def test_old_brokers_tell_no_verdict() -> None:
    verdict = untold_verdict(LOG, untold_sentences(7, 0, "abort it"))
    assert (verdict.state, verdict.cause) == (VerdictState.UNKNOWN, Cause.UNTOLD)
    assert verdict.headline == (
        "Readers of t-0 stand still, and its brokers are too old to tell why"
    )
    assert "abort it" in verdict.sentences[-1]
    assert len(untold_sentences(None, None, "")) == 2


def test_states_are_ranked() -> None:
    assert VerdictState.HANGS.gravity > VerdictState.WRONG_DATA.gravity > VerdictState.WAITS.gravity
