"""The report of ``logs decisions`` and ``txns decisions``: findings in words, with what is lost,
which known defect explains it, and what to do. Pure.

A finding is explained only by what the logs show. The defects: docs/found.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from txnsim.shell_text import ShellText, command_line, continued, option
from txnsim.txn.decision_audit import AuditedDecision, AuditedMarker, AuditState, AuditVerdict
from txnsim.types import TopicPartition

MARKER_WORDS: Final = {True: "commit", False: "abort"}


class DecisionPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, in the report."""

    offset: Annotated[int, msgspec.Meta(description="In the coordinator's log.")]
    partition: Annotated[int, msgspec.Meta(description="Of __transaction_state.")]
    at_ms: Annotated[int, msgspec.Meta(description="By the coordinator's clock.")]
    outcome: Annotated[str, msgspec.Meta(description="commit or abort.")]


class MarkerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A marker, in the report."""

    offset: Annotated[int, msgspec.Meta(description="In the partition's log.")]
    outcome: Annotated[str, msgspec.Meta(description="commit or abort.")]
    at_ms: Annotated[int, msgspec.Meta(description="By the clock of the partition's leader.")]
    coordinator_epoch: int


class RecordsConcerned(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a finding is about."""

    first_offset: int
    last_offset: int
    records: int
    ended_at: int | None = None
    """Offset of the marker that ended them; None if they are open."""
    ended_by_commit: bool | None = None


class FindingClues(msgspec.Struct, frozen=True, kw_only=True):
    """What the logs show around a finding."""

    records: RecordsConcerned | None = None
    """None if there are none, or they are not there any more."""
    has_new_leader: bool | None = None
    """Whether the partition got a new leader behind these records; None if unknown."""
    coordinator_epoch: int | None = None
    """The coordinator's epoch at that time, by its log; None if unknown."""
    has_moved_twice: bool = False
    """Whether the coordinator's partition got two leaders shortly after these records."""


class DecisionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that a partition does not agree with, or a marker or records without one."""

    id: Annotated[
        str, msgspec.Meta(description="Its name, the same at every reading; for --story.")
    ]
    state: AuditState
    transactional_id: Annotated[
        str | None, msgspec.Meta(description="Null where no coordinator knows the producer.")
    ]
    producer_id: int
    producer_epoch: Annotated[int, msgspec.Meta(description="Of decision and markers.")]
    topic: str
    partition: int
    decision: Annotated[
        DecisionPlace | None, msgspec.Meta(description="Null in findings without a decision.")
    ]
    markers: tuple[MarkerPlace, ...]
    first_offset: Annotated[
        int | None, msgspec.Meta(description="First record concerned; null without any.")
    ]
    last_offset: int | None
    records: Annotated[int, msgspec.Meta(description="How many are concerned.")]
    reads_as: Annotated[
        str, msgspec.Meta(description="What read_committed readers make of them, and should.")
    ]
    explained_by: Annotated[
        str | None,
        msgspec.Meta(
            description="A ticket, a story, operator, sent-again, coordinator-moved or"
            " fence-forgotten; null if no known defect explains it."
        ),
    ]
    explanation: Annotated[str, msgspec.Meta(description="A sentence for people.")]
    advice: Annotated[str, msgspec.Meta(description="What can be done.")]


class UnknownReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why decisions could not be judged, and how many."""

    why: str
    decisions: int


class DecisionReport(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions about all partitions."""

    decisions: Annotated[
        int,
        msgspec.Meta(
            description="The pairs of a decision and a partition, and the markers whose decision is"
            " no longer in the log."
        ),
    ]
    agrees: int
    owed: Annotated[
        int, msgspec.Meta(description="Not completed yet: the coordinator will send the marker.")
    ]
    unknown: Annotated[int, msgspec.Meta(description="Could not be judged.")]
    findings: Annotated[tuple[DecisionFinding, ...], msgspec.Meta(description="Oldest first.")]
    markers_without_decision: int
    unknown_because: tuple[UnknownReason, ...] = ()
    known_percent: Annotated[
        float | None, msgspec.Meta(description="Share that could be judged, rounded down.")
    ] = None
    known_since_ms: Annotated[
        int | None, msgspec.Meta(description="Time of the oldest decision that could be judged.")
    ] = None
    problems: Annotated[tuple[str, ...], msgspec.Meta(description="What could not be read.")] = ()


class ReportBuilder:
    """Counts verdicts, and keeps findings."""

    def __init__(self) -> None:
        self._count_by_state: Counter[AuditState] = Counter()
        self._unknown_count_by_reason: Counter[str] = Counter()
        self._known_since_ms: int | None = None
        self._findings: list[DecisionFinding] = []

    def count_agreeing(self, decision_count: int, since_ms: int | None) -> None:
        """Count decisions that agree; ``since_ms`` is the time of the oldest."""
        self._count_by_state[AuditState.AGREES] += decision_count
        self._note_known(since_ms)

    def count_unknown(self, decision_count: int, reason: str) -> None:
        self._count_by_state[AuditState.UNKNOWN] += decision_count
        self._unknown_count_by_reason[reason] += decision_count

    def count_verdict(self, verdict: AuditVerdict) -> bool:
        """Count a verdict; returns whether it needs a finding."""
        match verdict.state:
            case AuditState.UNKNOWN:
                self.count_unknown(1, verdict.reason)
                return False
            case AuditState.WITHOUT_DECISION:
                self._count_by_state[verdict.state] += 1
                return True
        self._count_by_state[verdict.state] += 1
        assert verdict.decision is not None
        self._note_known(verdict.decision.at_ms)
        return verdict.state not in (AuditState.AGREES, AuditState.OWED)

    def add(self, finding: DecisionFinding) -> None:
        self._findings.append(finding)

    def add_of_other_replicas(self, builder: ReportBuilder) -> None:
        """Add the findings of replicas that differ from those that count, where they are new."""
        known_ids = {finding.id for finding in self._findings}
        for finding in builder._findings:
            if finding.id in known_ids:
                continue
            known_ids.add(finding.id)
            explanation = f"on a replica that differs from the leading one: {finding.explanation}"
            self._findings.append(msgspec.structs.replace(finding, explanation=explanation))

    def report(self, problems: Iterable[str] = ()) -> DecisionReport:
        decided_states = (
            AuditState.AGREES,
            AuditState.NO_MARKER,
            AuditState.CONTRADICTS,
            AuditState.TWICE,
            AuditState.OWED,
        )
        known_count = sum(self._count_by_state[state] for state in decided_states)
        unknown_count = self._count_by_state[AuditState.UNKNOWN]
        return DecisionReport(
            decisions=known_count + unknown_count,
            agrees=self._count_by_state[AuditState.AGREES],
            owed=self._count_by_state[AuditState.OWED],
            unknown=unknown_count,
            findings=tuple(sorted(self._findings, key=_finding_order)),
            markers_without_decision=self._count_by_state[AuditState.WITHOUT_DECISION],
            unknown_because=tuple(
                UnknownReason(why=reason, decisions=decision_count)
                for reason, decision_count in sorted(self._unknown_count_by_reason.items())
            ),
            known_percent=_percent(known_count, known_count + unknown_count),
            known_since_ms=self._known_since_ms,
            problems=tuple(sorted(problems)),
        )

    def _note_known(self, at_ms: int | None) -> None:
        if at_ms is not None and (self._known_since_ms is None or at_ms < self._known_since_ms):
            self._known_since_ms = at_ms


def _percent(known_count: int, total_count: int) -> float | None:
    """Share in per cent with two digits, rounded down, so that 100 means all."""
    return known_count * 10_000 // total_count / 100 if total_count else None


def _finding_order(finding: DecisionFinding) -> tuple[object, ...]:
    at_ms = finding.decision.at_ms if finding.decision else None
    if at_ms is None:
        at_ms = finding.markers[0].at_ms if finding.markers else 0
    return at_ms, finding.topic, finding.partition, finding.first_offset or 0


def finding_of(
    verdict: AuditVerdict,
    *,
    topic_partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    transactional_id: str | None,
    clues: FindingClues,
    program: ShellText,
) -> DecisionFinding:
    """The finding about a verdict.

    Args:
        verdict: A verdict that is neither ``agrees``, ``owed`` nor ``unknown``.
        topic_partition: The partition.
        producer_id: Of decision and markers.
        producer_epoch: Of decision and markers.
        transactional_id: None if no coordinator knows the producer.
        clues: What the logs show.
        program: ``txnsim txns`` with its global options, for printed commands.
    """
    explained_by, explanation = _explanation(verdict, clues)
    concerned_records = clues.records
    return DecisionFinding(
        id=finding_id(verdict, topic_partition, producer_id),
        state=verdict.state,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        decision=None if verdict.decision is None else _decision_place(verdict.decision),
        markers=tuple(map(_marker_place, verdict.markers)),
        first_offset=None if concerned_records is None else concerned_records.first_offset,
        last_offset=None if concerned_records is None else concerned_records.last_offset,
        records=0 if concerned_records is None else concerned_records.records,
        reads_as=_reads_as(verdict, concerned_records),
        explained_by=explained_by,
        explanation=explanation,
        advice=_advice(verdict, concerned_records, topic_partition, program),
    )


def finding_id(verdict: AuditVerdict, topic_partition: TopicPartition, producer_id: int) -> str:
    """The name of a finding: its state, its partition, and the place of the decision or marker in
    its log; without either, the producer. Each is there once.
    """
    if verdict.decision is not None:
        place_text = f"decision-{verdict.decision.coordinator}-{verdict.decision.offset}"
    elif verdict.markers:
        place_text = f"marker-{verdict.markers[0].offset}"
    else:
        place_text = f"producer-{producer_id}"
    return f"{verdict.state}:{topic_partition}:{place_text}"


def _decision_place(decision: AuditedDecision) -> DecisionPlace:
    return DecisionPlace(
        offset=decision.offset,
        partition=decision.coordinator,
        at_ms=decision.at_ms,
        outcome=MARKER_WORDS[decision.is_commit],
    )


def _marker_place(marker: AuditedMarker) -> MarkerPlace:
    return MarkerPlace(
        offset=marker.offset,
        outcome=MARKER_WORDS[marker.is_commit],
        at_ms=marker.at_ms,
        coordinator_epoch=marker.coordinator_epoch,
    )


# What readers get


def _reads_as(verdict: AuditVerdict, concerned_records: RecordsConcerned | None) -> str:
    if concerned_records is None:
        return "no record is concerned"
    if concerned_records.ended_at is None:
        promise_words = _promise(verdict)
        return f"unread: readers stop at offset {concerned_records.first_offset}{promise_words}"
    ending_word = "committed" if concerned_records.ended_by_commit else "aborted"
    decision = verdict.decision
    if decision is None or decision.is_commit == concerned_records.ended_by_commit:
        return ending_word
    return f"{ending_word}{_promise(verdict)}"


def _promise(verdict: AuditVerdict) -> str:
    if verdict.decision is None:
        return ""
    if verdict.decision.is_commit:
        return ", though their commit was acknowledged"
    return ", though their abort was decided"


# Why


def _explanation(verdict: AuditVerdict, clues: FindingClues) -> tuple[str | None, str]:
    match verdict.state:
        case AuditState.NO_MARKER:
            return _missing_explanation(clues)
        case AuditState.CONTRADICTS:
            return _contradiction_explanation(verdict, clues)
        case AuditState.TWICE:
            return _repetition_explanation(verdict)
        case AuditState.WITHOUT_DECISION:
            return _lone_marker_explanation(verdict, clues)
        case AuditState.RECORDS_BEHIND if clues.has_moved_twice:
            return "z34", (
                "the coordinator's partition got two leaders shortly after, and the last one does"
                " not know this transaction: txnsim scenario run z34"
            )
        case AuditState.RECORDS_BEHIND:
            return "KAFKA-14402", (
                "a Produce that came after its transaction had ended opens it again, where"
                " partitions are not verified (KIP-890): txnsim scenario run z01"
            )
        case AuditState.EPOCH_BACK:
            return "fence-forgotten", (
                "the leader had forgotten the producer's newest epoch, as a replica of a compacted"
                " partition may (docs/found.md)"
            )
    raise AssertionError(f"{verdict.state} is no finding")


def _missing_explanation(clues: FindingClues) -> tuple[str | None, str]:
    if clues.has_new_leader:
        return "KAFKA-20734", (
            "the partition got a new leader behind these records: while it had none, a coordinator"
            " of 4.3 or 4.4 drops its marker (an unclean election can lose it too, KAFKA-7408)"
        )
    if clues.records is None:
        return None, "no record of this transaction is there: nothing is lost with the marker"
    return None, "the partition kept its leader while the marker was due: were files changed?"


def _contradiction_explanation(
    verdict: AuditVerdict, clues: FindingClues
) -> tuple[str | None, str]:
    decision = verdict.decision
    assert decision is not None
    wrong_marker = next(
        marker for marker in verdict.markers if marker.is_commit != decision.is_commit
    )
    if _is_foreign_epoch(wrong_marker, clues):
        return "operator", (
            f"its coordinator epoch is {wrong_marker.coordinator_epoch}, its coordinator's was"
            f" {clues.coordinator_epoch}: an operator wrote it, not the coordinator"
        )
    if decision.completed_ms is not None and wrong_marker.at_ms > decision.completed_ms + 1_000:
        return "operator", (
            "it was written after the coordinator had completed the transaction: by an operator,"
            " as kafka-transactions.sh abort does"
        )
    return None, (
        "a coordinator sends the outcome that it has decided, and no other one: were files changed?"
    )


def _is_foreign_epoch(marker: AuditedMarker, clues: FindingClues) -> bool:
    return (
        clues.coordinator_epoch is not None and marker.coordinator_epoch < clues.coordinator_epoch
    )


def _repetition_explanation(verdict: AuditVerdict) -> tuple[str | None, str]:
    epochs = {marker.coordinator_epoch for marker in verdict.markers}
    if len(epochs) > 1:
        return "coordinator-moved", (
            "its coordinator moved, and the new one sent the marker again, as it must"
        )
    return "sent-again", (
        "the marker was sent again: its first answer was lost or late (WriteTxnMarkers is repeated"
        " until it is answered)"
    )


def _lone_marker_explanation(verdict: AuditVerdict, clues: FindingClues) -> tuple[str | None, str]:
    (marker,) = verdict.markers
    if clues.coordinator_epoch is None:
        return "operator", "no coordinator's log has its producer: an operator wrote it"
    if _is_foreign_epoch(marker, clues):
        return "operator", (
            f"its coordinator epoch is {marker.coordinator_epoch}, its coordinator's was"
            f" {clues.coordinator_epoch}: an operator wrote it"
        )
    return None, (
        f"its coordinator epoch is {marker.coordinator_epoch}, that of its coordinator, whose log"
        " has no such decision: an operator wrote it, or the decision is lost"
    )


# What to do


def _advice(
    verdict: AuditVerdict,
    concerned_records: RecordsConcerned | None,
    topic_partition: TopicPartition,
    program: ShellText,
) -> str:
    decision = verdict.decision
    if concerned_records is not None and concerned_records.ended_at is None:
        return f"end it (with --yes): {repair_command(topic_partition, program)}"
    if (
        decision is not None
        and concerned_records is not None
        and concerned_records.ended_by_commit is not None
    ):
        if decision.is_commit and not concerned_records.ended_by_commit:
            return (
                "no marker changes it any more: give the records to the application, which has to"
                f" write them again: {records_command(topic_partition, concerned_records)}"
            )
        if not decision.is_commit and concerned_records.ended_by_commit:
            return (
                "no marker changes it any more: readers got records that were aborted; their"
                " consumers have to undo them:"
                f" {records_command(topic_partition, concerned_records)}"
            )
    return "nothing"


def repair_command(topic_partition: TopicPartition, program: ShellText) -> ShellText:
    """The command that ends the open transactions of a partition."""
    return continued(
        program,
        "repair",
        *option("--topic", topic_partition.topic),
        *option("--partition", str(topic_partition.partition)),
    )


def records_command(
    topic_partition: TopicPartition, concerned_records: RecordsConcerned
) -> ShellText:
    """The command that prints the records of a range from log directories."""
    query = (
        "SELECT `offset`, key, value FROM leader WHERE NOT is_control AND partition ="
        f" {topic_partition.partition} AND `offset` BETWEEN {concerned_records.first_offset} AND"
        f" {concerned_records.last_offset}"
    )
    topic_option = option("--option", f"topics={topic_partition.topic}")
    return command_line("txnsim", "logs", "sql", query, "DIR", *topic_option)


STATE_WORDS: Final[Mapping[AuditState, str]] = {
    AuditState.NO_MARKER: "no marker",
    AuditState.CONTRADICTS: "the marker contradicts the decision",
    AuditState.TWICE: "the marker is there twice",
    AuditState.WITHOUT_DECISION: "a marker without a decision",
    AuditState.RECORDS_BEHIND: "records behind the last marker, in no transaction",
    AuditState.EPOCH_BACK: "records of an older epoch than one before",
}
