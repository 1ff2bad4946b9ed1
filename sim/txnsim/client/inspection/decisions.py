"""``txns decisions``: every decision of the coordinators against the markers of every partition
that it lists, on a running cluster. Nothing is written there.

It reads ``__transaction_state`` and the partitions as any consumer may (``_decision_reading``), and
lets go what is judged. Producers may go on meanwhile, so the coordinators' logs are read before the
partitions, and what came in between once more after them: then each marker that was read has its
decision. A decision that was not complete at the first reading may still get its marker, and counts
as owed without one.

The same judge as for log directories decides (``txn.decision_audit``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.inspection._decision_reading import (
    DecisionReading,
    EpochStart,
    PartitionLogReading,
    Progress,
)
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.shell_text import ShellText
from txnsim.txn.decision_audit import AuditState, AuditVerdict, with_final_reach
from txnsim.txn.decision_ledger import EpochPlace
from txnsim.txn.decision_records import ProducerBatch, records_of
from txnsim.txn.decision_report import (
    DecisionFinding,
    DecisionReport,
    FindingClues,
    RecordsConcerned,
    ReportBuilder,
    finding_of,
)
from txnsim.txn.marker_payment import SKEW_MS
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition


def _no_progress(_text: str) -> None: ...


async def check_decisions(
    admin: TransactionAdmin,
    *,
    now_ms: int,
    topic: str | None = None,
    program: ShellText,
    report_progress: Progress = _no_progress,
) -> DecisionReport:
    """Judge every decision about the partitions of a cluster, or of one topic.

    Args:
        admin: The cluster.
        now_ms: The wall clock, for open transactions.
        topic: Only its partitions; all if None.
        program: ``txnsim txns`` with its global options, for printed commands.
        report_progress: Called with a line about the present activity.

    Raises:
        ClientError: This user may not read ``__transaction_state``, or topics can't be listed.
    """
    searched_partitions = await admin.search_targets(topic)
    if searched_partitions.unread_topics:  # a decision may list its partitions
        raise next(iter(searched_partitions.unread_topics.values()))
    coordinator_targets = await admin.search_targets(TRANSACTION_STATE_TOPIC)
    reading = DecisionReading(
        admin.cluster,
        [partition.partition for partition in coordinator_targets.partitions],
        [
            partition
            for partition in searched_partitions.partitions
            if partition.topic != TRANSACTION_STATE_TOPIC
        ],
        topic=topic,
        report_progress=report_progress,
    )
    check = DecisionCheck(reading, program=program)
    await check.read()
    survey_result = await survey(
        admin, now_ms=now_ms, partitions=[*reading.logs], older_than_ms=ANY_AGE
    )
    hanging_places = {
        (finding.transaction.producer.producer_id, finding.transaction.partition)
        for finding in survey_result.findings
        if finding.verdict is OpenTxnStatus.HANGING
    }
    return check.report(hanging_places, {str(error) for error in survey_result.unread.values()})


class _DoubtfulVerdict(NamedTuple):
    """A verdict that needs a finding, with what the logs showed when it was given."""

    epoch_place: EpochPlace
    verdict: AuditVerdict
    clues: FindingClues


class DecisionCheck:
    """Judges what a reading reads.

    Args:
        reading: Reads decisions and markers.
        program: ``txnsim txns`` with its global options, for printed commands.
    """

    def __init__(self, reading: DecisionReading, *, program: ShellText) -> None:
        self._reading = reading
        self._program = program
        self._builder = ReportBuilder()
        self._doubtful_verdicts: list[_DoubtfulVerdict] = []
        self._unmarked_places: set[tuple[int, TopicPartition]] = set()
        self.kept_most = 0
        """The most decisions, markers and batches that were kept between two rounds."""

    async def read(self) -> None:
        """Read everything, and judge what is certain.

        Raises:
            ClientError: ``__transaction_state`` can't be read.
        """
        while (horizon_ms := await self._reading.read_round()) is not None:
            for epoch_place, verdict in self._reading.settle(horizon_ms):
                self._take_verdict(epoch_place, verdict)
            self.kept_most = max(self.kept_most, self._reading.kept)
        await self._reading.read_tails()

    def report(
        self, hanging_places: Iterable[tuple[int, TopicPartition]], problems: Iterable[str]
    ) -> DecisionReport:
        """The report.

        Args:
            hanging_places: (producer id, partition) of transactions that no coordinator will end.
            problems: What could not be read besides.
        """
        log_by_partition = self._reading.logs
        for epoch_place, verdict in self._reading.ledger.finish():
            self._take_verdict(epoch_place, verdict)
        for producer_id, partition in sorted(set(hanging_places) - self._unmarked_places):
            newest_epoch = log_by_partition[partition].newest_epochs.get(producer_id, -1)
            self._doubt(
                EpochPlace(producer_id, newest_epoch, partition),
                AuditVerdict(state=AuditState.RECORDS_BEHIND),
            )
        for partition, log_reading in sorted(log_by_partition.items(), key=lambda item: item[0]):
            for producer_id, newest_epoch in log_reading.epochs_back.items():
                self._doubt(
                    EpochPlace(producer_id, newest_epoch, partition),
                    AuditVerdict(state=AuditState.EPOCH_BACK),
                )
        for doubtful_verdict in self._doubtful_verdicts:
            self._add_finding(doubtful_verdict)
        return self._builder.report({*problems, *self._reading.unread.values()})

    def _take_verdict(self, epoch_place: EpochPlace, verdict: AuditVerdict) -> None:
        """Count a verdict, or keep it to the end: what is missing may be unknown by then."""
        if verdict.decision is not None and not verdict.markers:
            self._unmarked_places.add((epoch_place.producer_id, epoch_place.partition))
        if verdict.state in (AuditState.NO_MARKER, AuditState.WITHOUT_DECISION):
            self._doubt(epoch_place, verdict)
        elif self._builder.count_verdict(verdict):
            self._builder.add(
                self._finding(
                    _DoubtfulVerdict(epoch_place, verdict, self._clues(epoch_place, verdict))
                )
            )

    def _doubt(self, epoch_place: EpochPlace, verdict: AuditVerdict) -> None:
        self._doubtful_verdicts.append(
            _DoubtfulVerdict(epoch_place, verdict, self._clues(epoch_place, verdict))
        )

    def _add_finding(self, doubtful_verdict: _DoubtfulVerdict) -> None:
        """Add a finding that was kept to the end, if it still is one."""
        epoch_place, verdict = doubtful_verdict.epoch_place, doubtful_verdict.verdict
        if verdict.state in (AuditState.NO_MARKER, AuditState.WITHOUT_DECISION):
            partition_reach, coordinator_reach = self._reading.reaches_of(epoch_place)
            verdict = with_final_reach(
                verdict, partition_reach=partition_reach, coordinator_reach=coordinator_reach
            )
            if not self._builder.count_verdict(verdict):
                return
        self._builder.add(self._finding(doubtful_verdict))

    def _finding(self, doubtful_verdict: _DoubtfulVerdict) -> DecisionFinding:
        epoch_place, verdict, clues = doubtful_verdict
        id_and_coordinator = self._reading.owners.get(epoch_place.producer_id)
        return finding_of(
            verdict,
            topic_partition=epoch_place.partition,
            producer_id=epoch_place.producer_id,
            producer_epoch=epoch_place.producer_epoch,
            transactional_id=None if id_and_coordinator is None else id_and_coordinator[0],
            clues=clues,
            program=self._program,
        )

    def _clues(self, epoch_place: EpochPlace, verdict: AuditVerdict) -> FindingClues:
        log_reading = self._reading.logs.get(epoch_place.partition)
        if log_reading is None:
            return FindingClues()
        batches = log_reading.batches.get(epoch_place.producer_id, [])
        concerned_records = records_of(verdict, epoch_place.producer_epoch, batches)
        id_and_coordinator = self._reading.owners.get(epoch_place.producer_id)
        epoch_starts = (
            []
            if id_and_coordinator is None
            else self._reading.coordinators[id_and_coordinator[1]].epochs
        )
        return FindingClues(
            records=concerned_records,
            has_new_leader=_has_new_leader(log_reading, batches, concerned_records),
            coordinator_epoch=_coordinator_epoch(epoch_starts, verdict),
            has_moved_twice=_has_moved_twice(epoch_starts, batches, concerned_records),
        )


def _has_new_leader(
    log_reading: PartitionLogReading,
    batches: Sequence[ProducerBatch],
    concerned_records: RecordsConcerned | None,
) -> bool | None:
    """Whether the partition got a new leader between some records and their end."""
    if concerned_records is None:
        return None
    epoch_by_offset = {batch.base_offset: batch.leader_epoch for batch in batches}
    end_epoch = (
        log_reading.leader_epoch
        if concerned_records.ended_at is None
        else epoch_by_offset[concerned_records.ended_at]
    )
    return end_epoch > epoch_by_offset[concerned_records.first_offset]


def _coordinator_epoch(epochs: Sequence[EpochStart], verdict: AuditVerdict) -> int | None:
    """The coordinator's epoch at a decision, or at a marker without one."""
    coordinator_epochs = [
        epoch.coordinator_epoch
        for epoch in epochs
        if (
            epoch.first_offset <= verdict.decision.offset
            if verdict.decision is not None
            else bool(verdict.markers) and epoch.first_ms <= verdict.markers[0].at_ms
        )
    ]
    return coordinator_epochs[-1] if coordinator_epochs else None


def _has_moved_twice(
    epochs: Sequence[EpochStart],
    batches: Sequence[ProducerBatch],
    concerned_records: RecordsConcerned | None,
) -> bool:
    """Whether the coordinator moved twice between two of its records, around some records."""
    if concerned_records is None:
        return False
    written_ms = next(
        batch.max_timestamp_ms
        for batch in batches
        if batch.base_offset == concerned_records.first_offset
    )
    return any(
        next_epoch.coordinator_epoch > epoch.coordinator_epoch + 1
        and (next_epoch.before_ms is None or next_epoch.before_ms <= written_ms + SKEW_MS)
        and next_epoch.first_ms >= written_ms - SKEW_MS
        for epoch, next_epoch in pairwise(epochs)
    )
