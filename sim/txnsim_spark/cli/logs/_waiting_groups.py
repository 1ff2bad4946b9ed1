"""``txnsim logs waiting``: lists the consumer groups that wait for an open transaction."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, FormattedTable
from txnsim.text import time_text
from txnsim_spark.cli.logs._find_hanging import HANGING_STATUS, INCOMPLETE_STATUS
from txnsim_spark.cli.logs._searching import add_as_of_argument, make_run, search_files, search_of
from txnsim_spark.cli.logs.spark import add_directory_arguments, add_master_argument

if TYPE_CHECKING:
    from txnsim_spark.questions.waiting_groups import Waiter, WaitingGroups

DESCRIPTION: Final = (
    "Which consumer groups wait: where each of them stands, how far read_committed consumers still"
    " come, what is withheld from them, whose transaction it is and since when. Exit status 3:"
    " a group waits; 4: none does, but something could not be read, or __consumer_offsets is not"
    " there; 0: none; 2: a misuse."
)
COLUMNS: Final[Columns[Waiter]] = {
    "Group": lambda waiter: waiter.group,
    "Topic": lambda waiter: waiter.topic,
    "Partition": lambda waiter: waiter.partition,
    "Committed": lambda waiter: waiter.committed_offset,
    "LastStableOffset": lambda waiter: waiter.last_stable_offset,
    "HighWatermark": lambda waiter: waiter.high_watermark,
    "ToRead": lambda waiter: waiter.to_read,
    "Withheld": lambda waiter: waiter.withheld,
    "ProducerId": lambda waiter: waiter.producer_id,
    "TransactionalId": lambda waiter: waiter.transactional_id or "unknown",
    "Since": lambda waiter: "" if waiter.since_ms is None else time_text(waiter.since_ms),
    "Verdict": lambda waiter: waiter.verdict,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_directory_arguments(parser)
    add_as_of_argument(parser)
    add_master_argument(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _exit_status(waiting: WaitingGroups) -> int:
    if waiting.waiters:
        return HANGING_STATUS
    return INCOMPLETE_STATUS if waiting.problems or not waiting.offsets_partitions else 0


def _search_groups(args: argparse.Namespace) -> WaitingGroups:
    from txnsim_spark.questions.waiting_groups import find_waiting_groups

    return search_files(args.master, find_waiting_groups, search_of(args))


def _print_groups(waiting: WaitingGroups) -> None:
    TERMINAL.warn(f"{len(waiting.waiters)} waits; as of {time_text(waiting.as_of_ms)}.")
    if not waiting.offsets_partitions:
        TERMINAL.warn(
            "No partition of __consumer_offsets is among the directories: no group can be seen."
        )
    for problem in waiting.problems:
        TERMINAL.warn(problem)
    TERMINAL.text(FormattedTable.of(COLUMNS, waiting.waiters))
    for partition in waiting.unread:
        TERMINAL.line(f"{partition}: records are withheld, and no group has a position there")


run = make_run(_search_groups, _print_groups, _exit_status)
