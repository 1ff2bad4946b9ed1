"""What is told of an open transaction."""

from __future__ import annotations

import jsonschema
import msgspec
import pytest

from tests.spark.forensics.opened import (
    FACTS,
    HERE,
    MINUTE,
    NOW,
    ends,
    knowing,
    record,
    txn,
)
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._evidence import ReplicaFacts, StartBatch, Status
from txnsim_spark.forensics._read_notes import ReadNotes
from txnsim_spark.forensics.findings import (
    AbortCommands,
    Finding,
    PartitionFigures,
    Question,
    Report,
    Source,
    abort_commands,
    duration_min,
    figures_of,
    finding_of,
    json_schema,
    owed_by,
)
from txnsim_spark.forensics.verdicts import OpenTxn, Reason, ReplicaEnds, Spread

QUESTION = Question(as_of_ms=NOW)


def found(
    known: Coordinators, *, age_ms: int = 60 * MINUTE, against: tuple[ReplicaEnds, ...] = ()
) -> Finding:
    spread = Spread(
        transaction=txn(age_ms=age_ms), counts=ends(), open_on=(ends(2), ends()), against=against
    )
    return finding_of(spread, HERE, known, QUESTION, FACTS)


def test_a_hanging_transaction_comes_with_commands() -> None:
    one = found(knowing())
    assert (one.verdict, one.rule, one.listed_by_kafka) == (
        OpenTxnStatus.HANGING,
        Reason.NO_ENTRY,
        True,
    )
    assert (one.transactional_id, one.state, one.timeout_ms, one.is_late) == (
        *(None, None, None),
        True,
    )
    assert (one.broker, one.open_on, one.age_ms) == (1, (1, 2), 60 * MINUTE)
    assert one.command == (
        "txnsim txns --bootstrap-server localhost:9092 repair --topic orders --partition 0 --yes"
    )
    # What was decided is unknown, so an abort by Kafka's tool may be wrong.
    assert (one.outcome, one.abort) == ("unknown", None)


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
    one = found(knowing(), age_ms=15 * MINUTE)
    assert (one.verdict, one.listed_by_kafka, one.command) == (OpenTxnStatus.RECENT, False, None)
    assert "but it was written to 900000 ms before" in one.reason
    assert found(knowing(), age_ms=15 * MINUTE + 1).verdict is OpenTxnStatus.HANGING


def judged(
    facts: ReplicaFacts,
    question: Question = QUESTION,
    age_ms: int = 60 * MINUTE,
    known: Coordinators | None = None,
) -> Finding:
    spread = Spread(transaction=txn(age_ms=age_ms), counts=ends(), open_on=(ends(),))
    return finding_of(spread, HERE, knowing() if known is None else known, question, facts)


def test_no_command_is_told_on_evidence_that_is_not_sound() -> None:
    facts = msgspec.structs.replace(FACTS, start_batch=StartBatch.ANOTHERS)
    one = judged(facts)
    assert (one.verdict, one.evidence.status, one.command) == (
        OpenTxnStatus.HANGING,
        Status.DAMAGED,
        None,
    )
    assert judged(facts, msgspec.structs.replace(QUESTION, accepts_damage=True)).command is not None
    assert judged(FACTS).evidence.is_sound


def test_what_could_not_be_read_to_its_end_may_have_ended() -> None:
    facts = msgspec.structs.replace(FACTS, notes=ReadNotes(read_from=0, damage=("byte 7: torn",)))
    one = judged(facts)
    assert (one.verdict, one.reason) == (OpenTxnStatus.UNKNOWN, "it may have ended: byte 7: torn")


def test_a_time_in_the_future_does_not_hide_what_the_file_tells() -> None:
    old = msgspec.structs.replace(FACTS.state, newest_ms=NOW - 20 * MINUTE)
    facts = msgspec.structs.replace(FACTS, state=old)
    question = msgspec.structs.replace(QUESTION, now_ms=NOW)
    one = judged(facts, question, age_ms=-MINUTE)
    assert (one.verdict, one.listed_by_kafka) == (OpenTxnStatus.HANGING, False)
    assert one.reason.endswith("so the time of the file counts")
    young = judged(FACTS, question, age_ms=-MINUTE)
    assert (young.verdict, young.recent_until_ms) == (OpenTxnStatus.RECENT, NOW + 15 * MINUTE)


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    old = msgspec.structs.replace(FACTS.state, newest_ms=NOW - 20 * MINUTE)
    facts = msgspec.structs.replace(FACTS, state=old)
    one = judged(facts, msgspec.structs.replace(QUESTION, now_ms=NOW), age_ms=NOW + 5)
    assert (one.last_timestamp_ms, one.verdict) == (-5, OpenTxnStatus.HANGING)
    assert one.reason.endswith("its records bear no time, so the time of the file counts")
    young = judged(FACTS, msgspec.structs.replace(QUESTION, now_ms=NOW), age_ms=NOW + 5)
    assert young.verdict is OpenTxnStatus.RECENT


@pytest.mark.parametrize(
    "lost",
    [
        {"recovery_point": 99},
        {"lost_end": "the log ends at offset 9, but there is a snapshot of offset 99"},
        {"ends": msgspec.structs.replace(ends(mark=None), end_offset=5)},
    ],
)
def test_where_the_end_of_the_log_is_lost_the_marker_may_be_too(lost: dict[str, object]) -> None:
    facts = msgspec.structs.replace(FACTS, state=msgspec.structs.replace(FACTS.state, **lost))
    one = judged(facts, msgspec.structs.replace(QUESTION, accepts_damage=True))
    assert (one.verdict, one.abort) == (OpenTxnStatus.UNKNOWN, None)
    assert one.reason.startswith("it may have ended: the log ends at offset ")
    assert judged(facts, known=knowing(record("Ongoing", HERE))).verdict is OpenTxnStatus.ALIVE


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (knowing(record("Ongoing", HERE)), OpenTxnStatus.ALIVE),
        (knowing(record("PrepareAbort", HERE)), OpenTxnStatus.DECIDED),
        (Coordinators(), OpenTxnStatus.UNKNOWN),
    ],
)
def test_age_does_not_matter_to_what_does_not_hang(
    known: Coordinators, verdict: OpenTxnStatus
) -> None:
    for age_ms in (1, 60 * MINUTE):
        one = found(known, age_ms=age_ms)
        assert (one.verdict, one.command) == (verdict, None)


def test_a_transaction_is_late_by_its_own_timeout() -> None:
    known = knowing(record("Ongoing", HERE))
    assert not found(known, age_ms=6 * MINUTE).is_late
    assert found(known, age_ms=6 * MINUTE + 1).is_late
    assert not found(knowing(), age_ms=20 * MINUTE).is_late


def test_replicas_that_disagree_are_named_with_what_they_share() -> None:
    one = found(knowing(), against=(ends(3),))
    assert (one.verdict, one.rule, one.against) == (
        OpenTxnStatus.REPLICAS_DISAGREE,
        Reason.NO_ENTRY,
        (3,),
    )
    assert one.reason == (
        "open since offset 5 on broker 1, 2, and not so on broker 3, although both have the log up"
        " to offset 10, below a high watermark too; no coordinator knows producer id 7"
    )
    assert one.command is None
    assert "high watermark" not in found(knowing(), against=(ends(3, mark=None),)).reason


def test_what_kafka_would_not_be_told_by_the_leader_it_does_not_list() -> None:
    spread = Spread(
        transaction=txn(),
        counts=ends(),
        is_open_there=False,
        open_on=(ends(2),),
        against=(ends(),),
    )
    assert not finding_of(spread, HERE, knowing(), QUESTION, FACTS).listed_by_kafka


def test_minutes_are_cut_towards_zero() -> None:
    assert duration_min(found(knowing(), age_ms=2 * MINUTE - 1)) == 1
    assert duration_min(found(knowing(), age_ms=1 - 2 * MINUTE)) == -1


# Figures


def stood(
    counts: ReplicaEnds, *transactions: OpenTxn, others: tuple[ReplicaEnds, ...] = ()
) -> PartitionFigures:
    return figures_of([*others, counts], counts, transactions, QUESTION)


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
    """A follower hears of it up to replica.fetch.wait.max.ms later than its leader."""
    assert stood(ends(mark=0), txn(5), others=(ends(2, mark=8), ends(3, mark=None))).lag == 3
    newer = msgspec.structs.replace(ends(mark=6), epochs=((0, 0), (1, 6)))
    assert stood(newer, txn(5), others=(ends(2, mark=9),)).high_watermark == 6


def test_a_beginning_that_is_gone_tells_no_time() -> None:
    undated = msgspec.structs.replace(txn(), start_timestamp_ms=None)
    figures = stood(ends(), undated)
    assert (figures.stands_since_ms, figures.stands_for_ms) == (None, None)


def test_owed_markers_are_told_with_where_they_are_awaited() -> None:
    known = knowing(record("PrepareCommit", HERE, TopicPartition("orders", 1)))
    (owed,) = owed_by(known, [found(known)])
    assert (owed.transactional_id, owed.state) == ("app", "PrepareCommit")
    assert (owed.open_on, owed.not_open_on) == (("orders-0",), ("orders-1",))


def test_a_report_is_what_its_schema_says() -> None:
    report = Report(
        as_of_ms=NOW,
        max_transaction_timeout_ms=15 * MINUTE,
        accepts_damage=False,
        findings=(found(knowing()), found(knowing(), against=(ends(3),))),
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
    assert [one.verdict for one in report.of(OpenTxnStatus.HANGING)] == ["hanging"]
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    told = msgspec.json.decode(msgspec.json.encode(report))
    jsonschema.validate(told, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**told, "findings": [{}]}, schema)
