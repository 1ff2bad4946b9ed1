"""``txnsim logs find-hanging``: hanging transactions, found in stopped brokers' log directories.

The table has the columns of Kafka's ``find-hanging``, the exit statuses are those of
``txnsim txns find-hanging --all``. Kafka's counterpart, for living brokers, is
TransactionsCommand.FindHangingTransactionsCommand.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Final

from txnsim.cli.logs.spark import add_directories, misused, session
from txnsim.cli.output import format_table, print_json, print_line, progress, warn
from txnsim.cli.parsing import MISUSE_STATUS

if TYPE_CHECKING:
    from txnsim.pipeline.forensics.findings import Finding, Report

DESCRIPTION: Final = (
    "Find hanging transactions in log directories of stopped brokers, or in copies of them: several"
    " brokers' at once, with their coordinators' logs. Snapshots of producer state are used where"
    " brokers left them; what has to be read is read by Apache Spark where it is much. Exit status"
    " 3: something hangs or replicas disagree; 4: nothing that was seen does, but something could"
    " not be judged; 0: nothing; 2: a misuse."
)
HANGS: Final = 3
INCOMPLETE: Final = 4
"""As those of ``txnsim txns find-hanging --all``."""
HEADERS: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
"""Those of Kafka's ``find-hanging``."""
FIGURES: Final = (
    "Topic",
    "Partition",
    "Broker",
    "LastStableOffset",
    "HighWatermark",
    "LogEndOffset",
    "Lag",
    "Stands(min)",
    "Open",
    "Late",
)
_MINUTE_MS: Final = 60_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs find-hanging`` takes."""
    add_directories(parser)
    parser.add_argument(
        "--max-transaction-timeout",
        type=_whole_minutes,
        default=15,
        metavar="MIN",
        help="only what has no write for longer than this is called hanging (default 15 minutes)",
    )
    parser.add_argument(
        "--as-of",
        type=_time_ms,
        metavar="TIME",
        help="when it was: ISO 8601, or milliseconds since 1970; ages are counted to it (default:"
        " the newest time that files and coordinators' records tell)",
    )
    parser.add_argument(
        "--all", action="store_true", help="every open transaction, with its verdict; LSO lag too"
    )
    parser.add_argument(
        "--read-all",
        action="store_true",
        help="read every segment, whatever snapshots say",
    )
    parser.add_argument(
        "--bootstrap-server",
        default="localhost:9092",
        metavar="host:port",
        help="for the commands that are told (default %(default)s)",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="read with Spark there, also where it is little: local[*], spark://HOST:PORT",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: docs/forensics.md")


def run(args: argparse.Namespace) -> int:
    """Look, judge, tell."""
    from txnsim.errors import BadInputError, MissingExtraError
    from txnsim.pipeline.forensics.find_hanging import Search, find_hanging

    search = Search(
        paths=tuple(args.directory),
        topics=frozenset(args.topic),
        as_of_ms=args.as_of,
        max_transaction_timeout_ms=args.max_transaction_timeout * _MINUTE_MS,
        bootstrap=args.bootstrap_server,
        use_snapshots=not args.read_all,
        with_spark=args.master is not None,
    )
    try:
        with ExitStack() as stack:  # Spark is started only where there is much to read
            report = find_hanging(
                search,
                new_session=lambda: stack.enter_context(session(args.master, is_short=True)),
                progress=_told,
            )
    except (BadInputError, MissingExtraError, OSError) as error:
        misused(error)
        return MISUSE_STATUS
    if args.json:
        print_json(report)
    else:
        _print(report, everything=args.all)
    return _status(report)


def _told(text: str) -> None:
    """Progress: replaced on a terminal; elsewhere only what takes long is told."""
    if sys.stderr.isatty():
        progress(text)
    elif "Spark" in text:
        warn(text)


def _status(report: Report) -> int:
    from txnsim.pipeline.forensics.verdicts import Verdict

    if report.of(Verdict.HANGING, Verdict.REPLICAS_DISAGREE):
        return HANGS
    if report.of(Verdict.UNKNOWN) or report.source.problems:
        return INCOMPLETE
    return 0


# What people read


def _print(report: Report, *, everything: bool) -> None:
    from txnsim.pipeline.forensics.verdicts import Verdict

    bad = report.of(Verdict.HANGING, Verdict.REPLICAS_DISAGREE, Verdict.UNKNOWN)
    shown = report.findings if everything else bad
    _summarize(report)
    headers = (*HEADERS, "Verdict") if everything else HEADERS
    rows = [(*_row(one), one.verdict) if everything else _row(one) for one in shown]
    print_line(format_table(headers, rows).rstrip("\n"))
    for one in shown:
        print_line(f"{one.topic_partition} at offset {one.start_offset}: {one.reason}")
        if one.abort is not None:
            print_line(f"  {one.abort.txnsim}")
    if everything and report.partitions:
        figures = [_figures_row(report, number) for number in range(len(report.partitions))]
        print_line(format_table(FIGURES, figures).rstrip("\n"))


def _summarize(report: Report) -> None:
    """What was looked at, and how many of which verdict, for people."""
    from txnsim.cli.output import time_text
    from txnsim.pipeline.forensics.verdicts import Verdict

    source = report.source
    counts = Counter(one.verdict for one in report.findings)
    words = {
        Verdict.HANGING: "hanging",
        Verdict.REPLICAS_DISAGREE: "replicas disagree",
        Verdict.DECIDED: "decided and not yet marked",
        Verdict.ALIVE: "alive",
        Verdict.RECENT: "nobody's, and recent",
        Verdict.UNKNOWN: "unknown",
    }
    told = [f"replicas: {source.replicas}, scanned: {source.scanned}"]
    told += [f"{word}: {counts[verdict]}" for verdict, word in words.items() if counts[verdict]]
    late = sum(one.is_late for one in report.findings)
    if late:
        told.append(f"late: {late}")
    warn("; ".join(told) + f"; as of {time_text(report.as_of_ms)}.")
    if source.transaction_log_gap:
        warn(f"Not everything can be judged: {source.transaction_log_gap}.")
    for cut in source.cut_off:
        warn(f"{cut}; a broker cuts that off when it starts")
    for problem in source.problems:
        warn(problem)


def _row(one: Finding) -> tuple[str, ...]:
    from txnsim.pipeline.forensics.findings import duration_min

    numbers = (
        one.partition,
        one.producer_id,
        one.producer_epoch,
        -1 if one.coordinator_epoch is None else one.coordinator_epoch,
        one.start_offset,
        one.last_timestamp_ms,
        duration_min(one),
    )
    return (one.topic, *map(str, numbers))


def _figures_row(report: Report, number: int) -> tuple[str, ...]:
    one = report.partitions[number]
    numbers = (
        one.partition,
        one.broker,
        one.last_stable_offset,
        one.high_watermark,
        one.end_offset,
        one.lag,
        "" if one.stands_for_ms is None else one.stands_for_ms // _MINUTE_MS,
        one.open_transactions,
    )
    return (one.topic, *map(str, numbers), "yes" if one.has_late_transaction else "no")


# Arguments


def _whole_minutes(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of minutes")
    return int(text)


def _time_ms(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither ISO 8601 nor a number of milliseconds"
        ) from None
    if when.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} needs a time zone, such as Z at its end")
    return round(when.timestamp() * 1_000)
