"""``txnsim logs dumped``: answers from the text of ``kafka-dump-log``."""

from __future__ import annotations

import argparse
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.errors import BadInputError
from txnsim.text import time_text
from txnsim.txn.open_txn_verdict import OpenTxnStatus, why_command

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
LINE_CHARACTERS_MAX: Final = 16 << 20
"""Longest line that is read; a record of the largest size that Kafka takes by default, printed, is
shorter.
"""
HANGING_STATUS: Final = 3
UNJUDGED_STATUS: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="+", help="text of kafka-dump-log, best with --deep-iteration; - is the input"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the transactions in the text."""
    from txnsim_spark.forensics.dumped import judge_dump

    dumped_answer = judge_dump(*map(_lines_of_dump, args.file))
    if args.json:
        TERMINAL.line(msgspec.json.encode(dumped_answer).decode())
    else:
        _print_dump(dumped_answer)
    if dumped_answer.worst is OpenTxnStatus.HANGING:
        return HANGING_STATUS
    return 0 if dumped_answer.worst is None and dumped_answer.understood else UNJUDGED_STATUS


def _lines_of_dump(file_name: str) -> Iterator[str]:
    if file_name == "-":
        yield from _bounded_lines(sys.stdin, "the input")
        return
    path = Path(file_name)
    with path.open("rb") as file:
        first_bytes = file.read(2)
    # PowerShell writes what a command prints as UTF-16.
    encoding = "utf-16" if first_bytes in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
    with path.open(encoding=encoding, errors="replace") as text_file:
        yield from _bounded_lines(text_file, file_name)


def _bounded_lines(text_file: TextIO, source_name: str) -> Iterator[str]:
    """The lines of a text; a device without an end is one that never ends.

    Raises:
        BadInputError: A line is too long.
    """
    while line := text_file.readline(LINE_CHARACTERS_MAX + 1):
        if len(line) > LINE_CHARACTERS_MAX:
            raise BadInputError(
                f"{source_name}: a line has more than {LINE_CHARACTERS_MAX} characters: this is"
                " no text of kafka-dump-log"
            )
        yield line


def _offsets_text(partition: DumpedPartition) -> str:
    snapshot_text = (
        ""
        if partition.snapshot_offset is None
        else f"producers before {partition.snapshot_offset} (.snapshot)"
    )
    if partition.last_offset is None:
        return snapshot_text or "empty"
    return ", ".join(
        filter(None, (f"{partition.first_offset} to {partition.last_offset}", snapshot_text))
    )


def _print_dump(dumped_answer: DumpedAnswer) -> None:
    for partition in dumped_answer.partitions:
        replicas_text = f", {partition.replicas} replicas" if partition.replicas > 1 else ""
        offsets_text = _offsets_text(partition)
        unread_text = (
            f", {partition.unread_markers} markers of unknown kind"
            if partition.unread_markers
            else ""
        )
        TERMINAL.line(
            f"{partition.partition}: {offsets_text}, {partition.batches} batches,"
            f" {partition.commits} commits, {partition.aborts} aborts{unread_text}{replicas_text}"
        )
        for txn in partition.open:
            condition_text = (
                " as far as the text goes" if txn.verdict is OpenTxnStatus.HANGING else ""
            )
            TERMINAL.line(
                f"  open since offset {txn.start_offset}: producer {txn.producer_id}, epoch"
                f" {txn.producer_epoch}, last write {time_text(txn.last_timestamp_ms)}:"
                f" {txn.verdict}{condition_text}: {txn.reason}."
            )
            if txn.verdict is OpenTxnStatus.HANGING:
                TERMINAL.line(f"  once the brokers run: {why_command(partition.partition)}")
    for txn_entry in dumped_answer.entries:
        partitions_text = ", ".join(sorted(map(str, txn_entry.partitions))) or "no partition"
        TERMINAL.line(
            f"transactional id {txn_entry.transactional_id}: {txn_entry.state}, producer"
            f" {txn_entry.producer_id}, epoch {txn_entry.producer_epoch}, {partitions_text}"
        )
    for sentence in dumped_answer.missing:
        TERMINAL.line(f"missing: {sentence}")
