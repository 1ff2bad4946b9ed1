"""The table ``findings``: open transactions, judged, as rows."""

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
from txnsim_spark.tables.rows import Job, Make, Rows, values

_US_PER_MS: Final = 1_000


def read(job: Job) -> Iterator[Rows]:
    """All rows, read in this process.

    Args:
        job: With the directories, and the time that is asked about.
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
        first, *others = report.source.problems
        more = f"; and {len(others)} more" if others else ""
        refuse_problem(f"not everything can be judged: {first}{more}", options)
    return rows_of(report)


def rows_of(report: Report) -> Iterator[Rows]:
    """The findings of a report as rows, topic by topic."""
    ordered = sorted(report.findings, key=lambda one: (one.topic, one.partition, one.start_offset))
    for _, several in groupby(ordered, key=lambda one: one.topic):
        found = list(several)
        yield Rows(len(found), _columns(found, report.as_of_ms))


def _columns(found: list[Finding], as_of_ms: int) -> dict[str, Make]:
    def column(name: str) -> Make:
        return values(lambda: [getattr(one, name) for one in found])

    return {
        **{name: column(name) for name in Finding.__struct_fields__},
        "started_at": values(lambda: [_us(one.start_timestamp_ms) for one in found]),
        "last_written_at": values(lambda: [_us(one.last_timestamp_ms) for one in found]),
        "as_of": values(lambda: [_us(as_of_ms)] * len(found)),
        "verdict": values(lambda: [one.verdict.value for one in found]),
        "rule": values(lambda: [one.rule.value for one in found]),
        "evidence_status": values(lambda: [one.evidence.status.value for one in found]),
        "evidence_reasons": values(lambda: [one.evidence.reasons for one in found]),
        "replicas": values(lambda: [one.evidence.replicas.summary for one in found]),
        "evidence": values(lambda: [msgspec.json.encode(one.evidence).decode() for one in found]),
    }


def _us(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * _US_PER_MS
