"""``txnsim logs find-hanging``: finds hanging transactions in stopped brokers' log directories.

The table has the columns of Kafka's ``find-hanging``, the exit statuses are those of
``txnsim txns find-hanging --all``. Kafka's counterpart, for living brokers, is
TransactionsCommand.FindHangingTransactionsCommand.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, FormattedTable
from txnsim.cli.parsing import new_file
from txnsim_spark.cli.logs._searching import add_as_of_argument, make_run, search_files
from txnsim_spark.cli.logs.spark import add_directory_arguments

if TYPE_CHECKING:
    from txnsim_spark.forensics.findings import Finding, PartitionFigures, Report

DESCRIPTION: Final = (
    "Find hanging transactions in log directories of stopped brokers, or in copies of them: several"
    " brokers' at once, with their coordinators' logs."
    " Snapshots of producer state are used where"
    " brokers left them; what has to be read is read by Apache Spark where it is much. Exit status"
    " 3: something hangs or replicas disagree; 4: nothing that was seen does, but something is too"
    " recent or could not be judged; 0: nothing; 2: a misuse."
)
HANGING_STATUS: Final = 3
INCOMPLETE_STATUS: Final = 4
"""Exit status if a transaction could not be judged, as for ``txnsim txns find-hanging --all``."""
FINDING_COLUMNS: Final[Columns[Finding]] = {
    "Topic": lambda row: row.topic,
    "Partition": lambda row: row.partition,
    "ProducerId": lambda row: row.producer_id,
    "ProducerEpoch": lambda row: row.producer_epoch,
    "CoordinatorEpoch": lambda row: -1 if row.coordinator_epoch is None else row.coordinator_epoch,
    "StartOffset": lambda row: row.start_offset,
    "LastTimestamp": lambda row: row.last_timestamp_ms,
    "Duration(min)": lambda row: _duration_min(row),
}
"""The columns that Kafka's ``find-hanging`` prints."""
FIGURE_COLUMNS: Final[Columns[PartitionFigures]] = {
    "Topic": lambda row: row.topic,
    "Partition": lambda row: row.partition,
    "Broker": lambda row: row.broker,
    "LastStableOffset": lambda row: row.last_stable_offset,
    "HighWatermark": lambda row: row.high_watermark,
    "LogEndOffset": lambda row: row.end_offset,
    "Lag": lambda row: row.lag,
    "Stands(min)": lambda row: "" if row.stands_for_ms is None else row.stands_for_ms // _MINUTE_MS,
    "Open": lambda row: row.open_transactions,
    "Late": lambda row: "yes" if row.has_late_transaction else "no",
}
_MINUTE_MS: Final = 60_000
_SECOND_MS: Final = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``logs find-hanging``."""
    add_directory_arguments(parser)
    parser.add_argument(
        "--max-transaction-timeout",
        type=_whole_minutes,
        default=15,
        metavar="MIN",
        help="a transaction hangs only if its last write is older than this (default 15 minutes)",
    )
    add_as_of_argument(parser)
    parser.add_argument(
        "--all", action="store_true", help="every open transaction, with its verdict; LSO lag too"
    )
    parser.add_argument(
        "--read-all",
        action="store_true",
        help="do not use snapshots: read every segment",
    )
    parser.add_argument(
        "--accept-damage",
        action="store_true",
        help="print commands on damaged or incomplete evidence too; first look at what is lost",
    )
    parser.add_argument(
        "--since",
        type=new_file,
        metavar="STATE",
        help="read what is new since the search that wrote this file, and write it anew; the answer"
        " is the same",
    )
    parser.add_argument(
        "--bootstrap-server",
        default="localhost:9092",
        metavar="host:port",
        help="goes into the printed commands (default %(default)s)",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="use Spark at this address, for small directories too: local[*], spark://HOST:PORT",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def run(args: argparse.Namespace) -> int:
    """Search, judge and print; returns the exit status."""
    print_report = partial(_print_report, prints_all=args.all)
    return make_run(_search, print_report, status_of)(args)


def _search(args: argparse.Namespace) -> Report:
    from txnsim.runtime.wall_clock import wall_ms
    from txnsim_spark.forensics.find_hanging import Search, find_hanging

    search = Search(
        paths=tuple(args.directory),
        topics=frozenset(args.topic),
        as_of_ms=args.as_of,
        max_transaction_timeout_ms=args.max_transaction_timeout * _MINUTE_MS,
        now_ms=wall_ms(),
        bootstrap=args.bootstrap_server,
        accepts_damage=args.accept_damage,
        uses_snapshots=not args.read_all,
        memory_file=args.since,
        with_spark=args.master is not None,
    )
    return search_files(args.master, find_hanging, search)


def status_of(report: Report) -> int:
    """The exit status for a report."""
    from txnsim.txn.open_txn_verdict import OpenTxnStatus

    if report.with_verdicts(OpenTxnStatus.HANGING, OpenTxnStatus.REPLICAS_DISAGREE):
        return HANGING_STATUS
    if report.with_verdicts(OpenTxnStatus.UNKNOWN, OpenTxnStatus.RECENT) or report.source.problems:
        return INCOMPLETE_STATUS
    # Without replicas nothing was judged.
    return 0 if report.source.replicas else INCOMPLETE_STATUS


# What people read


def _print_report(report: Report, *, prints_all: bool) -> None:
    from txnsim.txn.open_txn_verdict import OpenTxnStatus

    bad_findings = report.with_verdicts(
        OpenTxnStatus.HANGING,
        OpenTxnStatus.REPLICAS_DISAGREE,
        OpenTxnStatus.UNKNOWN,
        OpenTxnStatus.RECENT,
    )
    findings = report.findings if prints_all else bad_findings
    print_summary(report)
    columns = {**FINDING_COLUMNS, "Verdict": _verdict_of} if prints_all else FINDING_COLUMNS
    TERMINAL.text(FormattedTable.of(columns, findings))
    for finding in findings:
        TERMINAL.line(
            f"{finding.topic_partition} at offset {finding.start_offset}: {finding.reason}"
        )
        for line in _lines_below(finding):
            TERMINAL.line(f"  {line}")
    if prints_all and report.partitions:
        TERMINAL.text(FormattedTable.of(FIGURE_COLUMNS, report.partitions))


def _lines_below(finding: Finding) -> Iterator[str]:
    """The lines below a finding: doubts about the files, and the command that repairs it."""
    from txnsim.text import time_text
    from txnsim.txn.past_decision import DecisionEvidence

    if finding.evidence.replicas.missing:
        yield finding.evidence.replicas.summary
    for reason in finding.evidence.reasons:
        yield f"evidence {finding.evidence.status}: {reason}"
    if finding.recent_until_ms is not None:
        as_of_text = time_text(finding.recent_until_ms + _SECOND_MS)
        yield f"if no broker ran since then, try --as-of {as_of_text}"
    if finding.decided_outcome is not None:
        yield str(finding.decided_outcome)
    if finding.command is not None:
        yield DecisionEvidence.with_guess(finding.command, finding.decided_outcome)
    elif finding.verdict == "hanging":
        yield "no command on this evidence; --accept-damage prints it all the same"


def print_summary(report: Report) -> None:
    from txnsim.text import time_text
    from txnsim.txn.open_txn_verdict import OpenTxnStatus
    from txnsim_spark.forensics.identity import stale_words

    source = report.source
    verdict_counts = Counter(finding.verdict for finding in report.findings)
    verdict_words = {
        OpenTxnStatus.HANGING: "hanging",
        OpenTxnStatus.REPLICAS_DISAGREE: "replicas disagree",
        OpenTxnStatus.DECIDED: "decided and not yet marked",
        OpenTxnStatus.ALIVE: "alive",
        OpenTxnStatus.RECENT: "unlisted, and recent",
        OpenTxnStatus.UNKNOWN: "unknown",
    }
    summary_parts = [f"replicas: {source.replicas}, scanned: {source.scanned}"]
    summary_parts += [
        f"{verdict_word}: {verdict_counts[verdict]}"
        for verdict, verdict_word in verdict_words.items()
        if verdict_counts[verdict]
    ]
    if source.stale:
        summary_parts.append(f"stale replicas: {len(source.stale)}")
    unsound_count = sum(not finding.evidence.is_sound for finding in report.findings)
    if unsound_count:
        summary_parts.append(f"evidence not sound: {unsound_count}")
    late_count = sum(finding.is_late for finding in report.findings)
    if late_count:
        summary_parts.append(f"late: {late_count}")
    TERMINAL.warn("; ".join(summary_parts) + f"; as of {time_text(report.as_of_ms)}.")
    # A transaction whose coordinator's log is here, or that is not open, lacks nothing.
    if source.transaction_log_gap and verdict_counts[OpenTxnStatus.UNKNOWN]:
        TERMINAL.warn(f"Not everything can be judged: {source.transaction_log_gap}.")
    for line in (*stale_words(source.stale), *source.unserved):
        TERMINAL.warn(line)
    for torn_tail_text in source.cut_off:
        TERMINAL.warn(f"{torn_tail_text}; a broker cuts that off when it starts")
    for problem in source.problems:
        TERMINAL.warn(problem)


def _duration_min(finding: Finding) -> int:
    from txnsim_spark.forensics.findings import duration_min

    return duration_min(finding)


def _verdict_of(finding: Finding) -> str:
    return finding.verdict


# Arguments


def _whole_minutes(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of minutes")
    return int(text)
