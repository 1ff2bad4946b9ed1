"""``txnsim logs describe``: describes the replicas in log directories, without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, FormattedTable
from txnsim_spark.cli.logs.spark import add_directory_arguments

if TYPE_CHECKING:
    from txnsim_spark.describe import ReplicaDescription

DESCRIPTION: Final = (
    "Read every replica in log directories of stopped brokers, or in copies of them, and say its"
    " offsets, how far read_committed consumers come, the transactions without an end, and where a"
    " segment stops making sense; of each directory, whether its broker stopped in order. An open"
    " transaction is not a hanging one yet: its coordinator may know it. Exit status 4: something"
    " could not be read and was passed by, or there is no replica; 2: a misuse."
)
INCOMPLETE_STATUS: Final = 4
"""Exit status if a file could not be read, as for ``logs find-hanging``."""
COLUMNS: Final[Columns[ReplicaDescription]] = {
    "Replica": lambda replica: replica.directory,
    "Segments": lambda replica: replica.segments,
    "Batches": lambda replica: replica.batches,
    "Bytes": lambda replica: replica.bytes,
    "Offsets": lambda replica: f"{replica.log_start_offset}-{replica.end_offset}",
    "HighWatermark": lambda replica: (
        "" if replica.high_watermark is None else replica.high_watermark
    ),
    "LastStable": lambda replica: replica.last_stable_offset,
    "OpenTransactions": lambda replica: ", ".join(
        f"{txn.producer_id}@{txn.first_offset}" for txn in replica.open_transactions
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_directory_arguments(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print a line for each replica, by directory, and below it a torn end; returns the exit
    status.
    """
    from txnsim_spark.describe import describe_replicas

    problems: list[str] = []
    replicas = list(
        describe_replicas(
            args.directory,
            frozenset(args.topic),
            progress=TERMINAL.progress,
            on_problem=problems.append,
        )
    )
    for problem in problems:
        TERMINAL.warn(problem)
    if not replicas:
        TERMINAL.warn("No replica is in these directories.")
    status = INCOMPLETE_STATUS if problems or not replicas else 0
    if args.json:
        TERMINAL.json(replicas)
        return status
    for line in _log_dir_lines(replicas):
        TERMINAL.line(line)
    TERMINAL.text(FormattedTable.of(COLUMNS, replicas))
    for replica in replicas:
        if replica.is_stale:
            TERMINAL.line(
                f"{replica.directory} on broker {replica.broker} is stale: its topic was deleted"
            )
        if replica.torn is not None:
            TERMINAL.line(
                f"{replica.directory}/{replica.torn_file}, byte {replica.torn.position}: "
                f"{replica.torn.reason}; a broker would cut off {replica.torn.size_bytes} bytes"
            )
    return status


def _log_dir_lines(descriptions: Iterable[ReplicaDescription]) -> Iterator[str]:
    """A line per log directory."""
    descriptions_by_log_dir: dict[str, list[ReplicaDescription]] = {}
    for replica in descriptions:
        descriptions_by_log_dir.setdefault(replica.log_dir, []).append(replica)
    for log_dir, replicas in descriptions_by_log_dir.items():
        first_replica = replicas[0]
        broker_text = (
            f"broker {first_replica.broker}"
            if first_replica.broker >= 0
            else "of an unknown broker"
        )
        stop_text = "stopped in order" if first_replica.is_clean else "not stopped in order"
        withheld_count = sum(replica.withheld > 0 for replica in replicas)
        withheld_text = (
            f", {withheld_count} held back by open transactions" if withheld_count else ""
        )
        replicas_text = f"{len(replicas)} replica{'' if len(replicas) == 1 else 's'}"
        yield f"{log_dir}: {broker_text}, {stop_text}; {replicas_text}{withheld_text}"
