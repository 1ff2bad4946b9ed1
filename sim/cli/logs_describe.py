"""``txnsim logs describe``: what lies in log directories, read without Spark."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sim.cli.output import format_table, print_json, print_line, progress, warn
from sim.cli.parsing import MISUSE_STATUS

if TYPE_CHECKING:
    from sim.storage.replica_summary import ReplicaSummary

DESCRIPTION: Final = (
    "Read every replica in log directories of stopped brokers, or in copies of them, and tell its"
    " offsets, the transactions without an end, and where a segment stops making sense. An open"
    " transaction is not a hanging one yet: its coordinator may know it."
)
HEADERS: Final = ("Replica", "Segments", "Batches", "Bytes", "Offsets", "OpenTransactions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs describe`` takes."""
    parser.add_argument("directory", type=Path, nargs="+", metavar="DIR", help="a log directory")
    parser.add_argument(
        "--topic", action="append", default=[], help="only this topic; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Every replica that is there, one line each; what is torn below."""
    from sim.storage.names import partition_directories
    from sim.storage.replica_summary import summarize

    found: list[ReplicaSummary] = []
    try:
        for log_dir in args.directory:
            for replica in partition_directories(log_dir):
                if not args.topic or replica.topic_partition.topic in args.topic:
                    progress(f"reading {replica.path}")
                    found.append(summarize(replica))
    except OSError as error:
        warn(f"txnsim: {error.filename}: {error.strerror}")
        return MISUSE_STATUS
    if args.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return 0
    rows = [
        (
            one.directory,
            *(str(count) for count in (one.segments, one.batches, one.bytes)),
            f"{one.first_offset}-{one.end_offset}",
            ", ".join(f"{txn.producer_id}@{txn.first_offset}" for txn in one.open_transactions),
        )
        for one in found
    ]
    print_line(format_table(HEADERS, rows).rstrip("\n"))
    for one in found:
        if one.torn is not None:
            print_line(
                f"{one.directory}/{one.torn_file}, byte {one.torn.position}: {one.torn.reason}; "
                f"a broker would cut off {one.torn.size} bytes"
            )
    return 0
