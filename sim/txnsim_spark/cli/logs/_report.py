"""``txnsim logs report``: what log directories tell of transactions, as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs._find_hanging import status_of, summarize
from txnsim_spark.cli.logs._searching import add_as_of, answering, find, search_of
from txnsim_spark.cli.logs.spark import add_directories, add_master

if TYPE_CHECKING:
    from txnsim_spark.report_page.page import Written

DESCRIPTION: Final = (
    "Write what log directories say of transactions to one HTML file: open transactions with their"
    " evidence and commands, groups that wait, what stands where, a time line of each partition,"
    " figures. It opens without a network, and holds no keys and values of records: none are read"
    " for it. Exit status as that of 'txnsim logs find-hanging'."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs report`` takes."""
    add_directories(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the HTML file; replaced if there"
    )
    add_as_of(parser)
    add_master(parser)
    parser.add_argument("--json", action="store_true", help="what was written, and the findings")


def _read(args: argparse.Namespace) -> Written:
    """Read the directories and write the file."""
    from txnsim_spark.libraries import require_libraries

    require_libraries("jinja2", "matplotlib")
    from txnsim_spark.report_page.page import write_report

    return find(args.master, write_report, search_of(args), args.out)


def _print(written: Written) -> None:
    from txnsim_spark.report_page.page import REMARK

    summarize(written.report)
    TERMINAL.line(
        f"{written.file}: {written.size_bytes} bytes; {written.partitions} partitions,"
        f" {written.transactions} transactions that ended. {REMARK}"
    )


run = answering(_read, _print, lambda written: status_of(written.report))
