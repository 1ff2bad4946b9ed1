"""``txnsim logs collect``: what a search for hanging transactions needs of a broker, in a file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs._searching import show_progress

if TYPE_CHECKING:
    from txnsim_spark.forensics.collection import Manifest

DESCRIPTION: Final = (
    "Collect on one broker, without stopping it, what a search for hanging transactions needs of"
    " its log directories: one small archive, without records. Then judge the archives of all"
    " brokers in one place: txnsim logs find-hanging *.zip. At the end it prints what it took:"
    " bytes that were read, seconds, and seconds of CPU. Exit status 0: written; 2: a misuse."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs collect`` takes."""
    parser.add_argument(
        "directory", type=Path, nargs="+", metavar="DIR", help="all log directories of the broker"
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="archive to make")
    parser.add_argument("--json", action="store_true", help="as JSON: docs/forensics.md")


def run(args: argparse.Namespace) -> int:
    """Collect; returns the exit status."""
    from txnsim.runtime.wall_clock import wall_ms
    from txnsim_spark.libraries import require_libraries

    started = os.times()
    require_libraries()
    from txnsim_spark.forensics.collection import collect, write_archive
    from txnsim_spark.targets import refuse_existing

    refuse_existing(args.to, "file")
    found = collect(args.directory, now_ms=wall_ms(), progress=show_progress)
    size = write_archive(args.to, found)
    ended = os.times()
    cost = {
        "archive_bytes": size,
        "seconds": ended.elapsed - started.elapsed,
        "cpu_seconds": ended.user + ended.system,
    }
    TERMINAL.tell(args, {"archive": str(args.to), **cost, "manifest": found.manifest}, _lines)
    return 0


def _lines(done: dict[str, Any]) -> tuple[str, ...]:
    manifest: Manifest = done["manifest"]
    for problem in manifest.problems:
        TERMINAL.warn(problem)
    return (
        f"{done['archive']}: {done['archive_bytes']} bytes; {manifest.replicas} replicas,"
        f" {manifest.open_transactions} open transactions,"
        f" {manifest.coordinator_logs} coordinators' logs",
        f"cost: {manifest.read_bytes} of {manifest.segment_bytes} bytes read,"
        f" {done['seconds']:.1f} s, {done['cpu_seconds']:.1f} s of CPU",
    )
