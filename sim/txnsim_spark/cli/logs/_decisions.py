"""``txnsim logs decisions``: were we hit? Every decision against every marker."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.decision_output import DECISION_STATUSES, print_report, status_of
from txnsim_spark.cli.logs._searching import make_run, search_files
from txnsim_spark.cli.logs.spark import add_directories, add_master

if TYPE_CHECKING:
    from txnsim.txn.decision_report import DecisionReport

DESCRIPTION: Final = (
    "Were we hit? Compare every decision of the transaction coordinators with the markers of every"
    " partition that it lists, in log directories of stopped brokers, or in copies of them, of all"
    f" brokers at once. {DECISION_STATUSES}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``logs decisions``."""
    add_directories(parser)
    parser.add_argument(
        "--bootstrap-server",
        default="localhost:9092",
        metavar="host:port",
        help="goes into the printed commands (default %(default)s)",
    )
    add_master(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _find(args: argparse.Namespace) -> DecisionReport:
    from txnsim.runtime.wall_clock import wall_ms
    from txnsim_spark.forensics.find_hanging import Search
    from txnsim_spark.libraries import require_libraries
    from txnsim_spark.questions.decisions import find_decisions

    require_libraries()
    search = Search(
        paths=tuple(args.directory),
        topics=frozenset(args.topic),
        now_ms=wall_ms(),
        bootstrap=args.bootstrap_server,
        with_spark=args.master is not None,
    )
    return search_files(args.master, find_decisions, search)


run = make_run(_find, print_report, status_of)
