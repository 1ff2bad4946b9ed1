"""``txnsim logs dumped``: answers from the text of ``kafka-dump-log``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.text import time_text
from txnsim.txn.open_txn_verdict import OpenTxnStatus

if TYPE_CHECKING:
    from txnsim_spark.forensics.dumped import DumpedAnswer

DESCRIPTION: Final = (
    "Read the text that Kafka's kafka-dump-log printed, as people post it: which transactions are"
    " open, what their coordinator has decided, and what would have to be dumped to know more. It"
    " needs neither Spark nor the log directories. Exit status 3: something hangs, as far as the"
    " text goes; 4: something is open that can't be judged; 0: nothing of these; 2: a misuse."
)
HANGS: Final = 3
UNJUDGED: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs dumped`` takes."""
    parser.add_argument(
        "file", nargs="+", help="text of kafka-dump-log, best with --deep-iteration; - is the input"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print what the text tells."""
    from txnsim_spark.forensics.dumped import answer

    found = answer(_lines(args.file))
    if args.json:
        TERMINAL.line(msgspec.json.encode(found).decode())
    else:
        _print(found)
    if found.worst is OpenTxnStatus.HANGING:
        return HANGS
    return 0 if found.worst is None else UNJUDGED


def _lines(files: list[str]) -> Iterator[str]:
    for name in files:
        if name == "-":
            yield from sys.stdin
            continue
        with Path(name).open(encoding="utf-8", errors="replace") as text:
            yield from text


def _print(found: DumpedAnswer) -> None:
    for one in found.partitions:
        copies = f", {one.replicas} replicas" if one.replicas > 1 else ""
        span = "empty" if one.last_offset is None else f"{one.first_offset} to {one.last_offset}"
        unread = f", {one.unread_markers} markers of unknown kind" if one.unread_markers else ""
        TERMINAL.line(
            f"{one.partition}: {span}, {one.batches} batches, {one.commits} commits,"
            f" {one.aborts} aborts{unread}{copies}"
        )
        for txn in one.open:
            sure = " as far as the text goes" if txn.verdict is OpenTxnStatus.HANGING else ""
            TERMINAL.line(
                f"  open since offset {txn.start_offset}: producer {txn.producer_id}, epoch"
                f" {txn.producer_epoch}, last write {time_text(txn.last_timestamp_ms)}:"
                f" {txn.verdict}{sure}: {txn.reason}."
            )
            if txn.verdict is OpenTxnStatus.HANGING:
                TERMINAL.line(f"  once the brokers run: txnsim txns why {one.partition}")
    for entry in found.entries:
        listed = ", ".join(sorted(map(str, entry.partitions))) or "no partition"
        TERMINAL.line(
            f"transactional id {entry.transactional_id}: {entry.state}, producer"
            f" {entry.producer_id}, epoch {entry.producer_epoch}, {listed}"
        )
    for sentence in found.missing:
        TERMINAL.line(f"missing: {sentence}")
