"""``txnsim logs decisions``: were we hit? Every decision against every marker."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from txnsim.cli.decision_output import DECISION_STATUSES, print_report, status_of
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.text import unknown_word_message
from txnsim_spark.cli.logs import _decision_story
from txnsim_spark.cli.logs._searching import search_files
from txnsim_spark.cli.logs.spark import add_directory_arguments, add_master_argument

if TYPE_CHECKING:
    from txnsim.txn.decision_report import DecisionReport
    from txnsim.txn.finding_facts import FindingFacts

DESCRIPTION: Final = (
    "Were we hit? Compare every decision of the transaction coordinators with the markers of every"
    " partition that it lists, in log directories of stopped brokers, or in copies of them, of all"
    f" brokers at once. {DECISION_STATUSES} With --story, 0: the story makes the finding again; 1:"
    " it does not; 4: there can be no story of it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_directory_arguments(parser)
    parser.add_argument(
        "--bootstrap-server",
        default="localhost:9092",
        metavar="host:port",
        help="goes into the printed commands (default %(default)s)",
    )
    add_master_argument(parser)
    parser.add_argument(
        "--story",
        metavar="ID",
        help="print a scenario in YAML that makes the finding of this id again, and play it",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _find_decisions(args: argparse.Namespace) -> tuple[DecisionReport, FindingFacts | None]:
    from txnsim.runtime.wall_clock import wall_ms
    from txnsim_spark.forensics.find_hanging import Search
    from txnsim_spark.libraries import require_libraries
    from txnsim_spark.questions.decisions import find_decisions_and_facts

    require_libraries()
    search = Search(
        paths=tuple(args.directory),
        topics=frozenset(args.topic),
        now_ms=wall_ms(),
        bootstrap=args.bootstrap_server,
        with_spark=args.master is not None,
    )
    return search_files(args.master, find_decisions_and_facts, search, args.story)


def run(args: argparse.Namespace) -> int:
    """Compare, and print; returns the exit status."""
    report, facts = _find_decisions(args)
    if args.story is not None:
        if facts is None:
            finding_ids = [finding.id for finding in report.findings]
            TERMINAL.complain(
                f"--story: {unknown_word_message('finding', args.story, finding_ids)}"
            )
            return MISUSE_STATUS
        return _decision_story.run(args, facts)
    if args.json:
        TERMINAL.json(report)
    else:
        print_report(report)
    return status_of(report)
