"""Verdicts: every rule with the least that leads to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.spark.forensics.opened import (
    ELSEWHERE,
    HERE,
    MINUTE,
    NOW,
    ends,
    knowing,
    record,
    txn,
)
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim_spark.forensics._coordinator_entries import (
    Coordinators,
    Entry,
    TxnRecord,
    coordinators_of,
)
from txnsim_spark.forensics.verdicts import (
    HasMarker,
    OpenTxn,
    Reason,
    ReplicaEnds,
    common_end,
    is_late,
    leading,
    listed_by_kafka,
    opinion_on,
    spread_of,
)

NOBODY = knowing()


class Case(NamedTuple):
    """What coordinators know, and what follows for the transaction of producer 7, epoch 3."""

    known: Coordinators
    rule: Reason
    says: str
    outcome: str | None
    verdict: OpenTxnStatus = OpenTxnStatus.HANGING


ROTATED = TxnRecord(
    log_partition=0,
    offset=9,
    transactional_id="app",
    state="CompleteCommit",
    producer_id=8,
    producer_epoch=0,
    previous_producer_id=7,
)
GONE_ON = coordinators_of(
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
)
CUT_OFF = coordinators_of(
    [Entry(newest=record("Ongoing", HERE))], forgotten={}, held=[0], damaged=[0]
)
DECIDED, UNKNOWN = OpenTxnStatus.DECIDED, OpenTxnStatus.UNKNOWN
CASES = {
    "nobody knows the producer": Case(
        NOBODY, Reason.NO_ENTRY, "no coordinator knows producer id 7", "unknown"
    ),
    "the id is forgotten": Case(
        coordinators_of([], forgotten={7: "app"}, held=[0]),
        *(Reason.FORGOTTEN, "its coordinator has forgotten transactional id app", "unknown"),
    ),
    "the id goes on under another producer id": Case(
        knowing(ROTATED),
        Reason.OTHER_PRODUCER_ID,
        "transactional id app goes on with producer id 8; of 7 its coordinator has no transaction"
        " any more",
        "unknown",
    ),
    "and had decided about this one": Case(
        knowing(ROTATED, record("PrepareCommit", HERE)),
        *(Reason.OTHER_PRODUCER_ID, "transactional id app goes on with producer id 8", "commit"),
    ),
    "another partition is listed": Case(
        knowing(record("Ongoing", ELSEWHERE)),
        *(Reason.NOT_LISTED, "transactional id app is Ongoing without this partition", "unknown"),
    ),
    "no transaction yet": Case(
        knowing(record("Empty")), Reason.NOT_LISTED, "app is Empty without", "abort"
    ),
    "complete, never was about this partition": Case(
        knowing(record("CompleteAbort"), record("PrepareAbort", ELSEWHERE)),
        *(Reason.NOT_LISTED, "app is CompleteAbort without", "unknown"),
    ),
    "complete, decided in an older epoch": Case(
        knowing(record("CompleteAbort", epoch=4), record("PrepareAbort", HERE, epoch=2)),
        *(Reason.NOT_LISTED, "app is CompleteAbort without", "unknown"),
    ),
    "complete, and no marker": Case(
        knowing(record("CompleteCommit"), record("PrepareCommit", HERE)),
        Reason.COMPLETED_UNMARKED,
        "app is CompleteCommit and had this partition, but no marker ended it here: the decision"
        " was to commit",
        "commit",
    ),
    "complete by the next epoch, as transactions v2 do it": Case(
        knowing(record("CompleteAbort", epoch=4), record("PrepareAbort", HERE, epoch=4)),
        *(Reason.COMPLETED_UNMARKED, "the decision was to abort", "abort"),
    ),
    "committed without a leader, and gone on since (KAFKA-20734)": Case(
        GONE_ON, Reason.NOT_LISTED, "app is Ongoing without this partition", "commit"
    ),
    "to be committed": Case(
        knowing(record("PrepareCommit", HERE)),
        *(Reason.MARKER_OWED, "app is PrepareCommit: to commit it is decided", "commit", DECIDED),
    ),
    "to be aborted, with the epoch above": Case(
        knowing(record("PrepareAbort", HERE, epoch=4)),
        *(Reason.MARKER_OWED, "app is PrepareAbort: to abort it is decided", "abort", DECIDED),
    ),
    "ongoing under another epoch": Case(
        knowing(record("Ongoing", HERE, epoch=4)),
        Reason.OTHER_EPOCH,
        "app is Ongoing with this partition and epoch 4; this transaction is of epoch 3",
        "unknown",
    ),
    "ongoing": Case(
        knowing(record("Ongoing", HERE, ELSEWHERE)),
        Reason.LISTED,
        "app is Ongoing with this partition: it ends with its producer, or after"
        " transaction.timeout.ms=60000",
        None,
        OpenTxnStatus.ALIVE,
    ),
    "no log of coordinators": Case(
        Coordinators(),
        Reason.LOG_MISSING,
        "no entry of producer id 7 was found, and the directories hold no partition of",
        *(None, UNKNOWN),
    ),
    "a log of coordinators is missing": Case(
        coordinators_of([], forgotten={}, held=[1]),
        Reason.LOG_MISSING,
        "the directories lack __transaction_state, partition 0",
        *(None, UNKNOWN),
    ),
    "the entry's log is cut off": Case(
        CUT_OFF,
        Reason.LOG_MISSING,
        "transactional id app may have gone on: __transaction_state, partition 0, can't be read",
        *(None, UNKNOWN),
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


def no_markers(_replica: ReplicaEnds, _offset: int, _producer_id: int) -> bool:
    return False


def markers(_replica: ReplicaEnds, _offset: int, _producer_id: int) -> bool:
    return True


def never_asked(replica: ReplicaEnds, offset: int, producer_id: int) -> bool:
    raise AssertionError((replica, offset, producer_id))


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


class Across(NamedTuple):
    """Replicas, what is open on which broker, and who is behind, or contradicts."""

    replicas: list[ReplicaEnds]
    opens: Mapping[int, OpenTxn]
    has_marker: HasMarker
    behind: list[int]
    against: list[int]


TAIL = [ends(1, 9, (0, 0), (2, 7)), ends(2, 20, (0, 0))]
"""What broker 2 has from offset 7 on would be cut off."""
LATER = [ends(1, 9, (0, 0), (2, 4)), ends(2, 9, (0, 0))]
SPREADS = {
    "open on every replica": Across(
        [ends(1, 9), ends(2, 9)], {1: txn(), 2: txn()}, never_asked, [], []
    ),
    "one has not come that far": Across(
        [ends(1, 9), ends(2, 5)], {1: txn(5)}, never_asked, [2], []
    ),
    "one ended it within what both have": Across(
        [ends(1, 9), ends(2, 9)], {1: txn(5)}, never_asked, [], [2]
    ),
    "also a shorter one": Across([ends(1, 9), ends(2, 7)], {1: txn(5)}, never_asked, [], [2]),
    "an end in a tail that goes does not count": Across(TAIL, {1: txn(5)}, markers, [2], []),
    "without one there it was ended before": Across(TAIL, {1: txn(5)}, no_markers, [], [2]),
    "open on another than the one that counts": Across(
        [ends(1, 9), ends(2, 7), ends(3, 4)], {2: txn(5)}, no_markers, [3], [1]
    ),
    "beginnings that differ": Across(
        [ends(1, 9), ends(2, 9)], {1: txn(5), 2: txn(3)}, never_asked, [], [2]
    ),
    "a beginning that was deleted with its segment": Across(
        [ends(1, 9), ends(2, 9, start=5)], {1: txn(3), 2: txn(5)}, never_asked, [], []
    ),
    "beginnings that differ beyond what both have": Across(
        LATER, {1: txn(5), 2: txn(6)}, never_asked, [], []
    ),
}


def opens(found: Mapping[int, OpenTxn]) -> dict[str, OpenTxn]:
    return {f"/b{broker}/orders-0": one for broker, one in found.items()}


@pytest.mark.parametrize("case", SPREADS.values(), ids=SPREADS)
def test_who_has_it_open(case: Across) -> None:
    found = spread_of(case.replicas, opens(case.opens), case.has_marker)
    assert found is not None
    told = [
        [one.replica.broker for one in replicas]
        for replicas in (found.open_on, found.behind, found.against)
    ]
    assert told == [list(case.opens), case.behind, case.against]
    assert found.is_open_there is (1 in case.opens)


@pytest.mark.parametrize(
    ("replicas", "has_marker"),
    [
        ([ends(1, 9), ends(2, 7)], markers),
        ([ends(1, 9, (0, 0), (2, 5)), ends(2, 20, (0, 0))], never_asked),
    ],
    ids=["one is behind", "in a tail that would be cut off"],
)
def test_what_only_such_a_replica_has_open_is_over(
    replicas: list[ReplicaEnds], has_marker: HasMarker
) -> None:
    assert spread_of(replicas, opens({2: txn(5)}), has_marker) is None
