"""``txnsim logs waiting``: which consumer groups wait behind an open transaction."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL, Columns, Table
from txnsim.text import time_text
from txnsim_spark.cli.logs._find_hanging import HANGS, INCOMPLETE
from txnsim_spark.cli.logs._searching import add_as_of, answering, find, search_of
from txnsim_spark.cli.logs.spark import add_directories, add_master

if TYPE_CHECKING:
    from txnsim_spark.questions.waiting_groups import Waiter, WaitingGroups

DESCRIPTION: Final = (
    "Which consumer groups wait: where each of them stands, how far read_committed consumers still"
    " come, what is withheld from them, whose transaction it is and since when. Exit status 3:"
    " a group waits; 4: none does, but something could not be read, or __consumer_offsets is not"
    " there; 0: none; 2: a misuse."
)
COLUMNS: Final[Columns[Waiter]] = {
    "Group": lambda one: one.group,
    "Topic": lambda one: one.topic,
    "Partition": lambda one: one.partition,
    "Committed": lambda one: one.committed_offset,
    "LastStableOffset": lambda one: one.last_stable_offset,
    "HighWatermark": lambda one: one.high_watermark,
    "ToRead": lambda one: one.to_read,
    "Withheld": lambda one: one.withheld,
    "ProducerId": lambda one: one.producer_id,
    "TransactionalId": lambda one: one.transactional_id or "unknown",
    "Since": lambda one: "" if one.since_ms is None else time_text(one.since_ms),
    "Verdict": lambda one: one.verdict,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs waiting`` takes."""
    add_directories(parser)
    add_as_of(parser)
    add_master(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _status(found: WaitingGroups) -> int:
    if found.waiters:
        return HANGS
    return INCOMPLETE if found.problems or not found.offsets_partitions else 0


def _read(args: argparse.Namespace) -> WaitingGroups:
    from txnsim_spark.questions.waiting_groups import find_waiting_groups

    return find(args.master, find_waiting_groups, search_of(args))


def _print(found: WaitingGroups) -> None:
    TERMINAL.warn(f"{len(found.waiters)} waits; as of {time_text(found.as_of_ms)}.")
    if not found.offsets_partitions:
        TERMINAL.warn(
            "No partition of __consumer_offsets is among the directories: no group can be seen."
        )
    for problem in found.problems:
        TERMINAL.warn(problem)
    TERMINAL.text(Table.of(COLUMNS, found.waiters))
    for place in found.unread:
        TERMINAL.line(f"{place}: records are withheld, and no group has a position there")


run = answering(_read, _print, _status)
