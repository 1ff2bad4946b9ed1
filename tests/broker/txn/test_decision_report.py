"""Findings in words: what readers make of the records, which defect explains it, what to do."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from txnsim.txn.decision_audit import AuditedDecision, AuditedMarker, AuditState, AuditVerdict
from txnsim.txn.decision_report import (
    DecisionFinding,
    FindingClues,
    RecordsConcerned,
    ReportBuilder,
    finding_of,
)
from txnsim.txn.open_txn_verdict import program_at
from txnsim.types import TopicPartition

COMMIT = AuditedDecision(
    coordinator=3, offset=70, at_ms=50_000, is_commit=True, completed_ms=50_010
)
OPEN = RecordsConcerned(first_offset=4, last_offset=6, records=3)
ABORTED = msgspec.structs.replace(OPEN, ended_at=7, ended_by_commit=False)
ABORT_MARKER = AuditedMarker(offset=7, at_ms=50_005, is_commit=False, coordinator_epoch=2)


def finding(
    state: AuditState,
    *markers: AuditedMarker,
    decision: AuditedDecision | None = COMMIT,
    clues: FindingClues = FindingClues(),  # noqa: B008 - frozen
    topic: str = "orders",
) -> DecisionFinding:
    return finding_of(
        AuditVerdict(state=state, decision=decision, markers=markers),
        topic_partition=TopicPartition(topic, 0),
        producer_id=7,
        producer_epoch=1,
        transactional_id="shop",
        clues=clues,
        program=program_at("kafka:9092"),
    )


def test_a_lost_commit_behind_which_a_leader_is_new_is_the_known_defect() -> None:
    audit_finding = finding(
        AuditState.NO_MARKER, clues=FindingClues(records=OPEN, has_new_leader=True)
    )
    assert audit_finding.explained_by == "KAFKA-20734"
    assert (
        audit_finding.reads_as
        == "unread: readers stop at offset 4, though their commit was acknowledged"
    )
    assert audit_finding.advice.endswith(
        "txnsim txns --bootstrap-server kafka:9092 repair --topic orders --partition 0"
    )


def test_a_lost_commit_under_one_leader_is_not() -> None:
    audit_finding = finding(
        AuditState.NO_MARKER, clues=FindingClues(records=ABORTED, has_new_leader=False)
    )
    assert audit_finding.explained_by is None
    assert audit_finding.reads_as == "aborted, though their commit was acknowledged"


def test_the_records_of_a_hostile_topic_are_asked_for_by_a_safe_command() -> None:
    audit_finding = finding(
        AuditState.NO_MARKER, clues=FindingClues(records=ABORTED), topic="a;touch b'c"
    )
    *_, topics = shlex.split(audit_finding.advice.partition("them again: ")[2])
    assert topics == "topics=a;touch b'c"


@pytest.mark.parametrize(
    ("marker_epoch", "at_ms", "explained_by"),
    [(1, 50_005, "operator"), (2, 9_000_000, "operator"), (2, 50_005, None)],
)
def test_an_operators_abort_is_known_by_its_epoch_or_its_time(
    marker_epoch: int, at_ms: int, explained_by: str | None
) -> None:
    marker = msgspec.structs.replace(ABORT_MARKER, coordinator_epoch=marker_epoch, at_ms=at_ms)
    clues = FindingClues(records=ABORTED, coordinator_epoch=2)
    assert finding(AuditState.CONTRADICTS, marker, clues=clues).explained_by == explained_by


@pytest.mark.parametrize(
    ("coordinator_epoch", "explained_by"), [(None, "operator"), (3, "operator"), (2, None)]
)
def test_a_marker_without_a_decision_may_be_an_operators(
    coordinator_epoch: int | None, explained_by: str | None
) -> None:
    clues = FindingClues(records=ABORTED, coordinator_epoch=coordinator_epoch)
    audit_finding = finding(AuditState.WITHOUT_DECISION, ABORT_MARKER, decision=None, clues=clues)
    assert (audit_finding.explained_by, audit_finding.reads_as) == (explained_by, "aborted")


def test_a_marker_that_was_sent_again_needs_nothing() -> None:
    repeated_marker = msgspec.structs.replace(ABORT_MARKER, offset=8)
    assert finding(AuditState.TWICE, ABORT_MARKER, repeated_marker).explained_by == "sent-again"
    moved_marker = msgspec.structs.replace(repeated_marker, coordinator_epoch=3)
    audit_finding = finding(AuditState.TWICE, ABORT_MARKER, moved_marker)
    assert (audit_finding.explained_by, audit_finding.advice) == ("coordinator-moved", "nothing")


@pytest.mark.parametrize(
    ("has_moved_twice", "explained_by"), [(True, "z34"), (False, "KAFKA-14402")]
)
def test_records_behind_a_marker_are_told_apart_by_the_moves_of_the_coordinator(
    has_moved_twice: bool, explained_by: str
) -> None:
    clues = FindingClues(records=OPEN, has_moved_twice=has_moved_twice)
    audit_finding = finding(AuditState.RECORDS_BEHIND, decision=None, clues=clues)
    assert audit_finding.explained_by == explained_by


def test_a_report_says_how_much_could_be_judged_and_since_when() -> None:
    builder = ReportBuilder()
    builder.count_agreeing(997, 40_000)
    builder.count_unknown(2, "retention")
    assert builder.count_verdict(AuditVerdict(state=AuditState.NO_MARKER, decision=COMMIT))
    assert not builder.count_verdict(AuditVerdict(state=AuditState.OWED, decision=COMMIT))
    lone_verdict = AuditVerdict(state=AuditState.WITHOUT_DECISION, markers=(ABORT_MARKER,))
    assert builder.count_verdict(lone_verdict)
    report = builder.report()
    assert (report.decisions, report.agrees, report.owed, report.unknown) == (1_001, 997, 1, 2)
    assert (report.known_percent, report.known_since_ms) == (99.8, 40_000)
    assert report.markers_without_decision == 1


def test_an_older_epoch_behind_a_newer_one_is_a_forgotten_fence() -> None:
    epoch_finding = finding(AuditState.EPOCH_BACK, decision=None, clues=FindingClues(records=OPEN))
    assert epoch_finding.explained_by == "fence-forgotten"


def test_only_what_went_wrong_is_a_finding() -> None:
    with pytest.raises(AssertionError, match="agrees is no finding"):
        finding(AuditState.AGREES)


def test_a_lost_marker_of_a_transaction_without_records_loses_nothing() -> None:
    empty_finding = finding(AuditState.NO_MARKER)
    assert empty_finding.explained_by is None
    assert "nothing is lost" in empty_finding.explanation


def test_records_that_were_aborted_and_read_are_for_their_consumers_to_undo() -> None:
    aborted_decision = msgspec.structs.replace(COMMIT, is_commit=False)
    committed_records = msgspec.structs.replace(ABORTED, ended_by_commit=True)
    marker = msgspec.structs.replace(ABORT_MARKER, is_commit=True)
    clues = FindingClues(records=committed_records, coordinator_epoch=2)
    torn_finding = finding(AuditState.CONTRADICTS, marker, decision=aborted_decision, clues=clues)
    assert torn_finding.reads_as == "committed, though their abort was decided"
    assert "consumers have to undo them" in torn_finding.advice


def test_records_that_ended_as_was_decided_need_nothing() -> None:
    repeated_marker = msgspec.structs.replace(ABORT_MARKER, offset=8)
    ended_records = msgspec.structs.replace(ABORTED, ended_at=8)
    repeat_finding = finding(
        AuditState.TWICE,
        ABORT_MARKER,
        repeated_marker,
        decision=msgspec.structs.replace(COMMIT, is_commit=False),
        clues=FindingClues(records=ended_records),
    )
    assert (repeat_finding.reads_as, repeat_finding.advice) == ("aborted", "nothing")


def test_a_replica_that_differs_adds_what_the_leading_one_does_not_have() -> None:
    lost_finding = finding(AuditState.NO_MARKER, clues=FindingClues(records=OPEN))
    records_finding = finding(
        AuditState.RECORDS_BEHIND, decision=None, clues=FindingClues(records=OPEN)
    )
    leader_builder, other_builder = ReportBuilder(), ReportBuilder()
    leader_builder.add(lost_finding)
    for replica_finding in (lost_finding, records_finding, records_finding):
        other_builder.add(replica_finding)
    leader_builder.add_of_other_replicas(other_builder)
    findings = leader_builder.report().findings
    assert [known_finding.state for known_finding in findings] == [
        AuditState.RECORDS_BEHIND,
        AuditState.NO_MARKER,
    ]
    assert findings[0].explanation.startswith("on a replica that differs from the leading one: ")


def test_findings_stand_in_the_order_of_their_decisions_or_markers() -> None:
    builder = ReportBuilder()
    assert not builder.count_verdict(AuditVerdict(state=AuditState.UNKNOWN, reason="retention"))
    early_marker = msgspec.structs.replace(ABORT_MARKER, at_ms=10)
    builder.add(finding(AuditState.NO_MARKER))
    builder.add(finding(AuditState.WITHOUT_DECISION, early_marker, decision=None))
    builder.add(finding(AuditState.RECORDS_BEHIND, decision=None))
    report = builder.report()
    assert [known_finding.state for known_finding in report.findings] == [
        AuditState.RECORDS_BEHIND,
        AuditState.WITHOUT_DECISION,
        AuditState.NO_MARKER,
    ]
    assert (report.unknown, report.known_percent) == (1, 0.0)
