"""``txnsim logs dumped``: answers from the text of ``kafka-dump-log``."""

from __future__ import annotations

import argparse
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.text import time_text
from txnsim.txn.open_txn_verdict import OpenTxnStatus

if TYPE_CHECKING:
    from txnsim_spark.forensics.dumped import DumpedAnswer, DumpedPartition

DESCRIPTION: Final = (
    "Read the text that Kafka's kafka-dump-log printed of .log and .snapshot files, as people post"
    " it: which transactions are open, what their coordinator has decided, and what would have to"
    " be dumped to know more. It needs neither Spark nor the log directories. It reads what every"
    " release since 2.5 prints, also within lines of a log collector. Exit status 3: something"
    " hangs, as far as the text goes; 4: something is open that can't be judged, or the text, or a"
    " part of it, was not understood; 0: nothing of these; 2: a misuse."
)
HANGS: Final = 3
UNJUDGED: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``logs dumped``."""
    parser.add_argument(
        "file", nargs="+", help="text of kafka-dump-log, best with --deep-iteration; - is the input"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the transactions in the text."""
    from txnsim_spark.forensics.dumped import answer

    dump = answer(*map(_lines, args.file))
    if args.json:
        TERMINAL.line(msgspec.json.encode(dump).decode())
    else:
        _print(dump)
    if dump.worst is OpenTxnStatus.HANGING:
        return HANGS
    return 0 if dump.worst is None and dump.understood else UNJUDGED


def _lines(name: str) -> Iterator[str]:
    if name == "-":
        yield from sys.stdin
        return
    path = Path(name)
    with path.open("rb") as file:
        start = file.read(2)
    # PowerShell writes what a command prints as UTF-16.
    encoding = "utf-16" if start in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
    with path.open(encoding=encoding, errors="replace") as text:
        yield from text


def _span(partition: DumpedPartition) -> str:
    snapshot = (
        ""
        if partition.snapshot_offset is None
        else f"producers before {partition.snapshot_offset} (.snapshot)"
    )
    if partition.last_offset is None:
        return snapshot or "empty"
    return ", ".join(
        filter(None, (f"{partition.first_offset} to {partition.last_offset}", snapshot))
    )


def _print(dump: DumpedAnswer) -> None:
    for partition in dump.partitions:
        copies = f", {partition.replicas} replicas" if partition.replicas > 1 else ""
        span = _span(partition)
        unread = (
            f", {partition.unread_markers} markers of unknown kind"
            if partition.unread_markers
            else ""
        )
        TERMINAL.line(
            f"{partition.partition}: {span}, {partition.batches} batches,"
            f" {partition.commits} commits, {partition.aborts} aborts{unread}{copies}"
        )
        for txn in partition.open:
            sure = " as far as the text goes" if txn.verdict is OpenTxnStatus.HANGING else ""
            TERMINAL.line(
                f"  open since offset {txn.start_offset}: producer {txn.producer_id}, epoch"
                f" {txn.producer_epoch}, last write {time_text(txn.last_timestamp_ms)}:"
                f" {txn.verdict}{sure}: {txn.reason}."
            )
            if txn.verdict is OpenTxnStatus.HANGING:
                TERMINAL.line(f"  once the brokers run: txnsim txns why {partition.partition}")
    for entry in dump.entries:
        listed = ", ".join(sorted(map(str, entry.partitions))) or "no partition"
        TERMINAL.line(
            f"transactional id {entry.transactional_id}: {entry.state}, producer"
            f" {entry.producer_id}, epoch {entry.producer_epoch}, {listed}"
        )
    for sentence in dump.missing:
        TERMINAL.line(f"missing: {sentence}")
