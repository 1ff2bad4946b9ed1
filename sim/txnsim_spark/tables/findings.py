"""The table ``findings``: open transactions with the verdict on each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.runtime.wall_clock import wall_ms
from txnsim_spark.file_faults import refuse_problem
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Finding, Report
from txnsim_spark.tables.rows import ArrayMaker, Rows, TableJob, value_column

_US_PER_MS: Final = 1_000


def read(job: TableJob) -> Iterator[Rows]:
    """All rows, read in this process.

    Args:
        job: The job, with the directories and the time for ages.
    """
    options = job.options
    search = Search(
        paths=options.paths,
        topics=options.topics,
        as_of_ms=options.as_of_ms,
        max_transaction_timeout_ms=MAX_TRANSACTION_TIMEOUT_MS
        if options.max_transaction_timeout_ms is None
        else options.max_transaction_timeout_ms,
        now_ms=wall_ms(),
        never_spark=True,
    )
    report = find_hanging(search)
    if report.source.problems and not options.passes_over_corrupt:
        problem, *further_problems = report.source.problems
        count_text = f"; and {len(further_problems)} more" if further_problems else ""
        refuse_problem(f"not everything can be judged: {problem}{count_text}", options)
    return rows_of(report)


def rows_of(report: Report) -> Iterator[Rows]:
    """The findings of a report as rows, topic by topic."""
    ordered_findings = sorted(
        report.findings,
        key=lambda finding: (finding.topic, finding.partition, finding.start_offset),
    )
    for _, findings_of_partition in groupby(ordered_findings, key=lambda finding: finding.topic):
        partition_findings = list(findings_of_partition)
        yield Rows(len(partition_findings), _finding_columns(partition_findings, report.as_of_ms))


def _finding_columns(findings: list[Finding], as_of_ms: int) -> dict[str, ArrayMaker]:
    def column(field_name: str) -> ArrayMaker:
        return value_column(lambda: [getattr(finding, field_name) for finding in findings])

    return {
        **{name: column(name) for name in Finding.__struct_fields__},
        "started_at": value_column(
            lambda: [_microseconds(finding.start_timestamp_ms) for finding in findings]
        ),
        "last_written_at": value_column(
            lambda: [_microseconds(finding.last_timestamp_ms) for finding in findings]
        ),
        "as_of": value_column(lambda: [_microseconds(as_of_ms)] * len(findings)),
        "verdict": value_column(lambda: [finding.verdict.value for finding in findings]),
        "rule": value_column(lambda: [finding.rule.value for finding in findings]),
        "evidence_status": value_column(
            lambda: [finding.evidence.status.value for finding in findings]
        ),
        "evidence_reasons": value_column(
            lambda: [finding.evidence.reasons for finding in findings]
        ),
        "replicas": value_column(
            lambda: [finding.evidence.replicas.summary for finding in findings]
        ),
        "evidence": value_column(
            lambda: [msgspec.json.encode(finding.evidence).decode() for finding in findings]
        ),
    }


def _microseconds(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * _US_PER_MS
