"""Subcommands of ``txnsim txns`` that Kafka's tool does not have: a search of the whole cluster, a
repair with checks before and after, and an explanation why a reader does not advance.

Their exit statuses suit cron: see ``HANGS`` and ``INCOMPLETE``. Nothing is written to a cluster
without ``--yes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from txnsim.cli._txns.audit import Audit
from txnsim.cli._txns.search_scope import (
    HangingSearchResult,
    SearchScope,
    print_search_summary,
    tell_missing,
)
from txnsim.cli.decision_output import finding_lines, status_of, summary_lines
from txnsim.cli.output import TERMINAL, Columns, Output, rows_of
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection.decisions import check_decisions
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.repair import Outcome, Repair, not_known, repair
from txnsim.client.inspection.waiting_readers import explain
from txnsim.shell_text import ShellText
from txnsim.txn.past_decision import READ_LOG_HINT, DecisionEvidence, PastDecision
from txnsim.types import TopicPartition
from txnsim.verdict.reader_standing import Cause

HANGS: Final = 3
"""Exit status: a transaction hangs, or still hangs after the repair."""
INCOMPLETE: Final = 4
"""Exit status: no hanging transaction was found, but some partitions could not be examined."""


class Command(Protocol):
    """A subcommand with its arguments."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Run the command.

        Raises:
            CommandFailure: The command failed; the error has the message to print.
        """


class FindHangingEverywhere(msgspec.Struct, frozen=True, kw_only=True):
    """The ``find-hanging --all`` command."""

    scope: SearchScope
    program: ShellText
    """The command line of this program, for printed commands."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Search the whole cluster and judge every open transaction; say what hangs, why, and how
        to end it.
        """
        search_result = await self.scope.search(admin, now_ms=now_ms)
        lines = []
        for finding in (*search_result.hanging, *search_result.hanging_younger_findings):
            start_offset = finding.transaction.producer.txn_start_offset
            command = finding.command(self.program)
            assert command is not None, "what hangs has one"
            lines += [
                f"{finding.transaction.partition} at offset {start_offset}: {finding.reason}",
                *([f"  {finding.decided}"] if finding.decided is not None else []),
                f"  {DecisionEvidence.with_guess(command, finding.decided)}",
            ]
        print_search_summary(search_result)
        columns = hanging_columns(now_ms)
        return Output(
            headers=tuple(columns),
            rows=rows_of(columns, (finding.transaction for finding in search_result.hanging)),
            lines=tuple(lines),
            values={
                "partitions": search_result.partition_count,
                "findings": [
                    self._finding_values(finding, now_ms) for finding in search_result.findings
                ],
                "younger": [
                    self._finding_values(finding, now_ms)
                    for finding in search_result.younger_transactions
                ],
                "unread": {
                    str(partition): str(error) for partition, error in search_result.unread.items()
                },
                "unread_topics": {
                    topic: str(error) for topic, error in search_result.unread_topics.items()
                },
                "unseen": [str(error) for error in search_result.rights_errors],
            },
            status=_status(search_result, search_result.hanging),
        )

    def _finding_values(self, finding: JudgedTransaction, now_ms: int) -> dict[str, Any]:
        return {
            "finding": finding,
            "duration_min": finding.transaction.duration_min(now_ms),
            "command": finding.command(self.program),
        }


class CheckDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """The ``decisions`` command: every decision against every marker."""

    topic: str | None = None
    program: ShellText
    """The command line of this program, for printed commands."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Read the coordinators' logs and the partitions, and judge."""
        report = await check_decisions(
            admin,
            now_ms=now_ms,
            topic=self.topic,
            program=self.program,
            report_progress=TERMINAL.progress,
        )
        for line in summary_lines(report):
            TERMINAL.warn(line)
        return Output(lines=tuple(finding_lines(report)), values=report, status=status_of(report))


class RepairHanging(msgspec.Struct, frozen=True, kw_only=True):
    """The ``repair`` command: end hanging transactions."""

    scope: SearchScope
    yes: bool = False
    """If False, only show what would be done."""
    audit_file: Path
    guess: PastDecision | None = None
    """The outcome to write if the decision is unknown."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Search, judge each hanging transaction again, end it, check that it is gone, and record
        it.

        Raises:
            ConfigError: The audit file can't be written; nothing was done.
        """
        search_result = await self.scope.search(admin, now_ms=now_ms)
        cluster_id = (await admin.describe_cluster()).cluster_id
        repairs: list[Repair] = []
        with Audit(
            self.audit_file if self.yes and search_result.hanging else None, cluster_id
        ) as audit:
            for finding in search_result.hanging:
                audit.write(attempt=finding, at_ms=now_ms)
                try:
                    repair_outcome = await repair(
                        admin, finding, now_ms=now_ms, dry_run=not self.yes, guess=self.guess
                    )
                except ClientError as failure:
                    repair_outcome = not_known(finding, failure, now_ms=now_ms)
                audit.write(repair=repair_outcome)
                repairs.append(repair_outcome)
        print_search_summary(search_result)
        for repair_made in repairs:
            if (
                self.guess not in (None, repair_made.decision)
                and repair_made.decision is not PastDecision.UNKNOWN
            ):
                TERMINAL.warn(
                    f"{repair_made.partition}: the guess does not count, as it was"
                    f" {repair_made.decision}."
                )
        if any(repair_made.outcome is Outcome.NEEDS_A_GUESS for repair_made in repairs):
            TERMINAL.warn(
                "What was decided about some of them is unknown: say --guess abort, and what they"
                " wrote is lost to readers, or --guess commit, and readers get it."
            )
        if any(READ_LOG_HINT in repair_made.reason for repair_made in repairs):
            TERMINAL.warn(f"Before a guess: {READ_LOG_HINT}.")
        if search_result.hanging_younger_findings:
            TERMINAL.warn(
                "What is younger was left alone: name its partition, or say"
                " --max-transaction-timeout 0."
            )
        if repairs and not self.yes:
            TERMINAL.warn("Nothing was changed. To do it: the same command with --yes.")
        elif self.yes and repairs:
            TERMINAL.warn(f"What was done is written down in {self.audit_file}.")
        tell_missing("repair", (repair_made.error for repair_made in repairs))
        unhealed_repairs = [
            repair_made for repair_made in repairs if repair_made.outcome not in _HEALED
        ]
        return Output(
            headers=tuple(_REPAIRS),
            rows=rows_of(_REPAIRS, repairs),
            values={"repairs": repairs, "dry_run": not self.yes},
            status=_status(search_result, unhealed_repairs),
        )


class WhyCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The ``why TOPIC PARTITION`` command."""

    partition: TopicPartition
    program: ShellText

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        explanation = await explain(admin, self.partition, now_ms=now_ms, program=self.program)
        return Output(
            lines=explanation.sentences,
            values=explanation,
            status=_STATUS_OF.get(explanation.cause, 0),
        )


_STATUS_OF: Final = {
    Cause.HANGING: HANGS,
    Cause.UNTOLD: INCOMPLETE,
    Cause.OFFLINE: INCOMPLETE,
}


_HEALED: Final = frozenset({Outcome.REPAIRED, Outcome.ENDED_TWICE, Outcome.NO_LONGER_HANGS})


def _status(search_result: HangingSearchResult, unhealed: Sequence[object]) -> int:
    """Exit status of a search, from the transactions that still hang."""
    if unhealed or search_result.hanging_younger_findings:
        return HANGS
    return INCOMPLETE if search_result.is_incomplete else 0


def hanging_columns(now_ms: int) -> Columns[OpenTransaction]:
    """The columns of Kafka's ``find-hanging``; durations are counted up to ``now_ms``."""
    return {
        "Topic": lambda transaction: transaction.partition.topic,
        "Partition": lambda transaction: transaction.partition.partition,
        "ProducerId": lambda transaction: transaction.producer.producer_id,
        "ProducerEpoch": lambda transaction: transaction.producer.producer_epoch,
        "CoordinatorEpoch": lambda transaction: _or_none(transaction.producer.coordinator_epoch),
        "StartOffset": lambda transaction: _or_none(transaction.producer.txn_start_offset),
        "LastTimestamp": lambda transaction: transaction.producer.last_timestamp_ms,
        "Duration(min)": lambda transaction: transaction.duration_min(now_ms),
    }


def _or_none(number: int | None) -> int:
    """The number, or -1 for None, as Kafka's tool prints it."""
    return -1 if number is None else number


def _stable_offset_text(repair_made: Repair) -> str:
    stable_offset_before, stable_offset_after = (
        repair_made.last_stable_offset_before,
        repair_made.last_stable_offset_after,
    )
    return (
        str(stable_offset_before)
        if stable_offset_after is None
        else f"{stable_offset_before} -> {stable_offset_after}"
    )


_REPAIRS: Final[Columns[Repair]] = {
    "Topic": lambda repair_made: repair_made.partition.topic,
    "Partition": lambda repair_made: repair_made.partition.partition,
    "ProducerId": lambda repair_made: repair_made.producer_id,
    "ProducerEpoch": lambda repair_made: repair_made.producer_epoch,
    "CoordinatorEpoch": lambda repair_made: repair_made.coordinator_epoch,
    "StartOffset": lambda repair_made: repair_made.start_offset,
    "Decided": lambda repair_made: repair_made.decision,
    "Marker": lambda repair_made: repair_made.marker,
    "Offsets": lambda repair_made: "" if repair_made.records is None else repair_made.records,
    "Outcome": lambda repair_made: repair_made.outcome,
    "LastStableOffset": _stable_offset_text,
    "HighWatermark": lambda repair_made: (
        "" if repair_made.high_watermark_after is None else repair_made.high_watermark_after
    ),
    "Reason": lambda repair_made: repair_made.reason,
}
