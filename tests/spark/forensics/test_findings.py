"""Findings: their verdicts, their words, and what is new among them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jsonschema
import msgspec
import pytest

from tests.spark.forensics.opened import (
    ELSEWHERE,
    FACTS,
    HERE,
    MINUTE,
    NOW,
    ends,
    knowing,
    no_marker_since,
    record,
    txn,
)
from txnsim.errors import BadInputError
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark import find_hanging
from txnsim_spark.forensics import findings_frame as module
from txnsim_spark.forensics._coordinator_entries import (
    CoordinatorEntry,
    Coordinators,
    TxnRecord,
    coordinators_of,
)
from txnsim_spark.forensics._evidence import ReplicaBasis, StartBatch, Status
from txnsim_spark.forensics._read_notes import ReadNotes
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.forensics.findings import (
    AbortCommands,
    Finding,
    PartitionFigures,
    Report,
    SearchConditions,
    Source,
    abort_commands,
    duration_min,
    figures_of,
    finding_of,
    json_schema,
    owed_by,
)
from txnsim_spark.forensics.verdicts import (
    HasMarker,
    OpenTxn,
    Reason,
    ReplicaEnds,
    TxnSpread,
    common_end,
    elected_replica,
    is_late,
    is_listed_by_kafka,
    opinion_on,
    spread_of,
)

# Verdicts: every rule with the least that leads to it.


NOBODY = knowing()


class Case(NamedTuple):
    """The coordinators' entries, and the expected verdict on a transaction of producer 7."""

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
    [CoordinatorEntry(newest_record=record("Ongoing", ELSEWHERE, epoch=6))],
    forgotten_id_by_producer={},
    partitions_on_disk=[0],
    decisions_by_producer={
        7: [
            record("PrepareCommit", ELSEWHERE, HERE),
            record("PrepareAbort", HERE, epoch=5),
            record("PrepareCommit", ELSEWHERE, epoch=6),
        ]
    },
)
CUT_OFF = coordinators_of(
    [CoordinatorEntry(newest_record=record("Ongoing", HERE))],
    forgotten_id_by_producer={},
    partitions_on_disk=[0],
    damaged_partitions=[0],
)
DECIDED, UNKNOWN = OpenTxnStatus.DECIDED, OpenTxnStatus.UNKNOWN
CASES = {
    "nobody knows the producer": Case(
        NOBODY, Reason.NO_ENTRY, "no coordinator knows producer id 7", "unknown"
    ),
    "the id is forgotten": Case(
        coordinators_of([], forgotten_id_by_producer={7: "app"}, partitions_on_disk=[0]),
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
        coordinators_of([], forgotten_id_by_producer={}, partitions_on_disk=[1]),
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
    opinion = opinion_on(txn(), HERE, case.known, as_of_ms=NOW, markers=no_marker_since)
    assert (opinion.verdict, opinion.rule, opinion.outcome) == (
        case.verdict,
        case.rule,
        case.outcome,
    )
    assert case.says in opinion.reason
    assert bool(opinion.because) is (opinion.outcome is not None)


def test_a_living_transaction_whose_timeout_is_over_is_said_to_be_aborted_soon() -> None:
    coordinators = knowing(record("Ongoing", HERE))
    opinion = opinion_on(txn(), HERE, coordinators, as_of_ms=NOW + MINUTE, markers=no_marker_since)
    assert opinion.verdict is OpenTxnStatus.ALIVE
    assert "is over for 30000 ms" in opinion.reason


# Kafka's tool


@pytest.mark.parametrize(
    ("coordinators", "age_ms", "is_listed"),
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
    coordinators: Coordinators, age_ms: int, *, is_listed: bool
) -> None:
    assert is_listed_by_kafka(txn(age_ms=age_ms), HERE, coordinators, as_of_ms=NOW) is is_listed


def test_a_transaction_is_late_five_minutes_after_its_timeout() -> None:
    assert is_late(NOW - 6 * MINUTE - 1, timeout_ms=MINUTE, as_of_ms=NOW)
    assert not is_late(NOW - 6 * MINUTE, timeout_ms=MINUTE, as_of_ms=NOW)
    assert not is_late(-1, timeout_ms=MINUTE, as_of_ms=NOW)


# Across replicas


def no_markers(_replica: ReplicaEnds, _offset: int, _producer_id: int) -> bool:
    return False


def markers(_replica: ReplicaEnds, _offset: int, _producer_id: int) -> bool:
    return True


def fail_if_asked(replica: ReplicaEnds, offset: int, producer_id: int) -> bool:
    raise AssertionError((replica, offset, producer_id))


def test_the_furthest_replica_of_the_newest_leader_epoch_counts() -> None:
    short_and_new_ends = ends(1, 8, (0, 0), (2, 7))
    long_and_old_ends = ends(2, 90, (0, 0))
    longer_ends = ends(3, 9, (0, 0), (2, 7))
    assert elected_replica([short_and_new_ends, long_and_old_ends, longer_ends]) is longer_ends
    assert elected_replica([ends(5, 9), ends(4, 9)]).replica.broker == 4


def test_two_replicas_share_what_the_older_leader_epoch_has_in_both() -> None:
    assert common_end(ends(1, 10), ends(2, 8)) == 8
    assert common_end(ends(1, 10, (0, 0)), ends(2, 12, (0, 0), (3, 6), (4, 9))) == 6
    assert common_end(ends(1, 10, (0, 0), (3, 6)), ends(2, 12, (0, 0), (3, 6))) == 10
    unknown_ends = ReplicaEnds(replica=ends(1, 10).replica, log_start_offset=0, end_offset=10)
    assert common_end(unknown_ends, ends(2, 12, (3, 6))) == 10


class ReplicaCase(NamedTuple):
    """Replicas with their open transactions, and the expected list of lagging or other replicas."""

    replicas: list[ReplicaEnds]
    opens: Mapping[int, OpenTxn]
    has_marker: HasMarker
    behind: list[int]
    against: list[int]


TAIL = [ends(1, 9, (0, 0), (2, 7)), ends(2, 20, (0, 0))]
"""What broker 2 has from offset 7 on would be cut off."""
LATER = [ends(1, 9, (0, 0), (2, 4)), ends(2, 9, (0, 0))]
SPREADS = {
    "open on every replica": ReplicaCase(
        [ends(1, 9), ends(2, 9)], {1: txn(), 2: txn()}, fail_if_asked, [], []
    ),
    "one has not come that far": ReplicaCase(
        [ends(1, 9), ends(2, 5)], {1: txn(5)}, fail_if_asked, [2], []
    ),
    "one ended it within what both have": ReplicaCase(
        [ends(1, 9), ends(2, 9)], {1: txn(5)}, fail_if_asked, [], [2]
    ),
    "also a shorter one": ReplicaCase(
        [ends(1, 9), ends(2, 7)], {1: txn(5)}, fail_if_asked, [], [2]
    ),
    "an end in a tail that goes does not count": ReplicaCase(TAIL, {1: txn(5)}, markers, [2], []),
    "without one there it was ended before": ReplicaCase(TAIL, {1: txn(5)}, no_markers, [], [2]),
    "open on another than the one that counts": ReplicaCase(
        [ends(1, 9), ends(2, 7), ends(3, 4)], {2: txn(5)}, no_markers, [3], [1]
    ),
    "beginnings that differ": ReplicaCase(
        [ends(1, 9), ends(2, 9)], {1: txn(5), 2: txn(3)}, fail_if_asked, [], [2]
    ),
    "a beginning that was deleted with its segment": ReplicaCase(
        [ends(1, 9), ends(2, 9, start=5)], {1: txn(3), 2: txn(5)}, fail_if_asked, [], []
    ),
    "beginnings that differ beyond what both have": ReplicaCase(
        LATER, {1: txn(5), 2: txn(6)}, fail_if_asked, [], []
    ),
}


def opens(txn_by_broker: Mapping[int, OpenTxn]) -> dict[str, OpenTxn]:
    return {f"/b{broker}/orders-0": open_txn for broker, open_txn in txn_by_broker.items()}


@pytest.mark.parametrize("case", SPREADS.values(), ids=SPREADS)
def test_who_has_it_open(case: ReplicaCase) -> None:
    spread = spread_of(case.replicas, opens(case.opens), case.has_marker)
    assert spread is not None
    spreads = [
        [replica.replica.broker for replica in replicas]
        for replicas in (spread.open_on, spread.lagging, spread.contradicting)
    ]
    assert spreads == [list(case.opens), case.behind, case.against]
    assert spread.is_open_on_deciding is (1 in case.opens)


@pytest.mark.parametrize(
    ("replicas", "has_marker"),
    [
        ([ends(1, 9), ends(2, 7)], markers),
        ([ends(1, 9, (0, 0), (2, 5)), ends(2, 20, (0, 0))], fail_if_asked),
    ],
    ids=["one is behind", "in a tail that would be cut off"],
)
def test_what_only_such_a_replica_has_open_is_over(
    replicas: list[ReplicaEnds], has_marker: HasMarker
) -> None:
    assert spread_of(replicas, opens({2: txn(5)}), has_marker) is None


# What is told of an open transaction.


QUESTION = SearchConditions(as_of_ms=NOW)


def finding_with(
    coordinators: Coordinators, *, age_ms: int = 60 * MINUTE, against: tuple[ReplicaEnds, ...] = ()
) -> Finding:
    spread = TxnSpread(
        transaction=txn(age_ms=age_ms),
        deciding_replica=ends(),
        open_on=(ends(2), ends()),
        contradicting=against,
    )
    return finding_of(spread, HERE, coordinators, QUESTION, FACTS, no_marker_since)


def test_a_hanging_transaction_comes_with_commands() -> None:
    finding = finding_with(knowing())
    assert (finding.verdict, finding.rule, finding.listed_by_kafka) == (
        OpenTxnStatus.HANGING,
        Reason.NO_ENTRY,
        True,
    )
    assert (finding.transactional_id, finding.state, finding.timeout_ms, finding.is_late) == (
        *(None, None, None),
        True,
    )
    assert (finding.broker, finding.open_on, finding.age_ms) == (1, (1, 2), 60 * MINUTE)
    assert finding.command == (
        "txnsim txns --bootstrap-server localhost:9092 repair --topic orders --partition 0 --yes"
    )
    # What was decided is unknown, so an abort by Kafka's tool may be wrong.
    assert (finding.outcome, finding.abort) == ("unknown", None)


def test_kafkas_own_commands_are_told_where_an_abort_is_right() -> None:
    assert abort_commands(txn(), HERE, "localhost:9092") == AbortCommands(
        kafka="kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic orders"
        " --partition 0 --start-offset 5",
        kafka_before_3_0="kafka-transactions.sh --bootstrap-server localhost:9092 abort"
        " --topic orders --partition 0 --producer-id 7 --producer-epoch 3 --coordinator-epoch 0",
    )


def test_the_coordinator_epoch_is_that_of_the_last_marker() -> None:
    commands = abort_commands(txn(coordinator_epoch=4), HERE, "broker:1")
    assert commands.kafka_before_3_0.endswith("--coordinator-epoch 4")


def test_what_nobody_lists_is_recent_until_it_is_old() -> None:
    finding = finding_with(knowing(), age_ms=15 * MINUTE)
    assert (finding.verdict, finding.listed_by_kafka, finding.command) == (
        OpenTxnStatus.RECENT,
        False,
        None,
    )
    assert "but it was written to 900000 ms before" in finding.reason
    assert finding_with(knowing(), age_ms=15 * MINUTE + 1).verdict is OpenTxnStatus.HANGING


def finding_on(
    replica_basis: ReplicaBasis,
    conditions: SearchConditions = QUESTION,
    age_ms: int = 60 * MINUTE,
    coordinators: Coordinators | None = None,
) -> Finding:
    spread = TxnSpread(transaction=txn(age_ms=age_ms), deciding_replica=ends(), open_on=(ends(),))
    return finding_of(
        spread,
        HERE,
        knowing() if coordinators is None else coordinators,
        conditions,
        replica_basis,
        no_marker_since,
    )


def test_no_command_is_told_on_evidence_that_is_not_sound() -> None:
    replica_basis = msgspec.structs.replace(FACTS, start_batch=StartBatch.ANOTHERS)
    finding = finding_on(replica_basis)
    assert (finding.verdict, finding.evidence.status, finding.command) == (
        OpenTxnStatus.HANGING,
        Status.DAMAGED,
        None,
    )
    assert (
        finding_on(replica_basis, msgspec.structs.replace(QUESTION, accepts_damage=True)).command
        is not None
    )
    assert finding_on(FACTS).evidence.is_sound


def test_what_could_not_be_read_to_its_end_may_have_ended() -> None:
    replica_basis = msgspec.structs.replace(
        FACTS, notes=ReadNotes(read_from=0, damage=("byte 7: torn",))
    )
    finding = finding_on(replica_basis)
    assert (finding.verdict, finding.reason) == (
        OpenTxnStatus.UNKNOWN,
        "it may have ended: byte 7: torn",
    )


def test_a_time_in_the_future_does_not_hide_what_the_file_tells() -> None:
    old_state = msgspec.structs.replace(FACTS.state, newest_ms=NOW - 20 * MINUTE)
    replica_basis = msgspec.structs.replace(FACTS, state=old_state)
    conditions = msgspec.structs.replace(QUESTION, now_ms=NOW)
    finding = finding_on(replica_basis, conditions, age_ms=-MINUTE)
    assert (finding.verdict, finding.listed_by_kafka) == (OpenTxnStatus.HANGING, False)
    assert finding.reason.endswith("so the time of the file counts")
    young_finding = finding_on(FACTS, conditions, age_ms=-MINUTE)
    assert (young_finding.verdict, young_finding.recent_until_ms) == (
        OpenTxnStatus.RECENT,
        NOW + 15 * MINUTE,
    )


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    old_state = msgspec.structs.replace(FACTS.state, newest_ms=NOW - 20 * MINUTE)
    replica_basis = msgspec.structs.replace(FACTS, state=old_state)
    finding = finding_on(
        replica_basis, msgspec.structs.replace(QUESTION, now_ms=NOW), age_ms=NOW + 5
    )
    assert (finding.last_timestamp_ms, finding.verdict) == (-5, OpenTxnStatus.HANGING)
    assert finding.reason.endswith("its records bear no time, so the time of the file counts")
    young_finding = finding_on(FACTS, msgspec.structs.replace(QUESTION, now_ms=NOW), age_ms=NOW + 5)
    assert young_finding.verdict is OpenTxnStatus.RECENT


@pytest.mark.parametrize(
    "lost_fields",
    [
        {"recovery_point": 99},
        {"lost_end": "the log ends at offset 9, but there is a snapshot of offset 99"},
        {"ends": msgspec.structs.replace(ends(mark=None), end_offset=5)},
    ],
)
def test_where_the_end_of_the_log_is_lost_the_marker_may_be_too(
    lost_fields: dict[str, object],
) -> None:
    replica_basis = msgspec.structs.replace(
        FACTS, state=msgspec.structs.replace(FACTS.state, **lost_fields)
    )
    finding = finding_on(replica_basis, msgspec.structs.replace(QUESTION, accepts_damage=True))
    assert (finding.verdict, finding.abort) == (OpenTxnStatus.UNKNOWN, None)
    assert finding.reason.startswith("it may have ended: the log ends at offset ")
    assert (
        finding_on(replica_basis, coordinators=knowing(record("Ongoing", HERE))).verdict
        is OpenTxnStatus.ALIVE
    )


@pytest.mark.parametrize(
    ("coordinators", "status"),
    [
        (knowing(record("Ongoing", HERE)), OpenTxnStatus.ALIVE),
        (knowing(record("PrepareAbort", HERE)), OpenTxnStatus.DECIDED),
        (Coordinators(), OpenTxnStatus.UNKNOWN),
    ],
)
def test_age_does_not_matter_to_what_does_not_hang(
    coordinators: Coordinators, status: OpenTxnStatus
) -> None:
    for age_ms in (1, 60 * MINUTE):
        finding = finding_with(coordinators, age_ms=age_ms)
        assert (finding.verdict, finding.command) == (status, None)


def test_a_transaction_is_late_by_its_own_timeout() -> None:
    coordinators = knowing(record("Ongoing", HERE))
    assert not finding_with(coordinators, age_ms=6 * MINUTE).is_late
    assert finding_with(coordinators, age_ms=6 * MINUTE + 1).is_late
    assert not finding_with(knowing(), age_ms=20 * MINUTE).is_late


def test_replicas_that_disagree_are_named_with_what_they_share() -> None:
    finding = finding_with(knowing(), against=(ends(3),))
    assert (finding.verdict, finding.rule, finding.against) == (
        OpenTxnStatus.REPLICAS_DISAGREE,
        Reason.NO_ENTRY,
        (3,),
    )
    assert finding.reason == (
        "open since offset 5 on broker 1, 2, and not so on broker 3, although both have the log up"
        " to offset 10, below a high watermark too; no coordinator knows producer id 7"
    )
    assert finding.command is None
    assert "high watermark" not in finding_with(knowing(), against=(ends(3, mark=None),)).reason


def test_what_kafka_would_not_be_told_by_the_leader_it_does_not_list() -> None:
    spread = TxnSpread(
        transaction=txn(),
        deciding_replica=ends(),
        is_open_on_deciding=False,
        open_on=(ends(2),),
        contradicting=(ends(),),
    )
    assert not finding_of(spread, HERE, knowing(), QUESTION, FACTS, no_marker_since).listed_by_kafka


def test_minutes_are_cut_towards_zero() -> None:
    assert duration_min(finding_with(knowing(), age_ms=2 * MINUTE - 1)) == 1
    assert duration_min(finding_with(knowing(), age_ms=1 - 2 * MINUTE)) == -1


# Figures


def stood(
    counted_ends: ReplicaEnds, *transactions: OpenTxn, replica_ends: tuple[ReplicaEnds, ...] = ()
) -> PartitionFigures:
    return figures_of([*replica_ends, counted_ends], counted_ends, transactions, QUESTION)


def test_how_a_partition_stood() -> None:
    figures = stood(ends(), txn(7), txn(5))
    assert (figures.last_stable_offset, figures.high_watermark, figures.lag) == (5, 9, 4)
    assert (figures.stands_for_ms, figures.open_transactions) == (60 * MINUTE + 1, 2)
    assert figures.has_late_transaction
    assert not stood(ends(), txn(age_ms=20 * MINUTE)).has_late_transaction


def test_the_stable_offset_lies_between_the_logs_start_and_the_high_watermark() -> None:
    assert stood(ends(mark=None), txn(5)).lag == 5
    assert stood(ends(mark=99), txn(5)).high_watermark == 10
    assert stood(ends(mark=3), txn(5)).last_stable_offset == 3
    assert stood(ends(start=6), txn(5)).last_stable_offset == 6


def test_the_high_watermark_is_the_highest_that_a_replica_of_this_epoch_noted() -> None:
    """A follower knows of a high watermark up to replica.fetch.wait.max.ms after its leader."""
    assert stood(ends(mark=0), txn(5), replica_ends=(ends(2, mark=8), ends(3, mark=None))).lag == 3
    newer_ends = msgspec.structs.replace(ends(mark=6), epochs=((0, 0), (1, 6)))
    assert stood(newer_ends, txn(5), replica_ends=(ends(2, mark=9),)).high_watermark == 6


def test_a_beginning_that_is_gone_tells_no_time() -> None:
    undated_txn = msgspec.structs.replace(txn(), start_timestamp_ms=None)
    figures = stood(ends(), undated_txn)
    assert (figures.stands_since_ms, figures.stands_for_ms) == (None, None)


def test_owed_markers_are_told_with_where_they_are_awaited() -> None:
    coordinators = knowing(record("PrepareCommit", HERE, TopicPartition("orders", 1)))
    (owed_transaction,) = owed_by(coordinators, [finding_with(coordinators)])
    assert (owed_transaction.transactional_id, owed_transaction.state) == ("app", "PrepareCommit")
    assert (owed_transaction.open_on, owed_transaction.not_open_on) == (
        ("orders-0",),
        ("orders-1",),
    )


def test_a_report_is_what_its_schema_says() -> None:
    report = Report(
        as_of_ms=NOW,
        max_transaction_timeout_ms=15 * MINUTE,
        accepts_damage=False,
        findings=(finding_with(knowing()), finding_with(knowing(), against=(ends(3),))),
        partitions=(stood(ends(), txn()),),
        owed=owed_by(knowing(record("PrepareCommit", HERE)), ()),
        source=Source(
            directories=("/b",),
            replicas=1,
            from_snapshots=1,
            scanned=0,
            scanned_bytes=0,
            with_spark=False,
            transaction_log_partitions=1,
            transaction_log_gap="",
            cut_off=(),
            problems=(),
        ),
    )
    assert [finding.verdict for finding in report.with_verdicts(OpenTxnStatus.HANGING)] == [
        "hanging"
    ]
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    spreads = msgspec.json.decode(msgspec.json.encode(report))
    jsonschema.validate(spreads, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**spreads, "findings": [{}]}, schema)


# What may stand for a time; the DataFrame itself: tests/spark/pipeline/test_findings_table.


class Session:
    """A Spark session that returns the table instead of a DataFrame."""

    def createDataFrame(self, table: object, schema: object) -> object:  # noqa: N802 - Spark's name
        del schema
        return table


@pytest.mark.parametrize(
    ("time", "expected_number"),
    [
        (None, None),
        (1_700_000_000_000, 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
    ],
)
def test_a_time_is_given_in_many_ways(
    time: datetime | int | str | None,
    expected_number: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search_times: list[object] = []

    def search(search: object, **_rest: object) -> object:
        search_times.append(search)
        raise BadInputError("looked")

    monkeypatch.setattr(module, "register", lambda _spark: None)
    # Only here: a module that is imported meanwhile would keep the stand-in.
    monkeypatch.setattr(module, "searching", SimpleNamespace(Search=Search, find_hanging=search))
    with pytest.raises(BadInputError, match="looked"):
        find_hanging(Session(), str(tmp_path), as_of=time)  # type: ignore[arg-type]  # - a stand-in
    (finding,) = search_times
    assert getattr(finding, "as_of_ms") == expected_number  # noqa: B009 - of an object
    assert getattr(finding, "paths") == (tmp_path,)  # noqa: B009 - of an object


def test_what_is_no_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "register", lambda _spark: None)
    with pytest.raises(BadInputError, match="expected milliseconds since 1970, or ISO 8601"):
        find_hanging(Session(), tmp_path, as_of="yesterday")  # type: ignore[arg-type]  # - the same
