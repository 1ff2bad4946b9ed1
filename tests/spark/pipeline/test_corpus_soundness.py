"""``logs verify`` and ``logs timeline`` on directories of a real Apache Kafka, compared with the
truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.pipeline.corpus.made import Corpus
from tests.spark.pipeline.corpus.truth import FinishedTransaction, Place
from txnsim_spark.engine import Engine, EngineKind
from txnsim_spark.forensics.timeline import Timeline
from txnsim_spark.forensics.timeline_reading import read_timeline
from txnsim_spark.soundness.verify import plan_verification, verify
from txnsim_spark.soundness.violations import Invariant, Severity, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("duckdb", reason="the extra spark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.real]

LIFE = ("level-0", "level-1", "level-2", "orders-new", "fenced", "timed-out", "undecided")
"""Transactional ids of every transaction version, that commit, abort, are fenced, time out or
wait.
"""


def by_spark(spark: SparkSession) -> Engine:
    return Engine(lambda: spark, print, with_spark=True)


def findings(spark: SparkSession, corpus: Corpus, name: str) -> list[Violation]:
    """All findings except notices of markers that ended nothing: operators and retries leave
    those.
    """
    violations = verify(by_spark(spark), plan_verification(corpus.brokers(name)), EngineKind.SPARK)
    return [violation for violation in violations if violation.rule is not Invariant.IDLE_MARKER]


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_what_a_real_broker_leaves_is_sound(spark: SparkSession, corpus: Corpus, name: str) -> None:
    assert findings(spark, corpus, name) == []


def test_damage_is_found_where_it_was_done(spark: SparkSession, corpus: Corpus) -> None:
    violations = findings(spark, corpus, "torn")
    damage = corpus.stage("torn").damage
    assert {
        (violation.broker, Place(violation.topic, violation.partition)) for violation in violations
    } == {(violation.broker, violation.place) for violation in damage}
    found_places = {
        (violation.broker, violation.file, violation.offset)
        for violation in violations
        if violation.rule in (Invariant.TORN, Invariant.CRC)
    }
    assert {
        (violation.broker, violation.file, violation.sound_end) for violation in damage
    } <= found_places
    # A broker cuts off what is torn; a batch of another CRC is more than an unclean stop leaves.
    assert {violation.rule for violation in violations if violation.severity is Severity.ERROR} == {
        Invariant.CRC
    }


@pytest.mark.parametrize("transactional_id", LIFE)
def test_a_life_has_all_transactions_that_ended(
    spark: SparkSession, corpus: Corpus, transactional_id: str
) -> None:
    stage = corpus.stage("clean")
    timeline = read_timeline(by_spark(spark), corpus.brokers("clean"), transactional_id)
    finished_transactions = [
        violation for violation in stage.finished if violation.transactional_id == transactional_id
    ]
    assert finished_transactions
    markers = {
        (event.topic, event.partition, event.offset): event
        for event in timeline.events
        if event.event == "marker"
    }
    spans = [(violation, span) for violation in finished_transactions for span in violation.spans]
    assert markers.keys() == {(*span.place, span.marker_offset) for _, span in spans}
    for violation, span in spans:
        marker = markers[span.place.topic, span.place.partition, span.marker_offset or -1]
        assert marker.committed == violation.committed
        assert (marker.producer_id, marker.producer_epoch) == (
            violation.producer_id,
            violation.marker_epoch,
        )
    firsts = {
        (event.topic, event.partition, event.offset)
        for event in timeline.events
        if event.event == "first"
    }
    open_offsets = {
        (violation.topic, violation.partition, violation.first_offset)
        for violation in timeline.open
    }
    assert firsts == {(*span.place, span.first_offset) for _, span in spans} | open_offsets
    decision_events = [event for event in timeline.events if event.source == "coordinator"]
    for committed in (True, False):
        decided_count = sum(event.committed is committed for event in decision_events)
        assert decided_count >= sum(
            _has_decision(violation) and violation.committed is committed
            for violation in finished_transactions
        )


def _has_decision(violating_transaction: FinishedTransaction) -> bool:
    """Whether the coordinator decided it: the first marker of ``undecided`` was an operator's."""
    return violating_transaction.transactional_id != "undecided"


@pytest.mark.parametrize(
    ("transactional_id", "disagreements"),
    [
        ("level-2", []),
        ("level-2-open", []),
        ("ghost-late", ["open since offset 2; for the coordinator it is CompleteAbort"]),
        ("ghost-busy", ["the partition is not among those of the transaction (Ongoing)"]),
        ("forked", ["on broker 2 the transaction from offset 0 on is open"]),
        ("lonely", ["for the coordinator it is CompleteCommit", "no marker of the transaction"]),
    ],
)
def test_two_sides_disagree_where_they_do(
    spark: SparkSession, corpus: Corpus, transactional_id: str, disagreements: list[str]
) -> None:
    timeline = read_timeline(by_spark(spark), corpus.brokers("clean"), transactional_id)
    assert len(timeline.disagreements) == len(disagreements)
    for text, disagreement in zip(disagreements, timeline.disagreements, strict=True):
        assert text in disagreement
    _open_is_known(corpus, timeline)


def _open_is_known(corpus: Corpus, timeline: Timeline) -> None:
    """Check that open transactions agree with the truth, except on replicas that are behind."""
    expected = {
        (*violation.place, violation.producer_id, violation.producer_epoch, violation.start_offset)
        for violation in corpus.stage("clean").open
        if violation.transactional_id == timeline.transactional_id
        and violation.verdict != "lagging"
    }
    assert {
        (
            violation.topic,
            violation.partition,
            violation.producer_id,
            violation.producer_epoch,
            violation.first_offset,
        )
        for violation in timeline.open
    } == expected
