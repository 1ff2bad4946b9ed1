"""Verdicts: every rule with the least that leads to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from txnsim.pipeline.forensics.coordinator_entries import (
    Coordinators,
    Entry,
    TxnRecord,
    coordinators_of,
)
from txnsim.pipeline.forensics.verdicts import (
    OpenTxn,
    Reason,
    ReplicaEnds,
    Spread,
    common_end,
    is_late,
    leading,
    listed_by_kafka,
    opinion_on,
    spread_of,
)
from txnsim.pipeline.scan.segments import Replica
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition

HERE = TopicPartition("orders", 0)
ELSEWHERE = TopicPartition("orders", 1)
MINUTE = 60_000
NOW = 100 * MINUTE


def txn(start: int = 5, *, epoch: int = 3, pid: int = 7, age_ms: int = 60 * MINUTE) -> OpenTxn:
    return OpenTxn(
        producer_id=pid,
        producer_epoch=epoch,
        start_offset=start,
        last_timestamp_ms=NOW - age_ms,
    )


def record(state: str, *partitions: TopicPartition, pid: int = 7, epoch: int = 3) -> TxnRecord:
    return TxnRecord(
        log_partition=0,
        offset=9,
        transactional_id="app",
        state=state,
        producer_id=pid,
        producer_epoch=epoch,
        timeout_ms=MINUTE,
        partitions=frozenset(partitions),
        start_timestamp_ms=NOW - 30_000,
        last_update_timestamp_ms=NOW - 30_000,
    )


def knowing(newest: TxnRecord, decision: TxnRecord | None = None) -> Coordinators:
    return coordinators_of([Entry(newest=newest, decision=decision)], forgotten={}, held=[0])


NOBODY = coordinators_of([], forgotten={}, held=[0])


class Case(NamedTuple):
    """What coordinators know, and what follows for the transaction of producer 7, epoch 3."""

    known: Coordinators
    verdict: OpenTxnStatus
    rule: Reason
    says: str
    outcome: str | None = None


ROTATED = TxnRecord(
    log_partition=0,
    offset=9,
    transactional_id="app",
    state="CompleteCommit",
    producer_id=8,
    producer_epoch=0,
    previous_producer_id=7,
)
CASES = {
    "nobody knows the producer": Case(
        NOBODY,
        OpenTxnStatus.HANGING,
        Reason.NO_ENTRY,
        "no coordinator knows producer id 7",
        "unknown",
    ),
    "the id is forgotten": Case(
        coordinators_of([], forgotten={7: "app"}, held=[0]),
        OpenTxnStatus.HANGING,
        Reason.FORGOTTEN,
        "its coordinator has forgotten transactional id app",
        "unknown",
    ),
    "the id goes on under another producer id": Case(
        knowing(ROTATED),
        OpenTxnStatus.HANGING,
        Reason.OTHER_PRODUCER_ID,
        "transactional id app goes on with producer id 8; of 7 its coordinator has no transaction"
        " any more",
        "unknown",
    ),
    "and had decided about this one": Case(
        knowing(ROTATED, record("PrepareCommit", HERE)),
        OpenTxnStatus.HANGING,
        Reason.OTHER_PRODUCER_ID,
        "transactional id app goes on with producer id 8",
        "commit",
    ),
    "another partition is listed": Case(
        knowing(record("Ongoing", ELSEWHERE)),
        OpenTxnStatus.HANGING,
        Reason.NOT_LISTED,
        "transactional id app is Ongoing without this partition",
        "unknown",
    ),
    "no transaction yet": Case(
        knowing(record("Empty")),
        OpenTxnStatus.HANGING,
        Reason.NOT_LISTED,
        "app is Empty without",
        "abort",
    ),
    "complete, never was about this partition": Case(
        knowing(record("CompleteAbort"), record("PrepareAbort", ELSEWHERE)),
        OpenTxnStatus.HANGING,
        Reason.NOT_LISTED,
        "app is CompleteAbort without",
        "unknown",
    ),
    "complete, decided in an older epoch": Case(
        knowing(record("CompleteAbort", epoch=4), record("PrepareAbort", HERE, epoch=2)),
        OpenTxnStatus.HANGING,
        Reason.NOT_LISTED,
        "app is CompleteAbort without",
        "unknown",
    ),
    "complete, and no marker": Case(
        knowing(record("CompleteCommit"), record("PrepareCommit", HERE)),
        OpenTxnStatus.HANGING,
        Reason.COMPLETED_UNMARKED,
        "app is CompleteCommit and had this partition, but no marker ended it here: the decision"
        " was to commit",
        "commit",
    ),
    "complete by the next epoch, as transactions v2 do it": Case(
        knowing(record("CompleteAbort", epoch=4), record("PrepareAbort", HERE, epoch=4)),
        OpenTxnStatus.HANGING,
        Reason.COMPLETED_UNMARKED,
        "the decision was to abort",
        "abort",
    ),
    "committed without a leader, and gone on since (KAFKA-20734)": Case(
        coordinators_of(
            [Entry(newest=record("Ongoing", ELSEWHERE, epoch=6))],
            forgotten={},
            held=[0],
            decisions={
                7: [
                    record("PrepareCommit", ELSEWHERE, HERE),
                    record("PrepareAbort", HERE, epoch=5),
                    record("PrepareCommit", ELSEWHERE, epoch=6),
                ]
            },
        ),
        OpenTxnStatus.HANGING,
        Reason.NOT_LISTED,
        "app is Ongoing without this partition",
        "commit",
    ),
    "to be committed": Case(
        knowing(record("PrepareCommit", HERE)),
        OpenTxnStatus.DECIDED,
        Reason.MARKER_OWED,
        "app is PrepareCommit: to commit it is decided",
        "commit",
    ),
    "to be aborted, with the epoch above": Case(
        knowing(record("PrepareAbort", HERE, epoch=4)),
        OpenTxnStatus.DECIDED,
        Reason.MARKER_OWED,
        "app is PrepareAbort: to abort it is decided",
        "abort",
    ),
    "ongoing under another epoch": Case(
        knowing(record("Ongoing", HERE, epoch=4)),
        OpenTxnStatus.HANGING,
        Reason.OTHER_EPOCH,
        "app is Ongoing with this partition and epoch 4; this transaction is of epoch 3",
        "unknown",
    ),
    "ongoing": Case(
        knowing(record("Ongoing", HERE, ELSEWHERE)),
        OpenTxnStatus.ALIVE,
        Reason.LISTED,
        "app is Ongoing with this partition: it ends with its producer, or after"
        " transaction.timeout.ms=60000",
    ),
    "no log of coordinators": Case(
        Coordinators(),
        OpenTxnStatus.UNKNOWN,
        Reason.LOG_MISSING,
        "no entry of producer id 7 was found, and the directories hold no partition of",
    ),
    "a log of coordinators is missing": Case(
        coordinators_of([], forgotten={}, held=[1]),
        OpenTxnStatus.UNKNOWN,
        Reason.LOG_MISSING,
        "the directories lack __transaction_state, partition 0",
    ),
    "the entry's log is cut off": Case(
        coordinators_of(
            [Entry(newest=record("Ongoing", HERE))], forgotten={}, held=[0], damaged=[0]
        ),
        OpenTxnStatus.UNKNOWN,
        Reason.LOG_MISSING,
        "transactional id app may have gone on: __transaction_state, partition 0, can't be read",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_coordinators_logs_say(case: Case) -> None:
    found = opinion_on(txn(), HERE, case.known, as_of_ms=NOW)
    assert (found.verdict, found.rule, found.outcome) == (case.verdict, case.rule, case.outcome)
    assert case.says in found.reason
    assert bool(found.because) is (found.outcome is not None)


def test_a_living_transaction_whose_timeout_is_over_is_said_to_be_aborted_soon() -> None:
    known = knowing(record("Ongoing", HERE))
    found = opinion_on(txn(), HERE, known, as_of_ms=NOW + MINUTE)
    assert found.verdict is OpenTxnStatus.ALIVE
    assert "is over for 30000 ms" in found.reason


# Kafka's tool


@pytest.mark.parametrize(
    ("known", "age_ms", "listed"),
    [
        (NOBODY, 15 * MINUTE + 1, True),
        (NOBODY, 15 * MINUTE, False),
        (knowing(record("Ongoing", ELSEWHERE)), 16 * MINUTE, True),
        (knowing(record("Ongoing", HERE)), 16 * MINUTE, False),
        # Neither epochs nor states are compared.
        (knowing(record("Ongoing", HERE, epoch=4)), 16 * MINUTE, False),
        (knowing(record("PrepareCommit", HERE)), 16 * MINUTE, False),
        (knowing(ROTATED), 16 * MINUTE, True),
    ],
)
def test_kafkas_tool_lists_what_is_old_and_not_in_the_description(
    known: Coordinators, age_ms: int, *, listed: bool
) -> None:
    assert listed_by_kafka(txn(age_ms=age_ms), HERE, known, as_of_ms=NOW) is listed


def test_a_transaction_is_late_five_minutes_after_its_timeout() -> None:
    assert is_late(NOW - 6 * MINUTE - 1, timeout_ms=MINUTE, as_of_ms=NOW)
    assert not is_late(NOW - 6 * MINUTE, timeout_ms=MINUTE, as_of_ms=NOW)
    assert not is_late(-1, timeout_ms=MINUTE, as_of_ms=NOW)


# Across replicas


def ends(
    broker: int, end: int, *epochs: tuple[int, int], start: int = 0, mark: int | None = None
) -> ReplicaEnds:
    return ReplicaEnds(
        replica=Replica(
            log_dir=f"/b{broker}",
            broker=broker,
            topic="orders",
            partition=0,
            path=f"/b{broker}/orders-0",
        ),
        log_start_offset=start,
        end_offset=end,
        high_watermark=mark,
        epochs=epochs or ((0, 0),),
    )


def no_markers(_replica: ReplicaEnds, _offset: int, _producer_id: int) -> bool:
    return False


def markers(_replica: ReplicaEnds, _offset: int, _producer_id: int) -> bool:
    return True


def never_asked(replica: ReplicaEnds, offset: int, producer_id: int) -> bool:
    raise AssertionError((replica, offset, producer_id))


def opens(found: Mapping[int, OpenTxn]) -> dict[str, OpenTxn]:
    return {f"/b{broker}/orders-0": one for broker, one in found.items()}


def brokers(*several: tuple[ReplicaEnds, ...]) -> list[list[int]]:
    return [[one.replica.broker for one in replicas] for replicas in several]


def told(spread: Spread | None) -> list[list[int]] | None:
    return None if spread is None else brokers(spread.open_on, spread.behind, spread.against)


def test_the_furthest_replica_of_the_newest_leader_epoch_counts() -> None:
    short_and_new = ends(1, 8, (0, 0), (2, 7))
    long_and_old = ends(2, 90, (0, 0))
    longer = ends(3, 9, (0, 0), (2, 7))
    assert leading([short_and_new, long_and_old, longer]) is longer
    assert leading([ends(5, 9), ends(4, 9)]).replica.broker == 4


def test_two_replicas_share_what_the_older_leader_epoch_has_in_both() -> None:
    assert common_end(ends(1, 10), ends(2, 8)) == 8
    assert common_end(ends(1, 10, (0, 0)), ends(2, 12, (0, 0), (3, 6), (4, 9))) == 6
    assert common_end(ends(1, 10, (0, 0), (3, 6)), ends(2, 12, (0, 0), (3, 6))) == 10
    unknown = ReplicaEnds(replica=ends(1, 10).replica, log_start_offset=0, end_offset=10)
    assert common_end(unknown, ends(2, 12, (3, 6))) == 10


def test_open_on_every_replica() -> None:
    found = spread_of([ends(1, 9), ends(2, 9)], opens({1: txn(), 2: txn()}), never_asked)
    assert told(found) == [[1, 2], [], []]
    assert found is not None
    assert found.is_open_there


def test_a_replica_that_has_not_come_that_far_is_behind() -> None:
    found = spread_of([ends(1, 9), ends(2, 5)], opens({1: txn(5)}), never_asked)
    assert told(found) == [[1], [2], []]


def test_a_replica_that_ended_it_within_what_both_have_contradicts() -> None:
    found = spread_of([ends(1, 9), ends(2, 9)], opens({1: txn(5)}), never_asked)
    assert told(found) == [[1], [], [2]]
    shorter = spread_of([ends(1, 9), ends(2, 7)], opens({1: txn(5)}), never_asked)
    assert told(shorter) == [[1], [], [2]]


def test_an_end_in_a_tail_that_would_be_cut_off_does_not_count() -> None:
    replicas = [ends(1, 9, (0, 0), (2, 7)), ends(2, 20, (0, 0))]
    assert told(spread_of(replicas, opens({1: txn(5)}), markers)) == [[1], [2], []]
    assert told(spread_of(replicas, opens({1: txn(5)}), no_markers)) == [[1], [], [2]]


def test_what_only_a_replica_has_open_that_is_behind_is_over() -> None:
    replicas = [ends(1, 9), ends(2, 7)]
    assert spread_of(replicas, opens({2: txn(5)}), markers) is None


def test_what_only_a_tail_has_open_that_would_be_cut_off_is_over() -> None:
    replicas = [ends(1, 9, (0, 0), (2, 5)), ends(2, 20, (0, 0))]
    assert spread_of(replicas, opens({2: txn(5)}), never_asked) is None


def test_open_on_another_replica_than_the_one_that_counts() -> None:
    replicas = [ends(1, 9), ends(2, 7), ends(3, 4)]
    found = spread_of(replicas, opens({2: txn(5)}), no_markers)
    assert told(found) == [[2], [3], [1]]
    assert found is not None
    assert not found.is_open_there


def test_beginnings_that_differ_contradict() -> None:
    replicas = [ends(1, 9), ends(2, 9)]
    found = spread_of(replicas, opens({1: txn(5), 2: txn(3)}), never_asked)
    assert told(found) == [[1, 2], [], [2]]


def test_a_beginning_that_was_deleted_with_its_segment_does_not_contradict() -> None:
    replicas = [ends(1, 9), ends(2, 9, start=5)]
    found = spread_of(replicas, opens({1: txn(3), 2: txn(5)}), never_asked)
    assert told(found) == [[1, 2], [], []]


def test_beginnings_that_differ_beyond_what_both_have_do_not_contradict() -> None:
    replicas = [ends(1, 9, (0, 0), (2, 4)), ends(2, 9, (0, 0))]
    found = spread_of(replicas, opens({1: txn(5), 2: txn(6)}), never_asked)
    assert told(found) == [[1, 2], [], []]
