"""``txnsim logs who``: which application a producer id belonged to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim.text import time_text
from txnsim_spark.cli.logs._searching import answering
from txnsim_spark.cli.logs.spark import add_directories

if TYPE_CHECKING:
    from txnsim_spark.questions.application import Application

DESCRIPTION: Final = (
    "Which application it was: the transactional id of a producer id, its state and its last bump,"
    " the partitions that it wrote to, and the ids that got their producer ids at about the same"
    " time. Logs hold no client id and no host. Exit status 0: the transactional id is known; 1: it"
    " is not; 2: a misuse."
)
UNKNOWN: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs who`` takes."""
    parser.add_argument("producer_id", type=int, metavar="PRODUCER_ID", help="whose")
    add_directories(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _status(found: Application) -> int:
    return UNKNOWN if found.transactional_id is None else 0


def _read(args: argparse.Namespace) -> Application:
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    from txnsim_spark.questions.application import application_of

    return application_of(args.directory, args.producer_id, frozenset(args.topic))


def _print(found: Application) -> None:
    if found.transactional_id is None:
        TERMINAL.line(
            f"producer {found.producer_id}: transactional id unknown: {found.why_unknown}"
        )
    else:
        ids = ", ".join(map(str, found.producer_ids))
        TERMINAL.line(
            f"producer {found.producer_id}: transactional id {found.transactional_id}, now"
            f" {found.state or 'forgotten'}; producer ids {ids}"
        )
        bump = found.last_bump
        if bump is not None:
            TERMINAL.line(
                f"last bump: {time_text(bump.at_ms)}, from producer {bump.from_producer_id} epoch"
                f" {bump.from_epoch} to producer {bump.to_producer_id} epoch {bump.to_epoch}"
            )
        TERMINAL.line(f"timeline: txnsim logs timeline {found.transactional_id} …")
    for one in found.written:
        TERMINAL.line(
            f"wrote to {one.topic}-{one.partition}: offsets {one.first_offset} to"
            f" {one.last_offset}, {time_text(one.first_timestamp_ms)} to"
            f" {time_text(one.last_timestamp_ms)}, {one.transactions} transactions"
            f"{', the last one open' if one.is_open else ''}"
        )
    for near in found.neighbours:
        where = ", ".join(near.partitions) or "no partition known"
        TERMINAL.line(f"neighbour: producer {near.producer_id}, {near.transactional_id}: {where}")


run = answering(_read, _print, _status)
